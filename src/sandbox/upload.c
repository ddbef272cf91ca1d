/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads of bytes that the server has already, in memory or in a file. Threads
 * read and write it in pieces. The uploads of one sandbox are
 * written one after the other. */
#include "sandbox/upload.h"

#include "base/loop.h"
#include "base/workers.h"
#include "sandbox/file_writer.h"
#include "sandbox/manager.h"

#include <string.h>
#include <unistd.h>

#define PIECE_BYTES (256u << 10) /* read at once, and written */

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
	bool reading;   /* a thread reads the source; the end waits for it */
	bool ended;     /* the writer has ended meanwhile, with ERR */
	struct err err; /* why it failed, when code is not NONE */
	void (*on_done)(uint64_t written, const struct err *e, void *user);
	void *user;
};

static void start_next(struct sandbox *s, struct list *failed);

static void tell(struct upload *u, const struct err *e)
{
	u->on_done(u->written, e, u->user);
	free(u->path);
	(void)sandbox_unref(u->sandbox);
	free(u);
}

static void finish(struct upload *u, const struct err *e)
{
	struct list failed;

	u->turn = sd_event_source_disable_unref(u->turn);
	list_remove(&u->node);
	list_init(&failed);
	/* The next one starts first: the callback may add another upload, which then waits its
	 * turn. */
	start_next(u->sandbox, &failed);
	tell(u, e);
	while (!list_is_empty(&failed)) {
		struct upload *other = list_pop_first(&failed, struct upload, node);

		tell(other, &other->err);
	}
}

static void on_end(uint64_t written, const struct err *e, void *user)
{
	struct upload *u = user;

	u->written = written;
	u->writer = NULL;
	if (!u->reading) {
		finish(u, e);
		return;
	}
	u->ended = true;
	if (e)
		u->err = *e;
}

static void fail(struct upload *u)
{
	u->writer = file_writer_drop(u->writer);
	finish(u, &u->err);
}

static void set_turning(struct upload *u, bool on)
{
	(void)sd_event_source_set_enabled(u->turn, on ? SD_EVENT_ON : SD_EVENT_OFF);
}

static bool add(struct upload *u, const char *data, size_t n)
{
	u->done += n;
	if (file_writer_add(u->writer, data, n, &u->err) == 0)
		return true;
	fail(u);
	return false;
}

static void on_piece(char *data, ssize_t n, void *user)
{
	_cleanup_free_ char *owned = data;
	struct upload *u = user;

	u->reading = false;
	if (u->ended) {
		finish(u, &u->err);
		return;
	}
	if (n <= 0) {
		(void)err_set(&u->err, ERR_SYSTEM, n < 0 ? (int)-n : ENODATA, "reading the upload");
		fail(u);
		return;
	}
	if (add(u, data, (size_t)n))
		set_turning(u, true);
}

static int on_turn(sd_event_source *source UNUSED, void *user)
{
	struct upload *u = user;
	const struct upload_source *from = &u->source;
	const size_t n = (size_t)MIN(from->len - u->done, (uint64_t)PIECE_BYTES);

	loop_work("upload", "copy");
	if (n > 0 && file_writer_is_full(u->writer)) {
		set_turning(u, false); /* until on_room */
		return 0;
	}
	if (n == 0) {
		set_turning(u, false);
		file_writer_commit(u->writer);
	} else if (from->data) {
		(void)add(u, from->data + u->done, n);
	} else {
		set_turning(u, false);
		u->reading = true;
		workers_read_some(u->sandbox->owner, from->fd, from->off + u->done, n, on_piece, u);
	}
	return 0;
}

static void on_room(void *user)
{
	set_turning(user, true);
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
		fail(u);
	}
}

static const struct file_writer_ops writer_ops = {
    .on_ready = on_ready, .on_room = on_room, .on_end = on_end};

/* Begins the first upload of the queue. Those that cannot begin move to FAILED, with their errors. */
static void start_next(struct sandbox *s, struct list *failed)
{
	for (;;) {
		struct upload *u = list_first(&s->uploads, struct upload, node);

		if (!u || file_writer_new(s, u->path, u->overwrite ? ENGINE_FILE_OVERWRITE : 0,
					  &writer_ops, u, &u->writer, &u->err) == 0)
			return;
		list_remove(&u->node);
		list_append(failed, &u->node);
	}
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
		r = file_writer_new(s, u->path, request->overwrite ? ENGINE_FILE_OVERWRITE : 0,
				    &writer_ops, u, &u->writer, e);
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
