/* SPDX-License-Identifier: Apache-2.0 */
/* The accessors of a request that handlers use. */
#include "http/connection.h"

#include "base/text.h"
#include "base/walls.h"
#include "http/client_address.h"
#include "http/forwarded.h"
#include "http/host_header.h"
#include "http/socket_address.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define FORWARDED_VALUE_SIZE 300u /* of a host name and a port */

const char *http_request_path(const struct http_request *req)
{
	return req->text + req->head.target;
}

const char *http_request_param(const struct http_request *req, const char *name)
{
	const size_t len = strlen(name);

	for (unsigned i = 0; i < req->match.n_params; i++)
		if (req->match.params[i].name_len == len &&
		    memcmp(req->match.params[i].name, name, len) == 0)
			return req->match.params[i].value;
	return NULL;
}

const char *http_request_header(const struct http_request *req, const char *name)
{
	return http_head_get(req->text, &req->head, name);
}

const char *http_request_query(const struct http_request *req, const char *name)
{
	for (unsigned i = 0; i < req->n_query; i++)
		if (streq(req->query[i].name, name))
			return req->query[i].value;
	return NULL;
}

const char *http_request_raw_query(const struct http_request *req)
{
	return req->raw_query;
}

bool http_request_field(const struct http_request *req, unsigned i, const char **ret_name,
			const char **ret_value)
{
	if (i >= req->head.n_fields)
		return false;
	*ret_name = req->text + req->head.fields[i].name;
	*ret_value = req->text + req->head.fields[i].value;
	return true;
}

/* ---- media types ---- */

bool http_request_content_type_is(const struct http_request *req, const char *type)
{
	const char *value = http_request_header(req, "content-type");
	const size_t len = strlen(type);

	if (!value || strncasecmp(value, type, len) != 0)
		return false;
	value += len + strspn(value + len, " \t");
	return *value == '\0' || *value == ';';
}

/* Does one element of an Accept list cover TYPE? Parameters are ignored, except q=0. */
static bool range_covers(const char *range, size_t len, const char *type)
{
	const char *semi = memchr(range, ';', len);
	const char *slash = strchr(type, '/');
	size_t n = semi ? (size_t)(semi - range) : len;
	const size_t major = (size_t)(slash - type) + 1;

	if (semi) {
		const char *q = semi + 1 + strspn(semi + 1, " \t");

		if (strncasecmp(q, "q=0", 3) == 0 && strspn(q + 3, ".0") == strcspn(q + 3, ",; \t"))
			return false;
	}
	while (n > 0 && (range[n - 1] == ' ' || range[n - 1] == '\t'))
		n--;
	if (n == strlen(type) && strncasecmp(range, type, n) == 0)
		return true;
	if (n < 3 || range[n - 1] != '*')
		return false;
	return (n == 3 && range[0] == '*') ||
	       (n == major + 1 && strncasecmp(range, type, major) == 0);
}

static bool accepts(const struct http_request *req, const char *type)
{
	const char *p;

	for (unsigned i = 0; i < req->head.n_fields; i++) {
		if (strcasecmp(req->text + req->head.fields[i].name, "accept") != 0)
			continue;
		p = req->text + req->head.fields[i].value;
		for (p += strspn(p, ", \t"); *p; p += strspn(p, ", \t")) {
			const size_t len = strcspn(p, ",");

			if (range_covers(p, len, type))
				return true;
			p += len;
		}
	}
	return false;
}

bool http_request_accepts(const struct http_request *req, const char *type)
{
	return !http_request_header(req, "accept") || accepts(req, type);
}

/* ---- body, peer, names ---- */

const char *http_request_body(const struct http_request *req, size_t *ret_len)
{
	if (ret_len)
		*ret_len = req->body.whole.len;
	return buf_str(&req->body.whole);
}

uint64_t http_request_body_length(const struct http_request *req)
{
	if (req->head.framing == HTTP_BODY_CHUNKED)
		return UINT64_MAX;
	return req->head.framing == HTTP_BODY_LENGTH ? req->head.content_length : 0;
}

