/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/file_writer.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/text.h"
#include "base/workers.h"
#include "sandbox/file_output.h"
#include "sandbox/manager.h"
#include "sandbox/run_files.h"
#include "sandbox/sandbox_path.h"

#include <string.h>
#include <unistd.h>

/* The table in the header says what ends each state. */
enum writer_state {
	WRITER_OPENING,    /* the engine was asked for a descriptor */
	WRITER_OPEN,       /* takes bytes */
	WRITER_WAITING,    /* the commit waits until a checkpoint is made */
	WRITER_COMMITTING, /* the engine was asked to give the file its name */
	WRITER_FORGETTING, /* the engine was asked to forget the file; dropped before */
};

/* An owner whose uploads have to wait goes on when so much fits again: not one piece after the other. */
#define ROOM_BYTES   (1u << 20)
#define PENDING_MOST (SIZE_MAX / 2) /* file_writer_is_full() bounds it */
/* Writers that owe on_room and have no bytes of their own that wait: others of their owner have them. */
static struct list starved = LIST_INIT(starved);

struct file_writer {
	struct list node;        /* of the sandbox */
	struct list starving;    /* in STARVED, or in no list */
	struct sandbox *sandbox; /* reference */
	enum writer_state state;
	unsigned how;            /* bits ENGINE_FILE_* */
	uint32_t put;            /* the engine's number */
	struct file_output *out; /* while the descriptor is open */
	struct buf pending;      /* bytes that no thread has yet */
	bool adding;             /* in file_writer_add() */
	bool was_full;           /* on_room is owed */
	bool finish;             /* all bytes were taken: close when they are written */
	bool commit;             /* the same, and then commit */
	bool failed;             /* a write failed: no more bytes are taken */
	uint64_t written;
	uint64_t counted; /* of the sandbox's uploaded_bytes; 0 once the file has its name */
	const struct file_writer_ops *ops; /* borrowed; NULL once the owner has dropped it */
	void *user;                        /* not touched once dropped: the owner may be freed */
	char path[];
};

static void lost(const struct file_writer *w, struct err *e)
{
	(void)err_set(e, ERR_SANDBOX_LOST, 0, "Sandbox %s has ended", w->sandbox->id);
}

/* ---- memory of what waits ---- */

/* Each user may have one piece, also when others have all the memory: so nobody has to wait for others. */
static bool has_room(struct budgets *b, const char *who, uint64_t bytes)
{
	return !b || budget_used_by(b, who, BUDGET_UPLOAD_MEMORY) == 0 ||
	       budget_fits(b, who, BUDGET_UPLOAD_MEMORY, bytes);
}

/* Lets the starved writers of WHO go on, if there is room again. */
static void feed_starved(struct budgets *b, const char *who)
{
	struct list todo;

	if (list_is_empty(&starved) || !has_room(b, who, ROOM_BYTES))
		return;
	list_init(&todo);
	list_for_each(l, &starved) {
		struct file_writer *w = list_entry(l, struct file_writer, starving);

		if (!streq(w->sandbox->owner, who))
			continue;
		list_remove(l);
		list_append(&todo, l);
	}
	while (!list_is_empty(&todo)) { /* a callback may drop any writer */
		struct file_writer *w = list_pop_first(&todo, struct file_writer, starving);

		w->was_full = false;
		if (w->ops && w->ops->on_room)
			w->ops->on_room(w->user);
	}
}

/* Counts the bytes that wait. */
static void count_waiting(struct file_output *o)
{
	const size_t n = (o->writer ? o->writer->pending.len : 0) + (o->busy ? o->len : 0);

	if (n > 0)
		budget_note(o->budgets, o->who, BUDGET_UPLOAD_MEMORY, n, &o->room);
	else
		budget_give(&o->room);
}

static void output_free(struct file_output *o)
{
	struct budgets *b = o->budgets;
	char who[sizeof(o->who)];

	memcpy(who, o->who, sizeof(who));
	budget_give(&o->room);
	workers_close(o->who, o->fd);
	free(o->data);
	free(o);
	feed_starved(b, who);
}

