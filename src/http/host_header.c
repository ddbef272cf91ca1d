/* SPDX-License-Identifier: Apache-2.0 */
#include "http/host_header.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_v6_char(char c)
{
	return is_alnum(c) || c == ':' || c == '.';
}

static int parse_port(const char *s, size_t len, unsigned *ret)
{
	unsigned port = 0;

	if (len == 0 || len > 5)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -EINVAL;
		port = port * 10 + (unsigned)(s[i] - '0');
	}
	if (port == 0 || port > 65535)
		return -EINVAL;
	*ret = port;
	return 0;
}

int http_host_parse(const char *s, size_t len, struct http_host *ret)
{
	struct http_host host = {.name = s};
	size_t n = 0;

	if (len > 0 && s[0] == '[') {
		for (n = 1; n < len && is_v6_char(s[n]); n++)
			;
		if (n < 4 || n >= len || s[n] != ']') /* "[::]" is the shortest */
			return -EINVAL;
		n++;
	} else {
		for (; n < len && (is_alnum(s[n]) || s[n] == '-' || s[n] == '.' || s[n] == '_');
		     n++)
			;
	}
	if (n == 0 || n > 255)
		return -EINVAL;
	/* "localhost." is the same name, said to be complete (RFC 1034 3.1). */
	host.len = n > 1 && s[n - 1] == '.' ? n - 1 : n;
	if (n < len && (s[n] != ':' || parse_port(s + n + 1, len - n - 1, &host.port) < 0))
		return -EINVAL;
	*ret = host;
	return 0;
}

int http_origin_parse(const char *origin, struct http_host *ret)
{
	static const char *const schemes[] = {"http://", "https://"};

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		const size_t n = strlen(schemes[i]);

		if (strncasecmp(origin, schemes[i], n) == 0)
			return http_host_parse(origin + n, strlen(origin + n), ret);
	}
	return -EINVAL;
}

static bool same(const struct http_host *host, const char *name)
{
	return strlen(name) == host->len && strncasecmp(host->name, name, host->len) == 0;
}

static bool is_loopback(const struct http_host *host)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (same(host, names[i]))
			return true;
	return false;
}

bool http_host_is_ours(const struct http_host *host, const char *local, const char *const *hosts)
{
	if (is_loopback(host) || (local && same(host, local)))
		return true;
	for (; hosts && *hosts; hosts++)
		if (strcmp(*hosts, "*") == 0 || same(host, *hosts))
			return true;
	return false;
}

bool http_host_is_below(const struct http_host *host, const char *domain, size_t *ret_label)
{
	const size_t len = domain ? strlen(domain) : 0;

	if (len == 0 || host->len <= len + 1 ||
	    strncasecmp(host->name + host->len - len, domain, len) != 0 ||
	    host->name[host->len - len - 1] != '.')
		return false;
	*ret_label = host->len - len - 1;
	return !memchr(host->name, '.', *ret_label);
}

bool http_host_is_of_port(const struct http_host *host, const char *domain)
{
	size_t digits = 0, label;

	if (!http_host_is_below(host, domain, &label))
		return false;
	while (digits < label && host->name[digits] >= '0' && host->name[digits] <= '9')
		digits++;
	return digits > 0 && digits + 1 < label && host->name[digits] == '-';
}

/* Compared with its scheme, as browsers send it. */
static bool is_listed(const char *origin, const char *const *list, bool any)
{
	for (; list && *list; list++)
		if ((any && strcmp(*list, "*") == 0) || strcasecmp(*list, origin) == 0)
			return true;
	return false;
}

bool http_origin_is_plain(const char *origin)
{
	static const char scheme[] = "http://";

	return strncasecmp(origin, scheme, sizeof(scheme) - 1) == 0;
}

bool http_origin_is_ours(const char *origin, const struct http_origins *may)
{
	struct http_host from, to;

	if (is_listed(origin, may->origins, true) || is_listed(origin, may->pages, true) ||
	    is_listed(origin, may->hosts, false))
		return true;
	if (http_origin_parse(origin, &from) < 0)
		return false;
	for (const char *const *h = may->hosts; h && *h; h++)
		if (same(&from, *h))
			return true;
	if (may->https && http_origin_is_plain(origin))
		return false;
	if (!may->host || http_host_parse(may->host, strlen(may->host), &to) < 0 ||
	    from.port != to.port)
		return false;
	return (is_loopback(&from) && is_loopback(&to)) ||
	       (from.len == to.len && strncasecmp(from.name, to.name, to.len) == 0);
}
