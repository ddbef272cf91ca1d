/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonio.h"

#include "base/text.h"

#include <string.h>

#define RESERVE_BYTES (512u << 10)
#define TEXT_MAX      (1u << 30)

/* ---- reading ----
 *
 * While a text is read, an allocation that fails takes its block from a reserve, so that jansson
 * never sees a failure; and the text ends at once, so that the reserve is enough: at most one piece
 * of input (1 KiB) is still turned into values, and one string (its scanner's limit) copied. */

struct reserve {
	_Alignas(16) char space[RESERVE_BYTES];
	size_t used;
	bool starved;
};

/* Of the text that this thread reads; NULL: none. Blocks of it do not outlive the reading. */
static _Thread_local struct reserve *reserve;

/* What jansson would use without us. */
static json_malloc_t below_malloc;
static json_free_t below_free;

static bool is_reserved(const void *p)
{
	return reserve && (const char *)p >= reserve->space &&
	       (const char *)p < reserve->space + RESERVE_BYTES;
}

static void *take(size_t size)
{
	void *p = below_malloc(size);

	if (p || !reserve)
		return p;
	reserve->starved = true;
	if (size > RESERVE_BYTES - reserve->used)
		return NULL;
	p = reserve->space + reserve->used;
	reserve->used += (size + 15) & ~(size_t)15;
	return p;
}

static void give(void *p)
{
	if (!is_reserved(p))
		below_free(p);
}

/* Before there are threads, since all of them use jansson's functions. Only tests exchange the allocator later. */
__attribute__((constructor)) static void take_over(void)
{
	json_malloc_t now_malloc;
	json_free_t now_free;

	json_get_alloc_funcs(&now_malloc, &now_free);
	if (now_malloc == take)
		return;
	below_malloc = now_malloc;
	below_free = now_free;
	json_set_alloc_funcs(take, give);
}

struct source {
	const char *text;
	size_t left;
};

static size_t feed(void *ret, size_t size, void *user)
{
	struct source *s = user;
	const size_t n = MIN(size, s->left);

	if (reserve->starved)
		return (size_t)-1;
	memcpy(ret, s->text, n);
	s->text += n;
	s->left -= n;
	return n;
}

static int read_with(struct reserve *r, const char *text, size_t len, size_t flags, json_t **ret,
		     json_error_t *e)
{
	struct source source = {text, len};

	r->starved = false;
	r->used = 0;
	reserve = r;
	*ret = json_load_callback(feed, &source, flags, e);
	if (r->starved) { /* parts of it lie in the reserve */
		json_decref(*ret);
		*ret = NULL;
	}
	reserve = NULL;
	if (r->starved)
		return -ENOMEM;
	return *ret ? 0 : -EBADMSG;
}

int jsonio_read(const char *text, size_t len, size_t flags, json_t **ret, json_error_t *e)
{
	static struct reserve of_loop;

	take_over();
	return read_with(&of_loop, text, len, flags, ret, e);
}

int jsonio_read_on_thread(const char *text, size_t len, size_t flags, json_t **ret)
{
	struct reserve *own = malloc(sizeof(*own));

	*ret = NULL;
	if (!own)
		return -ENOMEM;
	const int r = read_with(own, text, len, flags, ret, NULL);
	free(own);
	return r;
}

size_t jsonio_count(const char *text, size_t len, size_t max, size_t depth_max)
{
	size_t n = 1, depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < len && n <= max; i++) {
		const char c = text[i];

		if (quoted && c == '\\') {
			i++;
		} else if (c == '"') {
			quoted = !quoted;
		} else if (quoted) {
			continue;
		} else if (c == '{' || c == '[') {
			n++;
			if (++depth > depth_max)
				return 0;
		} else if (c == '}' || c == ']') {
			depth -= depth > 0;
		} else if (c == ',') {
			n++;
		}
	}
	return n;
}

/* ---- writing ----
 *
 * The compact form and the indented one are written here: jansson needs a call of snprintf(3) for each control
 * character, 200 ns a byte. */

/* How each byte of a string is written: itself (0), a backslash and this letter, \u00XX ('u'), or, from 0x80 on, itself
 * if the whole string is UTF-8 ('8'). */
static const char escapes[256] = {
    [0x00 ... 0x07] = 'u', ['\b'] = 'b',  ['\t'] = 't',          ['\n'] = 'n',
    [0x0b] = 'u',          ['\f'] = 'f',  ['\r'] = 'r',          [0x0e ... 0x1f] = 'u',
    ['"'] = '"',           ['\\'] = '\\', [0x80 ... 0xff] = '8',
};

/* Bytes of the text of a string with its quotes; 0: it is not UTF-8. */
static size_t string_size(const char *text, size_t len)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t n = len + 2;
	bool high = false;

	for (size_t i = 0; i < len; i++) {
		const char e = escapes[p[i]];

		if (e == 0)
			continue;
		high = high || e == '8';
		n += e == 'u' ? 5 : e != '8';
	}
	return high && !text_is_utf8(text, len) ? 0 : n;
}

static int add_string(struct buf *b, const char *text, size_t len)
{
	static const char hex[] = "0123456789ABCDEF";
	const size_t size = string_size(text, len);
	int r = size > 0 ? buf_reserve(b, size) : -EBADMSG;

	if (r < 0)
		return r;
	char *to = b->data + b->len;
	*to++ = '"';
	if (size == len + 2) {
		memcpy(to, text, len);
		to += len;
	} else {
		for (size_t i = 0; i < len; i++) {
			const uint8_t c = (uint8_t)text[i];
			const char e = escapes[c];

			if (e == 0 || e == '8') {
				*to++ = (char)c;
				continue;
			}
			*to++ = '\\';
			*to++ = e;
			if (e != 'u')
				continue;
			*to++ = '0';
			*to++ = '0';
			*to++ = hex[c >> 4];
			*to++ = hex[c & 15];
		}
	}
	*to++ = '"';
	*to = '\0';
	b->len += size;
	return 0;
}

