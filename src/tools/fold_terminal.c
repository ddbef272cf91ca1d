/* SPDX-License-Identifier: Apache-2.0 */
/* What a terminal shows at the end of an output: progress bars write over themselves, programs set colours, clear the
 * screen and draw it again. */
#include "tools/fold_lines.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define SAVED_MIN    120  /* bytes of earlier states that are worth their number */
#define STATES_MIN   4    /* states of a progress bar */
#define SCREEN_ROWS  24   /* lines that a program can reach with the cursor */
#define SEQUENCE_MAX 4096 /* bytes; a longer one was never ended */

/* ---- sequences ---- */

struct sequence {
	size_t len;
	char letter;     /* what it does to the cursor or the screen; 0: nothing that counts here */
	unsigned number; /* its first number; 0: none */
	bool more;       /* it has a second number that is not 1 */
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_between(char c, unsigned char low, unsigned char high)
{
	return (unsigned char)c >= low && (unsigned char)c <= high;
}

/* ESC [ numbers letter (ECMA-48, 5.4) */
static size_t read_control(const char *at, const char *end, struct sequence *ret)
{
	const char *c = at + 2;
	bool first = true;

	for (; c < end && is_between(*c, 0x30, 0x3F); c++) {
		if (*c == ';')
			first = false;
		else if (is_digit(*c) && first)
			ret->number =
			    MIN(ret->number * 10 + (unsigned)(*c - '0'), (unsigned)FOLD_LINES);
		else if (!(*c == '1' && !first))
			ret->more = true;
	}
	while (c < end && is_between(*c, 0x20, 0x2F))
		c++;
	if (c == end) /* the output was cut in the middle */
		return (size_t)(end - at);
	if (!is_between(*c, 0x40, 0x7E))
		return 0;
	ret->letter = *c == 'f' ? 'H' : *c;
	return (size_t)(c + 1 - at);
}

/* ESC ] text BEL and the like: titles of windows, links, pictures. They end with BEL or ESC \ (ST). */
static size_t read_string(const char *at, const char *end)
{
	if (end - at > SEQUENCE_MAX)
		end = at + SEQUENCE_MAX;
	for (const char *c = at + 2; c < end; c++) {
		if (*c == '\a')
			return (size_t)(c + 1 - at);
		if (*c == '\033')
			return c + 1 < end && c[1] == '\\' ? (size_t)(c + 2 - at) : 0;
		if (*c == '\n')
			break;
	}
	return 0;
}

/* The sequence that begins AT an escape character. One that is no sequence, or was cut, is the character alone. */
static struct sequence read_sequence(const char *at, const char *end)
{
	struct sequence s = {0};

	if (end - at < 2)
		return (struct sequence){.len = 1};
	if (at[1] == '[')
		s.len = read_control(at, end, &s);
	else if (strchr("]P_^X", at[1]))
		s.len = read_string(at, end);
	else if (is_between(at[1], 0x20, 0x2F)) /* a set of characters */
		s.len = end - at > 2 ? 3 : 0;
	else if (is_between(at[1], 0x30, 0x7E))
		s.len = 2;
	if (at[1] == 'c' && s.len == 2) { /* a reset */
		s.letter = 'J';
		s.number = 2;
	}
	if (s.len > 0 && s.letter && memchr("ABEFGHJK", s.letter, 8))
		return s;
	return (struct sequence){.len = MAX(s.len, (size_t)1)};
}

bool fold_is_for_terminal(const char *data, size_t len)
{
	const char *end = data + len;

	if (memchr(data, '\033', len))
		return true;
	for (const char *c = data; (c = memchr(c, '\r', (size_t)(end - c))); c++)
		if (c + 1 < end && c[1] != '\n')
			return true;
	return false;
}

/* Adds TEXT without its sequences. */
static int add_plain(struct buf *b, const char *text, size_t len)
{
	const char *end = text + len;
	int r = 0;

	while (r == 0 && text < end) {
		const char *escape = memchr(text, '\033', (size_t)(end - text));

		r = buf_add(b, text, (size_t)((escape ? escape : end) - text));
		text = escape ? escape + read_sequence(escape, end).len : end;
	}
	return r;
}

/* ---- the screen ---- */

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
	size_t cleared; /* lines that a clear screen took away */
	bool again;     /* the cursor is where the line begins: the next text replaces it */
};

static void replace_row(struct row *w)
{
	w->over += w->len;
	w->len = 0;
}

