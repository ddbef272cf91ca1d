/* SPDX-License-Identifier: Apache-2.0 */
/* Which fields of a worker's answer the client gets. A worker that somebody has taken over must not act in a browser as this server,
 * nor lead clients, which repeat their keys, to another place. */
#include "fleet/router/parts.h"

#include "base/text.h"
#include "transport/cors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Whatever a worker sends as a page has an origin of its own: it reaches neither the API nor what a browser keeps for this server.
 * CSP Level 3, `sandbox`. */
#define POLICY "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"

/* What would act on all of this server, or as this server, in a browser. */
static bool is_for_router(const char *name)
{
	static const char *const names[] = {
	    "date",       "set-cookie", "strict-transport-security", "alt-svc",
	    "nel",        "report-to",  "service-worker-allowed",    "clear-site-data",
	    "x-sendfile", "refresh",    "www-authenticate",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	/* Which pages may read an answer is the router's to say: the worker has not heard Origin. */
	return strncasecmp(name, "access-control-", 15) == 0 ||
	       strncasecmp(name, "x-accel-", 8) == 0 || strncasecmp(name, "caisson-", 8) == 0;
}

/* Does PATH stay where it begins? Clients take "\" for "/", "%2e" for ".", and leave blanks and control characters out. */
static bool is_plain_path(const char *path)
{
	const size_t len = strcspn(path, "?#");

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)path[i] <= ' ' || path[i] == '\\' ||
		    strncmp(path + i, "..", 2) == 0 || strncasecmp(path + i, "%2e", 3) == 0)
			return false;
	return true;
}

/* What follows "http://HOST", where HOST is the name that the client has used for this server; else VALUE. */
static const char *without_host(const struct http_request *req, const char *value)
{
	const char *host = http_request_header(req, "host");
	const size_t scheme = strncasecmp(value, "https://", 8) == 0  ? 8
			      : strncasecmp(value, "http://", 7) == 0 ? 7
								      : 0;
	const size_t len = host ? strlen(host) : 0;

	return scheme > 0 && len > 0 && strncasecmp(value + scheme, host, len) == 0 &&
		       value[scheme + len] == '/'
		   ? value + scheme + len
		   : value;
}

/* Where the Location VALUE of a port leads, as long as that is below the address of the port; NULL: to another place. */
static const char *within_port(const struct http_request *req, const char *value)
{
	const char *sandbox = http_request_param(req, "sandbox");
	const char *port = http_request_param(req, "port");
	const char *to = without_host(req, value);
	char prefix[HTTP_PREFIX_MAX + 1], base[HTTP_PREFIX_MAX + 256];

	if (!sandbox || !port || !is_plain_path(to))
		return NULL;
	http_request_prefix(req, prefix);
	const int len = snprintf(base, sizeof(base), "%s/p/%s/%s/", prefix, sandbox, port);
	if (len < 0 || (size_t)len >= sizeof(base))
		return NULL;
	if (strncmp(to, base, (size_t)len) == 0)
		return to;
	/* relative to the path that was asked for, which is below BASE unless the "/" is missing */
	const bool relative = to[0] != '/' && to[strcspn(to, ":/?#")] != ':';
	return relative && http_request_param(req, "path") ? to : NULL;
}

/* The value of the field for the client; NULL: the client does not get it. */
static const char *value_of(const struct http_request *req, const struct relay_reply *reply,
			    const char *name, const char *value)
{
	const bool leads = strcasecmp(name, "location") == 0;

	if (is_for_router(name))
		return NULL;
	if (http_request_param(req, "port")) {
		if (leads || strcasecmp(name, "content-location") == 0)
			return within_port(req, value);
		return strcasecmp(name, "content-security-policy") == 0 && streq(value, POLICY)
			   ? NULL
			   : value;
	}
	/* Workers redirect nobody outside of ports; with 201 it is the address of what was made. */
	if (leads && reply->status / 100 == 3)
		return NULL;
	return strcasecmp(name, "x-content-type-options") == 0 ? NULL : value;
}

/* A name of a port is an origin of its own, in which its server may do what it likes, but not to other names of the domain. */
static int add_fields_of_name(struct http_request *req, const struct relay_reply *reply)
{
	static const char *const names[] = {
	    "strict-transport-security", "alt-svc", "date", "nel", "report-to", "x-sendfile"};
	int r = 0;

	for (unsigned i = 0; r == 0 && i < reply->n_fields; i++) {
		const char *name = reply->fields[i].name, *value = reply->fields[i].value;
		bool drop =
		    strncasecmp(name, "x-accel-", 8) == 0 || strncasecmp(name, "caisson-", 8) == 0;

		for (size_t j = 0; j < ARRAY_SIZE(names); j++)
			drop = drop || strcasecmp(name, names[j]) == 0;
		if (drop)
			continue;
		if (strcasecmp(name, "set-cookie") != 0) {
			r = http_add_header(req, name, value);
			continue;
		}
		/* Browsers send "=NAME=VALUE" back as "NAME=VALUE" (RFC 6265bis §5.6). */
		const char *pair = value + strspn(value, "= \t");
		const size_t len = strcspn(pair, ";");
		if (!relay_is_our_cookie(pair, len) || relay_is_pass(pair, len))
			r = relay_add_cookie(req, value);
	}
	return r;
}

int hop_add_fields(const struct bound *b, struct http_request *req, const struct relay_reply *reply)
{
	if (b->place == PLACE_NAME)
		return add_fields_of_name(req, reply);
	int r = http_add_header(req, "Content-Security-Policy", POLICY);

	for (unsigned i = 0; r == 0 && i < reply->n_fields; i++) {
		const char *name = reply->fields[i].name;
		const char *value = value_of(req, reply, name, reply->fields[i].value);

		if (value)
			r = http_add_header(req, name, value);
	}
	/* Servers in sandboxes may depend on what browsers guess; nothing else may. */
	if (r == 0 && !http_request_param(req, "port"))
		r = http_add_header(req, "X-Content-Type-Options", "nosniff");
	if (r == 0 && bound_is_mcp(b))
		cors_add(req);
	return r;
}
