/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson ps`: lists the sandboxes of the server that the settings name (`server.listen`,
 * `auth.api_key`), over its REST API. With an administrator's key those of all users.
 * `--health`: the health check of a container, which then needs no HTTP client. */
#include "app/read_settings.h"
#include "cmd/cmd.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/parse.h"
#include "base/text.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define VERB       "ps"
#define ANSWER_MAX ((size_t)16 << 20)
#define PATIENCE_S 10
#define LIST_PATH  "/api/v1/sandboxes?all=true"
#define READY_PATH "/readyz" /* for everybody, without a key */

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

static int ask(int fd, const char *path, const struct settings *s, struct buf *answer,
	       struct err *e)
{
	_cleanup_(buf_done) struct buf question = BUF_INIT(4096);
	char piece[65536];
	ssize_t n;

	int r = buf_printf(&question,
			   "GET %s HTTP/1.1\r\nHost: localhost\r\n"
			   "Accept: application/json\r\nConnection: close\r\n%s%s%s\r\n",
			   path, s->api_key[0] ? "X-API-Key: " : "", s->api_key,
			   s->api_key[0] ? "\r\n" : "");
	r = r < 0 ? r : fd_write_all(fd, question.data, question.len);
	while (r == 0 && (n = read(fd, piece, sizeof(piece))) != 0)
		r = n < 0 ? -errno : buf_add(answer, piece, (size_t)n);
	r = r < 0 ? r : buf_add(answer, "", 1);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the server's answer") : 0;
}

static int read_status(const struct buf *answer, const char **ret_body, uint64_t *ret_status,
		       struct err *e)
{
	const char *body = strstr(answer->data, "\r\n\r\n");

	if (!body || !text_starts_with(answer->data, "HTTP/1.1 ") ||
	    parse_u64_n(answer->data + strlen("HTTP/1.1 "), 3, 100, 599, ret_status) < 0)
		return err_set(e, ERR_SYSTEM, 0, "what listens there is no Caisson");
	*ret_body = body + 4;
	return 0;
}

static int read_answer(const struct buf *answer, json_t **ret, struct err *e)
{
	const char *body = "";
	uint64_t status = 0;
	int r = read_status(answer, &body, &status, e);

	if (r < 0)
		return r;
	if (status == 401)
		return err_set(
		    e, ERR_UNAUTHORIZED, 0,
		    "the server wants a key: set SANDBOX_API_KEY to its key or a user's");
	if (status != 200 || jsonio_read(body, strlen(body), 0, ret, NULL) < 0)
		return err_set(e, ERR_SYSTEM, 0, "the server answered with status %u",
			       (unsigned)status);
	return 0;
}

/* A duration in its largest unit, such as "3h". */
static const char *span(json_int_t s, char ret[24])
{
	static const struct {
		json_int_t s;
		char unit;
	} units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}};

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (s < units[i].s)
			continue;
		(void)snprintf(ret, 24, "%lld%c", (long long)(s / units[i].s), units[i].unit);
		return ret;
	}
	(void)snprintf(ret, 24, "%llds", (long long)s);
	return ret;
}

/* The owner chose the name, so control characters in it must not reach the terminal. */
static void print_name(const char *name)
{
	for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
		bool c1 = text_is_c1((const char *)c);

		(void)putchar(*c < ' ' || *c == 0x7f || c1 ? '?' : *c);
		c += c1;
	}
	(void)putchar('\n');
}

/* OWNERS: there are sandboxes of other users than the local one. */
static void print_row(const json_t *b, bool owners)
{
	const char *name = json_string_value(json_object_get(b, "name"));
	const json_t *idle = json_object_get(b, "idle_s");
	bool busy = json_is_true(json_object_get(b, "busy"));
	char age[24];
	char rest[24];

	(void)printf("%-36s  %-7s  %-7s  %5s  %5s  ", json_string_value(json_object_get(b, "id")),
		     json_string_value(json_object_get(b, "kind")),
		     busy ? "running" : json_string_value(json_object_get(b, "state")),
		     span(json_integer_value(json_object_get(b, "age_s")), age),
		     idle ? span(json_integer_value(idle), rest) : "-");
	if (owners) {
		const char *owner = json_string_value(json_object_get(b, "owner"));
		(void)printf("%-36s  ", owner && *owner ? owner : "-");
	}
	print_name(name ? name : "");
}

/* Whether a row belongs to somebody with an account. */
static bool has_owners(const json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		const char *owner = json_string_value(json_object_get(row, "owner"));

		if (owner && *owner)
			return true;
	}
	return false;
}

static int get(const char *path, const struct settings *s, struct buf *answer, struct err *e)
{
	char host[READ_HOST_SIZE];
	uint16_t port;
	int r = read_server_address(s, host, &port, e);

	if (r < 0)
		return r;
	_cleanup_fd_ int fd = dial(host, port, e);
	return fd < 0 ? fd : ask(fd, path, s, answer, e);
}

static int health(const struct settings *s, struct err *e)
{
	_cleanup_(buf_done) struct buf answer = BUF_INIT(ANSWER_MAX);
	const char *body = "";
	uint64_t status = 0;
	int r = get(READY_PATH, s, &answer, e);

	r = r < 0 ? r : read_status(&answer, &body, &status, e);
	if (r == 0 && status != 200)
		r = err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "the server cannot make sandboxes");
	if (r == 0)
		(void)puts("ready");
	return r;
}

static int list(const struct settings *s, struct err *e)
{
	_cleanup_(buf_done) struct buf answer = BUF_INIT(ANSWER_MAX);
	json_t *doc = NULL;
	json_t *row;
	size_t i;
	int r = get(LIST_PATH, s, &answer, e);

	r = r < 0 ? r : read_answer(&answer, &doc, e);
	if (r < 0)
		return r;
	const json_t *rows = json_object_get(doc, "sandboxes");
	const bool owners = has_owners(rows);
	(void)printf("%-36s  %-7s  %-7s  %5s  %5s  %s%s\n", "ID", "KIND", "STATE", "AGE", "IDLE",
		     owners ? "OWNER                                 " : "", "NAME");
	json_array_foreach(rows, i, row)
		print_row(row, owners);
	json_decref(doc);
	return 0;
}

int cmd_ps(int argc, char **argv)
{
	_cleanup_(settings_done) struct settings settings = {0};
	struct err e = ERR_INIT;
	bool only_health = false;

	if (read_settings(&settings, true, &argc, argv, &e) < 0)
		return cmd_fail(VERB, &e);
	for (int i = 1; i < argc; i++) {
		if (!streq(argv[i], "--health"))
			return cmd_unknown(VERB, argv[i], &e) < 0 ? cmd_fail(VERB, &e) : 0;
		only_health = true;
	}
	if (only_health && health(&settings, &e) < 0) {
		(void)cmd_fail(VERB, &e);
		return EXIT_FAILURE; /* the only failure that Docker defines for a health check */
	}
	if (only_health)
		return 0;
	return list(&settings, &e) < 0 ? cmd_fail(VERB, &e) : 0;
}