static void format_peer(const struct http_request *req, char *ret, size_t size)
{
	const struct http_proxies *proxies = req->conn->server->cfg.proxies;
	union http_address peer, client;
	char text[HTTP_ADDRESS_TEXT];

	if (!http_address_peer(req->conn->io.fd, &peer)) {
		(void)snprintf(ret, size, "gone");
	} else if (http_peer_is_trusted(req, &peer, proxies) &&
		   http_client_address(req, &peer, proxies, &client)) {
		http_address_text(&client, text);
		(void)snprintf(ret, size, "%s", text);
	} else {
		http_address_text(&peer, text);
		(void)snprintf(ret, size, "%s:%u", text, http_address_port(&peer));
	}
}

bool http_request_network(const struct http_request *req, char *ret)
{
	const struct http_proxies *proxies = req->conn->server->cfg.proxies;
	union http_address peer, client;

	if (!(http_request_is_by_member(req) || (proxies && proxies->n > 0)) ||
	    !http_address_peer(req->conn->io.fd, &peer) ||
	    !http_client_address(req, &peer, proxies, &client))
		return false;
	http_network_text(&client, ret);
	return true;
}

const char *http_request_payer(const struct http_request *req)
{
	return req->conn->who;
}

const char *http_request_peer(const struct http_request *req)
{
	/* Built at the first call, because most requests never need it. */
	struct http_request *mut = req->conn->req;

	if (mut && *mut->peer == '\0')
		format_peer(req, mut->peer, sizeof(mut->peer));
	return req->peer;
}

unsigned http_request_route_flags(const struct http_request *req)
{
	return req->match.row ? req->match.row->flags : 0;
}

enum http_method http_request_method(const struct http_request *req)
{
	return req->head.method;
}

bool http_request_is_of_port(const struct http_request *req)
{
	return req->of_port;
}

bool http_request_is_by_member(const struct http_request *req)
{
	return req->conn->scopes & HTTP_SCOPE_MEMBERS;
}

static bool is_by_proxy(const struct http_request *req)
{
	union http_address peer;

	return http_address_peer(req->conn->io.fd, &peer) &&
	       http_peer_is_trusted(req, &peer, req->conn->server->cfg.proxies);
}

/* What the proxy says about its client, in its own header or in Forwarded. NULL: nothing. */
static const char *said_by_proxy(const struct http_request *req, const char *header,
				 const char *parameter, char buf[FORWARDED_VALUE_SIZE])
{
	const char *own = http_request_header(req, header);

	if (own)
		return own;
	return http_forwarded_value(req, parameter, buf, FORWARDED_VALUE_SIZE) ? buf : NULL;
}

/* Several proxies make a list; the first one is what the client used. */
static size_t first_len(const char *list)
{
	return list ? strcspn(list, ", \t") : 0;
}

static bool is_https(const char *proto)
{
	return first_len(proto) == 5 && strncasecmp(proto, "https", 5) == 0;
}

bool http_request_came_by_https(const struct http_request *req)
{
	char buf[FORWARDED_VALUE_SIZE];

	if (req->conn->io.tls && !http_request_is_by_member(req))
		return true;
	return is_https(said_by_proxy(req, "x-forwarded-proto", "proto", buf)) && is_by_proxy(req);
}

bool http_request_is_https(const struct http_request *req)
{
	static const char scheme[] = "https://";
	const char *ours = req->conn->server->cfg.public_origin;
	const char *host = http_request_header(req, "host");

	if (http_request_came_by_https(req))
		return true;
	/* A proxy that does not say so; the server's own address, beside it, is one of http. */
	return ours && host && strncasecmp(ours, scheme, sizeof(scheme) - 1) == 0 &&
	       strcasecmp(ours + sizeof(scheme) - 1, host) == 0;
}

bool http_request_is_same_origin(const struct http_request *req)
{
	const char *site = http_request_header(req, "sec-fetch-site");
	const char *origin = http_request_header(req, "origin");
	const char *host = http_request_header(req, "host");

	if (site && strcasecmp(site, "same-origin") != 0)
		return false;
	if (!origin)
		return site != NULL;
	/* Whoever controls the network can put any page at the http:// address of our name. */
	if (http_origin_is_plain(origin) && http_request_is_https(req) && wall_stands(WALL_SCHEME))
		return false;
	const char *name = strstr(origin, "://");
	return name && host && strcasecmp(name + strlen("://"), host) == 0;
}

