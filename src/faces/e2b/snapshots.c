/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and forks. A snapshot is a fork of a sandbox that nobody reaches: sandboxes that are made of it are forks of that one.
 * Both have the files of the workspace; variables, processes and /tmp stay behind (sandbox/checkpoints.h). */
#include "faces/e2b/shapes.h"
#include "faces/e2b/templates.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_ 128u
#define FORKS_MAX 20
#define TAG       ":default"

struct e2b_snapshot {
	struct list node;
	struct e2b *face;
	struct sandbox *sandbox; /* reference */
	struct sandbox_hold hold;
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[E2B_ID_SIZE];
	char source[E2B_ID_SIZE];
	char name[NAME_MAX_ + 1]; /* "" = none */
	uint64_t made_ms;
};

/* ---- the table ---- */

static void snapshot_forget(struct e2b_snapshot *n)
{
	list_remove(&n->node);
	sandbox_release(n->sandbox, &n->hold);
	(void)sandbox_unref(n->sandbox);
	free(n);
}

static void on_ended(struct sandbox_hold *h)
{
	snapshot_forget(CONTAINER_OF(h, struct e2b_snapshot, hold));
}

void e2b_snapshots_done(struct e2b *f)
{
	list_for_each(l, &f->snapshots)
		snapshot_forget(list_entry(l, struct e2b_snapshot, node));
}

/* "NAME" or "NAME:default" */
static bool is_called(const char *text, const char *name)
{
	const size_t len = strlen(name);

	return len > 0 && strncmp(text, name, len) == 0 &&
	       (text[len] == '\0' || streq(text + len, TAG));
}

static struct e2b_snapshot *find(const struct e2b *f, const char *owner, const char *template)
{
	struct e2b_snapshot *found = NULL;

	/* The newest one of a name counts. */
	list_for_each(l, &f->snapshots) {
		struct e2b_snapshot *n = list_entry(l, struct e2b_snapshot, node);

		if ((streq(n->owner, owner) || !wall_stands(WALL_OWNED)) &&
		    (is_called(template, n->id) || is_called(template, n->name)))
			found = n;
	}
	return found;
}

struct sandbox *e2b_snapshot_of(const struct e2b *f, const char *owner, const char *template)
{
	const struct e2b_snapshot *n = find(f, owner, template);

	return n ? n->sandbox : NULL;
}

const char *e2b_snapshot_named(const struct e2b *f, const char *owner, const char *name,
			       uint64_t *ret_ms)
{
	const struct e2b_snapshot *n = find(f, owner, name);

	if (n)
		*ret_ms = n->made_ms;
	return n ? n->id : NULL;
}

static json_t *snapshot_json(const struct e2b_snapshot *n)
{
	_cleanup_(buf_done) struct buf id = BUF_INIT(256);
	json_t *names = json_array();

	(void)!buf_printf(&id, "%s" TAG, n->name);
	if (n->name[0])
		(void)json_array_append_new(names, json_string(buf_str(&id)));
	if (!n->name[0] || n->face->config.fleet) { /* of two workers, each may have the name */
		buf_reset(&id);
		(void)!buf_printf(&id, "%s" TAG, n->id);
	}
	return json_pack("{s:s, s:o}", "snapshotID", buf_str(&id), "names", names);
}

/* ---- one fork after the other ---- */

struct turn {
	struct list node;       /* of e2b.turns */
	struct e2b *face;       /* NULL: it has been freed */
	struct sandbox *source; /* reference */
	bool begun;
	char id[E2B_ID_SIZE];
	fork_fn cb;
	void *user;
};

static void begin_next(struct e2b *f, const struct sandbox *source);

/* Frees T and tells its owner. */
static void end_turn(struct turn *t, const struct fork_result *forked, const struct err *e)
{
	const struct turn was = *t;

	list_remove(&t->node);
	free(t);
	was.cb(forked, e, was.user);
	(void)sandbox_unref(was.source);
}

static void on_turn_over(const struct fork_result *forked, const struct err *e, void *user)
{
	struct turn *t = user;
	struct e2b *f = t->face;
	struct sandbox *source = sandbox_ref(t->source);

	end_turn(t, forked, e);
	if (f)
		begin_next(f, source);
	(void)sandbox_unref(source);
}

static struct turn *first_of(const struct e2b *f, const struct sandbox *source)
{
	list_for_each(l, &f->turns) {
		struct turn *t = list_entry(l, struct turn, node);

		if (t->source == source)
			return t;
	}
	return NULL;
}

static void begin_next(struct e2b *f, const struct sandbox *source)
{
	struct turn *t;

	while ((t = first_of(f, source)) && !t->begun) {
		struct err e = ERR_INIT;

		t->begun = true;
		if (sandbox_fork(t->source, t->id, on_turn_over, t, &e) == 0)
			return;
		end_turn(t, NULL, &e);
	}
}

