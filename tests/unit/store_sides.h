/* SPDX-License-Identifier: Apache-2.0 */
/* Two servers' stores with copies of one PostgreSQL database, for test_store_replica*.c. */
#pragma once

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

static inline struct side open_side(struct world *w, unsigned copy_ms)
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

static inline void turn(struct side *x)
{
	assert_true(sd_event_run(x->loop, 10 * 1000) >= 0);
}

static inline void close_side(struct side *x)
{
	x->s = store_close(x->s);
	x->loop = sd_event_unref(x->loop);
}

static inline int set_up(void **state)
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

static inline int tear_down(void **state)
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

static inline int64_t number(const char *sql)
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

static inline void on_settled(const struct err *e, void *user)
{
	*(struct outcome *)user = (struct outcome){.told = true, .code = e ? e->code : ERR_NONE};
}

static inline struct outcome *settle(struct side *x)
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

static inline enum err_code wait_for(struct side *x, const struct outcome *o)
{
	const uint64_t until = now_ns() + PATIENCE_NS;

	while (!o->told) {
		assert_true(now_ns() < until);
		turn(x);
	}
	return o->code;
}

static inline int add(struct side *x, const char *name, struct store_user *ret, struct err *e)
{
	*ret = (struct store_user){.active = true, .quota = STORE_QUOTA_DEFAULTS};
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	return store_user_add(x->s, ret, e);
}

static inline struct store_user add_settled(struct side *x, const char *name)
{
	struct store_user u;
	struct err e = ERR_INIT;

	if (add(x, name, &u, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(wait_for(x, settle(x)), ERR_NONE);
	return u;
}

static inline struct store_key add_key(struct side *x, const char *user, char ret[STORE_KEY_SIZE])
{
	struct store_key k = {.name = "laptop"};
	struct err e = ERR_INIT;

	(void)snprintf(k.user, sizeof(k.user), "%s", user);
	assert_int_equal(store_key_add(x->s, &k, ret, &e), 0);
	return k;
}

static inline bool opens(struct side *x, const char *key)
{
	struct store_key k;
	struct store_user u;
	struct err e = ERR_INIT;
	const int r = store_key_check(x->s, key, &k, &u, &e);

	assert_true(r >= 0);
	return r > 0;
}

static inline bool knows(struct side *x, const char *name)
{
	struct store_user u;
	struct err e = ERR_INIT;
	const int r = store_user_find(x->s, name, &u, &e);

	assert_true(r >= 0);
	return r > 0;
}

static inline void wait_until_opens(struct side *x, const char *key, bool wanted)
{
	const uint64_t until = now_ns() + PATIENCE_NS;

	while (opens(x, key) != wanted) {
		assert_true(now_ns() < until);
		turn(x);
	}
}

/* Takes the lock of all writers, does SQL, and commits two seconds later. */
static inline pid_t slow_writer(const char *sql)
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
