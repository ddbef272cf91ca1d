/* SPDX-License-Identifier: Apache-2.0 */
#include "api/files/upload_links.h"

#include "api/history/history_text.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "budget/budgets.h"
#include "fleet/ids.h"
#include "http/multipart.h"
#include "sandbox/file_writer.h"

#include <sodium.h>
#include <string.h>

#define TOKEN_BYTES   32
#define TOKEN_LEN     (2 * TOKEN_BYTES)
#define PAGE_MAX      (16u << 10) /* bytes of a page or an answer */
#define FORM_OVERHEAD (64u << 10) /* bytes of a form that are no file */

/* No scripts, nothing from elsewhere; the form goes back to where it came from. */
#define PAGE_POLICY                                                                                \
	"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "     \
	"frame-ancestors 'none'"

struct upload_link {
	struct list node; /* oldest first */
	struct budget_share place;
	char token[TOKEN_LEN + 1];
	struct caller *who; /* reference, or NULL */
	char owner[SANDBOX_OWNER_MAX + 1];
	char session[SANDBOX_ID_MAX + 1];
	uint64_t created_ns;        /* of the session; 0 = a stored sandbox */
	char path[ENGINE_PATH_MAX]; /* "" = the file keeps its name */
	bool overwrite;
	bool busy; /* an upload is going on */
	uint64_t expires_ns;
};

struct upload_links {
	struct upload_links_config config;
	struct list links;
};

/* One upload. It waits for the sandbox, then for the file, then for the bytes. */
struct upload {
	struct upload_links *links;
	struct upload_link *link;
	struct http_request *req; /* NULL: the client has left */
	bool form;
	bool waiting;   /* for the manager, which calls back in any case */
	bool opening;   /* the file of a form is being opened; the body is paused */
	bool committed; /* all bytes have come */
	char path[ENGINE_PATH_MAX];
	struct sandbox *sandbox; /* reference, once there is one */
	struct file_writer *writer;
	struct multipart parser;
	uint64_t body;
	uint64_t file;
};

/* ---- links ---- */

static void link_free(struct upload_link *link)
{
	list_remove(&link->node);
	budget_give(&link->place);
	if (link->who)
		caller_unref(link->who);
	sodium_memzero(link->token, sizeof(link->token));
	free(link);
}

static bool is_over(const struct upload_link *link)
{
	return now_ns() > link->expires_ns || (link->who && auth_has_ended(link->who));
}

/* The owner of the most links; borrowed. */
static const char *greediest(const struct upload_links *l)
{
	const char *owner = "";
	uint64_t most = 0;

	list_for_each(node, &l->links) {
		const struct upload_link *link = list_entry(node, struct upload_link, node);
		const uint64_t n =
		    budget_used_by(l->config.budgets, link->owner, BUDGET_UPLOAD_LINKS);

		if (n > most) {
			most = n;
			owner = link->owner;
		}
	}
	return owner;
}

/* False: all links of OWNER are in use. */
static bool drop_oldest(struct upload_links *l, const char *owner)
{
	list_for_each(node, &l->links) {
		struct upload_link *link = list_entry(node, struct upload_link, node);

		if (link->busy || !streq(link->owner, owner))
			continue;
		link_free(link);
		return true;
	}
	return false;
}

/* Takes a place for one more link of OWNER. Links that are over make room. At the bound the owner loses the oldest one;
 * if there are too many in all, whoever has the most does. */
static int take_place(struct upload_links *l, const char *owner, struct budget_share *ret,
		      struct err *e)
{
	const struct budget_bounds most = budget_bounds(l->config.budgets, BUDGET_UPLOAD_LINKS);
	list_for_each(node, &l->links) {
		struct upload_link *link = list_entry(node, struct upload_link, node);

		if (!link->busy && is_over(link))
			link_free(link);
	}
	for (;;) {
		const bool own =
		    budget_used_by(l->config.budgets, owner, BUDGET_UPLOAD_LINKS) >= most.each;

		if (!own && budget_used(l->config.budgets, BUDGET_UPLOAD_LINKS) < most.total) {
			budget_note(l->config.budgets, owner, BUDGET_UPLOAD_LINKS, 1, ret);
			return 0;
		}
		if (!drop_oldest(l, own ? owner : greediest(l)) && !drop_oldest(l, owner))
			return budget_take(l->config.budgets, owner, BUDGET_UPLOAD_LINKS, 1, ret,
					   e);
	}
}

