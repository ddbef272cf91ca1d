/* SPDX-License-Identifier: Apache-2.0 */
/* The table of templates, their names and tags, and what outlives the server. */
#include "faces/e2b/templates.h"

#include "api/json_reply.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"

#include <stdlib.h>
#include <string.h>

#define NOTE_MEMBER "e2b"

/* ---- names ---- */

bool e2b_is_word(const char *text, const char *also)
{
	const size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.");

	return n > 0 && n <= TEMPLATE_NAME && text[n] == '\0' && (*also || !strchr(text, '.'));
}

/* "[namespace/]alias[:tag]" in any case. TAG is "" if there is none. */
bool e2b_read_name(const char *text, char alias[TEMPLATE_NAME + 1], char tag[TEMPLATE_NAME + 1])
{
	const char *slash = strchr(text, '/');
	const char *from = slash ? slash + 1 : text;
	const char *colon = strchr(from, ':');
	const size_t len = colon ? (size_t)(colon - from) : strlen(from);

	if (len == 0 || len > TEMPLATE_NAME || (colon && strlen(colon + 1) > TEMPLATE_NAME))
		return false;
	for (size_t i = 0; i < len; i++)
		alias[i] = e2b_lower(from[i]);
	alias[len] = '\0';
	tag[0] = '\0';
	for (size_t i = 0; colon && i <= strlen(colon + 1); i++)
		tag[i] = e2b_lower(colon[1 + i]);
	return e2b_is_word(alias, "") && (!colon || e2b_is_word(tag, "."));
}

bool e2b_has_tag(const struct e2b_build *b, const char *tag)
{
	size_t i;
	json_t *v;

	json_array_foreach(b->tags, i, v)
		if (streq(json_string_value(v), tag))
			return true;
	return false;
}

void e2b_drop_tag(struct e2b_build *b, const char *tag)
{
	for (size_t i = json_array_size(b->tags); i-- > 0;)
		if (streq(json_string_value(json_array_get(b->tags, i)), tag))
			(void)json_array_remove(b->tags, i);
}

/* ---- builds ---- */

struct e2b_build *e2b_build_ref(struct e2b_build *b)
{
	b->refs++;
	return b;
}

struct e2b_build *e2b_build_unref(struct e2b_build *b)
{
	if (!b || --b->refs > 0)
		return NULL;
	e2b_setup_done(&b->setup);
	json_decref(b->tags);
	json_decref(b->log);
	(void)e2b_sandbox_unref(b->archives);
	free(b);
	return NULL;
}

struct e2b_build *e2b_build_new(struct e2b_template *t, const char *id)
{
	struct e2b_build *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->refs = 1;
	b->template = t;
	b->tags = json_array();
	b->log = json_array();
	b->setup.env = json_object();
	(void)snprintf(b->setup.workdir, sizeof(b->setup.workdir), "%s", E2B_HOME);
	list_init(&b->waiting);
	b->created_ms = now_wall_ns() / NS_PER_MS;
	if (id)
		(void)!text_copy(b->id, sizeof(b->id), id);
	else
		rand_uuid(b->id);
	(void)snprintf(b->image, sizeof(b->image), SANDBOX_OWN_IMAGE "%s.%.8s", t->id, b->id);
	list_append(&t->builds, &b->node);
	return b;
}

void e2b_image_note(struct e2b *f, struct e2b_build *b, void (*fn)(const struct err *e, void *user),
		    void *user)
{
	struct build_order *j = calloc(1, sizeof(*j));
	struct err e = ERR_INIT;

	if (!j || !(j->note = e2b_build_note(b))) {
		free(j);
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "a template");
		if (fn)
			fn(&e, user);
		return;
	}
	j->what = BUILD_ORDER_NOTE;
	memcpy(j->image, b->image, sizeof(j->image));
	j->fn = fn;
	j->user = user;
	build_order_do(f->config.builds, j);
}

/* Takes B out of its template. Sandboxes of it go on. */
void e2b_build_forget(struct e2b_build *b)
{
	struct e2b *f = b->template->face;

	list_remove(&b->node);
	e2b_build_stop(b);
	e2b_archives_done(b);
	if (b->state == BUILD_READY)
		e2b_image_drop(f, b->image);
	if (b->archives && b->archives->sandbox) {
		struct sandbox *ended = sandbox_ref(b->archives->sandbox);
		struct err ignored = ERR_INIT;

		e2b_sandbox_forget(b->archives);
		(void)!sandbox_close(ended, true, NULL, NULL, &ignored);
		(void)sandbox_unref(ended);
	}
	b->template = NULL;
	(void)e2b_build_unref(b);
}

