/* SPDX-License-Identifier: Apache-2.0 */
#include "api/files/links.h"
#include "api/files/upload_links.h"

#include "base/log.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "fleet/ids.h"

#include <sodium.h>
#include <string.h>

#define NEVER         UINT64_C(0) /* as the end of a link */
#define SIGNATURE_LEN 16          /* bytes */
#define BASE_MAX      1100
#define TYPE_MAX      200

struct links {
	struct links_config config;
	struct http_server *own; /* made here if config.http is NULL */
	bool bound;
	bool failed;       /* logged once; from then on there are no links */
	struct auth *auth; /* borrowed; NULL: only signatures count */
	char base[BASE_MAX];
	char main[BASE_MAX]; /* base URL of the main server; "" = there is none */
	uint8_t key[crypto_generichash_KEYBYTES];
	struct upload_links *uploads; /* owned */
};

/* Content security policy for types that a browser runs as a page. Self-contained pages work
 * (plotly writes its library and its data into the file), but their origin is opaque: they cannot
 * reach cookies or storage of this server, or any other page. They load only from their own text
 * and from data: and blob: URLs. Requests, forms, popups, frames of other
 * sites and plug-ins are refused; WebRTC only by browsers that know the directive of CSP Level 3 (Chromium
 * does not). No header can keep a page from navigating to another address by itself. */
#define PAGE_POLICY                                                                                \
	"sandbox allow-scripts; default-src 'none'; "                                              \
	"script-src 'unsafe-inline' 'unsafe-eval' data: blob:; style-src 'unsafe-inline' data: "   \
	"blob:; img-src data: blob:; font-src data: blob:; media-src data: blob:; "                \
	"connect-src data: blob:; worker-src data: blob:; base-uri 'none'; form-action 'none'; "   \
	"webrtc 'block'"

/* Types that a browser runs as a page. */
static const char *const active_types[] = {
    "text/html", "image/svg+xml", "application/xhtml+xml", "text/xml", "application/xml",
};

/* ---- signatures ---- */

static void sign(const struct links *l, uint64_t expires, const char *owner, const char *session,
		 const char *path, char ret[SIGNATURE_LEN * 2 + 1])
{
	crypto_generichash_state state;
	uint8_t mac[SIGNATURE_LEN];
	const char *const parts[] = {owner, session, path};

	(void)crypto_generichash_init(&state, l->key, sizeof(l->key), sizeof(mac));
	(void)crypto_generichash_update(&state, (const uint8_t *)&expires, sizeof(expires));
	/* Each part includes its NUL, so no two different triples give the same bytes. */
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		(void)crypto_generichash_update(&state, (const uint8_t *)parts[i],
						strlen(parts[i]) + 1);
	(void)crypto_generichash_final(&state, mac, sizeof(mac));
	text_hex(mac, sizeof(mac), ret);
	fleet_id_mark(l->config.fleet, ret); /* 96 bits of it are left */
}

bool links_expire(void *links, const char *owner, const char *session, uint64_t *ret)
{
	const struct links *l = links;
	struct err e = ERR_INIT;

	/* Without authentication everybody is the local user, but a user's files are still private. */
	if (!l->config.sign && !owner[0])
		return false;
	bool stored = manager_get_stored(l->config.manager, owner, session, NULL, &e) == 1;
	uint64_t life_s = stored ? l->config.stored_life_s : l->config.life_s;
	*ret = life_s > 0 ? now_wall_ns() / NS_PER_S + life_s : NEVER;
	return true;
}

void links_query(const void *links, uint64_t expires, const char *owner, const char *session,
		 const char *path, char *ret)
{
	char signature[SIGNATURE_LEN * 2 + 1];

	sign(links, expires, owner, session, path, signature);
	(void)snprintf(ret, LINKS_QUERY_SIZE, "?e=%ju&s=%s", (uintmax_t)expires, signature);
}

static bool is_signed(const struct links *l, struct http_request *req, const char *owner,
		      const char *session, const char *path)
{
	const char *e = http_request_query(req, "e"), *s = http_request_query(req, "s");
	char signature[SIGNATURE_LEN * 2 + 1];
	uint64_t expires;

	if (!e || !s || parse_u64(e, 0, UINT64_MAX, &expires) < 0 ||
	    (expires != NEVER && expires < now_wall_ns() / NS_PER_S) ||
	    strlen(s) != sizeof(signature) - 1)
		return false;
	sign(l, expires, owner, session, path, signature);
	return sodium_memcmp(s, signature, sizeof(signature) - 1) == 0;
}

