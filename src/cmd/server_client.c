/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/server_client.h"

#include "app/read_settings.h"
#include "base/base64.h"
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "http/ws_accept.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)16 << 20)
#define HEAD_MAX   4096u /* bytes of a request's head */
#define HEAD_END   "\r\n\r\n"
#define KEY_BYTES  16u /* RFC 6455 §4.1 */
#define PATIENCE_S 10

/* One can listen on a wildcard address but not connect to it. */
static const char *address_to_call(const char *host)
{
	if (streq(host, "0.0.0.0"))
		return "127.0.0.1";
	return streq(host, "::") ? "::1" : host;
}

static int dial(const char *host, uint16_t port, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct timeval patience = {.tv_sec = PATIENCE_S};
	struct addrinfo *all;
	char service[8];
	int fd = -1;

	(void)snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(address_to_call(host), service, &hints, &all) != 0)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "no address for '%s'", host);
	for (const struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
		if (fd < 0)
			continue;
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		if (connect(fd, a->ai_addr, a->ai_addrlen) < 0)
			fd = fd_close(fd);
	}
	freeaddrinfo(all);
	if (fd < 0)
		return err_set(e, ERR_NOT_FOUND, 0,
			       "no server at %s port %u; start one with 'caisson serve'", host,
			       port);
	return fd;
}

static int exchange(int fd, const struct settings *s, const char *method, const char *path,
		    const char *body, size_t len, struct buf *answer, struct err *e)
{
	_cleanup_(buf_done) struct buf head = BUF_INIT(HEAD_MAX);
	char piece[65536];
	ssize_t n;

	int r = buf_printf(&head,
			   "%s %s HTTP/1.1\r\nHost: localhost\r\n"
			   "Accept: application/json\r\nConnection: close\r\n%s%s%s",
			   method, path, s->api_key[0] ? "X-API-Key: " : "", s->api_key,
			   s->api_key[0] ? "\r\n" : "");
	if (r == 0 && body)
		r = buf_printf(&head, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
			       len);
	r = r < 0 ? r : buf_add_str(&head, "\r\n");
	r = r < 0 ? r : fd_write_all(fd, head.data, head.len);
	r = r < 0 || !body ? r : fd_write_all(fd, body, len);
	while (r == 0 && (n = read(fd, piece, sizeof(piece))) != 0)
		r = n < 0 ? -errno : buf_add(answer, piece, (size_t)n);
	r = r < 0 ? r : buf_add(answer, "", 1);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the server's answer") : 0;
}

/* The status of the answer, whose body begins at *RET_BODY. */
static int parse_answer(const struct buf *answer, unsigned *ret_status, const char **ret_body,
			struct err *e)
{
	uint64_t status;
	const char *end = strstr(buf_str(answer), HEAD_END);

	if (!end || !text_starts_with(answer->data, "HTTP/1.1 ") ||
	    parse_u64_n(answer->data + strlen("HTTP/1.1 "), 3, 100, 599, &status) < 0)
		return err_set(e, ERR_SYSTEM, 0, "what listens there is no Caisson");
	*ret_status = (unsigned)status;
	*ret_body = end + strlen(HEAD_END);
	return 0;
}

int server_call(const struct settings *s, const char *method, const char *path, const json_t *body,
		unsigned *ret_status, json_t **ret, struct err *e)
{
	_cleanup_(buf_done) struct buf answer = BUF_INIT(ANSWER_MAX);
	char host[READ_HOST_SIZE];
	const char *said;
	size_t len = 0;
	uint16_t port;
	_cleanup_free_ char *text = body ? jsonio_text(body, JSON_COMPACT, &len) : NULL;

	if (body && !text)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a request");
	int r = read_server_address(s, host, &port, e);
	if (r < 0)
		return r;
	_cleanup_fd_ int fd = dial(host, port, e);
	r = fd < 0 ? fd : exchange(fd, s, method, path, text, len, &answer, e);
	r = r < 0 ? r : parse_answer(&answer, ret_status, &said, e);
	if (r < 0)
		return r;
	*ret = NULL;
	(void)!jsonio_read(said, strlen(said), 0, ret, NULL);
	return 0;
}

