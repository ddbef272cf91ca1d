/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/buf.h"
#include "base/walls.h"

/* Looks at one sequence. Returns its length when valid; otherwise 0 and *bad = length of the
 * maximal ill-formed part (1 to 3) that one replacement character stands for. */
static size_t utf8_sequence(const uint8_t *p, size_t len, size_t *bad)
{
	uint8_t lo = 0x80, hi = 0xBF;
	size_t need;

	*bad = 1;
	if (p[0] < 0x80)
		return 1;
	if (p[0] >= 0xC2 && p[0] <= 0xDF) {
		need = 1;
	} else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
		need = 2;
		lo = p[0] == 0xE0 ? 0xA0 : lo;
		hi = p[0] == 0xED ? 0x9F : hi;
	} else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
		need = 3;
		lo = p[0] == 0xF0 ? 0x90 : lo;
		hi = p[0] == 0xF4 ? 0x8F : hi;
	} else {
		return 0;
	}
	for (size_t i = 1; i <= need; i++) {
		if (i >= len || p[i] < lo || p[i] > hi) {
			*bad = i;
			return 0;
		}
		lo = 0x80;
		hi = 0xBF;
	}
	return need + 1;
}

/* Length of the sequence at P, which has four bytes at least, if it is valid and of two bytes or more. 0: utf8_sequence(), which
 * takes three times as long, has to look. */
static size_t plain_sequence(const uint8_t *p)
{
	if ((p[1] & 0xC0) != 0x80)
		return 0;
	if (p[0] >= 0xC2 && p[0] <= 0xDF)
		return 2;
	if ((p[2] & 0xC0) != 0x80)
		return 0;
	if ((p[0] > 0xE0 && p[0] <= 0xEF && p[0] != 0xED) || (p[0] == 0xE0 && p[1] >= 0xA0) ||
	    (p[0] == 0xED && p[1] < 0xA0))
		return 3;
	if ((p[3] & 0xC0) == 0x80 &&
	    ((p[0] > 0xF0 && p[0] < 0xF4) || (p[0] == 0xF0 && p[1] >= 0x90)))
		return 4;
	return 0;
}

bool text_is_utf8(const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t bad;

	for (size_t i = 0; i < len;) {
		uint64_t eight;

		if (len - i >= sizeof(eight)) {
			memcpy(&eight, p + i, sizeof(eight));
			eight = htole64(eight) & UINT64_C(0x8080808080808080);
			const size_t ascii =
			    eight ? (size_t)__builtin_ctzll(eight) / 8 : sizeof(eight);
			i += ascii;
			if (ascii == sizeof(eight))
				continue;
		}
		size_t n = len - i >= 4 ? plain_sequence(p + i) : 0;
		if (n == 0)
			n = utf8_sequence(p + i, len - i, &bad);
		if (n == 0)
			return false;
		i += n;
	}
	return true;
}

int text_add_utf8_lossy(struct buf *b, const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t start = 0, i = 0;
	int r;

	if (!wall_stands(WALL_UTF8))
		return buf_add(b, data, len);
	while (i < len) {
		size_t bad;
		size_t n = utf8_sequence(p + i, len - i, &bad);
		if (n > 0) {
			i += n;
			continue;
		}
		r = buf_add(b, p + start, i - start);
		if (r == 0)
			r = buf_add(b, "\xEF\xBF\xBD", 3);
		if (r < 0)
			return r;
		i += bad;
		start = i;
	}
	return buf_add(b, p + start, len - start);
}

/* Bytes of the control character or line separator at S; 0: it is none. *RET: the character. */
static size_t control_at(const char *s, size_t len, unsigned *ret)
{
	const uint8_t *p = (const uint8_t *)s;

	*ret = p[0];
	if (p[0] < 0x20 || p[0] == 0x7f)
		return 1;
	if (len >= 2 && text_is_c1(s)) {
		*ret = p[1];
		return 2;
	}
	/* U+2028 and U+2029 end lines; U+202A to U+202E and U+2066 to U+2069 change the direction of what follows. */
	if (len >= 3 && p[0] == 0xe2 &&
	    ((p[1] == 0x80 && p[2] >= 0xa8 && p[2] <= 0xae) ||
	     (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9))) {
		*ret = 0x2000u | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
		return 3;
	}
	return 0;
}

/* QUOTED: quotes and backslashes are escaped, too. */
static int add_escaped(struct buf *b, const char *s, size_t len, bool quoted)
{
	unsigned c;
	int r = 0;

	for (size_t i = 0, n; i < len && r == 0; i += n) {
		n = control_at(s + i, len - i, &c);
		if (n > 0)
			r = c == '\n' ? buf_add_str(b, "\\n") : buf_printf(b, "\\u%04x", c);
		else if (quoted && (s[i] == '"' || s[i] == '\\'))
			r = buf_printf(b, "\\%c", s[i]);
		else
			r = buf_add_char(b, s[i]);
		n = n > 0 ? n : 1;
	}
	return r;
}

