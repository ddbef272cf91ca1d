/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane of templates: they are made, found, tagged and removed. */
#include "faces/e2b/templates.h"

#include "api/json_reply.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- how they look ---- */

static const struct e2b_build *newest(const struct e2b_template *t)
{
	return list_last(&t->builds, struct e2b_build, node);
}

static const char *state_name(const struct e2b_build *b)
{
	static const char *const names[] = {[BUILD_WAITING] = "waiting",
					    [BUILD_GOES_ON] = "building",
					    [BUILD_READY] = "ready",
					    [BUILD_ERROR] = "error"};

	return b ? names[b->state] : "waiting";
}

static json_t *when(uint64_t ms)
{
	char text[API_TIME_SIZE];

	return ms ? json_string(api_time(ms, text)) : json_null();
}

static json_t *size_json(const struct e2b *f, const struct e2b_build *b)
{
	const struct sandbox_options none = {0};
	struct sandbox_limits limits;
	const struct engine_limits *l = &limits.engine;

	manager_stored_limits(f->config.manager, &none, &limits);

	return json_pack(
	    "{s:I, s:I, s:I, s:s}", "cpuCount",
	    (json_int_t)(b && b->cpus ? b->cpus : MAX(l->cpu_milli / 1000, 1u)), "memoryMB",
	    (json_int_t)(b && b->memory_mb ? b->memory_mb : l->memory_bytes >> 20), "diskSizeMB",
	    (json_int_t)(l->workspace_bytes >> 20), "envdVersion", E2B_ENVD_VERSION);
}

static json_t *template_json(const struct e2b_template *t)
{
	const struct e2b_build *ready = e2b_tagged(t, TAG_DEFAULT), *last = newest(t);
	const struct e2b_build *b = ready ? ready : last;
	size_t n = 0;
	list_for_each(l, &t->builds)
		n++;
	json_t *o =
	    json_pack("{s:s, s:s, s:b, s:[s], s:[s], s:o, s:o, s:n, s:n, s:i, s:I, s:s}",
		      "templateID", t->id, "buildID", b ? b->id : "", "public", 0, "aliases",
		      t->alias, "names", t->alias, "createdAt", when(t->created_ms), "updatedAt",
		      when(last && last->finished_ms ? last->finished_ms : t->created_ms),
		      "createdBy", "lastSpawnedAt", "spawnCount", 0, "buildCount", (json_int_t)n,
		      "buildStatus", state_name(b));

	json_t *size = size_json(t->face, b);
	(void)json_object_update(o, size);
	json_decref(size);
	return o;
}

static json_t *build_json(const struct e2b *f, const struct e2b_build *b)
{
	json_t *o = size_json(f, b);

	(void)json_object_set_new(o, "buildID", json_string(b->id));
	(void)json_object_set_new(o, "status", json_string(state_name(b)));
	(void)json_object_set_new(o, "createdAt", when(b->created_ms));
	(void)json_object_set_new(o, "updatedAt",
				  when(b->finished_ms ? b->finished_ms : b->created_ms));
	if (b->finished_ms)
		(void)json_object_set_new(o, "finishedAt", when(b->finished_ms));
	return o;
}

/* ---- handlers ---- */

/* The template {template} of the caller, by its id or name; NULL after it has answered. */
static struct e2b_template *need(struct e2b_call *c)
{
	char alias[TEMPLATE_NAME + 1], tag[TEMPLATE_NAME + 1];
	const char *name = http_request_param(c->req, "template");
	struct e2b_template *t =
	    e2b_read_name(name, alias, tag) ? e2b_template_of(c->face, c->who->owner, alias) : NULL;

	if (!t)
		e2b_refuse(c, ERR_NOT_FOUND, "there is no template of that name");
	return t;
}

/* The same and its build {build}. */
static struct e2b_build *need_build(struct e2b_call *c)
{
	struct e2b_template *t = need(c);
	struct e2b_build *b = t ? e2b_build_of(t, http_request_param(c->req, "build")) : NULL;

	if (t && !b)
		e2b_refuse(c, ERR_NOT_FOUND, "there is no build of that id");
	return b;
}

