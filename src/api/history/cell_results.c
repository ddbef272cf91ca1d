/* SPDX-License-Identifier: Apache-2.0 */
/* What a run showed, for the history: masked as its output is, with its places in the text of stdout, and within the bounds of
 * a cell's files. A picture that is also a file is kept as that file alone. */
#include "api/history/cell.h"
#include "api/history/run_text.h"

#include "base/json_text.h"

#include <errno.h>
#include <string.h>

#define META_MAX (256u << 10)
/* Of one run, all in one turn of the loop: a mebibyte took 8.6 ms on a development machine. The rest is left out. */
#define MASKED_MAX (512u << 10)

/* Text as output has it. */
static int add_text(struct cell *l, struct buf *b, const struct shown_part *p)
{
	_cleanup_(buf_done) struct buf masked = BUF_INIT(CELL_FILE_BYTES);

	if (!l->secrets)
		return json_text_add_utf8(b, p->data, p->len);
	if (l->results_masked + p->len > MASKED_MAX)
		return -E2BIG;
	l->results_masked += p->len;
	int r = mask_text(secrets_set(l->secrets), p->data, p->len, &masked);
	return r < 0 ? r : json_text_add(b, buf_str(&masked), masked.len);
}

static int add_data(struct cell *l, struct buf *b, const struct shown_part *p)
{
	return shown_is_binary(p->type) ? run_add_part(b, p) : add_text(l, b, p);
}

static int add_left_out(struct buf *b, const struct shown *s, const bool *kept)
{
	int r = json_text_key(b, "left_out");
	bool first = true;

	r = r < 0 ? r : buf_add_char(b, '[');
	for (size_t i = 0; i < s->n_parts && r == 0; i++) {
		if (kept[i] || s->file)
			continue;
		r = first ? 0 : buf_add_char(b, ',');
		r = r < 0 ? r
			  : json_text_object(b, "si", "type", s->parts[i].type, "bytes",
					     (int64_t)s->parts[i].len);
		first = false;
	}
	return r < 0 ? r : buf_add_char(b, ']');
}

/* The members that both forms have. */
static int add_head(struct cell *l, struct buf *b, const struct shown *s, const uint64_t *place)
{
	_cleanup_(buf_done) struct buf file = BUF_INIT(4096);
	int r = json_text_open(b);

	if (r == 0 && s->file)
		r = mask_text(secrets_set(l->secrets), s->file, strlen(s->file), &file);
	return r < 0 ? r
		     : json_text_members(b, "siit", "kind", shown_kind_name(s->kind), "offset",
					 (int64_t)place[0], "end", (int64_t)place[1], "file",
					 s->file ? buf_str(&file) : NULL);
}

static int add_result(struct cell *l, const struct shown *s, const uint64_t *place,
		      struct buf *meta, struct buf *all)
{
	bool kept[SHOWN_PARTS] = {false};
	bool first = true;
	int r = add_head(l, all, s, place);

	r = r < 0 ? r : json_text_key(all, "data");
	r = r < 0 ? r : buf_add_char(all, '{');
	for (size_t i = 0; i < s->n_parts && r == 0 && !s->file; i++) {
		const struct shown_part *p = &s->parts[i];
		const size_t before = all->len;

		if (!p->data || p->len > CELL_FILE_BYTES ||
		    l->kept_bytes + before + p->len + p->len / 2 > CELL_KEPT_BYTES)
			continue;
		int add = json_text_key(all, p->type);
		kept[i] = add == 0 && add_data(l, all, p) == 0;
		if (!kept[i] && all->len > before) {
			all->len = before;
			all->data[before] = '\0';
		}
	}
	r = r < 0 ? r : buf_add_char(all, '}');
	r = r < 0 ? r : add_left_out(all, s, kept);
	r = r < 0 ? r : buf_add_char(all, '}');

	r = r < 0 ? r : add_head(l, meta, s, place);
	r = r < 0 ? r : json_text_key(meta, "types");
	r = r < 0 ? r : buf_add_char(meta, '[');
	for (size_t i = 0; i < s->n_parts && r == 0; i++) {
		if (!kept[i])
			continue;
		r = first ? 0 : buf_add_char(meta, ',');
		r = r < 0 ? r : json_text_add(meta, s->parts[i].type, strlen(s->parts[i].type));
		first = false;
	}
	r = r < 0 ? r : buf_add_char(meta, ']');
	r = r < 0 ? r : add_left_out(meta, s, kept);
	return r < 0 ? r : buf_add_char(meta, '}');
}

void cell_take_results(struct cell *l, const struct shown_list *list)
{
	_cleanup_(buf_done) struct buf meta = BUF_INIT(META_MAX),
				       all = BUF_INIT(2 * CELL_KEPT_BYTES);
	const size_t n = list ? list->n : 0;
	int r = 0;

	if (n == 0 || l->silent)
		return;
	_cleanup_free_ uint64_t *places = calloc(n, 2 * sizeof(*places));
	if (!places)
		return;
	for (size_t i = 0; i < n; i++) {
		const struct shown *s = &list->items[i];
		const bool known = s->placed && s->index < l->n_places;
		const uint64_t end = l->streams[ENGINE_STDOUT].kept.total;

		places[2 * i] = known ? l->places[s->index].at : end;
		places[2 * i + 1] = known ? l->places[s->index].end : end;
	}
	cell_places_in_text(l, places, 2 * n);
	r = buf_add_char(&meta, '[');
	r = r < 0 ? r : buf_add_char(&all, '[');
	for (size_t i = 0; i < n && r == 0; i++) {
		if (i > 0)
			r = buf_add_char(&meta, ',') < 0 || buf_add_char(&all, ',') < 0 ? -ENOBUFS
											: 0;
		r = r < 0 ? r : add_result(l, &list->items[i], &places[2 * i], &meta, &all);
	}
	r = r < 0 || buf_add_char(&meta, ']') < 0 ? -ENOBUFS : buf_add_char(&all, ']');
	if (r < 0)
		return;
	l->kept_bytes += all.len;
	l->results_len = all.len;
	l->results_meta = buf_take(&meta);
	l->results = buf_take(&all);
}
