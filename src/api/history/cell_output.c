/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a cell: masked, for those who watch and for the history.
 *
 * Only what somebody gets is masked: the beginning, what those who watch get as it comes, and the end. Of the bytes between, the
 * last ones are kept as they are, and masked when somebody looks or the run ends. So masking costs no more for
 * a gigabyte than for what is shown of it. */
#include "api/history/cell.h"
#include "base/text.h"

#include <string.h>

#define STREAM_MAX (32u << 10)  /* kept of a stream */
#define TOLD_MAX   (256u << 10) /* bytes of output of a run that those who watch get as it comes */
#define PIECE_MAX  (16u << 20)
#define TEXT_MAX   (4u << 20)

const char *const cell_stream_names[CELL_STREAMS] = {
    [ENGINE_STDOUT] = "stdout", [ENGINE_STDERR] = "stderr", [ENGINE_RESULT] = "value"};

char *cell_text(const char *data, size_t len, size_t max)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(3 * len + 1);

	if (text_add_utf8_lossy(&b, data, len) < 0)
		return NULL;
	if (b.len == 0)
		return strdup("");
	for (size_t i = 0; i < b.len; i++)
		if (b.data[i] == '\0')
			b.data[i] = ' ';
	if (b.len > max)
		b.data[text_utf8_cut(b.data, b.len, max)] = '\0';
	return buf_take(&b);
}

/* ---- streams ---- */

void cell_open_streams(struct cell *l)
{
	for (int i = 0; i < CELL_STREAMS; i++) {
		kept_output_init(&l->streams[i].kept, STREAM_MAX, false);
		buf_init(&l->streams[i].pending, TOLD_MAX + PIECE_MAX);
	}
}

static void wipe_late(struct cell_stream *s)
{
	if (s->late.data.data)
		explicit_bzero(s->late.data.data, s->late.data.len);
	kept_output_done(&s->late);
}

void cell_close_masks(struct cell *l)
{
	for (int i = 0; i < CELL_STREAMS; i++) {
		l->streams[i].mask = mask_free(l->streams[i].mask);
		wipe_late(&l->streams[i]);
	}
}

int cell_open_masks(struct cell *l)
{
	const struct mask_set *set = secrets_set(l->secrets);

	for (int i = 0; i < CELL_STREAMS && set; i++) {
		struct cell_stream *s = &l->streams[i];

		s->mask = mask_new(set);
		if (!s->mask)
			return -ENOMEM;
		kept_output_init_tail(&s->late, STREAM_MAX / 2 + mask_set_longest(set));
	}
	return 0;
}

void cell_close_streams(struct cell *l)
{
	cell_close_masks(l);
	for (int i = 0; i < CELL_STREAMS; i++) {
		kept_output_done(&l->streams[i].kept);
		buf_done(&l->streams[i].pending);
	}
}

/* ---- masking ---- */

/* Masked output; WATCHED: also for cell_take_output(). */
static void take_masked(struct cell *l, struct cell_stream *s, const char *data, size_t len,
			bool watched)
{
	uint64_t told = 0;

	kept_output_add(&s->kept, data, len);
	if (!watched || l->cut)
		return;
	for (int i = 0; i < CELL_STREAMS; i++)
		told += l->streams[i].told + l->streams[i].pending.len;
	if (s->pending.len == 0)
		s->from = s->kept.total - len;
	size_t room = told < TOLD_MAX ? (size_t)(TOLD_MAX - told) : 0;
	l->cut = room < len || buf_add(&s->pending, data, MIN(room, len)) < 0;
}

/* Without memory nothing more of the stream is kept, so that nothing can show. */
static void give_up(struct cell *l, struct cell_stream *s)
{
	s->mask = mask_free(s->mask);
	wipe_late(s);
	l->cut = true;
}

static void mask_now(struct cell *l, struct cell_stream *s, const char *data, size_t len,
		     bool watched)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(PIECE_MAX);

	if (mask_add(s->mask, data, len, &b) < 0)
		give_up(l, s);
	else
		take_masked(l, s, buf_str(&b), b.len, watched);
}

/* Masks the bytes of S that nobody needed so far. */
static void settle_stream(struct cell *l, struct cell_stream *s)
{
	if (!s->mask || s->late.total == 0)
		return;
	const struct run_output o = kept_output_end(&s->late);
	const size_t before =
	    o.truncated ? MIN(mask_set_longest(secrets_set(l->secrets)), o.len) : 0;
	if (o.truncated) {
		kept_output_skip(&s->kept, o.total - o.len + before);
		mask_skip(s->mask, before);
	}
	if (s->late.lost)
		give_up(l, s);
	else
		mask_now(l, s, o.data, o.len, false);
	wipe_late(s);
	const size_t max = s->late.data.max;
	kept_output_init_tail(&s->late, max);
}

void cell_settle(struct cell *l)
{
	if (l->stale)
		cell_renew_secrets(l);
	for (int i = 0; i < CELL_STREAMS; i++)
		settle_stream(l, &l->streams[i]);
}

void cell_end_streams(struct cell *l)
{
	cell_settle(l);
	for (int i = 0; i < CELL_STREAMS; i++) {
		struct cell_stream *s = &l->streams[i];
		_cleanup_(buf_done) struct buf b = BUF_INIT(PIECE_MAX);

		if (s->mask && mask_end(s->mask, &b) == 0)
			take_masked(l, s, buf_str(&b), b.len, !l->cut);
	}
	cell_close_masks(l);
}

/* ---- output ---- */