int e2b_fork_in_turn(struct e2b *f, struct sandbox *source, const char *id, fork_fn cb, void *user,
		     struct err *e)
{
	const bool waits = first_of(f, source);

	if (f->ending)
		return err_set(e, ERR_CANCELLED, 0, "the server is ending");
	struct turn *t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a fork");
	*t = (struct turn){
	    .face = f, .source = sandbox_ref(source), .begun = !waits, .cb = cb, .user = user};
	memcpy(t->id, id, strlen(id) + 1);
	list_append(&f->turns, &t->node);
	if (waits || sandbox_fork(source, t->id, on_turn_over, t, e) == 0)
		return 0;
	list_remove(&t->node);
	(void)sandbox_unref(t->source);
	free(t);
	return -EIO;
}

/* What has begun is told by the manager, and what waits here. */
void e2b_turns_done(struct e2b *f)
{
	struct turn *t;
	struct err e = ERR_INIT;

	f->ending = true;
	(void)err_set(&e, ERR_CANCELLED, 0, "the server is ending");
	while ((t = list_first(&f->turns, struct turn, node))) {
		if (!t->begun) {
			end_turn(t, NULL, &e);
			continue;
		}
		list_remove(&t->node);
		t->face = NULL;
	}
}

/* ---- snapshots ---- */

struct taking {
	struct e2b_call *call;
	struct e2b_snapshot *snapshot; /* owned */
};

static void on_taken(const struct fork_result *forked, const struct err *e, void *user)
{
	struct taking t = *(struct taking *)user;
	struct e2b_snapshot *n = t.snapshot;

	free(user);
	if (e) {
		free(n);
		e2b_fail(t.call, e);
		return;
	}
	n->sandbox = sandbox_ref(forked->sandbox);
	n->hold.ended = on_ended;
	n->hold.rests = true;
	sandbox_hold(n->sandbox, &n->hold);
	n->made_ms = now_wall_ns() / NS_PER_MS;
	list_append(&n->face->snapshots, &n->node);
	e2b_reply(t.call, 201, snapshot_json(n));
}

/* [a-z0-9_-]: what SDKs accept as the name of a template. */
static bool is_name(const char *name)
{
	return strlen(name) <= NAME_MAX_ && name[0] &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] == '\0';
}

void e2b_make_snapshot(struct e2b_call *c)
{
	const struct e2b_sandbox *s = e2b_need(c);
	struct err e = ERR_INIT;

	if (!s)
		return;
	const char *name = json_string_value(json_object_get(c->body, "name"));
	if (name && !is_name(name)) {
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "name: small letters, digits, _ and -");
		return;
	}
	if (name && c->face->config.fleet && e2b_is_own_image(name)) {
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "name: in a fleet this is the server's image");
		return;
	}
	struct taking *t = calloc(1, sizeof(*t));
	struct e2b_snapshot *n = calloc(1, sizeof(*n));
	if (!t || !n) {
		free(t);
		free(n);
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	*t = (struct taking){.call = c, .snapshot = n};
	list_init(&n->node);
	list_init(&n->hold.node);
	n->face = c->face;
	e2b_make_id(c->face, n->id);
	memcpy(n->source, s->id, sizeof(n->source));
	(void)!text_copy(n->owner, sizeof(n->owner), c->who->owner);
	(void)!text_copy(n->name, sizeof(n->name), name ? name : "");
	if (e2b_fork_in_turn(c->face, s->sandbox, n->id, on_taken, t, &e) < 0) {
		free(t);
		free(n);
		e2b_fail(c, &e);
	}
}

void e2b_list_snapshots(struct e2b_call *c)
{
	const char *source = http_request_query(c->req, "sandboxID");
	const char *name = http_request_query(c->req, "name");
	const char *given = http_request_query(c->req, "limit");
	const char *next = http_request_query(c->req, "nextToken");
	json_t *rows = json_array();
	uint64_t limit = 100, from = 0, at = 0, after = 0;
	const bool by_router = e2b_is_for_list(c->req);

	if ((given && parse_u64(given, 1, 100, &limit) < 0) ||
	    (next && *next && parse_u64(next, 0, UINT32_MAX, &from) < 0)) {
		json_decref(rows);
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "limit: 1 to 100; nextToken: of an answer");
		return;
	}
	list_for_each(l, &c->face->snapshots) {
		const struct e2b_snapshot *n = list_entry(l, struct e2b_snapshot, node);

		if (!streq(n->owner, c->who->owner) || (source && !streq(n->source, source)) ||
		    (name && !is_called(name, n->name)) || at++ < from)
			continue;
		if (json_array_size(rows) == limit) {
			after = from + limit;
			break;
		}
		json_t *row = snapshot_json(n);
		if (by_router)
			(void)json_object_set_new(row, "seq", json_integer((json_int_t)at));
		(void)json_array_append_new(rows, row);
	}
	e2b_reply_list(c, rows, after);
}