/* INDENT: spaces for each level; 0 = the compact form. */
static int add_value(struct buf *b, const json_t *v, unsigned indent, unsigned depth);

/* Begins a line of the indented form. */
static int add_line(struct buf *b, unsigned indent, unsigned depth)
{
	const size_t n = (size_t)indent * depth;
	int r;

	if (indent == 0)
		return 0;
	r = buf_add_char(b, '\n');
	r = r < 0 ? r : buf_reserve(b, n);
	if (r < 0 || n == 0)
		return r;
	memset(b->data + b->len, ' ', n);
	b->len += n;
	b->data[b->len] = '\0';
	return 0;
}

static int add_object(struct buf *b, const json_t *v, unsigned indent, unsigned depth)
{
	json_t *object = (json_t *)(uintptr_t)v; /* iterators take no const */
	char before = '{';

	for (void *it = json_object_iter(object); it; it = json_object_iter_next(object, it)) {
		int r = buf_add_char(b, before);

		r = r < 0 ? r : add_line(b, indent, depth + 1);
		r = r < 0 ? r
			  : add_string(b, json_object_iter_key(it), json_object_iter_key_len(it));
		r = r < 0 ? r : buf_add_str(b, indent ? ": " : ":");
		r = r < 0 ? r : add_value(b, json_object_iter_value(it), indent, depth + 1);
		if (r < 0)
			return r;
		before = ',';
	}
	if (before == '{')
		return buf_add_str(b, "{}");
	int r = add_line(b, indent, depth);
	return r < 0 ? r : buf_add_char(b, '}');
}

static int add_array(struct buf *b, const json_t *v, unsigned indent, unsigned depth)
{
	const size_t n = json_array_size(v);
	int r = n > 0 ? 0 : buf_add_char(b, '[');

	for (size_t i = 0; i < n && r == 0; i++) {
		r = buf_add_char(b, i == 0 ? '[' : ',');
		r = r < 0 ? r : add_line(b, indent, depth + 1);
		r = r < 0 ? r : add_value(b, json_array_get(v, i), indent, depth + 1);
	}
	if (n > 0)
		r = r < 0 ? r : add_line(b, indent, depth);
	return r < 0 ? r : buf_add_char(b, ']');
}

static int add_real(struct buf *b, const json_t *v)
{
	char text[64];
	const size_t n = json_dumpb(v, text, sizeof(text), JSON_COMPACT | JSON_ENCODE_ANY);

	return n > 0 && n <= sizeof(text) ? buf_add(b, text, n) : -EBADMSG;
}

static int add_value(struct buf *b, const json_t *v, unsigned indent, unsigned depth)
{
	if (!v || depth > JSONIO_DEPTH_MAX)
		return -EBADMSG;
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return add_object(b, v, indent, depth);
	case JSON_ARRAY:
		return add_array(b, v, indent, depth);
	case JSON_STRING:
		return add_string(b, json_string_value(v), json_string_length(v));
	case JSON_INTEGER:
		return buf_printf(b, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	case JSON_REAL:
		return add_real(b, v);
	case JSON_TRUE:
		return buf_add_str(b, "true");
	case JSON_FALSE:
		return buf_add_str(b, "false");
	case JSON_NULL:
		return buf_add_str(b, "null");
	}
	return -EBADMSG;
}

struct sink {
	struct buf *b;
	int r; /* the first failure: jansson ignores some */
};

static int put(const char *data, size_t len, void *user)
{
	struct sink *s = user;

	if (s->r == 0)
		s->r = buf_add(s->b, data, len);
	return s->r;
}

int jsonio_add(struct buf *b, const json_t *value, size_t flags)
{
	struct sink s = {.b = b};

	if (!value)
		return -ENOMEM;
	const size_t form = flags & ~(size_t)JSON_ENCODE_ANY;

	if (form == JSON_COMPACT)
		return add_value(b, value, 0, 0);
	if (form > 0 && form == JSON_INDENT(form))
		return add_value(b, value, (unsigned)form, 0);
	if (json_dump_callback(value, put, &s, flags) < 0 && s.r == 0)
		return -ENOMEM;
	return s.r;
}

char *jsonio_text(const json_t *value, size_t flags, size_t *ret_len)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	if (jsonio_add(&b, value, flags) < 0)
		return NULL;
	*ret_len = b.len;
	return buf_take(&b);
}

/* ---- sizes ---- */

/* *N grows by the size of V until it is over MAX. Numbers count as 24 bytes. */
static void count(const json_t *v, size_t max, size_t *n)
{
	json_t *object = (json_t *)(uintptr_t)v;

	if (json_is_string(v)) {
		*n += json_string_length(v) > max - *n
			  ? json_string_length(v)
			  : string_size(json_string_value(v), json_string_length(v));
	} else if (json_is_array(v)) {
		*n += 2;
		for (size_t i = 0; i < json_array_size(v) && *n <= max; i++, (*n)++)
			count(json_array_get(v, i), max, n);
	} else if (json_is_object(v)) {
		*n += 2;
		for (void *it = json_object_iter(object); it && *n <= max;
		     it = json_object_iter_next(object, it)) {
			*n += json_object_iter_key_len(it) + 4;
			if (*n <= max)
				count(json_object_iter_value(it), max, n);
		}
	} else {
		*n += 24;
	}
}

size_t jsonio_size(const json_t *value, size_t max)
{
	size_t n = 0;

	count(value, max, &n);
	return n;
}
