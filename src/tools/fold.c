/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fold_lines.h"

#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_MAX      16  /* lines that repeat together */
#define SAVED_MIN      120 /* bytes: a line in brackets costs about half of that */
#define WARNING_LINES  12  /* lines of one warning */
#define WARNINGS_MAX   256 /* different ones that are told apart */
#define VARIANTS_SHOWN 3   /* of warnings that differ in their numbers alone */

static uint64_t hash_of(const char *data, size_t len)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
	return h;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Of the text without its numbers. */
static uint64_t hash_of_words(const char *data, size_t len)
{
	uint64_t h = hash_of("", 0);

	for (size_t i = 0; i < len; i++)
		if (!is_digit(data[i]) && !(data[i] == '.' && i > 0 && is_digit(data[i - 1]) &&
					    i + 1 < len && is_digit(data[i + 1])))
			h = (h ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
	return h;
}

static bool is_same(const struct line *a, const struct line *b)
{
	return a->hash == b->hash && a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* Two blanks and no more: a line of source below a warning, or a frame of a traceback. */
static bool is_indented_by_two(const struct line *l)
{
	return line_begins(l, "  ") && l->len > 2 && l->text[2] != ' ' && l->text[2] != '\n';
}

/* ---- the same warning ---- */

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
	       c == '.';
}

/* The offset of the category in "FILE:LINE: CATEGORY: TEXT"; 0 if L is no such line. */
static size_t warning_at(const struct line *l)
{
	static const char mark[] = "Warning: ";
	const char *found = memmem(l->text, l->len, mark, strlen(mark));

	if (!found)
		return 0;
	size_t at = (size_t)(found - l->text);
	while (at > 0 && is_word(l->text[at - 1]))
		at--;
	return at > 3 && l->text[at - 1] == ' ' && l->text[at - 2] == ':' &&
		       l->text[at - 3] >= '0' && l->text[at - 3] <= '9'
		   ? at
		   : 0;
}

/* The number of lines of the warning that begins with line I. Its last line is one of source code. */
static size_t warning_lines(const struct part *p, size_t i)
{
	for (size_t k = 1; k < WARNING_LINES && i + k < p->n; k++) {
		if (warning_at(&p->lines[i + k]) > 0 || line_begins(&p->lines[i + k], "Traceback "))
			break;
		if (is_indented_by_two(&p->lines[i + k]))
			return k + 1;
	}
	return 1;
}

/* Category and text, without the place: the same warning may come from several lines. */
static uint64_t warning_key(const struct part *p, size_t i, size_t at, size_t n,
			    uint64_t (*hash)(const char *, size_t))
{
	uint64_t key = hash(p->lines[i].text + at, p->lines[i].len - at);

	for (size_t k = 1; k + 1 < n; k++)
		key = key * 31 + hash(p->lines[i + k].text, p->lines[i + k].len);
	return key;
}

struct warning {
	uint64_t exact, words;
	size_t last; /* the line after which the number stands */
};

/* The one of N whose number counts this warning, too; N: it is shown. A few that differ in their numbers are. */
static size_t find_warning(const struct warning *known, size_t n, const struct warning *w)
{
	size_t like = n, variants = 0;

	for (size_t k = 0; k < n; k++) {
		if (known[k].exact == w->exact)
			return k;
		if (known[k].words == w->words) {
			like = k;
			variants++;
		}
	}
	return variants < VARIANTS_SHOWN ? n : like;
}

static void fold_warnings(struct part *p)
{
	struct warning known[WARNINGS_MAX];
	size_t n_known = 0;

	for (size_t i = 0; i < p->n;) {
		const size_t at = warning_at(&p->lines[i]);

		if (at == 0) {
			i++;
			continue;
		}
		const size_t n = warning_lines(p, i);
		const struct warning w = {.exact = warning_key(p, i, at, n, hash_of),
					  .words = warning_key(p, i, at, n, hash_of_words),
					  .last = i + n - 1};
		const size_t k = find_warning(known, n_known, &w);
		if (k < n_known) {
			struct line *first = &p->lines[known[k].last];

			if (known[k].exact != w.exact)
				first->note = NOTE_LIKE_WARNING;
			else if (first->note == NOTE_NONE)
				first->note = NOTE_SAME_WARNING;
			first->count++;
			for (size_t x = 0; x < n; x++)
				p->lines[i + x].gone = true;
		} else if (n_known < WARNINGS_MAX) {
			known[n_known++] = w;
		}
		i += n;
	}
}

/* ---- what is left ---- */

static int add_note(struct buf *b, const struct line *l)
{
	if (l->note == NOTE_NONE)
		return 0;
	int r = l->text[l->len - 1] == '\n' ? 0 : buf_add_char(b, '\n');
	if (r == 0 && l->note != NOTE_FRAMES)
		r = buf_printf(b, "[this warning %u more time%s%s]\n", l->count, text_s(l->count),
			       l->note == NOTE_LIKE_WARNING ? ", with other numbers" : "");
	else if (r == 0)
		r = buf_printf(b, "  [... %u more frame%s of libraries ...]\n", l->count,
			       text_s(l->count));
	return r;
}

/* How often the PERIOD lines from I on stand there, one block after the other. */
static size_t times(const struct part *p, size_t i, size_t period)
{
	size_t same = 0;

	while (i + period + same < p->n && p->lines[i + same].note == NOTE_NONE &&
	       p->lines[i + period + same].note == NOTE_NONE &&
	       is_same(&p->lines[i + same], &p->lines[i + period + same]))
		same++;
	return 1 + same / period;
}

/* The length of the shortest block that begins with line I and repeats often enough; 0: none. */
static size_t block_at(const struct part *p, size_t i, size_t *ret_times)
{
	size_t bytes = 0;

	for (size_t period = 1; period <= BLOCK_MAX && i + 2 * period < p->n; period++) {
		bytes += p->lines[i + period - 1].len;
		if (p->lines[i].hash != p->lines[i + period].hash)
			continue;
		const size_t n = times(p, i, period);
		if (n >= 3 && n * period >= 4 && (n - 1) * bytes > SAVED_MIN) {
			*ret_times = n;
			return period;
		}
	}
	return 0;
}

static int add_lines(struct buf *b, const struct part *p)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->n;) {
		size_t n = 1;
		const size_t period = block_at(p, i, &n), shown = MAX(period, (size_t)1);

		for (size_t k = i; r == 0 && k < i + shown; k++) {
			r = buf_add(b, p->lines[k].text, p->lines[k].len);
			r = r < 0 ? r : add_note(b, &p->lines[k]);
		}
		if (r == 0 && period == 1)
			r = buf_printf(b, "[the line above %zu more times]\n", n - 1);
		else if (r == 0 && period > 1)
			r = buf_printf(b, "[the %zu lines above %zu more times]\n", period, n - 1);
		i += shown * n;
	}
	return r;
}