void upload_links_forget(struct upload_links *l, const char *owner)
{
	while (drop_oldest(l, owner))
		;
}

static struct upload_link *find(struct upload_links *l, const char *token)
{
	if (!token || strlen(token) != TOKEN_LEN)
		return NULL;
	list_for_each(node, &l->links) {
		struct upload_link *link = list_entry(node, struct upload_link, node);

		if (sodium_memcmp(link->token, token, TOKEN_LEN) == 0)
			return is_over(link) ? NULL : link;
	}
	return NULL;
}

int upload_links_make(struct upload_links *l, const void *caller, const struct sandbox *s,
		      const char *path, bool overwrite, char *ret, struct err *e)
{
	struct budget_share place = {0};

	if (take_place(l, sandbox_owner(s), &place, e) < 0)
		return -EDQUOT;
	struct upload_link *link = calloc(1, sizeof(*link));
	if (!link) {
		budget_give(&place);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "an upload link");
	}
	link->place = place;
	rand_hex(link->token, TOKEN_BYTES);
	fleet_id_mark(l->config.fleet, link->token);
	link->who = caller ? caller_ref(caller) : NULL;
	(void)snprintf(link->owner, sizeof(link->owner), "%s", sandbox_owner(s));
	(void)snprintf(link->session, sizeof(link->session), "%s", sandbox_id(s));
	(void)snprintf(link->path, sizeof(link->path), "%s", path);
	link->created_ns = sandbox_is_stored(s) ? 0 : sandbox_created_ns(s);
	link->overwrite = overwrite;
	link->expires_ns = now_ns() + l->config.life_ns;
	list_append(&l->links, &link->node);
	(void)snprintf(ret, UPLOAD_LINK_PATH_SIZE, "/upload/%s", link->token);
	return 0;
}

/* ---- answers ---- */

static void add_headers(struct http_request *req)
{
	(void)http_add_header(req, "Cache-Control", "no-store");
	(void)http_add_header(req, "Content-Security-Policy", PAGE_POLICY);
	/* The address is a credential. The form itself needs an Origin, which no-referrer removes. */
	(void)http_add_header(req, "Referrer-Policy", "same-origin");
}

/* Answers with TEXT: a line for programs, a page for browsers. */
static void respond(struct http_request *req, bool html, int status, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(PAGE_MAX);
	int r;

	add_headers(req);
	if (html) {
		r = buf_add_str(&b, "<!doctype html><meta charset=utf-8><title>Upload</title>"
				    "<body style=\"font-family:sans-serif;margin:3em\"><p>");
		r = r < 0 ? r : history_text_html(&b, text);
		r = r < 0 ? r : buf_add_str(&b, "</p>\n");
	} else {
		r = buf_printf(&b, "%s\n", text);
	}
	http_respond(req, status, html ? "text/html; charset=utf-8" : "text/plain; charset=utf-8",
		     r < 0 ? "" : buf_str(&b), r < 0 ? 0 : b.len);
}

static void respond_gone(struct http_request *req, bool html)
{
	respond(req, html, 404,
		"This upload link was used, has expired, or is not complete. Ask for a new one.");
}

