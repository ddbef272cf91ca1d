/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads of bytes that the server has already, in memory or in a file. It writes a few MiB per turn
 * of the event loop, so that other clients are served in between. The uploads of one sandbox are
 * written one after the other. */
#include "sandbox/file_writer.h"
#include "sandbox/manager.h"

#include <string.h>
#include <unistd.h>

#define TURN_BYTES  (4u << 20) /* per turn of the loop */
#define PIECE_BYTES (192u << 10)

struct upload {
	struct list node;        /* of its sandbox */
	struct sandbox *sandbox; /* reference */
	char *path;
	bool overwrite;
	struct upload_source source;
	uint64_t done; /* bytes of source used */
	uint64_t written;
	struct file_writer *writer; /* while this is the first of the queue */
	sd_event_source *turn;
	struct err err; /* why it failed, when code is not NONE */
	void (*on_done)(uint64_t written, const struct err *e, void *user);
	void *user;
};

static void start_next(struct sandbox *s);

/* Reads the next piece of the source. *RET is borrowed and may point into SPACE, which has
 * PIECE_BYTES. Returns the length or -errno. */
static ssize_t read_piece(const struct upload *u, char *space, const char **ret)
{
	const struct upload_source *source = &u->source;
	size_t want = (size_t)MIN(source->len - u->done, (uint64_t)PIECE_BYTES);

	if (source->data) {
		*ret = source->data + u->done;
		return (ssize_t)want;
	}
	size_t n = 0;
	while (n < want) {
		ssize_t got =
		    pread(source->fd, space + n, want - n, (off_t)(source->off + u->done + n));
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

static void finish(struct upload *u, const struct err *e)
{
	struct sandbox *s = u->sandbox;

	u->turn = sd_event_source_disable_unref(u->turn);
	list_remove(&u->node);
	/* The next one starts first: the callback may add another upload, which then waits its
	 * turn. */
	start_next(s);
	u->on_done(u->written, e, u->user);
	free(u->path);
	free(u);
	(void)sandbox_unref(s);
}

static void on_end(uint64_t written, const struct err *e, void *user)
{
	struct upload *u = user;

	u->written = written;
	finish(u, e);
}

static int write_piece(struct upload *u, char *space)
{
	const char *piece = NULL;
	ssize_t n = read_piece(u, space, &piece);

	if (n < 0)
		return err_set(&u->err, ERR_SYSTEM, (int)-n, "reading the upload");
	u->done += (uint64_t)n;
	return file_writer_add(u->writer, piece, (size_t)n, &u->err);
}

static int on_turn(sd_event_source *source UNUSED, void *user)
{
	struct upload *u = user;
	_cleanup_free_ char *space = malloc(PIECE_BYTES);
	uint64_t stop = MIN(u->source.len, u->done + TURN_BYTES);

	if (!space)
		(void)err_set(&u->err, ERR_OUT_OF_MEMORY, ENOMEM, "an upload");
	while (u->err.code == ERR_NONE && u->done < stop)
		(void)!write_piece(u, space);
	if (u->err.code == ERR_NONE && u->done < u->source.len)
		return 0;
	u->turn = sd_event_source_disable_unref(u->turn);
	if (u->err.code == ERR_NONE) {
		file_writer_commit(u->writer);
	} else {
		u->writer = file_writer_drop(u->writer);
		finish(u, &u->err);
	}
	return 0;
}

static void on_ready(void *user)
{
	struct upload *u = user;
	int r = sd_event_add_defer(u->sandbox->manager->config.loop, &u->turn, on_turn, u);

	/* A defer source stays at the head of its priority in the queue, so a lower priority keeps
	 * it from starving the others. */
	if (r >= 0)
		r = sd_event_source_set_priority(u->turn, SD_EVENT_PRIORITY_NORMAL + 1);
	if (r >= 0)
		r = sd_event_source_set_enabled(u->turn, SD_EVENT_ON);
	if (r < 0) {
		(void)err_set(&u->err, ERR_SYSTEM, -r, "an upload");
		u->writer = file_writer_drop(u->writer);
		finish(u, &u->err);
	}
}

static const struct file_writer_ops writer_ops = {on_ready, on_end};

/* Begins the first upload of the queue. An upload that cannot begin ends with its error. */
static void start_next(struct sandbox *s)
{
	struct upload *u = list_first(&s->uploads, struct upload, node);

	if (u && file_writer_new(s, u->path, u->overwrite, &writer_ops, u, &u->writer, &u->err) < 0)
		finish(u, &u->err);
}

int sandbox_upload(struct sandbox *s, const struct upload_request *request, struct err *e)
{
	struct upload *u = calloc(1, sizeof(*u));
	int r = sandbox_check_free(s, e);

	if (u)
		u->path = strdup(request->path);
	if (!u || !u->path) {
		if (u)
			free(u->path);
		free(u);
		return r < 0 ? r : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "an upload");
	}
	/* The first is started here, so that its failure can be returned. */
	if (r == 0 && list_is_empty(&s->uploads))
		r = file_writer_new(s, u->path, request->overwrite, &writer_ops, u, &u->writer, e);
	if (r < 0) {
		free(u->path);
		free(u);
		return r;
	}
	u->sandbox = sandbox_ref(s);
	u->overwrite = request->overwrite;
	u->source = request->source;
	u->on_done = request->on_done;
	u->user = request->user;
	list_append(&s->uploads, &u->node);
	return 0;
}