int text_add_line(struct buf *b, const char *s, size_t len)
{
	return add_escaped(b, s, len, false);
}

int text_add_name(struct buf *b, const char *s, size_t len)
{
	unsigned c;
	size_t i = 0;

	while (i < len && control_at(s + i, len - i, &c) == 0)
		i++;
	if (i == len)
		return buf_add(b, s, len);
	int r = buf_add_char(b, '"');
	r = r < 0 ? r : add_escaped(b, s, len, true);
	return r < 0 ? r : buf_add_char(b, '"');
}

size_t text_utf8_cut(const char *s, size_t len, size_t max)
{
	if (len <= max)
		return len;
	size_t cut = max;
	for (int back = 0; back < 3 && cut > 0 && ((uint8_t)s[cut] & 0xC0) == 0x80; back++)
		cut--;
	return ((uint8_t)s[cut] & 0xC0) == 0x80 ? max : cut;
}

size_t text_utf8_open(const char *data, size_t len)
{
	for (size_t back = 1; back <= MIN(len, (size_t)TEXT_UTF8_OPEN_MAX); back++) {
		uint8_t b = (uint8_t)data[len - back];

		if ((b & 0xc0) == 0x80)
			continue;
		/* 0xc0, 0xc1 and those from 0xf5 on begin no character: RFC 3629, section 4. */
		size_t need = b < 0xc2 || b > 0xf4 ? 1 : b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
		return need > back ? back : 0;
	}
	return 0;
}

void text_hex(const uint8_t *data, size_t len, char *ret)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		ret[2 * i] = digits[data[i] >> 4];
		ret[2 * i + 1] = digits[data[i] & 15];
	}
	ret[2 * len] = '\0';
}

int text_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

#define PERCENT_STEP 240u /* bytes are added in steps */

int text_add_percent(struct buf *b, const char *s, size_t len, bool keep_slash)
{
	static const char digits[] = "0123456789ABCDEF";
	const bool escapes = wall_stands(WALL_ESCAPE);
	char out[PERCENT_STEP + 3];
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < len; i++) {
		if (is_unreserved(s[i]) || (keep_slash && s[i] == '/') || !escapes) {
			out[n++] = s[i];
		} else {
			out[n++] = '%';
			out[n++] = digits[(uint8_t)s[i] >> 4];
			out[n++] = digits[(uint8_t)s[i] & 15];
		}
		if (n >= PERCENT_STEP) {
			r = buf_add(b, out, n);
			n = 0;
		}
	}
	return r < 0 ? r : buf_add(b, out, n);
}

static const char *html_entity(char c, bool quotes)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return quotes ? "&quot;" : NULL;
	case '\'':
		return quotes ? "&#x27;" : NULL;
	default:
		return NULL;
	}
}

int text_add_html(struct buf *b, const char *s, size_t len, bool quotes)
{
	int r = 0;

	for (size_t i = 0, n; i < len && r == 0; i += n) {
		const char *entity = html_entity(s[i], quotes);

		for (n = 1; !entity && i + n < len && !html_entity(s[i + n], quotes);)
			n++;
		r = entity ? buf_add_str(b, entity) : buf_add(b, s + i, n);
	}
	return r;
}

int text_percent_decode(const char *s, size_t len, char *ret, size_t *ret_len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int c = (uint8_t)s[i];
		if (c == '%') {
			if (len - i < 3)
				return -EINVAL;
			int high = text_hex_digit(s[i + 1]), low = text_hex_digit(s[i + 2]);
			if (high < 0 || low < 0)
				return -EINVAL;
			c = high * 16 + low;
			i += 2;
		}
		if (c == 0)
			return -EINVAL;
		ret[n++] = (char)c;
	}
	ret[n] = '\0';
	if (ret_len)
		*ret_len = n;
	return 0;
}

int text_copy(char *dst, size_t size, const char *s)
{
	size_t len = strlen(s);

	if (len >= size) {
		if (size > 0)
			dst[0] = '\0';
		return -ERANGE;
	}
	memcpy(dst, s, len + 1);
	return 0;
}

size_t text_next_word(const char *words, size_t *at, const char **ret)
{
	const char *word = words + *at;
	size_t len = strcspn(word, "|");

	*ret = word;
	*at += len + (word[len] == '|');
	return len;
}

bool text_is_word(const char *words, const char *text)
{
	const char *word;
	size_t at = 0, len;

	while ((len = text_next_word(words, &at, &word)) > 0)
		if (strlen(text) == len && memcmp(word, text, len) == 0)
			return true;
	return false;
}

bool text_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool text_ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}