/* The writer needs the descriptor no more; what was not written is forgotten. */
static void close_output(struct file_writer *w)
{
	struct file_output *o = TAKE_PTR(w->out);

	buf_done(&w->pending);
	list_remove(&w->starving);
	if (!o)
		return;
	o->writer = NULL;
	count_waiting(o);
	if (!o->busy) /* else when the thread is done */
		output_free(o);
}

/* Removes the writer from the sandbox's list and frees it. */
static void writer_free(struct file_writer *w)
{
	list_remove(&w->node);
	close_output(w);
	w->sandbox->writing_bytes -= w->written;
	sandbox_uncount_uploads(w->sandbox, sandbox_path_is_outside(w->path), w->counted);
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
	if (ops)
		ops->on_end(written, e, user);
	if (path && !sandbox_path_is_outside(path)) {
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

	if (!e)
		sandbox_note_upload(w->sandbox, w->path, w->written);
	engine_answered(w, e);
}

static void begin_commit(struct file_writer *w)
{
	struct sandbox *s = w->sandbox;
	struct err e = ERR_INIT;

	w->state = WRITER_COMMITTING;
	if (s->state != SANDBOX_READY)
		lost(w, &e);
	else if (engine_commit_file(s->handle, w->put, w->path, w->how, true, on_committed, w,
				    &e) == 0)
		return;
	writer_end(w, &e);
}

/* Asks the engine to forget the file of a dropped writer. */
static void on_forgotten(const struct err *e UNUSED, void *user)
{
	writer_free(user);
}

static void begin_forget(struct file_writer *w)
{
	struct sandbox *s = w->sandbox;
	struct err e = ERR_INIT;

	w->state = WRITER_FORGETTING;
	close_output(w);
	/* If the sandbox has ended, its files have ended with it. */
	if (s->state != SANDBOX_READY ||
	    engine_commit_file(s->handle, w->put, w->path, w->how, false, on_forgotten, w, &e) < 0)
		writer_free(w);
}

struct file_writer *file_writer_drop(struct file_writer *w)
{
	if (!w)
		return NULL;
	w->ops = NULL;
	w->user = NULL;
	/* In the other states an answer of the engine is to come, and goes on from here. */
	if (w->state == WRITER_OPEN || w->state == WRITER_WAITING)
		begin_forget(w);
	return NULL;
}

void file_writer_commit(struct file_writer *w)
{
	if (w->state != WRITER_OPEN) { /* a mistake of the owner costs one upload, not the server */
		const struct file_writer_ops *ops = w->ops;
		void *user = w->user;
		struct err e = ERR_INIT;

		(void)err_set(&e, ERR_SYSTEM, EBADF, "the file is not open");
		(void)file_writer_drop(w);
		ops->on_end(0, &e, user);
		return;
	}
	w->commit = true;
	list_remove(&w->starving); /* nobody waits for room any more */
	file_writer_close(w);
}

/* ---- writing ---- */

static int why_failed(const struct file_writer *w, struct err *e)
{
	const struct file_output *o = w->out;
	const int r = o->error;

	if (o->host_full || (r == -ENOSPC && sandbox_is_rationed(w->sandbox)))
		return err_set(e, ERR_HOST_DISK_FULL, o->flushed ? -r : 0,
			       o->flushed ? "the file could not be put on the disk of this machine"
					  : "the disk of this machine is full");
	if (r == -ENOSPC || r == -EDQUOT)
		return err_set(e, ERR_NO_SPACE, 0, "the workspace is full");
	if (r == -ENOMEM)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "writing the file");
	if (r == -EBUSY)
		return err_set(e, ERR_RATE_LIMITED, EBUSY, "too many files are being written");
	return err_set(e, ERR_SYSTEM, -r, "writing the file");
}

/* The file has SIZE bytes, no matter what was taken. */
static void set_written(struct file_writer *w, uint64_t size)
{
	w->sandbox->writing_bytes -= w->written;
	w->sandbox->writing_bytes += size;
	w->written = size;
}

