/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for blocks of addresses: how they are spelled, what they allow, and that connections obey them. The connections are
 * made in a network namespace of this test, in which the public addresses 9.9.0.0/16 and 2620:fe::/32 lead to the
 * canary and are no addresses of the machine: nothing leaves it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "egress_world.h"

#include "base/fdio.h"
#include "base/text.h"
#include "egress/block.h"
#include "egress/gate.h"
#include "egress/policy.h"

#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- spelling ---- */

static const struct {
	const char *text, *canonical; /* NULL: no block */
} spellings[] = {
    {"8.8.8.8", "8.8.8.8"},
    {"8.8.8.8/32", "8.8.8.8"},
    {"8.8.8.8/31", "8.8.8.8/31"},
    {"8.8.8.8/24", "8.8.8.0/24"},
    {"255.255.255.255/1", "128.0.0.0/1"},
    {"0.0.0.0/0", "0.0.0.0/0"},
    {"9.9.9.9/0", "0.0.0.0/0"},
    {"2620:FE::9", "2620:fe::9"},
    {"2620:fe:0:0::9/128", "2620:fe::9"},
    {"2620:fe::9/33", "2620:fe::/33"},
    {"2620:feff::/23", "2620:fe00::/23"},
    {"::/0", "::/0"},
    {"2620:fe::8.8.8.8", "2620:fe::808:808"},
    /* Twins of the above, each with one fault. */
    {"8.8.8.8/33", NULL},
    {"8.8.8.8/032", NULL},
    {"8.8.8.8/", NULL},
    {"8.8.8.8/-1", NULL},
    {"8.8.8.8/+8", NULL},
    {"8.8.8.8/ 8", NULL},
    {"8.8.8.8/24/24", NULL},
    {"8.8.8.8/255.255.255.0", NULL},
    {"8.8.8.08", NULL},
    {"08.8.8.8", NULL},
    {"010.8.8.8", NULL},
    {"0x8.8.8.8", NULL},
    {"8.8.8", NULL},
    {"8.8.8/24", NULL},
    {"134744072", NULL},
    {"8.8.8.8.8", NULL},
    {"8.8.8.256", NULL},
    {"8.8.8.8.", NULL},
    {" 8.8.8.8", NULL},
    {"8.8.8.8\n", NULL},
    {"8.8.8.8:80", NULL},
    {"8.8.8.8-9.9.9.9", NULL},
    {"*", NULL},
    {"", NULL},
    {"/0", NULL},
    {"8.8.8.*", NULL},
    {"2620:fe::9/129", NULL},
    {"2620:fe::9%1", NULL},
    {"fe80::1%lo/64", NULL},
    {"[2620:fe::9]", NULL},
    {"2620:fe:::9", NULL},
    {"2620:fe", NULL},
    {"::ffff:8.8.8.8", NULL},
    {"::ffff:8.8.8.8/120", NULL},
    {"::ffff:808:808", NULL},
    {"::ffff:0:0/96", NULL},
    {"0:0:0:0:0:FFFF:8.8.8.8", NULL},
    {"2620:fe::08.8.8.8", NULL},
    {"dns.google", NULL},
};

static void test_spelling(void **state)
{
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(spellings); i++) {
		char text[EGRESS_BLOCK_SIZE] = "", again[EGRESS_BLOCK_SIZE];
		struct err e = ERR_INIT;
		int r = egress_block_entry(spellings[i].text, text, &e);

		if ((r == 0) != (spellings[i].canonical != NULL) ||
		    (r == 0 && !streq(text, spellings[i].canonical)))
			fail_msg("'%s': %d '%s'", spellings[i].text, r, text);
		assert_int_equal(e.code, r == 0 ? ERR_NONE : ERR_INVALID_ARGUMENT);
		if (r == 0)
			assert_int_equal(egress_block_entry(text, again, &e), 0);
		if (r == 0)
			assert_string_equal(text, again);
	}
	struct egress_block b;
	assert_int_equal(egress_block_parse("8.8.8.8\0.9", 10, &b), -EINVAL);
}

