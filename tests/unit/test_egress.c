/* SPDX-License-Identifier: Apache-2.0 */
/* The filtering proxy: what passes, what does not, and that nothing leaves where it should not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "egress_world.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "egress/gate.h"
#include "egress/head.h"
#include "egress/hello.h"
#include "egress/host.h"
#include "egress/policy.h"

#include <string.h>
#include <sys/socket.h>

enum trick_policy { ALLOW, TRUST, OPEN, EMPTY, NONE, INDEX };

struct trick {
	const char *name;
	enum trick_policy policy;
	const char *answers;
	const char *request;
	size_t len;
	enum hello_kind hello;
	const char *reason;
};

static const struct trick tricks[] = {
#define T(name, policy, answers, request, hello, reason)                                           \
	{name, policy, answers, request, sizeof(request) - 1, HELLO_##hello, reason},
#include "egress_tricks.tbl.h"
#undef T
};

static struct egress_policy *make_policy(const struct egress_world *w, enum trick_policy which)
{
	static const enum egress_kind kinds[] = {
	    [ALLOW] = EGRESS_ALLOWLIST, [TRUST] = EGRESS_ALLOWLIST, [OPEN] = EGRESS_OPEN,
	    [EMPTY] = EGRESS_ALLOWLIST, [NONE] = EGRESS_NONE,       [INDEX] = EGRESS_PACKAGES};
	struct egress_policy *p = egress_policy_new(kinds[which]);
	struct err e = ERR_INIT;
	char list[200] = "";

	assert_non_null(p);
	if (which == ALLOW || which == INDEX)
		(void)snprintf(list, sizeof(list), "good.example.org:%u *.wild.example.org:%u",
			       w->canary_port, w->canary_port);
	assert_int_equal(egress_policy_add(p, list, &e), 0);
	if (which == TRUST)
		assert_int_equal(egress_policy_trust(p, "good.example.org", w->canary_port, &e), 0);
	if (which == INDEX) {
		assert_int_equal(egress_policy_index(p, "/simple/"), 0);
		egress_policy_allow_special(p);
	}
	return p;
}

static int setup(void **state)
{
	struct egress_world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	egress_world_begin(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	egress_world_end(*state);
	free(*state);
	return 0;
}

/* ---- tricks ---- */

static void try_trick(struct egress_world *w, const struct trick *t)
{
	_cleanup_(buf_done) struct buf request = BUF_INIT(65536);
	_cleanup_(buf_done) struct buf hello = BUF_INIT(65536);
	_cleanup_(buf_done) struct buf answer = BUF_INIT(65536);
	_cleanup_fd_ int client = -1;
	unsigned refused = w->events.refused;

	egress_world_gate(w, make_policy(w, t->policy), NULL);
	w->resolver.answers = t->answers;
	egress_world_fill(w, t->request, t->len, &request);
	egress_world_hello(t->hello, &hello);
	client = egress_world_client(w);
	egress_world_send(client, request.data, request.len);
	if (hello.len > 0 && t->policy == TRUST && text_starts_with(t->request, "CONNECT good.e") &&
	    (streq(t->reason, "not_tls") || strstr(t->reason, "server_name") ||
	     streq(t->reason, "tls_fragmented")))
		egress_world_expect(w, client, &answer, "200 Connection established");
	if (hello.len > 0)
		egress_world_send(client, hello.data, hello.len);
	egress_world_until(w, &w->events.refused, refused + 1);
	(void)shutdown(client, SHUT_WR);
	egress_world_read(w, client, &answer);
	if (!streq(w->events.reason, t->reason))
		fail_msg("%s: '%s' instead of '%s'", t->name, w->events.reason, t->reason);
	if (w->events.allowed > 0 || w->canary_got.len > 0)
		fail_msg("%s: %zu bytes have left", t->name, w->canary_got.len);
}