static void get_form(struct http_request *req, void *user)
{
	struct upload_links *l = user;
	const struct upload_link *link = find(l, http_request_param(req, "token"));
	_cleanup_(buf_done) struct buf b = BUF_INIT(PAGE_MAX);

	if (!link) {
		respond_gone(req, true);
		return;
	}
	int r = buf_add_str(
	    &b, "<!doctype html><meta charset=utf-8>"
		"<meta name=viewport content=\"width=device-width\"><title>Upload a file</title>"
		"<body style=\"font-family:sans-serif;margin:3em\"><h1>Upload a file</h1>"
		"<p>It goes into the sandbox session ");
	r = r < 0 ? r : history_text_html(&b, link->session);
	r = r < 0 || !link->path[0] ? r : buf_add_str(&b, ", as ");
	r = r < 0 ? r : history_text_html(&b, link->path);
	r = r < 0 ? r
		  : buf_printf(&b,
			       ". One file of at most %ju MB; the link ends in %ju minutes.</p>"
			       "<form method=post enctype=multipart/form-data>"
			       "<p><input type=file name=file required></p>"
			       "<p><button>Upload</button></p></form>\n",
			       (uintmax_t)(l->config.max_bytes / 1000000),
			       (uintmax_t)((link->expires_ns - now_ns()) / NS_PER_S / 60 + 1));
	add_headers(req);
	http_respond(req, 200, "text/html; charset=utf-8", buf_str(&b), r < 0 ? 0 : b.len);
}

/* ---- an upload ---- */

static void upload_free(struct upload *u)
{
	if (u->writer && !u->committed)
		u->writer = file_writer_drop(u->writer);
	(void)sandbox_unref(u->sandbox);
	if (u->link)
		u->link->busy = false;
	free(u);
}

static int status_of(const struct err *e)
{
	switch ((int)e->code) {
	case ERR_FILE_EXISTS:
	case ERR_SESSION_BUSY:
		return 409;
	case ERR_UPLOAD_TOO_LARGE:
		return 413;
	case ERR_INVALID_PATH:
	case ERR_INVALID_ARGUMENT:
		return 400;
	case ERR_NO_SPACE:
		return 507;
	case ERR_SESSION_NOT_FOUND:
	case ERR_SANDBOX_LOST:
		return 404;
	default:
		return 503;
	}
}

/* Answers, if anybody waits. Returns -EIO, which stops the reader of the body. */
static int fail(struct upload *u, const struct err *e)
{
	if (u->req) {
		http_request_on_gone(u->req, NULL, NULL);
		respond(u->req, u->form, status_of(e),
			e->code == ERR_FILE_EXISTS ? "A file of that name is there already."
						   : e->text);
	}
	upload_free(u);
	return -EIO;
}

static void on_gone(void *user)
{
	struct upload *u = user;

	u->req = NULL;
	/* The manager, or the file that is getting its name, will call back. */
	if (!u->waiting && !u->committed)
		upload_free(u);
}

static void on_end(uint64_t written, const struct err *e, void *user)
{
	struct upload *u = user;
	char text[ENGINE_PATH_MAX + 256];

	u->writer = NULL;
	if (e) {
		(void)fail(u, e);
		return;
	}
	LOG_INFO("uploaded_by_link", LOG_S("session_id", u->link->session),
		 LOG_S("filename", u->path), LOG_U("size_bytes", written));
	(void)snprintf(text, sizeof(text), "Uploaded /mnt/data/%s (%ju byte%s) to session %s.",
		       u->path, (uintmax_t)written, text_s(written), u->link->session);
	link_free(u->link);
	u->link = NULL;
	if (u->req) {
		http_request_on_gone(u->req, NULL, NULL);
		respond(u->req, u->form, 201, text);
	}
	upload_free(u);
}

/* All bytes have come. */
static int commit(struct upload *u)
{
	struct err e = ERR_INIT;

	if (u->link->who && auth_has_ended(u->link->who)) {
		(void)err_set(&e, ERR_SESSION_NOT_FOUND, 0, "This upload link has ended.");
		return fail(u, &e);
	}
	u->committed = true;
	file_writer_commit(u->writer);
	return 0;
}

