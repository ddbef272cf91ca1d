/* SPDX-License-Identifier: Apache-2.0 */
/* store: tables and their rules, secrets, passwords, the queue, and what can go wrong: a full disk,
 * a killed writer, a foreign lock, a damaged or newer file. */
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "budget/budgets.h"
#include "store/store.h"
#include "store_database.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

struct world {
	char dir[64];
	char path[96];
	struct store *s;
	sd_event *loop;
	sd_event_source *jobs;
};

static struct store *open_at(const char *path, struct err *e)
{
	struct store_config config = {.path = path,
				      .address = test_address(),
				      .runs_keep = 1500,
				      .audit_keep = 1500,
				      .busy_ms = 20000};
	struct store *s = NULL;
	int r = store_open(&config, &s, e);

	assert_true((r == 0) == (s != NULL));
	return s;
}

static int on_jobs(sd_event_source *source UNUSED, int fd UNUSED, uint32_t events UNUSED,
		   void *user UNUSED)
{
	workers_deliver();
	return 0;
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	struct err e = ERR_INIT;

	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/caisson-store-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	empty_database();
	(void)snprintf(w->path, sizeof(w->path), "%s/state/caisson.db", w->dir);
	w->s = open_at(w->path, &e);
	assert_non_null(w->s);
	assert_int_equal(sd_event_new(&w->loop), 0);
	const int jobs = workers_begin();
	assert_true(jobs >= 0);
	assert_true(sd_event_add_io(w->loop, &w->jobs, jobs, EPOLLIN, on_jobs, NULL) >= 0);
	assert_int_equal(store_attach(w->s, w->loop), 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const files[] = {"state/caisson.db",
					    "state/caisson.db-wal",
					    "state/caisson.db-shm",
					    "state/caisson.db-runs",
					    "state",
					    ""};
	struct world *w = *state;
	char path[128];

	w->s = store_close(w->s);
	workers_end();
	w->jobs = sd_event_source_disable_unref(w->jobs);
	w->loop = sd_event_unref(w->loop);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", w->dir, files[i]);
		(void)remove(path);
	}
	free(w);
	return 0;
}

static void reopen(struct world *w)
{
	struct err e = ERR_INIT;

	w->s = store_close(w->s);
	w->s = open_at(w->path, &e);
	assert_non_null(w->s);
	assert_int_equal(store_attach(w->s, w->loop), 0);
}

static struct store_user add_user(struct world *w, const char *name)
{
	struct store_user u = {.active = true, .quota = STORE_QUOTA_DEFAULTS};
	struct err e = ERR_INIT;

	(void)snprintf(u.name, sizeof(u.name), "%s", name);
	(void)snprintf(u.email, sizeof(u.email), "%s@example.org", name);
	assert_int_equal(store_user_add(w->s, &u, &e), 0);
	return u;
}

static struct store_sandbox add_sandbox(struct world *w, const char *owner)
{
	struct store_sandbox b = {.disk_bytes = 100};
	struct err e = ERR_INIT;

	(void)snprintf(b.owner, sizeof(b.owner), "%s", owner);
	assert_int_equal(store_sandbox_add(w->s, &b, "", &(struct store_room){0}, &e), 0);
	return b;
}

/* SQL from outside the program, as another process would run it. Returns SQLite's code. */
static int foreign(const struct world *w, const char *sql)
{
	sqlite3 *db;

	if (test_address())
		return psql(sql, NULL);
	assert_int_equal(sqlite3_open(w->path, &db), SQLITE_OK);
	(void)sqlite3_busy_timeout(db, 2000);
	int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
	(void)sqlite3_close(db);
	return rc;
}

/* ---- the file ---- */