static void test_tricks(void **state)
{
	assert_true(ARRAY_SIZE(tricks) >= 60);
	for (size_t i = 0; i < ARRAY_SIZE(tricks); i++)
		try_trick(*state, &tricks[i]);
}

/* What the proxy turns down costs no question either: names are a way out, too. */
static void test_refused_names_are_not_asked_for(void **state)
{
	struct egress_world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(tricks); i++) {
		const char *why = tricks[i].reason;
		unsigned before = w->resolver.asked;

		try_trick(w, &tricks[i]);
		bool known = streq(why, "address_refused") || streq(why, "resolve_failed") ||
			     streq(why, "not_tls") || strstr(why, "server_name") ||
			     streq(why, "tls_fragmented");
		assert_int_equal(w->resolver.asked - before, known ? 1 : 0);
	}
}

/* ---- what passes ---- */

static void test_tunnel(void **state)
{
	struct egress_world *w = *state;
	_cleanup_(buf_done) struct buf request = BUF_INIT(4096);
	_cleanup_(buf_done) struct buf hello = BUF_INIT(4096);
	_cleanup_(buf_done) struct buf answer = BUF_INIT(4096);
	static const char connect[] =
	    "CONNECT GOOD.example.ORG:{P} HTTP/1.1\r\nHost: good.EXAMPLE.org:{P}\r\n\r\n";

	egress_world_gate(w, make_policy(w, TRUST), NULL);
	egress_world_fill(w, connect, sizeof(connect) - 1, &request);
	egress_world_hello(HELLO_GOOD, &hello);
	_cleanup_fd_ int client = egress_world_client(w);
	egress_world_send(client, request.data, request.len);
	egress_world_expect(w, client, &answer, "established\r\n\r\n");
	/* The greeting byte by byte: nothing passes before it is whole. */
	for (size_t i = 0; i < hello.len; i++) {
		assert_int_equal(w->canary_got.len, 0);
		egress_world_send(client, hello.data + i, 1);
		assert_true(sd_event_run(w->loop, 10000) >= 0);
	}
	egress_world_expect(w, client, &answer, "pong");
	assert_int_equal(w->canary_got.len, hello.len);
	assert_memory_equal(w->canary_got.data, hello.data, hello.len);
	(void)shutdown(client, SHUT_WR);
	egress_world_until(w, &w->events.ended, 1);
	assert_string_equal(w->events.reason, "ok");
	assert_string_equal(w->events.host, "good.example.org");
	assert_string_equal(w->events.address, "127.0.0.1");
	assert_int_equal(w->events.sent, hello.len);
	assert_int_equal(w->events.received, 4);
	assert_int_equal(w->resolver.asked, 1);
	assert_string_equal(w->resolver.last, "good.example.org");
}

/* The head is written anew, and a second request behind the first goes nowhere. */
static void test_plain_request(void **state)
{
	struct egress_world *w = *state;
	_cleanup_(buf_done) struct buf request = BUF_INIT(4096);
	_cleanup_(buf_done) struct buf expected = BUF_INIT(4096);
	_cleanup_(buf_done) struct buf answer = BUF_INIT(4096);
	static const char plain[] =
	    "POST http://good.example.org:{P}/a?b=c HTTP/1.1\r\nHost: GOOD.example.org:{P}\r\n"
	    "Proxy-Authorization: Basic c2VjcmV0\r\nAccept: */*\r\nConnection: keep-alive\r\n"
	    "Content-Length: 4\r\n\r\nbodyGET http://evil.net/ HTTP/1.1\r\nHost: evil.net\r\n\r\n";
	static const char forwarded[] =
	    "POST /a?b=c HTTP/1.1\r\nHost: good.example.org:{P}\r\nAccept: */*\r\n"
	    "Content-Length: 4\r\nConnection: close\r\n\r\nbody";

	egress_world_gate(w, make_policy(w, TRUST), NULL);
	egress_world_fill(w, plain, sizeof(plain) - 1, &request);
	egress_world_fill(w, forwarded, sizeof(forwarded) - 1, &expected);
	_cleanup_fd_ int client = egress_world_client(w);
	egress_world_send(client, request.data, request.len);
	egress_world_read(w, client, &answer);
	assert_string_equal(buf_str(&answer), "pong");
	assert_int_equal(w->canary_got.len, expected.len);
	assert_memory_equal(w->canary_got.data, expected.data, expected.len);
	assert_int_equal(w->canary_connections, 1);
}

