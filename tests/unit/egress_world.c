/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "egress_world.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "egress/address.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define PATIENCE_NS (20 * NS_PER_S)

/* ---- resolver ---- */

struct egress_query {
	struct world_resolver *resolver;
	sd_event_source *timer;
	egress_answer_fn cb;
	void *user;
};

static size_t parse_answers(const char *text, struct egress_address *ret)
{
	size_t n = 0;
	char one[64];

	for (const char *s = text; *s; s += strspn(s, " ")) {
		size_t len = strcspn(s, " ");
		assert_true(len < sizeof(one) && n < EGRESS_ANSWER_MAX);
		memcpy(one, s, len);
		one[len] = '\0';
		assert_int_equal(egress_address_parse(one, &ret[n++]), 0);
		s += len;
	}
	return n;
}

static int on_answer(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct egress_query *q = user;
	struct egress_address addresses[EGRESS_ANSWER_MAX];
	size_t n = parse_answers(q->resolver->answers, addresses);

	q->cb(addresses, n, q->user);
	sd_event_source_disable_unref(source);
	free(q);
	return 0;
}

static struct egress_query *ask(struct egress_resolver *resolver, const char *name,
				egress_answer_fn cb, void *user)
{
	struct world_resolver *r = (struct world_resolver *)resolver;
	struct egress_query *q = calloc(1, sizeof(*q));

	assert_non_null(q);
	*q = (struct egress_query){.resolver = r, .cb = cb, .user = user};
	r->asked++;
	(void)snprintf(r->last, sizeof(r->last), "%s", name);
	if (!r->silent)
		assert_int_equal(
		    sd_event_add_time(r->loop, &q->timer, CLOCK_MONOTONIC, 0, 1, on_answer, q), 0);
	return q;
}

static void cancel(struct egress_query *q)
{
	q->resolver->cancelled++;
	sd_event_source_disable_unref(q->timer);
	free(q);
}

/* ---- canary ---- */

static int on_canary_data(sd_event_source *source, int fd, uint32_t events UNUSED, void *user)
{
	struct egress_world *w = user;
	char piece[4096];
	ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);

	if (n > 0)
		assert_int_equal(buf_add(&w->canary_got, piece, (size_t)n), 0);
	if (n > 0 && w->canary_answers) {
		assert_int_equal(send(fd, "pong", 4, MSG_NOSIGNAL), 4);
		(void)shutdown(fd, SHUT_WR);
	}
	if (n == 0 || (n < 0 && errno != EAGAIN))
		sd_event_source_disable_unref(source);
	return 0;
}

static int on_canary(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *user)
{
	struct egress_world *w = user;
	sd_event_source *io = NULL;
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (client < 0)
		return 0;
	w->canary_connections++;
	assert_true(sd_event_add_io(w->loop, &io, client, EPOLLIN, on_canary_data, w) >= 0);
	assert_true(sd_event_source_set_io_fd_own(io, true) >= 0);
	assert_true(sd_event_source_set_floating(io, true) >= 0);
	sd_event_source_unref(io); /* the loop has it now */
	return 0;
}

static int listen_on(const char *host, uint16_t *ret_port)
{
	struct egress_address a;
	struct sockaddr_storage sa;
	struct sockaddr_in6 got;
	socklen_t len = sizeof(got);

	assert_int_equal(egress_address_parse(host, &a), 0);
	int fd = socket(a.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(fd >= 0);
	socklen_t sa_len = egress_address_socket(&a, 0, &sa);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sa_len), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&got, &len), 0);
	*ret_port = ntohs(got.sin6_port); /* the same place in both families */
	return fd;
}

/* ---- the world ---- */

static void on_event(const struct egress_event *event, void *user)
{
	struct egress_world *w = user;

	switch (event->verdict) {
	case EGRESS_ALLOWED:
		w->events.allowed++;
		break;
	case EGRESS_REFUSED:
		w->events.refused++;
		break;
	case EGRESS_ENDED:
		w->events.ended++;
		w->events.sent = event->sent;
		w->events.received = event->received;
		break;
	}
	(void)snprintf(w->events.reason, sizeof(w->events.reason), "%s", event->reason);
	(void)snprintf(w->events.host, sizeof(w->events.host), "%s", event->host);
	(void)snprintf(w->events.address, sizeof(w->events.address), "%s", event->address);
}

