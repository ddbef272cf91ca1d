/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/router/merge.h"

#include "base/jsonio.h"
#include "base/parse.h"
#include "base/text.h"
#include "fleet/face.h"
#include "fleet/router/members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_MAX 100u
#define SMALL    (256u << 10), 8192u
#define LARGE    (2u << 20), 16384u

struct merge_row {
	json_t *value; /* reference */
	struct merge_part *from;
	size_t bytes;
};

static const struct merge_kind kinds[] = {
    {"/api/v1/sandboxes", "sandboxes", NULL, 0, SMALL, MERGE_OBJECT, NULL, NULL, false},
    {"/api/users/me/sandboxes", "sandboxes", NULL, 0, SMALL, MERGE_OBJECT, NULL, NULL, false},
    {"/api/v1/runs", "runs", "started_at", 0, LARGE, MERGE_OBJECT, NULL, NULL, false},
    {"/api/v1/notebooks", "notebooks", "last_at", PAGE_MAX, LARGE, MERGE_OBJECT, NULL, "before",
     false},
    {"/api/v1/history", "cells", "started_at", PAGE_MAX, LARGE, MERGE_OBJECT, NULL, "before",
     false},
    /* E2B */
    {"/faces/e2b/sandboxes", "rows", "startedAt", PAGE_MAX, LARGE, MERGE_ARRAY, "sandboxID",
     "nextToken", true},
    {"/faces/e2b/v2/sandboxes", "rows", "startedAt", PAGE_MAX, LARGE, MERGE_ARRAY, "sandboxID",
     "nextToken", false},
    {"/faces/e2b/snapshots", "rows", "snapshotID", PAGE_MAX, LARGE, MERGE_ARRAY, "snapshotID",
     "nextToken", false},
    {"/faces/e2b/templates", "rows", "createdAt", PAGE_MAX, LARGE, MERGE_ARRAY, "templateID",
     "nextToken", true},
    {"/faces/e2b/v2/templates", "rows", "createdAt", PAGE_MAX, LARGE, MERGE_ARRAY, "templateID",
     "nextToken", true},
    {"/faces/e2b/sandboxes/metrics", "rows", NULL, 0, SMALL, MERGE_MAP, "sandboxID", NULL, false},
};

const struct merge_kind *merge_kind_of(const char *pattern)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (streq(kinds[i].pattern, pattern))
			return &kinds[i];
	return NULL;
}

void merge_rows_init(struct merge_rows *r, const struct merge_kind *kind,
		     const struct fleet_key *key)
{
	*r = (struct merge_rows){.kind = kind, .key = key};
	buf_init(&r->next, MERGE_CURSOR_MAX);
	list_init(&r->parts);
	list_init(&r->before);
}

static void part_free(struct merge_part *p)
{
	list_remove(&p->node);
	free(p);
}

static void rows_free(struct merge_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		json_decref(rows[i].value);
	free(rows);
}

void merge_rows_done(struct merge_rows *r)
{
	list_for_each(node, &r->parts)
		part_free(list_entry(node, struct merge_part, node));
	list_for_each(node, &r->before)
		part_free(list_entry(node, struct merge_part, node));
	rows_free(r->rows, r->n);
	buf_done(&r->next);
	r->rows = NULL;
	r->n = 0;
}

/* ---- the cursor ---- */

static struct merge_part *find_before(struct merge_rows *r, const char *worker)
{
	list_for_each(node, &r->before) {
		struct merge_part *p = list_entry(node, struct merge_part, node);

		if (streq(p->worker, worker))
			return p;
	}
	return NULL;
}