/* Asks for /first of the canary, which does not answer; the client whose request was let through.
 */
static int ask_unanswered(struct egress_world *w, struct buf *request)
{
	static const char plain[] =
	    "GET http://good.example.org:{P}/first HTTP/1.1\r\nHost: good.example.org:{P}\r\n\r\n";

	w->canary_answers = false;
	egress_world_gate(w, make_policy(w, TRUST), NULL);
	egress_world_fill(w, plain, sizeof(plain) - 1, request);
	int client = egress_world_client(w);
	egress_world_send(client, request->data, request->len);
	egress_world_until(w, &w->events.allowed, 1);
	return client;
}

/* On a connection kept open, what follows the request is not even looked at. */
static void test_second_request_goes_nowhere(void **state)
{
	struct egress_world *w = *state;
	_cleanup_(buf_done) struct buf request = BUF_INIT(4096);
	_cleanup_fd_ int client = ask_unanswered(w, &request);

	while (w->canary_got.len == 0)
		assert_true(sd_event_run(w->loop, 10000) >= 0);
	size_t first = w->canary_got.len;
	egress_world_send(client, request.data, request.len);
	for (int i = 0; i < 20; i++)
		assert_true(sd_event_run(w->loop, 5000) >= 0);
	assert_int_equal(w->canary_got.len, first);
}

/* ---- limits ---- */

static void test_limits(void **state)
{
	struct egress_world *w = *state;
	struct egress_limits limits = egress_limits_default;
	_cleanup_(buf_done) struct buf request = BUF_INIT(4096);
	_cleanup_(buf_done) struct buf answer = BUF_INIT(65536);
	static const char plain[] =
	    "GET http://good.example.org:{P}/ HTTP/1.1\r\nHost: good.example.org:{P}\r\n\r\n";

	limits.bytes = 40;
	egress_world_gate(w, make_policy(w, TRUST), &limits);
	egress_world_fill(w, plain, sizeof(plain) - 1, &request);
	_cleanup_fd_ int client = egress_world_client(w);
	egress_world_send(client, request.data, request.len);
	egress_world_until(w, &w->events.ended, 1);
	assert_string_equal(w->events.reason, "bytes_limit");
	while (w->canary_got.len < 40)
		assert_true(sd_event_run(w->loop, 10000) >= 0);
	assert_int_equal(w->canary_got.len, 40);
	_cleanup_fd_ int again = egress_world_client(w);
	egress_world_send(again, request.data, request.len);
	egress_world_until(w, &w->events.refused, 1);
	assert_string_equal(w->events.reason, "bytes_limit");
}

/* A gate with one short deadline, and a client that has sent TEXT. */
static int begin_slowly(struct egress_world *w, size_t deadline, const struct buf *request)
{
	struct egress_limits limits = egress_limits_default;
	uint64_t short_ns = 20 * NS_PER_MS;

	memcpy((char *)&limits + deadline, &short_ns, sizeof(short_ns));
	egress_world_gate(w, make_policy(w, TRUST), &limits);
	int client = egress_world_client(w);
	egress_world_send(client, request->data, request->len);
	return client;
}

