/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/scanner.h"

#include "base/text.h"
#include "mcp/escape.h"

#define KEEP_MAX (64U << 10) /* bytes of memory kept between messages */

enum state {
	ST_VALUE,       /* a value must come */
	ST_FIRST_VALUE, /* a value or ] */
	ST_FIRST_KEY,   /* a key or } */
	ST_KEY,         /* a key must come */
	ST_COLON,
	ST_AFTER, /* , or the end of the container */
	ST_END,   /* only blanks may come */
	ST_STRING,
	ST_ESCAPE,  /* after the backslash */
	ST_HEX,     /* digits of \u */
	ST_UTF8,    /* inside a multi-byte character */
	ST_LITERAL, /* inside true, false, null */
	ST_MINUS,
	ST_ZERO,
	ST_DIGITS,
	ST_POINT,
	ST_FRACTION,
	ST_E,
	ST_E_SIGN,
	ST_EXPONENT,
};

/* What the bytes that come are, as far as the id is concerned. */
enum catching {
	CATCH_NOTHING,
	CATCH_KEY, /* of the outermost object */
	CATCH_ID,
};

void scanner_init(struct scanner *s, const struct scan_limits *limits)
{
	*s = (struct scanner){.limits = *limits};
	ASSERT(limits->max_depth <= 64);
	buf_init(&s->rest, limits->max_rest);
}

void scanner_reset(struct scanner *s)
{
	struct scan_limits limits = s->limits;
	struct buf rest = s->rest;

	lifted_unref(s->lifted);
	if (rest.cap > KEEP_MAX)
		buf_done(&rest);
	else
		buf_reset(&rest);
	*s = (struct scanner){.limits = limits, .rest = rest};
}

void scanner_done(struct scanner *s)
{
	lifted_unref(s->lifted);
	s->lifted = NULL;
	buf_done(&s->rest);
}

static bool fail(struct scanner *s, enum scan_fault fault)
{
	if (s->fault == SCAN_OK)
		s->fault = fault;
	s->discarding = false;
	s->request.spoilt = true; /* an error in the text: nobody knows what it says */
	return false;
}

/* It is too much. From here on nothing is kept but the id. */
static bool discard(struct scanner *s, enum scan_fault fault)
{
	if (s->fault == SCAN_OK)
		s->fault = fault;
	s->discarding = true;
	return true;
}

/* ---- the id of the request ---- */

static void catch_begin(struct scanner *s, enum catching what)
{
	s->request.catching = what;
	s->request.len = 0;
}

static void catch_more(struct scan_id *id, const char *data, size_t len)
{
	if (len > sizeof(id->text) - id->len) {
		id->spoilt = id->spoilt || id->catching == CATCH_ID;
		id->catching = CATCH_NOTHING;
		return;
	}
	memcpy(id->text + id->len, data, len);
	id->len += len;
}

static bool caught(const struct scan_id *id, const char *text)
{
	return id->len == strlen(text) && memcmp(id->text, text, id->len) == 0;
}

/* After the colon of a key in the outermost object. */
static void catch_key(struct scanner *s)
{
	struct scan_id *id = &s->request;

	if (id->catching != CATCH_KEY)
		return;
	id->catching = CATCH_NOTHING;
	if (caught(id, "\"method\":"))
		id->has_method = true;
	if (!caught(id, "\"id\":"))
		return;
	id->spoilt = id->spoilt || id->found;
	id->found = true;
	catch_begin(s, CATCH_ID);
}

/* After the value of a key in the outermost object. */
static void catch_id(struct scan_id *id)
{
	if (id->catching != CATCH_ID)
		return;
	id->catching = CATCH_NOTHING;
	memcpy(id->id, id->text, id->len);
	id->id_len = id->len;
}

const char *scanner_id(const struct scanner *s, size_t *ret_len)
{
	const struct scan_id *id = &s->request;
	const bool good =
	    id->has_method && id->id_len > 0 && !id->spoilt &&
	    (id->id[0] == '"' || id->id[0] == '-' || (id->id[0] >= '0' && id->id[0] <= '9'));

	*ret_len = good ? id->id_len : 0;
	return good ? id->id : "";
}

