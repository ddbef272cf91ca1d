/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/url.h"

#include "base/parse.h"
#include "base/text.h"

#include <string.h>

#define URL_MAX   2000u
#define WHEEL_MAX 255u

/* limits of url_may_hold_token() */
#define WORD_MAX   14u
#define NUMBER_MAX 8u
#define MIXED_MAX  6u

static int bad(const char *text, struct err *e)
{
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "'%.200s' is not the address of a package index",
		      text);
	return -EINVAL;
}

int url_parse(const char *text, struct url *ret, struct err *e)
{
	struct url url = {.https = text_starts_with(text, "https://")};
	size_t len = strlen(text);
	char authority[sizeof(url.host) + 8];

	for (size_t i = 0; i < len; i++)
		if (text[i] <= 0x20 || text[i] >= 0x7f || text[i] == '#' || text[i] == '\\')
			return bad(text, e);
	if (len > URL_MAX || (!url.https && !text_starts_with(text, "http://")))
		return bad(text, e);
	const char *host = text + (url.https ? strlen("https://") : strlen("http://"));
	size_t n = strcspn(host, "/?");
	const char *at = memrchr(host, '@', n);
	if (at) {
		n -= (size_t)(at + 1 - host);
		host = at + 1;
	}
	if (n == 0 || n >= sizeof(url.host))
		return bad(text, e);
	bool has_port = host[n - 1] != ']' && memchr(host, ':', n);
	(void)snprintf(authority, sizeof(authority), "%.*s%s", (int)n, host,
		       has_port    ? ""
		       : url.https ? ":443"
				   : ":80");
	if (parse_host_port(authority, url.host, sizeof(url.host), &url.port) < 0 ||
	    url.host[0] == '\0' || url.port == 0)
		return bad(text, e);
	*ret = url;
	return 0;
}

const char *url_path(const char *text)
{
	const char *host = strstr(text, "://");

	return host ? host + 3 + strcspn(host + 3, "/?") : "";
}

bool url_has_credentials(const char *text)
{
	const char *host = strstr(text, "://");
	size_t n = host ? strcspn(host + 3, "/?") : 0;

	return !host || memchr(host + 3, '@', n) || strchr(text, '?');
}

/* Counts the characters of SET at the start of S: ASCII alone, whatever the locale is. */
static size_t span_of(const char *s, const char *set, size_t max)
{
	size_t n = strspn(s, set);

	return n < max ? n : max;
}

static bool is_plain_word(const char *s, size_t len)
{
	static const char digits[] = "0123456789";
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char both[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

	if (span_of(s, letters, len) == len)
		return len <= WORD_MAX;
	if (span_of(s, digits, len) == len)
		return len <= NUMBER_MAX;
	return len <= MIXED_MAX && span_of(s, both, len) == len;
}

bool url_may_hold_token(const char *text)
{
	const char *host = strstr(text, "://");
	const char *at = host ? strchr(host + 3, '/') : NULL;

	while (at && *at) {
		size_t len = strcspn(at, "/-_.+~");
		if (!is_plain_word(at, len))
			return true;
		at += len + (at[len] != '\0');
	}
	return false;
}

bool url_wheel_name(const char *text, char *ret)
{
	size_t path = strcspn(text, "?#");
	const char *slash = memrchr(text, '/', path);
	const char *name = slash ? slash + 1 : text;
	size_t len = path - (size_t)(name - text);
	char decoded[WHEEL_MAX + 1];

	if (len == 0 || len > WHEEL_MAX || text_percent_decode(name, len, decoded, &len) < 0)
		return false;
	decoded[len] = '\0';
	for (size_t i = 0; i < len; i++)
		if (decoded[i] <= 0x20 || decoded[i] >= 0x7f || decoded[i] == '/' ||
		    decoded[i] == '\\')
			return false;
	if (decoded[0] == '.' || decoded[0] == '-' || !text_ends_with(decoded, ".whl"))
		return false;
	memcpy(ret, decoded, len + 1);
	return true;
}
