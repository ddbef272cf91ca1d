/* SPDX-License-Identifier: Apache-2.0 */
/* REST: several files in one multipart/form-data request. The bytes of each part go straight into a
 * nameless file of the workspace. When the whole form has come and is good, the files get their
 * names one after the other, in the order of the form; until then nothing of it is visible.
 *
 * The body is paused at the head of each part until the engine has opened the file of that part.
 * Every part must be a file: a part without a filename is refused. */
#include "api/rest/rest.h"

#include "base/text.h"
#include "http/multipart.h"
#include "sandbox/file_writer.h"

#include <errno.h>
#include <string.h>

/* Bytes of a body that belong to no file: heads of parts and boundaries. */
#define OVERHEAD_MAX ((uint64_t)MULTIPART_PARTS_MAX * (MULTIPART_HEAD_MAX + 256))

struct form_file {
	struct form *form;
	char *path; /* owned; a path that workspace_path() made */
	struct file_writer *writer;
};

struct form {
	struct rest_call *call;
	struct multipart parser;
	uint64_t body;  /* bytes received */
	uint64_t files; /* bytes received that belong to files */
	bool opening;   /* the file of the last part is being opened; the body is paused */
	bool overwrite;
	char folder[ENGINE_PATH_MAX]; /* "" = the top of the workspace */
	struct form_file file[MULTIPART_PARTS_MAX];
	unsigned n;
	unsigned next;   /* index of the file that gets its name next */
	json_t *written; /* owned array */
};

static void form_free(struct form *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		f->file[i].writer = file_writer_drop(f->file[i].writer);
		free(f->file[i].path);
	}
	json_decref(f->written);
	free(f);
}

/* Answers with the problem and frees the form. Returns -EIO, which stops the reader of the body. */
static int fail(struct form *f, const struct err *e)
{
	struct rest_call *c = f->call;

	if (c->req)
		http_request_on_gone(c->req, rest_on_gone, c);
	if (f->next > 0)
		c->done = json_pack("{s:O}", "files", f->written);
	rest_fail(c, e);
	form_free(f);
	return -EIO;
}

static void on_form_gone(void *user)
{
	struct form *f = user;

	f->call->req = NULL;
	rest_refuse(f->call, ERR_CANCELLED, "the client has left");
	form_free(f);
}

/* ---- the files ---- */

static void name_next(struct form *f)
{
	struct rest_call *c = f->call;

	if (f->next < f->n) {
		file_writer_commit(f->file[f->next].writer);
		return;
	}
	rest_reply(c, 201, json_pack("{s:O}", "files", f->written));
	form_free(f);
}

static void on_ready(void *user)
{
	struct form_file *file = user;

	file->form->opening = false;
	http_request_resume_body(file->form->call->req);
}

static void on_room(void *user)
{
	const struct form_file *file = user;
	const struct form *f = file->form;

	if (!f->opening && f->call->req)
		http_request_resume_body(f->call->req);
}

static void on_end(uint64_t written, const struct err *e, void *user)
{
	struct form_file *file = user;
	struct form *f = file->form;

	file->writer = NULL;
	if (e) {
		struct err error = *e;

		(void)err_wrap(&error, "'%.300s'", file->path);
		(void)fail(f, &error);
		return;
	}
	(void)json_array_append_new(
	    f->written,
	    json_pack("{s:o, s:I}", "path", rest_name(file->path), "size", (json_int_t)written));
	f->next++;
	name_next(f);
}

static const struct file_writer_ops writer_ops = {
    .on_ready = on_ready, .on_room = on_room, .on_end = on_end};

/* ---- the body ---- */

/* Makes the path FOLDER/FILENAME of the workspace (owned). Refuses a name that leads out of it. */
static int file_path(const struct form *f, const char *filename, char **ret, struct err *e)
{
	char name[ENGINE_PATH_MAX], path[2 * ENGINE_PATH_MAX];
	int r = workspace_path(filename, strlen(filename), true, name, e);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "%s%s%s", f->folder, *f->folder ? "/" : "", name);
	r = workspace_path(path, strlen(path), true, name, e);
	if (r < 0)
		return r;
	*ret = strdup(name);
	return *ret ? 0 : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a name of the form");
}

