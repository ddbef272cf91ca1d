/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker gets of a request: all but what shows the caller to us, and who the caller is in our words. */
#include "fleet/router/parts.h"

#include "base/text.h"
#include "fleet/identity.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A server in a sandbox may have credentials of its own; what opens this server is none of them. In a request of a face that needs no
 * credential of ours, it names a user of the sandbox. */
static bool is_for_worker(const struct bound *b, const struct http_request *req, const char *value)
{
	if (b->place == PLACE_BOX)
		return strncasecmp(value, "basic ", 6) == 0;
	return (http_request_param(req, "port") || b->place == PLACE_NAME) &&
	       (strncasecmp(value, "bearer", 6) != 0 ||
		!auth_is_credential(b->router->config.auth, value + 6 + strspn(value + 6, " \t")));
}

/* A worker that is taken over must not learn credentials, nor may a client say what only a router may say. */
static bool is_ours(const char *name)
{
	static const char *const names[] = {
	    "host",
	    "proxy-authorization",
	    "cookie",
	    "x-api-key",
	    "x-caisson-page",
	    "origin",
	    "expect",
	    "forwarded",
	    "x-forwarded-for",
	    "x-forwarded-host",
	    "x-forwarded-proto",
	    "x-forwarded-prefix",
	    "x-real-ip",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return strncasecmp(name, FLEET_HEADER_PREFIX, strlen(FLEET_HEADER_PREFIX)) == 0;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	const char lower = (char)(c | 0x20);
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Has the pair of LEN bytes this name, in whatever way that is encoded? */
static bool has_name(const char *pair, size_t len, const char *name)
{
	const size_t name_len = strlen(name);
	const char *equals = memchr(pair, '=', len);
	const char *stop = equals ? equals : pair + len;
	size_t at = 0;

	for (const char *p = pair; p < stop; p++, at++) {
		int byte = (unsigned char)*p;

		if (*p == '%' && stop - p > 2) {
			byte = hex_value(p[1]) * 16 + hex_value(p[2]);
			p += 2;
		}
		if (at >= name_len || byte != name[at])
			return false;
	}
	return at == name_len;
}

static bool is_among(const char *pair, size_t len, const char *const *names)
{
	for (; *names; names++)
		if (has_name(pair, len, *names))
			return true;
	return false;
}

int hop_add_query(const struct http_request *req, const char *const *without, char before,
		  struct buf *b)
{
	int r = 0;

	for (const char *p = http_request_raw_query(req); r == 0 && p && *p;) {
		const size_t len = strcspn(p, "&");

		if (len > 0 && !is_among(p, len, without)) {
			r = buf_add_char(b, before);
			r = r < 0 ? r : buf_add(b, p, len);
			before = '&';
		}
		p += len + (p[len] == '&');
	}
	return r;
}

static enum fleet_how how_of(const struct caller *who)
{
	static const enum fleet_how hows[] = {
	    [CALLER_LOCAL] = FLEET_HOW_LOCAL,   [CALLER_STATIC_KEY] = FLEET_HOW_STATIC,
	    [CALLER_KEY] = FLEET_HOW_KEY,       [CALLER_TOKEN] = FLEET_HOW_TOKEN,
	    [CALLER_SIGNIN] = FLEET_HOW_SIGNIN,
	};

	return hows[who->how];
}

/* The settings of the router are the quota of those who have none of their own: a worker's are of that worker alone. */
static int64_t limit(int64_t n)
{
	return n < 0 || n > FLEET_NUMBER_MAX ? FLEET_NUMBER_MAX : n;
}

int hop_add_caller(struct fleet_router *f, const struct caller *who,
		   const struct fleet_use *elsewhere, struct buf *b)
{
	struct fleet_identity id = {.admin = who->admin,
				    .read_only = who->read_only,
				    .how = how_of(who),
				    .until_ms = who->until_ms,
				    .expires_ms = who->how == CALLER_KEY ? who->expires_ms : 0};
	struct store_quota q;
	char value[FLEET_CALLER_MAX + 1];
	struct err e = ERR_INIT;

	if (text_copy(id.owner, sizeof(id.owner), who->owner) < 0 ||
	    text_copy(id.name, sizeof(id.name), who->name) < 0 ||
	    text_copy(id.profile, sizeof(id.profile), who->profile) < 0 ||
	    text_copy(id.key_id, sizeof(id.key_id), who->how == CALLER_KEY ? who->key_id : "") <
		0 ||
	    text_copy(id.signin, sizeof(id.signin), who->signin) < 0 ||
	    text_copy(id.version, sizeof(id.version), who->version) < 0 ||
	    accounting_quota(f->config.accounting, who->owner, &q, &e) < 0)
		return -EINVAL;
	id.sandboxes = limit(q.sandboxes);
	id.cpu_s_per_day = limit(q.cpu_s_per_day);
	id.disk_bytes = limit(q.disk_bytes);
	id.runs_per_minute = limit(q.runs_per_minute);
	if (elsewhere) {
		id.says_elsewhere = true;
		id.elsewhere = *elsewhere;
	}
	const int r = fleet_identity_write(&id, value);
	return r < 0 ? r : buf_printf(b, "Caisson-Caller: %s\r\n", value);
}

/* A server in a sandbox that has a name has cookies of its own, besides the pass, which the worker judges. */
static int add_cookies(const struct http_request *req, struct buf *b)
{
	const char *before = "Cookie: ";
	int r = 0;

	for (const char *p = http_request_header(req, "cookie"); r == 0 && p && *p;
	     p += strcspn(p, ";")) {
		p += strspn(p, "; ");
		const size_t len = strcspn(p, ";");

		if (len == 0 || (relay_is_our_cookie(p, len) && !relay_is_pass(p, len)))
			continue;
		r = buf_printf(b, "%s%.*s", before, (int)len, p);
		before = "; ";
	}
	return r == 0 && before[0] == ';' ? buf_add_str(b, "\r\n") : r;
}

/* What only a request to the name of a port has. */
static int add_name(const struct bound *at, const struct http_request *req, struct buf *b)
{
	int r = buf_printf(b, HTTP_PORT_DOMAIN_HEADER ": %s\r\n", at->router->config.port_domain);

	return r < 0 || at->place != PLACE_NAME ? r : add_cookies(req, b);
}

/* Browsers send their sign-in with the WebSocket of any page: the worker judges whose page it is (may_attach()). Of other requests the
 * router has judged that itself, by a field that no page of others can add. */
static int add_origin(const struct bound *at, const struct http_request *req, struct buf *b)
{
	const char *origin = http_request_header(req, "origin");

	if (!origin || (at->place != PLACE_NAME && !http_request_wants_socket(req)))
		return 0;
	return buf_printf(b, "Origin: %s\r\n", origin);
}

/* Links in answers begin with the address by which clients find this router. */
static int add_forwarded(const struct fleet_router *f, const struct http_request *req,
			 struct buf *b)
{
	char base[HTTP_BASE_SIZE];
	const char *at = http_request_base(req, base) ? base : f->config.public_origin;
	const char *host = at && *at ? strstr(at, "://") : NULL;

	if (!host)
		return relay_add_forwarded(req, b);
	host += strlen("://");
	return relay_add_forwarded_as(req, host, strcspn(host, "/"),
				      strncasecmp(at, "https:", 6) == 0, b);
}

int hop_write_fields(const struct bound *at, const struct http_request *req,
		     const struct caller *who, const struct worker *w, const char *without,
		     struct buf *b)
{
	struct fleet_router *f = at->router;
	char prefix[HTTP_PREFIX_MAX + 1];
	const char *name, *value, *host = http_request_header(req, "host");
	int r = buf_printf(b, "Host: %s\r\n", host ? host : w->at.text);

	for (unsigned i = 0; r == 0 && http_request_field(req, i, &name, &value); i++)
		if ((strcasecmp(name, "authorization") == 0 ? is_for_worker(at, req, value)
							    : !is_ours(name)) &&
		    !relay_is_of_connection(name) && !relay_is_listed(req, name) &&
		    !(without && strcasecmp(name, without) == 0))
			r = buf_printf(b, "%s: %s\r\n", name, value);
	r = r < 0 ? r : add_forwarded(f, req, b);
	r = r < 0 ? r : add_origin(at, req, b);
	if (r == 0 && http_request_is_of_port(req))
		r = add_name(at, req, b);
	http_request_prefix(req, prefix);
	if (r == 0 && prefix[0])
		r = buf_printf(b, "X-Forwarded-Prefix: %s\r\n", prefix);
	return r < 0 || !who ? r : hop_add_caller(f, who, NULL, b);
}

int hop_write_head(const struct bound *at, const struct http_request *req, const struct worker *w,
		   enum http_method method, struct buf *b)
{
	static const char *const keys[] = {"api_key", NULL};
	int r = buf_printf(b, "%s %s", http_method_name(method), http_request_path(req));

	r = r < 0 ? r : hop_add_query(req, keys, '?', b);
	r = r < 0 ? r : buf_add_str(b, " HTTP/1.1\r\n");
	return r < 0 ? r : hop_write_fields(at, req, NULL, w, NULL, b);
}

int hop_add_body(struct relay *x, const struct buf *body)
{
	const bool chunk = x->chunked && body->len > 0;

	int r = chunk ? buf_printf(&x->out, "%zx\r\n", body->len) : 0;
	r = r < 0 ? r : buf_add(&x->out, body->data, body->len);
	if (r < 0 || !x->chunked)
		return r;
	return buf_printf(&x->out, "%s0\r\n\r\n", chunk ? "\r\n" : "");
}