static void test_file(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;
	struct stat st;
	char path[128];

	for (const char *const *end = (const char *const[]){"", "-wal", "-shm", NULL}; *end;
	     end++) {
		(void)snprintf(path, sizeof(path), "%s%s", w->path, *end);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
	}
	/* What somebody opened to others is closed again. */
	assert_int_equal(chmod(w->path, 0644), 0);
	reopen(w);
	assert_int_equal(stat(w->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_file_refused(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;
	struct err e = ERR_INIT;
	char path[128];

	/* A link is not followed, a folder is no file. */
	(void)snprintf(path, sizeof(path), "%s/link.db", w->dir);
	assert_int_equal(symlink(w->path, path), 0);
	assert_null(open_at(path, &e));
	assert_int_equal(e.code, ERR_STORE_FAILED);
	assert_int_equal(unlink(path), 0);
	assert_null(open_at(w->dir, &e));
	assert_null(open_at("/proc/nothing/caisson.db", &e));

	/* Neither is something else. */
	(void)snprintf(path, sizeof(path), "%s/text.db", w->dir);
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	for (int i = 0; i < 1000; i++)
		(void)fputs("this is no database\n", f);
	assert_int_equal(fclose(f), 0);
	assert_null(open_at(path, &e));
	assert_int_equal(e.code, ERR_STORE_FAILED);
	assert_int_equal(e.errnum, EUCLEAN);
	assert_int_equal(unlink(path), 0);
}

static void test_newer_version(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;

	w->s = store_close(w->s);
	assert_int_equal(foreign(w, "INSERT INTO migrations VALUES(4000000, 0)"), SQLITE_OK);
	assert_null(open_at(w->path, &e));
	assert_int_equal(e.code, ERR_STORE_FAILED);
	assert_non_null(strstr(e.text, "4000000"));
	assert_non_null(strstr(e.text, "into a new state folder")); /* what to do is not cut off */
	assert_int_equal(foreign(w, "DELETE FROM migrations WHERE version = 4000000"), SQLITE_OK);
	reopen(w);
}

static void test_strict(void **state)
{
	struct world *w = *state;

	assert_int_not_equal(foreign(w, "INSERT INTO usage VALUES('a', 'today', 1, 1)"), SQLITE_OK);
	assert_int_equal(foreign(w, "INSERT INTO usage VALUES('a', 1, 1, 1)"), SQLITE_OK);
}

/* ---- users, keys ---- */

static void test_mirrored_users(void **state)
{
	struct world *w = *state;
	struct store_user u = add_user(w, "Ada"), got, twin = {.active = true};
	struct err e = ERR_INIT;
	uint64_t n;

	(void)snprintf(twin.id, sizeof(twin.id), "aaaaaaaa-0000-4000-8000-000000000000");
	(void)snprintf(twin.name, sizeof(twin.name), "Bob");
	(void)snprintf(twin.hash, sizeof(twin.hash), "never kept");
	twin.quota = STORE_QUOTA_DEFAULTS;
	assert_int_equal(store_user_mirror(w->s, &twin, &e), 0);
	assert_int_equal(store_user_get(w->s, twin.id, &got, &e), 1);
	assert_string_equal(got.name, "Bob");
	assert_string_equal(got.hash, "");
	twin.quota.sandboxes = 7;
	twin.role = STORE_ROLE_ADMIN;
	assert_int_equal(store_user_mirror(w->s, &twin, &e), 0);
	assert_int_equal(store_user_get(w->s, twin.id, &got, &e), 1);
	assert_int_equal(got.quota.sandboxes, 7);
	assert_int_equal(got.role, STORE_ROLE_USER);
	/* A row that was there before keeps what a router does not say. */
	twin = u;
	twin.hash[0] = twin.email[0] = '\0';
	twin.role = STORE_ROLE_ADMIN;
	twin.quota.sandboxes = 3;
	assert_int_equal(store_user_mirror(w->s, &twin, &e), 0);
	assert_int_equal(store_user_get(w->s, u.id, &got, &e), 1);
	assert_int_equal(got.quota.sandboxes, 3);
	assert_int_equal(got.role, u.role);
	assert_string_equal(got.hash, u.hash);
	assert_string_equal(got.email, u.email);
	twin = (struct store_user){.active = true, .quota = STORE_QUOTA_DEFAULTS};
	(void)snprintf(twin.id, sizeof(twin.id), "aaaaaaaa-0000-4000-8000-000000000000");
	/* A name that is taken is no reason to refuse somebody whom a router knows. */
	twin.id[0] = 'b';
	(void)snprintf(twin.name, sizeof(twin.name), "ADA");
	assert_int_equal(store_user_mirror(w->s, &twin, &e), 0);
	assert_int_equal(store_user_get(w->s, twin.id, &got, &e), 1);
	assert_string_equal(got.name, twin.id);
	assert_int_equal(store_user_get(w->s, u.id, &got, &e), 1);
	assert_string_equal(got.name, "Ada");
	assert_int_equal(store_user_count(w->s, &n, &e), 0);
	assert_int_equal(n, 3);
}

static void test_users(void **state)
{
	struct world *w = *state;
	struct store_user u = add_user(w, "Ada"), got, twin = {.active = true};
	struct err e = ERR_INIT;
	uint64_t n;

	assert_int_equal(strlen(u.id), 36);
	assert_int_equal(u.id[14], '4');
	reopen(w);
	assert_int_equal(store_user_get(w->s, u.id, &got, &e), 1);
	assert_string_equal(got.name, "Ada");
	assert_int_equal(got.quota.sandboxes, STORE_QUOTA_DEFAULT);
	/* Without case, by name or e-mail. */
	assert_int_equal(store_user_find(w->s, "aDA", &got, &e), 1);
	assert_int_equal(store_user_find(w->s, "ada@EXAMPLE.org", &got, &e), 1);
	assert_int_equal(store_user_find(w->s, "ad", &got, &e), 0);

	(void)snprintf(twin.name, sizeof(twin.name), "ADA");
	assert_int_equal(store_user_add(w->s, &twin, &e), -EEXIST);
	assert_int_equal(e.code, ERR_ALREADY_EXISTS);
	(void)snprintf(twin.name, sizeof(twin.name), "Bob");
	(void)snprintf(twin.email, sizeof(twin.email), "ADA@example.org");
	assert_int_equal(store_user_add(w->s, &twin, &e), -EALREADY);
	/* Any number have no e-mail at all. */
	twin.email[0] = '\0';
	assert_int_equal(store_user_add(w->s, &twin, &e), 0);
	(void)snprintf(twin.name, sizeof(twin.name), "Eve");
	assert_int_equal(store_user_add(w->s, &twin, &e), 0);

	u.role = STORE_ROLE_ADMIN;
	u.quota.sandboxes = 7;
	assert_int_equal(store_user_update(w->s, &u, &e), 1);
	assert_int_equal(store_user_get(w->s, u.id, &got, &e), 1);
	assert_int_equal(got.role, STORE_ROLE_ADMIN);
	assert_int_equal(got.quota.sandboxes, 7);
	assert_int_equal(store_user_count(w->s, &n, &e), 0);
	assert_int_equal(n, 3);
	assert_int_equal(store_user_remove(w->s, u.id, &e), 1);
	assert_int_equal(store_user_remove(w->s, u.id, &e), 0);
	assert_int_equal(store_user_update(w->s, &u, &e), 0);
}

static bool take_idle(const char *id, void *user)
{
	char *all = user;
	const size_t len = strlen(all);

	(void)snprintf(all + len, 200 - len, "%s ", id);
	return true;
}

static void test_idle_users(void **state)
{
	struct world *w = *state;
	struct store_user idle = add_user(w, "Ada"), gone = {.active = true},
			  here = {.active = true};
	char got[200] = "", wanted[200];
	bool left = true;
	struct err e = ERR_INIT;

	idle.active = false;
	assert_int_equal(store_user_update(w->s, &idle, &e), 1);
	(void)snprintf(gone.name, sizeof(gone.name), "Bob");
	(void)snprintf(here.name, sizeof(here.name), "Eve");
	assert_int_equal(store_user_add(w->s, &gone, &e), 0);
	assert_int_equal(store_user_add(w->s, &here, &e), 0);
	assert_int_equal(store_user_has_left(w->s, gone.id, &left, &e), 0);
	assert_false(left);
	assert_int_equal(store_user_remove(w->s, gone.id, &e), 1);
	assert_int_equal(store_user_has_left(w->s, gone.id, &left, &e), 0);
	assert_true(left);
	const bool first = strcmp(idle.id, gone.id) < 0;
	(void)snprintf(wanted, sizeof(wanted), "%s %s ", first ? idle.id : gone.id,
		       first ? gone.id : idle.id);
	assert_int_equal(store_user_each_idle(w->s, 9, take_idle, got, &e), 0);
	assert_string_equal(got, wanted);
	got[0] = '\0';
	assert_int_equal(store_user_each_idle(w->s, 1, take_idle, got, &e), 0);
	assert_int_equal(strlen(got), strlen(idle.id) + 1);
}

static bool count_key(const struct store_key *k UNUSED, void *user)
{
	(*(int *)user)++;
	return true;
}

static int n_keys(struct world *w, const char *user)
{
	struct err e = ERR_INIT;
	int n = 0;

	assert_int_equal(store_key_each(w->s, user, NULL, count_key, &n, &e), 0);
	return n;
}

static void test_keys(void **state)
{
	struct world *w = *state;
	struct store_user u = add_user(w, "ada"), other = add_user(w, "bob"), who;
	struct store_key k = {.scope = STORE_SCOPE_READ}, got;
	char key[STORE_KEY_SIZE], second[STORE_KEY_SIZE];
	struct err e = ERR_INIT;

	memcpy(k.user, u.id, sizeof(k.user));
	assert_int_equal(store_key_add(w->s, &k, key, &e), 0);
	assert_int_equal(store_key_add(w->s, &k, second, &e), 0);
	assert_string_not_equal(key, second);
	assert_true(strlen(key) >= 36);
	assert_true(text_starts_with(key, "csn_"));
	reopen(w);
	assert_int_equal(store_key_check(w->s, key, &got, &who, &e), 1);
	assert_int_equal(strlen(got.hint),
			 10); /* enough to know it again, and nothing to guess from */
	assert_true(text_starts_with(key, got.hint));
	assert_string_equal(who.id, u.id);
	assert_int_equal(got.scope, STORE_SCOPE_READ);
	/* The text itself is nowhere in the file. */
	char find[256];
	(void)snprintf(find, sizeof(find),
		       test_address() ? "SELECT 1/(1 - count(*)) FROM keys"
					" WHERE position('%s'::bytea IN digest) > 0"
				      : "SELECT 1/(count(*) = 0) FROM keys"
					" WHERE instr(CAST(digest AS TEXT), '%s')",
		       key);
	assert_int_equal(foreign(w, find), SQLITE_OK);

	key[10] ^= 1;
	assert_int_equal(store_key_check(w->s, key, &got, &who, &e), 0);
	assert_int_equal(store_key_check(w->s, "", &got, &who, &e), 0);
	assert_int_equal(store_key_check(w->s, "csn_", &got, &who, &e), 0);
	key[10] ^= 1;

	/* Only its owner revokes it, and then it is dead. */
	assert_int_equal(store_key_check(w->s, key, &got, &who, &e), 1);
	assert_int_equal(store_key_revoke(w->s, other.id, got.id, &e), 0);
	assert_int_equal(store_key_revoke(w->s, u.id, got.id, &e), 1);
	assert_int_equal(store_key_check(w->s, key, &got, &who, &e), 0);
	assert_int_equal(n_keys(w, u.id), 1);
	assert_int_equal(n_keys(w, other.id), 0);

	/* An inactive user's do not count; a removed user's are gone. */
	u.active = false;
	assert_int_equal(store_user_update(w->s, &u, &e), 1);
	assert_int_equal(store_key_check(w->s, second, &got, &who, &e), 0);
	assert_int_equal(store_user_remove(w->s, u.id, &e), 1);
	assert_int_equal(n_keys(w, NULL), 0);
	assert_true(store_key_add(w->s, &k, key, &e) < 0);
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void test_key_limit(void **state)
{
	struct world *w = *state;
	struct store_user u = add_user(w, "ada"), other = add_user(w, "bob");
	struct store_key k = {.scope = STORE_SCOPE_READ};
	char key[STORE_KEY_SIZE];
	struct err e = ERR_INIT;

	memcpy(k.user, u.id, sizeof(k.user));
	for (uint64_t i = 0; i < budget_default(BUDGET_KEYS).each; i++)
		assert_int_equal(store_key_add(w->s, &k, key, &e), 0);
	assert_true(store_key_add(w->s, &k, key, &e) < 0);
	assert_int_equal(e.code, ERR_BUDGET_EXCEEDED);
	memcpy(k.user, other.id, sizeof(k.user));
	assert_int_equal(store_key_add(w->s, &k, key, &e), 0);
}

static uint64_t epoch(struct world *w)
{
	struct err e = ERR_INIT;
	uint64_t n = 0;

	assert_int_equal(store_credentials_epoch(w->s, &n, &e), 0);
	return n;
}

/* It grows when a credential may have ended or lost rights, and at no other change. */
static void test_credentials_epoch(void **state)
{
	struct world *w = *state;
	struct store_user u = add_user(w, "ada"), who;
	struct store_key k = {.scope = STORE_SCOPE_FULL}, got;
	char key[STORE_KEY_SIZE];
	struct err e = ERR_INIT;
	uint64_t before = epoch(w);

	memcpy(k.user, u.id, sizeof(k.user));
	assert_int_equal(store_key_add(w->s, &k, key, &e), 0);
	(void)snprintf(u.email, sizeof(u.email), "ada@example.net");
	assert_int_equal(store_user_update(w->s, &u, &e), 1);
	assert_int_equal(store_key_check(w->s, key, &got, &who, &e), 1);
	flush_all(w->s);
	assert_int_equal(epoch(w), before);
	u.role = STORE_ROLE_ADMIN;
	assert_int_equal(store_user_update(w->s, &u, &e), 1);
	assert_int_equal(epoch(w), before + 1);
	u.active = false;
	assert_int_equal(store_user_update(w->s, &u, &e), 1);
	assert_int_equal(epoch(w), before + 2);
	assert_int_equal(store_key_get(w->s, k.id, &got, &who, &e), 0);
	u.active = true;
	(void)snprintf(u.hash, sizeof(u.hash), "another");
	assert_int_equal(store_user_update(w->s, &u, &e), 1);
	assert_int_equal(epoch(w), before + 3);
	assert_int_equal(store_key_get(w->s, k.id, &got, &who, &e), 1);
	assert_int_equal(store_key_revoke(w->s, NULL, k.id, &e), 1);
	assert_int_equal(epoch(w), before + 4);
	assert_int_equal(store_key_get(w->s, k.id, &got, &who, &e), 0);
	assert_int_equal(store_user_remove(w->s, u.id, &e), 1);
	assert_true(epoch(w) > before + 4);
}

static void test_invitations(void **state)
{
	struct world *w = *state;
	struct store_invitation i = {.role = STORE_ROLE_ADMIN}, got;
	struct store_user u = {.active = true, .quota = STORE_QUOTA_DEFAULTS};
	char text[STORE_KEY_SIZE], old[STORE_KEY_SIZE];
	struct err e = ERR_INIT;

	i.expires_ms = store_now_ms() - 1;
	assert_int_equal(store_invitation_add(w->s, &i, old, &e), 0);
	i.expires_ms = store_now_ms() + 60000;
	assert_int_equal(store_invitation_add(w->s, &i, text, &e), 0);
	assert_int_equal(store_invitation_find(w->s, old, &got, &e), 0);
	assert_int_equal(store_invitation_find(w->s, "csi_x", &got, &e), 0);
	assert_int_equal(store_invitation_find(w->s, text, &got, &e), 1);
	assert_string_equal(got.id, i.id);
	/* A name that is taken uses nothing up. */
	(void)add_user(w, "bob");
	(void)snprintf(u.name, sizeof(u.name), "Bob");
	assert_true(store_user_join(w->s, &u, text, &e) < 0);
	assert_int_equal(e.code, ERR_ALREADY_EXISTS);
	(void)snprintf(u.name, sizeof(u.name), "carl");
	assert_int_equal(store_user_join(w->s, &u, text, &e), 0);
	assert_int_equal(u.role, STORE_ROLE_ADMIN);
	(void)snprintf(u.name, sizeof(u.name), "dora");
	assert_true(store_user_join(w->s, &u, text, &e) < 0);
	assert_int_equal(e.code, ERR_FORBIDDEN);
	assert_int_equal(store_invitation_remove(w->s, i.id, &e), 0);
}

static void test_key_expiry(void **state)
{
	struct world *w = *state;
	struct store_user u = add_user(w, "ada"), who;
	struct store_key k = {.scope = STORE_SCOPE_FULL}, got;
	char key[STORE_KEY_SIZE];
	struct err e = ERR_INIT;

	memcpy(k.user, u.id, sizeof(k.user));
	k.expires_ms = store_now_ms() - 1;
	assert_int_equal(store_key_add(w->s, &k, key, &e), 0);
	assert_int_equal(store_key_check(w->s, key, &got, &who, &e), 0);
	k.expires_ms = store_now_ms() + 3600000;
	assert_int_equal(store_key_add(w->s, &k, key, &e), 0);
	assert_int_equal(store_key_check(w->s, key, &got, &who, &e), 1);
	/* The use shows later. */
	flush_all(w->s);
	assert_int_equal(store_key_check(w->s, key, &got, &who, &e), 1);
	assert_true(got.used_ms > 0);
}

struct settled {
	int n;
	enum err_code code;
};

static void on_settled(const struct err *e, void *user)
{
	struct settled *s = user;

	s->n++;
	s->code = e ? e->code : ERR_NONE;
}

/* A change that does not wait for the disk is seen at once, and somebody tells when it is there. */
static void test_later(void **state)
{
	struct world *w = *state;
	struct store_user u = add_user(w, "ada"), who;
	struct store_key k = {.scope = STORE_SCOPE_FULL}, got;
	struct settled told = {0}, at_end = {0};
	char key[STORE_KEY_SIZE];
	struct err e = ERR_INIT;

	memcpy(k.user, u.id, sizeof(k.user));
	assert_int_equal(store_key_add(w->s, &k, key, &e), 0);
	assert_false(store_owes(w->s));
	assert_false(store_later(w->s, true));
	assert_int_equal(store_key_add(w->s, &k, key, &e), 0);
	assert_int_equal(store_owes(w->s), !test_address()); /* PostgreSQL's commits wait */
	assert_int_equal(store_settle(w->s, on_settled, &told, &e), 0);
	assert_false(store_owes(w->s));
	assert_true(store_later(w->s, false));
	assert_int_equal(store_key_check(w->s, key, &got, &who, &e), 1);
	assert_int_equal(told.n, 0);
	while (told.n == 0)
		assert_true(sd_event_run(w->loop, 20 * 1000 * 1000) > 0);
	assert_int_equal(told.code, ERR_NONE);
	/* Whoever still waits when the store is closed is told, too. */
	assert_int_equal(store_settle(w->s, on_settled, &at_end, &e), 0);
	w->s = store_close(w->s);
	assert_int_equal(at_end.n, 1);
	assert_int_equal(at_end.code, ERR_CANCELLED);
	assert_int_equal(told.n, 1);
}

struct answer {
	int n;
	enum err_code code;
	char text[STORE_HASH_SIZE];
	uint8_t login[STORE_SECRET_BYTES];
};

static void on_hash(const char *hash, const struct err *e, void *user)
{
	struct answer *a = user;

	a->n++;
	a->code = e ? e->code : ERR_NONE;
	(void)snprintf(a->text, sizeof(a->text), "%s", hash ? hash : "");
}

static void on_check(const struct store_user *u, const uint8_t *login, const struct err *e,
		     void *user)
{
	struct answer *a = user;

	assert_true((login != NULL) == (e == NULL));
	if (login)
		memcpy(a->login, login, sizeof(a->login));
	a->n++;
	a->code = e ? e->code : ERR_NONE;
	(void)snprintf(a->text, sizeof(a->text), "%s", u ? u->id : "");
}

static void wait_for(struct world *w, const struct answer *a, int n)
{
	while (a->n < n)
		assert_true(sd_event_run(w->loop, 20 * 1000 * 1000) > 0);
}

static void test_passwords(void **state)
{
	struct world *w = *state;
	struct store_user u = add_user(w, "ada");
	struct answer hash = {0}, check = {0};
	struct err e = ERR_INIT;

	assert_true(store_hash_password(w->s, "seven77", STORE_LANE_NEW, 1, on_hash, &hash, &e) <
		    0);
	assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
	assert_int_equal(
	    store_hash_password(w->s, "correct horse", STORE_LANE_NEW, 1, on_hash, &hash, &e), 0);
	wait_for(w, &hash, 1);
	assert_true(text_starts_with(hash.text, "$argon2id$"));
	memcpy(u.hash, hash.text, sizeof(u.hash));
	assert_int_equal(store_user_update(w->s, &u, &e), 1);

	/* What libsodium's crypto_pwhash_str() made of the same password. */
	struct store_user old = add_user(w, "old");
	(void)snprintf(old.hash, sizeof(old.hash), "%s",
		       "$argon2id$v=19$m=65536,t=2,p=1$eTxlgbvV2VBHCyo+ygwk1A$"
		       "xGaQovNbLN/mv8fKLZSzvr4rRh1APYBUbVTATXaegCA");
	assert_int_equal(store_user_update(w->s, &old, &e), 1);

	static const struct {
		const char *name, *password;
		bool ok;
	} rows[] = {
	    {"ada", "correct horse", true},     {"ADA", "correct horse", true},
	    {"ada", "correct horsf", false},    {"ada", "", false},
	    {"nobody", "correct horse", false}, {"ada@example.org", "correct horse", true},
	    {"old", "correct horse", true},     {"old", "correct horsf", false},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(store_check_password(w->s, rows[i].name, rows[i].password,
						      STORE_LANE_LOGIN, 1, on_check, &check, &e),
				 0);
		wait_for(w, &check, (int)i + 1);
		assert_int_equal(check.code, rows[i].ok ? ERR_NONE : ERR_UNAUTHORIZED);
		assert_string_equal(check.text, !rows[i].ok                  ? ""
						: streq(rows[i].name, "old") ? old.id
									     : u.id);
	}
}

static void log_in(struct world *w, const char *name, const char *password, struct answer *ret)
{
	struct err e = ERR_INIT;

	*ret = (struct answer){0};
	assert_int_equal(
	    store_check_password(w->s, name, password, STORE_LANE_LOGIN, 1, on_check, ret, &e), 0);
	wait_for(w, ret, 1);
	assert_int_equal(ret->code, ERR_NONE);
}

static void set_password(struct world *w, struct store_user *u, const char *password)
{
	struct err e = ERR_INIT;

	assert_int_equal(store_hash_now(password, 6, u->hash, &e), 0);
	assert_int_equal(store_user_update(w->s, u, &e), 1);
}

/* A key that a login derives is shown again to a login with the same password, and to nobody else. */
static void test_shown_keys(void **state)
{
	struct world *w = *state;
	struct store_user u = add_user(w, "ada"), other = add_user(w, "bob"), owner;
	struct store_key k = {.name = "page", .scope = STORE_SCOPE_FULL}, found;
	char key[STORE_KEY_SIZE], shown[STORE_KEY_SIZE] = "";
	struct answer first, again, bobs;
	struct err e = ERR_INIT;

	set_password(w, &u, "correct horse");
	set_password(w, &other, "correct horse");
	log_in(w, "ada", "correct horse", &first);
	log_in(w, "ada@example.org", "correct horse", &again);
	log_in(w, "bob", "correct horse", &bobs);
	assert_memory_equal(first.login, again.login, sizeof(first.login));
	assert_memory_not_equal(first.login, bobs.login, sizeof(first.login));

	assert_int_equal(store_key_show(w->s, u.id, "page", first.login, shown, &e), 0);
	(void)snprintf(k.user, sizeof(k.user), "%s", u.id);
	assert_int_equal(store_key_add_shown(w->s, &k, first.login, key, &e), 0);
	assert_true(text_starts_with(key, "csn_"));
	assert_int_equal(store_key_check(w->s, key, &found, &owner, &e), 1);
	assert_string_equal(owner.id, u.id);
	assert_int_equal(store_key_show(w->s, u.id, "page", again.login, shown, &e), 1);
	assert_string_equal(shown, key);
	assert_int_equal(store_key_show(w->s, u.id, "other", again.login, shown, &e), 0);
	assert_int_equal(store_key_show(w->s, u.id, "page", bobs.login, shown, &e), 0);
	assert_int_equal(store_key_show(w->s, other.id, "other", first.login, shown, &e), 0);

	/* Even the same password, set again, is another login. */
	set_password(w, &u, "correct horse");
	log_in(w, "ada", "correct horse", &again);
	assert_int_equal(store_key_show(w->s, u.id, "page", again.login, shown, &e), 0);
	assert_int_equal(store_key_revoke_named(w->s, u.id, "page", &e), 0);
	assert_int_equal(store_key_show(w->s, u.id, "page", first.login, shown, &e), 0);
}

static void test_login_flood(void **state)
{
	struct world *w = *state;
	struct answer check = {0};
	struct err e = ERR_INIT;
	int taken = 0;

	for (int i = 0; i < 100; i++)
		taken += store_check_password(w->s, "x", "yyyyyyyy", STORE_LANE_LOGIN, 1, on_check,
					      &check, &e) == 0;
	assert_true(taken >= STORE_HASHES_MAX && taken < 100);
	assert_int_equal(e.code, ERR_RATE_LIMITED);
	/* Somebody else gets a place and the next turn; the flood loses its newest. */
	struct answer other = {0};
	assert_int_equal(
	    store_check_password(w->s, "z", "yyyyyyyy", STORE_LANE_LOGIN, 2, on_check, &other, &e),
	    0);
	wait_for(w, &other, 1);
	assert_int_equal(other.code, ERR_UNAUTHORIZED);
	assert_true(check.n < taken / 2);
	/* The rest is told at the end. */
	w->s = store_close(w->s);
	assert_int_equal(check.n, taken);
	assert_int_equal(check.code, ERR_CANCELLED);
}

static void test_secrets(void **state)
{
	struct world *w = *state;
	uint8_t a[STORE_SECRET_BYTES], b[STORE_SECRET_BYTES], c[STORE_SECRET_BYTES];
	struct err e = ERR_INIT;

	assert_int_equal(store_secret(w->s, "jwt", a, &e), 0);
	assert_int_equal(store_secret(w->s, "links", c, &e), 0);
	assert_memory_not_equal(a, c, sizeof(a));
	reopen(w);
	assert_int_equal(store_secret(w->s, "jwt", b, &e), 0);
	assert_memory_equal(a, b, sizeof(a));
}

/* ---- sandboxes, packages ---- */

static bool count_sandbox(const struct store_sandbox *b UNUSED, void *user)
{
	(*(int *)user)++;
	return true;
}

static void test_sandboxes(void **state)
{
	struct world *w = *state;
	struct store_sandbox a = add_sandbox(w, ""), b = add_sandbox(w, "bob"), got;
	struct err e = ERR_INIT;
	uint64_t n;
	int seen = 0;

	assert_string_equal(a.name, "Sandbox 1");
	assert_string_equal(b.name, "Sandbox 1");
	assert_string_equal(add_sandbox(w, "bob").name, "Sandbox 2");
	reopen(w);
	assert_int_equal(store_sandbox_get(w->s, "bob", b.id, &got, &e), 1);
	/* A foreign one is as none. */
	assert_int_equal(store_sandbox_get(w->s, "bob", a.id, &got, &e), 0);
	assert_int_equal(store_sandbox_get(w->s, "", b.id, &got, &e), 0);
	assert_int_equal(store_sandbox_get(w->s, NULL, b.id, &got, &e), 1);
	assert_int_equal(store_sandbox_each(w->s, "bob", NULL, count_sandbox, &seen, &e), 0);
	assert_int_equal(seen, 2);
	assert_int_equal(store_sandbox_count(w->s, NULL, &n, &e), 0);
	assert_int_equal(n, 3);

	assert_string_equal(got.place, "");
	assert_int_equal(store_sandbox_set_place(w->s, b.id, "/tmp/\xc3\xa4", &e), 0);
	assert_int_equal(store_sandbox_set_place(w->s, "none", "/tmp", &e), 0);
	store_note_use(w->s, b.id);
	flush_all(w->s);
	assert_int_equal(store_sandbox_get(w->s, NULL, b.id, &got, &e), 1);
	assert_string_equal(got.place, "/tmp/\xc3\xa4");
	assert_true(got.used_ms >= b.used_ms);
	assert_int_equal(store_sandbox_remove(w->s, b.id, &e), 1);
	assert_int_equal(store_sandbox_remove(w->s, b.id, &e), 0);
}

static void test_sandbox_quota(void **state)
{
	struct world *w = *state;
	struct store_sandbox b = {.owner = "ada", .disk_bytes = 100};
	const struct store_room room = {.owner_count = 2, .owner_bytes = 250};
	struct err e = ERR_INIT;

	assert_int_equal(store_sandbox_add(w->s, &b, "", &room, &e), 0);
	struct store_sandbox c = {.owner = "ada", .disk_bytes = 151}, d = c;
	assert_true(store_sandbox_add(w->s, &c, "", &room, &e) < 0);
	assert_int_equal(e.code, ERR_QUOTA_EXCEEDED);
	c.disk_bytes = 150;
	assert_int_equal(store_sandbox_add(w->s, &c, "", &room, &e), 0);
	d.disk_bytes = 0;
	assert_true(store_sandbox_add(w->s, &d, "", &room, &e) < 0);
	assert_non_null(strstr(e.text, "limit of 2 sandboxes"));
	/* Another's do not count. */
	(void)snprintf(d.owner, sizeof(d.owner), "bob");
	assert_int_equal(store_sandbox_add(w->s, &d, "", &room, &e), 0);
}

static void test_sandbox_room_of_all(void **state)
{
	struct world *w = *state;
	const struct store_room room = {.all_bytes = 250};
	struct store_sandbox a = {.owner = "ada", .disk_bytes = 100};
	struct store_sandbox b = {.owner = "bob", .disk_bytes = 150};
	struct store_sandbox c = {.owner = "", .disk_bytes = 1};
	struct store_sandbox large = {.owner = "", .disk_bytes = UINT64_MAX / 4};
	struct err e = ERR_INIT;
	uint64_t bytes;

	assert_true(store_sandbox_add(w->s, &large, "", &room, &e) < 0);
	assert_int_equal(store_sandbox_add(w->s, &a, "", &room, &e), 0);
	assert_int_equal(store_sandbox_add(w->s, &b, "", &room, &e), 0);
	assert_true(store_sandbox_add(w->s, &c, "", &room, &e) < 0);
	assert_int_equal(e.code, ERR_QUOTA_EXCEEDED);
	assert_non_null(strstr(e.text, "SANDBOX_TOTAL_DISK"));
	assert_int_equal(store_sandbox_bytes(w->s, &bytes, &e), 0);
	assert_int_equal(bytes, 250);
	assert_int_equal(store_sandbox_remove(w->s, a.id, &e), 1);
	assert_int_equal(store_sandbox_add(w->s, &c, "", &room, &e), 0);
}

static void test_packages(void **state)
{
	struct world *w = *state;
	struct store_sandbox b = add_sandbox(w, "");
	struct store_package p = {.name = "six", .status = "installing", .started_ms = 5}, got;
	struct err e = ERR_INIT;

	assert_int_equal(store_package_set(w->s, b.id, &p, &e), 0);
	(void)snprintf(p.status, sizeof(p.status), "success");
	(void)snprintf(p.version, sizeof(p.version), "1.17.0");
	assert_int_equal(store_package_set(w->s, b.id, &p, &e), 0);
	(void)snprintf(p.name, sizeof(p.name), "attrs");
	(void)snprintf(p.status, sizeof(p.status), "failed");
	assert_int_equal(store_package_set(w->s, b.id, &p, &e), 0);
	assert_int_equal(store_package_get(w->s, b.id, "six", &got, &e), 1);
	assert_string_equal(got.version, "1.17.0");
	assert_int_equal(got.started_ms, 5);
	assert_int_equal(store_package_remove(w->s, b.id, "attrs", &e), 1);
	/* They go with their sandbox, and do not come without one. */
	assert_int_equal(store_sandbox_remove(w->s, b.id, &e), 1);
	assert_int_equal(store_package_get(w->s, b.id, "six", &got, &e), 0);
	assert_true(store_package_set(w->s, b.id, &p, &e) < 0);
	assert_int_equal(e.code, ERR_NOT_FOUND);
}

/* ---- history ---- */

static void count_run(const struct store_run *r UNUSED, void *user)
{
	(*(int *)user)++;
}

static int n_runs(struct world *w, const char *owner, const char *sandbox)
{
	struct err e = ERR_INIT;
	int n = 0;

	assert_int_equal(store_run_each(w->s, owner, sandbox, 0, 100000, count_run, &n, &e), 0);
	return n;
}

struct usage_of_all {
	unsigned n;
	uint64_t cpu_us;
};

static void add_usage(const char *owner, uint64_t cpu_us, void *user)
{
	struct usage_of_all *all = user;

	assert_true(streq(owner, "ada") || streq(owner, "bob"));
	all->n++;
	all->cpu_us += cpu_us;
}

static void test_runs(void **state)
{
	struct world *w = *state;
	struct store_run r = {.owner = "ada", .sandbox = "s1", .cpu_us = 1000, .started_ms = 1};
	struct err e = ERR_INIT;
	uint64_t cpu;

	for (int i = 0; i < 300; i++)
		store_note_run(w->s, &r, 0);
	(void)snprintf(r.owner, sizeof(r.owner), "bob");
	store_note_run(w->s, &r, 0);
	flush_all(w->s);
	assert_int_equal(n_runs(w, NULL, NULL), 301);
	assert_int_equal(n_runs(w, "ada", NULL), 300);
	assert_int_equal(n_runs(w, "bob", "s1"), 1);
	assert_int_equal(n_runs(w, "bob", "s2"), 0);
	assert_int_equal(store_usage_today(w->s, "ada", &cpu, &e), 0);
	assert_int_equal(cpu, 300000);
	assert_int_equal(store_usage_today(w->s, "eve", &cpu, &e), 0);
	assert_int_equal(cpu, 0);
	struct usage_of_all all = {0};
	assert_int_equal(store_usage_each_today(w->s, add_usage, &all, &e), 0);
	assert_int_equal(all.n, 2);
	assert_int_equal(all.cpu_us, 301000);
	/* What is queued is not lost by an orderly end. */
	store_note_run(w->s, &r, 0);
	reopen(w);
	assert_int_equal(n_runs(w, NULL, NULL), 302);
}

/* Who runs most loses the oldest rows, and nobody else. */
static void test_runs_of_others(void **state)
{
	struct world *w = *state;
	struct store_run quiet = {.owner = "bob", .sandbox = "s1", .started_ms = 1};
	struct store_run flood = {.owner = "ada", .sandbox = "s2", .started_ms = 2};

	for (int i = 0; i < 20; i++)
		store_note_run(w->s, &quiet, 0);
	for (int i = 0; i < 6000; i++) {
		store_note_run(w->s, &flood, 0);
		if (i % 1000 == 999)
			flush_all(w->s);
	}
	assert_int_equal(n_runs(w, "bob", NULL), 20);
	/* Bounded: 1,500 and what came since the last look at the bound. */
	assert_in_range(n_runs(w, "ada", NULL), 1480, 2500);
}

/* ---- runs whose server ends ---- */

static void name_run(struct store_run *r, const char *id, const char *reason)
{
	*r = (struct store_run){.owner = "ada", .sandbox = "s1", .cpu_us = 1000, .started_ms = 1};
	(void)snprintf(r->id, sizeof(r->id), "%s", id);
	(void)snprintf(r->reason, sizeof(r->reason), "%s", reason);
}

/* A server that begins three runs, takes one back, ends one, and is killed. */
static void die_with_runs(const char *path, bool flush)
{
	struct store_run r;
	struct err e = ERR_INIT;
	struct store *s = open_at(path, &e);

	if (!s || store_watch_runs(s, &e) < 0)
		_exit(1);
	name_run(&r, "one", "lost");
	uint32_t one = store_run_begin(s, &r);
	name_run(&r, "two", "lost");
	uint32_t two = store_run_begin(s, &r);
	name_run(&r, "three", "lost");
	uint32_t three = store_run_begin(s, &r);
	if (!one || !two || !three)
		_exit(2);
	store_run_forget(s, three);
	name_run(&r, "two", "exited");
	store_note_run(s, &r, two);
	if (flush)
		store_flush(s);
	(void)raise(SIGKILL);
}

struct reasons {
	char text[256];
};

static void note_reason(const struct store_run *r, void *user)
{
	struct reasons *all = user;
	size_t len = strlen(all->text);

	(void)snprintf(all->text + len, sizeof(all->text) - len, "%s %s;", r->id, r->reason);
}

static void assert_history(struct world *w, const char *expected)
{
	struct reasons all = {0};
	struct err e = ERR_INIT;

	assert_int_equal(store_run_each(w->s, NULL, NULL, 0, 100, note_reason, &all, &e), 0);
	assert_string_equal(all.text, expected);
}

static void kill_one_with_runs(const struct world *w, bool flush)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		die_with_runs(w->path, flush);
		_exit(3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void test_lost_runs(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	struct store_run r;

	w->s = store_close(w->s);
	kill_one_with_runs(w, false);
	/* A server that lives keeps its own to itself. */
	struct store *other = open_at(w->path, &e);
	assert_int_equal(store_watch_runs(other, &e), 0);
	name_run(&r, "alive", "lost");
	uint32_t ticket = store_run_begin(other, &r);
	assert_int_not_equal(ticket, 0);
	reopen(w);
	assert_history(w, "two exited;one lost;");
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	assert_history(w, "two exited;one lost;");
	name_run(&r, "alive", "exited");
	store_note_run(other, &r, ticket);
	assert_null(store_close(other));
	reopen(w);
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	assert_history(w, "alive exited;two exited;one lost;");
}

static void test_lost_after_the_commit(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;

	w->s = store_close(w->s);
	kill_one_with_runs(w, true);
	reopen(w);
	assert_history(w, "two exited;");
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	assert_history(w, "one lost;two exited;");
}

static void test_runs_beyond_the_slots(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	struct store_run r;
	uint32_t tickets[3000], n = 0;

	name_run(&r, "many", "exited");
	assert_int_equal(store_run_begin(w->s, &r), 0); /* nobody watches */
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(tickets); i++) {
		tickets[i] = store_run_begin(w->s, &r);
		n += tickets[i] > 0;
	}
	assert_int_equal(n, 1365); /* two thirds of 2048: others get some, too */
	for (size_t i = 0; i < ARRAY_SIZE(tickets); i++)
		store_note_run(w->s, &r, tickets[i]);
	flush_all(w->s);
	assert_int_equal(store_run_begin(w->s, &r), 1);
	store_run_forget(w->s, 1);
}

/* Whatever is in the file: no rows of it, no harm. */
static void test_damaged_file_of_runs(void **state)
{
	struct world *w = *state;
	char path[128], head[512], rubbish[65536];
	struct err e = ERR_INIT;

	(void)snprintf(path, sizeof(path), "%s-runs", w->path);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	rand_bytes(rubbish, sizeof(rubbish));
	assert_int_equal(write(fd, rubbish, sizeof(rubbish)), sizeof(rubbish));
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	assert_history(w, "");
	/* A head that is right, and slots that are not. A server that ends well empties the file. */
	assert_int_equal(pread(fd, head, sizeof(head), 0), sizeof(head));
	reopen(w);
	assert_int_equal(pwrite(fd, head, sizeof(head), 0), sizeof(head));
	memset(rubbish, 0x41, sizeof(rubbish));
	assert_int_equal(pwrite(fd, rubbish, sizeof(rubbish), 512), sizeof(rubbish));
	assert_int_equal(pwrite(fd, "\1\0\0\0", 4, 512), 4); /* in use, texts without an end */
	assert_int_equal(close(fd), 0);
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	assert_int_equal(n_runs(w, NULL, NULL), 1);
}

static off_t size_of_runs(const struct world *w, off_t *ret_disk)
{
	char path[128];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s-runs", w->path);
	assert_int_equal(stat(path, &st), 0);
	*ret_disk = (off_t)st.st_blocks * 512;
	return st.st_size;
}

/* Many servers at once leave no large file, whether they end well or are killed. */
static void test_file_of_runs_shrinks(void **state)
{
	struct world *w = *state;
	const off_t region = 2049 * 512;
	struct store *others[8];
	struct err e = ERR_INIT;
	char path[128];
	off_t disk;

	assert_int_equal(store_watch_runs(w->s, &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		others[i] = open_at(w->path, &e);
		assert_int_equal(store_watch_runs(others[i], &e), 0);
	}
	assert_true(size_of_runs(w, &disk) <= 9 * region);
	assert_true(disk <= 9 * (80 << 10));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) /* only the last one can cut the file */
		assert_null(store_close(others[i]));
	assert_true(size_of_runs(w, &disk) <= 8 * region);
	reopen(w);
	assert_int_equal(size_of_runs(w, &disk), 0);
	(void)snprintf(path, sizeof(path), "%s-runs", w->path);
	assert_int_equal(truncate(path, 64 * region), 0);
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	assert_true(size_of_runs(w, &disk) <= region);
}

static bool note_audit(const struct store_audit *a, void *user)
{
	struct store_audit *last = user;

	assert_true(last->id == 0 || a->id < last->id);
	last->id = a->id;
	last->at_ms++;
	return true;
}

static int n_audit(struct world *w, const char *actor)
{
	struct store_audit count = {0};
	struct err e = ERR_INIT;

	assert_int_equal(store_audit_each(w->s, actor, 0, 100000, note_audit, &count, &e), 0);
	return (int)count.at_ms;
}

static void test_audit(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 4000; i++) {
		store_audit(w->s, i % 2 ? "ada" : NULL, "user.add", "x", "ok", "", "127.0.0.1:1");
		if (i % 1000 == 999)
			flush_all(w->s);
	}
	/* Bounded: 1,500 and what came since the last look at the bound. */
	int all = n_audit(w, NULL);
	assert_true(all >= 1500 && all <= 2500);
	assert_in_range(n_audit(w, "ada"), all / 2 - 64, all / 2 + 64);
	/* Nothing in it can be changed or taken out, not even by SQL. */
	assert_int_not_equal(foreign(w, "UPDATE audit SET actor = 'eve'"), SQLITE_OK);
	assert_int_not_equal(foreign(w, "DELETE FROM audit WHERE id = (SELECT max(id) FROM audit)"),
			     SQLITE_OK);
	assert_int_equal(n_audit(w, NULL), all);
}

/* ---- what goes wrong ---- */

static void test_full_disk(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;
	struct store_config config = {.path = w->path, .pages_max = 60};
	struct store_user u = {.active = true};
	struct err e = ERR_INIT;
	int r = 0, added = 0;

	w->s = store_close(w->s);
	assert_int_equal(store_open(&config, &w->s, &e), 0);
	for (; r == 0 && added < 100000; added++) {
		(void)snprintf(u.name, sizeof(u.name), "user-%0200d", added);
		r = store_user_add(w->s, &u, &e);
	}
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(e.code, ERR_STORE_FULL);
	/* The queue keeps its rows and tries again; reading goes on. */
	for (int i = 0; i < 100; i++)
		store_audit(w->s, "ada", "user.add", "x", "ok", u.name, "");
	flush_all(w->s);
	struct store_counts counts;
	store_count(w->s, &counts);
	assert_true(counts.failed > 0);
	assert_true(counts.queued > 0);
	struct store_user got;
	assert_int_equal(store_user_find(w->s, u.name, &got, &e), 0);
	/* With room again everything goes on, and what was added is there. */
	reopen(w);
	uint64_t n;
	assert_int_equal(store_user_count(w->s, &n, &e), 0);
	assert_int_equal(n, added - 1);
	assert_int_equal(store_user_add(w->s, &u, &e), 0);
}

static struct store_cell *large_cell(const char *owner, size_t bytes)
{
	struct store_cell *c = calloc(1, sizeof(*c));

	(void)snprintf(c->owner, sizeof(c->owner), "%s", owner);
	(void)snprintf(c->sandbox, sizeof(c->sandbox), "s-%s", owner);
	c->out = malloc(bytes + 1);
	memset(c->out, 'x', bytes);
	c->out[bytes] = '\0';
	return c;
}

static bool note_cell(const struct store_cell *c UNUSED, void *user)
{
	(*(int *)user)++;
	return true;
}

/* ---- cells whose server ends ---- */

static struct store_cell *draft(const char *owner, const char *run, const char *out)
{
	struct store_cell *c = large_cell(owner, 0);

	free(c->out);
	c->out = strdup(out);
	(void)snprintf(c->run, sizeof(c->run), "%s", run);
	return c;
}

static bool note_text(const struct store_cell *c, void *user)
{
	struct reasons *all = user;
	size_t len = strlen(all->text);

	(void)snprintf(all->text + len, sizeof(all->text) - len, "%s %s;", c->run, c->out);
	return true;
}

static void assert_cells(struct world *w, const char *owner, const char *expected)
{
	struct reasons all = {0};
	struct err e = ERR_INIT;
	char sandbox[64];

	(void)snprintf(sandbox, sizeof(sandbox), "s-%s", owner);
	assert_int_equal(store_cells_after(w->s, owner, sandbox, "", note_text, &all, &e), 0);
	assert_string_equal(all.text, expected);
}

/* A server with two runs that go on and one that ended, which is killed. */
static void die_with_drafts(const char *path)
{
	struct err e = ERR_INIT;
	struct store *s = open_at(path, &e);

	if (!s || store_watch_runs(s, &e) < 0)
		_exit(1);
	bool good = store_note_draft(s, draft("ada", "one", "begin"));
	good = store_note_draft(s, draft("ada", "two", "begin")) && good;
	good = store_note_draft(s, draft("ada", "three", "begin")) && good;
	good = store_note_draft(s, draft("ada", "one", "more")) && good;
	store_note_cell(s, draft("ada", "two", "end"));
	store_flush(s);
	if (!good)
		_exit(2);
	(void)raise(SIGKILL);
}

static void test_lost_cells(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	int status;

	w->s = store_close(w->s);
	const pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		die_with_drafts(w->path);
		_exit(3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	reopen(w);
	assert_cells(w, "ada", "two end;"); /* readers see no drafts */
	/* A server that lives keeps its own to itself. */
	struct store *other = open_at(w->path, &e);
	assert_int_equal(store_watch_runs(other, &e), 0);
	assert_cells(w, "ada", "two end;one more;three begin;");
	assert_true(store_note_draft(other, draft("bob", "alive", "begin")));
	store_flush(other);
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	assert_cells(w, "bob", "");
	store_note_cell(other, draft("bob", "alive", "end"));
	assert_null(store_close(other));
	reopen(w);
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	assert_cells(w, "bob", "alive end;");
	assert_cells(w, "ada", "two end;one more;three begin;");
}

/* The file of runs is cut when a server ends well. Its drafts are found all the same. */
static void test_drafts_without_the_file(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	struct store *others[3];

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		others[i] = open_at(w->path, &e);
		assert_int_equal(store_watch_runs(others[i], &e), 0);
	}
	assert_true(store_note_draft(others[2], draft("ada", "late", "begin")));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_null(store_close(others[i]));
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	assert_cells(w, "ada", "late begin;");
}

/* Opens the store with CONFIG, and holds the lock of its writers until unlock(). */
static sqlite3 *open_locked(struct world *w, const struct store_config *config)
{
	struct err e = ERR_INIT;
	sqlite3 *db;

	w->s = store_close(w->s);
	assert_int_equal(store_open(config, &w->s, &e), 0);
	assert_int_equal(sqlite3_open(w->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	return db;
}

static void unlock(sqlite3 *db)
{
	assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	(void)sqlite3_close(db);
}

/* While nothing can be written, drafts come again and again. They take no place of rows that come once. */
static void test_drafts_and_rows(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;
	struct store_config config = {.path = w->path, .busy_ms = 5};
	struct store_counts counts;
	struct err e = ERR_INIT;
	unsigned refused = 0;
	int cells = 0;
	sqlite3 *db;

	db = open_locked(w, &config);
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	for (int i = 0; i < 1000; i++)
		refused += !store_note_draft(w->s, large_cell("ada", 3u << 18));
	assert_true(refused > 900);
	for (int i = 0; i < 8; i++)
		store_note_cell(w->s, large_cell("ada", 3u << 18));
	store_count(w->s, &counts);
	assert_int_equal(counts.lost, 0);
	unlock(db);
	reopen(w);
	assert_int_equal(store_cells_after(w->s, "ada", "s-ada", "", note_cell, &cells, &e), 0);
	assert_int_equal(cells, 8);
}

/* While nothing can be written, one user makes rows without end. Those of another are kept. */
static void test_rows_of_others(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;
	struct store_config config = {.path = w->path,
				      .busy_ms = 5,
				      .runs_keep = 100000,
				      .audit_keep = 1000,
				      .cells_keep = 100,
				      .cells_bytes = 64u << 20,
				      .cells_total = 64u << 20};
	struct store_run loud = {.owner = "ada", .sandbox = "s1", .started_ms = 1};
	struct store_run quiet = {.owner = "bob", .sandbox = "s2", .started_ms = 2};
	struct err e = ERR_INIT;
	int cells = 0;
	sqlite3 *db;

	db = open_locked(w, &config);
	assert_int_equal(store_watch_runs(w->s, &e), 0);
	for (int i = 0; i < 40000; i++) {
		store_note_run(w->s, &loud, store_run_begin(w->s, &loud));
		if (i % 1000 == 0)
			store_note_cell(w->s, large_cell("ada", 3u << 18));
	}
	for (int i = 0; i < 100; i++) {
		const uint32_t ticket = store_run_begin(w->s, &quiet);
		assert_int_not_equal(ticket, 0);
		store_note_run(w->s, &quiet, ticket);
	}
	store_audit(w->s, "bob", "user.add", "x", "ok", "", "");
	store_note_cell(w->s, large_cell("bob", 3u << 18));
	unlock(db);
	reopen(w);
	assert_int_equal(n_runs(w, "bob", NULL), 100);
	assert_int_equal(n_audit(w, "bob"), 1);
	assert_int_equal(store_cells_after(w->s, "bob", "s-bob", "", note_cell, &cells, &e), 0);
	assert_int_equal(cells, 1);
}

static void test_foreign_lock(void **state)
{
	ONLY_WITH_SQLITE();
	struct world *w = *state;
	struct store_config config = {.path = w->path, .busy_ms = 20};
	struct store_user u = {.active = true, .name = "ada"};
	struct err e = ERR_INIT;
	sqlite3 *db;

	db = open_locked(w, &config);
	assert_int_equal(store_user_add(w->s, &u, &e), -EBUSY);
	assert_int_equal(e.code, ERR_STORE_BUSY);
	assert_int_equal(store_user_find(w->s, "ada", &u, &e), 0); /* readers do not wait */
	assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(store_user_add(w->s, &u, &e), 0);
	(void)sqlite3_close(db);
}

/* Adds users as fast as it can, tells each that is there over a pipe. */
NORETURN static void child_writes(const char *path, const int pipes[2])
{
	struct store_user u = {.active = true};
	struct err e = ERR_INIT;
	/* Whatever becomes of the test, the child goes with it. */
	(void)close(pipes[0]);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(1);
	struct store *s = open_at(path, &e);

	for (;;) {
		store_uuid(u.name);
		store_audit(s, u.name, "user.add", "", "ok", "", "");
		if (store_user_add(s, &u, &e) < 0 ||
		    write(pipes[1], u.name, STORE_ID_SIZE - 1) != STORE_ID_SIZE - 1)
			_exit(1);
	}
}

static void test_killed_writer(void **state)
{
	struct world *w = *state;
	char name[STORE_ID_SIZE] = "";
	struct store_user got;
	struct err e = ERR_INIT;

	w->s = store_close(w->s);
	for (int round = 0; round < 10; round++) {
		int pipes[2];

		assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			child_writes(w->path, pipes);
		(void)close(pipes[1]);
		/* Killed somewhere in the midst of the writes after the last one we heard of. */
		for (int i = 0; i <= round; i++)
			assert_int_equal(read(pipes[0], name, STORE_ID_SIZE - 1),
					 STORE_ID_SIZE - 1);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		w->s = open_at(w->path, &e);
		assert_non_null(w->s);
		do {
			assert_int_equal(store_user_find(w->s, name, &got, &e), 1);
		} while (read(pipes[0], name, STORE_ID_SIZE - 1) == STORE_ID_SIZE - 1);
		(void)close(pipes[0]);
		w->s = store_close(w->s);
	}
	if (test_address())
		return;
	assert_int_equal(foreign(w, "PRAGMA foreign_key_check; "
				    "SELECT 1/(integrity_check = 'ok') FROM "
				    "pragma_integrity_check"),
			 SQLITE_OK);
}

static void test_two_at_once(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	struct store_user got;
	int pipes[2];
	char name[STORE_ID_SIZE] = "";

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	w->s = store_close(w->s); /* no thread and no lock over the fork */
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		child_writes(w->path, pipes);
	(void)close(pipes[1]);
	w->s = open_at(w->path, &e);
	assert_non_null(w->s);
	for (int i = 0; i < 50; i++) {
		char own[32];

		(void)snprintf(own, sizeof(own), "own-%d", i);
		(void)add_user(w, own);
		assert_int_equal(read(pipes[0], name, STORE_ID_SIZE - 1), STORE_ID_SIZE - 1);
		assert_int_equal(store_user_find(w->s, name, &got, &e), 1);
	}
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	(void)close(pipes[0]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    T(test_file),
	    T(test_file_refused),
	    T(test_newer_version),
	    T(test_strict),
	    T(test_users),
	    T(test_mirrored_users),
	    T(test_idle_users),
	    T(test_keys),
	    T(test_key_expiry),
	    T(test_later),
	    T(test_key_limit),
	    T(test_credentials_epoch),
	    T(test_invitations),
	    T(test_passwords),
	    T(test_shown_keys),
	    T(test_login_flood),
	    T(test_secrets),
	    T(test_sandboxes),
	    T(test_sandbox_quota),
	    T(test_sandbox_room_of_all),
	    T(test_packages),
	    T(test_runs),
	    T(test_runs_of_others),
	    T(test_lost_runs),
	    T(test_lost_after_the_commit),
	    T(test_runs_beyond_the_slots),
	    T(test_damaged_file_of_runs),
	    T(test_file_of_runs_shrinks),
	    T(test_audit),
	    T(test_full_disk),
	    T(test_rows_of_others),
	    T(test_lost_cells),
	    T(test_drafts_without_the_file),
	    T(test_drafts_and_rows),
	    T(test_foreign_lock),
	    T(test_killed_writer),
	    T(test_two_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