void e2b_build_done(struct e2b_build *b)
{
	struct e2b_template *t = b->template;
	size_t i;
	json_t *tag;

	b->state = BUILD_READY;
	b->finished_ms = now_wall_ns() / NS_PER_MS;
	list_for_each(l, &t->builds) {
		struct e2b_build *other = list_entry(l, struct e2b_build, node);

		if (other == b || other->state != BUILD_READY)
			continue;
		json_array_foreach(b->tags, i, tag)
			e2b_drop_tag(other, json_string_value(tag));
		if (json_array_size(other->tags) == 0)
			e2b_build_forget(other);
	}
}

void e2b_build_log(struct e2b_build *b, const char *level, const char *step, const char *text,
		   size_t len)
{
	_cleanup_(buf_done) struct buf clean = BUF_INIT(3 * BUILD_LINE_MAX + 1);
	char at[API_TIME_SIZE];

	if (b->cut)
		return;
	b->cut = json_array_size(b->log) + 1 == BUILD_LINES_MAX;
	if (b->cut)
		(void)!buf_add_str(&clean, "(the rest of the log is left out)");
	else if (text_add_utf8_lossy(&clean, text, MIN(len, (size_t)BUILD_LINE_MAX)) < 0)
		return;
	json_t *entry =
	    json_pack("{s:s, s:s, s:s}", "timestamp", api_time(now_wall_ns() / NS_PER_MS, at),
		      "message", buf_str(&clean), "level", level);
	if (step && *step)
		(void)json_object_set_new(entry, "step", json_string(step));
	(void)json_array_append_new(b->log, entry);
}

/* ---- the table ---- */

struct e2b_template *e2b_template_of(const struct e2b *f, const char *owner, const char *name)
{
	list_for_each(l, &f->templates) {
		struct e2b_template *t = list_entry(l, struct e2b_template, node);

		if ((streq(t->owner, owner) || !wall_stands(WALL_OWNED)) &&
		    (streq(t->alias, name) || streq(t->id, name)))
			return t;
	}
	return NULL;
}

struct e2b_build *e2b_build_of(const struct e2b_template *t, const char *id)
{
	list_for_each(l, &t->builds) {
		struct e2b_build *b = list_entry(l, struct e2b_build, node);

		if (streq(b->id, id))
			return b;
	}
	return NULL;
}

struct e2b_build *e2b_tagged(const struct e2b_template *t, const char *tag)
{
	list_for_each(l, &t->builds) {
		struct e2b_build *b = list_entry(l, struct e2b_build, node);

		if (b->state == BUILD_READY && e2b_has_tag(b, tag))
			return b;
	}
	return NULL;
}

struct e2b_build *e2b_build_named(const struct e2b *f, const char *owner, const char *name)
{
	char alias[TEMPLATE_NAME + 1], tag[TEMPLATE_NAME + 1];
	const struct e2b_template *t =
	    e2b_read_name(name, alias, tag) ? e2b_template_of(f, owner, alias) : NULL;

	if (!t)
		return NULL;
	/* The id of a build stands where a tag does, and no tag looks like one. */
	struct e2b_build *b = e2b_build_of(t, tag);
	return !b ? e2b_tagged(t, tag[0] ? tag : TAG_DEFAULT) : b->state == BUILD_READY ? b : NULL;
}

struct e2b_template *e2b_template_new(struct e2b *f, const char *owner, const char *id,
				      const char *alias)
{
	struct e2b_template *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->face = f;
	list_init(&t->builds);
	(void)!text_copy(t->owner, sizeof(t->owner), owner);
	(void)!text_copy(t->alias, sizeof(t->alias), alias);
	if (id)
		(void)!text_copy(t->id, sizeof(t->id), id);
	else
		e2b_make_id(f, t->id);
	t->created_ms = now_wall_ns() / NS_PER_MS;
	list_append(&f->templates, &t->node);
	return t;
}

void e2b_template_forget(struct e2b_template *t)
{
	struct e2b *f = t->face;

	list_remove(&t->node);
	list_for_each(l, &t->builds)
		e2b_build_forget(list_entry(l, struct e2b_build, node));
	e2b_points_tidy_owner(f, t->owner);
	free(t);
}

void e2b_forget_owner(struct e2b *f, const char *owner)
{
	list_for_each(l, &f->templates) {
		struct e2b_template *t = list_entry(l, struct e2b_template, node);

		if (streq(t->owner, owner))
			e2b_template_forget(t);
	}
}

void e2b_templates_done(struct e2b *f)
{
	e2b_points_done(f);
	list_for_each(l, &f->templates) {
		struct e2b_template *t = list_entry(l, struct e2b_template, node);

		list_remove(&t->node);
		list_for_each(k, &t->builds) {
			struct e2b_build *b = list_entry(k, struct e2b_build, node);

			list_remove(&b->node);
			e2b_build_stop(b);
			b->template = NULL;
			(void)e2b_build_unref(b);
		}
		free(t);
	}
}

/* ---- what outlives the server ---- */

