/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's copy of a PostgreSQL database: it waits for nothing, follows what others change, and keeps nothing that was
 * refused. All need the server of tests/suites/postgres. */
#include "store_sides.h"

/* What is changed here is seen here at once, elsewhere soon, and in PostgreSQL before it is said. */
static void test_two_servers(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user u = add_settled(&w->a, "ada");
	char key[STORE_KEY_SIZE];
	struct err e = ERR_INIT;
	uint64_t before = 0, after = 0;

	assert_int_equal(number("SELECT count(*) FROM users"), 1);
	struct store_key k = add_key(&w->a, u.id, key);
	assert_true(opens(&w->a, key));
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	assert_true(opens(&w->a, key));
	wait_until_opens(&w->b, key, true);
	assert_int_equal(store_credentials_epoch(w->a.s, &before, &e), 0);

	assert_int_equal(store_key_revoke(w->b.s, NULL, k.id, &e), 1);
	assert_int_equal(wait_for(&w->b, settle(&w->b)), ERR_NONE);
	assert_false(opens(&w->b, key));
	const uint64_t since = now_ns();
	wait_until_opens(&w->a, key, false);
	assert_true(now_ns() - since < NS_PER_S);
	assert_int_equal(store_credentials_epoch(w->a.s, &after, &e), 0);
	assert_true(after > before);
	assert_int_equal(number("SELECT count(*) FROM keys"), 0);
}

/* By a verb, or somebody with psql. */
static void test_others(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user u = add_settled(&w->a, "ada");
	char key[STORE_KEY_SIZE];

	(void)add_key(&w->a, u.id, key);
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	assert_int_equal(psql("UPDATE users SET active = 0", NULL), 0);
	wait_until_opens(&w->a, key, false);
	assert_int_equal(psql("UPDATE users SET active = 1", NULL), 0);
	wait_until_opens(&w->a, key, true);
	wait_until_opens(&w->b, key, true);
	/* More rows than are read one by one. */
	assert_int_equal(
	    psql("INSERT INTO keys SELECT 'k' || i, \"user\", name, hint,"
		 " sha256(('k' || i)::bytea), 0, '', 1, 0, 0 FROM keys,"
		 " generate_series(1, 3000) i; DELETE FROM keys WHERE id NOT LIKE 'k%'",
		 NULL),
	    0);
	/* Changes wait for the new copy and are not refused. */
	struct store_user bob = add_settled(&w->a, "bob");
	wait_until_opens(&w->a, key, false);
	uint64_t n = 0;
	struct err e = ERR_INIT;
	const uint64_t until = now_ns() + PATIENCE_NS;
	/* Rows come one after the other, and the oldest key may be read before the rest: its use was told before. */
	while (n != 3000 && now_ns() < until) {
		turn(&w->a);
		assert_int_equal(store_key_count(w->a.s, u.id, &n, &e), 0);
	}
	assert_int_equal(n, 3000);
	assert_int_equal(store_key_count(w->a.s, bob.id, &n, &e), 0);
	assert_int_equal(n, 0);
	assert_int_equal(number("SELECT count(*) FROM users"), 2);
}

/* ---- who was faster ---- */

#define ADD_ADA                                                                                    \
	"INSERT INTO users VALUES('5a0b6cbb-0000-4000-8000-000000000001', 'ADA', NULL, NULL, 0, "  \
	"1, 1,"                                                                                    \
	" -1, -1, -1, -1)"

static void test_somebody_was_faster(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user eve = add_settled(&w->a, "eve"), ada, got;
	char key[STORE_KEY_SIZE];
	struct err e = ERR_INIT;
	struct store_user bob = add_settled(&w->a, "bob");
	const pid_t pid = slow_writer(ADD_ADA "; UPDATE users SET role = 1 WHERE name = 'bob'");
	const uint64_t since = now_ns();

	assert_int_equal(add(&w->a, "ada", &ada, &e), 0);
	struct outcome *refused = settle(&w->a);
	turn(&w->a);
	turn(&w->a);
	(void)add_key(&w->a, ada.id, key); /* of a user who will turn out not to exist */
	struct outcome *orphan = settle(&w->a);
	turn(&w->a);
	turn(&w->a);
	eve.role = STORE_ROLE_ADMIN;
	assert_int_equal(store_user_update(w->a.s, &eve, &e), 1);
	struct outcome *fine = settle(&w->a);
	turn(&w->a);
	turn(&w->a);
	bob.active = false; /* the other one has made it an administrator meanwhile */
	assert_int_equal(store_user_update(w->a.s, &bob, &e), 1);
	struct outcome *overwrites = settle(&w->a);
	assert_true(opens(&w->a, key)); /* until it is known */
	assert_true(now_ns() - since < AT_ONCE_NS);

	assert_int_equal(wait_for(&w->a, refused), ERR_STORE_BUSY);
	assert_int_equal(wait_for(&w->a, orphan), ERR_STORE_BUSY);
	assert_int_equal(wait_for(&w->a, fine), ERR_NONE);
	assert_int_equal(wait_for(&w->a, overwrites), ERR_STORE_BUSY);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(opens(&w->a, key));
	assert_int_equal(store_user_find(w->a.s, "ada", &got, &e), 1);
	assert_string_equal(got.name, "ADA");
	assert_int_equal(store_user_get(w->a.s, ada.id, &got, &e), 0);
	assert_int_equal(store_user_get(w->a.s, eve.id, &got, &e), 1);
	assert_int_equal(got.role, STORE_ROLE_ADMIN);
	assert_int_equal(store_user_get(w->a.s, bob.id, &got, &e), 1);
	assert_true(got.active && got.role == STORE_ROLE_ADMIN);
	assert_int_equal(number("SELECT count(*) FROM users"), 3);
	assert_int_equal(number("SELECT role FROM users WHERE name = 'eve'"), STORE_ROLE_ADMIN);
	assert_int_equal(number("SELECT count(*) FROM keys"), 0);
}