static void test_deadlines(void **state)
{
	struct egress_world *w = *state;
	_cleanup_(buf_done) struct buf request = BUF_INIT(4096);
	_cleanup_(buf_done) struct buf half = BUF_INIT(4096);
	static const char plain[] =
	    "GET http://good.example.org:{P}/ HTTP/1.1\r\nHost: good.example.org:{P}\r\n\r\n";

	egress_world_fill(w, plain, sizeof(plain) - 1, &request);
	egress_world_fill(w, plain, 4, &half);
	_cleanup_fd_ int slow = begin_slowly(w, offsetof(struct egress_limits, head_ns), &half);
	egress_world_until(w, &w->events.refused, 1);
	assert_string_equal(w->events.reason, "head_timeout");

	w->resolver.silent = true;
	_cleanup_fd_ int unresolved =
	    begin_slowly(w, offsetof(struct egress_limits, connect_ns), &request);
	egress_world_until(w, &w->events.refused, 2);
	assert_string_equal(w->events.reason, "resolve_failed");
	assert_int_equal(w->resolver.cancelled, 1);

	w->resolver.silent = false;
	w->canary_answers = false;
	_cleanup_fd_ int idle = begin_slowly(w, offsetof(struct egress_limits, idle_ns), &request);
	egress_world_until(w, &w->events.ended, 1);
	assert_string_equal(w->events.reason, "idle");
	_cleanup_fd_ int old = begin_slowly(w, offsetof(struct egress_limits, life_ns), &request);
	egress_world_until(w, &w->events.ended, 2);
	assert_string_equal(w->events.reason, "life");
}

static void test_connections_are_counted(void **state)
{
	struct egress_world *w = *state;
	struct egress_limits limits = egress_limits_default;
	int clients[6];

	limits.connections = 2;
	egress_world_gate(w, make_policy(w, TRUST), &limits);
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		clients[i] = egress_world_client(w);
	for (int i = 0; i < 10; i++)
		assert_true(sd_event_run(w->loop, 5000) >= 0);
	assert_int_equal(w->gate->usage.connections, 2);
	/* Those that wait come when the first have gone. */
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		egress_world_send(clients[i], "X\r\n\r\n", 5);
		(void)shutdown(clients[i], SHUT_WR);
	}
	egress_world_until(w, &w->events.refused, ARRAY_SIZE(clients));
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		(void)fd_close(clients[i]);

	/* Two at once, then one a second at most. */
	limits.connections = 10;
	limits.per_minute = 8;
	unsigned before = w->events.refused;
	egress_world_gate(w, make_policy(w, TRUST), &limits);
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		clients[i] = egress_world_client(w);
		egress_world_send(clients[i], "X\r\n\r\n", 5);
	}
	for (int i = 0; i < 20; i++)
		assert_true(sd_event_run(w->loop, 2000) >= 0);
	assert_int_equal(w->events.refused - before, 2);
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		(void)fd_close(clients[i]);
}

static void test_closing_a_gate_ends_all(void **state)
{
	struct egress_world *w = *state;
	_cleanup_(buf_done) struct buf request = BUF_INIT(4096);
	_cleanup_fd_ int client = ask_unanswered(w, &request);

	w->gate = egress_close_gate(w->gate);
	assert_int_equal(w->events.ended, 1);
	assert_string_equal(w->events.reason, "gate_closed");
	_cleanup_(buf_done) struct buf answer = BUF_INIT(4096);
	egress_world_read(w, client, &answer);
	assert_int_equal(answer.len, 0);
}

static void set_policy(struct egress_world *w, enum trick_policy which)
{
	struct egress_policy *p = make_policy(w, which);

	egress_gate_set_policy(w->gate, p);
	(void)egress_policy_unref(p);
}

