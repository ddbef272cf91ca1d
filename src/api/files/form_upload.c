/* SPDX-License-Identifier: Apache-2.0 */
/* The body is paused at the head of each part until the engine has opened the file of that part. */
#include "api/files/form_upload.h"

#include "base/text.h"
#include "sandbox/file_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a body that belong to no file: heads of parts and boundaries. */
#define OVERHEAD_MAX ((uint64_t)MULTIPART_PARTS_MAX * (MULTIPART_HEAD_MAX + 256))

struct form_file {
	struct form *form;
	char *path; /* owned; of the engine */
	struct file_writer *writer;
};

struct form {
	struct form_upload_request request;
	struct http_request *req; /* NULL: the client has left */
	struct sandbox *sandbox;  /* reference */
	struct multipart parser;
	uint64_t body;  /* bytes received */
	uint64_t files; /* bytes received that belong to files */
	bool opening;   /* the file of the last part is being opened; the body is paused */
	struct form_file file[MULTIPART_PARTS_MAX];
	unsigned n;
	unsigned next; /* index of the file that gets its name next */
	struct form_written written[MULTIPART_PARTS_MAX];
};

static void form_free(struct form *f)
{
	for (unsigned i = 0; i < f->n; i++) {
		f->file[i].writer = file_writer_drop(f->file[i].writer);
		free(f->file[i].path);
	}
	(void)sandbox_unref(f->sandbox);
	free(f);
}

/* Tells the end and frees the form. Returns -EIO, which stops the reader of the body. */
static int finish(struct form *f, const struct err *e)
{
	if (f->req)
		http_request_on_gone(f->req, NULL, NULL);
	f->request.done(f->written, f->next, e, f->request.user);
	form_free(f);
	return -EIO;
}

static void on_gone_early(void *user)
{
	struct form *f = user;
	struct err e = ERR_INIT;

	f->req = NULL;
	f->request.gone(f->request.user);
	(void)err_set(&e, ERR_CANCELLED, 0, "the client has left");
	(void)finish(f, &e);
}

static void on_gone_late(void *user)
{
	struct form *f = user;

	f->req = NULL;
	f->request.gone(f->request.user);
}

/* ---- the files ---- */

static void name_next(struct form *f)
{
	if (f->next < f->n)
		file_writer_commit(f->file[f->next].writer);
	else
		(void)finish(f, NULL);
}

static void on_ready(void *user)
{
	struct form_file *file = user;

	file->form->opening = false;
	http_request_resume_body(file->form->req);
}

static void on_room(void *user)
{
	const struct form_file *file = user;
	const struct form *f = file->form;

	if (!f->opening && f->req)
		http_request_resume_body(f->req);
}

static void on_end(uint64_t written, const struct err *e, void *user)
{
	struct form_file *file = user;
	struct form *f = file->form;

	file->writer = NULL;
	if (e) {
		struct err error = *e;

		(void)err_wrap(&error, "'%.300s'", file->path);
		(void)finish(f, &error);
		return;
	}
	f->written[f->next++] = (struct form_written){.path = file->path, .size = written};
	name_next(f);
}

static const struct file_writer_ops writer_ops = {
    .on_ready = on_ready, .on_room = on_room, .on_end = on_end};

/* ---- the body ---- */

static int on_part(const struct multipart_part *part, void *user, struct err *e)
{
	struct form *f = user;
	char path[ENGINE_PATH_MAX];
	int r = f->request.path(part, path, f->request.user, e);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < f->n; i++)
		if (streq(f->file[i].path, path))
			return err_set(e, ERR_INVALID_ARGUMENT, 0, "'%.300s' is there twice", path);
	struct form_file *file = &f->file[f->n];
	*file = (struct form_file){.form = f, .path = strdup(path)};
	if (!file->path)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a name of the form");
	f->n++;
	r = file_writer_new(f->sandbox, path, f->request.how, &writer_ops, file, &file->writer, e);
	if (r < 0)
		return err_wrap(e, "'%.300s'", path);
	f->opening = true;
	return MULTIPART_STOP;
}

static int on_data(const void *data, size_t len, void *user, struct err *e)
{
	struct form *f = user;
	const uint64_t max = f->request.max_bytes;

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
			return finish(f, &e);
		if (f->opening)
			http_request_pause_body(req, len - taken);
		return 0;
	}
	r = multipart_end(&f->parser, &e);
	if (r == 0 && f->n == 0)
		r = err_set(&e, ERR_INVALID_ARGUMENT, 0, "there is no file in the form");
	if (r < 0)
		return finish(f, &e);
	/* The form is complete: from now on the files are made even if the client leaves. */
	http_request_on_gone(req, on_gone_late, f);
	name_next(f);
	return 0;
}

int form_upload_begin(const struct form_upload_request *q, struct err *e)
{
	static const struct multipart_ops ops = {on_part, on_data, on_part_end};
	const uint64_t len = http_request_body_length(q->req);
	struct form *f = calloc(1, sizeof(*f));

	if (!f)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a form");
	int r = multipart_init(&f->parser, http_request_header(q->req, "content-type"), &ops, f, e);
	if (r == 0 && len != UINT64_MAX && len > OVERHEAD_MAX && len - OVERHEAD_MAX > q->max_bytes)
		r = err_set(e, ERR_UPLOAD_TOO_LARGE, 0, "the form has too many bytes");
	if (r < 0) {
		free(f);
		return r;
	}
	f->request = *q;
	f->req = q->req;
	f->sandbox = sandbox_ref(q->sandbox);
	http_request_on_gone(q->req, on_gone_early, f);
	http_request_ask_for_room(q->req, has_room);
	http_request_read_body(q->req, on_bytes, f);
	return 0;
}
