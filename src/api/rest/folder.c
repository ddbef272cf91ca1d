/* SPDX-License-Identifier: Apache-2.0 */
/* REST: sends a folder of a workspace as an archive that is made while it is sent. It contains only
 * regular files and folders. The engine lists and opens each of them beneath the workspace when its
 * turn comes, so a path that changed meanwhile does no harm. Threads read the files and pack them, some
 * pieces at a time; nothing is made while the client has not taken the last ones. If the archive cannot be
 * completed, the connection is cut without a proper end. */
#include "api/files/archiver.h"
#include "api/rest/rest.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "budget/budgets.h"

#include <ctype.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES   (64u << 10) /* bytes of a file that are read at once */
#define PIECES        4           /* that a thread adds before the client gets them */
#define OUT_MAX       (1u << 20)  /* bytes that they may become */
#define NAMES_MAX     (4u << 20)  /* bytes of the names of one folder's files */
#define FOLDERS_BYTES (4u << 20)  /* bytes of the names of folders that wait for their turn */
#define TOTAL_MAX     (UINT64_C(64) << 30) /* bytes of all files; sparse files cost a sandbox nothing */

struct folder {           /* a folder that waits for its turn */
	struct list node; /* in sending.folders */
	int64_t mtime_ns;
	char path[]; /* relative to the requested folder; "" = that folder itself */
};

struct sending {
	struct api *api;
	struct budget_share place;
	struct sandbox *sandbox;    /* reference */
	struct rest_call *call;     /* until the answer begins */
	struct http_stream *stream; /* after that; NULL: the client has disconnected */
	enum archive_form form;
	struct archiver *archiver;
	struct buf out;
	char base[ENGINE_PATH_MAX];
	struct list folders; /* owned; the folder that was found last comes first */
	size_t folders_bytes;
	struct folder *at; /* the folder in progress */
	struct buf names;  /* names of its files, each with its NUL */
	size_t name;       /* offset of the next name */
	int fd;            /* the file in progress, or -1 */
	uint64_t left;     /* bytes of that file that are still to be sent */
	uint64_t offset;
	uint64_t total;
	bool
	    asked; /* the engine has not answered yet, or a thread is at work: it alone uses ARCHIVER, OUT, LEFT
		     * and OFFSET */
	int added; /* what it has to say: 0, or -errno */
	sd_event_source *turn;
};

static void sending_free(struct sending *s)
{
	(void)sd_event_source_disable_unref(s->turn);
	(void)archiver_free(s->archiver);
	list_for_each(n, &s->folders)
		free(list_entry(n, struct folder, node));
	free(s->at);
	buf_done(&s->out);
	buf_done(&s->names);
	workers_close(sandbox_owner(s->sandbox), s->fd);
	(void)sandbox_unref(s->sandbox);
	s->api->archives--;
	budget_give(&s->place);
	free(s);
}

/* Aborts the connection, so that the client sees that the archive is incomplete. */
static void cut_off(struct sending *s)
{
	if (s->stream)
		http_stream_abort(s->stream);
	sending_free(s);
}

static void on_close(void *user)
{
	struct sending *s = user;

	s->stream = NULL;
	if (!s->asked)
		sending_free(s);
}

static void set_turning(struct sending *s, bool on)
{
	(void)sd_event_source_set_enabled(s->turn, on ? SD_EVENT_ON : SD_EVENT_OFF);
}

static void on_drain(void *user)
{
	struct sending *s = user;

	if (!s->asked)
		set_turning(s, true);
}

/* ---- paths ---- */

/* Joins two paths; an empty part is left out. Returns false if the result is too long for the
 * engine. */
static bool join(const char *a, const char *b, char ret[ENGINE_PATH_MAX])
{
	int n = snprintf(ret, ENGINE_PATH_MAX, "%s%s%s", a, *a && *b ? "/" : "", b);

	return n >= 0 && n < ENGINE_PATH_MAX;
}

static int push_folder(struct sending *s, const char *path, int64_t mtime_ns)
{
	size_t len = strlen(path) + 1;
	struct folder *f;

	if (s->folders_bytes + len > FOLDERS_BYTES)
		return -E2BIG;
	f = malloc(sizeof(*f) + len);
	if (!f)
		return -ENOMEM;
	memcpy(f->path, path, len);
	f->mtime_ns = mtime_ns;
	list_prepend(&s->folders, &f->node);
	s->folders_bytes += len;
	return 0;
}

/* True if a file or folder was removed or replaced after it was listed; then it is left out. Any
 * other error means that the archive cannot be completed. */
static bool is_gone(const struct err *e)
{
	return e->code == ERR_NOT_FOUND || e->code == ERR_INVALID_PATH;
}

/* ---- folders ---- */

static int take_listing(struct sending *s, const struct engine_file *files, size_t n)
{
	char path[ENGINE_PATH_MAX];
	int r = 0;

	buf_reset(&s->names);
	s->name = 0;
	for (size_t i = 0; i < n && r == 0; i++) {
		if (!join(s->at->path, files[i].name, path))
			continue;
		if (S_ISDIR(files[i].mode))
			r = push_folder(s, path, files[i].mtime_ns);
		else if (S_ISREG(files[i].mode))
			r = buf_add(&s->names, files[i].name, strlen(files[i].name) + 1);
	}
	if (r == 0 && s->at->path[0])
		r = archiver_add_folder(s->archiver, s->at->path, s->at->mtime_ns);
	return r;
}