static void test_another_policy_ends_what_it_refuses(void **state)
{
	static const enum trick_policy others[] = {EMPTY, NONE, OPEN};
	struct egress_world *w = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
		_cleanup_(buf_done) struct buf request = BUF_INIT(4096);
		_cleanup_(buf_done) struct buf answer = BUF_INIT(4096);
		memset(&w->events, 0, sizeof(w->events));
		_cleanup_fd_ int client = ask_unanswered(w, &request);

		set_policy(w, TRUST);
		assert_int_equal(w->events.ended, 0);
		set_policy(w, others[i]);
		assert_int_equal(w->events.ended, 1);
		assert_string_equal(w->events.reason, "gate_closed");
		egress_world_read(w, client, &answer);
		assert_int_equal(answer.len, 0);
	}
}

/* ---- parts ---- */

static void test_lists(void **state)
{
	static const char *const good[] = {"",
					   "pypi.org",
					   "pypi.org, files.pythonhosted.org:443",
					   "*.example.org",
					   "*.example.org:8443\n# ",
					   "xn--bcher-kva.example"};
	static const char *const bad[] = {"*",
					  "*.",
					  "*.org",
					  "org",
					  "localhost",
					  "10.0.0.1",
					  "[::1]",
					  "*.*.org",
					  "a.*.org",
					  "pypi.org:0",
					  "pypi.org:99999",
					  "pypi.org.",
					  "https://pypi.org",
					  "pypi.org/simple",
					  "user@pypi.org",
					  "p\xc3\xbcpi.org",
					  "pypi.org:80:80",
					  "good.org bad_.org",
					  "0x7f.1",
					  "1.2.3"};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(good) - 2; i++) {
		struct egress_policy *p = egress_policy_new(EGRESS_ALLOWLIST);
		struct err e = ERR_INIT;
		assert_int_equal(egress_policy_add(p, good[i], &e), 0);
		assert_int_equal(egress_policy_kind(p), i == 0 ? EGRESS_NONE : EGRESS_ALLOWLIST);
		(void)egress_policy_unref(p);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct egress_policy *p = egress_policy_new(EGRESS_ALLOWLIST);
		struct err e = ERR_INIT;
		if (egress_policy_add(p, bad[i], &e) == 0)
			fail_msg("'%s' was taken", bad[i]);
		assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
		assert_int_equal(egress_policy_count(p), 0);
		(void)egress_policy_unref(p);
	}
}

static void test_extension(void **state)
{
	static const char *const bad[] = {"",           "localhost",   "*.good.org",  "1.2.3.4",
					  "good.org:0", "a.org b.org", "a.org,b.org", "good.org "};
	struct egress_policy *none = egress_policy_new(EGRESS_NONE);
	struct egress_policy *more = NULL;
	struct egress_policy *most = NULL;
	struct err e = ERR_INIT;
	char entry[EGRESS_ENTRY_SIZE];
	(void)state;

	assert_int_equal(egress_entry_parse("GOOD.org", entry, &e), 0);
	assert_string_equal(entry, "good.org");
	assert_int_equal(egress_entry_parse("good.org:65535", entry, &e), 0);
	assert_string_equal(entry, "good.org:65535");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (egress_entry_parse(bad[i], entry, &e) == 0)
			fail_msg("'%s' was taken", bad[i]);
	/* What was there stays as it was. */
	assert_int_equal(egress_policy_extend(none, "good.org", &more, &e), 0);
	assert_int_equal(egress_policy_extend(more, "better.org:8443", &most, &e), 0);
	assert_int_equal(egress_policy_kind(none), EGRESS_NONE);
	assert_int_equal(egress_policy_kind(more), EGRESS_ALLOWLIST);
	assert_int_equal(egress_policy_count(more), 1);
	assert_int_equal(egress_policy_count(most), 2);
	(void)egress_policy_unref(none);
	(void)egress_policy_unref(more);
	(void)egress_policy_unref(most);
}