/* Adds those of the array TAGS to RET. */
static int add_tags(const json_t *tags, json_t *ret, struct err *e)
{
	char tag[TEMPLATE_NAME + 1];
	size_t i;
	json_t *v;

	if (!e2b_is_empty(tags) && !json_is_array(tags))
		return e2b_refuse_member(e, "tags", "an array of texts");
	json_array_foreach(tags, i, v) {
		const char *text = json_string_value(v);
		const size_t len = text ? strlen(text) : 0;

		if (len == 0 || len > TEMPLATE_NAME)
			return e2b_refuse_member(e, "tags",
						 "small letters, digits, '-', '_' and '.'");
		for (size_t k = 0; k <= len; k++)
			tag[k] = e2b_lower(text[k]);
		if (!e2b_is_word(tag, ".") || json_array_size(ret) >= TAGS_MAX)
			return e2b_refuse_member(
			    e, "tags", "small letters, digits, '-', '_' and '.', at most 16");
		(void)json_array_append_new(ret, json_string(tag));
	}
	return 0;
}

/* SDKs ask for 2 and 1024 unasked, so a server that permits less gives what it permits. */
static int read_size(const struct e2b_call *c, const char *member, enum sandbox_option x,
		     int64_t unit, uint32_t *ret, struct err *e)
{
	const json_t *v = json_object_get(c->body, member);
	const json_int_t n = json_integer_value(v);

	*ret = 0;
	if (e2b_is_empty(v))
		return 0;
	if (!json_is_integer(v) || n < 1 || n > INT32_MAX)
		return e2b_refuse_member(e, member, "a whole number");
	*ret = (uint32_t)MIN(n, MAX(manager_option_max(c->face->config.manager, x) / unit, 1));
	return 0;
}

static int check_room(const struct e2b_call *c, const struct e2b_template *t, struct err *e)
{
	unsigned templates = 0;
	const unsigned open = e2b_builds_open(c->face, c->who->owner, t, &templates);

	if (!t && templates >= TEMPLATES_MAX)
		return err_set(e, ERR_QUOTA_EXCEEDED, 0,
			       "you have %u templates, and more are not kept: delete one",
			       templates);
	return open >= BUILDS_OPEN_MAX
		   ? err_set(e, ERR_QUOTA_EXCEEDED, 0,
			     "%u of your builds wait or go on: let one end", open)
		   : 0;
}

/* Builds that nobody has begun, or that failed, make room for a new one. */
static void drop_old(struct e2b_template *t)
{
	list_for_each(l, &t->builds) {
		struct e2b_build *b = list_entry(l, struct e2b_build, node);

		if (b->state == BUILD_WAITING || b->state == BUILD_ERROR)
			e2b_build_forget(b);
	}
}

static void note_less(struct e2b_build *b, const json_t *body)
{
	_cleanup_(buf_done) struct buf line = BUF_INIT(256);
	const json_int_t cpus = json_integer_value(json_object_get(body, "cpuCount"));
	const json_int_t memory = json_integer_value(json_object_get(body, "memoryMB"));

	if ((cpus <= b->cpus && memory <= b->memory_mb) ||
	    buf_printf(&line, "this server permits %u CPUs and %u MiB", b->cpus, b->memory_mb) < 0)
		return;
	e2b_build_log(b, "warn", NULL, buf_str(&line), line.len);
}

void e2b_make_template(struct e2b_call *c)
{
	char alias[TEMPLATE_NAME + 1], tag[TEMPLATE_NAME + 1] = "";
	const char *name = json_string_value(json_object_get(c->body, "name"));
	struct err e = ERR_INIT;
	struct e2b *f = c->face;
	uint32_t cpus = 0, memory_mb = 0;
	json_t *tags = json_array();

	int r = 0;
	if (!name || !e2b_read_name(name, alias, tag))
		r = e2b_refuse_member(&e, "name",
				      "small letters, digits, '-' and '_', and then :TAG");
	if (r == 0 && tag[0])
		(void)json_array_append_new(tags, json_string(tag));
	r = r < 0 ? r : add_tags(json_object_get(c->body, "tags"), tags, &e);
	r = r < 0 ? r : read_size(c, "cpuCount", SANDBOX_OPTION_CPUS, 1000, &cpus, &e);
	r = r < 0 ? r : read_size(c, "memoryMB", SANDBOX_OPTION_MEMORY, 1, &memory_mb, &e);
	struct e2b_template *t = r < 0 ? NULL : e2b_template_of(f, c->who->owner, alias);
	if (r == 0 && f->config.fleet && e2b_is_own_image(alias))
		r = e2b_refuse_member(&e, "name",
				      "another one: in a fleet this is the server's image");
	if (r == 0 && t)
		drop_old(t);
	r = r < 0 ? r : check_room(c, t, &e);
	if (r == 0 && !t)
		t = e2b_template_new(f, c->who->owner, NULL, alias);
	struct e2b_build *b = r == 0 && t ? e2b_build_new(t, NULL) : NULL;
	if (!b) {
		json_decref(tags);
		if (r == 0)
			(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a template");
		e2b_fail(c, &e);
		return;
	}
	if (json_array_size(tags) == 0)
		(void)json_array_append_new(tags, json_string(TAG_DEFAULT));
	json_decref(b->tags);
	b->tags = tags;
	b->cpus = cpus;
	b->memory_mb = memory_mb;
	note_less(b, c->body);
	e2b_reply(c, 202,
		  json_pack("{s:s, s:s, s:b, s:[s], s:O, s:[s]}", "templateID", t->id, "buildID",
			    b->id, "public", 0, "names", t->alias, "tags", b->tags, "aliases",
			    t->alias));
}

void e2b_start_build(struct e2b_call *c)
{
	struct e2b_build *b = need_build(c);
	struct err e = ERR_INIT;

	if (!b)
		return;
	if (b->state != BUILD_WAITING)
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "build is not in waiting state");
	else if (e2b_build_begin(b, c->who, c->body, &e) < 0)
		e2b_fail(c, &e);
	else
		e2b_reply(c, 202, NULL);
}

