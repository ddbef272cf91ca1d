/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets: the three bounds, the reserve, shares that change hands, and the text of SANDBOX_BUDGETS. */
#include "base/buf.h"
#include "base/text.h"
#include "budget/budgets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define KIND BUDGET_TASKS

static bool is_ada(const char *principal, void *user UNUSED)
{
	return streq(principal, "ada");
}

static struct budgets *make(uint64_t each, uint64_t total, uint64_t stranger)
{
	const struct budgets_config config = {.is_admin = is_ada};
	const struct budget_bounds bounds = {.each = each, .total = total, .stranger = stranger};
	struct budgets *b = budgets_new(&config);

	assert_non_null(b);
	budgets_set(b, KIND, &bounds);
	return b;
}

/* Takes single ones for WHO until it is refused; returns how many it got. */
static size_t take_all(struct budgets *b, const char *who, struct budget_share *shares, size_t max)
{
	struct err e = ERR_INIT;
	size_t n = 0;

	for (; n < max; n++) {
		shares[n] = (struct budget_share){0};
		if (budget_take(b, who, KIND, 1, &shares[n], &e) < 0)
			break;
	}
	if (n < max)
		assert_int_equal(e.code, ERR_BUDGET_EXCEEDED);
	return n;
}

static void count_accounts(const char *principal UNUSED, const uint64_t *used UNUSED, void *user)
{
	++*(size_t *)user;
}

static void give_all(struct budgets *b, struct budget_share *shares, size_t n)
{
	size_t accounts = 0;

	for (size_t i = 0; i < n; i++)
		budget_give(&shares[i]);
	assert_int_equal(budget_used(b, KIND), 0);
	budgets_each(b, count_accounts, &accounts);
	assert_int_equal(accounts, 0);
	(void)budgets_free(b);
}

static void test_each(void **state UNUSED)
{
	struct budgets *b = make(10, 1000, 3);
	struct budget_share s[40];
	size_t n = take_all(b, "bob", s, 40);

	assert_int_equal(n, 10);
	n += take_all(b, "@192.0.2.1", s + n, 10);
	assert_int_equal(n, 13);
	n += take_all(b, "@192.0.2.2", s + n, 10);
	assert_int_equal(n, 16);
	assert_int_equal(budget_used_by(b, "bob", KIND), 10);
	assert_int_equal(budget_refused(b, KIND), 3);
	assert_true(budget_is_full(b, "bob", KIND));
	assert_false(budget_is_full(b, "eve", KIND));
	give_all(b, s, n);
}

/* One user gets half of three quarters, and however many greedy ones follow, a newcomer finds something.
 * The reserve is for administrators. */
static void test_fair(void **state UNUSED)
{
	static struct budget_share s[2000];
	struct budgets *b = make(1000000, 800, 0);
	size_t n = take_all(b, "bob", s, 2000);
	char name[20];

	assert_int_equal(n, 300);
	for (unsigned i = 0; i < 64; i++) {
		(void)snprintf(name, sizeof(name), "user%u", i);
		size_t got = take_all(b, name, s + n, 1000);

		assert_in_range(got, 1, 300);
		n += got;
	}
	assert_int_equal(budget_used(b, KIND), 600 + 63);
	size_t left = 800 - n;
	assert_int_equal(take_all(b, "ada", s + n, 1000), left);
	n += left;
	assert_int_equal(budget_used(b, KIND), 800);
	give_all(b, s, n);
}

/* What somebody else gives back helps those who are below their own bound. */
static void test_instead(void **state UNUSED)
{
	struct budgets *b = make(1000000, 20, 0);
	struct budget_share s[60];
	size_t n = take_all(b, "bob", s, 20);

	assert_int_equal(n, 8);
	assert_false(budget_fits_instead(b, "bob", KIND, 1));
	n += take_all(b, "eve", s + n, 7);
	n += take_all(b, "ann", s + n, 1);
	assert_int_equal(n, 16);
	assert_false(budget_fits(b, "ann", KIND, 1));
	assert_true(budget_fits_instead(b, "ann", KIND, 1));
	assert_true(budget_fits_instead(NULL, "eve", KIND, 1));
	give_all(b, s, n);
}

