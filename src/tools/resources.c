/* SPDX-License-Identifier: Apache-2.0 */
/* Files of workspaces as MCP resources, sandbox://{id}/{+path}: listed, read in whole or in
 * part, with notifications when they change. Only files directly in a workspace are listed; all
 * files can be read. */
#include "tools/resources.h"
#include "tools/resource_watch.h"

#include "base/base64.h"
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "mcp/peer.h"
#include "sandbox/workspace_inventory.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCHEME     "sandbox://"
#define URI_MAX    (4u * ENGINE_PATH_MAX)
#define FLUSH_NS   (200 * NS_PER_MS) /* changes within this time become one notification */
#define PART_BYTES 65536u            /* size of a part that the note about a large file suggests */
#define WORDS_MAX  4096u             /* bytes of an answer besides the contents */
#define NEXT_MAX   (SANDBOX_ID_MAX + 1 + 3 * 256) /* bytes of a cursor */
#define READ_MAX   (2u << 20) /* bytes of a file, or a part of it, in one answer */

struct resources {
	struct tools *tools;
	struct mcp_server *server;
	struct resource_watches *watches;
	sd_event_source *flush; /* set while a list has changed and no notification was sent */
	char owner[SANDBOX_OWNER_MAX + 1];
};

/* ---- URIs ---- */

int resources_add_uri(struct buf *b, const char *id, const char *path)
{
	int r = buf_printf(b, SCHEME "%s/", id);

	return r < 0 ? r : text_add_percent(b, path, strlen(path), true);
}

struct place {
	char id[SANDBOX_ID_MAX + 1];
	char path[ENGINE_PATH_MAX];
	uint64_t offset;
	uint64_t length; /* 0 = to the end */
};

/* "offset=10&length=20" in any order. */
static int parse_query(const char *query, struct place *ret)
{
	while (*query) {
		size_t len = strcspn(query, "&"), name = strcspn(query, "=&");
		uint64_t *field = name == 6 && memcmp(query, "offset", 6) == 0   ? &ret->offset
				  : name == 6 && memcmp(query, "length", 6) == 0 ? &ret->length
										 : NULL;
		if (!field || name == len ||
		    parse_u64_n(query + name + 1, len - name - 1, 0, INT64_MAX, field) < 0)
			return -EINVAL;
		query += len;
		query += *query == '&' ? 1 : 0;
	}
	return 0;
}

static int parse_uri(const char *uri, struct place *ret)
{
	_cleanup_free_ char *decoded = NULL;
	struct err ignored = ERR_INIT;
	size_t len;

	*ret = (struct place){0};
	if (!text_starts_with(uri, SCHEME))
		return -EINVAL;
	const char *id = uri + strlen(SCHEME), *slash = strchr(id, '/');
	if (!slash || !parse_is_session_id(id, (size_t)(slash - id)))
		return -EINVAL;
	memcpy(ret->id, id, (size_t)(slash - id));
	const char *path = slash + 1, *query = strchr(path, '?');
	size_t path_len = query ? (size_t)(query - path) : strlen(path);
	decoded = malloc(path_len + 1);
	if (!decoded || text_percent_decode(path, path_len, decoded, &len) < 0 ||
	    decoded[0] == '/' || workspace_path(decoded, len, true, ret->path, &ignored) < 0)
		return -EINVAL;
	return query ? parse_query(query + 1, ret) : 0;
}

bool resources_place(const char *uri, char id[SANDBOX_ID_MAX + 1], char path[ENGINE_PATH_MAX])
{
	struct place place;

	if (parse_uri(uri, &place) < 0)
		return false;
	memcpy(id, place.id, sizeof(place.id));
	memcpy(path, place.path, sizeof(place.path));
	return true;
}

/* ---- resources/read ---- */

struct reading {
	struct tools *tools;
	struct mcp_call *call;
	struct sandbox *sandbox; /* reference */
	struct place place;
	char *uri; /* owned */
	/* For a thread, which reads the file and makes the content. */
	int fd;
	char name[256];
	uint64_t size, at, want;
	json_t *content; /* owned */
	size_t json_len; /* of CONTENT as JSON; more than its bound: unknown */
};

