/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include "base/walls.h"

#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int parse_u64_n(const char *s, size_t len, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < len && !wall_stands(WALL_STRICT); i++)
		if (!is_digit(s[i]))
			len = i;
	if (len == 0)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (!is_digit(s[i]))
			return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(s[i] - '0'), &v))
			return -ERANGE;
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	return parse_u64_n(s, strlen(s), min, max, ret);
}

int parse_i64(const char *s, int64_t min, int64_t max, int64_t *ret)
{
	bool negative = *s == '-';
	uint64_t magnitude;
	int64_t v;

	if (*s == '-' || *s == '+')
		s++;
	int r = parse_u64(s, 0, UINT64_MAX, &magnitude);
	if (r < 0)
		return r;
	if (negative ? __builtin_sub_overflow((int64_t)0, magnitude, &v)
		     : __builtin_add_overflow((int64_t)0, magnitude, &v))
		return -ERANGE;
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

/* "12.5" -> whole 12, frac 5, scale 10. Returns the number of characters used or an error. */
static int split_decimal(const char *s, size_t len, unsigned max_digits, uint64_t *whole,
			 uint64_t *frac, uint64_t *scale)
{
	size_t i = 0;

	while (i < len && is_digit(s[i]))
		i++;
	size_t n_whole = i;
	*whole = 0;
	*frac = 0;
	*scale = 1;
	if (n_whole > 0) {
		int r = parse_u64_n(s, n_whole, 0, UINT64_MAX, whole);
		if (r < 0)
			return r;
	}
	if (i < len && s[i] == '.') {
		size_t first = ++i;
		while (i < len && is_digit(s[i])) {
			if (i - first >= max_digits)
				return -EINVAL;
			*frac = *frac * 10 + (uint64_t)(s[i] - '0');
			*scale *= 10;
			i++;
		}
		if (i == first)
			return -EINVAL;
	} else if (n_whole == 0) {
		return -EINVAL;
	}
	return i > INT32_MAX ? -ERANGE : (int)i;
}

int parse_milli(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t whole, frac, scale, v;
	size_t len = strlen(s);
	int n = split_decimal(s, len, 3, &whole, &frac, &scale);

	if (n < 0)
		return n;
	if ((size_t)n != len)
		return -EINVAL;
	if (__builtin_mul_overflow(whole, 1000, &v) ||
	    __builtin_add_overflow(v, frac * (1000 / scale), &v))
		return -ERANGE;
	if (v < min || v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

int parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	static const struct {
		const char *suffix;
		unsigned shift;
	} units[] = {
	    {"", 0},     {"b", 0},  {"k", 10},  {"kb", 10},  {"kib", 10}, {"m", 20},  {"mb", 20},
	    {"mib", 20}, {"g", 30}, {"gb", 30}, {"gib", 30}, {"t", 40},   {"tb", 40}, {"tib", 40},
	};
	uint64_t whole, frac, scale;
	int n = split_decimal(s, strlen(s), 6, &whole, &frac, &scale);

	if (n < 0)
		return n;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcasecmp(s + n, units[i].suffix) != 0)
			continue;
		uint64_t unit = (uint64_t)1 << units[i].shift;
		uint64_t v;
		if (__builtin_mul_overflow(whole, unit, &v) ||
		    __builtin_add_overflow(v, frac * unit / scale, &v))
			return -ERANGE;
		if (v < min || v > max)
			return -ERANGE;
		*ret = v;
		return 0;
	}
	return -EINVAL;
}

int parse_bool(const char *s, bool *ret)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {{"true", true},   {"yes", true}, {"on", true},   {"1", true},
		     {"false", false}, {"no", false}, {"off", false}, {"0", false}};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasecmp(s, words[i].word) == 0) {
			*ret = words[i].value;
			return 0;
		}
	return -EINVAL;
}

static bool all_in(const char *s, size_t len, size_t max, const char *extra)
{
	if (len == 0 || len > max)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_alnum(s[i]) && (s[i] == '\0' || !strchr(extra, s[i])))
			return false;
	return true;
}

bool parse_is_session_id(const char *s, size_t len)
{
	return all_in(s, len, 64, "_-") || (!wall_stands(WALL_IDS) && len > 0 && len <= 64);
}

bool parse_is_filename(const char *s, size_t len)
{
	return all_in(s, len, 255, "._-");
}

bool parse_is_image_name(const char *s, size_t len)
{
	if (!all_in(s, len, 63, "._-") || strchr("._-", s[0]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (s[i] >= 'A' && s[i] <= 'Z')
			return false;
	return true;
}

bool parse_is_image_ref(const char *s, size_t len)
{
	size_t part = 0;

	if (!all_in(s, len, 200, "._-/:@"))
		return false;
	for (size_t i = 0; i <= len; i++) {
		if (i < len && s[i] != '/') {
			part++;
			continue;
		}
		const char *begin = s + i - part;
		if (part == 0 || strchr("._-:@", *begin) || strchr(":@", begin[part - 1]))
			return false;
		part = 0;
	}
	return true;
}

int parse_host_port(const char *s, char *ret_host, size_t host_max, uint16_t *ret_port)
{
	const char *host = s, *colon;
	size_t host_len;
	uint64_t port;

	if (*s == '[') {
		const char *end = strchr(s, ']');
		if (!end || end[1] != ':')
			return -EINVAL;
		host = s + 1;
		host_len = (size_t)(end - host);
		colon = end + 1;
	} else {
		colon = strrchr(s, ':');
		if (!colon || memchr(s, ':', (size_t)(colon - s)))
			return -EINVAL;
		host_len = (size_t)(colon - s);
	}
	if (host_len >= host_max)
		return -ERANGE;
	int r = parse_u64(colon + 1, 0, UINT16_MAX, &port);
	if (r < 0)
		return r;
	memcpy(ret_host, host, host_len);
	ret_host[host_len] = '\0';
	*ret_port = (uint16_t)port;
	return 0;
}