static void on_list(const struct engine_file *files, size_t n, bool more, const struct err *e,
		    void *user)
{
	struct sending *s = user;

	s->asked = false;
	if (!s->stream)
		sending_free(s);
	else if ((e && !is_gone(e)) || more || (!e && take_listing(s, files, n) < 0))
		cut_off(s);
	else
		set_turning(s, true);
}

static int next_folder(struct sending *s)
{
	char path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	free(s->at);
	s->at = list_pop_first(&s->folders, struct folder, node);
	ASSERT(s->at); /* the caller has looked */
	s->folders_bytes -= strlen(s->at->path) + 1;
	buf_reset(&s->names);
	s->name = 0;
	if (!join(s->base, s->at->path, path))
		return 0;
	if (sandbox_list(s->sandbox, path, on_list, s, &e) < 0)
		return -EIO;
	s->asked = true;
	return 0;
}

/* ---- files ---- */

static int begin_file(struct sending *s, const struct engine_file *info)
{
	char path[ENGINE_PATH_MAX];

	s->left = info->size;
	s->offset = 0;
	s->total += info->size;
	if (s->total > TOTAL_MAX || !join(s->at->path, info->name, path))
		return -EFBIG;
	return archiver_add_file(s->archiver, path, info->size, info->mode, info->mtime_ns);
}

static void on_open(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct sending *s = user;

	s->asked = false;
	if (!e)
		s->fd = fd;
	if (!s->stream)
		sending_free(s);
	else if (e ? !is_gone(e) : begin_file(s, info) < 0)
		cut_off(s);
	else
		set_turning(s, true);
}

static int next_file(struct sending *s)
{
	const char *name = buf_str(&s->names) + s->name;
	char below[ENGINE_PATH_MAX], path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	s->name += strlen(name) + 1;
	if (!join(s->at->path, name, below) || !join(s->base, below, path))
		return 0;
	if (sandbox_open_file(s->sandbox, path, on_open, s, &e) < 0)
		return -EIO;
	s->asked = true;
	return 0;
}

/* On a thread: adds a piece of the file. If the file has become shorter, zeros fill the rest; if it has become
 * longer, the rest is left out. */
static int add_piece(struct sending *s)
{
	char space[PIECE_BYTES];
	size_t want = (size_t)MIN(s->left, (uint64_t)sizeof(space));
	ssize_t n = want > 0 ? pread(s->fd, space, want, (off_t)s->offset) : 0;

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	if (n == 0) {
		memset(space, 0, want);
		n = (ssize_t)want;
	}
	int r = want > 0 ? archiver_add_data(s->archiver, space, (size_t)n) : 0;
	s->offset += (uint64_t)n;
	s->left -= (uint64_t)n;
	return r;
}

static void add_pieces(void *user)
{
	struct sending *s = user;

	s->added = 0;
	for (unsigned i = 0; i < PIECES && s->added == 0 && (i == 0 || s->left > 0); i++)
		s->added = add_piece(s);
}

/* ---- the turns ---- */

static int flush(struct sending *s)
{
	int r = s->out.len > 0 ? http_stream_write(s->stream, buf_str(&s->out), s->out.len) : 0;

	buf_reset(&s->out);
	return r;
}

static void on_added(void *user)
{
	struct sending *s = user;

	loop_work("archive", "piece");
	s->asked = false;
	if (!s->stream) {
		sending_free(s);
		return;
	}
	if (s->left == 0) {
		workers_close(sandbox_owner(s->sandbox), s->fd);
		s->fd = -1;
	}
	if (s->added < 0 || flush(s) < 0)
		cut_off(s);
	else
		set_turning(s, http_stream_queued(s->stream) == 0);
}

/* An answer that has begun cannot be refused; BUDGET_ARCHIVES bounds how many there are. */
static int ask_thread(struct sending *s)
{
	s->asked = true;
	const int r = workers_run_counted(sandbox_owner(s->sandbox), add_pieces, on_added, s);
	if (r < 0)
		s->asked = false;
	return r;
}

/* On a thread: the end of a zip with thousands of names has megabytes. */
static void end_archive(void *user)
{
	struct sending *s = user;

	s->added = archiver_end(s->archiver);
}

static int send_end(struct sending *s)
{
	const size_t len = s->out.len;
	char *data = len > 0 ? buf_take(&s->out) : NULL;
	struct shared_bytes *end = data ? shared_bytes_new(data, len) : NULL;
	int r = len > 0 ? -ENOMEM : 0;

	if (end)
		r = http_stream_write_shared(s->stream, "", 0, end, "", 0);
	(void)shared_bytes_unref(end);
	return r;
}

static void on_ended(void *user)
{
	struct sending *s = user;

	loop_work("archive", "end");
	s->asked = false;
	if (!s->stream) {
		sending_free(s);
	} else if (s->added < 0 || send_end(s) < 0) {
		cut_off(s);
	} else {
		http_stream_end(TAKE_PTR(s->stream));
		sending_free(s);
	}
}