static int add_bytes(struct upload *u, const void *data, size_t len, struct err *e)
{
	if (len > u->links->config.max_bytes - u->file)
		return err_set(e, ERR_UPLOAD_TOO_LARGE, 0, "The file has more than %ju bytes.",
			       (uintmax_t)u->links->config.max_bytes);
	u->file += len;
	return file_writer_add(u->writer, data, len, e);
}

/* Sets the path by NAME, unless the link has one. */
static int take_name(struct upload *u, const char *name, struct err *e)
{
	if (u->link->path[0]) {
		memcpy(u->path, u->link->path, sizeof(u->path));
		return 0;
	}
	if (!name || !*name)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "The file has no name. With curl: curl -T FILE LINK, and a slash at "
			       "the end of the link.");
	if (!text_is_utf8(name, strlen(name)))
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "The name of the file is not UTF-8.");
	return workspace_path(name, strlen(name), true, u->path, e);
}

static void on_ready(void *user);

static bool has_room(void *user)
{
	const struct upload *u = user;

	return !u->writer || !file_writer_is_full(u->writer);
}

static void on_room(void *user)
{
	const struct upload *u = user;

	if (!u->opening && u->req)
		http_request_resume_body(u->req);
}

static const struct file_writer_ops writer_ops = {
    .on_ready = on_ready, .on_room = on_room, .on_end = on_end};

static int open_file(struct upload *u, struct err *e)
{
	return file_writer_new(u->sandbox, u->path, u->link->overwrite ? ENGINE_FILE_OVERWRITE : 0,
			       &writer_ops, u, &u->writer, e);
}

/* ---- the body as the file ---- */

static int on_raw(struct http_request *req UNUSED, const void *data, size_t len, void *user)
{
	struct upload *u = user;
	struct err e = ERR_INIT;

	if (!data)
		return commit(u);
	if (add_bytes(u, data, len, &e) < 0)
		return fail(u, &e);
	return 0;
}

/* ---- the body as a form ---- */

static int on_part(const struct multipart_part *part, void *user, struct err *e)
{
	struct upload *u = user;

	if (u->writer || u->file > 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "The link is for one file.");
	if (!part->filename || !*part->filename)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "No file was chosen.");
	/* Some browsers send the folders of the person's machine, too. */
	const char *name = part->filename;
	for (const char *p = part->filename; *p; p++)
		name = *p == '/' || *p == '\\' ? p + 1 : name;
	int r = take_name(u, name, e);
	r = r < 0 ? r : open_file(u, e);
	if (r < 0)
		return r;
	u->opening = true;
	return MULTIPART_STOP;
}

static int on_part_data(const void *data, size_t len, void *user, struct err *e)
{
	return add_bytes(user, data, len, e);
}

static int on_part_end(void *user UNUSED, struct err *e UNUSED)
{
	return 0;
}

static const struct multipart_ops form_ops = {on_part, on_part_data, on_part_end};

static int on_form(struct http_request *req, const void *data, size_t len, void *user)
{
	struct upload *u = user;
	struct err e = ERR_INIT;
	size_t taken = 0;
	int r;

	if (!data) {
		r = multipart_end(&u->parser, &e);
		if (r == 0 && !u->writer)
			r = err_set(&e, ERR_INVALID_ARGUMENT, 0, "No file was chosen.");
		return r < 0 ? fail(u, &e) : commit(u);
	}
	r = multipart_feed(&u->parser, data, len, &taken, &e);
	u->body += taken;
	if (r == 0 && u->body - u->file > FORM_OVERHEAD)
		r = err_set(&e, ERR_UPLOAD_TOO_LARGE, 0, "The form has too much that is no file.");
	if (r < 0)
		return fail(u, &e);
	if (u->opening)
		http_request_pause_body(req, len - taken);
	return 0;
}

static void on_ready(void *user)
{
	struct upload *u = user;

	if (!u->form) {
		http_request_ask_for_room(u->req, has_room);
		http_request_read_body(u->req, on_raw, u);
		return;
	}
	u->opening = false;
	http_request_resume_body(u->req);
}