static int fold_lines(struct buf *b, const char *data, size_t len)
{
	_cleanup_free_ struct line *lines = NULL;
	size_t n = 0, at = 0;

	for (const char *c = data; c && n < FOLD_LINES; n++) {
		c = memchr(c, '\n', len - (size_t)(c - data));
		c = c ? c + 1 : NULL;
	}
	lines = calloc(n + 1, sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	struct part p = {.lines = lines};
	for (; p.n < n && at < len; p.n++) {
		const char *end = memchr(data + at, '\n', len - at);
		struct line *l = &lines[p.n];

		l->text = data + at;
		l->len = end ? (size_t)(end + 1 - l->text) : len - at;
		l->hash = hash_of(l->text, l->len);
		at += l->len;
	}
	fold_warnings(&p);
	fold_tracebacks(&p);
	n = 0;
	for (size_t i = 0; i < p.n; i++)
		if (!lines[i].gone)
			lines[n++] = lines[i];
	p.n = n;
	const int r = add_lines(b, &p);
	return r < 0 ? r : buf_add(b, data + at, len - at);
}

/* Adds the states that are missing among the LEN bytes of O from AT on. */
static void add_gone(const struct run_output *o, size_t at, size_t len, struct gone_states *gone)
{
	for (size_t i = 0; i < o->n_states; i++)
		if (o->states[i].at >= at && o->states[i].at < at + len) {
			gone->list[gone->n] = o->states[i];
			gone->list[gone->n++].at -= at;
		}
}

/* The LEN bytes from AT on. SHORT_ONE: what repeats stays. */
static int fold_part(struct buf *b, const struct run_output *o, size_t at, size_t len,
		     bool short_one)
{
	_cleanup_(buf_done) struct buf shown = BUF_INIT(4 * FOLD_BYTES);
	_cleanup_(buf_done) struct buf typed = BUF_INIT(4 * FOLD_BYTES);
	_cleanup_free_ struct run_states *list = calloc(o->n_states + 1, sizeof(*list));
	struct gone_states gone = {.list = list};
	const char *data = o->data + at;

	if (!list)
		return -ENOMEM;
	add_gone(o, at, len, &gone);
	if (memchr(data, '\b', len)) {
		int r = fold_typed(&typed, data, len, &gone);

		if (r < 0)
			return r;
		data = buf_str(&typed);
		len = typed.len;
	}
	if (fold_is_for_terminal(data, len)) {
		int r = fold_terminal(&shown, data, len, &gone);

		if (r < 0)
			return r;
		data = buf_str(&shown);
		len = shown.len;
	}
	return short_one ? buf_add(b, data, len) : fold_lines(b, data, len);
}

void fold_output(const struct run_output *o, size_t max, struct buf *b, struct run_output *ret)
{
	const size_t before = b->len;
	size_t head = o->head, tail = o->len - o->head;

	*ret = *o;
	const bool short_one = o->len <= FOLD_FROM;
	if (max > FOLD_BYTES ||
	    (short_one && !fold_is_for_terminal(o->data, o->len) && !memchr(o->data, '\b', o->len)))
		return;
	/* If only states are missing that were written over, a terminal would show all of it. */
	const bool truncated = o->truncated && o->total - o->over > o->len;
	if (o->truncated && !truncated) {
		head = o->len;
		tail = 0;
	}
	/* No answer has room for more. */
	const bool long_one = !truncated && head > 2 * (size_t)FOLD_BYTES;
	if (long_one)
		tail = head;
	head = MIN(head, (size_t)FOLD_BYTES * (truncated || long_one ? 1 : 2));
	tail = MIN(tail, (size_t)FOLD_BYTES);
	if (fold_part(b, o, 0, head, short_one) < 0)
		return;
	const size_t folded_head = b->len - before;
	if (tail > 0 && fold_part(b, o, o->len - tail, tail, short_one) < 0)
		return;
	const size_t folded = b->len - before;
	*ret =
	    (struct run_output){.data = buf_str(b) + before,
				.len = folded,
				.head = folded_head,
				.truncated = truncated || long_one,
				.total = (truncated ? o->total : o->len) - (head + tail) + folded,
				.file = o->file,
				.file_bytes = o->file_bytes,
				.file_lacks = o->file_lacks};
}
