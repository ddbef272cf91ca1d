/* SPDX-License-Identifier: Apache-2.0 */
/* The table of cache points. They outlive the server, but not the order in which they were used: after a restart the oldest one is
 * removed first. */
#include "faces/e2b/templates.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

struct e2b_point *e2b_point_of(const struct e2b *f, const char *owner, const char *key)
{
	list_for_each(l, &f->points) {
		struct e2b_point *p = list_entry(l, struct e2b_point, node);

		if (streq(p->owner, owner) && streq(p->key, key))
			return p;
	}
	return NULL;
}

void e2b_point_touch(struct e2b *f, struct e2b_point *p)
{
	list_remove(&p->node);
	list_append(&f->points, &p->node);
}

static void free_point(struct e2b_point *p)
{
	e2b_setup_done(&p->setup);
	free(p);
}

void e2b_point_forget(struct e2b *f, struct e2b_point *p)
{
	e2b_image_drop(f, p->image);
	list_remove(&p->node);
	free_point(p);
}

/* The oldest one of OWNER, if all of them are too much; before it one that is too much alone: without the others it would not fit either. */
static struct e2b_point *too_much(const struct e2b *f, const char *owner)
{
	struct e2b_point *oldest = NULL;
	uint64_t bytes = 0;
	unsigned n = 0;

	list_for_each(l, &f->points) {
		struct e2b_point *p = list_entry(l, struct e2b_point, node);

		if (!streq(p->owner, owner))
			continue;
		if (p->bytes > f->config.template_cache)
			return p;
		oldest = oldest ? oldest : p;
		bytes += MIN(p->bytes, UINT64_MAX - bytes);
		n++;
	}
	const unsigned most = f->config.template_cache > 0 ? POINTS_MAX : 0;

	return n > most || bytes > f->config.template_cache ? oldest : NULL;
}

static void make_room(struct e2b *f, const char *owner)
{
	struct e2b_point *p;

	while ((p = too_much(f, owner))) {
		LOG_INFO("e2b_cache_full", LOG_S("owner", owner), LOG_U("bytes", p->bytes));
		e2b_point_forget(f, p);
	}
}

void e2b_point_add(struct e2b *f, struct e2b_point *p)
{
	struct e2b_point *before = e2b_point_of(f, p->owner, p->key);
	char owner[sizeof(p->owner)];

	memcpy(owner, p->owner, sizeof(owner));
	if (before)
		e2b_point_forget(f, before);
	list_append(&f->points, &p->node);
	make_room(f, owner);
}

static bool has_templates(const struct e2b *f, const char *owner)
{
	list_for_each(l, &f->templates)
		if (streq(list_entry(l, struct e2b_template, node)->owner, owner))
			return true;
	return false;
}

void e2b_points_tidy_owner(struct e2b *f, const char *owner)
{
	if (has_templates(f, owner))
		return;
	list_for_each(l, &f->points) {
		struct e2b_point *p = list_entry(l, struct e2b_point, node);

		if (streq(p->owner, owner))
			e2b_point_forget(f, p);
	}
}

/* What is too much alone goes in the first round. Then the oldest point of each owner is seen first. */
void e2b_points_tidy(struct e2b *f)
{
	list_for_each(l, &f->points) {
		struct e2b_point *p = list_entry(l, struct e2b_point, node);

		if (p->bytes > f->config.template_cache)
			e2b_point_forget(f, p);
	}
	list_for_each(l, &f->points) {
		struct e2b_point *p = list_entry(l, struct e2b_point, node);

		if (!has_templates(f, p->owner) || too_much(f, p->owner) == p)
			e2b_point_forget(f, p);
	}
}

void e2b_points_done(struct e2b *f)
{
	struct e2b_point *p;

	while ((p = list_pop_first(&f->points, struct e2b_point, node)))
		free_point(p);
}

/* ---- what outlives the server ---- */

char *e2b_point_note(const struct e2b_point *p)
{
	const struct e2b_setup *s = &p->setup;
	size_t len;
	json_t *note =
	    json_pack("{s:{s:s, s:s, s:O, s:b, s:s, s:I, s:I}}", E2B_POINT_MEMBER, "owner",
		      p->owner, "key", p->key, "env", s->env, "root", s->root, "workdir",
		      s->workdir, "below", (json_int_t)p->files, "made_ms", (json_int_t)p->made_ms);
	char *text = note ? jsonio_text(note, JSON_COMPACT, &len) : NULL;

	json_decref(note);
	return text;
}

static uint64_t number(const json_t *note, const char *member)
{
	const json_int_t n = json_integer_value(json_object_get(note, member));

	return n > 0 ? (uint64_t)n : 0;
}

/* Before the first one that was made later. */
static void insert(struct e2b *f, struct e2b_point *p)
{
	struct list *later = &f->points;

	list_for_each(l, &f->points) {
		if (list_entry(l, struct e2b_point, node)->made_ms > p->made_ms) {
			later = l;
			break;
		}
	}
	list_append(later, &p->node);
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + MIN(b, UINT64_MAX - a);
}

void e2b_point_measured(struct e2b_point *p, const struct build_image_size *size)
{
	p->files = sum(p->files, size->bytes);
	p->bytes = sum(p->files, size->folders);
}

void e2b_point_load(struct e2b *f, const char *image, const json_t *note,
		    const struct build_image_size *size)
{
	struct e2b_point *p = calloc(1, sizeof(*p));
	json_t *env = json_object_get(note, "env");

	if (!p)
		return;
	p->setup.env = json_is_object(env) ? json_deep_copy(env) : json_object();
	p->setup.root = json_is_true(json_object_get(note, "root"));
	(void)!text_copy(p->setup.workdir, sizeof(p->setup.workdir),
			 e2b_note_word(note, "workdir"));
	(void)!text_copy(p->owner, sizeof(p->owner), e2b_note_word(note, "owner"));
	(void)!text_copy(p->key, sizeof(p->key), e2b_note_word(note, "key"));
	(void)!text_copy(p->image, sizeof(p->image), image);
	p->files = number(note, "below");
	e2b_point_measured(p, size);
	p->made_ms = number(note, "made_ms");
	insert(f, p);
}
