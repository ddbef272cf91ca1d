/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox: requests to init, and distrust of its answers. */
#include "engine/front/inside/inside_files.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/tenant_fd.h"
#include "base/text.h"
#include "base/workers.h"
#include "engine/engine_names.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* How long init may be silent. It answers in milliseconds; removing or copying a huge folder takes
 * seconds. */
#define PATIENCE_US (UINT64_C(120) * 1000 * 1000)

static const struct {
	int errnum;
	enum err_code code;
} codes[] = {
    {PROTO_E_HOST_FULL, ERR_HOST_DISK_FULL},
    {ENOENT, ERR_NOT_FOUND},
    {ENOTDIR, ERR_NOT_FOUND},
    {ELOOP, ERR_NOT_FOUND},
    {EXDEV, ERR_NOT_FOUND},
    {EISDIR, ERR_NOT_FOUND},
    {EACCES, ERR_NOT_FOUND},
    {ENXIO, ERR_NOT_FOUND},
    {EROFS, ERR_FORBIDDEN},
    {EPERM, ERR_FORBIDDEN},
    {EEXIST, ERR_FILE_EXISTS},
    {ENOTEMPTY, ERR_FILE_EXISTS},
    {ENOSPC, ERR_NO_SPACE},
    {EDQUOT, ERR_NO_SPACE},
    {EMFILE, ERR_TOO_MANY_FILES},
    {ENFILE, ERR_TOO_MANY_FILES},
    {ENOMEM, ERR_OUT_OF_MEMORY},
    {EBUSY, ERR_SESSION_BUSY},
    {EAGAIN, ERR_SESSION_BUSY},
    {ENAMETOOLONG, ERR_INVALID_PATH},
};

/* A folder is in the way of a file that is written; a file that is read is just not there. */
static bool is_in_the_way(const struct inside_file_op *o, int errnum)
{
	return errnum == EISDIR && (o->op == PROTO_FILE_PUT || o->op == PROTO_FILE_COMMIT);
}

static void set_error(const struct engine_sandbox *s, struct err *e, int errnum,
		      const struct inside_file_op *o)
{
	enum err_code code = is_in_the_way(o, errnum) ? ERR_FILE_EXISTS : ERR_SYSTEM;

	for (size_t i = 0; i < ARRAY_SIZE(codes) && code == ERR_SYSTEM; i++)
		if (codes[i].errnum == errnum)
			code = codes[i].code;
	if (o->op == PROTO_FILE_CONNECT && errnum == ECONNREFUSED) {
		(void)err_set(e, ERR_PORT_CLOSED, 0, "nothing in the sandbox listens on port %u",
			      o->port);
		return;
	}
	if (inside_names_error(o, errnum, e))
		return;
	if (errnum == EROFS) {
		(void)err_set(e, code, 0,
			      "'%s' is no place for files: they are written in the workspace, in "
			      "/tmp and in /home/sandbox",
			      o->path);
		return;
	}
	if (errnum == ENOSPC && s->ration != ENGINE_RATION_ALL)
		code = ERR_HOST_DISK_FULL;
	(void)err_set(e, code, errnum, "'%s'", o->path);
}

/* ---- asking ---- */

/* Does a question wait for init's answer? */
static bool asks(const struct engine_sandbox *s)
{
	return !list_is_empty(&s->ops) || !list_is_empty(&s->usages) || s->checkpoint.cb ||
	       inside_watch_asks(s);
}

static int on_silence(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct engine_sandbox *s = user;

	if (asks(s))
		inside_lose(s, "its first process does not answer");
	return 0;
}