/* ---- what is left ---- */

static bool keep(struct scanner *s, const char *data, size_t len)
{
	int r;

	if (s->request.catching)
		catch_more(&s->request, data, len);
	if (s->discarding)
		return true;
	r = buf_add(&s->rest, data, len);
	return r == 0 || discard(s, r == -ENOBUFS ? SCAN_TOO_LARGE : SCAN_NO_MEMORY);
}

static bool keep_char(struct scanner *s, unsigned char c)
{
	char b = (char)c;

	return keep(s, &b, 1);
}

static bool spill(struct scanner *s, const char *data, size_t len)
{
	return s->discarding || lifted_add(s->lifted, data, len) == 0 || discard(s, SCAN_NO_SPILL);
}

/* ---- strings ---- */

/* Moves what is there of the current string, checked and without a half escape, into the file. */
static bool spill_decoded(struct scanner *s, const char *raw, size_t len)
{
	size_t i = 0;

	while (i < len) {
		const char *back = memchr(raw + i, '\\', len - i);
		size_t plain = back ? (size_t)(back - raw) - i : len - i;
		char out[4];
		unsigned cp;

		if (plain > 0 && !spill(s, raw + i, plain))
			return false;
		i += plain;
		if (!back)
			break;
		if (raw[i + 1] != 'u') {
			out[0] = escape_value((unsigned char)raw[i + 1]);
			i += 2;
			if (!spill(s, out, 1))
				return false;
			continue;
		}
		cp = escape_hex4(raw + i + 2);
		i += 6;
		if (escape_is_high(cp)) {
			cp = escape_join(cp, escape_hex4(raw + i + 2));
			i += 6;
		}
		if (!spill(s, out, escape_encode_utf8(cp, out)))
			return false;
	}
	return true;
}

/* The current string has become long: from here on it goes to the file. */
static bool begin_lifting(struct scanner *s)
{
	const size_t start = s->string_start;

	if (s->in_key)
		return discard(s, SCAN_VALUES);
	if (!s->lifted)
		s->lifted = lifted_new(s->limits.spill_dir);
	if (!s->lifted || lifted_begin(s->lifted) < 0)
		return discard(s, SCAN_NO_SPILL);
	if (!spill_decoded(s, s->rest.data + start, s->rest.len - start))
		return false;
	s->rest.len = start;
	s->lifting = true;
	return true;
}

/* Bytes of a string that stand for themselves. */
static bool add_plain(struct scanner *s, const char *data, size_t len)
{
	if (!s->lifting && !s->discarding &&
	    s->rest.len - s->string_start + len > s->limits.lift_min && !begin_lifting(s))
		return false;
	return s->lifting ? spill(s, data, len) : keep(s, data, len);
}

static bool begin_string(struct scanner *s, bool is_key)
{
	s->in_key = is_key;
	if (is_key && s->depth == 1)
		catch_begin(s, CATCH_KEY);
	s->lifting = false;
	s->high = 0;
	s->state = ST_STRING;
	if (!keep_char(s, '"'))
		return false;
	s->string_start = s->rest.len;
	return true;
}

static bool end_string(struct scanner *s)
{
	if (s->high)
		return fail(s, SCAN_UTF8);
	if (s->lifting && s->request.catching == CATCH_ID)
		s->request.spoilt = true;
	if (s->lifting && !s->discarding) {
		char name[LIFTED_NAME_MAX];

		if (lifted_end(s->lifted, name) < 0)
			(void)discard(s, SCAN_NO_SPILL);
		else if (!keep(s, name, strlen(name)))
			return false;
	}
	s->state = s->in_key ? ST_COLON : s->depth ? ST_AFTER : ST_END;
	return keep_char(s, '"');
}