/* ---- the request ---- */

static void on_sandbox(struct sandbox *s, const struct err *e, void *user)
{
	struct upload *u = user;
	struct err error = ERR_INIT;

	u->waiting = false;
	if (!u->req) {
		upload_free(u);
		return;
	}
	/* The id may belong to a later session by now. */
	if (!e && u->link->created_ns && sandbox_created_ns(s) != u->link->created_ns) {
		(void)err_set(&error, ERR_SESSION_NOT_FOUND, 0, "The session has ended.");
		e = &error;
	}
	if (e) {
		(void)fail(u, e);
		return;
	}
	u->sandbox = sandbox_ref(s);
	if (u->form) {
		http_request_ask_for_room(u->req, has_room);
		http_request_read_body(u->req, on_form, u);
	} else if (open_file(u, &error) < 0) {
		(void)fail(u, &error);
	}
}

/* What is known before the body comes. */
static int check(struct upload *u, struct err *e)
{
	const uint64_t len = http_request_body_length(u->req);

	if (len != UINT64_MAX && len > u->links->config.max_bytes + (u->form ? FORM_OVERHEAD : 0))
		return err_set(e, ERR_UPLOAD_TOO_LARGE, 0, "The file has more than %ju bytes.",
			       (uintmax_t)u->links->config.max_bytes);
	if (u->form)
		return multipart_init(&u->parser, http_request_header(u->req, "content-type"),
				      &form_ops, u, e);
	return take_name(u, http_request_param(u->req, "name"), e);
}

static void begin(struct http_request *req, struct upload_links *l, bool form)
{
	struct upload_link *link = find(l, http_request_param(req, "token"));
	struct err e = ERR_INIT;

	if (!link) {
		respond_gone(req, form);
		return;
	}
	if (link->busy) {
		respond(req, form, 409, "An upload by this link is going on.");
		return;
	}
	struct upload *u = calloc(1, sizeof(*u));
	if (!u) {
		respond(req, form, 503, "no memory");
		return;
	}
	u->links = l;
	u->link = link;
	u->req = req;
	u->form = form;
	link->busy = true;
	if (check(u, &e) < 0) {
		(void)fail(u, &e);
		return;
	}
	/* If the credential ends meanwhile, the server ends this request. */
	if (link->who)
		http_request_set_caller(req, caller_ref(link->who), caller_unref);
	http_request_on_gone(req, on_gone, u);
	u->waiting = true;
	manager_activate(l->config.manager, link->owner, link->session, on_sandbox, u);
}

static void put_file(struct http_request *req, void *user)
{
	begin(req, user, false);
}

static void post_form(struct http_request *req, void *user)
{
	begin(req, user, true);
}

static const struct http_route routes[] = {
    {HTTP_GET | HTTP_HEAD, "/upload/{token}", get_form, 0, 0},
    {HTTP_POST, "/upload/{token}", post_form, HTTP_ROUTE_STREAM_BODY, UINT64_MAX},
    {HTTP_PUT, "/upload/{token}", put_file, HTTP_ROUTE_STREAM_BODY, UINT64_MAX},
    {HTTP_PUT, "/upload/{token}/{name}", put_file, HTTP_ROUTE_STREAM_BODY, UINT64_MAX},
};

struct upload_links *upload_links_new(const struct upload_links_config *config)
{
	struct upload_links *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->config = *config;
	list_init(&l->links);
	return l;
}

struct upload_links *upload_links_free(struct upload_links *l)
{
	if (!l)
		return NULL;
	list_for_each(node, &l->links)
		link_free(list_entry(node, struct upload_link, node));
	free(l);
	return NULL;
}

int upload_links_add_routes(struct upload_links *l, struct http_server *http, unsigned scopes)
{
	return http_server_add_routes(http, routes, ARRAY_SIZE(routes), scopes, l);
}