static void erase_lines(struct terminal *t, unsigned how)
{
	const bool all = how >= 2 || (t->row == 0 && t->again);

	if (how == 1)
		return;
	if (!all) {
		t->n = t->row + 1;
		t->rows[t->row].ended = false;
		if (t->again)
			replace_row(&t->rows[t->row]);
		memset(&t->rows[t->n], 0, (t->max - t->n) * sizeof(*t->rows));
		return;
	}
	for (size_t i = 0; i < t->n; i++)
		t->cleared += t->rows[i].len > 0;
	memset(t->rows, 0, t->max * sizeof(*t->rows));
	t->row = 0;
	t->n = 1;
	t->again = false;
}

static void move_cursor(struct terminal *t, const struct sequence *s)
{
	const size_t by = s->number > 0 ? s->number : 1;
	const size_t top = t->n > SCREEN_ROWS ? t->n - SCREEN_ROWS : 0;

	switch (s->letter) {
	case 'J':
		erase_lines(t, s->number);
		return;
	case 'K':
		if (t->again || s->number == 2)
			replace_row(&t->rows[t->row]);
		return;
	case 'G':
		if (s->number >
		    1) /* another column: what comes is taken for the rest of the line */
			return;
		break; /* as after a carriage return */
	case 'H':
		if (s->more)
			return;
		t->row = MIN(top + by - 1, t->n - 1);
		break;
	case 'A':
	case 'F':
		t->row -= MIN(by, t->row);
		break;
	default:
		t->row = MIN(t->row + by, t->n - 1);
	}
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

static bool is_blank(const char *text, size_t len)
{
	while (len > 0 && text[len - 1] == ' ')
		len--;
	return len == 0;
}

static int add_rows(struct buf *b, const struct terminal *t)
{
	int r = 0;

	if (t->cleared > 0)
		r = buf_printf(b, "[the screen was cleared here: %zu earlier line%s not shown]\n",
			       t->cleared, t->cleared == 1 ? " is" : "s are");
	for (size_t i = 0; r == 0 && i < t->n; i++) {
		const struct row *w = &t->rows[i];
		/* A bar that is done may be written over with blanks. */
		const bool blank = w->states > 1 && is_blank(w->text, w->len);

		if (!blank && w->over >= SAVED_MIN && w->states > STATES_MIN)
			r = buf_printf(b, "[%zu earlier states of this line] ", w->states - 1);
		r = r < 0 || w->len == 0 || blank ? r : add_plain(b, w->text, w->len);
		r = r == 0 && w->ended ? buf_add_char(b, '\n') : r;
	}
	return r;
}

/* Counts those of GONE, from NEXT on, that stood before the text which ends at AT. */
static size_t count_gone(struct row *w, const struct gone_states *gone, size_t next, size_t at)
{
	for (; next < gone->n && gone->list[next].at < at; next++) {
		w->states += (size_t)gone->list[next].n;
		w->over += (size_t)gone->list[next].bytes;
	}
	return next;
}

int fold_terminal(struct buf *b, const char *data, size_t len, const struct gone_states *gone)
{
	const char *end = data + len;
	size_t lines = 1, next = 0;

	for (const char *c = data; (c = memchr(c, '\n', (size_t)(end - c))); c++)
		lines++;
	_cleanup_free_ struct row *rows = calloc(lines, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	struct terminal t = {.rows = rows, .n = 1, .max = lines};
	for (const char *c = data; c < end;) {
		size_t n = 1;

		if (*c == '\033') {
			const struct sequence s = read_sequence(c, end);

			n = s.len;
			if (s.letter)
				move_cursor(&t, &s);
		} else if (*c == '\n') {
			next_row(&t);
		} else if (*c == '\r') {
			t.again = true;
		} else {
			while (c + n < end && c[n] != '\n' && c[n] != '\r' && c[n] != '\033')
				n++;
			write_text(&t, c, n);
			next = count_gone(&t.rows[t.row], gone, next, (size_t)(c + n - data));
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

int fold_typed(struct buf *b, const char *data, size_t len, struct gone_states *gone)
{
	const char *end = data + len;
	size_t next = 0;
	_cleanup_free_ char *text = malloc(len);

	if (!text)
		return -ENOMEM;
	struct typed t = {.text = text};
	for (const char *c = data; c < end;) {
		const size_t n = char_bytes(c, end);

		for (; next < gone->n && gone->list[next].at <= (size_t)(c - data); next++)
			gone->list[next].at = t.len;
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