static void reading_free(struct reading *r)
{
	workers_close(r->sandbox ? sandbox_owner(r->sandbox) : "", r->fd);
	json_decref(r->content);
	(void)sandbox_unref(r->sandbox);
	free(r->uri);
	free(r);
}

/* A note in place of a file that is too large: where the file is, and how to read a part. */
static json_t *note_content(struct reading *r, uint64_t size)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(URI_MAX * 2);
	json_t *link = tools_json_link(r->tools, r->call, r->sandbox, r->place.path);
	int x =
	    buf_printf(&b,
		       "This file has %ju bytes, too many for one answer. Read a part of it with "
		       "?offset=0&length=%u after its URI",
		       (uintmax_t)size, PART_BYTES);

	if (x == 0 && json_is_string(link))
		x = buf_printf(&b, ", or download it: %s", json_string_value(link));
	json_decref(link);
	return x < 0 ? NULL : mcp_resource_text(r->uri, "text/plain", buf_str(&b), b.len);
}

/* Is it text that a model or a person can read? A control character takes six bytes of JSON. */
static bool is_readable(const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (data[i] < 0x20 && data[i] != '\t' && data[i] != '\n' && data[i] != '\r')
			return false;
	return text_is_utf8(data, len);
}

static json_t *data_content(const struct reading *r, const uint8_t *data, size_t len)
{
	const char *type = mime_type(r->name);
	bool text = !text_starts_with(type, "image/") && is_readable(data, len);

	if (text)
		return mcp_resource_text(
		    r->uri, streq(type, "application/octet-stream") ? "text/plain" : type,
		    (const char *)data, len);
	_cleanup_free_ char *base64 = malloc(BASE64_ENCODED_LEN(len) + 1);
	if (!base64)
		return NULL;
	base64_encode(data, len, base64);
	return mcp_resource_blob(r->uri, type, base64, BASE64_ENCODED_LEN(len));
}

/* CONTENT: owned; NULL: no memory. */
static void finish_content(struct reading *r, json_t *content)
{
	struct mcp_call *call = r->call;

	reading_free(r);
	mcp_call_finish(call, content ? mcp_resource_result(json_pack("[o]", content)) : NULL);
}