static void test_membership(void **state)
{
	static const struct {
		const char *block, *address;
		bool has;
	} rows[] = {
	    {"9.9.9.0/24", "9.9.9.255", true},    {"9.9.9.0/24", "9.9.10.0", false},
	    {"9.9.9.9", "9.9.9.9", true},         {"9.9.9.9", "9.9.9.8", false},
	    {"0.0.0.0/0", "255.1.2.3", true},     {"0.0.0.0/0", "2620:fe::9", false},
	    {"::/0", "2620:fe::9", true},         {"::/0", "9.9.9.9", false},
	    {"9.9.8.0/23", "9.9.9.9", true},      {"9.9.8.0/23", "9.9.7.255", false},
	    {"2620:fe::/32", "2620:ff::", false}, {"2620:fe::/31", "2620:ff::", true},
	};
	static const struct {
		const char *block;
		bool local;
	} kinds[] = {
	    {"10.0.0.0/8", true},      {"10.1.2.3", true},
	    {"9.0.0.0/8", false},      {"8.0.0.0/6", false},
	    {"0.0.0.0/0", false},      {"127.0.0.1", true},
	    {"192.168.0.0/16", true},  {"192.168.0.0/15", false},
	    {"203.0.113.0/24", true},  {"::1", true},
	    {"::/0", false},           {"4000::/3", true},
	    {"fd00::/8", true},        {"2620:fe::/32", false},
	    {"c000::/2", false},       {"2002::/16", true},
	    {"169.254.169.254", true},
	};
	struct egress_block b;
	struct egress_address a;
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(egress_block_parse(rows[i].block, strlen(rows[i].block), &b), 0);
		assert_int_equal(egress_address_parse(rows[i].address, &a), 0);
		if (egress_block_has(&b, &a) != rows[i].has)
			fail_msg("%s in %s", rows[i].address, rows[i].block);
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		assert_int_equal(egress_block_parse(kinds[i].block, strlen(kinds[i].block), &b), 0);
		if (egress_block_is_local(&b) != kinds[i].local)
			fail_msg("%s", kinds[i].block);
	}
}

/* ---- lists ---- */

static void test_lists(void **state)
{
	static const struct {
		const char *list, *entry; /* NULL: refused */
	} rows[] = {
	    {"8.8.8.8", "8.8.8.8"},
	    {"8.8.8.8/24:8443", "8.8.8.0/24:8443"},
	    {"2620:fe::9", "2620:fe::9"},
	    {"[2620:fe::9]", "2620:fe::9"},
	    {"[2620:fe::9/32]:8443", "[2620:fe::/32]:8443"},
	    {"8.8.8.8:0", NULL},
	    {"8.8.8.8:", NULL},
	    {"8.8.8.8:080", NULL},
	    {"8.8.8.8:65536", NULL},
	    {"8.8.8.8:80:80", NULL},
	    {"8.8.8.8:80/24", NULL},
	    {"[8.8.8.8]", NULL},
	    {"[8.8.8.8]:80", NULL},
	    {"[2620:fe::9", NULL},
	    {"[2620:fe::9]80", NULL},
	    {"[2620:fe::9]:", NULL},
	    {"[2620:fe::9]/32", NULL},
	    {"[]", NULL},
	    {"[", NULL},
	    {"*.8.8.8.8", NULL},
	    {"!8.8.8.8", NULL},
	    {"10.0.0.0/8", NULL},
	    {"::1", NULL},
	    {"::ffff:8.8.8.8", NULL},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_policy *p = egress_policy_new(EGRESS_ALLOWLIST);
		struct err e = ERR_INIT;
		char entry[EGRESS_RULE_SIZE] = "";
		int r = egress_policy_add(p, rows[i].list, &e);

		if (r == 0)
			egress_policy_entry(p, 0, entry);
		if ((r == 0) != (rows[i].entry != NULL) || (r == 0 && !streq(entry, rows[i].entry)))
			fail_msg("'%s': %d '%s'", rows[i].list, r, entry);
		if (r < 0)
			assert_int_equal(egress_policy_count(p), 0);
		(void)egress_policy_unref(p);
	}
}

