/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/whole_output.h"

#include "base/text.h"
#include "sandbox/file_writer.h"
#include "sandbox/run_life.h"

#include <string.h>
#include <sys/stat.h>

/* Bytes that wait in memory until init has opened the file. That takes it a millisecond, or longer when
 * the machine is busy; a pipe gives at most 256 KiB in 4 ms. */
#define PENDING_MAX ((size_t)4 << 20)
#define PATH_BYTES  80
#define LACKS_MAX   160

enum whole_state {
	WHOLE_OPENING,    /* init was asked for a file without a name */
	WHOLE_OPEN,       /* the file takes bytes */
	WHOLE_COMMITTING, /* init was asked to give the file its name */
	WHOLE_OVER,       /* the file has its name, or there is no file */
};

struct whole_output {
	struct run *run;
	enum whole_state state;
	struct file_writer *writer; /* until OVER */
	struct buf pending;         /* not written yet */
	uint64_t size;              /* bytes that were taken */
	uint64_t written;           /* bytes of the file, once it has its name */
	bool named;
	bool value; /* of an expression: its length has a bound, and it is never too fast */
	bool full;  /* no more bytes are taken */
	bool ended; /* all output has arrived */
	char lacks[LACKS_MAX];
	char path[PATH_BYTES];
};

static const char *const suffixes[] = {[ENGINE_STDOUT] = ".stdout.txt",
				       [ENGINE_STDERR] = ".stderr.txt",
				       [ENGINE_RESULT] = ".result.txt"};

/* ---- the end of one file ---- */

/* Calls the run back when no file is on its way any more. */
static void go_on_if_stored(struct run *r)
{
	void (*done)(struct run *) = r->stored;

	if (!done)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(r->whole); i++)
		if (r->whole[i] && r->whole[i]->state != WHOLE_OVER)
			return;
	r->stored = NULL;
	done(r);
}

/* The first reason counts: the others follow from it. */
static void note_lack(struct whole_output *w, const char *why)
{
	w->full = true;
	if (!w->lacks[0])
		(void)snprintf(w->lacks, sizeof(w->lacks), "%.*s", LACKS_MAX - 1, why);
}

static void over(struct whole_output *w)
{
	w->state = WHOLE_OVER;
	w->writer = NULL;
	buf_done(&w->pending);
	if (w->ended)
		go_on_if_stored(w->run);
}

static void on_end(uint64_t written, const struct err *e, void *user)
{
	struct whole_output *w = user;

	w->named = !e;
	w->written = written;
	if (e)
		note_lack(w, e->text);
	over(w);
}

/* ---- writing ---- */

static void write_now(struct whole_output *w, const void *data, size_t len)
{
	struct err e = ERR_INIT;

	if (len == 0)
		return;
	if (!w->value && file_writer_waiting(w->writer) > PENDING_MAX)
		note_lack(w, "the output came faster than it could be stored");
	else if (file_writer_add(w->writer, data, len, &e) < 0)
		note_lack(w, e.text);
}

static void commit(struct whole_output *w)
{
	w->state = WHOLE_COMMITTING;
	file_writer_commit(w->writer);
}

static void on_ready(void *user)
{
	struct whole_output *w = user;
	struct err e = ERR_INIT;

	w->state = WHOLE_OPEN;
	if (w->pending.len > 0 && file_writer_take(w->writer, &w->pending, &e) < 0)
		note_lack(w, e.text);
	buf_done(&w->pending);
	if (w->ended)
		commit(w);
}

static void on_failed(const struct err *e, void *user)
{
	note_lack(user, e->text);
}

static const struct file_writer_ops writer_ops = {
    .on_ready = on_ready, .on_failed = on_failed, .on_end = on_end};

static void take(struct whole_output *w, const char *data, size_t len)
{
	const uint64_t max = w->run->sandbox->manager->config.whole_output_max;
	const size_t room = (size_t)MIN(max - w->size, (uint64_t)len);

	if (w->full || w->state == WHOLE_OVER)
		return;
	w->size += room;
	if (w->state == WHOLE_OPEN)
		write_now(w, data, room);
	else if (buf_add(&w->pending, data, room) < 0)
		note_lack(w, "the output came faster than it could be stored");
	if (room < len)
		note_lack(w, "longer than SANDBOX_WHOLE_OUTPUT_BYTES");
}

/* ---- older files ---- */

static bool is_ours(const struct engine_file *file)
{
	if (!S_ISREG(file->mode) || !text_starts_with(file->name, "run_"))
		return false;
	for (size_t i = ENGINE_STDOUT; i < ARRAY_SIZE(suffixes); i++)
		if (text_ends_with(file->name, suffixes[i]))
			return true;
	return false;
}

static int newest_first(const void *a, const void *b)
{
	const struct engine_file *x = a, *y = b;

	return x->mtime_ns < y->mtime_ns ? 1 : x->mtime_ns > y->mtime_ns ? -1 : 0;
}

static void on_removed(const struct err *e UNUSED, void *user UNUSED)
{
}

/* Files that the run of S is about to add. */
static size_t count_new(const struct sandbox *s)
{
	size_t n = 0;

	for (size_t i = 0; s->run && i < ARRAY_SIZE(s->run->whole); i++)
		n += s->run->whole[i] ? 1 : 0;
	return n;
}

