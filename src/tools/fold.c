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
#define STATES_MIN     4   /* states of a progress bar */

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

/* ---- lines that are written over ---- */

/* A sequence ESC [ NUMBER LETTER that moves the cursor to another line or to where a line begins, or erases one. Returns its
 * length, 0 if there is none at AT. */
static size_t movement_at(const char *at, const char *end, char *ret_letter, unsigned *ret_number)
{
	const char *c = at + 2;
	unsigned number = 0;

	if (end - at < 3 || at[0] != '\033' || at[1] != '[')
		return 0;
	for (; c < end && is_digit(*c); c++)
		number = MIN(number * 10 + (unsigned)(*c - '0'), FOLD_LINES);
	if (c == end || !memchr("ABEFGK", *c, 6) || (*c == 'G' && number > 1))
		return 0;
	*ret_letter = *c;
	*ret_number = number;
	return (size_t)(c + 1 - at);
}

static bool is_written_over(const char *data, size_t len)
{
	const char *end = data + len;
	char letter;
	unsigned number;

	for (const char *c = data; (c = memchr(c, '\r', (size_t)(end - c))); c++)
		if (c + 1 < end && c[1] != '\n')
			return true;
	for (const char *c = data; (c = memchr(c, '\033', (size_t)(end - c))); c++)
		if (movement_at(c, end, &letter, &number) > 0)
			return true;
	return false;
}

/* A line of a terminal: the last text that was written there. Earlier ones only count. */
struct row {
	const char *text;
	size_t len, over; /* over: bytes of the earlier texts */
	size_t states;
	bool ended; /* by a newline */
};

struct terminal {
	struct row *rows;
	size_t row, n, max;
	bool again; /* the cursor is where the line begins: the next text replaces it */
};

static void replace_row(struct row *w)
{
	w->over += w->len;
	w->len = 0;
}

static void move_cursor(struct terminal *t, char letter, unsigned number)
{
	if (letter == 'K') {
		if (t->again || number == 2)
			replace_row(&t->rows[t->row]);
		return;
	}
	if (letter == 'G') { /* the first column, as after a carriage return */
		t->again = true;
		return;
	}
	const size_t by = number > 0 ? number : 1;
	if (letter == 'A' || letter == 'F')
		t->row -= MIN(by, t->row);
	else
		t->row = MIN(t->row + by, t->n - 1);
	t->again = true;
}

static void write_text(struct terminal *t, const char *text, size_t len)
{
	struct row *w = &t->rows[t->row];

	if (t->again)
		replace_row(w);
	if (w->len == 0) {
		w->text = text;
		w->states++;
	}
	w->len = (size_t)(text + len - w->text);
	t->again = false;
}

static void next_row(struct terminal *t)
{
	t->rows[t->row].ended = true;
	if (t->row + 1 < t->max)
		t->row++;
	t->n = MAX(t->n, t->row + 1);
	t->again = true;
}

static int add_rows(struct buf *b, const struct terminal *t)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->n; i++) {
		const struct row *w = &t->rows[i];

		if (w->over >= SAVED_MIN && w->states > STATES_MIN)
			r = buf_printf(b, "[%zu earlier states of this line] ", w->states - 1);
		r = r < 0 ? r : buf_add(b, w->text ? w->text : "", w->len);
		r = r == 0 && w->ended ? buf_add_char(b, '\n') : r;
	}
	return r;
}