/* The file stays as short as it is. */
static void write_failed(struct file_writer *w, const struct err *e)
{
	const struct file_writer_ops *ops = w->ops;
	void *user = w->user;

	set_written(w, w->out->size);
	buf_done(&w->pending);
	count_waiting(w->out);
	w->failed = true;
	if (ops->on_failed) {
		ops->on_failed(e, user);
		return;
	}
	(void)file_writer_drop(w);
	ops->on_end(0, e, user);
}

static void on_write(void *user);

/* Gives what waits to a thread, or goes on if nothing waits. Only in the state OPEN. */
static void go_on(struct file_writer *w)
{
	struct file_output *o = w->out;

	if (o && !o->busy && w->pending.len > 0) {
		o->len = w->pending.len;
		o->data = TAKE_PTR(w->pending.data);
		w->pending = BUF_INIT(w->pending.max);
		o->busy = true;
		const int r = workers_run(o->who, file_output_write, on_write, o);
		if (r < 0) { /* no thread took it */
			o->error = r;
			o->size = w->written - o->len;
			on_write(o);
		}
		return;
	}
	if ((o && o->busy) || w->pending.len > 0 || !w->finish)
		return;
	if (o && w->sandbox->stored && !o->flushed && !w->failed) {
		o->busy = true;
		o->size = w->written;
		const int r = workers_run(o->who, file_output_flush, on_write, o);
		if (r < 0 &&
		    !w->commit) { /* file_writer_close() does not call back: the commit tries again */
			o->busy = false;
			return;
		}
		if (r < 0) {
			o->error = r;
			on_write(o);
		}
		return;
	}
	if (o && o->fd >= 0) {
		o->busy = true;
		if (workers_run(o->who, file_output_close, on_write, o) == 0)
			return;
		o->busy = false;
		file_output_close(o); /* not the last descriptor of the file: init has another */
	}
	close_output(w);
	if (!w->commit)
		return;
	if (w->sandbox->seized)
		w->state = WRITER_WAITING;
	else
		begin_commit(w);
}

/* The thread is done. */
static void on_write(void *user)
{
	struct file_output *o = user;
	struct file_writer *w = o->writer;
	struct err e = ERR_INIT;
	loop_work("upload", "written");
	o->busy = false;
	free(TAKE_PTR(o->data));
	o->len = 0; /* a flush has none that wait */
	count_waiting(o);
	if (!w) {
		output_free(o);
		return;
	}
	if (w->adding) /* without a pool; file_writer_add() goes on */
		return;
	if (o->error != 0 && !w->failed) {
		(void)why_failed(w, &e);
		const bool ends = !w->ops->on_failed;

		write_failed(w, &e);
		if (ends)
			return;
	}
	if (w->pending.len == 0 && w->was_full && !w->commit) {
		/* If no more bytes will come, the commit goes on from here. */
		list_remove(&w->starving);
		list_append(&starved, &w->starving);
		feed_starved(o->budgets, w->sandbox->owner); /* may drop the writer */
		return;
	}
	go_on(w);
}

static void on_put(int fd, const struct err *e, void *user)
{
	struct file_writer *w = user;
	struct err ended = ERR_INIT;

	w->out = e ? NULL : calloc(1, sizeof(*w->out));
	if (w->out) {
		w->out->writer = w;
		w->out->fd = fd;
		w->out->budgets = w->sandbox->manager->config.budgets;
		(void)snprintf(w->out->who, sizeof(w->out->who), "%s", w->sandbox->owner);
	} else if (!e) {
		workers_close(w->sandbox->owner, fd);
		(void)err_set(&ended, ERR_OUT_OF_MEMORY, ENOMEM, "an upload");
		e = &ended;
	}
	if (!e && w->sandbox->state != SANDBOX_READY) { /* it ended meanwhile */
		lost(w, &ended);
		e = &ended;
	}
	if (e) {
		engine_answered(w, e);
	} else if (!w->ops) {
		begin_forget(w);
	} else {
		w->state = WRITER_OPEN;
		w->ops->on_ready(w->user);
	}
}