/* Removes the oldest files, so that with the new ones there are WHOLE_OUTPUT_FILES. What code in the
 * sandbox put there under other names stays. */
static void on_listed(const struct engine_file *files, size_t n, bool more UNUSED,
		      const struct err *e, void *user)
{
	struct sandbox *s = user;
	struct engine_file *ours = e || n == 0 ? NULL : calloc(n, sizeof(*ours));
	struct err ignored = ERR_INIT;
	size_t n_ours = 0;
	char path[sizeof(WHOLE_OUTPUT_FOLDER) + sizeof(ours->name)];

	for (size_t i = 0; ours && i < n; i++)
		if (is_ours(&files[i]))
			ours[n_ours++] = files[i];
	if (n_ours > 1)
		qsort(ours, n_ours, sizeof(*ours), newest_first);
	for (size_t i = WHOLE_OUTPUT_FILES - count_new(s); i < n_ours && s->state == SANDBOX_READY;
	     i++) {
		(void)snprintf(path, sizeof(path), WHOLE_OUTPUT_FOLDER "/%s", ours[i].name);
		(void)!engine_remove_file(s->handle, path, false, on_removed, NULL, &ignored);
	}
	free(ours);
	(void)sandbox_unref(s);
}

static void remove_older(struct sandbox *s)
{
	struct err ignored = ERR_INIT;

	if (engine_list_files(s->handle, WHOLE_OUTPUT_FOLDER, on_listed, sandbox_ref(s), &ignored) <
	    0)
		(void)sandbox_unref(s);
}

/* ---- a file begins ---- */

/* The file of stream S with what is kept of it in memory. NULL: no memory, so there is no file. */
static struct whole_output *begin(struct run *r, enum engine_stream s)
{
	struct whole_output *w = calloc(1, sizeof(*w));
	const struct kept_output *k = &r->output[s];
	struct err e = ERR_INIT;

	r->whole[s] = w;
	if (!w)
		return NULL;
	w->run = r;
	(void)snprintf(w->path, sizeof(w->path), WHOLE_OUTPUT_FOLDER "/%s%s", r->id, suffixes[s]);
	w->value = s == ENGINE_RESULT;
	buf_init(&w->pending, s == ENGINE_RESULT
				  ? (size_t)r->sandbox->manager->config.whole_output_max
				  : PENDING_MAX + k->data.max);
	remove_older(r->sandbox);
	if (file_writer_new(r->sandbox, w->path, ENGINE_FILE_OVERWRITE, &writer_ops, w, &w->writer,
			    &e) < 0) {
		note_lack(w, e.text);
		w->state = WHOLE_OVER;
		return w;
	}
	take(w, buf_str(&k->data), k->data.len);
	take(w, k->line, k->line_len); /* not ended yet, so it is not among the data */
	take(w, "\r", k->again ? 1 : 0);
	return w;
}

static bool may_begin(const struct run *r)
{
	return r->request.whole_over > 0 && !r->request.unbounded &&
	       r->sandbox->manager->config.whole_output_max > 0 &&
	       r->sandbox->state == SANDBOX_READY;
}

void whole_output_add(struct run *r, enum engine_stream s, const void *data, size_t len)
{
	const struct kept_output *k = &r->output[s];
	struct whole_output *w = r->whole[s];

	if (!w && k->total + len > k->data.max && !k->lost && may_begin(r))
		w = begin(r, s);
	if (w)
		take(w, data, len);
}

/* ---- the end ---- */

/* The answer to the client has less room than the memory: a stream that is whole in memory may be cut
 * there. */
static void begin_those_cut(struct run *r)
{
	struct run_result sizes = {.out = {.len = r->output[ENGINE_STDOUT].data.len},
				   .err = {.len = r->output[ENGINE_STDERR].data.len},
				   .value = {.len = r->output[ENGINE_RESULT].data.len}};
	size_t shares[ENGINE_RESULT + 1];

	run_result_share(&sizes, r->request.whole_over, shares);
	for (size_t s = ENGINE_STDOUT; s <= ENGINE_RESULT; s++)
		if (!r->whole[s] && kept_output_is_long(&r->output[s], shares[s]) &&
		    !r->output[s].lost)
			(void)begin(r, (enum engine_stream)s);
}

void whole_output_end(struct run *r, void (*done)(struct run *r))
{
	if (may_begin(r) && !r->request.report)
		begin_those_cut(r);
	for (size_t i = 0; i < ARRAY_SIZE(r->whole); i++) {
		struct whole_output *w = r->whole[i];

		if (!w)
			continue;
		w->ended = true;
		if (w->state == WHOLE_OPEN)
			commit(w);
	}
	/* Only now: a file that ended in this loop must not end the run before the others are asked. */
	r->stored = done;
	go_on_if_stored(r);
}

void whole_output_tell(const struct run *r, enum engine_stream s, struct run_output *o)
{
	const struct whole_output *w = r->whole[s];

	if (!w)
		return;
	o->file = w->named ? w->path : NULL;
	o->file_bytes = w->written;
	o->file_lacks = w->lacks[0] ? w->lacks : NULL;
}

void whole_output_free(struct run *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->whole); i++) {
		struct whole_output *w = TAKE_PTR(r->whole[i]);

		if (!w)
			continue;
		w->writer = file_writer_drop(w->writer);
		buf_done(&w->pending);
		free(w);
	}
}