static bool on_escape(struct scanner *s, unsigned char c)
{
	char value = escape_value(c);

	if (c == 'u') {
		s->n_hex = 4;
		s->code = 0;
		s->state = ST_HEX;
		return s->lifting || keep(s, "\\u", 2);
	}
	if (!value)
		return fail(s, SCAN_SYNTAX);
	if (s->high)
		return fail(s, SCAN_UTF8);
	s->state = ST_STRING;
	if (s->lifting)
		return spill(s, &value, 1);
	return keep_char(s, '\\') && keep_char(s, c);
}

static bool on_hex(struct scanner *s, unsigned char c)
{
	int v = text_hex_digit((char)c);
	unsigned cp;
	char out[4];

	if (v < 0)
		return fail(s, SCAN_SYNTAX);
	s->code = s->code << 4 | (unsigned)v;
	if (!s->lifting && !keep_char(s, c))
		return false;
	if (--s->n_hex > 0)
		return true;
	s->state = ST_STRING;
	cp = s->code;
	if (s->high) {
		if (cp < 0xdc00 || cp > 0xdfff)
			return fail(s, SCAN_UTF8);
		cp = escape_join(s->high, cp);
		s->high = 0;
	} else if (escape_is_high(cp)) {
		s->high = cp;
		return true;
	} else if (cp >= 0xdc00 && cp <= 0xdfff) {
		return fail(s, SCAN_UTF8);
	}
	return !s->lifting || spill(s, out, escape_encode_utf8(cp, out));
}

/* The first byte of a multi-byte character: how many follow, and what the next one may be (RFC
 * 3629, section 4: no overlong forms, no surrogates, nothing above U+10FFFF). */
static bool begin_utf8(struct scanner *s, unsigned char c)
{
	s->low_bound = 0x80;
	s->high_bound = 0xbf;
	if (c >= 0xc2 && c <= 0xdf) {
		s->n_more = 1;
	} else if (c >= 0xe0 && c <= 0xef) {
		s->n_more = 2;
		if (c == 0xe0)
			s->low_bound = 0xa0;
		else if (c == 0xed)
			s->high_bound = 0x9f;
	} else if (c >= 0xf0 && c <= 0xf4) {
		s->n_more = 3;
		if (c == 0xf0)
			s->low_bound = 0x90;
		else if (c == 0xf4)
			s->high_bound = 0x8f;
	} else {
		return fail(s, SCAN_UTF8);
	}
	s->state = ST_UTF8;
	return true;
}

static bool on_utf8(struct scanner *s, unsigned char c)
{
	if (c < s->low_bound || c > s->high_bound)
		return fail(s, SCAN_UTF8);
	s->low_bound = 0x80;
	s->high_bound = 0xbf;
	if (--s->n_more == 0)
		s->state = ST_STRING;
	/* The first byte is there already, so a character is never cut by the switch to the file.
	 */
	return s->lifting ? spill(s, (const char *)&c, 1) : keep_char(s, c);
}

#define EACH_BYTE(c) (UINT64_MAX / 255 * (c))

/* Printable ASCII but " and \: what stands for itself. */
static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* The same of eight bytes at once. A subtraction borrows into the top bit of a byte that is too
 * small, and a byte that is equal to the one looked for becomes 0. */
static bool are_plain(const unsigned char *p)
{
	uint64_t w, quote, slash, bad;

	memcpy(&w, p, sizeof(w));
	quote = w ^ EACH_BYTE('"');
	slash = w ^ EACH_BYTE('\\');
	bad = w | (w - EACH_BYTE(0x20)) | (quote - EACH_BYTE(1)) | (slash - EACH_BYTE(1));
	return (bad & EACH_BYTE(0x80)) == 0;
}

/* How many bytes from P on stand for themselves. */
static size_t plain_run(const unsigned char *p, size_t len)
{
	size_t i = 0;

	while (len - i >= sizeof(uint64_t) && are_plain(p + i))
		i += sizeof(uint64_t);
	while (i < len && is_plain(p[i]))
		i++;
	return i;
}