void inside_wait(struct engine_sandbox *s)
{
	if (!s->patience) {
		/* Without memory for the timer the wait has no limit. */
		(void)sd_event_add_time_relative(s->engine->loop, &s->patience, CLOCK_MONOTONIC,
						 PATIENCE_US, PATIENCE_US / 8, on_silence, s);
		return;
	}
	(void)sd_event_source_set_time_relative(s->patience, PATIENCE_US);
	(void)sd_event_source_set_enabled(s->patience, asks(s) ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

/* The file that goes to init with a question, and for an answer in it a second descriptor. 0, or -errno. */
static int carry(struct engine_sandbox *s, struct inside_file_op *o, uint32_t put, int *ret)
{
	if (!s->inward)
		return 0;
	switch (o->op) {
	case PROTO_FILE_COMMIT:
		*ret = inside_carried_in(s, put);
		return MIN(*ret, 0);
	case PROTO_FILE_DROP:
		workers_close(INSIDE_CARRIED, inside_carried_in(s, put));
		return 0;
	case PROTO_FILE_OPEN:
		*ret = inside_carry_out(
		    MAX(s->policy.limits.workspace_bytes, s->policy.limits.tmp_bytes));
		break;
	case PROTO_FILE_LIST:
		*ret = inside_carry_out(PROTO_LIST_MAX * sizeof(struct proto_entry));
		break;
	case PROTO_FILE_STAT:
		*ret = inside_carry_out(sizeof(struct proto_stat));
		break;
	case PROTO_FILE_PUT:
	case PROTO_FILE_REMOVE:
	case PROTO_FILE_MEASURE:
	case PROTO_FILE_CONNECT:
	case PROTO_FILE_PORTS:
	case PROTO_FILE_MAKE:
	case PROTO_FILE_MOVE:
	case PROTO_FILE_SET:
	case PROTO_FILE_OP_MAX_:
	default:
		return 0;
	}
	if (*ret < 0)
		return *ret;
	o->carried = fcntl(*ret, F_DUPFD_CLOEXEC, 0);
	return o->carried < 0 ? -errno : 0;
}

static void free_op(struct inside_file_op *o)
{
	if (!o)
		return;
	workers_close(INSIDE_CARRIED, o->carried);
	workers_close(INSIDE_CARRIED, o->fd);
	if (o->files)
		workers_free_memory(INSIDE_CARRIED, o->files,
				    (size_t)o->answer.n * sizeof(*o->files));
	free(o->stat);
	free(o);
}

int inside_file_bad_path(struct err *e)
{
	return err_set(e, ERR_INVALID_PATH, EINVAL, "a path inside the sandbox is needed");
}

int inside_file_send(struct engine_sandbox *s, enum proto_file_op op, uint32_t seq, uint32_t number,
		     const char *text, const struct proto_head *m, struct inside_file_op **ret,
		     struct err *e)
{
	size_t len = strlen(text) + 1;
	struct inside_file_op *o = calloc(1, sizeof(*o) + len);

	if (!o)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "file request");
	o->seq = seq;
	o->op = op;
	o->carried = -1;
	o->fd = -1;
	memcpy(o->path, text, len);
	_cleanup_fd_ int file = -1;
	int r = carry(s, o, number, &file);
	if (r < 0) {
		set_error(s, e, -r, o);
		free_op(o);
		return r;
	}
	r = channel_send(s->init, m, &file, file >= 0);
	file = -1; /* it is the channel's */
	if (r < 0) {
		free_op(o);
		return inside_refuse(e, r, ERR_SYSTEM, "the sandbox cannot be asked");
	}
	list_append(&s->ops, &o->node);
	inside_wait(s);
	*ret = o;
	return 0;
}

int inside_file_ask(struct engine_sandbox *s, enum proto_file_op op, uint32_t flags,
		    uint32_t number, const char *path, struct inside_file_op **ret, struct err *e)
{
	struct proto_init_file m = {.head = PROTO_HEAD(INIT_FILE, proto_init_file),
				    .op = op,
				    .flags = flags,
				    .seq = ++s->next_seq};
	int r = inside_check_ready(s, e);

	if (r < 0)
		return r;
	*(op == PROTO_FILE_CONNECT ? &m.port : &m.put) = number;
	if (text_copy(m.path, sizeof(m.path), path) < 0 ||
	    !proto_path_ok(m.path, proto_file_may_be_empty(op)))
		return inside_file_bad_path(e);
	return inside_file_send(s, op, m.seq, number, path, &m.head, ret, e);
}

int engine_open_file(struct engine_sandbox *s, const char *path, engine_fd_fn cb, void *user,
		     struct err *e)
{
	struct inside_file_op *o = NULL;
	int r = inside_file_ask(s, PROTO_FILE_OPEN, 0, 0, path, &o, e);

	if (r < 0 || !o)
		return r;
	o->cb.fd = cb;
	o->user = user;
	return 0;
}

int engine_put_file(struct engine_sandbox *s, const char *path, unsigned how, uint32_t *ret_put,
		    engine_fd_fn cb, void *user, struct err *e)
{
	struct inside_file_op *o = NULL;
	int r = inside_file_ask(s, PROTO_FILE_PUT, inside_file_flags(how), 0, path, &o, e);

	if (r < 0 || !o)
		return r;
	o->cb.fd = cb;
	o->user = user;
	*ret_put = o->seq;
	return 0;
}

static int ask_done(struct engine_sandbox *s, enum proto_file_op op, uint32_t flags, uint32_t put,
		    const char *path, engine_done_fn cb, void *user, struct err *e)
{
	struct inside_file_op *o = NULL;
	int r = inside_file_ask(s, op, flags, put, path, &o, e);

	if (r < 0 || !o)
		return r;
	o->cb.done = cb;
	o->user = user;
	return 0;
}

int engine_commit_file(struct engine_sandbox *s, uint32_t put, const char *path, unsigned how,
		       bool keep, engine_done_fn cb, void *user, struct err *e)
{
	return ask_done(s, keep ? PROTO_FILE_COMMIT : PROTO_FILE_DROP, inside_file_flags(how), put,
			path, cb, user, e);
}

int engine_remove_file(struct engine_sandbox *s, const char *path, bool recursive,
		       engine_done_fn cb, void *user, struct err *e)
{
	return ask_done(s, PROTO_FILE_REMOVE, recursive ? PROTO_FILE_RECURSIVE : 0, 0, path, cb,
			user, e);
}

static int ask_list(struct engine_sandbox *s, uint32_t flags, const char *path, engine_list_fn cb,
		    void *user, struct err *e)
{
	struct inside_file_op *o = NULL;
	int r = inside_file_ask(s, PROTO_FILE_LIST, flags, 0, path, &o, e);

	if (r < 0 || !o)
		return r;
	o->cb.list = cb;
	o->user = user;
	return 0;
}

int engine_list_files(struct engine_sandbox *s, const char *path, engine_list_fn cb, void *user,
		      struct err *e)
{
	return ask_list(s, 0, path, cb, user, e);
}

int engine_list_attributes(struct engine_sandbox *s, const char *path, engine_list_fn cb,
			   void *user, struct err *e)
{
	return ask_list(s, PROTO_FILE_ATTRIBUTES, path, cb, user, e);
}

/* ---- answers ---- */

/* A descriptor from a sandbox may be anything. Only a regular file, open in the right mode, is passed
 * on. */
static int check_fd(int fd, bool writing)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EPROTO;
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) != (writing ? O_WRONLY : O_RDONLY))
		return -EPROTO;
	return 0;
}