/* Adds DATA as a terminal shows it at the end: progress bars write their states over each other. */
static int add_as_terminal(struct buf *b, const char *data, size_t len)
{
	const char *end = data + len;
	size_t lines = 1;

	for (const char *c = data; (c = memchr(c, '\n', (size_t)(end - c))); c++)
		lines++;
	_cleanup_free_ struct row *rows = calloc(lines, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	struct terminal t = {.rows = rows, .n = 1, .max = lines};
	for (const char *c = data; c < end;) {
		char letter;
		unsigned number;
		size_t n = movement_at(c, end, &letter, &number);

		if (n > 0) {
			move_cursor(&t, letter, number);
		} else if (*c == '\n' || *c == '\r') {
			n = 1;
			if (*c == '\n')
				next_row(&t);
			else
				t.again = true;
		} else {
			for (n = 1; c + n < end && c[n] != '\n' && c[n] != '\r' && c[n] != '\033';)
				n++;
			write_text(&t, c, n);
		}
		c += n;
	}
	return add_rows(b, &t);
}

/* ---- backspaces ---- */

/* A character that is written where the cursor is takes the place of the one that stands there. */
struct typed {
	char *text; /* as long as the input, which is never shorter */
	size_t begin, cursor, len;
};

static size_t char_bytes(const char *at, const char *end)
{
	size_t n = 1;

	while (at + n < end && (at[n] & 0xC0) == 0x80)
		n++;
	return n;
}

static void type_char(struct typed *t, const char *c, size_t n)
{
	char *at = t->text + t->cursor;
	const size_t old = t->cursor < t->len ? char_bytes(at, t->text + t->len) : 0;

	memmove(at + n, at + old, t->len - t->cursor - old);
	memcpy(at, c, n);
	t->cursor += n;
	t->len += n - old;
}

static void move_back(struct typed *t)
{
	if (t->cursor > t->begin)
		t->cursor--;
	while (t->cursor > t->begin && (t->text[t->cursor] & 0xC0) == 0x80)
		t->cursor--;
}

/* DATA as it is after its backspaces. Percentages and spinners write over themselves with them. */
static int add_typed(struct buf *b, const char *data, size_t len)
{
	const char *end = data + len;
	_cleanup_free_ char *text = malloc(len);

	if (!text)
		return -ENOMEM;
	struct typed t = {.text = text};
	for (const char *c = data; c < end;) {
		const size_t n = char_bytes(c, end);

		if (*c == '\b') {
			move_back(&t);
		} else if (end - c >= 3 && memcmp(c, "\033[K", 3) == 0 && t.cursor < t.len) {
			t.len = t.cursor;
			c += 2;
		} else if (*c == '\n' || *c == '\r' || *c == '\033') {
			t.cursor = t.len;
			type_char(&t, c, n);
			t.begin = t.cursor;
		} else {
			type_char(&t, c, n);
		}
		c += n;
	}
	return buf_add(b, text, t.len);
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

/* SHORT_ONE: what repeats stays. */
static int fold_part(struct buf *b, const char *data, size_t len, bool short_one)
{
	_cleanup_(buf_done) struct buf shown = BUF_INIT(4 * FOLD_BYTES);
	_cleanup_(buf_done) struct buf typed = BUF_INIT(4 * FOLD_BYTES);

	if (memchr(data, '\b', len)) {
		int r = add_typed(&typed, data, len);

		if (r < 0)
			return r;
		data = buf_str(&typed);
		len = typed.len;
	}
	if (is_written_over(data, len)) {
		int r = add_as_terminal(&shown, data, len);

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
	    (short_one && !is_written_over(o->data, o->len) && !memchr(o->data, '\b', o->len)))
		return;
	/* No answer has room for more. */
	const bool long_one = !o->truncated && head > 2 * (size_t)FOLD_BYTES;
	if (long_one)
		tail = head;
	head = MIN(head, (size_t)FOLD_BYTES * (o->truncated || long_one ? 1 : 2));
	tail = MIN(tail, (size_t)FOLD_BYTES);
	if (fold_part(b, o->data, head, short_one) < 0)
		return;
	const size_t folded_head = b->len - before;
	if (tail > 0 && fold_part(b, o->data + o->len - tail, tail, short_one) < 0)
		return;
	const size_t folded = b->len - before;
	*ret = (struct run_output){.data = buf_str(b) + before,
				   .len = folded,
				   .head = folded_head,
				   .truncated = o->truncated || long_one,
				   .total = o->total - (head + tail) + folded,
				   .file = o->file,
				   .file_bytes = o->file_bytes,
				   .file_lacks = o->file_lacks};
}