/* In ST_STRING; returns how many bytes were used, at least one unless there is a fault. */
static size_t on_string(struct scanner *s, const unsigned char *p, size_t len)
{
	size_t n;

	if (s->high && *p != '\\') {
		fail(s, SCAN_UTF8);
		return 0;
	}
	n = plain_run(p, len);
	if (n > 0)
		return add_plain(s, (const char *)p, n) ? n : 0;
	if (*p == '"')
		return end_string(s) ? 1 : 0;
	if (*p == '\\') {
		/* A string of escapes alone has to become long, too. */
		if (!s->high && !add_plain(s, "", 0))
			return 0;
		s->state = ST_ESCAPE;
		return 1;
	}
	if (*p < 0x20) {
		fail(s, SCAN_SYNTAX);
		return 0;
	}
	if (!begin_utf8(s, *p) || !add_plain(s, (const char *)p, 1))
		return 0;
	return 1;
}

/* ---- numbers and literals ---- */

static void end_value(struct scanner *s)
{
	s->state = s->depth ? ST_AFTER : ST_END;
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

/* The state after C inside a number; ST_VALUE when C does not belong to it any more. */
static enum state number_next(enum state at, unsigned char c)
{
	switch ((unsigned)at) {
	case ST_MINUS:
		return c == '0' ? ST_ZERO : is_digit(c) ? ST_DIGITS : ST_VALUE;
	case ST_ZERO:
		return c == '.' ? ST_POINT : c == 'e' || c == 'E' ? ST_E : ST_VALUE;
	case ST_DIGITS:
		if (is_digit(c))
			return ST_DIGITS;
		return c == '.' ? ST_POINT : c == 'e' || c == 'E' ? ST_E : ST_VALUE;
	case ST_POINT:
		return is_digit(c) ? ST_FRACTION : ST_VALUE;
	case ST_FRACTION:
		if (is_digit(c))
			return ST_FRACTION;
		return c == 'e' || c == 'E' ? ST_E : ST_VALUE;
	case ST_E:
		if (c == '+' || c == '-')
			return ST_E_SIGN;
		return is_digit(c) ? ST_EXPONENT : ST_VALUE;
	case ST_E_SIGN:
	case ST_EXPONENT:
		return is_digit(c) ? ST_EXPONENT : ST_VALUE;
	default:
		return ST_VALUE;
	}
}

static bool may_end_number(enum state at)
{
	return at == ST_ZERO || at == ST_DIGITS || at == ST_FRACTION || at == ST_EXPONENT;
}

/* False, without a fault, when C is not part of the number and has to be looked at again. */
static bool on_number(struct scanner *s, unsigned char c)
{
	enum state next = number_next(s->state, c);

	if (next != ST_VALUE) {
		s->state = next;
		return keep_char(s, c);
	}
	if (!may_end_number(s->state))
		return fail(s, SCAN_SYNTAX);
	end_value(s);
	return false;
}

static bool on_literal(struct scanner *s, unsigned char c)
{
	if ((char)c != *s->literal)
		return fail(s, SCAN_SYNTAX);
	if (!*++s->literal)
		end_value(s);
	return keep_char(s, c);
}

/* ---- structure ---- */

static bool open_container(struct scanner *s, unsigned char c)
{
	if (s->depth == s->limits.max_depth)
		return fail(s, SCAN_DEPTH);
	if (c == '{')
		s->is_object |= UINT64_C(1) << s->depth;
	else
		s->is_object &= ~(UINT64_C(1) << s->depth);
	s->depth++;
	s->state = c == '{' ? ST_FIRST_KEY : ST_FIRST_VALUE;
	return keep_char(s, c);
}

static bool in_object(const struct scanner *s)
{
	return s->is_object >> (s->depth - 1) & 1;
}

static bool close_container(struct scanner *s, unsigned char c)
{
	s->depth--;
	end_value(s);
	return keep_char(s, c);
}

static bool begin_value(struct scanner *s, unsigned char c)
{
	if (++s->n_values > s->limits.max_values)
		(void)discard(s, SCAN_VALUES);
	switch (c) {
	case '"':
		return begin_string(s, false);
	case '{':
	case '[':
		return open_container(s, c);
	case 't':
		s->literal = "rue";
		break;
	case 'f':
		s->literal = "alse";
		break;
	case 'n':
		s->literal = "ull";
		break;
	case '-':
		s->state = ST_MINUS;
		return keep_char(s, c);
	case '0':
		s->state = ST_ZERO;
		return keep_char(s, c);
	default:
		if (!is_digit(c))
			return fail(s, SCAN_SYNTAX);
		s->state = ST_DIGITS;
		return keep_char(s, c);
	}
	s->state = ST_LITERAL;
	return keep_char(s, c);
}

static bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* A byte between the tokens. */
static bool on_structure(struct scanner *s, unsigned char c)
{
	if (is_blank(c))
		return true;
	switch (s->state) {
	case ST_FIRST_VALUE:
		if (c == ']')
			return close_container(s, c);
		return begin_value(s, c);
	case ST_VALUE:
		return begin_value(s, c);
	case ST_FIRST_KEY:
		if (c == '}')
			return close_container(s, c);
		return c == '"' ? begin_string(s, true) : fail(s, SCAN_SYNTAX);
	case ST_KEY:
		return c == '"' ? begin_string(s, true) : fail(s, SCAN_SYNTAX);
	case ST_COLON:
		if (c != ':')
			return fail(s, SCAN_SYNTAX);
		s->state = ST_VALUE;
		if (!keep_char(s, c))
			return false;
		if (s->depth == 1)
			catch_key(s);
		return true;
	case ST_AFTER:
		if (s->depth == 1)
			catch_id(&s->request);
		if (c == ',') {
			s->state = in_object(s) ? ST_KEY : ST_VALUE;
			return keep_char(s, c);
		}
		if (c != (in_object(s) ? '}' : ']'))
			return fail(s, SCAN_SYNTAX);
		return close_container(s, c);
	default:
		return fail(s, SCAN_SYNTAX);
	}
}

enum scan_fault scanner_feed(struct scanner *s, const char *bytes, size_t len)
{
	const unsigned char *p = (const unsigned char *)bytes;
	size_t i = 0;

	if (s->fault != SCAN_OK && !s->discarding)
		return s->fault;
	if (len > s->limits.max_message - s->n_bytes)
		(void)discard(s, SCAN_TOO_LARGE);
	else
		s->n_bytes += len;
	while (i < len && (s->fault == SCAN_OK || s->discarding)) {
		switch ((enum state)s->state) {
		case ST_STRING:
			i += on_string(s, p + i, len - i);
			break;
		case ST_ESCAPE:
			i += on_escape(s, p[i]);
			break;
		case ST_HEX:
			i += on_hex(s, p[i]);
			break;
		case ST_UTF8:
			i += on_utf8(s, p[i]);
			break;
		case ST_LITERAL:
			i += on_literal(s, p[i]);
			break;
		case ST_MINUS:
		case ST_ZERO:
		case ST_DIGITS:
		case ST_POINT:
		case ST_FRACTION:
		case ST_E:
		case ST_E_SIGN:
		case ST_EXPONENT:
			i += on_number(s, p[i]);
			break;
		case ST_VALUE:
		case ST_FIRST_VALUE:
		case ST_FIRST_KEY:
		case ST_KEY:
		case ST_COLON:
		case ST_AFTER:
		case ST_END:
			i += on_structure(s, p[i]);
			break;
		}
	}
	return s->fault;
}

enum scan_fault scanner_end(struct scanner *s)
{
	if (s->fault == SCAN_OK && s->depth == 0 && may_end_number(s->state))
		end_value(s);
	if (s->fault == SCAN_OK && s->state != ST_END)
		fail(s, SCAN_SYNTAX);
	return s->fault;
}

bool scanner_is_blank(const struct scanner *s)
{
	return s->fault == SCAN_OK && s->state == ST_VALUE && s->depth == 0 && s->rest.len == 0;
}