/* ---- answers in files ---- */

static int file_of(const struct inside_file_op *o)
{
	return o->carried >= 0 ? o->carried : o->fd;
}

/* On a thread, or on the loop where nothing can wait. */
static void read_answer(void *user)
{
	struct inside_file_op *o = user;

	if (o->op == PROTO_FILE_LIST)
		o->r = inside_read_list(file_of(o), o->answer.n, &o->files);
	else if (o->op == PROTO_FILE_STAT)
		o->r = inside_read_stat(file_of(o), o->path, &o->stat);
	else
		o->r = inside_carried_out(file_of(o), o->answer.bytes, o->answer.mtime_ns);
}

static void tell(struct inside_file_op *o)
{
	static const char lie[] = "the sandbox broke the protocol";
	struct err e = ERR_INIT;

	if (o->r == -ENOMEM || o->r == -EBUSY)
		(void)err_set(&e, o->r == -ENOMEM ? ERR_OUT_OF_MEMORY : ERR_RATE_LIMITED, -o->r,
			      "'%s'", o->path);
	else if (o->r < 0)
		(void)err_set(&e, ERR_SANDBOX_LOST, 0, lie);
	if (o->op == PROTO_FILE_LIST)
		o->cb.list(o->files, o->r < 0 ? 0 : o->answer.n, o->r == 0 && o->answer.more != 0,
			   o->r < 0 ? &e : NULL, o->user);
	else if (o->op == PROTO_FILE_STAT)
		o->cb.stat(o->r < 0 ? NULL : o->stat, o->r < 0 ? &e : NULL, o->user);
	else
		o->cb.fd(o->r < 0 ? -1 : TAKE_FD(o->carried), o->r < 0 ? &e : NULL, o->user);
}