/* A list that is chosen must be within the one that is permitted, name by name, port by port. */
static void test_lists_within(void **state)
{
	static const struct {
		enum egress_kind kind;
		const char *widest, *list;
		int r;
		const char *entries;
	} rows[] = {
	    {EGRESS_ALLOWLIST, "good.org", "good.org", 0, "good.org"},
	    {EGRESS_ALLOWLIST, "good.org", "GOOD.org:443 good.org:80", 0,
	     "good.org:443 good.org:80"},
	    {EGRESS_ALLOWLIST, "good.org", "good.org:8080", -EPERM, ""},
	    {EGRESS_ALLOWLIST, "good.org:443", "good.org", -EPERM, ""},
	    {EGRESS_ALLOWLIST, "good.org:443 good.org:80", "good.org", 0, "good.org"},
	    {EGRESS_ALLOWLIST, "good.org:443 good.org:80", "good.org good.org", 0, "good.org"},
	    {EGRESS_ALLOWLIST, "good.org", "*.good.org", -EPERM, ""},
	    {EGRESS_ALLOWLIST, "good.org", "a.good.org", -EPERM, ""},
	    {EGRESS_ALLOWLIST, "*.good.org", "good.org", -EPERM, ""},
	    {EGRESS_ALLOWLIST, "*.good.org", "a.good.org *.good.org *.b.good.org:80", 0,
	     "a.good.org *.good.org *.b.good.org:80"},
	    {EGRESS_ALLOWLIST, "*.good.org", "evilgood.org", -EPERM, ""},
	    {EGRESS_ALLOWLIST, "*.good.org", "*.evilgood.org", -EPERM, ""},
	    {EGRESS_ALLOWLIST, "*.a.good.org", "*.good.org", -EPERM, ""},
	    {EGRESS_ALLOWLIST, "", "good.org", -EPERM, ""},
	    {EGRESS_ALLOWLIST, "good.org", "", 0, ""},
	    {EGRESS_ALLOWLIST, "good.org", "good.org other.org", -EPERM, ""},
	    {EGRESS_ALLOWLIST, "good.org", "good.org.", -EINVAL, ""},
	    {EGRESS_OPEN, "", "any.org *.any.org:443", 0, "any.org *.any.org:443"},
	    {EGRESS_OPEN, "", "any.org:8080", -EPERM, ""},
	    {EGRESS_OPEN, "good.org:8080", "good.org:8080", 0, "good.org:8080"},
	    {EGRESS_OPEN, "", "127.0.0.1:80", -EINVAL, ""},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf all = BUF_INIT(4096);
		struct egress_policy *widest = egress_policy_new(rows[i].kind);
		struct egress_policy *p = egress_policy_new(EGRESS_ALLOWLIST);
		struct err e = ERR_INIT;
		char entry[EGRESS_RULE_SIZE];

		assert_int_equal(egress_policy_add(widest, rows[i].widest, &e), 0);
		int r = egress_policy_add_within(p, widest, rows[i].list, false, &e);
		for (size_t k = 0; k < egress_policy_count(p); k++) {
			egress_policy_entry(p, k, entry);
			assert_int_equal(buf_printf(&all, "%s%s", k > 0 ? " " : "", entry), 0);
		}
		if (r != rows[i].r || !streq(buf_str(&all), rows[i].entries))
			fail_msg("'%s' within '%s': %d, '%s'", rows[i].list, rows[i].widest, r,
				 buf_str(&all));
		/* In a lax reading what is beyond is left out, and nothing else is. */
		if (r == -EPERM)
			assert_int_equal(
			    egress_policy_add_within(p, widest, rows[i].list, true, &e), 0);
		if (streq(rows[i].list, "good.org other.org"))
			assert_int_equal(egress_policy_count(p), 1);
		else if (r == -EPERM)
			assert_int_equal(egress_policy_count(p), 0);
		(void)egress_policy_unref(p);
		(void)egress_policy_unref(widest);
	}
}