/* The number of all keys is only compared with a limit: others may add theirs meanwhile. */
static void test_keys_of_others(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user ada = add_settled(&w->a, "ada");
	char key[STORE_KEY_SIZE], sql[256];

	(void)snprintf(
	    sql, sizeof(sql),
	    "INSERT INTO keys VALUES('k', '%s', 'other', '', sha256('k'), 0, '', 1, 0, 0)", ada.id);
	const pid_t pid = slow_writer(sql);
	(void)add_key(&w->a, ada.id, key);
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(number("SELECT count(*) FROM keys"), 2);
}

/* A request whose client has left is not answered. Its change is refused, and the next answers are about other changes. */
static void test_whose_failure(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user u;
	struct err e = ERR_INIT;
	const pid_t pid = slow_writer(ADD_ADA);

	assert_int_equal(add(&w->a, "ada", &u, &e), 0);
	assert_true(store_owes(w->a.s));
	turn(&w->a);
	turn(&w->a);
	assert_false(store_owes(w->a.s));
	assert_int_equal(add(&w->a, "Ada", &u, &e), -EEXIST);
	assert_int_equal(add(&w->a, "ADA ", &u, &e), 0);
	struct outcome *later = settle(&w->a);
	turn(&w->a);
	turn(&w->a);
	/* Of two in one turn, too. */
	assert_int_equal(store_user_find(w->a.s, "ada", &u, &e), 1);
	u.role = STORE_ROLE_ADMIN;
	assert_int_equal(store_user_update(w->a.s, &u, &e), 1); /* of a user who will not exist */
	store_owes_nothing(w->a.s);
	assert_false(store_owes(w->a.s));
	assert_int_equal(add(&w->a, "bob", &u, &e), 0);
	struct outcome *same = settle(&w->a);
	assert_int_equal(wait_for(&w->a, later), ERR_NONE);
	assert_int_equal(wait_for(&w->a, same), ERR_NONE);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(number("SELECT role FROM users WHERE name = 'ADA'"), 0);
}

/* ---- the end of a user ---- */

static void on_removed(bool found, const struct err *e, void *user)
{
	assert_true(found);
	on_settled(e, user);
}

static void test_removed_user(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user u = add_settled(&w->a, "ada");
	struct outcome o = {0};
	struct err e = ERR_INIT;
	char key[STORE_KEY_SIZE];

	for (int i = 0; i < 100; i++)
		(void)add_key(&w->a, u.id, key);
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	wait_until_opens(&w->b, key, true);
	assert_int_equal(store_user_remove_later(w->a.s, u.id, on_removed, &o, &e), 0);
	assert_int_equal(wait_for(&w->a, &o), ERR_NONE);
	assert_false(opens(&w->a, key));
	assert_false(knows(&w->a, "ada"));
	wait_until_opens(&w->b, key, false);
}

/* Both have the same secrets, invitations are used once. */
static void test_secrets_and_invitations(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_invitation i = {.expires_ms = store_now_ms() + 60000}, found;
	struct store_user u = {.name = "ada", .active = true, .quota = STORE_QUOTA_DEFAULTS}, v = u;
	char text[STORE_KEY_SIZE];
	struct err e = ERR_INIT;
	uint8_t a[STORE_SECRET_BYTES], b[STORE_SECRET_BYTES];
	const uint64_t until = now_ns() + PATIENCE_NS;
	int r = 0;

	assert_int_equal(store_secret(w->a.s, "keys", a, &e), 0);
	assert_int_equal(store_secret(w->b.s, "keys", b, &e), 0);
	assert_memory_equal(a, b, sizeof(a));
	assert_int_equal(store_invitation_add(w->a.s, &i, text, &e), 0);
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	while (r == 0 && now_ns() < until) {
		turn(&w->b);
		r = store_invitation_find(w->b.s, text, &found, &e);
	}
	assert_int_equal(r, 1);
	/* At once at both: only one of them can. */
	(void)snprintf(v.name, sizeof(v.name), "bob");
	assert_int_equal(store_user_join(w->a.s, &u, text, &e), 0);
	struct outcome *one = settle(&w->a);
	assert_int_equal(store_user_join(w->b.s, &v, text, &e), 0);
	struct outcome *two = settle(&w->b);
	const enum err_code codes[] = {wait_for(&w->a, one), wait_for(&w->b, two)};
	assert_true((codes[0] == ERR_NONE) != (codes[1] == ERR_NONE));
	assert_true(codes[0] == ERR_STORE_BUSY || codes[1] == ERR_STORE_BUSY);
	assert_int_equal(number("SELECT count(*) FROM users"), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
	    T(test_two_servers),
	    T(test_others),
	    T(test_somebody_was_faster),
	    T(test_keys_of_others),
	    T(test_whose_failure),
	    T(test_removed_user),
	    T(test_secrets_and_invitations),
	};
#undef T

	return cmocka_run_group_tests(tests, NULL, NULL);
}
