/* SPDX-License-Identifier: Apache-2.0 */
#include "moving_world.h"

#include "base/rand.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

/* ---- records ---- */

static struct row *find_row(struct world *w, const char *owner, const char *id)
{
	for (unsigned i = 0; i < w->n; i++)
		if (streq(w->rows[i].record.id, id) &&
		    (!owner || streq(w->rows[i].record.owner, owner)))
			return &w->rows[i];
	return NULL;
}

static int add(void *user, struct sandbox_record *r, const char *env, uint64_t owner_max UNUSED,
	       struct err *e UNUSED)
{
	struct world *w = user;
	struct row *row = &w->rows[w->n++];

	assert_true(w->n <= RECORDS_MAX);
	(void)snprintf(r->id, sizeof(r->id), "00000000-0000-4000-8000-%012u", ++w->serial);
	memcpy(r->key, r->id, sizeof(r->key));
	r->disk_bytes = r->disk_bytes ? r->disk_bytes : 64u << 20;
	*row = (struct row){.record = *r};
	assert_true(text_copy(row->env, sizeof(row->env), env) >= 0);
	return 0;
}

static int get(void *user, const char *owner, const char *id, struct sandbox_record *ret,
	       struct err *e UNUSED)
{
	const struct row *row = find_row(user, owner, id);

	if (row)
		*ret = row->record;
	return row != NULL;
}

static int drop_row(struct world *w, const char *id)
{
	struct row *row = find_row(w, NULL, id);

	if (row)
		*row = w->rows[--w->n];
	return 0;
}

static int remove_row(void *user, const char *id, struct err *e UNUSED)
{
	struct world *w = user;

	w->n_removed++;
	return drop_row(w, id);
}

static int env_of(void *user, const char *id, struct buf *ret, struct err *e UNUSED)
{
	return buf_add_str(ret, find_row(user, NULL, id)->env);
}

static int change(void *user, const char *id, const char *name, const char *options,
		  const char *env, struct err *e UNUSED)
{
	struct row *row = find_row(user, NULL, id);

	(void)!text_copy(row->record.name, sizeof(row->record.name), name);
	(void)!text_copy(row->record.options, sizeof(row->record.options), options);
	(void)!text_copy(row->env, sizeof(row->env), env);
	return 0;
}

static int each(void *user, const char *owner, sandbox_record_fn fn, void *arg,
		struct err *e UNUSED)
{
	struct world *w = user;

	for (unsigned i = 0; i < w->n; i++)
		if (!owner || streq(w->rows[i].record.owner, owner))
			fn(&w->rows[i].record, arg);
	return 0;
}

static int settle(void *user, sandbox_done_fn cb, void *arg, struct err *e UNUSED)
{
	struct world *w = user;

	if (!w->slow)
		return 1;
	assert_null(w->settled);
	w->settled = cb;
	w->settled_for = arg;
	return 0;
}

void moving_settle_one(struct world *w, const struct err *e)
{
	const sandbox_done_fn cb = TAKE_PTR(w->settled);

	assert_non_null(cb);
	cb(e, w->settled_for);
}

static int refuse(enum err_code *code, struct err *e)
{
	const enum err_code c = *code;

	*code = ERR_NONE;
	return c != ERR_NONE ? err_set(e, c, 0, "not today") : 0;
}

static int opened(void *user, const char *id, struct err *e)
{
	struct world *w = user;

	assert_non_null(find_row(w, NULL, id));
	w->n_opened++;
	return refuse(&w->fail_opened, e);
}

static int check(void *user, const struct sandbox_record *r, struct err *e)
{
	struct world *w = user;

	assert_true(r->owner[0] != '\0' && r->id[0] != '\0');
	return refuse(&w->fail_check, e);
}

static int arrive(void *user, struct sandbox_record *r, const char *env, const char *incarnation,
		  uint32_t epoch, struct err *e)
{
	struct world *w = user;
	const int n = refuse(&w->fail_arrive, e);

	if (n < 0)
		return n;
	assert_null(find_row(w, NULL, r->id));
	w->rows[w->n] = (struct row){.record = *r, .epoch = epoch};
	(void)!text_copy(w->rows[w->n].env, sizeof(w->rows[0].env), env);
	(void)!text_copy(w->rows[w->n++].incarnation, MOVING_INCARNATION_SIZE, incarnation);
	return 0;
}

static int leave(void *user, const char *id, struct err *e UNUSED)
{
	struct world *w = user;

	w->n_left++;
	return drop_row(w, id);
}

/* ---- world ---- */

static void on_news(void *user, const char *owner UNUSED, const char *id UNUSED,
		    struct sandbox *s UNUSED, enum sandbox_news what, const char *name UNUSED)
{
	struct world *w = user;
	const size_t len = strlen(w->news);

	assert_true(len + 1 < sizeof(w->news));
	w->news[len] = what == SANDBOX_MADE      ? 'm'
		       : what == SANDBOX_ENDED   ? 'e'
		       : what == SANDBOX_REMOVED ? 'r'
						 : '?';
}

int moving_setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->moving = (struct moving_records){
	    .opened = opened, .check = check, .arrive = arrive, .leave = leave};
	w->records = (struct sandbox_records){.add = add,
					      .get = get,
					      .remove = remove_row,
					      .env = env_of,
					      .change = change,
					      .each = each,
					      .settle = settle,
					      .moving = &w->moving,
					      .user = w};
	manager_world_open(&w->m, (struct manager_config){.output_max = 10,
							  .max_sandboxes = 4,
							  .now = manager_world_now,
							  .stored = {.records = &w->records,
								     .image = "science",
								     .output_max = 20,
								     .idle_ns = 60 * NS_PER_S,
								     .max_active = 2,
								     .owner_max = 3}});
	manager_set_observer(w->m.manager, &(struct manager_observer){.news = on_news, .user = w});
	*state = w;
	return 0;
}

void moving_end_manager(struct world *w)
{
	w->m.manager = manager_free(w->m.manager);
	w->m.fake = NULL;
}

int moving_teardown(void **state)
{
	struct world *w = *state;

	manager_world_close(&w->m);
	free(w);
	return 0;
}

void moving_on_open(struct sandbox *s, const struct err *e, void *user)
{
	struct opened *o = user;

	o->n++;
	o->sandbox = s;
	if (s)
		(void)snprintf(o->id, sizeof(o->id), "%s", sandbox_id(s));
	o->code = e ? e->code : ERR_NONE;
}

void moving_on_done(const struct err *e, void *user)
{
	struct done *d = user;

	d->n++;
	d->code = e ? e->code : ERR_NONE;
}

void moving_rest_all(struct world *w)
{
	clock_ns += 61 * NS_PER_S;
	manager_sweep(w->m.manager);
	manager_world_turn(&w->m);
}

struct opened moving_create(struct world *w, const char *owner,
			    const struct sandbox_options *options)
{
	struct opened o = {0};

	manager_create(w->m.manager, owner, "mine", NULL, options, moving_on_open, &o);
	manager_world_turn(&w->m);
	assert_int_equal(o.n, 1);
	assert_non_null(o.sandbox);
	return o;
}

struct opened moving_resting(struct world *w)
{
	struct opened o = moving_create(w, "ann", NULL);

	moving_rest_all(w);
	assert_true(manager_at_rest(w->m.manager, "ann", o.id));
	w->n_opened = 0;
	w->news[0] = '\0';
	memset(w->news, 0, sizeof(w->news));
	return o;
}
