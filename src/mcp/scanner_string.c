/* SPDX-License-Identifier: Apache-2.0 */
/* The strings of a message. Escapes and UTF-8 are checked as they come. Short strings are kept as
 * they are; long ones are decoded into the spill file. Keys are never spilled. */
#include "base/text.h"
#include "mcp/escape.h"
#include "mcp/scanner_parts.h"

#include <string.h>

static bool spill(struct scanner *s, const char *data, size_t len)
{
	int r = s->discarding ? 0 : spill_add(s->spill, data, len);

	return r == 0 || scan_discard(s, r == -EDQUOT ? SCAN_OVER_BUDGET : SCAN_NO_SPILL);
}

/* Moves the part of the current string that has come into the file. It has been checked and has no
 * half escape. */
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

/* Is the current string the value of KEY? The key may have been sent with escapes. */
static bool is_value_of(const struct scanner *s, const char *key)
{
	static const char between[] = "\":\"";
	const size_t n_between = sizeof(between) - 1;
	const char *p = s->rest.data + s->key_start, *end = s->rest.data + s->string_start;

	if ((size_t)(end - p) < n_between || memcmp(end - n_between, between, n_between) != 0)
		return false;
	for (end -= n_between; p < end && *key; key++) {
		unsigned char c = (unsigned char)*p++;

		if (c == '\\' && *p != 'u') {
			c = (unsigned char)escape_value((unsigned char)*p++);
		} else if (c == '\\') {
			const unsigned cp = escape_hex4(p + 1);

			c = cp < 0x80 ? (unsigned char)cp : 0;
			p += 5;
		}
		if (c != (unsigned char)*key)
			return false;
	}
	return p == end && !*key;
}

/* The current string has become long: its bytes go to the file from here on. */
static bool begin_spilling(struct scanner *s)
{
	const size_t start = s->string_start;

	if (s->in_key)
		return scan_discard(s, SCAN_VALUES);
	if (!s->spill)
		s->spill = spill_new(s->limits.budgets, s->payer);
	if (!s->spill || spill_begin(s->spill, is_value_of(s, MCP_BASE64_KEY)) < 0)
		return scan_discard(s, SCAN_NO_SPILL);
	if (!spill_decoded(s, s->rest.data + start, s->rest.len - start))
		return false;
	s->rest.len = start;
	s->spilling = true;
	return true;
}

/* Adds bytes of a string that are not part of an escape. */
static bool add_plain(struct scanner *s, const char *data, size_t len)
{
	if (!s->spilling && !s->discarding &&
	    s->rest.len - s->string_start + len > s->limits.spill_min && !begin_spilling(s))
		return false;
	return s->spilling ? spill(s, data, len) : scan_keep(s, data, len);
}

bool scan_begin_string(struct scanner *s, bool is_key)
{
	s->in_key = is_key;
	if (is_key && s->depth == 1)
		scan_id_begin(s, CATCH_KEY);
	s->spilling = false;
	s->high = 0;
	s->state = ST_STRING;
	if (!scan_keep_char(s, '"'))
		return false;
	s->string_start = s->rest.len;
	if (is_key)
		s->key_start = s->rest.len;
	return true;
}

/* A string is wrong inside, and its end can still be found. Returns true. */
static bool wrong_inside(struct scanner *s, enum scan_fault fault)
{
	s->high = 0;
	s->state = ST_STRING;
	if (s->request.catching == CATCH_ID)
		s->request.spoilt = true;
	return scan_discard(s, fault);
}

static bool end_string(struct scanner *s)
{
	if (s->high)
		(void)wrong_inside(s, SCAN_UTF8);
	if (s->spilling && s->request.catching == CATCH_ID)
		s->request.spoilt = true;
	if (s->spilling && !s->discarding) {
		char name[SPILL_NAME_MAX];

		if (spill_end(s->spill, name) < 0)
			(void)scan_discard(s, SCAN_NO_SPILL);
		else if (!scan_keep(s, name, strlen(name)))
			return false;
	}
	s->state = s->in_key ? ST_COLON : s->depth ? ST_AFTER : ST_END;
	return scan_keep_char(s, '"');
}