void cell_add_output(struct cell *l, enum engine_stream stream, const void *data, size_t len,
		     bool watched)
{
	struct cell_stream *s = &l->streams[stream];

	if (l->reports && stream == ENGINE_RESULT)
		return;
	if (l->stale)
		cell_renew_secrets(l);
	l->total[stream] += len;
	if (l->silent)
		return;
	if (!l->secrets) {
		take_masked(l, s, data, len, watched);
		return;
	}
	if (!s->mask)
		return;
	const bool may_work = l->work < CELL_WORK_MAX;
	l->cut = l->cut || (watched && !may_work);
	if (!may_work || !((watched && !l->cut) || s->kept.data.len < s->kept.head)) {
		kept_output_add(&s->late, data, len);
		return;
	}
	settle_stream(l, s);
	const uint64_t before = s->mask ? mask_steps(s->mask) : 0;
	if (s->mask)
		mask_now(l, s, data, len, watched);
	l->work += s->mask ? mask_steps(s->mask) - before : 0;
}

void cell_note_shown(struct cell *l, unsigned index, bool ends)
{
	struct cell_stream *s = &l->streams[ENGINE_STDOUT];

	if (l->stale)
		cell_renew_secrets(l);
	if (l->silent)
		return;
	settle_stream(l, s);
	if (index >= l->n_places && !ends) {
		struct cell_place *more =
		    index == l->n_places ? realloc(l->places, (index + 1) * sizeof(*more)) : NULL;
		if (!more)
			return;
		l->places = more;
		l->places[l->n_places++] = (struct cell_place){s->kept.total, s->kept.total};
	} else if (index < l->n_places) {
		l->places[index].end = s->kept.total;
	}
}

bool cell_has_output(const struct cell *l)
{
	for (int i = 0; i < CELL_STREAMS; i++)
		if (l->streams[i].pending.len > 0)
			return true;
	return l->cut && !l->cut_told;
}

json_t *cell_take_output(struct cell *l, int stream, bool end)
{
	struct cell_stream *s = &l->streams[stream];
	size_t n = s->pending.len;

	if (n > 0 && !end)
		n -= text_utf8_open(buf_str(&s->pending), n);
	if (n == 0 && l->cut && !l->cut_told) {
		l->cut_told = true;
		return json_pack("{s:s, s:s, s:b}", "run", l->run, "sandbox", l->sandbox, "cut", 1);
	}
	if (n == 0)
		return NULL;
	_cleanup_free_ char *text = cell_text(buf_str(&s->pending), n, 3 * n + 1);
	json_t *data = json_pack("{s:s, s:s, s:s, s:s, s:I}", "run", l->run, "sandbox", l->sandbox,
				 "stream", cell_stream_names[stream], "text", text ? text : "",
				 "offset", (json_int_t)s->from);
	s->told += n;
	s->from += n;
	buf_consume(&s->pending, n);
	return data;
}

/* What is kept of a stream, as text; while the run goes on, from a copy, because the end is written in place. */
char *cell_stream_text(const struct cell *l, int i)
{
	const struct kept_output *k = &l->streams[i].kept;
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(STREAM_MAX), text = BUF_INIT(TEXT_MAX);
	struct kept_output copy = *k;
	bool cut;

	if (k->data.len == 0 || buf_add(&bytes, k->data.data, k->data.len) < 0)
		return strdup("");
	copy.data = bytes;
	struct run_output o = kept_output_end(&copy);
	o.total = MAX(o.total, l->total[i] > k->total ? l->total[i] : o.total);
	o.truncated = o.truncated || o.total > o.len;
	if (run_output_add(&text, &o, SIZE_MAX, NULL, &cut) < 0)
		return strdup("");
	return cell_text(buf_str(&text), text.len, TEXT_MAX);
}

/* Adds DATA from *DONE to TO to TEXT. */
static void count_to(struct buf *text, const char *data, size_t to, size_t *done)
{
	if (to > *done && text_add_utf8_lossy(text, data + *done, to - *done) == 0)
		*done = to;
}

/* Bytes that are no UTF-8 are longer as text. So what stands before a place is made text and counted, each byte once: the places
 * are in ascending order, first those in the head, then those in the tail. */
void cell_places_in_text(const struct cell *l, uint64_t *places, size_t n)
{
	const struct kept_output *k = &l->streams[ENGINE_STDOUT].kept;
	_cleanup_(buf_done) struct buf bytes = BUF_INIT(STREAM_MAX), text = BUF_INIT(TEXT_MAX),
				       tail = BUF_INIT(TEXT_MAX);
	struct kept_output copy = *k;
	size_t done = 0, tail_done;
	bool cut;

	if (k->data.len == 0 || buf_add(&bytes, k->data.data, k->data.len) < 0) {
		memset(places, 0, n * sizeof(*places));
		return;
	}
	copy.data = bytes;
	const struct run_output o = kept_output_end(&copy);
	size_t whole = 0; /* of the text, with the line that stands for what is left out */
	if (run_output_add(&text, &o, SIZE_MAX, NULL, &cut) == 0)
		whole = text.len;
	buf_reset(&text);
	tail_done = o.head;
	count_to(&tail, o.data, o.len, &tail_done);
	const size_t tail_at = whole - MIN(whole, tail.len);
	buf_reset(&tail);
	tail_done = o.head;
	for (size_t i = 0; i < n; i++) {
		const uint64_t behind = o.total - MIN(places[i], o.total);

		if (places[i] <= o.head) {
			count_to(&text, o.data, (size_t)places[i], &done);
			places[i] = MIN(text.len, whole);
		} else if (behind > o.len - o.head) { /* it is left out: before the tail */
			places[i] = tail_at;
		} else {
			count_to(&tail, o.data, o.len - (size_t)behind, &tail_done);
			places[i] = MIN(tail_at + tail.len, whole);
		}
	}
}
