/* SPDX-License-Identifier: Apache-2.0 */
/* The loop's copy of a PostgreSQL database: it waits for nothing, follows what others change, and keeps nothing that was
 * refused. All need the server of tests/suites/postgres. */
#include "base/rand.h"
#include "base/text.h"
#include "store/store.h"
#include "store_database.h"

#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_NS (20 * NS_PER_S)
#define AT_ONCE_NS  (NS_PER_S / 2) /* less than what the locks of these tests are held */

struct side {
	struct store *s;
	sd_event *loop;
};

struct world {
	char dir[64], path[96];
	struct side a, b;
};

static struct side open_side(struct world *w, unsigned copy_ms)
{
	const struct store_config config = {
	    .path = w->path, .address = test_address(), .copied = true, .copy_ms = copy_ms};
	struct side x = {0};
	struct err e = ERR_INIT;

	if (store_open(&config, &x.s, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(sd_event_new(&x.loop), 0);
	assert_int_equal(store_attach(x.s, x.loop), 0);
	return x;
}

static void turn(struct side *x)
{
	assert_true(sd_event_run(x->loop, 10 * 1000) >= 0);
}

static void close_side(struct side *x)
{
	x->s = store_close(x->s);
	x->loop = sd_event_unref(x->loop);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	*state = w;
	assert_non_null(w);
	if (!test_address())
		return 0;
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/caisson-replica-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	(void)snprintf(w->path, sizeof(w->path), "%s/caisson.db", w->dir);
	empty_database();
	w->a = open_side(w, 0);
	w->b = open_side(w, 0);
	turn(&w->a); /* their threads have begun */
	turn(&w->b);
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	close_side(&w->a);
	close_side(&w->b);
	if (w->dir[0])
		assert_int_equal(rmdir(w->dir), 0); /* nothing of the database is here */
	free(w);
	return 0;
}

#define NEEDS_SERVER()                                                                             \
	do {                                                                                       \
		if (!test_address()) {                                                             \
			print_message("skipped: `tests/run postgres` starts a server for it\n");   \
			skip();                                                                    \
		}                                                                                  \
	} while (0)

static int64_t number(const char *sql)
{
	int64_t n = -1;

	assert_int_equal(psql(sql, &n), 0);
	return n;
}

/* ---- changes, and how they end ---- */

struct outcome {
	bool told;
	enum err_code code;
};

static void on_settled(const struct err *e, void *user)
{
	*(struct outcome *)user = (struct outcome){.told = true, .code = e ? e->code : ERR_NONE};
}

static struct outcome *settle(struct side *x)
{
	static struct outcome outcomes[16];
	static unsigned n;
	struct outcome *o = &outcomes[n++ % ARRAY_SIZE(outcomes)];
	struct err e = ERR_INIT;

	*o = (struct outcome){0};
	assert_true(store_owes(x->s));
	assert_int_equal(store_settle(x->s, on_settled, o, &e), 0);
	assert_false(o->told); /* never before it returns */
	return o;
}

static enum err_code wait_for(struct side *x, const struct outcome *o)
{
	const uint64_t until = now_ns() + PATIENCE_NS;

	while (!o->told) {
		assert_true(now_ns() < until);
		turn(x);
	}
	return o->code;
}

static int add(struct side *x, const char *name, struct store_user *ret, struct err *e)
{
	*ret = (struct store_user){.active = true, .quota = STORE_QUOTA_DEFAULTS};
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	return store_user_add(x->s, ret, e);
}

static struct store_user add_settled(struct side *x, const char *name)
{
	struct store_user u;
	struct err e = ERR_INIT;

	if (add(x, name, &u, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(wait_for(x, settle(x)), ERR_NONE);
	return u;
}

static struct store_key add_key(struct side *x, const char *user, char ret[STORE_KEY_SIZE])
{
	struct store_key k = {.name = "laptop"};
	struct err e = ERR_INIT;

	(void)snprintf(k.user, sizeof(k.user), "%s", user);
	assert_int_equal(store_key_add(x->s, &k, ret, &e), 0);
	return k;
}

static bool opens(struct side *x, const char *key)
{
	struct store_key k;
	struct store_user u;
	struct err e = ERR_INIT;
	const int r = store_key_check(x->s, key, &k, &u, &e);

	assert_true(r >= 0);
	return r > 0;
}

static bool knows(struct side *x, const char *name)
{
	struct store_user u;
	struct err e = ERR_INIT;
	const int r = store_user_find(x->s, name, &u, &e);

	assert_true(r >= 0);
	return r > 0;
}

static void wait_until_opens(struct side *x, const char *key, bool wanted)
{
	const uint64_t until = now_ns() + PATIENCE_NS;

	while (opens(x, key) != wanted) {
		assert_true(now_ns() < until);
		turn(x);
	}
}

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
}

/* ---- who was faster ---- */

/* Takes the lock of all writers, does SQL, and commits two seconds later. */
static pid_t slow_writer(const char *sql)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "BEGIN; SELECT pg_advisory_xact_lock(8386112020297315432); %s;"
		       "SELECT pg_sleep(2); COMMIT",
		       sql);
	const pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(psql(text, NULL));
	while (number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0)
		(void)usleep(10 * 1000);
	(void)usleep(100 * 1000); /* it has done its SQL */
	return pid;
}

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

/* ---- a database that is away ---- */

static void test_killed_server(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user ada = add_settled(&w->a, "ada"), u;
	char key[STORE_KEY_SIZE];
	struct err e = ERR_INIT;

	(void)add_key(&w->a, ada.id, key);
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	wait_until_opens(&w->b, key, true);
	const pid_t pid = slow_writer("SELECT 1");
	assert_int_equal(add(&w->a, "bob", &u, &e), 0);
	struct outcome *lost = settle(&w->a);
	server("CAISSON_TEST_DATABASE_KILL");
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(wait_for(&w->a, lost), ERR_STORE_UNREACHABLE);
	assert_false(knows(&w->a, "bob"));

	const uint64_t since = now_ns();
	assert_true(opens(&w->a, key));
	assert_true(add(&w->a, "bob", &u, &e) < 0);
	assert_int_equal(e.code, ERR_STORE_UNREACHABLE);
	assert_null(strstr(e.text, "caisson")); /* neither its user nor its folder */
	assert_true(store_in_trouble(w->a.s, &e));
	assert_true(now_ns() - since < AT_ONCE_NS);

	server("CAISSON_TEST_DATABASE_START");
	/* While it was away from us, so nobody told us. */
	assert_int_equal(psql("DELETE FROM keys", NULL), 0);
	wait_until_opens(&w->a, key, false);
	wait_until_opens(&w->b, key, false);
	(void)add_settled(&w->a, "bob");
	const uint64_t until = now_ns() + PATIENCE_NS;
	while (store_in_trouble(w->a.s, NULL) && now_ns() < until)
		turn(&w->a); /* rows that wait are tried again each second */
	assert_false(store_in_trouble(w->a.s, NULL));
	assert_int_equal(number("SELECT count(*) FROM users"), 2);
}

/* Keys are good for a bounded time only. */
static void test_old_copy(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	struct store_user u = add_settled(&w->a, "ada");
	char key[STORE_KEY_SIZE];
	struct store_key k;
	struct err e = ERR_INIT;
	int r = 1;

	(void)add_key(&w->a, u.id, key);
	assert_int_equal(wait_for(&w->a, settle(&w->a)), ERR_NONE);
	close_side(&w->a);
	w->a = open_side(w, 1500);
	turn(&w->a);
	assert_true(opens(&w->a, key));
	(void)usleep(1600 * 1000); /* the link looks each second */
	assert_true(opens(&w->a, key));
	server("CAISSON_TEST_DATABASE_KILL");
	assert_true(opens(&w->a, key));
	const uint64_t until = now_ns() + PATIENCE_NS;
	while (r > 0 && now_ns() < until) {
		turn(&w->a);
		r = store_key_check(w->a.s, key, &k, &u, &e);
	}
	assert_true(r < 0);
	assert_int_equal(e.code, ERR_STORE_UNREACHABLE);
	server("CAISSON_TEST_DATABASE_START");
	while (r < 0 && now_ns() < until) {
		turn(&w->a);
		r = store_key_check(w->a.s, key, &k, &u, &e);
	}
	assert_int_equal(r, 1);
}

/* Connections end while changes are made: each is either made and said so, or it is neither here nor there. */
static void test_lost_connections(void **state)
{
	NEEDS_SERVER();
	struct world *w = *state;
	int made = 0;

	for (int i = 0; i < 60; i++) {
		struct store_user u;
		struct err e = ERR_INIT;
		char name[32];

		(void)snprintf(name, sizeof(name), "user%d", i);
		if (i % 3 == 0)
			(void)number("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
				     " WHERE pid <> pg_backend_pid()"
				     " AND application_name = 'caisson'");
		if (add(&w->a, name, &u, &e) < 0) {
			assert_int_equal(e.code, ERR_STORE_UNREACHABLE);
			turn(&w->a);
			continue;
		}
		const bool ok = wait_for(&w->a, settle(&w->a)) == ERR_NONE;
		assert_int_equal(knows(&w->a, name), ok);
		made += ok;
	}
	assert_true(made > 10);
	assert_int_equal(number("SELECT count(*) FROM users"), made);
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
	    T(test_whose_failure),
	    T(test_killed_server),
	    T(test_old_copy),
	    T(test_lost_connections),
	    T(test_removed_user),
	    T(test_secrets_and_invitations),
	};
#undef T

	return cmocka_run_group_tests(tests, NULL, NULL);
}