char *e2b_build_note(const struct e2b_build *b)
{
	const struct e2b_template *t = b->template;
	const struct e2b_setup *s = &b->setup;
	size_t len;
	json_t *note = json_pack(
	    "{s:{s:s, s:s, s:s, s:s, s:O, s:O, s:b, s:s, s:s?, s:s?, s:i, s:i, s:I, s:I}}",
	    NOTE_MEMBER, "owner", t->owner, "template", t->id, "alias", t->alias, "build", b->id,
	    "tags", b->tags, "env", s->env, "root", s->root, "workdir", s->workdir, "start",
	    s->start, "ready", s->ready, "cpus", (int)b->cpus, "memory_mb", (int)b->memory_mb,
	    "created_ms", (json_int_t)b->created_ms, "finished_ms",
	    (json_int_t)(b->finished_ms ? b->finished_ms : now_wall_ns() / NS_PER_MS));
	char *text = note ? jsonio_text(note, JSON_COMPACT, &len) : NULL;

	json_decref(note);
	return text;
}

static char *copy(const json_t *note, const char *member)
{
	const char *s = json_string_value(json_object_get(note, member));

	return s ? strdup(s) : NULL;
}

static void load_build(struct e2b *f, const char *image, const json_t *note)
{
	struct e2b_template *t =
	    e2b_template_of(f, e2b_note_word(note, "owner"), e2b_note_word(note, "template"));

	if (!t)
		t = e2b_template_new(f, e2b_note_word(note, "owner"),
				     e2b_note_word(note, "template"), e2b_note_word(note, "alias"));
	struct e2b_build *b = t ? e2b_build_new(t, e2b_note_word(note, "build")) : NULL;
	if (!b)
		return;
	struct e2b_setup *s = &b->setup;
	json_t *tags = json_object_get(note, "tags"), *env = json_object_get(note, "env");
	(void)!text_copy(b->image, sizeof(b->image), image);
	if (json_is_array(tags))
		(void)json_array_extend(b->tags, tags);
	if (json_is_object(env))
		(void)json_object_update(s->env, env);
	s->root = json_is_true(json_object_get(note, "root"));
	(void)!text_copy(s->workdir, sizeof(s->workdir), e2b_note_word(note, "workdir"));
	s->start = copy(note, "start");
	s->ready = copy(note, "ready");
	b->cpus = (uint32_t)json_integer_value(json_object_get(note, "cpus"));
	b->memory_mb = (uint32_t)json_integer_value(json_object_get(note, "memory_mb"));
	b->created_ms = (uint64_t)json_integer_value(json_object_get(note, "created_ms"));
	b->finished_ms = (uint64_t)json_integer_value(json_object_get(note, "finished_ms"));
	t->created_ms = MIN(t->created_ms, b->created_ms);
	b->state = BUILD_READY;
}

static void load_point(struct e2b *f, const json_t *row, const json_t *note)
{
	const struct build_image_size size = {
	    .bytes = (uint64_t)json_integer_value(json_object_get(row, "bytes")),
	    .folders = (uint64_t)json_integer_value(json_object_get(row, "folders"))};

	e2b_point_load(f, e2b_note_word(row, "name"), note, &size);
}

/* Of two builds with the same tag the one that was finished last has it: the server ended between both steps. */
static void settle(struct e2b_template *t)
{
	list_for_each(l, &t->builds) {
		struct e2b_build *b = list_entry(l, struct e2b_build, node);

		list_for_each(k, &t->builds) {
			const struct e2b_build *o = list_entry(k, struct e2b_build, node);
			size_t i;
			json_t *tag;

			if (o == b || o->finished_ms < b->finished_ms)
				continue;
			json_array_foreach(o->tags, i, tag)
				e2b_drop_tag(b, json_string_value(tag));
		}
		if (json_array_size(b->tags) == 0)
			e2b_build_forget(b);
	}
}

void e2b_templates_load(struct e2b *f)
{
	const struct build_images *images = &f->config.builds->config.images;
	json_t *rows = images->notes ? images->notes(images->user) : NULL, *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		const json_t *notes = json_object_get(row, "note");
		const json_t *note = json_object_get(notes, NOTE_MEMBER);
		const json_t *point = json_object_get(notes, E2B_POINT_MEMBER);

		const char *name = e2b_note_word(row, "name");

		if (!text_starts_with(name, SANDBOX_OWN_IMAGE))
			continue;
		if (json_is_object(note))
			load_build(f, name, note);
		else if (json_is_object(point))
			load_point(f, row, point);
		else if (json_is_object(notes))
			e2b_image_drop(f, name); /* a build stood on it when the server ended */
	}
	json_decref(rows);
	list_for_each(l, &f->templates)
		settle(list_entry(l, struct e2b_template, node));
	e2b_points_tidy(f);
}