void e2b_build_status(struct e2b_call *c)
{
	const struct e2b_build *b = need_build(c);
	const char *given = b ? http_request_query(c->req, "logsOffset") : NULL;
	const char *most = b ? http_request_query(c->req, "limit") : NULL;
	uint64_t from = 0, limit = 100;

	if (!b)
		return;
	if ((given && parse_u64(given, 0, UINT32_MAX, &from) < 0) ||
	    (most && parse_u64(most, 0, 100, &limit) < 0)) {
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "logsOffset: a number; limit: up to 100");
		return;
	}
	json_t *entries = json_array(), *lines = json_array();
	for (uint64_t i = from; i < json_array_size(b->log) && i - from < limit; i++) {
		json_t *entry = json_array_get(b->log, i);

		(void)json_array_append(entries, entry);
		(void)json_array_append(lines, json_object_get(entry, "message"));
	}
	json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:o}", "templateID", b->template->id, "buildID",
			      b->id, "status", state_name(b), "logs", lines, "logEntries", entries);
	if (b->state == BUILD_ERROR)
		(void)json_object_set_new(
		    o, "reason", json_pack("{s:s, s:s}", "message", b->reason, "step", b->step));
	e2b_reply(c, 200, o);
}

void e2b_find_alias(struct e2b_call *c)
{
	char alias[TEMPLATE_NAME + 1], tag[TEMPLATE_NAME + 1];
	const char *name = http_request_param(c->req, "alias");
	if (e2b_is_for_list(c->req)) {
		e2b_tell_kept(c);
		return;
	}
	const struct e2b_template *t =
	    e2b_read_name(name, alias, tag) ? e2b_template_of(c->face, c->who->owner, alias) : NULL;

	if (!t || (tag[0] && !e2b_tagged(t, tag)))
		e2b_refuse(c, ERR_NOT_FOUND, "there is no template of that name");
	else
		e2b_reply(c, 200, json_pack("{s:s, s:b}", "templateID", t->id, "public", 0));
}

/* A router takes the newest first. */
void e2b_list_templates(struct e2b_call *c)
{
	const bool by_router = e2b_is_for_list(c->req);
	json_t *rows = json_array();
	json_int_t seq = 0;

	list_for_each(l, &c->face->templates) {
		const struct e2b_template *t = list_entry(l, struct e2b_template, node);

		if (!streq(t->owner, c->who->owner))
			continue;
		json_t *row = template_json(t);
		if (by_router) {
			(void)json_object_set_new(row, "seq", json_integer(++seq));
			(void)json_array_insert_new(rows, 0, row);
		} else {
			(void)json_array_append_new(rows, row);
		}
	}
	e2b_reply_list(c, rows, 0);
}

void e2b_one_template(struct e2b_call *c)
{
	const struct e2b_template *t = need(c);

	if (!t)
		return;
	json_t *o = template_json(t), *builds = json_array();
	list_for_each(l, &t->builds)
		(void)json_array_append_new(
		    builds, build_json(c->face, list_entry(l, struct e2b_build, node)));
	(void)json_object_set_new(o, "builds", builds);
	e2b_reply(c, 200, o);
}

bool e2b_drop_template(struct e2b_call *c)
{
	struct e2b_template *t =
	    e2b_template_of(c->face, c->who->owner, http_request_param(c->req, "template"));

	if (!t)
		return false;
	e2b_template_forget(t);
	e2b_reply(c, 204, NULL);
	return true;
}

/* ---- tags ---- */