void egress_world_begin(struct egress_world *w)
{
	struct err e = ERR_INIT;

	*w = (struct egress_world){.canary_got = BUF_INIT(1u << 24), .canary_answers = true};
	assert_true(sd_event_new(&w->loop) >= 0);
	w->resolver = (struct world_resolver){
	    .resolver = {.ask = ask, .cancel = cancel}, .loop = w->loop, .answers = "127.0.0.1"};
	/* Every address of the machine, IPv6 too where there is any. */
	int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	w->canary = listen_on(probe >= 0 ? "::" : "0.0.0.0", &w->canary_port);
	(void)fd_close(probe);
	assert_true(sd_event_add_io(w->loop, &w->canary_io, w->canary, EPOLLIN, on_canary, w) >= 0);
	struct egress_config config = {
	    .loop = w->loop, .resolver = &w->resolver.resolver, .audit = on_event, .user = w};
	assert_int_equal(egress_new(&config, &w->egress, &e), 0);
}

void egress_world_end(struct egress_world *w)
{
	w->egress = egress_free(w->egress);
	sd_event_source_disable_unref(w->canary_io);
	(void)fd_close(w->canary);
	buf_done(&w->canary_got);
	sd_event_unref(w->loop);
}

void egress_world_gate(struct egress_world *w, struct egress_policy *policy,
		       const struct egress_limits *limits)
{
	struct err e = ERR_INIT;
	int fd = listen_on("127.0.0.1", &w->gate_port);

	w->gate = egress_close_gate(w->gate);
	assert_int_equal(egress_open_gate(w->egress, fd, "test", policy, limits, &w->gate, &e), 0);
	(void)egress_policy_unref(policy);
}

void egress_world_fill(const struct egress_world *w, const char *template, size_t len,
		       struct buf *ret)
{
	for (size_t i = 0; i < len; i++) {
		if (len - i >= 3 && memcmp(template + i, "{P}", 3) == 0) {
			assert_int_equal(buf_printf(ret, "%u", w->canary_port), 0);
			i += 2;
		} else {
			assert_int_equal(buf_add_char(ret, template[i]), 0);
		}
	}
}

int egress_world_client(struct egress_world *w)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = htons(w->gate_port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(fd_set_nonblock(fd, true), 0);
	return fd;
}

void egress_world_send(int fd, const void *data, size_t len)
{
	assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), len);
}

static void turn(struct egress_world *w, uint64_t begin)
{
	assert_true(sd_event_run(w->loop, 10000) >= 0);
	if (now_ns() - begin > PATIENCE_NS)
		fail_msg("nothing came; last reason '%s'", w->events.reason);
}

void egress_world_until(struct egress_world *w, const unsigned *what, unsigned n)
{
	uint64_t begin = now_ns();

	while (*what < n)
		turn(w, begin);
}

static bool read_some(int fd, struct buf *ret)
{
	char piece[65536];
	ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);

	if (n > 0)
		assert_int_equal(buf_add(ret, piece, (size_t)n), 0);
	return n > 0 || (n < 0 && errno == EAGAIN);
}

void egress_world_read(struct egress_world *w, int fd, struct buf *ret)
{
	uint64_t begin = now_ns();

	while (read_some(fd, ret))
		turn(w, begin);
}

void egress_world_expect(struct egress_world *w, int fd, struct buf *ret, const char *what)
{
	uint64_t begin = now_ns();

	while (!strstr(buf_str(ret), what)) {
		assert_true(read_some(fd, ret));
		turn(w, begin);
	}
}

/* ---- TLS ---- */

static void put(struct buf *b, unsigned bytes, size_t value)
{
	for (unsigned i = bytes; i-- > 0;)
		assert_int_equal(buf_add_char(b, (char)(value >> (8 * i) & 0xff)), 0);
}