static void test_lists_within(void **state)
{
	static const struct {
		enum egress_kind kind;
		const char *widest, *list;
		int r;
	} rows[] = {
	    {EGRESS_ALLOWLIST, "9.9.0.0/16", "9.9.9.0/24 9.9.9.9 9.9.0.0/16", 0},
	    {EGRESS_ALLOWLIST, "9.9.0.0/16", "9.8.0.0/15", -EPERM},
	    {EGRESS_ALLOWLIST, "9.9.0.0/16", "9.10.0.0/16", -EPERM},
	    {EGRESS_ALLOWLIST, "9.9.0.0/16", "9.9.9.9:8443", -EPERM},
	    {EGRESS_ALLOWLIST, "9.9.0.0/16:8443", "9.9.9.9:8443", 0},
	    {EGRESS_ALLOWLIST, "9.9.0.0/16:8443", "9.9.9.9", -EPERM},
	    {EGRESS_ALLOWLIST, "9.9.0.0/16", "2620:fe::9", -EPERM},
	    {EGRESS_ALLOWLIST, "0.0.0.0/0", "2620:fe::9", -EPERM},
	    {EGRESS_ALLOWLIST, "9.9.0.0/16", "any.example.org", -EPERM},
	    {EGRESS_ALLOWLIST, "0.0.0.0/0", "any.example.org", -EPERM},
	    {EGRESS_ALLOWLIST, "good.example.org", "9.9.9.9", -EPERM},
	    {EGRESS_ALLOWLIST, "*.example.org", "9.9.9.9", -EPERM},
	    {EGRESS_OPEN, "", "9.9.9.9 0.0.0.0/0 ::/0", 0},
	    {EGRESS_OPEN, "", "9.9.9.9:8443", -EPERM},
	    {EGRESS_OPEN, "", "10.0.0.0/8", -EINVAL},
	    {EGRESS_PACKAGES, "", "9.9.9.9", -EPERM},
	};
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct egress_policy *widest = egress_policy_new(rows[i].kind);
		struct egress_policy *p = egress_policy_new(EGRESS_ALLOWLIST);
		struct err e = ERR_INIT;

		assert_int_equal(egress_policy_add(widest, rows[i].widest, &e), 0);
		int r = egress_policy_add_within(p, widest, rows[i].list, false, &e);
		if (r != rows[i].r)
			fail_msg("'%s' within '%s': %d", rows[i].list, rows[i].widest, r);
		assert_true(r == 0 || egress_policy_count(p) == 0);
		(void)egress_policy_unref(widest);
		(void)egress_policy_unref(p);
	}
}

static void test_guards(void **state)
{
	static const char *const bad[] = {"!",    "!!8.8.8.8",   "!good.org", "good.org",
					  "!8.8", "!8.8.8.8:80", "!*",        "!::ffff:8.8.8.8"};
	struct egress_policy *p = egress_policy_new(EGRESS_OPEN);
	char text[EGRESS_GUARD_SIZE];
	struct err e = ERR_INIT;
	(void)state;

	assert_int_equal(egress_policy_guard(p, "!10.0.0.0/8, !2620:FE::/32 10.0.0.1", &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char list[100];

		(void)snprintf(list, sizeof(list), "!1.1.1.1 %s", bad[i]);
		if (egress_policy_guard(p, list, &e) == 0)
			fail_msg("'%s' was taken", bad[i]);
		assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
		assert_int_equal(egress_policy_n_guards(p), 3);
	}
	struct egress_policy *copy = egress_policy_copy(p);
	(void)egress_policy_unref(p);
	const char *const kept[] = {"!10.0.0.0/8", "!2620:fe::/32", "10.0.0.1"};
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		egress_policy_guard_text(copy, i, text);
		assert_string_equal(text, kept[i]);
	}
	while (egress_policy_n_guards(copy) < EGRESS_RULES_MAX)
		assert_int_equal(egress_policy_guard(copy, "!8.8.8.8", &e), 0);
	assert_true(egress_policy_guard(copy, "!8.8.8.8", &e) < 0);
	(void)egress_policy_unref(copy);
}

/* ---- connections ---- */

enum shape { LISTED, CHOSEN, CHOSEN_OPEN, GUARDED, GUARDED_OPEN, TRUSTED };

struct
try {
	const char *name;
	enum shape shape;
	const char *list; /* of the policy, or of its guards; {P} is the port of the canary */
	const char *answers, *host;
	enum hello_kind hello; /* HELLO_NOTHING: a plain request */
	const char *reason;    /* "ok": the canary answers */
};