/* An answer that is no success. */
static int refuse(unsigned status, const json_t *answer, struct err *e)
{
	const char *detail = json_string_value(json_object_get(answer, "detail"));

	if (status == 401)
		return err_set(
		    e, ERR_UNAUTHORIZED, 0,
		    "the server wants a key: set SANDBOX_API_KEY to its key or a user's");
	if (detail && status / 100 == 4)
		return err_set(e, status == 404 ? ERR_NOT_FOUND : ERR_INVALID_ARGUMENT, 0, "%s",
			       detail);
	return err_set(e, ERR_SYSTEM, 0, "the server answered with status %u%s%s", status,
		       detail ? ": " : "", detail ? detail : "");
}

int server_ask(const struct settings *s, const char *method, const char *path, const json_t *body,
	       json_t **ret, struct err *e)
{
	unsigned status = 0;
	json_t *answer = NULL;
	int r = server_call(s, method, path, body, &status, &answer, e);

	if (r < 0)
		return r;
	if (status == 204 || (status / 100 == 2 && answer)) {
		*ret = answer;
		return 0;
	}
	r = refuse(status, answer, e);
	json_decref(answer);
	return r;
}

/* Asks for a WebSocket, and reads until the head of the answer is there, or all of one that refuses. */
static int upgrade(int fd, const struct settings *s, const char *path, const char *key,
		   struct buf *answer, struct err *e)
{
	_cleanup_(buf_done) struct buf head = BUF_INIT(HEAD_MAX);
	char piece[4096];
	ssize_t n;

	int r = buf_printf(
	    &head,
	    "GET %s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n%s%s%s\r\n",
	    path, key, s->api_key[0] ? "X-API-Key: " : "", s->api_key, s->api_key[0] ? "\r\n" : "");
	r = r < 0 ? r : fd_write_all(fd, head.data, head.len);
	while (r == 0 &&
	       !(text_starts_with(buf_str(answer), "HTTP/1.1 101 ") &&
		 strstr(buf_str(answer), HEAD_END)) &&
	       (n = read(fd, piece, sizeof(piece))) != 0)
		r = n < 0 ? -errno : buf_add(answer, piece, (size_t)n);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the server's answer") : 0;
}

int server_open_socket(const struct settings *s, const char *path, struct buf *ret_first,
		       struct err *e)
{
	_cleanup_(buf_done) struct buf answer = BUF_INIT(ANSWER_MAX);
	unsigned char nonce[KEY_BYTES];
	char host[READ_HOST_SIZE], key[BASE64_ENCODED_LEN(KEY_BYTES) + 1] = "";
	char accept[WS_ACCEPT_SIZE];
	json_t *doc = NULL;
	const char *rest;
	unsigned status;
	uint16_t port;

	rand_bytes(nonce, sizeof(nonce));
	base64_encode(nonce, sizeof(nonce), key);
	ws_accept(key, accept);
	int r = read_server_address(s, host, &port, e);
	if (r < 0)
		return r;
	_cleanup_fd_ int fd = dial(host, port, e);
	r = fd < 0 ? fd : upgrade(fd, s, path, key, &answer, e);
	r = r < 0 ? r : parse_answer(&answer, &status, &rest, e);
	if (r < 0)
		return r;
	if (status != 101) {
		(void)!jsonio_read(rest, strlen(rest), 0, &doc, NULL);
		r = refuse(status, doc, e);
		json_decref(doc);
		return r;
	}
	const char *proof = strstr(answer.data, accept);
	if (!proof || proof > rest)
		return err_set(e, ERR_SYSTEM, 0, "what listens there speaks no WebSocket");
	r = buf_add(ret_first, rest, answer.len - (size_t)(rest - answer.data));
	r = r < 0 ? r : fd_set_nonblock(fd, true);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the connection") : TAKE_FD(fd);
}

void server_print_line(const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		bool c1 = text_is_c1((const char *)c);

		(void)putchar(*c < ' ' || *c == 0x7f || c1 ? '?' : *c);
		c += c1;
	}
	(void)putchar('\n');
}

int server_print_json(const json_t *doc)
{
	return json_dumpf(doc, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF ? 0 : -EIO;
}