static void test_addresses(void **state)
{
	static const struct {
		const char *text;
		enum egress_class class;
	} rows[] = {
	    {"8.8.8.8", EGRESS_PUBLIC},         {"1.1.1.1", EGRESS_PUBLIC},
	    {"9.255.255.255", EGRESS_PUBLIC},   {"11.0.0.0", EGRESS_PUBLIC},
	    {"100.63.255.255", EGRESS_PUBLIC},  {"100.64.0.0", EGRESS_LOCAL},
	    {"100.127.255.255", EGRESS_LOCAL},  {"100.128.0.0", EGRESS_PUBLIC},
	    {"126.255.255.255", EGRESS_PUBLIC}, {"128.0.0.1", EGRESS_PUBLIC},
	    {"172.15.255.255", EGRESS_PUBLIC},  {"172.16.0.0", EGRESS_LOCAL},
	    {"172.32.0.0", EGRESS_PUBLIC},      {"192.0.0.192", EGRESS_LOCAL},
	    {"192.0.2.1", EGRESS_SPECIAL},      {"198.17.255.255", EGRESS_PUBLIC},
	    {"198.18.0.1", EGRESS_SPECIAL},     {"198.19.255.255", EGRESS_SPECIAL},
	    {"198.20.0.0", EGRESS_PUBLIC},      {"223.255.255.255", EGRESS_PUBLIC},
	    {"224.0.0.0", EGRESS_LOCAL},        {"240.0.0.1", EGRESS_LOCAL},
	    {"2606:4700::1111", EGRESS_PUBLIC}, {"2a00::1", EGRESS_PUBLIC},
	    {"2001:4860::8888", EGRESS_PUBLIC}, {"2001:1ff:ffff::1", EGRESS_LOCAL},
	    {"2001:db8::1", EGRESS_SPECIAL},    {"3fff:fff::1", EGRESS_SPECIAL},
	    {"3fff:1000::1", EGRESS_PUBLIC},    {"4000::1", EGRESS_LOCAL},
	    {"1fff::1", EGRESS_LOCAL},          {"ff02::1", EGRESS_LOCAL},
	    {"fec0::1", EGRESS_LOCAL},          {"::ffff:8.8.8.8", EGRESS_LOCAL},
	    {"64:ff9b::808:808", EGRESS_LOCAL}, {"2002:808:808::1", EGRESS_LOCAL},
	};
	struct egress_address a;
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(egress_address_parse(rows[i].text, &a), 0);
		if (egress_address_class(&a, NULL) != rows[i].class)
			fail_msg("%s has the wrong class", rows[i].text);
	}
	assert_int_equal(egress_address_parse("127.0.0.1", &a), 0);
	assert_true(egress_address_is_own(&a));
	assert_int_equal(egress_address_parse("8.8.8.8", &a), 0);
	assert_false(egress_address_is_own(&a));
}

/* A fork asks the machine; what it cannot know is no answer, what nobody waits for is let go. */
struct asked {
	unsigned done;
	size_t n;
	struct egress_address first;
};

static void on_asked(const struct egress_address *addresses, size_t n, void *user)
{
	struct asked *asked = user;

	asked->done++;
	asked->n = n;
	if (n > 0)
		asked->first = addresses[0];
}

static void test_workers(void **state)
{
	struct egress_world *w = *state;
	struct egress_resolver *r = egress_resolver_new(w->loop);
	struct asked asked[6] = {{0}};
	const char *const names[] = {"127.0.0.1", "localhost", "::1",
				     "a..b",      "127.0.0.2", "127.0.0.3"};

	assert_non_null(r);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_non_null(r->ask(r, names[i], on_asked, &asked[i]));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		egress_world_until(w, &asked[i].done, 1);
	assert_int_equal(asked[0].n, 1);
	assert_int_equal(asked[0].first.bytes[0], 127);
	assert_true(asked[1].n > 0);
	assert_int_equal(asked[3].n, 0);
	/* More than there are workers, then none of them is wanted. */
	struct egress_query *queries[6];
	struct asked never = {0};
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
		queries[i] = r->ask(r, "127.0.0.1", on_asked, &never);
	for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
		r->cancel(queries[i]);
	for (int i = 0; i < 5; i++)
		assert_true(sd_event_run(w->loop, 1000) >= 0);
	assert_int_equal(never.done, 0);
	r->free(r);
}

