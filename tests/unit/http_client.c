/* SPDX-License-Identifier: Apache-2.0 */
#include "http_client.h"

#include "http/static_keys.h"

#include "base/rand.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define PATIENCE_NS (30 * NS_PER_S) /* a test that needs it has failed */
#define TURN_US     2000

static void client_init(struct http_client *c, sd_event *loop, int fd)
{
	*c = (struct http_client){.loop = loop, .fd = fd, .data = calloc(1, 1)};
	ASSERT(fd >= 0 && c->data);
}

void client_open(struct http_client *c, sd_event *loop, uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	client_init(c, loop, socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	ASSERT(connect(c->fd, (const struct sockaddr *)&in, sizeof(in)) == 0);
}

void client_close(struct http_client *c)
{
	c->fd = fd_close(c->fd);
	free(TAKE_PTR(c->data));
}

bool client_take(struct http_client *c)
{
	char buf[65536];
	const ssize_t n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n < 0) {
		c->reset = c->reset || errno == ECONNRESET;
		c->eof = c->eof || errno == ECONNRESET;
		return false;
	}
	if (n == 0) {
		c->eof = true;
		return false;
	}
	c->data = realloc(c->data, c->len + (size_t)n + 1);
	ASSERT(c->data);
	memcpy(c->data + c->len, buf, (size_t)n);
	c->len += (size_t)n;
	c->data[c->len] = '\0';
	return true;
}

static void turn(struct http_client *c)
{
	ASSERT(sd_event_run(c->loop, TURN_US) >= 0);
}

void client_send(struct http_client *c, const void *data, size_t len)
{
	const char *p = data;
	const uint64_t end = now_ns() + PATIENCE_NS;

	while (len > 0 && !c->eof && now_ns() < end) {
		const ssize_t n = send(c->fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0) {
			p += n;
			len -= (size_t)n;
		} else if (errno != EAGAIN) {
			break;
		}
		(void)client_take(c);
		turn(c);
	}
}

void client_send_str(struct http_client *c, const char *s)
{
	client_send(c, s, strlen(s));
}

bool client_wait_for(struct http_client *c, const char *text)
{
	const uint64_t end = now_ns() + PATIENCE_NS;

	while (!memmem(c->data, c->len, text, strlen(text))) {
		if (c->eof || now_ns() > end)
			return false;
		if (!client_take(c))
			turn(c);
	}
	return true;
}

void client_wait_eof(struct http_client *c)
{
	const uint64_t end = now_ns() + PATIENCE_NS;

	while (!c->eof && now_ns() < end)
		if (!client_take(c))
			turn(c);
}

void client_pump(struct http_client *c, unsigned ms)
{
	const uint64_t end = now_ns() + ms * NS_PER_MS;

	while (now_ns() < end)
		if (!client_take(c))
			turn(c);
}

void client_clear(struct http_client *c)
{
	c->len = 0;
	c->data[0] = '\0';
}

int client_status(const struct http_client *c)
{
	if (c->len < 12 || memcmp(c->data, "HTTP/1.1 ", 9) != 0)
		return 0;
	return (c->data[9] - '0') * 100 + (c->data[10] - '0') * 10 + c->data[11] - '0';
}

bool client_check_key(struct http_request *req, void *userdata)
{
	const char *key = http_request_key(req);
	const char *principal = key ? http_keys_find(userdata, key) : NULL;

	if (!principal) {
		http_respond_problem(req, ERR_UNAUTHORIZED,
				     key ? "The API key is not valid" : "Authentication required",
				     NULL);
		return false;
	}
	http_request_set_principal(req, principal);
	return true;
}