struct owner_search {
	const struct links *links;
	struct http_request *req;
	const char *session;
	const char *path;
	char *ret;
	bool found;
};

static void try_owner(struct sandbox *s, void *user)
{
	struct owner_search *o = user;

	if (o->found || !streq(sandbox_id(s), o->session) ||
	    !is_signed(o->links, o->req, sandbox_owner(s), o->session, o->path))
		return;
	(void)!text_copy(o->ret, SANDBOX_OWNER_MAX + 1, sandbox_owner(s));
	o->found = true;
}

/* Does the request bring a key or a token? Then its caller is the owner. Nobody is known by the place
 * that a request comes from. A browser that is signed in may open the link of another user, so a cookie does not count, be it here
 * or at a router. */
static bool is_callers(const struct links *l, struct http_request *req, char *ret)
{
	const bool says = http_request_key(req) || http_request_is_by_member(req);
	const struct caller *who = l->auth && says ? auth_identify(l->auth, req) : NULL;

	if (!who || who->how == CALLER_LOCAL || who->how == CALLER_SIGNIN)
		return false;
	(void)!text_copy(ret, SANDBOX_OWNER_MAX + 1, who->owner);
	return true;
}

void links_set_auth(struct links *l, struct auth *auth)
{
	l->auth = auth;
}

/* Links of a user who was removed or is not active are not valid. */
static bool may_show(struct links *l, const char *owner)
{
	struct store_user u;
	struct err e = ERR_INIT;

	return !owner[0] ||
	       (l->config.store && store_user_get(l->config.store, owner, &u, &e) == 1 && u.active);
}

/* The id alone does not identify the sandbox: two owners may use the same id. */
bool links_find_owner(struct links *l, struct http_request *req, const char *session,
		      const char *path, char *ret)
{
	struct owner_search o = {
	    .links = l, .req = req, .session = session, .path = path, .ret = ret};
	struct sandbox_record record;
	struct err e = ERR_INIT;

	ret[0] = '\0';
	if (is_callers(l, req, ret))
		return true;
	if ((!l->config.sign && !http_request_query(req, "s")) ||
	    is_signed(l, req, "", session, path))
		return true;
	manager_each(l->config.manager, NULL, try_owner, &o);
	if (!o.found && manager_get_stored(l->config.manager, NULL, session, &record, &e) > 0 &&
	    is_signed(l, req, record.owner, session, path)) {
		memcpy(ret, record.owner, sizeof(record.owner));
		o.found = true;
	}
	return o.found && may_show(l, ret);
}

struct manager *links_manager(struct links *l)
{
	return l->config.manager;
}

/* ---- the route ---- */

struct download {
	struct http_request *req; /* NULL: the client has disconnected */
	uint64_t max_bytes;
	char path[ENGINE_PATH_MAX];
	char session[SANDBOX_ID_MAX + 1];
	char owner[SANDBOX_OWNER_MAX + 1];
};

/* Answers with the three texts; NAME may have any bytes. */
static void respond_text(struct http_request *req, int status, const char *name, const char *before,
			 const char *after)
{
	char text[ENGINE_PATH_MAX + 192];

	if (!text_is_utf8(name, strlen(name)))
		name = "(not UTF-8)";
	(void)snprintf(text, sizeof(text), "%s%s%s", before, name, after);
	http_respond_text(req, status, "text/plain; charset=utf-8", text);
}

static void not_found(struct http_request *req, const char *what, const char *name)
{
	respond_text(req, 404, name, what, "");
}

static void on_gone(void *user)
{
	struct download *d = user;

	d->req = NULL;
}

static bool is_active(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(active_types); i++)
		if (streq(active_types[i], type))
			return true;
	return text_ends_with(type, "+xml");
}

void files_add_policy(struct http_request *req, const char *type)
{
	if (!is_active(type))
		return;
	(void)http_add_header(req, "Content-Security-Policy", PAGE_POLICY);
	/* The link may carry a signature, which no other site may see. */
	(void)http_add_header(req, "Referrer-Policy", "no-referrer");
	/* A host name that the browser looks up would leak data, too. */
	(void)http_add_header(req, "X-DNS-Prefetch-Control", "off");
}