static void on_read(void *user)
{
	struct inside_file_op *o = user;
	struct engine_sandbox *s = o->reads;

	loop_work("files", "listed");
	if (s) {
		list_remove(&o->node);
		if (o->r == -EPROTO) /* S may be gone then */
			inside_lose(s, "it broke the protocol");
		tell(o);
	}
	free_op(o);
}

/* A short list in memory, as init sends it: a thread would take longer. Any other file may be on a disk, or be cut by
 * somebody at this moment. */
static bool is_quick(const struct inside_file_op *o)
{
	return (o->op == PROTO_FILE_STAT ||
		(o->op == PROTO_FILE_LIST && o->answer.n <= INSIDE_LIST_BATCH)) &&
	       fcntl(file_of(o), F_GET_SEALS) >= 0;
}

/* *KEEPS: O belongs to a thread, or is gone. */
static int take_answer(struct engine_sandbox *s, struct inside_file_op *o,
		       const struct proto_init_filed *m, bool *keeps)
{
	o->answer = *m;
	if (is_quick(o)) {
		tenant_fd_allow(file_of(o));
		read_answer(o);
	} else {
		o->reads = s;
		list_append(&s->answers, &o->node);
		const int refused = workers_run(channel_payer(s->init), read_answer, on_read, o);
		if (refused == 0) { /* o->r is the thread's, which may be done already */
			*keeps = true;
			return 0;
		}
		list_remove(&o->node);
		o->r = refused;
	}
	const int r = o->r == -EPROTO ? -EPROTO : 0;
	tell(o);
	return r;
}

