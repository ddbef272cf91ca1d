/* SPDX-License-Identifier: Apache-2.0 */
/* envd: a file whose bytes are the body of the request, as they are or compressed with gzip. */
#include "faces/e2b/face.h"

#include "base/text.h"
#include "sandbox/file_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define PIECE     (64u << 10)
#define GZIP_BITS (16 + MAX_WBITS)

struct upload {
	struct e2b_call *call;
	struct file_writer *writer;
	uint64_t max, bytes; /* of the file */
	bool gzip, ended;    /* ENDED: the last member of gzip is complete */
	z_stream zip;
	struct buf attributes;
	char path[ENGINE_PATH_MAX];
};

static void upload_free(struct upload *u)
{
	u->writer = file_writer_drop(u->writer);
	if (u->gzip)
		(void)inflateEnd(&u->zip);
	buf_done(&u->attributes);
	free(u);
}

/* Answers, and returns what ends the reading of the body. */
static int fail(struct upload *u, const struct err *e)
{
	struct e2b_call *c = u->call;

	upload_free(u);
	e2b_fail(c, e);
	return -EIO;
}

static void on_gone_early(void *user)
{
	struct upload *u = user;
	struct err e = ERR_INIT;

	u->call->req = NULL;
	(void)err_set(&e, ERR_CANCELLED, 0, "the client has left");
	(void)fail(u, &e);
}

/* The body is complete: the file gets its name all the same. */
static void on_gone_late(void *user)
{
	((struct upload *)user)->call->req = NULL;
}

static void on_end(uint64_t written UNUSED, const struct err *e, void *user)
{
	struct upload *u = user;
	struct e2b_call *c = u->call;
	const struct form_written file = {.path = u->path};

	u->writer = NULL;
	if (e) {
		(void)fail(u, e);
		return;
	}
	if (c->req)
		http_request_on_gone(c->req, NULL, NULL);
	e2b_uploaded(c, &file, 1, &u->attributes);
	upload_free(u);
}

/* ---- bytes ---- */

static int add(struct upload *u, const void *data, size_t len, struct err *e)
{
	if (len > u->max - u->bytes)
		return err_set(e, ERR_UPLOAD_TOO_LARGE, 0, "the file has more than %ju byte%s",
			       (uintmax_t)u->max, text_s(u->max));
	u->bytes += len;
	return len > 0 ? file_writer_add(u->writer, data, len, e) : 0;
}

/* The file is full for now. What is left of the input comes again. */
static bool has_to_wait(struct upload *u)
{
	if (u->zip.avail_in == 0 || !file_writer_is_full(u->writer))
		return false;
	http_request_pause_body(u->call->req, u->zip.avail_in);
	return true;
}

static int unpack(struct upload *u, const void *data, size_t len, struct err *e)
{
	static unsigned char out[PIECE];
	int r = 0;

	u->zip.next_in = (z_const Bytef *)(uintptr_t)data;
	u->zip.avail_in = (uInt)len;
	do {
		if (u->ended && u->zip.avail_in > 0) { /* one more member of the file */
			(void)inflateReset(&u->zip);
			u->ended = false;
		}
		u->zip.next_out = out;
		u->zip.avail_out = sizeof(out);
		const int z = inflate(&u->zip, Z_NO_FLUSH);
		if (z != Z_OK && z != Z_STREAM_END && z != Z_BUF_ERROR)
			return err_set(e, ERR_INVALID_ARGUMENT, 0,
				       "the body is not what gzip makes");
		u->ended = z == Z_STREAM_END;
		r = add(u, out, sizeof(out) - u->zip.avail_out, e);
		if (z == Z_BUF_ERROR)
			break;
	} while (r == 0 && (u->zip.avail_in > 0 || u->zip.avail_out == 0) && !has_to_wait(u));
	return r;
}

static int on_bytes(struct http_request *req, const void *data, size_t len, void *user)
{
	struct upload *u = user;
	struct err e = ERR_INIT;

	if (data) {
		const int r = u->gzip ? unpack(u, data, len, &e) : add(u, data, len, &e);
		return r < 0 ? fail(u, &e) : 0;
	}
	if (u->gzip && !u->ended) {
		(void)err_set(&e, ERR_INVALID_ARGUMENT, 0, "the body ends within what gzip made");
		return fail(u, &e);
	}
	e2b_note_change(u->call->sandbox, u->path, true);
	http_request_on_gone(req, on_gone_late, u);
	file_writer_commit(u->writer);
	return 0;
}

static bool has_room(void *user)
{
	return !file_writer_is_full(((struct upload *)user)->writer);
}

static void on_room(void *user)
{
	const struct upload *u = user;

	if (u->call->req)
		http_request_resume_body(u->call->req);
}

static void on_ready(void *user)
{
	struct upload *u = user;

	http_request_ask_for_room(u->call->req, has_room);
	http_request_read_body(u->call->req, on_bytes, u);
}

/* ---- the beginning ---- */

static int read_head(struct upload *u, struct err *e)
{
	const struct e2b_call *c = u->call;
	const char *path = http_request_query(c->req, "path");
	const char *coding = http_request_header(c->req, "content-encoding");
	const uint64_t len = http_request_body_length(c->req);

	if (!path || !*path)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "path: the name of the file");
	if (coding && strcasecmp(coding, "gzip") != 0 && strcasecmp(coding, "identity") != 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "Content-Encoding: gzip, or none");
	if (coding && strcasecmp(coding, "gzip") == 0) {
		if (inflateInit2(&u->zip, GZIP_BITS) != Z_OK)
			return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "an upload");
		u->gzip = true;
	}
	if (!u->gzip && len != UINT64_MAX && len > u->max)
		return err_set(e, ERR_UPLOAD_TOO_LARGE, 0, "the file has more than %ju byte%s",
			       (uintmax_t)u->max, text_s(u->max));
	const int r = e2b_read_metadata(c->req, &u->attributes, e);
	return r < 0 ? r : e2b_path(u->call, path, u->path, e);
}

void e2b_put_file(struct e2b_call *c)
{
	static const struct file_writer_ops ops = {
	    .on_ready = on_ready, .on_room = on_room, .on_end = on_end};
	struct upload *u = calloc(1, sizeof(*u));
	struct err e = ERR_INIT;

	if (!u) {
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	u->call = c;
	u->max = c->face->config.max_upload_bytes;
	buf_init(&u->attributes, ENGINE_ATTRIBUTES_MAX);
	int r = read_head(u, &e);
	if (r == 0) {
		http_request_on_gone(c->req, on_gone_early, u);
		r = file_writer_new(c->sandbox->sandbox, u->path, e2b_file_how(c), &ops, u,
				    &u->writer, &e);
	}
	if (r < 0)
		(void)fail(u, &e);
}
