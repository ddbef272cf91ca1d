/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/file_writer.h"

#include "base/fdio.h"
#include "base/log.h"
#include "sandbox/manager.h"

#include <string.h>
#include <unistd.h>

enum writer_state {
	WRITER_OPENING,    /* the engine was asked for a descriptor */
	WRITER_OPEN,       /* takes bytes */
	WRITER_WAITING,    /* the commit waits until a checkpoint is made */
	WRITER_COMMITTING, /* the engine was asked to commit */
	WRITER_DROPPING,   /* dropped by its user; an answer of the engine is still to come */
};

struct file_writer {
	struct list node;        /* of the sandbox */
	struct sandbox *sandbox; /* reference */
	enum writer_state state;
	bool overwrite;
	uint32_t put; /* the engine's number */
	int fd;
	uint64_t written;
	uint64_t counted; /* of the sandbox's uploaded_bytes; 0 once the file has its name */
	const struct file_writer_ops *ops; /* borrowed */
	void *user;
	char path[];
};

static void lost(const struct file_writer *w, struct err *e)
{
	(void)err_set(e, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended", w->sandbox->id);
}

void sandbox_uncount_uploads(struct sandbox *s, uint64_t bytes)
{
	s->uploaded_bytes -= bytes;
	if (bytes > 0 && s->manager->engine)
		engine_uncount_upload(s->manager->engine, bytes);
}

/* Removes the writer from the sandbox's list and frees it. */
static void writer_free(struct file_writer *w)
{
	list_remove(&w->node);
	w->fd = fd_close(w->fd);
	w->sandbox->writing_bytes -= w->written;
	sandbox_uncount_uploads(w->sandbox, w->counted);
	(void)sandbox_unref(w->sandbox);
	free(w);
}

static void writer_end(struct file_writer *w, const struct err *e)
{
	const struct file_writer_ops *ops = w->ops;
	const uint64_t written = w->written;
	void *user = w->user;
	struct sandbox *s = sandbox_ref(w->sandbox);
	_cleanup_free_ char *path = e ? NULL : strdup(w->path);

	if (!e)
		LOG_INFO("file_uploaded", LOG_S("session_id", s->id), LOG_S("filename", w->path),
			 LOG_U("size_bytes", written));
	if (!e)
		w->counted = 0;
	writer_free(w);
	ops->on_end(written, e, user);
	if (path) {
		sandbox_tell(s, SANDBOX_FILES, path);
		sandbox_changed(s, path);
	}
	(void)sandbox_unref(s);
}

/* Ends the writer with the engine's answer. CANCELLED means that the sandbox was destroyed. */
static void engine_answered(struct file_writer *w, const struct err *e)
{
	struct err ended = ERR_INIT;

	if (e && e->code == ERR_CANCELLED)
		lost(w, &ended);
	writer_end(w, ended.code == ERR_NONE ? e : &ended);
}

/* ---- commit and drop ---- */

static void on_committed(const struct err *e, void *user)
{
	struct file_writer *w = user;

	sandbox_forget_inventory(w->sandbox);
	engine_answered(w, e);
}

static void begin_commit(struct file_writer *w)
{
	struct sandbox *s = w->sandbox;
	struct err e = ERR_INIT;

	w->state = WRITER_COMMITTING;
	if (s->state != SANDBOX_READY)
		lost(w, &e);
	else if (engine_commit_file(s->handle, w->put, w->path, w->overwrite, true, on_committed, w,
				    &e) == 0)
		return;
	writer_end(w, &e);
}

void file_writer_commit(struct file_writer *w)
{
	ASSERT(w->state == WRITER_OPEN);
	file_writer_close(w);
	if (w->sandbox->seized)
		w->state = WRITER_WAITING;
	else
		begin_commit(w);
}

static void on_dropped(const struct err *e UNUSED, void *user)
{
	writer_free(user);
}

static void begin_drop(struct file_writer *w)
{
	struct sandbox *s = w->sandbox;
	struct err e = ERR_INIT;

	w->state = WRITER_DROPPING;
	w->fd = fd_close(w->fd);
	/* If the sandbox has ended, its files have ended with it. */
	if (s->state != SANDBOX_READY ||
	    engine_commit_file(s->handle, w->put, w->path, w->overwrite, false, on_dropped, w, &e) <
		0)
		writer_free(w);
}

struct file_writer *file_writer_drop(struct file_writer *w)
{
	if (!w)
		return NULL;
	ASSERT(w->state == WRITER_OPENING || w->state == WRITER_OPEN);
	if (w->state == WRITER_OPENING)
		w->state = WRITER_DROPPING; /* on_put() goes on */
	else
		begin_drop(w);
	return NULL;
}

/* ---- writing ---- */

static void on_put(int fd, const struct err *e, void *user)
{
	struct file_writer *w = user;
	const bool dropped = w->state == WRITER_DROPPING;
	struct err ended = ERR_INIT;

	w->fd = fd;
	if (!e && !dropped && w->sandbox->state != SANDBOX_READY) { /* it ended meanwhile */
		lost(w, &ended);
		e = &ended;
	}
	if (e && dropped) {
		writer_free(w);
	} else if (e) {
		engine_answered(w, e);
	} else if (dropped) {
		begin_drop(w);
	} else {
		w->state = WRITER_OPEN;
		w->ops->on_ready(w->user);
	}
}

int file_writer_new(struct sandbox *s, const char *path, bool overwrite,
		    const struct file_writer_ops *ops, void *user, struct file_writer **ret,
		    struct err *e)
{
	const size_t len = strlen(path) + 1;
	int r = sandbox_check_free(s, e);

	if (r < 0)
		return r;
	if (!sandbox_use(s, e))
		return -ENOENT;
	struct file_writer *w = calloc(1, sizeof(*w) + len);
	if (!w)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "an upload");
	memcpy(w->path, path, len);
	w->overwrite = overwrite;
	w->fd = -1;
	w->ops = ops;
	w->user = user;
	r = engine_put_file(s->handle, path, overwrite, &w->put, on_put, w, e);
	if (r < 0) {
		free(w);
		return r;
	}
	w->sandbox = sandbox_ref(s);
	list_prepend(&s->writers, &w->node);
	*ret = w;
	return 0;
}

