/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/shown.h"

#include "base/text.h"
#include "engine/front/inside/records.h"

#include <stdlib.h>
#include <string.h>

#define PART_HEAD    12u
#define PART_MAX     (1u << 20)
#define PROPERTY_MAX 1000u /* bytes of what is no data: the name of a file, an id */

const char *shown_kind_name(enum shown_kind kind)
{
	static const char *const names[] = {[SHOWN_DISPLAY] = "display",
					    [SHOWN_RESULT] = "result",
					    [SHOWN_UPDATE] = "display",
					    [SHOWN_CLEAR] = "clear"};

	return names[kind];
}

bool shown_is_binary(const char *type)
{
	const size_t len = strlen(type);

	return !text_starts_with(type, "text/") && !streq(type, "image/svg+xml") &&
	       !streq(type, "application/javascript") &&
	       !(text_starts_with(type, "application/") && len >= 4 &&
		 streq(type + len - 4, "json"));
}

static void shown_done(struct shown *s)
{
	for (size_t i = 0; i < s->n_parts; i++)
		free(s->parts[i].data);
	free(s->file);
	free(s->id);
	*s = (struct shown){0};
}

void shown_list_done(struct shown_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		shown_done(&l->items[i]);
	free(l->items);
	*l = (struct shown_list){.open = -1};
}

/* ---- a record ---- */

/* A media type without parameters. */
static bool is_type(const char *name, size_t len)
{
	size_t slashes = 0;

	for (size_t i = 0; i < len; i++) {
		const char c = name[i];

		slashes += c == '/';
		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
		    (c == '\0' || !strchr("/+-._", c)))
			return false;
	}
	return len < SHOWN_TYPE_SIZE && slashes == 1 && name[0] != '/' && name[len - 1] != '/';
}

static bool is_word(const char *name, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(name, word, len) == 0;
}

static char *property(const char *data, size_t len)
{
	return len > 0 && len <= PROPERTY_MAX && !memchr(data, '\0', len) && text_is_utf8(data, len)
		   ? strndup(data, len)
		   : NULL;
}

static bool is_good(const char *type, const char *data, uint64_t len)
{
	return len <= PART_MAX &&
	       (shown_is_binary(type) || (!memchr(data, '\0', len) && text_is_utf8(data, len)));
}

static void take_part(struct shown *s, const char *name, size_t name_len, const char *data,
		      uint64_t len)
{
	if (name_len == 0 || !memchr(name, '/', name_len)) {
		if (is_word(name, name_len, "file") && !s->file)
			s->file = data ? property(data, len) : NULL;
		else if (is_word(name, name_len, "id") && !s->id)
			s->id = data ? property(data, len) : NULL;
		s->wait = s->wait || is_word(name, name_len, "wait");
		return;
	}
	if (s->n_parts == SHOWN_PARTS || !is_type(name, name_len))
		return;
	struct shown_part *p = &s->parts[s->n_parts++];
	memcpy(p->type, name, name_len);
	p->type[name_len] = '\0';
	p->len = len;
	if (!data || !is_good(p->type, data, len))
		return;
	p->data = malloc(len + 1);
	if (!p->data)
		return;
	memcpy(p->data, data, len);
	p->data[len] = '\0';
	s->bytes += len;
}

static int parse(const char *data, size_t len, struct shown *ret)
{
	uint32_t kind;
	size_t at = RECORD_HEAD;

	*ret = (struct shown){0};
	if (len < RECORD_HEAD)
		return -EBADMSG;
	memcpy(&kind, data + 4, sizeof(kind));
	if (kind < SHOWN_DISPLAY || kind > SHOWN_CLEAR)
		return -EBADMSG;
	ret->kind = (enum shown_kind)kind;
	while (len - at >= PART_HEAD) {
		uint16_t name_len, left_out;
		uint64_t size;

		memcpy(&name_len, data + at, sizeof(name_len));
		memcpy(&left_out, data + at + 2, sizeof(left_out));
		memcpy(&size, data + at + 4, sizeof(size));
		at += PART_HEAD;
		if (name_len > len - at || (!left_out && size > len - at - name_len))
			break;
		const char *name = data + at;
		at += name_len;
		take_part(ret, name, name_len, left_out ? NULL : data + at,
			  MIN(size, (uint64_t)INT64_MAX));
		at += left_out ? 0 : size;
	}
	return 0;
}

