/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/exact.h"

#include "base/json_text.h"
#include "base/rand.h"

#include <pthread.h>
#include <string.h>

#define MARK_HEAD  "\"number:" /* with the quote that begins the string */
#define MARK_BYTES 16U
#define MARK_LEN   (sizeof(MARK_HEAD) - 1 + (size_t)2 * MARK_BYTES)

/* Threads write answers, so any of them may be the first to ask. */
static char mark_text[MARK_LEN + 1];

static void make_mark(void)
{
	memcpy(mark_text, MARK_HEAD, sizeof(MARK_HEAD) - 1);
	rand_hex(mark_text + sizeof(MARK_HEAD) - 1, MARK_BYTES);
}

static const char *mark(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, make_mark);
	return mark_text;
}

/* Would jansson refuse or change this number? */
static bool needs_string(const char *text, size_t len)
{
	if (len == 0 || len > EXACT_MAX || !memchr("-0123456789", *text, 11))
		return false;
	if (len > EXACT_DIGITS || (len == 2 && memcmp(text, "-0", 2) == 0))
		return true;
	for (size_t i = 0; i < len; i++)
		if (memchr(".eE", text[i], 3))
			return true;
	return false;
}

json_t *exact_number(const char *text, size_t len)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(MARK_LEN + EXACT_MAX);

	if (!needs_string(text, len) || buf_add(&b, mark() + 1, MARK_LEN - 1) < 0 ||
	    buf_add(&b, text, len) < 0)
		return NULL;
	return json_stringn(buf_str(&b), b.len);
}

bool exact_is(const json_t *value)
{
	return json_string_length(value) >= MARK_LEN &&
	       memcmp(json_string_value(value), mark() + 1, MARK_LEN - 1) == 0;
}

/* ---- on the way in ---- */

enum level {
	LEVEL_NUMBER, /* the value itself may be such a number */
	LEVEL_MESSAGE,
	LEVEL_PARAMS,
	LEVEL_META,
};

static const struct {
	enum level in;
	const char *key;
	enum level value;
} places[] = {
    {LEVEL_MESSAGE, "id", LEVEL_NUMBER},         {LEVEL_MESSAGE, "params", LEVEL_PARAMS},
    {LEVEL_PARAMS, "requestId", LEVEL_NUMBER},   {LEVEL_PARAMS, "_meta", LEVEL_META},
    {LEVEL_META, "progressToken", LEVEL_NUMBER},
};

struct hiding {
	const char *from; /* what begins here is not copied yet */
	struct buf *to;
};

static int hide_number(struct hiding *h, const struct json_piece *number)
{
	int r = buf_add(h->to, h->from, (size_t)(number->data - h->from));

	r = r < 0 ? r : buf_add(h->to, mark(), MARK_LEN);
	r = r < 0 ? r : buf_add(h->to, number->data, number->len);
	h->from = number->data + number->len;
	return r < 0 ? r : buf_add_char(h->to, '"');
}

static bool is_place(size_t i, enum level in, const struct json_piece *key)
{
	return places[i].in == in && json_piece_is(key, places[i].key);
}

/* The walk is at most four objects deep, as the places are. */
static int hide_in(struct hiding *h, const struct json_piece *object, enum level level)
{
	struct json_piece key, value;
	struct json_walk w;
	int r = 0;

	if (level == LEVEL_NUMBER)
		return needs_string(object->data, object->len) ? hide_number(h, object) : 0;
	if (object->len == 0 || *object->data != '{' ||
	    !json_walk_begin(&w, object->data, object->len))
		return 0;
	while (r == 0 && json_walk_next(&w, &key, &value))
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places); i++)
			if (is_place(i, level, &key))
				r = hide_in(h, &value, places[i].value);
	return r;
}

int exact_hide(const char *text, size_t len, struct buf *ret)
{
	struct hiding h = {.from = text, .to = ret};
	struct json_piece key, whole = {text, len};
	struct json_walk w;
	int r = 0;

	if (len > 0 && *text == '[' && json_walk_begin(&w, text, len))
		while (r == 0 && json_walk_next(&w, &key, &whole))
			r = hide_in(&h, &whole, LEVEL_MESSAGE);
	else
		r = hide_in(&h, &whole, LEVEL_MESSAGE);
	return r < 0 ? r : buf_add(ret, h.from, (size_t)(text + len - h.from));
}

/* ---- on the way out ---- */

void exact_restore(struct buf *b, size_t from)
{
	const char *end = b->data + b->len, *at;
	char *to;

	if (b->len <= from || !(at = memmem(b->data + from, b->len - from, mark(), MARK_LEN)))
		return;
	to = b->data + (at - b->data);
	while (at) {
		const char *number = at + MARK_LEN;
		const char *quote = memchr(number, '"', (size_t)(end - number));
		const char *rest = quote ? quote + 1 : end;

		memmove(to, number, (size_t)((quote ? quote : end) - number));
		to += (quote ? quote : end) - number;
		at = memmem(rest, (size_t)(end - rest), mark(), MARK_LEN);
		memmove(to, rest, (size_t)((at ? at : end) - rest));
		to += (at ? at : end) - rest;
	}
	b->len = (size_t)(to - b->data);
	b->data[b->len] = '\0';
}