static int on_part(const struct multipart_part *part, void *user, struct err *e)
{
	struct form *f = user;
	char *path = NULL;
	int r;

	if (!part->filename || !*part->filename)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "the part '%.100s' has no filename",
			       part->name);
	r = file_path(f, part->filename, &path, e);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < f->n; i++) {
		if (!streq(f->file[i].path, path))
			continue;
		r = err_set(e, ERR_INVALID_ARGUMENT, 0, "'%.300s' is there twice", path);
		free(path);
		return r;
	}
	struct form_file *file = &f->file[f->n];
	*file = (struct form_file){.form = f, .path = path};
	f->n++;
	r = file_writer_new(f->call->sandbox, path, f->overwrite, &writer_ops, file, &file->writer,
			    e);
	if (r < 0)
		return err_wrap(e, "'%.300s'", path);
	f->opening = true;
	return MULTIPART_STOP;
}

static int on_data(const void *data, size_t len, void *user, struct err *e)
{
	struct form *f = user;
	const uint64_t max = f->call->api->config.max_upload_bytes;

	if (len > max - f->files)
		return err_set(e, ERR_UPLOAD_TOO_LARGE, 0,
			       "the files have more than %ju byte%s together", (uintmax_t)max,
			       text_s(max));
	f->files += len;
	return file_writer_add(f->file[f->n - 1].writer, data, len, e);
}

static int on_part_end(void *user, struct err *e UNUSED)
{
	const struct form *f = user;

	file_writer_close(f->file[f->n - 1].writer);
	return 0;
}

static bool has_room(void *user)
{
	const struct form *f = user;

	return f->n == 0 || !file_writer_is_full(f->file[f->n - 1].writer);
}

static const struct multipart_ops form_ops = {on_part, on_data, on_part_end};

static int on_bytes(struct http_request *req, const void *data, size_t len, void *user)
{
	struct form *f = user;
	struct err e = ERR_INIT;
	size_t taken = 0;
	int r;

	if (data) {
		r = multipart_feed(&f->parser, data, len, &taken, &e);
		f->body += taken;
		if (r == 0 && f->body - f->files > OVERHEAD_MAX)
			r = err_set(&e, ERR_UPLOAD_TOO_LARGE, 0,
				    "the form has too much that is no file");
		if (r < 0)
			return fail(f, &e);
		if (f->opening)
			http_request_pause_body(req, len - taken);
		return 0;
	}
	r = multipart_end(&f->parser, &e);
	if (r == 0 && f->n == 0)
		r = err_set(&e, ERR_INVALID_ARGUMENT, 0, "there is no file in the form");
	if (r < 0)
		return fail(f, &e);
	/* The form is complete: from now on the files are made even if the client leaves. */
	http_request_on_gone(req, rest_on_gone, f->call);
	name_next(f);
	return 0;
}

/* ---- the call ---- */

static int form_begin(struct form *f, struct err *e)
{
	struct http_request *req = f->call->req;
	const char *folder = http_request_query(req, "path");
	const uint64_t len = http_request_body_length(req);
	int r =
	    multipart_init(&f->parser, http_request_header(req, "content-type"), &form_ops, f, e);

	if (r == 0 && folder && *folder)
		r = workspace_path(folder, strlen(folder), true, f->folder, e);
	if (r < 0)
		return r;
	if (len != UINT64_MAX && len > OVERHEAD_MAX &&
	    len - OVERHEAD_MAX > f->call->api->config.max_upload_bytes)
		return err_set(e, ERR_UPLOAD_TOO_LARGE, 0, "the form has too many bytes");
	f->written = json_array();
	return f->written ? 0 : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a form");
}

static void post_files(struct rest_call *c)
{
	struct form *f = calloc(1, sizeof(*f));
	struct err e = ERR_INIT;

	if (!f) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	f->call = c;
	f->overwrite = rest_query_bool(c, "overwrite");
	c->action = "file.put";
	if (form_begin(f, &e) < 0) {
		(void)fail(f, &e);
		return;
	}
	http_request_on_gone(c->req, on_form_gone, f);
	http_request_ask_for_room(c->req, has_room);
	http_request_read_body(c->req, on_bytes, f);
}

void rest_post_files(struct rest_call *c)
{
	rest_sandbox(c, post_files);
}
