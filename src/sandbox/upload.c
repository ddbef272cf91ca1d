/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads: a few MiB per turn of the event loop, straight from where the text lies to the file, so
 * that memory stays constant and other clients are served in between. Uploads of one sandbox go one
 * after the other: two for one name cannot mix. */
#include "base/base64.h"
#include "base/fdio.h"
#include "base/log.h"
#include "sandbox/manager.h"

#include <string.h>
#include <unistd.h>

#define TURN_BYTES (4u << 20) /* of source, per turn of the loop */

struct upload {
	struct upload *next;
	struct sandbox *sandbox; /* reference */
	char *path;
	bool overwrite;
	struct upload_source source;
	uint64_t done; /* bytes of source used */
	uint64_t written;
	struct base64_decoder decoder;
	int fd;
	bool placed; /* the engine has a temporary file for us */
	sd_event_source *turn;
	struct err err; /* why it failed, when code is not NONE */
	void (*on_done)(uint64_t written, const struct err *e, void *user);
	void *user;
};

static void start_next(struct sandbox *s);

ssize_t upload_read_piece(const struct upload_source *source, uint64_t at, char *space,
			  const char **ret)
{
	size_t want = (size_t)MIN(source->len - at, (uint64_t)UPLOAD_PIECE_BYTES);

	if (source->data) {
		*ret = source->data + at;
		return (ssize_t)want;
	}
	size_t n = 0;
	while (n < want) {
		ssize_t got = pread(source->fd, space + n, want - n, (off_t)(source->off + at + n));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return -ENODATA;
		n += (size_t)got;
	}
	*ret = space;
	return (ssize_t)n;
}

static void finish(struct upload *u)
{
	struct sandbox *s = u->sandbox;

	u->turn = sd_event_source_disable_unref(u->turn);
	u->fd = fd_close(u->fd);
	s->uploads = u->next;
	if (u->err.code == ERR_NONE)
		LOG_INFO("file_uploaded", LOG_S("session_id", s->id), LOG_S("filename", u->path),
			 LOG_U("size_bytes", u->written));
	/* First the next one: the callback may add another, which then waits its turn. */
	start_next(s);
	u->on_done(u->written, u->err.code == ERR_NONE ? NULL : &u->err, u->user);
	if (u->err.code == ERR_NONE)
		sandbox_changed(s, u->path);
	free(u->path);
	free(u);
	(void)sandbox_unref(s);
}

static void on_committed(const struct err *e, void *user)
{
	struct upload *u = user;

	sandbox_forget_inventory(u->sandbox);
	if (e && u->err.code == ERR_NONE)
		u->err = *e;
	finish(u);
}

/* All is written, or it has failed: the file appears, or its temporary form goes. */
static void commit(struct upload *u)
{
	struct sandbox *s = u->sandbox;
	struct err e = ERR_INIT;
	bool keep = u->err.code == ERR_NONE;

	u->turn = sd_event_source_disable_unref(u->turn);
	u->fd = fd_close(u->fd);
	if (u->placed && s->state == SANDBOX_READY) {
		if (sandbox_ops(s)->commit_file(s->handle, u->path, u->overwrite, keep,
						on_committed, u, &e) == 0)
			return;
		if (keep)
			u->err = e;
	} else if (keep) {
		(void)err_set(&u->err, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended", s->id);
	}
	finish(u);
}

static int write_piece(struct upload *u, char *space, uint8_t *decoded)
{
	const char *piece = NULL;
	ssize_t n = upload_read_piece(&u->source, u->done, space, &piece);

	if (n < 0)
		return err_set(&u->err, ERR_SYSTEM, (int)-n, "reading the upload");
	const void *data = piece;
	size_t len = (size_t)n;
	if (u->source.base64) {
		if (base64_decode(&u->decoder, piece, (size_t)n, decoded, &len) < 0)
			return err_set(&u->err, ERR_INVALID_CONTENT, 0,
				       "content_base64 is not valid base64");
		data = decoded;
	}
	int r = fd_write_all(u->fd, data, len);
	if (r == -ENOSPC || r == -EDQUOT)
		return err_set(&u->err, ERR_NO_SPACE, 0, "the workspace is full");
	if (r < 0)
		return err_set(&u->err, ERR_SYSTEM, -r, "writing the file");
	u->done += (uint64_t)n;
	u->written += len;
	return 0;
}

static int on_turn(sd_event_source *source UNUSED, void *user)
{
	struct upload *u = user;
	_cleanup_free_ char *space = malloc(UPLOAD_PIECE_BYTES);
	_cleanup_free_ uint8_t *decoded = malloc(UPLOAD_PIECE_BYTES);
	uint64_t stop = MIN(u->source.len, u->done + TURN_BYTES);

	sandbox_touch(u->sandbox);
	if (!space || !decoded)
		(void)err_set(&u->err, ERR_OUT_OF_MEMORY, ENOMEM, "an upload");
	while (u->err.code == ERR_NONE && u->done < stop)
		if (write_piece(u, space, decoded) < 0)
			break;
	if (u->err.code == ERR_NONE && u->done < u->source.len)
		return 0;
	if (u->err.code == ERR_NONE && u->source.base64 && base64_decode_end(&u->decoder) < 0)
		(void)err_set(&u->err, ERR_INVALID_CONTENT, 0,
			      "content_base64 is not valid base64");
	commit(u);
	return 0;
}

static void on_placed(int fd, const struct err *e, void *user)
{
	struct upload *u = user;

	if (e) {
		u->err = *e;
		finish(u);
		return;
	}
	u->fd = fd;
	u->placed = true;
	int r = sd_event_add_defer(u->sandbox->manager->config.loop, &u->turn, on_turn, u);
	/* A defer source keeps its first place in the queue: others of its priority would starve.
	 */
	if (r >= 0)
		r = sd_event_source_set_priority(u->turn, SD_EVENT_PRIORITY_NORMAL + 1);
	if (r >= 0)
		r = sd_event_source_set_enabled(u->turn, SD_EVENT_ON);
	if (r < 0) {
		(void)err_set(&u->err, ERR_SYSTEM, -r, "an upload");
		commit(u);
	}
}

/* Begins the first upload of the queue; what cannot begin ends with its error. */
static void start_next(struct sandbox *s)
{
	struct upload *u = s->uploads;

	if (!u)
		return;
	if (sandbox_use(s, &u->err) &&
	    sandbox_ops(s)->put_file(s->handle, u->path, u->overwrite, on_placed, u, &u->err) == 0)
		return;
	finish(u);
}

int sandbox_upload(struct sandbox *s, const struct upload_request *request, struct err *e)
{
	int busy = sandbox_check_free(s, e);

	if (busy < 0)
		return busy;
	struct upload *u = calloc(1, sizeof(*u)), **at = &s->uploads;
	if (u)
		u->path = strdup(request->path);
	if (!u || !u->path) {
		free(u);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "an upload");
	}
	u->sandbox = sandbox_ref(s);
	u->overwrite = request->overwrite;
	u->source = request->source;
	u->fd = -1;
	u->on_done = request->on_done;
	u->user = request->user;
	bool first = !s->uploads;
	while (*at)
		at = &(*at)->next;
	*at = u;
	if (!first)
		return 0;
	/* The first is started here, so that its failure can be returned. */
	int r = sandbox_use(s, e)
		    ? sandbox_ops(s)->put_file(s->handle, u->path, u->overwrite, on_placed, u, e)
		    : -ENOENT;
	if (r < 0) {
		s->uploads = u->next;
		free(u->path);
		free(u);
		(void)sandbox_unref(s);
	}
	return r;
}