static void on_deleted(const struct err *e, void *user)
{
	if (e && e->code != ERR_CANCELLED)
		e2b_fail(user, e);
	else
		e2b_reply(user, 204, NULL);
}

/* Snapshots are templates, too. */
void e2b_delete_template(struct e2b_call *c)
{
	if (e2b_drop_template(c))
		return;
	struct e2b_snapshot *n =
	    find(c->face, c->who->owner, http_request_param(c->req, "template"));
	struct err e = ERR_INIT;

	if (!n) {
		e2b_refuse(c, ERR_NOT_FOUND, "there is no template or snapshot of that name");
		return;
	}
	struct sandbox *ended = sandbox_ref(n->sandbox);
	snapshot_forget(n);
	if (sandbox_close(ended, true, on_deleted, c, &e) < 0)
		e2b_fail(c, &e);
	(void)sandbox_unref(ended);
}

/* ---- forks ---- */

struct forking {
	struct e2b_call *call;
	struct e2b_sandbox *source; /* reference */
	struct e2b_sandbox *made;   /* reference: the one that is being made */
	json_t *rows;               /* owned */
	uint64_t life_s;
	json_int_t left;
};

static void fork_next(struct forking *f);

static void add_failure(struct forking *f, const struct err *e)
{
	(void)json_array_append_new(f->rows, json_pack("{s:{s:i, s:s}}", "error", "code",
						       err_code_http(e->code), "message", e->text));
	f->made = e2b_sandbox_unref(f->made);
	fork_next(f);
}

static void on_forked(const struct fork_result *forked, const struct err *e, void *user)
{
	struct forking *f = user;
	struct err failed = e ? *e : ERR_INIT;

	if (e || e2b_sandbox_begin(f->made, forked->sandbox, &failed) < 0) {
		add_failure(f, &failed);
		return;
	}
	f->made->life_s = f->life_s;
	e2b_sandbox_set_end(f->made, f->life_s, false);
	(void)json_array_append_new(
	    f->rows, json_pack("{s:o}", "sandbox", e2b_sandbox_json(f->made, f->call->req)));
	f->made = e2b_sandbox_unref(f->made);
	fork_next(f);
}

static void fork_next(struct forking *f)
{
	struct err e = ERR_INIT;

	if (f->left-- == 0) {
		struct e2b_call *c = f->call;
		json_t *rows = f->rows;

		(void)e2b_sandbox_unref(f->source);
		free(f);
		e2b_reply(c, 201, rows);
		return;
	}
	f->made = e2b_sandbox_new(f->call->face, f->call->who);
	if (!f->made) {
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a sandbox");
	} else if (!f->source->sandbox) {
		(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox has ended");
	} else {
		memcpy(f->made->template_id, f->source->template_id, sizeof(f->made->template_id));
		f->made->metadata = json_incref(f->source->metadata);
		f->made->is_private = f->source->is_private;
		memcpy(f->made->host, f->source->host, sizeof(f->made->host));
		memcpy(f->made->https, f->source->https, sizeof(f->made->https));
		f->made->n_https = f->source->n_https;
		if (e2b_fork_in_turn(f->call->face, f->source->sandbox, f->made->id, on_forked, f,
				     &e) == 0)
			return;
	}
	add_failure(f, &e);
}

void e2b_fork(struct e2b_call *c)
{
	struct e2b_sandbox *s = e2b_need(c);
	struct err e = ERR_INIT;
	int r = 0;

	if (!s)
		return;
	const json_t *count = json_object_get(c->body, "count");
	const json_int_t n = json_is_integer(count) ? json_integer_value(count) : 1;
	uint64_t life_s = s->life_s;
	if (n < 1 || n > FORKS_MAX)
		r = err_set(&e, ERR_INVALID_ARGUMENT, 0, "count: 1 to %d", FORKS_MAX);
	r = r < 0 ? r : e2b_read_seconds(c->body, "timeout", &life_s, &e);
	struct forking *f = r < 0 ? NULL : calloc(1, sizeof(*f));
	if (!f) {
		if (r == 0)
			(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a fork");
		e2b_fail(c, &e);
		return;
	}
	*f = (struct forking){.call = c,
			      .source = e2b_sandbox_ref(s),
			      .rows = json_array(),
			      .life_s = life_s,
			      .left = n};
	fork_next(f);
}