void http_prefix_of(const char *path, char ret[HTTP_PREFIX_MAX + 1])
{
	static const char may[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%/";
	size_t len = strnlen(path, HTTP_PREFIX_MAX + 1);

	while (len > 0 && path[len - 1] == '/')
		len--;
	/* "//host" is an address of another server. */
	if (len > HTTP_PREFIX_MAX || path[0] != '/' || strspn(path, may) < len ||
	    strstr(path, "//"))
		len = 0;
	memcpy(ret, path, len);
	ret[len] = '\0';
}

void http_request_prefix(const struct http_request *req, char ret[HTTP_PREFIX_MAX + 1])
{
	const struct http_config *cfg = &req->conn->server->cfg;
	const char *said = http_request_header(req, "x-forwarded-prefix");

	if (!said || !is_by_proxy(req))
		said = cfg->prefix ? cfg->prefix : "";
	http_prefix_of(said, ret);
}

static bool read_host(const struct http_request *req, const char *value, const char *local,
		      struct http_host *ret)
{
	const size_t len = first_len(value);

	return len > 0 && http_host_parse(value, len, ret) == 0 &&
	       (http_request_is_by_member(req) ||
		http_host_is_ours(ret, local, req->conn->server->cfg.hosts));
}

/* The host that the client used; SAID: what the proxy says of it, or NULL. A name that is not ours is no better here than
 * in Host: many proxies pass on whatever X-Forwarded-Host or Forwarded their client invented. */
static bool client_host(const struct http_request *req, const char *said, struct http_host *ret)
{
	union http_address address;
	char local[HTTP_ADDRESS_TEXT] = "";
	unsigned port = 0;

	if (http_address_local(req->conn->io.fd, &address)) {
		http_address_text(&address, local);
		port = http_address_port(&address);
	}
	if (read_host(req, said, local, ret))
		return true;
	/* Our own address in Host is the one that the proxy used. */
	return read_host(req, http_request_header(req, "host"), local, ret) &&
	       (ret->port != port || !http_host_is_ours(ret, local, NULL));
}

/* A client that has come by TLS has written a name that is ours. */
static bool direct_base(const struct http_request *req, char ret[HTTP_BASE_SIZE])
{
	const char *origin = req->conn->server->cfg.public_origin;
	const char *host = http_request_header(req, "host");

	if (!req->conn->io.tls || http_request_is_by_member(req) || !host || (origin && *origin))
		return false;
	return snprintf(ret, HTTP_BASE_SIZE, "https://%s", host) < HTTP_BASE_SIZE;
}

bool http_request_base(const struct http_request *req, char ret[HTTP_BASE_SIZE])
{
	const char *origin = req->conn->server->cfg.public_origin;
	char proto_buf[FORWARDED_VALUE_SIZE], host_buf[FORWARDED_VALUE_SIZE];
	const char *proto = said_by_proxy(req, "x-forwarded-proto", "proto", proto_buf);
	const char *name = said_by_proxy(req, "x-forwarded-host", "host", host_buf);
	const bool has_prefix = http_request_header(req, "x-forwarded-prefix") != NULL;
	char prefix[HTTP_PREFIX_MAX + 1], port[16] = "";
	struct http_host host;
	int n;

	if (!(proto || has_prefix || name) || !is_by_proxy(req))
		return direct_base(req, ret);
	http_request_prefix(req, prefix);
	if (origin && *origin) {
		n = snprintf(ret, HTTP_BASE_SIZE, "%s%s", origin, prefix);
		return has_prefix && n < HTTP_BASE_SIZE;
	}
	if (!client_host(req, name, &host))
		return false;
	if (host.port)
		(void)snprintf(port, sizeof(port), ":%u", host.port);
	n = snprintf(ret, HTTP_BASE_SIZE, "%s://%.*s%s%s", is_https(proto) ? "https" : "http",
		     (int)host.len, host.name, port, prefix);
	return n < HTTP_BASE_SIZE;
}

const char *http_request_origin(const struct http_request *req)
{
	return req->origin;
}

void http_request_set_principal(struct http_request *req, const char *principal)
{
	const size_t n = strnlen(principal, sizeof(req->principal) - 1);

	memcpy(req->principal, principal, n);
	req->principal[n] = '\0';
}

const char *http_request_principal(const struct http_request *req)
{
	return req->principal;
}

void http_request_set_caller(struct http_request *req, void *caller, void (*unref)(void *caller))
{
	if (req->caller_unref)
		req->caller_unref(req->caller);
	req->caller = caller;
	req->caller_unref = unref;
}

void *http_request_caller(const struct http_request *req)
{
	return req->caller;
}
