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

bool text_is_utf8(const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t bad;

	for (size_t i = 0; i < len;) {
		size_t n = utf8_sequence(p + i, len - i, &bad);
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

size_t text_utf8_cut(const char *s, size_t len, size_t max)
{
	if (len <= max)
		return len;
	size_t cut = max;
	for (int back = 0; back < 3 && cut > 0 && ((uint8_t)s[cut] & 0xC0) == 0x80; back++)
		cut--;
	return ((uint8_t)s[cut] & 0xC0) == 0x80 ? max : cut;
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

int text_add_percent(struct buf *b, const char *s, size_t len, bool keep_slash)
{
	for (size_t i = 0; i < len; i++) {
		int r;
		if (is_unreserved(s[i]) || (keep_slash && s[i] == '/') || !wall_stands(WALL_ESCAPE))
			r = buf_add_char(b, s[i]);
		else
			r = buf_printf(b, "%%%02X", (unsigned)(uint8_t)s[i]);
		if (r < 0)
			return r;
	}
	return 0;
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

bool text_starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool text_ends_with(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}