bool scan_on_escape(struct scanner *s, unsigned char c)
{
	char value = escape_value(c);

	if (c == 'u') {
		s->n_hex = 4;
		s->code = 0;
		s->state = ST_HEX;
		return s->spilling || scan_keep(s, "\\u", 2);
	}
	if (!value)
		return scan_fail(s, SCAN_SYNTAX);
	if (s->high)
		(void)wrong_inside(s, SCAN_UTF8);
	s->state = ST_STRING;
	if (s->spilling)
		return spill(s, &value, 1);
	return scan_keep_char(s, '\\') && scan_keep_char(s, c);
}

bool scan_on_hex(struct scanner *s, unsigned char c)
{
	int v = text_hex_digit((char)c);
	unsigned cp;
	char out[4];

	if (v < 0)
		return scan_fail(s, SCAN_SYNTAX);
	s->code = s->code << 4 | (unsigned)v;
	if (!s->spilling && !scan_keep_char(s, c))
		return false;
	if (--s->n_hex > 0)
		return true;
	s->state = ST_STRING;
	cp = s->code;
	if (s->high) {
		if (cp < 0xdc00 || cp > 0xdfff)
			return wrong_inside(s, SCAN_UTF8);
		cp = escape_join(s->high, cp);
		s->high = 0;
	} else if (escape_is_high(cp)) {
		s->high = cp;
		return true;
	} else if (cp >= 0xdc00 && cp <= 0xdfff) {
		return wrong_inside(s, SCAN_UTF8);
	}
	return !s->spilling || spill(s, out, escape_encode_utf8(cp, out));
}

/* The first byte of a multi-byte character says how many follow and what the next one may be (RFC
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
		return wrong_inside(s, SCAN_UTF8);
	}
	s->state = ST_UTF8;
	return true;
}

bool scan_on_utf8(struct scanner *s, unsigned char c)
{
	if (c < s->low_bound || c > s->high_bound) {
		(void)wrong_inside(s, SCAN_UTF8);
		return false; /* C may end the string */
	}
	s->low_bound = 0x80;
	s->high_bound = 0xbf;
	if (--s->n_more == 0)
		s->state = ST_STRING;
	/* The first byte was added before, so the switch to the file never cuts a character. */
	return s->spilling ? spill(s, (const char *)&c, 1) : scan_keep_char(s, c);
}

#define EACH_BYTE(c) (UINT64_MAX / 255 * (c))

/* Printable ASCII except " and \: characters that mean themselves. */
static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* The same for eight bytes at once. A subtraction borrows into the top bit of a byte that is too
 * small, and the xor makes a byte 0 that equals the one looked for. */
static bool are_plain(const unsigned char *p)
{
	uint64_t w, quote, slash, bad;

	memcpy(&w, p, sizeof(w));
	quote = w ^ EACH_BYTE('"');
	slash = w ^ EACH_BYTE('\\');
	bad = w | (w - EACH_BYTE(0x20)) | (quote - EACH_BYTE(1)) | (slash - EACH_BYTE(1));
	return (bad & EACH_BYTE(0x80)) == 0;
}

/* How many bytes from P on mean themselves. */
static size_t plain_run(const unsigned char *p, size_t len)
{
	size_t i = 0;

	while (len - i >= sizeof(uint64_t) && are_plain(p + i))
		i += sizeof(uint64_t);
	while (i < len && is_plain(p[i]))
		i++;
	return i;
}

size_t scan_on_string(struct scanner *s, const unsigned char *p, size_t len)
{
	size_t n;

	if (s->high && *p != '\\')
		(void)wrong_inside(s, SCAN_UTF8);
	n = plain_run(p, len);
	if (n > 0)
		return add_plain(s, (const char *)p, n) ? n : 0;
	if (*p == '"')
		return end_string(s) ? 1 : 0;
	if (*p == '\\') {
		/* A string that consists of escapes must become long, too. */
		if (!s->high && !add_plain(s, "", 0))
			return 0;
		s->state = ST_ESCAPE;
		return 1;
	}
	if (*p < 0x20) {
		(void)wrong_inside(s, SCAN_SYNTAX);
		return 1;
	}
	if (!begin_utf8(s, *p) || !add_plain(s, (const char *)p, 1))
		return 0;
	return 1;
}