/* ---- the list ---- */

static void drop_first(struct shown_list *l, size_t n)
{
	if (n == 0)
		return;
	for (size_t i = 0; i < n; i++) {
		l->bytes -= l->items[i].bytes;
		shown_done(&l->items[i]);
	}
	memmove(l->items, l->items + n, (l->n - n) * sizeof(*l->items));
	l->n -= n;
	l->open = l->open >= (int)n ? l->open - (int)n : -1;
}

/* What came before the last item that clears is gone, if something follows it or it does not wait. FOLLOWS: something is
 * about to be added. */
static void clear(struct shown_list *l, uint64_t total, bool follows)
{
	for (size_t i = l->n; i-- > 0;) {
		const struct shown *s = &l->items[i];

		if (s->kind != SHOWN_CLEAR ||
		    (s->wait && i + 1 == l->n && !follows && total <= s->end))
			continue;
		drop_first(l, i);
		return;
	}
}

static bool put_in_place(struct shown_list *l, struct shown *s)
{
	for (size_t i = 0; i < l->n; i++) {
		struct shown *old = &l->items[i];

		if (!old->id || !s->id || !streq(old->id, s->id))
			continue;
		l->bytes += s->bytes - old->bytes;
		for (size_t k = 0; k < old->n_parts; k++)
			free(old->parts[k].data);
		memcpy(old->parts, s->parts, sizeof(old->parts));
		old->n_parts = s->n_parts;
		old->bytes = s->bytes;
		s->n_parts = 0;
		return true;
	}
	return false;
}

static void leave_out(struct shown *s, uint64_t room)
{
	for (size_t i = s->n_parts; i-- > 0 && s->bytes > room;) {
		struct shown_part *p = &s->parts[i];

		if (!p->data)
			continue;
		free(TAKE_PTR(p->data));
		s->bytes -= p->len;
	}
}

int shown_list_add(struct shown_list *l, const char *data, size_t len, uint64_t at)
{
	struct shown s;
	int r = parse(data, len, &s);

	s.index = l->seen++;
	l->open = -1;
	if (r < 0)
		return r;
	s.placed = true;
	s.at = s.end = at;
	clear(l, at, s.kind == SHOWN_DISPLAY || s.kind == SHOWN_RESULT);
	if (s.kind == SHOWN_CLEAR && !s.wait) {
		drop_first(l, l->n);
	} else if (s.kind == SHOWN_UPDATE) {
		leave_out(&s, SHOWN_BYTES - MIN(l->bytes, (uint64_t)SHOWN_BYTES));
		(void)put_in_place(l, &s);
		shown_done(&s);
		return (int)l->seen - 1;
	}
	leave_out(&s, SHOWN_BYTES - MIN(l->bytes, (uint64_t)SHOWN_BYTES));
	/* One that waits has a place in a full list, because it makes room for what follows. */
	const bool waits = s.kind == SHOWN_CLEAR && s.wait;
	const struct shown *last = l->n > 0 ? &l->items[l->n - 1] : NULL;
	if (waits && last && last->kind == SHOWN_CLEAR && last->wait && at <= last->end)
		shown_done(&l->items[--l->n]); /* nothing has followed it */
	struct shown *more =
	    l->n < SHOWN_MAX + waits ? realloc(l->items, (l->n + 1) * sizeof(*l->items)) : NULL;
	if (!more) {
		l->dropped++;
		shown_done(&s);
		return (int)l->seen - 1;
	}
	l->items = more;
	l->bytes += s.bytes;
	l->open = (int)l->n;
	l->items[l->n++] = s;
	return (int)l->seen - 1;
}

int shown_list_end_text(struct shown_list *l, uint64_t end)
{
	if (l->open < 0)
		return -ENOENT;
	struct shown *s = &l->items[l->open];
	l->open = -1;
	s->end = MAX(s->at, end);
	return (int)s->index;
}

void shown_list_end(struct shown_list *l, uint64_t total)
{
	clear(l, total, false);
	/* Nothing has followed those that still wait. */
	while (l->n > 1 && l->items[l->n - 1].kind == SHOWN_CLEAR && l->items[l->n - 1].wait &&
	       total <= l->items[l->n - 1].end)
		shown_done(&l->items[--l->n]);
}
