/* SPDX-License-Identifier: Apache-2.0 */
/* Where a redirect of a server leads. Clients follow one by themselves, after 307 with method and body, and programs send their
 * key again to the same host. So below /p/ no redirect may lead to another place of this server: it would be a request of the
 * client's that the sandbox has written.
 *
 * An address is understood as browsers understand it (WHATWG URL, section 4.4): a backslash is a slash, a tab is nothing, "%2e" is
 * a dot. */
#include "api/ports/ports.h"
#include "base/text.h"
#include "base/walls.h"
#include "http/host_header.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Bytes of the address before its query. */
static size_t path_len(const char *s)
{
	return strcspn(s, "?#");
}

/* Without tabs, and with slashes before the query. */
static int plain(const char *value, struct buf *ret)
{
	const size_t end = path_len(value);
	int r = 0;

	for (size_t i = 0; r == 0 && value[i]; i++) {
		const char ch = i < end && value[i] == '\\' ? '/' : value[i];

		if (ch != '\t')
			r = buf_add(ret, &ch, 1);
	}
	return r;
}

/* How many dots the segment is, if it is nothing else: 0, 1 or 2. */
static unsigned dots(const char *s, size_t len)
{
	unsigned n = 0;

	for (size_t i = 0; i < len; n++) {
		if (s[i] == '.')
			i += 1;
		else if (len - i >= 3 && strncasecmp(s + i, "%2e", 3) == 0)
			i += 3;
		else
			return 0;
	}
	return n <= 2 ? n : 0;
}

/* Appends PATH, which begins with a slash, without its segments of dots (RFC 3986, section 5.2.4): it never leads above what
 * RET had. */
static int add_path(struct buf *ret, const char *path)
{
	const size_t root = ret->len, end = path_len(path);
	int r = 0;

	for (size_t at = 0; r == 0 && at < end;) {
		const char *segment = path + at + 1;
		const size_t len = MIN(strcspn(segment, "/"), end - at - 1);
		const bool last = at + 1 + len >= end;
		const unsigned n = dots(segment, len);

		at += 1 + len;
		if (n == 2)
			while (ret->len > root && ret->data[--ret->len] != '/')
				;
		if (n == 0)
			r = buf_printf(ret, "/%.*s", (int)len, segment);
		else if (last)
			r = buf_add_str(ret, "/");
	}
	return r < 0 ? r : buf_add_str(ret, path + end);
}

static bool has_dots(const char *path)
{
	const size_t end = path_len(path);

	for (size_t at = 0; at <= end;) {
		const size_t len = MIN(strcspn(path + at, "/"), end - at);

		if (dots(path + at, len) == 2)
			return true;
		at += len + 1;
	}
	return false;
}

/* The path of an address of the server as it knows itself; NULL: it is another one's. */
static const char *own_path(const struct exchange *x, const char *location)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
	char origin[40];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const int n = snprintf(origin, sizeof(origin), "http%s://%s:%u", x->tls ? "s" : "",
				       names[i], x->port);

		if (strncasecmp(location, origin, (size_t)n) == 0 &&
		    strchr("/?#", location[n])) /* also at its end */
			return location + n;
	}
	return NULL;
}

/* Behind "http:", "https:" or nothing: the authority, behind as many slashes as there are. NULL: the address has none. An empty
 * one: what is meant depends on the address of the page. */
static const char *authority_of(const char *location)
{
	const size_t scheme = strncasecmp(location, "https:", 6) == 0  ? 6
			      : strncasecmp(location, "http:", 5) == 0 ? 5
								       : 0;
	const char *at = location + scheme;

	if (at[0] != '/' || at[1] != '/')
		return scheme == 0 ? NULL : "";
	return at + strspn(at, "/");
}

/* Browsers write "127.1" and "0x7f.1" as 127.0.0.1 before they ask: a name whose last label is a number. */
static bool is_numeric(const struct http_host *h)
{
	const char *dot = memrchr(h->name, '.', h->len);
	const char *last = dot ? dot + 1 : h->name;

	return h->name[0] == '[' || (*last >= '0' && *last <= '9');
}

/* AUTHORITY is this server, as the client of X calls it. */
static bool is_this_server(const struct exchange *x, const char *authority, size_t len)
{
	const char *host = http_request_header(x->relay.req, "host");
	struct http_host asked, to;
	const char *user = memrchr(authority, '@', len);

	if (user) {
		len -= (size_t)(user + 1 - authority);
		authority = user + 1;
	}
	/* A name that we cannot read may be another way to write ours. */
	if (!host || http_host_parse(host, strlen(host), &asked) < 0 ||
	    http_host_parse(authority, len, &to) < 0)
		return true;
	if (asked.len == to.len && strncasecmp(asked.name, to.name, to.len) == 0)
		return true;
	return (http_host_is_ours(&to, NULL, NULL) || is_numeric(&to)) && asked.port == to.port;
}

/* -EACCES, or the address where it leads within the port. */
static int to_this_server(const struct exchange *x, const char *location, const char *path,
			  struct buf *ret)
{
	_cleanup_(buf_done) struct buf clean = BUF_INIT(RELAY_HEAD_MAX);
	const size_t base = strlen(x->base);

	if (add_path(&clean, path) < 0)
		return -ENOMEM;
	const char *to = buf_str(&clean);
	if (strncmp(to, x->base, base) != 0 || !strchr("/?#", to[base]))
		return -EACCES;
	return buf_printf(ret, "%.*s%s", (int)(path - location), location, to);
}

static int relative(const struct exchange *x, const char *location, struct buf *ret)
{
	_cleanup_(buf_done) struct buf whole = BUF_INIT(RELAY_HEAD_MAX);
	const char *asked = port_path_of(x);
	const char *slash = strrchr(asked, '/');

	if (!has_dots(location))
		return buf_add_str(ret, location);
	if (buf_printf(&whole, "%.*s%s", slash ? (int)(slash + 1 - asked) : 0, asked, location) <
		0 ||
	    buf_add_str(ret, x->base) < 0)
		return -ENOMEM;
	return add_path(ret, buf_str(&whole));
}

/* Has ADDRESS a scheme of its own, which is none of http? */
static bool has_scheme(const char *address)
{
	return address[strcspn(address, ":/?#")] == ':';
}

int port_location(const struct exchange *x, const char *value, struct buf *ret)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(RELAY_HEAD_MAX);

	if (plain(value, &b) < 0)
		return -ENOMEM;
	const char *location = buf_str(&b), *own = own_path(x, location);
	const char *authority = authority_of(location);

	if (own && buf_add_str(ret, x->base) == 0)
		return own[0] == '/' ? add_path(ret, own) : buf_printf(ret, "/%s", own);
	if (x->own_name || !wall_stands(WALL_REDIRECTS)) /* an origin of its own */
		return buf_add_str(ret, value);
	if (authority) {
		const size_t len = strcspn(authority, "/?#");

		if (len == 0)
			return -EACCES;
		if (!is_this_server(x, authority, len))
			return buf_add_str(ret, value);
		return to_this_server(x, location, authority + len, ret);
	}
	if (location[0] == '/')
		return buf_add_str(ret, x->base) < 0 ? -ENOMEM : add_path(ret, location);
	return has_scheme(location) ? buf_add_str(ret, value) : relative(x, location, ret);
}