/* Where a stored workspace is a plain folder of the host, nothing counts a file before it is
 * committed. So the files that are being written may together be as large as the workspace; 0 is no limit. */
static bool has_room(const struct sandbox *s, size_t len)
{
	const uint64_t max = s->policy.limits.workspace_bytes;

	return max == 0 || (s->writing_bytes <= max && len <= max - s->writing_bytes);
}

/* Counts LEN bytes as memory of all sandboxes together. A workspace never holds more than its limit, so
 * no more is counted: files that were replaced or removed since are not known here. */
static int count(struct file_writer *w, size_t len, struct err *e)
{
	struct sandbox *s = w->sandbox;
	const uint64_t max = s->policy.limits.workspace_bytes;
	const uint64_t room = max == 0 ? UINT64_MAX : max - MIN(max, s->uploaded_bytes);
	const uint64_t more = MIN((uint64_t)len, room);
	const bool memory = !s->stored && !(s->policy.enforced & ENGINE_CAP_ON_DISK);
	int r = memory ? engine_count_upload(s->manager->engine, more, e) : 0;

	if (r == 0 && memory) {
		s->uploaded_bytes += more;
		w->counted += more;
	}
	return r;
}

int file_writer_add(struct file_writer *w, const void *data, size_t len, struct err *e)
{
	ASSERT(w->state == WRITER_OPEN);
	sandbox_touch(w->sandbox);
	if (count(w, len, e) < 0)
		return -ENOMEM;
	const int r = has_room(w->sandbox, len) ? fd_write_all(w->fd, data, len) : -ENOSPC;
	const off_t at = r < 0 ? lseek(w->fd, 0, SEEK_CUR) : -1; /* a part may have been written */
	const uint64_t written = at < 0 ? w->written + (r < 0 ? 0 : len) : (uint64_t)at;

	w->sandbox->writing_bytes += written - w->written;
	w->written = written;
	if (r == -ENOSPC && engine_host_is_full(w->fd))
		return err_set(e, ERR_HOST_DISK_FULL, 0, "the disk of this machine is full");
	if (r == -ENOSPC || r == -EDQUOT)
		return err_set(e, ERR_NO_SPACE, 0, "the workspace is full");
	if (r == -ENOMEM)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "writing the file");
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "writing the file") : 0;
}

uint64_t file_writer_written(const struct file_writer *w)
{
	return w->written;
}

void file_writer_close(struct file_writer *w)
{
	w->fd = fd_close(w->fd);
}

/* ---- checkpoints and the end of the sandbox ---- */

static struct file_writer *find(const struct sandbox *s, enum writer_state a, enum writer_state b)
{
	list_for_each(l, &s->writers) {
		struct file_writer *w = list_entry(l, struct file_writer, node);

		if (w->state == a || w->state == b)
			return w;
	}
	return NULL;
}

bool file_writers_are_busy(const struct sandbox *s)
{
	return find(s, WRITER_OPENING, WRITER_COMMITTING) != NULL;
}

void file_writers_go_on(struct sandbox *s)
{
	struct file_writer *w;

	while (!s->seized && (w = find(s, WRITER_WAITING, WRITER_WAITING)))
		begin_commit(w);
}

/* Writers that wait for an answer of the engine are not ended here: the engine still answers. */
void file_writers_end(struct sandbox *s)
{
	struct file_writer *w;
	struct err e = ERR_INIT;

	while ((w = find(s, WRITER_OPEN, WRITER_WAITING))) {
		lost(w, &e);
		writer_end(w, &e);
	}
}