/* On a thread. */
static void read_file(void *user)
{
	struct reading *r = user;
	_cleanup_free_ uint8_t *data = malloc((size_t)r->want + 1);
	size_t n = 0;

	while (data && n < r->want) {
		ssize_t got = pread(r->fd, data + n, (size_t)r->want - n, (off_t)(r->at + n));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	r->content = data ? data_content(r, data, n) : NULL;
	r->json_len = r->content ? jsonio_size(r->content, 8 * READ_MAX) : 0;
	r->fd = fd_close(r->fd);
}

static void on_read(void *user)
{
	struct reading *r = user;
	json_t *content = TAKE_PTR(r->content);

	loop_work("resource", "was read");
	if (content && !tools_fits_answer(r->tools, r->call, r->json_len + WORDS_MAX)) {
		json_decref(content);
		content = note_content(r, r->size);
	}
	finish_content(r, content);
}

static void on_open(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct reading *r = user;

	r->fd = fd;
	if (e) {
		mcp_call_finish_no_resource(r->call, r->uri);
		reading_free(r);
		return;
	}
	r->size = info->size;
	r->at = MIN(r->place.offset, info->size);
	r->want = info->size - r->at;
	if (r->place.length > 0)
		r->want = MIN(r->want, r->place.length);
	(void)snprintf(r->name, sizeof(r->name), "%s", info->name);
	if (r->want > MIN(r->tools->config.max_read_bytes, (uint64_t)READ_MAX) ||
	    !tools_fits_answer(r->tools, r->call, r->want + WORDS_MAX)) {
		finish_content(r, note_content(r, info->size));
		return;
	}
	const int x = workers_run(sandbox_owner(r->sandbox), read_file, on_read, r);
	if (x < 0) {
		mcp_call_finish_refused(r->call, x);
		reading_free(r);
	}
}

/* The page that shows results of tools. */
static void read_view(struct mcp_call *call, const struct tools *t)
{
	size_t len = 0;
	const char *view = t->config.view(&len);
	json_t *content = view ? mcp_resource_text(TOOLS_VIEW_URI, MCP_VIEW_TYPE, view, len) : NULL;

	/* The page has no frame of its own, and reaches no host: no domains are declared. */
	if (content && json_object_set_new(content, "_meta",
					   json_pack("{s:{s:b}}", "ui", "prefersBorder", 1)) < 0) {
		json_decref(content);
		content = NULL;
	}
	mcp_call_finish(call, content ? mcp_resource_result(json_pack("[o]", content)) : NULL);
}

static void read_resource(struct mcp_call *call, const char *uri, void *user)
{
	struct resources *res = user;
	struct err e = ERR_INIT;

	if (res->tools->config.view && streq(uri, TOOLS_VIEW_URI)) {
		read_view(call, res->tools);
		return;
	}
	struct reading *r = calloc(1, sizeof(*r));
	if (r)
		r->uri = strdup(uri);
	if (!r || !r->uri) {
		free(r);
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory", NULL);
		return;
	}
	r->tools = res->tools;
	r->call = call;
	r->fd = -1;
	struct sandbox *s = NULL;
	if (parse_uri(uri, &r->place) == 0)
		s = manager_find(res->tools->config.manager, mcp_call_principal(call), r->place.id);
	if (s)
		r->sandbox = sandbox_ref(s);
	if (s && sandbox_open_file(s, r->place.path, on_open, r, &e) == 0)
		return;
	mcp_call_finish_no_resource(call, uri);
	reading_free(r);
}

/* ---- resources/list ---- */

struct listed {
	struct sandbox *sandbox; /* reference */
};

struct listing {
	struct mcp_call *call;
	struct listed *sandboxes; /* owned, by id */
	size_t n, at, room;
	char after_id[SANDBOX_ID_MAX + 1]; /* where the previous page ended; "" = at the
					    * beginning */
	char after_name[3 * 256];
	size_t limit;
	json_t *items;
	struct buf next;
};

static int compare_sandboxes(const void *a, const void *b)
{
	const struct listed *x = a, *y = b;

	return strcmp(sandbox_id(x->sandbox), sandbox_id(y->sandbox));
}

static void collect(struct sandbox *s, void *user)
{
	struct listing *l = user;

	if (strcmp(sandbox_id(s), l->after_id) < 0)
		return;
	if (l->n == l->room) {
		size_t room = l->room * 2 + 16;
		struct listed *more = reallocarray(l->sandboxes, room, sizeof(*more));
		if (!more)
			return;
		l->sandboxes = more;
		l->room = room;
	}
	l->sandboxes[l->n++].sandbox = sandbox_ref(s);
}

/* The next page begins behind NAME of S. A name is any bytes, and a cursor is text. */
static void note_next(struct listing *l, const struct sandbox *s, const char *name)
{
	buf_reset(&l->next);
	if (buf_printf(&l->next, "%s/", sandbox_id(s)) < 0 ||
	    text_add_percent(&l->next, name, strlen(name), false) < 0)
		buf_reset(&l->next);
}

static void listing_end(struct listing *l)
{
	mcp_call_finish_page(l->call, l->items, l->next.len > 0 ? buf_str(&l->next) : NULL);
	buf_done(&l->next);
	for (size_t i = 0; i < l->n; i++)
		(void)sandbox_unref(l->sandboxes[i].sandbox);
	free(l->sandboxes);
	free(l);
}

static int add_item(struct listing *l, struct sandbox *s, const struct engine_file *f)
{
	_cleanup_(buf_done) struct buf uri = BUF_INIT(URI_MAX);

	if (resources_add_uri(&uri, sandbox_id(s), f->name) < 0)
		return -ENOMEM;
	return json_array_append_new(
	    l->items, json_pack("{s:s, s:o, s:s, s:I}", "uri", buf_str(&uri), "name",
				tools_json_bytes(f->name, strlen(f->name)), "mimeType",
				mime_type(f->name), "size", (json_int_t)f->size));
}

static void list_next(struct listing *l);

static void on_listed(const struct engine_file *files, size_t n, bool more UNUSED,
		      const struct err *e, void *user)
{
	struct listing *l = user;
	struct sandbox *s = l->sandboxes[l->at].sandbox;
	bool resumed = streq(sandbox_id(s), l->after_id);
	const char *last = NULL; /* item of this page */

	for (size_t i = 0; !e && i < n; i++) {
		if (!S_ISREG(files[i].mode) ||
		    (resumed && strcmp(files[i].name, l->after_name) <= 0))
			continue;
		if (json_array_size(l->items) == l->limit) {
			if (last)
				note_next(l, s, last);
			listing_end(l);
			return;
		}
		if (add_item(l, s, &files[i]) == 0)
			last = files[i].name;
	}
	if (last)
		note_next(l, s, last);
	l->at++;
	list_next(l);
}

static void list_next(struct listing *l)
{
	struct err e = ERR_INIT;

	for (; l->at < l->n; l->at++)
		if (sandbox_peek(l->sandboxes[l->at].sandbox, "", on_listed, l, &e) == 0)
			return;
	buf_reset(&l->next); /* there is no next page */
	listing_end(l);
}

static void list_resources(struct mcp_call *call, const char *after, size_t limit, void *user)
{
	struct resources *res = user;
	struct listing *l = calloc(1, sizeof(*l));

	if (l)
		l->items = json_array();
	if (!l || !l->items) {
		free(l);
		mcp_call_finish_error(call, MCP_ERR_INTERNAL, "no memory", NULL);
		return;
	}
	l->call = call;
	l->limit = limit;
	buf_init(&l->next, NEXT_MAX);
	const char *slash = after ? strchr(after, '/') : NULL;
	size_t len;
	if (slash && (size_t)(slash - after) <= SANDBOX_ID_MAX &&
	    strlen(slash + 1) < 3 * sizeof(l->after_name) &&
	    text_percent_decode(slash + 1, strlen(slash + 1), l->after_name, &len) == 0)
		memcpy(l->after_id, after, (size_t)(slash - after));
	manager_each(res->tools->config.manager, mcp_call_principal(call), collect, l);
	if (l->n > 1)
		qsort(l->sandboxes, l->n, sizeof(*l->sandboxes), compare_sandboxes);
	list_next(l);
}

/* ---- changes ---- */

/* The file need not exist yet, but the sandbox must: a client could remember any number of invented
 * addresses here. */
static bool may_subscribe(struct mcp_peer *peer, const char *uri, void *user)
{
	const struct resources *res = user;
	struct manager *m = res->tools->config.manager;
	const char *principal = mcp_peer_principal(peer);
	struct err ignored = ERR_INIT;
	struct place place;

	return parse_uri(uri, &place) == 0 &&
	       (manager_find(m, principal, place.id) ||
		manager_get_stored(m, principal, place.id, NULL, &ignored) > 0);
}

static void subscribed(const char *principal, const char *uri, bool is, void *user)
{
	const struct resources *res = user;
	struct place place;

	if (parse_uri(uri, &place) == 0)
		resource_watches_count(res->watches, principal, place.id, is);
}

static int on_flush(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct resources *res = user;

	loop_work("timer", "changed resources");
	res->flush = NULL;
	(void)sd_event_source_disable_unref(source);
	mcp_server_resources_changed(res->server, res->owner);
	return 0;
}

struct changes {
	const char *id;
	const char *path; /* of a file or folder; "" = everything. NULL: RESULT tells */
	const struct run_result *result;
	bool watched; /* a watch tells of PATH itself */
};

/* Whether PATH is below BASE, or, unless STRICTLY, BASE itself. */
static bool is_below(const char *path, const char *base, bool strictly)
{
	const size_t len = strlen(base);

	return len == 0 || (strncmp(path, base, len) == 0 &&
			    (path[len] == '/' || (path[len] == '\0' && !strictly)));
}

static int compare_hash(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Runs do not look into folders that are hidden, and not at all files if there are many. A client that is told of
 * such a file reads it once in vain; otherwise it would never learn of the change. */
static bool may_have_changed(const struct run_result *r, const char *path)
{
	const char *slash = strchr(path, '/');
	const uint64_t hash = path_hash(path);

	if (r->n_gone > 0 && bsearch(&hash, r->gone, r->n_gone, sizeof(hash), compare_hash))
		return true;
	return slash && (r->gone_more || r->more_files || path[0] == '.' || strstr(path, "/.") ||
			 strstr(path, "__pycache__/"));
}

static int compare_name(const void *name, const void *file)
{
	return strcmp(name, ((const struct artifact *)file)->name);
}

static bool is_changed(const char *uri, void *user)
{
	const struct changes *c = user;
	const struct run_result *r = c->result;
	struct place place;

	if (parse_uri(uri, &place) < 0 || !streq(place.id, c->id))
		return false;
	if (c->path)
		return is_below(place.path, c->path, c->watched);
	/* Those directly in the workspace come first, sorted by name. */
	if (r->n_shallow > 0 &&
	    bsearch(place.path, r->artifacts, r->n_shallow, sizeof(*r->artifacts), compare_name))
		return true;
	for (size_t i = r->n_shallow; i < r->n_artifacts; i++)
		if (streq(place.path, r->artifacts[i].name))
			return true;
	return may_have_changed(r, place.path);
}

static void on_change(struct sandbox *s, const char *path, const struct run_result *result,
		      void *user)
{
	struct resources *res = user;
	const char *owner = sandbox_owner(s);
	struct changes changes = {sandbox_id(s), path, result,
				  resource_watches_tell(res->watches, s)};

	/* What is below a folder that was removed at once may have gone long before. */
	if (changes.watched ? path != NULL : result || path)
		mcp_server_resources_updated(res->server, owner, is_changed, &changes);
	if (result && result->n_artifacts == 0 && result->n_gone == 0)
		return; /* what may have changed in folders is in no list */
	if (res->flush && streq(res->owner, owner))
		return;
	if (res->flush)
		(void)on_flush(res->flush, 0, res);
	(void)snprintf(res->owner, sizeof(res->owner), "%s", owner);
	/* Without a timer there is no notification: clients list again when they need to. */
	(void)sd_event_add_time_relative(res->tools->config.loop, &res->flush, CLOCK_MONOTONIC,
					 FLUSH_NS / NS_PER_US, 0, on_flush, res);
}

/* ---- registration ---- */

static const struct mcp_resource template = {
    .uri = SCHEME "{id}/{+path}",
    .name = "artifact",
    .title = "File of a sandbox",
    .description = "A file in the workspace of a session. Add ?offset=N&length=M to read a part.",
    .read = read_resource,
};

int tools_add_resources(struct tools *t, struct mcp_server *server, struct err *e)
{
	struct resources *res = calloc(1, sizeof(*res));

	if (!res)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "resources");
	res->watches = resource_watches_new(t, server);
	if (!res->watches) {
		free(res);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "resources");
	}
	res->tools = t;
	res->server = server;
	t->resources = res;
	struct mcp_resource row = template;
	row.user = res;
	int r = mcp_server_add_template(server, &row, e);
	if (r < 0)
		return r;
	struct mcp_resource_source source = {
	    .list = list_resources,
	    .may_subscribe = may_subscribe,
	    .subscribed = subscribed,
	    .read = read_resource,
	    .user = res,
	};
	mcp_server_set_resource_source(server, &source);
	manager_watch(t->config.manager, on_change, res);
	return 0;
}

struct resources *resources_free(struct resources *res)
{
	if (res) {
		(void)sd_event_source_disable_unref(res->flush);
		res->watches = resource_watches_free(res->watches);
	}
	free(res);
	return NULL;
}
