/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fold_lines.h"
#include "tools/signs.h"

#include "base/rand.h"

#define CHAIN_LINES 20 /* lines of an exception's message */
#define CHAIN_MAX   16 /* exceptions that led to one */
#define WORDS_MIN   8  /* letters of an error that a later one repeats */
#define MESSAGE_MAX 2048

static bool is_frame(const struct line *l)
{
	return line_begins(l, "  File \"");
}

static bool is_library(const struct line *l)
{
	return memmem(l->text, l->len, "-packages/", 10) ||
	       memmem(l->text, l->len, "/lib/python3", 12) ||
	       memmem(l->text, l->len, "\"<frozen ", 9);
}

/* The first line from I on that is not of the frame which begins with line I. */
static size_t frame_end(const struct part *p, size_t i)
{
	do
		i++;
	while (i < p->n && line_begins(&p->lines[i], "  ") && !is_frame(&p->lines[i]));
	return i;
}

/* The line behind the words that say which other exception came of the one whose message begins with line I; 0: of none. */
static size_t link_end(const struct part *p, size_t i)
{
	for (size_t k = i; k < p->n && k < i + CHAIN_LINES; k++) {
		if (line_begins(&p->lines[k], "Traceback "))
			return 0;
		if (line_begins(&p->lines[k], "The above exception was the direct cause ") ||
		    line_begins(&p->lines[k], "During handling of the above exception, another "))
			return k + 1 + (k + 1 < p->n && line_begins(&p->lines[k + 1], "\n"));
	}
	return 0;
}

static void hide(struct part *p, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		p->lines[i].gone = true;
}

/* Hides the lines from FROM to TO, which are COUNT frames. The note stands after the line before them. */
static void hide_frames(struct part *p, size_t from, size_t to, unsigned count)
{
	hide(p, from, to);
	p->lines[from - 1].note = NOTE_FRAMES;
	p->lines[from - 1].count = count;
}

/* Of frames of libraries in a row the first and the last are shown, or with BRIEF none. */
static void fold_frames(struct part *p, size_t i, size_t end, bool brief)
{
	while (i < end) {
		size_t first_end = frame_end(p, i), last = i, next = first_end;
		unsigned n = 1;

		if (is_library(&p->lines[i]))
			while (next < end && is_library(&p->lines[next])) {
				last = next;
				next = frame_end(p, next);
				n++;
			}
		if (n > 2 && brief)
			hide_frames(p, i, next, n);
		else if (n > 2)
			hide_frames(p, first_end, last, n - 2);
		i = next;
	}
}

/* ---- a chain ---- */

struct link {
	size_t message,
	    end; /* its lines; the words that lead to the next exception are among them */
};

/* The message that begins with line I, as text. */
static void message_at(const struct part *p, size_t i, char ret[static MESSAGE_MAX])
{
	size_t len = 0;

	for (size_t k = i; k < p->n && k < i + CHAIN_LINES && *p->lines[k].text != '\n'; k++) {
		const size_t n = MIN(p->lines[k].len, MESSAGE_MAX - 1 - len);

		memcpy(ret + len, p->lines[k].text, n);
		len += n;
	}
	ret[len] = '\0';
}

/* Whether MESSAGE has the words of the exception whose message begins with L. */
static bool repeats(const char *message, const struct line *l)
{
	const char *colon = memmem(l->text, l->len, ": ", 2);

	if (!colon || l->text[l->len - 1] != '\n')
		return false;
	const size_t len = l->len - (size_t)(colon + 2 - l->text) - 1;
	return len >= WORDS_MIN && memmem(message, strlen(message), colon + 2, len);
}

/* Hides exceptions whose words the last one has, too: requests repeats the three of urllib3. */
static void fold_chain(struct part *p, const struct link *links, size_t n, const char *message)
{
	for (size_t i = 0; i < n; i++)
		if (repeats(message, &p->lines[links[i].message]))
			hide(p, links[i].message, links[i].end);
}

void fold_tracebacks(struct part *p)
{
	struct link links[CHAIN_MAX];
	size_t n_links = 0;

	for (size_t i = 0; i < p->n; i++) {
		if (!line_begins(&p->lines[i], "Traceback (most recent call last):") ||
		    i + 1 == p->n || !is_frame(&p->lines[i + 1]))
			continue;
		char message[MESSAGE_MAX];
		bool libraries = true;
		size_t end = i + 1;

		while (end < p->n && is_frame(&p->lines[end])) {
			libraries = libraries && is_library(&p->lines[end]);
			end = frame_end(p, end);
		}
		const size_t next = link_end(p, end);
		message_at(p, end, message);
		/* It was caught in a library: its message says what it was. */
		if (libraries && next > 0) {
			hide(p, i, end);
			if (n_links < CHAIN_MAX)
				links[n_links++] = (struct link){end, next};
		} else {
			/* Nobody needs the lines of libraries to understand that there is no network. */
			fold_frames(p, i + 1, end, signs_in(message, SIGN_NO_NETWORK));
		}
		if (next == 0) {
			fold_chain(p, links, n_links, message);
			n_links = 0;
		}
		i = end - 1;
	}
}