static void finish(struct sending *s)
{
	s->out.max = ARCHIVER_END_MAX;
	s->asked = true;
	if (workers_run_counted(sandbox_owner(s->sandbox), end_archive, on_ended, s) == 0)
		return; /* S may be gone */
	s->asked = false;
	cut_off(s);
}

static int on_turn(sd_event_source *source UNUSED, void *user)
{
	struct sending *s = user;
	int r;

	loop_work("archive", "of a folder");
	sandbox_touch(s->sandbox);
	if (s->fd >= 0) {
		set_turning(s, false);
		if (ask_thread(s) < 0)
			cut_off(s);
		return 0; /* S may be gone */
	}
	if (s->name < s->names.len) {
		r = next_file(s);
	} else if (!list_is_empty(&s->folders)) {
		r = next_folder(s);
	} else {
		set_turning(s, false);
		finish(s);
		return 0;
	}
	r = r < 0 ? r : flush(s);
	if (r < 0) {
		set_turning(s, false);
		cut_off(s);
	} else if (s->asked || http_stream_queued(s->stream) > 0) {
		set_turning(s, false);
	}
	return 0;
}

/* ---- start ---- */

/* The name of the folder without characters that a header or a file system could misread. */
static void make_disposition(const struct sending *s, char *ret, size_t size)
{
	const char *slash = strrchr(s->base, '/'), *name = slash ? slash + 1 : s->base;
	char plain[65];
	size_t n = 0;

	for (const char *p = *name ? name : "files"; *p && n < sizeof(plain) - 1; p++, n++) {
		bool fine = isalnum((unsigned char)*p) || (*p == '.' && n > 0) || *p == '-';
		plain[n] = fine ? *p : '_';
	}
	plain[n] = '\0';
	(void)snprintf(ret, size, "attachment; filename=\"%s.%s\"", plain,
		       archive_form_suffix(s->form));
}

static const struct http_stream_ops ops = {.on_close = on_close, .on_drain = on_drain};

/* The folder exists: begins the answer. */
static int begin_stream(struct sending *s)
{
	char disposition[128];
	struct http_request *req = rest_give(TAKE_PTR(s->call));
	int r;

	if (!req)
		return -ECONNRESET;
	make_disposition(s, disposition, sizeof(disposition));
	/* If the header does not fit, it is left out and the browser chooses a name. */
	(void)(http_add_header(req, "Content-Disposition", disposition) < 0);
	s->stream = http_stream_begin(req, 200, archive_form_type(s->form), &ops, s);
	if (!s->stream)
		return -ECONNRESET; /* or the request is a HEAD */
	s->archiver = archiver_new(s->form, &s->out);
	if (!s->archiver)
		return -ENOMEM;
	r = sd_event_add_defer(s->api->config.loop, &s->turn, on_turn, s);
	/* A defer source keeps the first place in its queue, so others of its priority would
	 * starve. */
	r = r < 0 ? r : sd_event_source_set_priority(s->turn, SD_EVENT_PRIORITY_NORMAL + 1);
	return r < 0 ? r : sd_event_source_set_enabled(s->turn, SD_EVENT_ON);
}

static void on_first_list(const struct engine_file *files, size_t n, bool more, const struct err *e,
			  void *user)
{
	struct sending *s = user;

	s->asked = false;
	if (e || more) {
		if (e)
			rest_fail(s->call, e);
		else
			rest_refuse(s->call, ERR_INVALID_ARGUMENT,
				    "a folder has more than %d entries", ENGINE_FILES_MAX);
		sending_free(s);
		return;
	}
	if (begin_stream(s) < 0 || take_listing(s, files, n) < 0)
		cut_off(s);
}

void rest_send_folder(struct rest_call *c, const char *path, const char *form)
{
	struct err e = ERR_INIT;
	struct sending *s;

	s = calloc(1, sizeof(*s));
	if (s)
		s->at = calloc(1, sizeof(*s->at) + 1);
	if (!s || !s->at) {
		free(s);
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	if (budget_take(c->api->config.budgets, c->who->owner, BUDGET_ARCHIVES, 1, &s->place, &e) <
	    0) {
		free(s->at);
		free(s);
		rest_fail(c, &e);
		return;
	}
	list_init(&s->folders);
	s->api = c->api;
	s->api->archives++;
	s->call = c;
	s->sandbox = sandbox_ref(c->sandbox);
	s->form = streq(form, archive_form_suffix(ARCHIVE_FORM_ZIP)) ? ARCHIVE_FORM_ZIP
								     : ARCHIVE_FORM_TAR;
	s->fd = -1;
	s->out = BUF_INIT(OUT_MAX);
	s->names = BUF_INIT(NAMES_MAX);
	(void)snprintf(s->base, sizeof(s->base), "%s", path);
	if (sandbox_list(s->sandbox, path, on_first_list, s, &e) < 0) {
		sending_free(s);
		rest_fail(c, &e);
		return;
	}
	s->asked = true;
}
