/* SPDX-License-Identifier: Apache-2.0 */
/* REST: files of a workspace, in constant memory. Downloads use sendfile(2). The bytes of an upload
 * go from the socket into a nameless file of the workspace; it gets its name when all of them have
 * arrived. No byte of the body is read before that file is open. */
#include "api/files/files.h"
#include "api/rest/pieces.h"
#include "base/json_text.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "sandbox/file_writer.h"
#include "sandbox/sandbox_names.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

json_t *rest_name(const char *name)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(2048);

	return text_add_utf8_lossy(&b, name, strlen(name)) < 0 ? json_string("")
							       : json_string(buf_str(&b));
}

/* Puts {path...} into RET, checked by workspace_path(). Returns false after it has answered. */
static bool need_path(struct rest_call *c, char *ret)
{
	const char *path = http_request_param(c->req, "path");
	struct err e = ERR_INIT;

	if (workspace_path(path, strlen(path), true, ret, &e) == 0)
		return true;
	rest_fail(c, &e);
	return false;
}

/* ---- list ---- */

static const char *type_name(mode_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "folder" : S_ISLNK(mode) ? "link" : "other";
}

struct listing {
	struct engine_file *files; /* owned */
	size_t n, at;
	bool more;
};

static void listing_free(void *user)
{
	struct listing *l = user;

	free(l->files);
	free(l);
}

static int file_text(struct buf *b, const struct engine_file *f)
{
	char text[API_TIME_SIZE];
	uint64_t ms = f->mtime_ns > 0 ? (uint64_t)f->mtime_ns / NS_PER_MS : 0;

	return json_text_object(b, "ssis", "name", f->name, "type", type_name(f->mode), "size",
				(int64_t)f->size, "modified_at", api_time(ms, text));
}

static int write_files(void *user, struct store *reading UNUSED, struct buf *out,
		       struct err *e UNUSED)
{
	struct listing *l = user;
	int r = buf_add_str(out, l->at == 0 ? "{\"files\":[" : "\n");

	while (r == 0 && l->at < l->n && !pieces_is_full(out))
		r = file_text(out, &l->files[l->at++]);
	if (r == 0 && l->at < l->n)
		return PIECES_WORK;
	r = r < 0 ? r : buf_add_str(out, l->more ? "],\"more\":true}" : "],\"more\":false}");
	return r < 0 ? r : PIECES_END;
}

static void on_list(const struct engine_file *files, size_t n, bool more, const struct err *e,
		    void *user)
{
	static const struct pieces_ops ops = {.read = write_files, .free = listing_free};
	struct rest_call *c = user;

	if (e) {
		rest_fail(c, e);
		return;
	}
	struct listing *l = calloc(1, sizeof(*l));
	if (l)
		*l =
		    (struct listing){.files = malloc(n * sizeof(*files) + 1), .n = n, .more = more};
	if (l && l->files && n > 0)
		memcpy(l->files, files, n * sizeof(*files));
	if (l && !l->files) {
		listing_free(l);
		l = NULL;
	}
	struct pieces *p = pieces_new(c, &ops, l);
	if (p)
		pieces_begin(p, PIECES_WORK);
}

static void list_files(struct rest_call *c)
{
	const char *given = http_request_query(c->req, "path");
	char path[ENGINE_PATH_MAX] = "";
	struct err e = ERR_INIT;

	if (given && *given && workspace_path(given, strlen(given), true, path, &e) < 0)
		rest_fail(c, &e);
	else if (http_request_query(c->req, "archive"))
		rest_send_folder(c, path, http_request_query(c->req, "archive"));
	else if (sandbox_list(c->sandbox, path, on_list, c, &e) < 0)
		rest_fail(c, &e);
}

void rest_list_files(struct rest_call *c)
{
	rest_sandbox(c, list_files);
}

/* ---- get ---- */

static void on_open(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct rest_call *c = user;

	if (e) {
		rest_fail(c, e);
		return;
	}
	char owner[SANDBOX_OWNER_MAX + 1];
	(void)snprintf(owner, sizeof(owner), "%s", sandbox_owner(c->sandbox));
	struct http_request *req = rest_give(c);
	if (req)
		files_respond(req, fd, info, owner);
	else
		workers_close(owner, fd);
}

static void get_file(struct rest_call *c)
{
	char path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	if (!need_path(c, path))
		return;
	if (http_request_query(c->req, "archive"))
		rest_send_folder(c, path, http_request_query(c->req, "archive"));
	else if (sandbox_open_file(c->sandbox, path, on_open, c, &e) < 0)
		rest_fail(c, &e);
}

void rest_get_file(struct rest_call *c)
{
	rest_sandbox(c, get_file);
}

/* ---- put ---- */

struct upload {
	struct rest_call *call;
	struct file_writer *writer;
	char path[ENGINE_PATH_MAX];
};

static void upload_free(struct upload *u)
{
	u->writer = file_writer_drop(u->writer);
	free(u);
}

static int fail_upload(struct upload *u, const struct err *e)
{
	struct rest_call *c = u->call;

	if (c->req)
		http_request_on_gone(c->req, NULL, NULL);
	rest_fail(c, e);
	upload_free(u);
	return -EIO;
}

