/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of the audit log's rows about the way out: nothing is lost without being counted, and
 * a flood of one sandbox takes no row from another one. */
#include "app/egress_audit.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint64_t clock_ns = 5 * NS_PER_S;

static uint64_t test_now(void)
{
	return clock_ns;
}

struct world {
	char dir[64];
	struct store *store;
	struct egress_audit *audit;
	unsigned allowed, refused, more, others;
	uint64_t left_out;
	struct store_audit last;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct err e = ERR_INIT;
	char path[96];

	assert_non_null(w);
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/caisson-audit-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	(void)snprintf(path, sizeof(path), "%s/caisson.db", w->dir);
	const struct store_config config = {
	    .path = path, .runs_keep = 100, .audit_keep = 100000, .busy_ms = 20000};
	assert_int_equal(store_open(&config, &w->store, &e), 0);
	const struct egress_audit_config audit = {.store = w->store, .now = test_now};
	w->audit = egress_audit_new(&audit);
	assert_non_null(w->audit);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const files[] = {"caisson.db", "caisson.db-wal", "caisson.db-shm", ""};
	struct world *w = *state;
	char path[128];

	w->audit = egress_audit_free(w->audit);
	w->store = store_close(w->store);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", w->dir, files[i]);
		(void)remove(path);
	}
	free(w);
	return 0;
}

/* How many of them may be lines of the log. */
static unsigned note(struct world *w, const char *label, enum egress_verdict verdict, unsigned n)
{
	const struct egress_event event = {.label = label,
					   .verdict = verdict,
					   .reason = "host_not_allowed",
					   .method = "CONNECT",
					   .host = "example.org",
					   .port = 443,
					   .address = ""};

	unsigned shown = 0;

	for (unsigned i = 0; i < n; i++)
		shown += egress_audit_note(w->audit, &event);
	return shown;
}

static bool count_row(const struct store_audit *a, void *user)
{
	struct world *w = user;

	w->last = *a;
	if (streq(a->action, "egress.allow"))
		w->allowed++;
	else if (streq(a->action, "egress.refuse"))
		w->refused++;
	else if (streq(a->action, "egress.more"))
		w->more++;
	else
		w->others++;
	if (streq(a->action, "egress.more")) {
		char digits[STORE_OBJECT_SIZE];
		uint64_t n;

		(void)snprintf(digits, sizeof(digits), "%.*s", (int)strspn(a->detail, "0123456789"),
			       a->detail);
		assert_int_equal(parse_u64(digits, 1, UINT64_MAX, &n), 0);
		w->left_out += n;
	}
	return true;
}

static void count(struct world *w, const char *actor)
{
	struct err e = ERR_INIT;

	w->allowed = w->refused = w->more = w->others = 0;
	w->left_out = 0;
	store_flush(w->store);
	assert_int_equal(store_audit_each(w->store, actor, 0, 100000, count_row, w, &e), 0);
	assert_int_equal(w->others, 0);
}

static void test_row(void **state)
{
	struct world *w = *state;

	note(w, "ada/box", EGRESS_REFUSED, 1);
	note(w, "ada/box", EGRESS_ENDED, 1);
	count(w, "ada");
	assert_int_equal(w->refused, 1);
	assert_string_equal(w->last.object, "box example.org:443");
	assert_string_equal(w->last.result, "host_not_allowed");
	note(w, "box", EGRESS_ALLOWED, 1);
	count(w, "");
	assert_int_equal(w->allowed, 1);
	assert_int_equal(w->refused, 0);
}

static void test_flood(void **state)
{
	struct world *w = *state;

	assert_int_equal(note(w, "ada/box", EGRESS_REFUSED, 5000), EGRESS_AUDIT_ROWS);
	assert_int_equal(note(w, "ada/box", EGRESS_ENDED, 5000), EGRESS_AUDIT_ROWS);
	assert_int_equal(note(w, "bob/box", EGRESS_ALLOWED, 3), 3);
	assert_int_equal(note(w, "bob/box", EGRESS_ENDED, 3), 3);
	count(w, NULL);
	assert_int_equal(w->refused, EGRESS_AUDIT_ROWS);
	assert_int_equal(w->allowed, 3);
	assert_int_equal(w->more, 0);
	clock_ns += EGRESS_AUDIT_WINDOW_NS;
	note(w, "ada/box", EGRESS_REFUSED, 1);
	count(w, "ada");
	assert_int_equal(w->refused, EGRESS_AUDIT_ROWS + 1);
	assert_int_equal(w->more, 1);
	assert_int_equal(w->left_out, 5000 - EGRESS_AUDIT_ROWS);
}

static void test_many_sandboxes(void **state)
{
	const unsigned boxes = 1000, each = EGRESS_AUDIT_ROWS;
	struct world *w = *state;

	for (unsigned i = 0; i < boxes; i++) {
		char label[32];
		(void)snprintf(label, sizeof(label), "ada/box%u", i);
		note(w, label, EGRESS_REFUSED, each);
	}
	w->audit = egress_audit_free(w->audit);
	count(w, "ada");
	assert_int_equal(w->refused, EGRESS_AUDIT_ROWS_ALL);
	assert_int_equal(w->left_out + w->refused, (uint64_t)boxes * each);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_row, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_flood, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_many_sandboxes, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