static void put_bytes(struct buf *b, const void *data, size_t len)
{
	assert_int_equal(buf_add(b, data, len), 0);
}

static void put_name(struct buf *b, const char *name, size_t len, unsigned times)
{
	put(b, 2, 0);
	put(b, 2, 2 + times * (3 + len));
	put(b, 2, times * (3 + len));
	for (unsigned i = 0; i < times; i++) {
		put(b, 1, 0);
		put(b, 2, len);
		put_bytes(b, name, len);
	}
}

static void put_extensions(struct buf *b, enum hello_kind kind)
{
	static const char good[] = "good.example.org";
	static const char nul[] = "good.example.org\0.evil.net";
	static const uint8_t versions[] = {0, 43, 0, 3, 2, 3, 4};

	put_bytes(b, versions, sizeof(versions));
	if (kind == HELLO_EVIL)
		put_name(b, "evil.net", 8, 1);
	else if (kind == HELLO_NUL_NAME)
		put_name(b, nul, sizeof(nul) - 1, 1);
	else if (kind == HELLO_DOT_NAME)
		put_name(b, "good.example.org.", 17, 1);
	else if (kind == HELLO_ADDRESS_NAME)
		put_name(b, "127.0.0.1", 9, 1);
	else if (kind != HELLO_UNNAMED)
		put_name(b, good, sizeof(good) - 1, kind == HELLO_TWO_NAMES ? 2 : 1);
	if (kind == HELLO_TWICE)
		put_name(b, good, sizeof(good) - 1, 1);
	if (kind == HELLO_ECH) {
		put(b, 2, 0xfe0d);
		put(b, 2, 4);
		put(b, 4, 1);
	}
}

static void put_message(struct buf *b, enum hello_kind kind)
{
	_cleanup_(buf_done) struct buf ext = BUF_INIT(4096);
	_cleanup_(buf_done) struct buf body = BUF_INIT(4096);

	put(&body, 2, 0x0303);
	for (int i = 0; i < 32; i++)
		put(&body, 1, 0xaa);
	put(&body, 1, 0);
	put(&body, 2, 4);
	put(&body, 4, 0x13011302);
	put(&body, 2, 0x0100);
	if (kind != HELLO_BARE) {
		put_extensions(&ext, kind);
		put(&body, 2, ext.len + (kind == HELLO_LYING ? 40 : 0));
		put_bytes(&body, ext.data, ext.len);
	}
	put(b, 1, 1);
	put(b, 3, body.len);
	put_bytes(b, body.data, body.len);
	if (kind == HELLO_TRAILED)
		put(b, 4, 0x14000000);
}

static void put_record(struct buf *b, const char *data, size_t len)
{
	put(b, 3, 0x160301);
	put(b, 2, len);
	put_bytes(b, data, len);
}

void egress_world_hello(enum hello_kind kind, struct buf *ret)
{
	static const char ssl2[] = "\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10";
	static const char http[] = "GET / HTTP/1.1\r\nHost: good.example.org\r\n\r\n";
	static const char ssh[] = "SSH-2.0-OpenSSH_9.2\r\n";
	static const char alert[] = "\x15\x03\x01\x00\x02\x01\x00";
	_cleanup_(buf_done) struct buf message = BUF_INIT(8192);
	size_t first;

	put_message(&message, kind);
	first = kind == HELLO_FRAGMENTED ? message.len / 2 : kind == HELLO_ONE_BYTE ? 1 : 0;
	if (kind == HELLO_NOTHING)
		return;
	if (kind == HELLO_SSL2)
		put_bytes(ret, ssl2, sizeof(ssl2) - 1);
	else if (kind == HELLO_HTTP)
		put_bytes(ret, http, sizeof(http) - 1);
	else if (kind == HELLO_SSH)
		put_bytes(ret, ssh, sizeof(ssh) - 1);
	else if (kind == HELLO_ALERT)
		put_bytes(ret, alert, sizeof(alert) - 1);
	else {
		if (first > 0)
			put_record(ret, message.data, first);
		put_record(ret, message.data + first, message.len - first);
	}
}