static void on_upload_gone(void *user)
{
	struct upload *u = user;

	u->call->req = NULL;
	rest_refuse(u->call, ERR_CANCELLED, "the client has left");
	upload_free(u);
}

static uint64_t upload_max(const struct rest_call *c)
{
	return c->api->config.max_upload_bytes;
}

static const struct err *too_large(const struct rest_call *c, struct err *e)
{
	(void)err_set(e, ERR_UPLOAD_TOO_LARGE, 0, "the file has more than %ju byte%s",
		      (uintmax_t)upload_max(c), text_s(upload_max(c)));
	return e;
}

static bool has_room(void *user)
{
	const struct upload *u = user;

	return !file_writer_is_full(u->writer);
}

static int on_bytes(struct http_request *req, const void *data, size_t len, void *user)
{
	struct upload *u = user;
	struct err e = ERR_INIT;

	if (!data) {
		/* The body is complete: from now on the file is made even if the client leaves. */
		http_request_on_gone(req, rest_on_gone, u->call);
		file_writer_commit(u->writer);
		return 0;
	}
	if (len > upload_max(u->call) - file_writer_written(u->writer))
		return fail_upload(u, too_large(u->call, &e));
	if (file_writer_add(u->writer, data, len, &e) < 0)
		return fail_upload(u, &e);
	return 0;
}

static void on_room(void *user)
{
	const struct upload *u = user;

	http_request_resume_body(u->call->req);
}

static void on_ready(void *user)
{
	struct upload *u = user;

	http_request_ask_for_room(u->call->req, has_room);
	http_request_read_body(u->call->req, on_bytes, u);
}

static void on_written(uint64_t written, const struct err *e, void *user)
{
	struct upload *u = user;

	u->writer = NULL;
	if (e) {
		(void)fail_upload(u, e);
		return;
	}
	rest_reply(
	    u->call, 201,
	    json_pack("{s:o, s:I}", "path", rest_name(u->path), "size", (json_int_t)written));
	upload_free(u);
}

static const struct file_writer_ops upload_ops = {
    .on_ready = on_ready, .on_room = on_room, .on_end = on_written};

static void put_file(struct rest_call *c)
{
	const uint64_t declared = http_request_body_length(c->req);
	struct err e = ERR_INIT;

	c->action = "file.put";
	if (declared != UINT64_MAX && declared > upload_max(c)) {
		rest_fail(c, too_large(c, &e));
		return;
	}
	struct upload *u = calloc(1, sizeof(*u));
	if (!u) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	u->call = c;
	if (!need_path(c, u->path)) {
		upload_free(u);
		return;
	}
	http_request_on_gone(c->req, on_upload_gone, u);
	if (file_writer_new(c->sandbox, u->path,
			    rest_query_bool(c, "overwrite") ? ENGINE_FILE_OVERWRITE : 0,
			    &upload_ops, u, &u->writer, &e) < 0)
		(void)fail_upload(u, &e);
}

void rest_put_file(struct rest_call *c)
{
	rest_sandbox(c, put_file);
}

/* ---- delete ---- */

static void on_removed(const struct err *e, void *user)
{
	if (e)
		rest_fail(user, e);
	else
		rest_reply(user, 204, NULL);
}

static void delete_file(struct rest_call *c)
{
	char path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	c->action = "file.delete";
	if (need_path(c, path) &&
	    sandbox_remove_file(c->sandbox, path, rest_query_bool(c, "recursive"), on_removed, c,
				&e) < 0)
		rest_fail(c, &e);
}

void rest_delete_file(struct rest_call *c)
{
	rest_sandbox(c, delete_file);
}

/* ---- other names, and folders ---- */

/* The new name: member `to` of a move, `path` of a folder. */
static const char *new_name(const struct rest_call *c)
{
	return rest_text(c, "to", rest_text(c, "path", ""));
}

static void on_named(const struct err *e, void *user)
{
	struct rest_call *c = user;
	const char *name = new_name(c);

	if (!e)
		rest_reply(c, rest_text(c, "to", NULL) ? 200 : 201,
			   json_pack("{s:s}", "path", name));
	else if (e->code == ERR_ALREADY_EXISTS)
		rest_refuse(c, ERR_FILE_EXISTS, "there is something of the name %s already", name);
	else if (e->code == ERR_NOT_FOUND)
		rest_refuse(c, ERR_NOT_FOUND, "there is no such file or folder");
	else
		rest_fail(c, e);
}

static void move_file(struct rest_call *c)
{
	const char *to = new_name(c);
	char path[ENGINE_PATH_MAX], new_path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	c->action = "file.move";
	if (!need_path(c, path))
		return;
	if (workspace_path(to, strlen(to), true, new_path, &e) < 0 ||
	    sandbox_move(c->sandbox, path, new_path, 0, on_named, c, &e) < 0)
		rest_fail(c, &e);
}

void rest_move_file(struct rest_call *c)
{
	rest_sandbox(c, move_file);
}

static void make_folder(struct rest_call *c)
{
	const char *name = new_name(c);
	char path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	c->action = "file.folder";
	if (workspace_path(name, strlen(name), true, path, &e) < 0 ||
	    sandbox_make_folder(c->sandbox, path, 0, on_named, c, &e) < 0)
		rest_fail(c, &e);
}

void rest_make_folder(struct rest_call *c)
{
	rest_sandbox(c, make_folder);
}