void e2b_list_tags(struct e2b_call *c)
{
	const struct e2b_template *t = need(c);
	json_t *rows = json_array();

	if (!t) {
		json_decref(rows);
		return;
	}
	list_for_each(l, &t->builds) {
		const struct e2b_build *b = list_entry(l, struct e2b_build, node);
		size_t i;
		json_t *tag;

		json_array_foreach(b->tags, i, tag)
			if (b->state == BUILD_READY)
				(void)json_array_append_new(
				    rows, json_pack("{s:O, s:s, s:o}", "tag", tag, "buildID", b->id,
						    "createdAt", when(b->finished_ms)));
	}
	e2b_reply(c, 200, rows);
}

struct tagging {
	struct e2b_call *call;
	json_t *answer; /* owned; NULL = none */
};

static void on_noted(const struct err *e, void *user)
{
	struct tagging t = *(struct tagging *)user;

	free(user);
	if (e) {
		json_decref(t.answer);
		e2b_fail(t.call, e);
	} else {
		e2b_reply(t.call, t.answer ? 201 : 204, t.answer);
	}
}

/* Answers when B has its tags on the disk. */
static void note(struct e2b_call *c, struct e2b_build *b, json_t *answer)
{
	struct tagging *t = calloc(1, sizeof(*t));

	if (!t) {
		json_decref(answer);
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	*t = (struct tagging){.call = c, .answer = answer};
	e2b_image_note(c->face, b, on_noted, t);
}

void e2b_assign_tags(struct e2b_call *c)
{
	const char *target = json_string_value(json_object_get(c->body, "target"));
	struct e2b_build *b = target ? e2b_build_named(c->face, c->who->owner, target) : NULL;
	json_t *tags = json_array(), *tag;
	struct err e = ERR_INIT;
	size_t i;

	if (!b)
		(void)err_set(&e, ERR_NOT_FOUND, 0, "there is no ready build of that name");
	if (!b || add_tags(json_object_get(c->body, "tags"), tags, &e) < 0) {
		json_decref(tags);
		e2b_fail(c, &e);
		return;
	}
	json_array_foreach(tags, i, tag) {
		if (e2b_has_tag(b, json_string_value(tag)))
			continue;
		list_for_each(l, &b->template->builds)
			e2b_drop_tag(list_entry(l, struct e2b_build, node), json_string_value(tag));
		if (json_array_size(b->tags) < TAGS_MAX)
			(void)json_array_append(b->tags, tag);
	}
	list_for_each(l, &b->template->builds) {
		struct e2b_build *o = list_entry(l, struct e2b_build, node);

		if (o != b && o->state == BUILD_READY && json_array_size(o->tags) == 0)
			e2b_build_forget(o);
		else if (o != b && o->state == BUILD_READY)
			e2b_image_note(c->face, o, NULL, NULL);
	}
	note(c, b, json_pack("{s:o, s:s}", "tags", tags, "buildID", b->id));
}

void e2b_remove_tags(struct e2b_call *c)
{
	char alias[TEMPLATE_NAME + 1], other[TEMPLATE_NAME + 1];
	const char *name = json_string_value(json_object_get(c->body, "name"));
	const bool good = name && e2b_read_name(name, alias, other) && !other[0];
	struct e2b_template *t = good ? e2b_template_of(c->face, c->who->owner, alias) : NULL;
	json_t *tags = json_array(), *tag;
	struct e2b_build *last = NULL;
	struct err e = ERR_INIT;
	size_t i;
	int r = add_tags(json_object_get(c->body, "tags"), tags, &e);

	if (r == 0 && !good)
		r = e2b_refuse_member(&e, "name", "the name of a template, without a tag");
	json_array_foreach(tags, i, tag)
		if (r == 0 && streq(json_string_value(tag), TAG_DEFAULT))
			r = e2b_refuse_member(&e, "tags", "the tag 'default' stays");
	if (r == 0 && !t)
		r = err_set(&e, ERR_NOT_FOUND, 0, "there is no template of that name");
	if (r < 0 || !t) {
		json_decref(tags);
		e2b_fail(c, &e);
		return;
	}
	list_for_each(l, &t->builds) {
		struct e2b_build *b = list_entry(l, struct e2b_build, node);
		const size_t before = json_array_size(b->tags);

		json_array_foreach(tags, i, tag)
			e2b_drop_tag(b, json_string_value(tag));
		if (b->state != BUILD_READY || json_array_size(b->tags) == before)
			continue;
		if (json_array_size(b->tags) == 0) {
			e2b_build_forget(b);
			continue;
		}
		if (last)
			e2b_image_note(c->face, last, NULL, NULL);
		last = b;
	}
	json_decref(tags);
	if (last)
		note(c, last, NULL);
	else
		e2b_reply(c, 204, NULL);
}
