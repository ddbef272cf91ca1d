/* SPDX-License-Identifier: Apache-2.0 */
/* What a server in a sandbox gets of a request. It learns who asked by the forwarding headers; of what identifies the caller to
 * us it gets nothing. To itself it is "localhost:PORT", whatever the client calls it, unless its owner has chosen a name: servers for
 * development refuse other names, and compare Origin with Host. */
#include "api/ports/ports.h"
#include "base/text.h"
#include "base/walls.h"
#include "fleet/identity.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Our own credentials, and what we say ourselves. Cookies: see add_cookies(). */
static bool is_ours(const struct exchange *x, const char *name, const char *value)
{
	static const char *const names[] = {
	    "host",
	    "cookie",
	    "x-api-key",
	    "x-caisson-page",
	    "e2b-traffic-access-token",
	    "expect",
	    "origin",
	    "x-forwarded-for",
	    "x-forwarded-host",
	    "forwarded",
	    "x-forwarded-proto",
	    "x-forwarded-prefix",
	    "x-real-ip",
	};

	if (!wall_stands(WALL_CROSSING))
		return strcasecmp(name, "host") == 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	/* What members of a fleet say to each other names the caller and its key. */
	if (strncasecmp(name, FLEET_HEADER_PREFIX, strlen(FLEET_HEADER_PREFIX)) == 0)
		return true;
	/* Any other Authorization is for the server inside. */
	return strcasecmp(name, "authorization") == 0 && strncasecmp(value, "bearer", 6) == 0 &&
	       auth_is_credential(x->auth, value + 6 + strspn(value + 6, " \t"));
}

const char *port_path_of(const struct exchange *x)
{
	const char *p = http_request_path(x->relay.req);

	if (x->own_name)
		return p;
	for (unsigned slashes = 0; *p && (*p != '/' || slashes < 3); p++)
		slashes += *p == '/';
	return *p ? p : "/";
}

static int add_fields(struct exchange *x, struct buf *b)
{
	const char *name, *value;
	int r = 0;

	for (unsigned i = 0; r == 0 && http_request_field(x->relay.req, i, &name, &value); i++)
		if (!is_ours(x, name, value) && !relay_is_of_connection(name) &&
		    !relay_is_listed(x->relay.req, name))
			r = buf_printf(b, "%s: %s\r\n", name, value);
	return r;
}

/* Below a path of this server a cookie is one of this server. A name of its own has its own cookies, besides our pass. A
 * client that is no browser may send those of the page, too. */
static int add_cookies(struct exchange *x, struct buf *b)
{
	const char *p = x->own_name ? http_request_header(x->relay.req, "cookie") : NULL;
	const char *before = "Cookie: ";
	int r = 0;

	for (; r == 0 && p && *p; p += strcspn(p, ";")) {
		p += strspn(p, "; ");
		const size_t len = strcspn(p, ";");

		if (len == 0 || relay_is_our_cookie(p, len))
			continue;
		r = buf_printf(b, "%s%.*s", before, (int)len, p);
		before = "; ";
	}
	return r == 0 && before[0] == ';' ? buf_add_str(b, "\r\n") : r;
}

int port_find_name(const struct exchange *x, struct buf *ret)
{
	const int r = x->face ? x->face->name(x->face->user, x->id, x->port, ret) : 0;

	return r < 0 || ret->len > 0 ? r : buf_printf(ret, "localhost:%u", x->port);
}

static int add_forwarding(struct exchange *x, struct buf *b, const char *name)
{
	int r = relay_add_forwarded(x->relay.req, b);

	if (r == 0 && !x->own_name)
		r = buf_printf(b, "X-Forwarded-Prefix: %s\r\n", x->base);
	if (r == 0 && http_request_header(x->relay.req, "origin"))
		r = buf_printf(b, "Origin: http%s://%s\r\n", x->tls ? "s" : "", name);
	return r;
}

int port_write_request(struct exchange *x)
{
	const char *query = http_request_raw_query(x->relay.req);
	struct buf *b = &x->relay.out;
	_cleanup_(buf_done) struct buf name = BUF_INIT(HTTP_BASE_SIZE);
	int r = port_find_name(x, &name);

	r = r < 0 ? r
		  : buf_printf(b, "%s %s%s%s HTTP/1.1\r\nHost: %s\r\n",
			       http_method_name(http_request_method(x->relay.req)), port_path_of(x),
			       query ? "?" : "", query ? query : "", buf_str(&name));
	r = r < 0 ? r : add_fields(x, b);
	r = r < 0 ? r : add_cookies(x, b);
	r = r < 0 ? r : add_forwarding(x, b, buf_str(&name));
	/* The server is asked for one answer on this connection, so that it ends with it. */
	return r < 0 ? r : relay_add_framing(&x->relay, false);
}