/* Reads "ab3.120" or "ab3.e", of LEN characters. */
static int read_place(struct merge_rows *r, const char *text, size_t len)
{
	const size_t skip = FLEET_WORKER_SIZE; /* with the dot */
	char worker[FLEET_WORKER_SIZE] = "";
	uint64_t before = 0;

	if (len <= skip || text[skip - 1] != '.' ||
	    strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz") != skip - 1)
		return -EINVAL;
	memcpy(worker, text, skip - 1);
	const bool ended = len == skip + 1 && text[skip] == 'e';
	if ((!ended && parse_u64_n(text + skip, len - skip, 0, INT64_MAX, &before) < 0) ||
	    find_before(r, worker))
		return -EINVAL;
	struct merge_part *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	memcpy(p->worker, worker, sizeof(worker));
	p->before = before;
	p->ended = ended;
	list_append(&r->before, &p->node);
	return 0;
}

int merge_read_cursor(struct merge_rows *r, const char *text)
{
	if (strlen(text) >= MERGE_CURSOR_MAX)
		return -EINVAL;
	for (unsigned n = 0;; n++) {
		const size_t len = strcspn(text, "_");
		const int e = n < FLEET_MEMBERS_MAX ? read_place(r, text, len) : -EINVAL;

		if (e < 0 || !text[len])
			return e;
		text += len + 1;
	}
}

/* *N: places that are written. */
static int write_places(const struct list *parts, unsigned *n, struct buf *ret)
{
	int e = 0;

	list_for_each(node, parts) {
		const struct merge_part *p = list_entry(node, struct merge_part, node);
		const bool first = *n == 0;

		if (e < 0 || *n == FLEET_MEMBERS_MAX)
			return e;
		e = p->ended ? buf_printf(ret, "%s%s.e", first ? "" : "_", p->worker)
			     : buf_printf(ret, "%s%s.%ju", first ? "" : "_", p->worker,
					  (uintmax_t)p->before);
		(*n)++;
	}
	return e;
}

/* Also the places of workers that are not known now: they would begin at their first row again. */
static int write_cursor(const struct merge_rows *r, struct buf *ret)
{
	unsigned n = 0;
	const int e = write_places(&r->parts, &n, ret);

	return e < 0 ? e : write_places(&r->before, &n, ret);
}

struct merge_part *merge_part_new(struct merge_rows *r, const char worker[FLEET_WORKER_SIZE])
{
	struct merge_part *p = find_before(r, worker);

	if (p) {
		list_remove(&p->node);
	} else {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		memcpy(p->worker, worker, FLEET_WORKER_SIZE);
	}
	list_append(&r->parts, &p->node);
	return p;
}

/* ---- rows ---- */

static const char *time_of(const struct merge_rows *r, const json_t *row)
{
	const char *at = json_string_value(json_object_get(row, r->kind->at));

	return at ? at : "";
}

static uint64_t seq_of(const json_t *row)
{
	const json_int_t seq = json_integer_value(json_object_get(row, "seq"));

	return seq > 0 ? (uint64_t)seq : 0;
}

/* Is ROW of the worker of P? A worker that somebody has taken over must not speak for the sandboxes of others. */
static bool is_of(const struct merge_rows *r, const struct merge_part *p, const json_t *row)
{
	const char *id = json_string_value(json_object_get(row, r->kind->id));
	char text[FLEET_NAMES_SIZE], worker[FLEET_WORKER_SIZE];

	if (!id)
		return false;
	/* a snapshot has a tag behind its id */
	const size_t len = r->kind->form == MERGE_MAP ? strlen(id) : strcspn(id, ":");
	if (len >= sizeof(text))
		return false;
	memcpy(text, id, len);
	text[len] = '\0';
	return fleet_id_worker(r->key, text, worker) && streq(worker, p->worker);
}

/* A page goes on behind its rows, so each has a number. */
static bool is_list(const struct merge_rows *r, const json_t *answer, const json_t *list)
{
	const json_t *next = json_object_get(answer, "next"), *row;
	size_t i;

	if (!json_is_array(list))
		return false;
	if (!r->kind->at)
		return true;
	if (r->kind->page > 0 && !json_is_null(next) &&
	    (!json_is_integer(next) || json_integer_value(next) <= 0))
		return false;
	json_array_foreach(list, i, row)
		if (!json_is_object(row) || (r->kind->page > 0 && seq_of(row) == 0))
			return false;
	return true;
}

/* Drops the last row. */
static void drop_last(struct merge_rows *r)
{
	struct merge_row *last = &r->rows[--r->n];

	r->bytes -= last->bytes;
	json_decref(last->value);
}

size_t *merge_measure(const struct merge_kind *kind, const json_t *answer)
{
	const json_t *list = json_object_get(answer, kind->member), *row;
	size_t *sizes = calloc(json_array_size(list) + 1, sizeof(*sizes));
	size_t i;

	if (sizes)
		json_array_foreach(list, i, row)
			sizes[i] = jsonio_size(row, MERGE_BYTES_MAX);
	return sizes;
}

/* Merges LIST of P into the rows. */
static int merge_list(struct merge_rows *r, struct merge_part *p, const json_t *list,
		      const size_t *sizes)
{
	const size_t n = json_array_size(list);
	struct merge_row *all = calloc(r->n + n + 1, sizeof(*all));
	size_t i = 0, j = 0, k = 0;

	if (!all)
		return -ENOMEM;
	while (i < r->n || j < n) {
		json_t *fresh = j < n ? json_array_get(list, j) : NULL;
		const int order = i < r->n && fresh && r->kind->at
				      ? strcmp(time_of(r, fresh), time_of(r, r->rows[i].value))
				      : 0;
		const bool take = i == r->n || (r->oldest_first ? order < 0 : order > 0);

		if (!take) {
			all[k++] = r->rows[i++];
			continue;
		}
		r->bytes += sizes[j];
		all[k++] = (struct merge_row){json_incref(fresh), p, sizes[j++]};
	}
	free(r->rows);
	r->rows = all;
	r->n = k;
	while (r->limit > 0 && r->n > r->limit)
		drop_last(r);
	return 0;
}

int merge_take(struct merge_rows *r, struct merge_part *p, const json_t *answer,
	       const size_t *sizes)
{
	const json_t *list = json_object_get(answer, r->kind->member);
	size_t all = r->bytes;

	const json_t *row;
	size_t at;

	if (!is_list(r, answer, list))
		return -EBADMSG;
	if (r->kind->id)
		json_array_foreach(list, at, row)
			if (!is_of(r, p, row))
				return -EBADMSG;
	for (size_t i = 0; i < json_array_size(list); i++)
		all += sizes[i];
	if (r->kind->page == 0 && all > MERGE_BYTES_MAX)
		return -ENOBUFS;
	const int e = merge_list(r, p, list, sizes);
	if (e < 0)
		return e;
	while (r->kind->page > 0 && r->n > 1 && r->bytes > MERGE_BYTES_MAX)
		drop_last(r); /* they are of the next page */
	p->told = true;
	p->n = json_array_size(list);
	p->next = (uint64_t)json_integer_value(json_object_get(answer, "next"));
	return 0;
}

/* Moves each part behind its rows of this page. True: there is a next page. */
static bool move_on(struct merge_rows *r)
{
	bool more = false;

	for (size_t i = 0; i < r->n; i++) {
		r->rows[i].from->taken++;
		r->rows[i].from->last = seq_of(r->rows[i].value);
	}
	list_for_each(node, &r->parts) {
		struct merge_part *p = list_entry(node, struct merge_part, node);

		if (!p->told || p->ended)
			continue;
		if (p->taken < p->n)
			p->before = p->taken > 0 ? p->last : p->before;
		else if (p->next > 0)
			p->before = p->next;
		else
			p->ended = true;
		more = more || !p->ended;
	}
	return more;
}

static int write_rows(struct merge_rows *r, struct buf *ret)
{
	int e = 0;

	for (size_t i = 0; i < r->n && e == 0; i++) {
		json_t *row = r->rows[i].value;

		e = i > 0 ? buf_add_char(ret, ',') : 0;
		if (e == 0 && r->kind->form == MERGE_MAP) /* the id is one of ours: is_of() */
			e = buf_printf(
			    ret, "\"%s\":", json_string_value(json_object_get(row, r->kind->id)));
		if (r->kind->form == MERGE_MAP)
			(void)json_object_del(row, r->kind->id);
		e = e < 0 ? e : jsonio_add(ret, row, JSON_COMPACT);
	}
	return e;
}

/* What stands behind the rows of our own lists. */
static int write_rest(struct merge_rows *r, const json_t *missing, struct buf *ret)
{
	int e = buf_add_char(ret, ']');

	if (e == 0 && r->kind->page > 0 && move_on(r)) {
		e = buf_add_str(ret, ",\"next\":\"");
		e = e < 0 ? e : write_cursor(r, ret);
		e = e < 0 ? e : buf_add_char(ret, '"');
	} else if (e == 0 && r->kind->page > 0) {
		e = buf_add_str(ret, ",\"next\":null");
	}
	if (e == 0 && json_array_size(missing) > 0) {
		e = buf_add_str(ret, ",\"workers_missing\":");
		e = e < 0 ? e : jsonio_add(ret, missing, JSON_COMPACT);
	}
	return e < 0 ? e : buf_add_char(ret, '}');
}

/* How far each part was taken must be read before its rows lose their numbers. */
static int write_array(struct merge_rows *r, struct buf *ret)
{
	int e = move_on(r) && !r->kind->first ? write_cursor(r, &r->next) : 0;

	for (size_t i = 0; i < r->n; i++)
		(void)json_object_del(r->rows[i].value, "seq");
	e = e < 0 ? e : buf_add_char(ret, '[');
	e = e < 0 ? e : write_rows(r, ret);
	return e < 0 ? e : buf_add_char(ret, ']');
}

int merge_write(struct merge_rows *r, const json_t *missing, struct buf *ret)
{
	int e;

	if (r->kind->form == MERGE_ARRAY) {
		e = write_array(r, ret);
	} else if (r->kind->form == MERGE_MAP) {
		e = buf_add_str(ret, "{\"sandboxes\":{");
		e = e < 0 ? e : write_rows(r, ret);
		e = e < 0 ? e : buf_add_str(ret, "}}");
	} else {
		e = buf_printf(ret, "{\"%s\":[", r->kind->member);
		e = e < 0 ? e : write_rows(r, ret);
		e = e < 0 ? e : write_rest(r, missing, ret);
	}
	rows_free(r->rows, r->n);
	r->rows = NULL;
	r->n = 0;
	return e;
}