void files_respond(struct http_request *req, int fd, const struct engine_file *info,
		   const char *owner)
{
	const char *type = mime_type(info->name);
	char full_type[TYPE_MAX], etag[96];

	(void)snprintf(full_type, sizeof(full_type), "%s%s", type,
		       text_starts_with(type, "text/") ? "; charset=utf-8" : "");
	/* Programs may set mtime back, as `cp -p` does; no program can choose ctime. */
	(void)snprintf(etag, sizeof(etag), "\"%jx-%jx-%jx-%jx\"", (uintmax_t)info->inode,
		       (uintmax_t)info->size, (uintmax_t)info->mtime_ns, (uintmax_t)info->ctime_ns);
	/* The next run may write the file again: a cache asks each time, and ETag spares the bytes. */
	(void)http_add_header(req, "Cache-Control", "no-cache");
	files_add_policy(req, type);
	struct http_file file = {
	    .size = info->size,
	    .type = full_type,
	    .etag = etag,
	    .mtime_s = info->mtime_ns / (int64_t)NS_PER_S,
	    .name = info->name,
	    .payer = owner,
	};
	http_respond_file(req, fd, &file);
}

static void respond(struct download *d, int fd, const struct engine_file *info)
{
	char text[128];

	if (info->size > d->max_bytes) {
		workers_close(d->owner, fd);
		(void)snprintf(text, sizeof(text), " is %juMB, exceeds %juMB limit.",
			       (uintmax_t)(info->size >> 20), (uintmax_t)(d->max_bytes >> 20));
		respond_text(d->req, 413, info->name, "", text);
		return;
	}
	LOG_INFO("artifact_download", LOG_S("session_id", d->session), LOG_S("filename", d->path),
		 LOG_U("size_bytes", info->size));
	files_respond(d->req, fd, info, d->owner);
}

static void on_open(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct download *d = user;

	if (!d->req)
		workers_close(d->owner, fd);
	else if (e)
		not_found(d->req, "No artifact at /mnt/data/", d->path);
	else
		respond(d, fd, info);
	free(d);
}

static void on_sandbox(struct sandbox *s, const struct err *e, void *user)
{
	struct download *d = user;
	struct err error = ERR_INIT;

	if (d->req && s && sandbox_open_file(s, d->path, on_open, d, &error) == 0)
		return;
	if (d->req && e)
		not_found(d->req, "No active session with id ", d->session);
	else if (d->req)
		not_found(d->req, "No artifact at /mnt/data/", d->path);
	free(d);
}

static void get_file(struct http_request *req, void *user)
{
	struct links *l = user;
	const char *session = http_request_param(req, "session");
	const char *name = http_request_param(req, "name");
	struct err e = ERR_INIT;
	char path[ENGINE_PATH_MAX];

	char owner[SANDBOX_OWNER_MAX + 1];

	if (!links_find_owner(l, req, session, name, owner)) {
		http_respond_text(req, 403, "text/plain; charset=utf-8",
				  "This link has expired, or is not complete.");
		return;
	}
	if (name[0] == '/' || workspace_path(name, strlen(name), true, path, &e) < 0 ||
	    !streq(path, name)) {
		not_found(req, "No artifact at /mnt/data/", name);
		return;
	}
	struct download *d = calloc(1, sizeof(*d));
	if (!d) {
		http_respond_text(req, 503, "text/plain; charset=utf-8", "no memory");
		return;
	}
	d->req = req;
	d->max_bytes = l->config.max_bytes;
	memcpy(d->path, path, sizeof(path));
	memcpy(d->owner, owner, sizeof(owner));
	(void)snprintf(d->session, sizeof(d->session), "%s", session);
	http_request_on_gone(req, on_gone, d);
	manager_activate(l->config.manager, owner, d->session, on_sandbox, d);
}

static const struct http_route routes[] = {
    {HTTP_GET | HTTP_HEAD, "/files/{session}/{name...}", get_file, HTTP_ROUTE_QUERY_KEY, 0},
    {HTTP_GET | HTTP_HEAD, "/sandbox/file", links_get_sandbox_file, HTTP_ROUTE_QUERY_KEY, 0},
};

/* ---- listener ---- */

int links_new(const struct links_config *config, struct links **ret, struct err *e)
{
	struct links *l = calloc(1, sizeof(*l));

	if (!l)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "artifact links");
	l->config = *config;
	/* With a store, links survive a restart of the server. */
	if (config->store) {
		int r = store_secret(config->store, "links", l->key, e);
		if (r < 0) {
			free(l);
			return r;
		}
	} else {
		rand_bytes(l->key, sizeof(l->key));
	}
	const struct upload_links_config uploads = {
	    .manager = config->manager,
	    .budgets = config->budgets,
	    .max_bytes = config->upload_max_bytes,
	    .life_ns = config->upload_life_s * NS_PER_S,
	    .fleet = config->fleet,
	};
	l->uploads = upload_links_new(&uploads);
	if (!l->uploads) {
		free(l);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "upload links");
	}
	if (*config->public_url) {
		(void)snprintf(l->base, sizeof(l->base), "%s", config->public_url);
		size_t len = strlen(l->base);
		while (len > 0 && l->base[len - 1] == '/')
			l->base[--len] = '\0';
	}
	*ret = l;
	return 0;
}