int file_writer_new(struct sandbox *s, const char *path, unsigned how,
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
	w->how = how;
	w->pending = BUF_INIT(PENDING_MOST);
	w->ops = ops;
	w->user = user;
	r = engine_put_file(s->handle, path, how, &w->put, on_put, w, e);
	if (r < 0) {
		free(w);
		return r;
	}
	list_init(&w->starving);
	w->sandbox = sandbox_ref(s);
	list_prepend(&s->writers, &w->node);
	*ret = w;
	return 0;
}

/* Where a stored workspace is a plain folder of the host, nothing counts a file before it is
 * committed. So the files that are being written may together be as large as the workspace; 0 is no limit. */
static bool workspace_has_room(const struct sandbox *s, size_t len)
{
	const uint64_t max = s->policy.limits.workspace_bytes;

	return max == 0 || (s->writing_bytes <= max && len <= max - s->writing_bytes);
}

/* Takes LEN bytes: a copy of DATA, or WHOLE itself, which has them. */
static int take(struct file_writer *w, const void *data, struct buf *whole, size_t len,
		struct err *e)
{
	if (w->state != WRITER_OPEN || !w->out || w->finish || w->failed)
		return err_set(e, ERR_SYSTEM, EBADF, "the file is not open");
	sandbox_touch(w->sandbox);
	if (sandbox_count_upload(w->sandbox, sandbox_path_is_outside(w->path), len, &w->counted,
				 e) < 0)
		return -ENOMEM;
	if (!workspace_has_room(w->sandbox, len))
		return err_set(e, ERR_NO_SPACE, 0, "the workspace is full");
	if (whole && w->pending.len == 0) {
		buf_done(&w->pending);
		w->pending = *whole;
		w->pending.max = PENDING_MOST;
		*whole = BUF_INIT(0);
	} else if (buf_add(&w->pending, data, len) < 0) {
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "writing the file");
	}
	set_written(w, w->written + len);
	count_waiting(w->out);
	w->adding = true;
	go_on(w);
	w->adding = false;
	if (w->out->busy || w->out->error == 0)
		return 0;
	set_written(w, w->out->size);
	w->failed = true;
	return why_failed(w, e);
}

int file_writer_add(struct file_writer *w, const void *data, size_t len, struct err *e)
{
	return take(w, data, NULL, len, e);
}

int file_writer_take(struct file_writer *w, struct buf *b, struct err *e)
{
	return take(w, buf_str(b), b, b->len, e);
}

size_t file_writer_waiting(const struct file_writer *w)
{
	return w->pending.len + (w->out && w->out->busy ? w->out->len : 0);
}

bool file_writer_is_full(struct file_writer *w)
{
	const struct sandbox *s = w->sandbox;
	const size_t mine = file_writer_waiting(w);

	if (w->was_full || w->state != WRITER_OPEN || w->commit || w->failed)
		return w->was_full;
	if (mine > FILE_WRITER_FULL ||
	    !has_room(s->manager->config.budgets, s->owner, FILE_WRITER_FULL)) {
		w->was_full = true;
		if (mine == 0)
			list_append(&starved, &w->starving);
	}
	return w->was_full;
}

uint64_t file_writers_waiting(const struct sandbox *s)
{
	uint64_t n = 0;

	list_for_each(l, &s->writers)
		n += file_writer_waiting(list_entry(l, struct file_writer, node));
	return n;
}

uint64_t file_writer_written(const struct file_writer *w)
{
	return w->written;
}

void file_writer_close(struct file_writer *w)
{
	w->finish = true;
	go_on(w);
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

/* Writers that wait for an answer of the engine are not ended here: the engine still answers. An owner
 * that is told may drop other writers of the list, so each round looks anew. */
void file_writers_end(struct sandbox *s)
{
	struct file_writer *w;
	struct err e = ERR_INIT;

	(void)sandbox_ref(s);
	while ((w = find(s, WRITER_OPEN, WRITER_WAITING))) {
		lost(w, &e);
		writer_end(w, &e);
	}
	(void)sandbox_unref(s);
}