/* Init has filled our file, or may have one to write. */
static int finish_carried(struct engine_sandbox *s, struct inside_file_op *o,
			  const struct proto_init_filed *m, size_t n, bool *keeps)
{
	struct err e = ERR_INIT;

	if (n != 0) {
		(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox broke the protocol");
		o->cb.fd(-1, &e, o->user);
		return -EPROTO;
	}
	if (o->op == PROTO_FILE_OPEN)
		return take_answer(s, o, m, keeps);
	const int fd = inside_carry_in(s, o->seq);
	if (fd < 0)
		set_error(s, &e, -fd, o);
	o->cb.fd(MAX(fd, -1), fd < 0 ? &e : NULL, o->user);
	return 0;
}

static int finish_fd(struct engine_sandbox *s, struct inside_file_op *o,
		     const struct proto_init_filed *m, const struct err *e, int *fds, size_t n,
		     bool *keeps)
{
	if (!e && s->inward)
		return finish_carried(s, o, m, n, keeps);
	if (e) {
		o->cb.fd(-1, e, o->user);
		return n == 0 ? 0 : -EPROTO;
	}
	const int bad = n != 1                        ? -EPROTO
			: o->op == PROTO_FILE_CONNECT ? inside_check_socket(fds[0])
						      : check_fd(fds[0], o->op == PROTO_FILE_PUT);
	if (bad < 0) {
		struct err lie = ERR_INIT;
		(void)err_set(&lie, ERR_SANDBOX_LOST, 0, "the sandbox broke the protocol");
		o->cb.fd(-1, &lie, o->user);
		return -EPROTO;
	}
	o->cb.fd(TAKE_FD(fds[0]), NULL, o->user);
	return 0;
}

static void tell_failed(const struct inside_file_op *o, const struct err *e)
{
	if (o->op == PROTO_FILE_LIST)
		o->cb.list(NULL, 0, false, e, o->user);
	else
		o->cb.stat(NULL, e, o->user);
}

/* LIST and STAT. */
static int finish_list(struct engine_sandbox *s, struct inside_file_op *o,
		       const struct proto_init_filed *m, const struct err *e, int *fds, size_t n,
		       bool *keeps)
{
	struct err lie = ERR_INIT;

	if (e) {
		tell_failed(o, e);
		return n == 0 ? 0 : -EPROTO;
	}
	if (n != (o->carried >= 0 ? 0 : 1) || m->n > PROTO_LIST_MAX) {
		(void)err_set(&lie, ERR_SANDBOX_LOST, 0, "listing");
		tell_failed(o, &lie);
		return -EPROTO;
	}
	if (n == 1)
		o->fd = TAKE_FD(fds[0]);
	return take_answer(s, o, m, keeps);
}

static int finish_op(struct engine_sandbox *s, struct inside_file_op *o,
		     const struct proto_init_filed *m, int *fds, size_t n, bool *keeps)
{
	struct err e = ERR_INIT;
	const struct err *failed = NULL;

	if (m->errnum != 0) {
		set_error(s, &e, m->errnum, o);
		failed = &e;
	}
	switch (o->op) {
	case PROTO_FILE_OPEN:
	case PROTO_FILE_PUT:
	case PROTO_FILE_CONNECT:
		return finish_fd(s, o, m, failed, fds, n, keeps);
	case PROTO_FILE_LIST:
	case PROTO_FILE_STAT:
		return finish_list(s, o, m, failed, fds, n, keeps);
	case PROTO_FILE_PORTS:
		return inside_finish_ports(o, m, failed, fds, n);
	case PROTO_FILE_COMMIT:
	case PROTO_FILE_DROP:
	case PROTO_FILE_REMOVE:
	case PROTO_FILE_MEASURE:
	case PROTO_FILE_MAKE:
	case PROTO_FILE_MOVE:
	case PROTO_FILE_SET:
	case PROTO_FILE_OP_MAX_:
	default:
		o->cb.done(failed, o->user);
		return n == 0 ? 0 : -EPROTO;
	}
}

static struct inside_file_op *take_op(struct engine_sandbox *s, uint32_t seq)
{
	list_for_each(l, &s->ops) {
		struct inside_file_op *o = list_entry(l, struct inside_file_op, node);
		if (o->seq != seq)
			continue;
		list_remove(l);
		return o;
	}
	return NULL;
}

int inside_filed(struct engine_sandbox *s, const struct proto_init_filed *m, int *fds, size_t n)
{
	if (m->errnum < 0 || m->errnum > 4095)
		return -EPROTO; /* whoever waits is told by the end of the sandbox */
	/* Its workspace is taken away before its init ends. That is no error of a file: the same. */
	if (m->errnum != 0 && s->state == INSIDE_ENDING)
		return 0;
	struct inside_file_op *o = take_op(s, m->seq);
	bool keeps = false;

	inside_wait(s);
	int r = o ? finish_op(s, o, m, fds, n, &keeps) : inside_measured(s, m);
	if (!keeps)
		free_op(o);
	return r;
}

static void tell_end(const struct inside_file_op *o, const struct err *e)
{
	if (o->op == PROTO_FILE_OPEN || o->op == PROTO_FILE_PUT || o->op == PROTO_FILE_CONNECT)
		o->cb.fd(-1, e, o->user);
	else if (o->op == PROTO_FILE_LIST || o->op == PROTO_FILE_STAT)
		tell_failed(o, e);
	else if (o->op == PROTO_FILE_PORTS)
		o->cb.ports(NULL, 0, e, o->user);
	else
		o->cb.done(e, o->user);
}

void inside_files_abort(struct engine_sandbox *s, const struct err *e)
{
	while (!list_is_empty(&s->answers)) {
		struct inside_file_op *o = list_pop_first(&s->answers, struct inside_file_op, node);

		o->reads = NULL; /* the end of the thread's work frees it */
		tell_end(o, e);
	}
	while (!list_is_empty(&s->ops)) {
		struct inside_file_op *o = list_pop_first(&s->ops, struct inside_file_op, node);

		tell_end(o, e);
		free_op(o);
	}
}

bool engine_host_is_full(int fd)
{
	struct statfs s;

	return fstatfs(fd, &s) == 0 && proto_disk_is_closed(s.f_blocks, s.f_bfree, s.f_bavail);
}