void links_forget(struct links *l, const char *owner)
{
	upload_links_forget(l->uploads, owner);
}

struct links *links_free(struct links *l)
{
	if (!l)
		return NULL;
	(void)http_server_free(l->own);
	l->uploads = upload_links_free(l->uploads);
	free(l);
	return NULL;
}

int links_add_routes(struct links *l, struct http_server *http, unsigned scopes, struct err *e)
{
	int r = http_server_add_routes(http, routes, ARRAY_SIZE(routes), scopes, l);

	r = r < 0 ? r : upload_links_add_routes(l->uploads, http, scopes);
	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "the route of artifact links") : 0;
}

int links_listen(struct links *l, struct err *e)
{
	struct http_server *http = l->config.http;
	struct http_listener *listener;
	uint16_t port = (uint16_t)l->config.port;

	if (l->bound || l->config.port == LINKS_PORT_OFF)
		return 0;
	if (!http && !l->own) {
		struct http_config config = {0};
		int r = http_server_new(l->config.loop, &config, &l->own);
		if (r < 0)
			return err_set(e, ERR_SYSTEM, -r, "the server of artifact links");
		r = links_add_routes(l, l->own, HTTP_SCOPE_LINKS, e);
		if (r < 0)
			return r;
	}
	http = http ? http : l->own;
	/* The link says localhost, which may be either loopback address for the client. */
	const char *host = streq(l->config.host, "127.0.0.1") ? "localhost" : l->config.host;
	int r = http_server_listen(http, host, port, HTTP_SCOPE_LINKS, &port, &listener, e);
	if (r == -EADDRINUSE)
		r = http_server_listen(http, host, 0, HTTP_SCOPE_LINKS, &port, &listener, e);
	if (r < 0)
		return r;
	bool localhost = streq(host, "localhost");
	if (streq(host, "0.0.0.0")) {
		struct err ignored = ERR_INIT;

		localhost =
		    http_server_listen_loopback6(http, port, HTTP_SCOPE_LINKS, &ignored) == 0;
	}
	LOG_INFO("http_server_starting", LOG_S("host", l->config.host), LOG_U("port", port));
	if (l->base[0] == '\0') {
		host = localhost ? "localhost" : streq(host, "0.0.0.0") ? "127.0.0.1" : host;
		bool v6 = strchr(host, ':') != NULL;
		(void)snprintf(l->base, sizeof(l->base), "http://%s%s%s:%u", v6 ? "[" : "", host,
			       v6 ? "]" : "", port);
	}
	l->bound = true;
	return 0;
}

void links_stay(struct links *l, const char *base)
{
	l->bound = true;
	if (l->base[0] == '\0')
		(void)snprintf(l->base, sizeof(l->base), "%s", base);
}

void links_set_main(struct links *l, const char *base)
{
	(void)snprintf(l->main, sizeof(l->main), "%s", base);
}

const char *links_main_base(void *links)
{
	struct links *l = links;

	return l->main[0] ? l->main : links_base(links);
}

const char *links_base(void *links)
{
	struct links *l = links;
	struct err e = ERR_INIT;

	if (l->config.port == LINKS_PORT_OFF && l->base[0] == '\0')
		return NULL;
	if (!l->bound && !l->failed && l->config.port != LINKS_PORT_OFF &&
	    links_listen(l, &e) < 0) {
		LOG_ERROR("http_server_failed", LOG_S("host", l->config.host),
			  LOG_S("error", e.text));
		l->failed = true;
	}
	return l->base[0] != '\0' ? l->base : NULL;
}

int links_upload(void *links, const void *caller, const char *base, const struct sandbox *s,
		 const char *path, bool overwrite, char *ret, size_t size, struct err *e)
{
	struct links *l = links;
	const char *own = links_base(l);
	char rest[UPLOAD_LINK_PATH_SIZE];

	if (!own)
		return err_set(e, ERR_FORBIDDEN, 0,
			       "This server serves no links (SANDBOX_HTTP_PORT, artifacts.port)");
	int r = upload_links_make(l->uploads, caller, s, path, overwrite, rest, e);
	if (r == 0 && (size_t)snprintf(ret, size, "%s%s", base ? base : own, rest) >= size)
		r = err_set(e, ERR_INTERNAL, 0, "the upload link is too long");
	return r;
}