static const struct try tries[] = {
#define T(name, shape, list, answers, host, hello, reason)                                         \
	{name, shape, list, answers, host, HELLO_##hello, reason},
#include "egress_block_tries.tbl.h"
#undef T
};

static struct egress_policy *make_policy(const struct egress_world *w, enum shape shape,
					 const char *text)
{
	static const char wide[] =
	    "*.example.org:{P} 0.0.0.0/1:{P} 128.0.0.0/1:{P} [::/0]:{P} dull.org";
	_cleanup_(buf_done) struct buf list = BUF_INIT(4096), widest = BUF_INIT(4096);
	const bool open = shape == CHOSEN_OPEN || shape == GUARDED_OPEN;
	const bool chosen = shape == CHOSEN || shape == CHOSEN_OPEN;
	struct egress_policy *p = egress_policy_new(open ? EGRESS_OPEN : EGRESS_ALLOWLIST);
	struct err e = ERR_INIT;

	egress_world_fill(w, text, strlen(text), &list);
	egress_world_fill(w, shape == GUARDED ? "*.example.org:{P} 9.0.0.0/8:{P} [::/0]:{P}" : wide,
			  shape == GUARDED ? strlen("*.example.org:{P} 9.0.0.0/8:{P} [::/0]:{P}")
					   : sizeof(wide) - 1,
			  &widest);
	if (shape == LISTED) {
		assert_int_equal(egress_policy_add(p, buf_str(&list), &e), 0);
		return p;
	}
	if (shape == TRUSTED)
		assert_int_equal(egress_policy_trust(p, "good.example.org", w->canary_port, &e), 0);
	else if (!open)
		assert_int_equal(egress_policy_add(p, buf_str(&widest), &e), 0);
	if (!chosen) {
		assert_int_equal(egress_policy_guard(p, buf_str(&list), &e), 0);
		return p;
	}
	struct egress_policy *mine = egress_policy_new(EGRESS_ALLOWLIST);
	assert_int_equal(egress_policy_add_within(mine, p, buf_str(&list), false, &e), 0);
	(void)egress_policy_unref(p);
	return mine;
}

static int begin(struct egress_world *w, const struct try *t)
{
	_cleanup_(buf_done) struct buf request = BUF_INIT(4096);
	char text[512], target[300];
	const char *v6 = strchr(t->host, ']');

	(void)snprintf(target, sizeof(target), strchr(v6 ? v6 : t->host, ':') ? "%s" : "%s:{P}",
		       t->host);
	int n = t->hello == HELLO_NOTHING
		    ? snprintf(text, sizeof(text), "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n",
			       target, target)
		    : snprintf(text, sizeof(text), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n",
			       target, target);
	w->resolver.answers = t->answers;
	egress_world_fill(w, text, (size_t)n, &request);
	int client = egress_world_client(w);
	egress_world_send(client, request.data, request.len);
	return client;
}

static void try_one(struct egress_world *w, const struct try *t)
{
	_cleanup_(buf_done) struct buf hello = BUF_INIT(65536);
	_cleanup_(buf_done) struct buf answer = BUF_INIT(65536);
	const bool good = streq(t->reason, "ok");
	const size_t got = w->canary_got.len;
	unsigned refused = w->events.refused, ended = w->events.ended;

	egress_world_gate(w, make_policy(w, t->shape, t->list), NULL);
	_cleanup_fd_ int client = begin(w, t);
	egress_world_hello(t->hello, &hello);
	if (hello.len > 0)
		egress_world_send(client, hello.data, hello.len);
	if (good) {
		egress_world_expect(w, client, &answer, "pong");
		(void)shutdown(client, SHUT_WR);
		egress_world_until(w, &w->events.ended, ended + 1);
		if (w->canary_got.len == got || w->events.refused > refused)
			fail_msg("%s: %s", t->name, w->events.reason);
		return;
	}
	egress_world_until(w, &w->events.refused, refused + 1);
	if (!streq(w->events.reason, t->reason))
		fail_msg("%s: '%s' instead of '%s'", t->name, w->events.reason, t->reason);
	if (w->canary_got.len > got)
		fail_msg("%s: bytes have left", t->name);
}

static bool has_network;

static void need_network(void)
{
	if (has_network)
		return;
	print_message("no network namespace with ip(8) here\n");
	skip();
}

static void test_connections(void **state)
{
	need_network();
	for (size_t i = 0; i < ARRAY_SIZE(tries); i++)
		try_one(*state, &tries[i]);
}

/* A name that neither the list nor the operator allows is not resolved, and none for a list of addresses alone. */
static void test_questions(void **state)
{
	static const struct try none = {"",           CHOSEN,        "9.9.9.9:{P}",     "9.9.9.9",
					"a.evil.net", HELLO_NOTHING, "host_not_allowed"};
	static const struct try names = {"",
					 CHOSEN,
					 "good.example.org:{P}",
					 "9.9.9.9",
					 "b.example.org",
					 HELLO_NOTHING,
					 "host_not_allowed"};
	static const struct try addresses = {"",
					     CHOSEN,
					     "9.9.9.9:{P}",
					     "9.9.9.9",
					     "good.example.org",
					     HELLO_NOTHING,
					     "host_not_allowed"};
	struct egress_world *w = *state;

	need_network();
	try_one(w, &none);
	try_one(w, &names);
	try_one(w, &addresses);
	assert_int_equal(w->resolver.asked, 0);
}

/* Open connections end when the new rules deny where they lead, and no others. */
static void test_change(void **state)
{
	static const struct {
		enum shape shape;
		const char *list;
		bool ends;
	} rows[] = {
	    {GUARDED, "!9.9.8.0/24", false},
	    {GUARDED, "!9.9.9.0/24 9.9.9.9", false},
	    {GUARDED, "!9.9.9.0/24", true},
	    {CHOSEN, "9.9.9.9:{P}", true},
	    {CHOSEN, "good.example.org:{P}", false},
	    {CHOSEN, "9.9.9.8:{P}", true},
	    {CHOSEN, "a.example.org:{P}", true},
	    {CHOSEN, "a.example.org:{P} 9.9.9.9:{P}", true},
	};
	static const struct try open = {
	    "", GUARDED, "!9.9.1.0/24", "9.9.9.9", "good.example.org", HELLO_NOTHING, "ok"};
	struct egress_world *w = *state;

	need_network();
	w->canary_answers = false;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned allowed = w->events.allowed, ended = w->events.ended;
		struct egress_policy *p = make_policy(w, rows[i].shape, rows[i].list);

		egress_world_gate(w, make_policy(w, open.shape, open.list), NULL);
		ended = w->events.ended;
		_cleanup_fd_ int client = begin(w, &open);
		egress_world_until(w, &w->events.allowed, allowed + 1);
		egress_gate_set_policy(w->gate, p);
		(void)egress_policy_unref(p);
		if ((w->events.ended > ended) != rows[i].ends)
			fail_msg("'%s'", rows[i].list);
		assert_int_equal(w->gate->usage.connections, rows[i].ends ? 0 : 1);
	}
}