static void test_allows(void **state)
{
	static const struct {
		enum egress_kind kind;
		const char *list;
		const char *host;
		uint16_t port;
		bool allowed;
	} rows[] = {
	    {EGRESS_PACKAGES, "index.example.org:8443", "Index.example.org", 8443, true},
	    {EGRESS_PACKAGES, "index.example.org:8443", "index.example.org", 443, false},
	    {EGRESS_ALLOWLIST, "*.example.org", "pypi.example.org", 443, true},
	    {EGRESS_ALLOWLIST, "*.example.org", "example.org", 443, false},
	    {EGRESS_ALLOWLIST, "", "pypi.org", 443, false},
	    {EGRESS_OPEN, "", "pypi.org", 443, true},
	    {EGRESS_OPEN, "", "pypi.org", 8443, false},
	    {EGRESS_OPEN, "", "127.0.0.1", 443, false},
	    {EGRESS_OPEN, "", "::1", 443, false},
	    {EGRESS_OPEN, "", "no name", 443, false},
	    {EGRESS_NONE, "", "pypi.org", 443, false},
	};
	struct err e = ERR_INIT;
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_policy *p = egress_policy_new(rows[i].kind);

		assert_non_null(p);
		assert_int_equal(egress_policy_add(p, rows[i].list, &e), 0);
		assert_int_equal(egress_policy_allows(p, rows[i].host, rows[i].port),
				 rows[i].allowed);
		(void)egress_policy_unref(p);
	}
	struct egress_policy *trusting = egress_policy_new(EGRESS_PACKAGES);
	assert_non_null(trusting);
	assert_int_equal(egress_policy_trust(trusting, "::1", 3141, &e), 0);
	assert_true(egress_policy_allows(trusting, "::1", 3141));
	assert_true(egress_policy_allows(trusting, "[0::1]", 3141));
	assert_false(egress_policy_allows(trusting, "::1", 443));
	(void)egress_policy_unref(trusting);
}

/* A tunnel to an index may send a little, and then a share of what came back. */
static void test_uploads(void **state)
{
	struct egress_policy *index = egress_policy_new(EGRESS_PACKAGES), *more = NULL;
	struct egress_policy *list = egress_policy_new(EGRESS_ALLOWLIST);
	struct err e = ERR_INIT;

	(void)state;
	assert_false(egress_policy_uploads(index, 1 << 20, 0));
	assert_true(egress_policy_uploads(index, (1 << 20) + 1, 0));
	assert_false(egress_policy_uploads(index, 2 << 20, 8 << 20));
	assert_true(egress_policy_uploads(index, (2 << 20) + 1, 8 << 20));
	assert_false(egress_policy_uploads(list, UINT64_MAX, 0));
	assert_int_equal(egress_policy_extend(index, "api.example.org", &more, &e), 0);
	assert_false(egress_policy_uploads(more, UINT64_MAX, 0));
	(void)egress_policy_unref(index);
	(void)egress_policy_unref(more);
	(void)egress_policy_unref(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_tricks, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_refused_names_are_not_asked_for, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_tunnel, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_another_policy_ends_what_it_refuses, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_plain_request, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_second_request_goes_nowhere, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_deadlines, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_connections_are_counted, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_closing_a_gate_ends_all, setup, teardown),
	    cmocka_unit_test(test_allows),
	    cmocka_unit_test(test_uploads),
	    cmocka_unit_test(test_lists),
	    cmocka_unit_test(test_extension),
	    cmocka_unit_test(test_lists_within),
	    cmocka_unit_test(test_addresses),
	    cmocka_unit_test_setup_teardown(test_workers, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