/* One administrator leaves something to users who have little, and to the other administrators. */
static void test_admin(void **state UNUSED)
{
	static const struct {
		uint64_t total, ada, bob, local;
	} rows[] = {{47, 37, 1, 9}, {800, 600, 1, 199}, {8, 6, 1, 1}, {7, 7, 0, 0}, {1, 1, 0, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct budget_share s[1000];
		struct budgets *b = make(2, rows[i].total, 0);
		size_t n = take_all(b, "ada", s, ARRAY_SIZE(s));

		assert_int_equal(n, rows[i].ada);
		const size_t bob = take_all(b, "bob", s + n, ARRAY_SIZE(s) - n);
		assert_int_equal(bob, rows[i].bob);
		n += bob;
		const size_t local = take_all(b, "", s + n, ARRAY_SIZE(s) - n);
		assert_int_equal(local, rows[i].local);
		give_all(b, s, n + local);
	}
}

/* However small the total, no user gets all of it, and an administrator gets one. */
static void test_small(void **state UNUSED)
{
	static const struct {
		uint64_t total, one, users, admin;
	} rows[] = {
	    {1, 1, 1, 0}, {2, 1, 1, 1}, {3, 1, 2, 1}, {4, 2, 3, 1},
	    {5, 2, 4, 1}, {7, 3, 6, 1}, {8, 3, 7, 1}, {10, 4, 9, 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct budget_share s[20];
		struct budgets *b = make(100, rows[i].total, 0);
		size_t n = take_all(b, "bob", s, 20);

		assert_int_equal(n, rows[i].one);
		n += take_all(b, "eve", s + n, 20);
		n += take_all(b, "mal", s + n, 20);
		n += take_all(b, "tom", s + n, 20);
		assert_int_equal(n, rows[i].users);
		assert_int_equal(budget_reserve(b, KIND), rows[i].admin);
		n += take_all(b, "ada", s + n, 20);
		assert_int_equal(n, rows[i].total);
		give_all(b, s, n);
	}
}

static void test_local(void **state UNUSED)
{
	struct budget_share s[20];
	struct budgets *b = make(2, 10, 0);
	size_t n = take_all(b, "", s, 20);

	assert_int_equal(n, 10);
	give_all(b, s, n);
}

static void test_shares(void **state UNUSED)
{
	struct budgets *b = make(10, 1000, 0);
	struct budget_share s = {0}, other = {0};
	struct err e = ERR_INIT;

	assert_int_equal(budget_take(b, "bob", KIND, 8, &s, &e), 0);
	assert_int_equal(budget_take(b, "bob", KIND, 10, &s, &e), 0);
	assert_true(budget_take(b, "bob", KIND, 11, &s, &e) < 0);
	assert_int_equal(budget_used(b, KIND), 10);
	assert_int_equal(budget_take(b, "bob", KIND, 4, &s, &e), 0);
	assert_int_equal(budget_take(b, "eve", KIND, 8, &other, &e), 0);
	assert_true(budget_take(b, "eve", KIND, 4, &s, &e) < 0);
	assert_int_equal(budget_used_by(b, "bob", KIND), 4);
	assert_int_equal(budget_take(b, "dan", KIND, 4, &s, &e), 0);
	assert_int_equal(budget_used_by(b, "dan", KIND), 4);
	assert_int_equal(budget_used_by(b, "bob", KIND), 0);
	budget_note(b, "dan", KIND, 900, &s);
	assert_int_equal(budget_used(b, KIND), 908);
	assert_int_equal(budget_take(b, "dan", KIND, 800, &s, &e), 0); /* less is never refused */
	budget_give(&s);
	budget_give(&s);
	assert_null(s.account);
	assert_int_equal(budget_take(NULL, "bob", KIND, 1, &s, &e), 0);
	assert_null(s.account);
	give_all(b, &other, 1);
}

static void test_text(void **state UNUSED)
{
	static const char *const bad[] = {"tasks",
					  "tasks=",
					  "tasks=0",
					  "tasks=x",
					  "nothing=1",
					  "tasks=1/",
					  "tasks=/1",
					  "tasks=1/0",
					  "tasks=1/2/3",
					  "tasks=-1",
					  "=1",
					  "tasks=1;streams=2",
					  "tasks=99999999999999999999"};
	struct budgets *b = make(10, 1000, 0);
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_true(budgets_parse(NULL, bad[i], &e) < 0);
		assert_int_equal(e.code, ERR_SETTING_INVALID);
	}
	assert_int_equal(budgets_parse(b, "", &e), 0);
	assert_int_equal(budgets_parse(b, " tasks=5/7,streams=6, ", &e), 0);
	assert_int_equal(budget_bounds(b, BUDGET_TASKS).each, 5);
	assert_int_equal(budget_bounds(b, BUDGET_TASKS).total, 7);
	assert_int_equal(budget_bounds(b, BUDGET_STREAMS).each, 6);
	assert_int_equal(budget_bounds(b, BUDGET_STREAMS).total,
			 budget_default(BUDGET_STREAMS).total);
	(void)budgets_free(b);
}

/* ---- the page ---- */

#define PAGE_BYTES 65536
#define PAGE_BEGIN "by CAISSON_WRITE_PAGE=1 build/tests/unit/test_budgets -->\n"
#define PAGE_END   "<!-- end of budgets -->"

/* "512", "12 MiB", or "see there" for a total that another setting says. */
static void amount(char ret[32], int64_t n, const char *unit)
{
	if (n == 0)
		(void)snprintf(ret, 32, "its setting");
	else if (streq(unit, "bytes"))
		(void)snprintf(ret, 32, "%jd MiB", (intmax_t)(n >> 20));
	else
		(void)snprintf(ret, 32, "%jd", (intmax_t)n);
}

static void add_row(struct buf *b, const char *word, const char *unit, int64_t each, int64_t total,
		    const char *meaning)
{
	char own[32], all[32];

	amount(own, each, unit);
	amount(all, total, unit);
	assert_int_equal(buf_printf(b, "| `%s` | %s | %s | %s |\n", word, own, all, meaning), 0);
}

/* With CAISSON_WRITE_PAGE=1 the page is written instead of compared. */
static void test_page(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf want = BUF_INIT(PAGE_BYTES);
	static char page[PAGE_BYTES];
	FILE *f = fopen(BUDGETS_PAGE, "re");

	assert_non_null(f);
	page[fread(page, 1, sizeof(page) - 1, f)] = '\0';
	assert_int_equal(fclose(f), 0);
	const char *begin = strstr(page, PAGE_BEGIN), *end = strstr(page, PAGE_END);
	assert_true(begin && end && begin < end);
	begin += strlen(PAGE_BEGIN);
	assert_int_equal(buf_add(&want, page, (size_t)(begin - page)), 0);
	assert_int_equal(
	    buf_add_str(&want, "| budget | one user | all | what counts |\n|---|---:|---:|---|\n"),
	    0);
#define B(name, word, unit, each, total, stranger, meaning)                                        \
	add_row(&want, word, unit, each, total, meaning);
#include "budget/budgets.tbl.h"
#undef B
	assert_int_equal(buf_add_str(&want, end), 0);
	if (streq(page, buf_str(&want)))
		return;
	if (!getenv("CAISSON_WRITE_PAGE"))
		fail_msg("make it anew: CAISSON_WRITE_PAGE=1 build/tests/unit/test_budgets");
	f = fopen(BUDGETS_PAGE, "we");
	assert_non_null(f);
	assert_int_equal(fwrite(buf_str(&want), 1, want.len, f), want.len);
	assert_int_equal(fclose(f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_each),    cmocka_unit_test(test_fair),
	    cmocka_unit_test(test_admin),   cmocka_unit_test(test_small),
	    cmocka_unit_test(test_local),   cmocka_unit_test(test_shares),
	    cmocka_unit_test(test_text),    cmocka_unit_test(test_page),
	    cmocka_unit_test(test_instead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