/* Rules that change while a name is being resolved hold for its answer. */
static void test_change_meanwhile(void **state)
{
	static const struct try open = {
	    "", GUARDED, "!9.9.1.0/24", "9.9.9.9", "good.example.org", HELLO_NOTHING, "ok"};
	struct egress_world *w = *state;
	struct egress_policy *p = NULL;

	need_network();
	p = make_policy(w, GUARDED, "!9.9.9.0/24");
	egress_world_gate(w, make_policy(w, open.shape, open.list), NULL);
	_cleanup_fd_ int client = begin(w, &open);
	for (unsigned asked = 0; w->resolver.asked == asked;)
		assert_true(sd_event_run(w->loop, 10000) >= 0);
	egress_gate_set_policy(w->gate, p);
	(void)egress_policy_unref(p);
	egress_world_until(w, &w->events.refused, 1);
	assert_string_equal(w->events.reason, "address_not_allowed");
	assert_int_equal(w->canary_connections, 0);
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

static bool run_ip(const char *const *args)
{
	char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", name[] = "ip";
	char *env[] = {path, NULL}, *argv[12] = {name};
	pid_t pid;
	int status;

	for (size_t i = 0; args[i] && i + 2 < ARRAY_SIZE(argv); i++)
		argv[i + 1] = (char *)(uintptr_t)args[i];
	return posix_spawnp(&pid, "ip", NULL, NULL, argv, env) == 0 &&
	       waitpid(pid, &status, 0) == pid && status == 0;
}

/* A route of the type `local` makes the kernel take every address of it; with another source the address is none of the
 * machine's for egress_address_is_own(). */
static bool enter_network(void)
{
	static const char *const up[] = {"link", "set", "lo", "up", NULL};
	static const char *const v4[] = {"route", "add", "local",     "9.9.0.0/16", "dev",
					 "lo",    "src", "127.0.0.1", NULL};
	static const char *const v6[] = {"-6",  "route", "add", "local", "2620:fe::/32",
					 "dev", "lo",    "src", "::1",   NULL};

	return (unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) &&
	       run_ip(up) && run_ip(v4) && run_ip(v6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_spelling),
	    cmocka_unit_test(test_membership),
	    cmocka_unit_test(test_lists),
	    cmocka_unit_test(test_lists_within),
	    cmocka_unit_test(test_guards),
	    cmocka_unit_test_setup_teardown(test_connections, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_questions, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_change, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_change_meanwhile, setup, teardown),
	};

	has_network = enter_network();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
