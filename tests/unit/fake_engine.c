/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_engine.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

struct fake_run {
	struct fake_sandbox *sandbox;
	uint32_t id;        /* 0 = none is on */
	int out[3];         /* pipes, by enum engine_stream */
	struct buf data[3]; /* what they do not take at once */
	sd_event_source *pump;
	struct proto_init_ended ended;
	char *code;
	size_t len;
	bool killed;
};

struct fake_sandbox {
	struct engine_sandbox base; /* first */
	struct fake_sandbox *next;
	char path[96];
	int init; /* init's end of the channel */
	sd_event_source *source, *later;
	struct fake_run run;
};

static struct fake_engine *engine_of_fake(const struct fake_sandbox *s)
{
	return (struct fake_engine *)s->base.engine;
}

static int remove_entry(const char *path, const struct stat *st UNUSED, int type UNUSED,
			struct FTW *ftw UNUSED)
{
	return remove(path);
}

static void reply(struct fake_sandbox *s, const struct proto_head *m, int fd)
{
	if (s->init >= 0)
		ASSERT(fd_send(s->init, m, m->size, &fd, fd >= 0, 0) == (ssize_t)m->size);
	(void)fd_close(fd);
}

static void release_disks(struct fake_engine *g);

/* ---- init: runs ---- */

void fake_output(struct fake_run *r, enum engine_stream stream, const void *data, size_t len)
{
	ASSERT(buf_add(&r->data[stream], data, len) == 0);
}

struct engine_sandbox *fake_run_sandbox(struct fake_run *r)
{
	return &r->sandbox->base;
}

static void drop_run(struct fake_run *r)
{
	fd_close_many(r->out, ARRAY_SIZE(r->out));
	for (size_t i = 0; i < ARRAY_SIZE(r->data); i++)
		buf_done(&r->data[i]);
	r->pump = sd_event_source_disable_unref(r->pump);
	free(r->code);
	*r = (struct fake_run){.sandbox = r->sandbox, .out = {-1, -1, -1}};
}

/* The front reads the pipes on this same loop, so they are filled as it empties them. */
static int on_pump(sd_event_source *source, void *user)
{
	struct fake_run *r = user;
	struct fake_sandbox *s = r->sandbox;
	const struct proto_init_ended ended = r->ended;

	for (size_t i = ENGINE_STDOUT; i <= ENGINE_STDERR; i++) {
		ssize_t n = write(r->out[i], r->data[i].data, r->data[i].len);
		buf_consume(&r->data[i], n > 0 ? (size_t)n : 0);
		if (r->data[i].len > 0 && !r->killed)
			return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	}
	drop_run(r);
	reply(s, &ended.head, -1);
	return 0;
}

static void end_run(struct fake_run *r)
{
	static const uint32_t flags[] = {[ENGINE_END_TIMEOUT] = PROTO_ENDED_TIMEOUT,
					 [ENGINE_END_OOM] = PROTO_ENDED_OOM,
					 [ENGINE_END_KILLED] = PROTO_ENDED_KILLED};
	struct fake_sandbox *s = r->sandbox;
	struct engine_run_result res = {.end = ENGINE_END_EXITED, .duration_ns = 5000000};

	if (r->killed)
		res = (struct engine_run_result){.end = ENGINE_END_KILLED, .exit_code = 137};
	else if (engine_of_fake(s)->script)
		engine_of_fake(s)->script(r, s->path, r->code, r->len, &res);
	const bool signaled = res.exit_code > 128;
	r->ended = (struct proto_init_ended){
	    .head = PROTO_HEAD(INIT_ENDED, proto_init_ended),
	    .run = r->id,
	    .end = signaled ? PROTO_END_SIGNALED : PROTO_END_EXITED,
	    .value = signaled ? res.exit_code - 128 : res.exit_code,
	    .flags = (res.end < ARRAY_SIZE(flags) ? flags[res.end] : 0) |
		     (res.state_kept ? PROTO_ENDED_KEPT : 0),
	    .duration_ns = res.duration_ns,
	};
	if (res.end == ENGINE_END_LOST)
		fake_engine_lose(&s->base);
	else if (!r->pump) /* idle, so that the front reads first */
		ASSERT(sd_event_add_defer(s->base.engine->loop, &r->pump, on_pump, r) >= 0 &&
		       sd_event_source_set_priority(r->pump, SD_EVENT_PRIORITY_IDLE) >= 0);
}

static void on_run(struct fake_sandbox *s, const struct proto_init_run *m, int *fds)
{
	struct fake_run *r = &s->run;
	_cleanup_(buf_done) struct buf code = BUF_INIT(1u << 20);

	drop_run(r);
	r->id = m->run;
	for (size_t i = ENGINE_STDOUT; i <= ENGINE_STDERR; i++) {
		r->out[i] = TAKE_FD(fds[i - ENGINE_STDOUT]);
		buf_init(&r->data[i], 16u << 20);
		ASSERT(fd_set_nonblock(r->out[i], true) == 0);
	}
	if (m->fds & PROTO_RUN_CODE)
		ASSERT(fd_read_file(fds[PROTO_RUN_BASE_FDS], &code) >= 0);
	r->len = code.len;
	r->code = strdup(buf_str(&code));
	ASSERT(r->code);
	if (!engine_of_fake(s)->hold)
		end_run(r);
}

/* ---- init: files ---- */

static int list(const char *path, struct proto_init_filed *m)
{
	struct proto_entry entry;
	_cleanup_dir_ DIR *dir = opendir(path);
	struct stat st;

	if (!dir)
		return -1;
	int fd = memfd_create("list", MFD_CLOEXEC);
	ASSERT(fd >= 0);
	for (const struct dirent *d; (d = readdir(dir));) {
		if (streq(d->d_name, ".") || streq(d->d_name, "..") ||
		    fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		entry = (struct proto_entry){
		    .size = (uint64_t)st.st_size,
		    .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
		    .ctime_ns = (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec,
		    .inode = st.st_ino,
		    .mode = st.st_mode,
		    .nlink = (uint32_t)st.st_nlink};
		(void)snprintf(entry.name, sizeof(entry.name), "%s", d->d_name);
		ASSERT(write(fd, &entry, sizeof(entry)) == (ssize_t)sizeof(entry));
		m->n++;
	}
	return fd;
}

static int look(const char *path, struct proto_init_filed *m)
{
	struct proto_stat found = {0};
	struct stat st;

	if (lstat(path, &st) < 0)
		return -1;
	int fd = memfd_create("stat", MFD_CLOEXEC);
	found.entry.size = (uint64_t)st.st_size;
	found.entry.mode = st.st_mode;
	ASSERT(fd >= 0 && write(fd, &found, sizeof(found)) == (ssize_t)sizeof(found));
	m->n = 1;
	return fd;
}

static void on_move(struct fake_sandbox *s, const struct proto_init_move *f)
{
	struct proto_init_filed m = {.head = PROTO_HEAD(INIT_FILED, proto_init_filed),
				     .seq = f->seq};
	char from[sizeof(f->from) + 128], to[sizeof(from)];

	(void)snprintf(from, sizeof(from), "%s/%s", s->path, f->from);
	(void)snprintf(to, sizeof(to), "%s/%s", s->path, f->to);
	m.errnum = rename(from, to) < 0 ? errno : 0;
	reply(s, &m.head, -1);
}

/* Returns the descriptor of the answer, or -1 with errno (0: done). */
static int do_file(struct fake_sandbox *s, const struct proto_init_file *f,
		   struct proto_init_filed *m)
{
	char path[sizeof(f->path) + 128], part[sizeof(path) + 8];
	const bool taken = !(f->flags & PROTO_FILE_OVERWRITE);

	(void)snprintf(path, sizeof(path), "%s/%s", s->path, f->path);
	(void)snprintf(part, sizeof(part), "%s/.put-%u", s->path,
		       f->op == PROTO_FILE_PUT ? f->seq : f->put);
	errno = taken && access(path, F_OK) == 0 ? EEXIST : 0;
	switch (f->op) {
	case PROTO_FILE_OPEN:
		return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	case PROTO_FILE_PUT:
		engine_of_fake(s)->n_puts++;
		return errno ? -1 : open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	case PROTO_FILE_COMMIT:
		if (errno == 0)
			(void)rename(part, path);
		return -1;
	case PROTO_FILE_LIST:
		engine_of_fake(s)->n_lists++;
		return list(path, m);
	case PROTO_FILE_STAT:
		return look(path, m);
	case PROTO_FILE_MAKE:
		errno = 0;
		(void)mkdir(path, 0755);
		return -1;
	default:
		errno = 0;
		(void)unlink(f->op == PROTO_FILE_DROP ? part : path);
		return -1;
	}
}

static void on_file(struct fake_sandbox *s, const struct proto_init_file *f)
{
	struct proto_init_filed m = {.head = PROTO_HEAD(INIT_FILED, proto_init_filed),
				     .seq = f->seq};
	int fd = do_file(s, f, &m);

	m.errnum = fd < 0 ? errno : 0;
	reply(s, &m.head, fd);
}

/* ---- init: checkpoints ---- */

static void on_checkpoint(struct fake_sandbox *s, const struct proto_init_checkpoint *f)
{
	struct fake_engine *g = engine_of_fake(s);
	struct proto_init_checkpointed m = {
	    .head = PROTO_HEAD(INIT_CHECKPOINTED, proto_init_checkpointed),
	    .seq = f->seq,
	    .flags = PROTO_CHECKPOINT_KEPT,
	    .bytes = 10};
	const bool save = f->op == PROTO_CHECKPOINT_SAVE;
	const bool drop = f->op == PROTO_CHECKPOINT_DROP;
	enum err_code none = ERR_NONE;
	enum err_code *fail = save ? &g->fail_save : drop ? &none : &g->fail_restore;

	ASSERT(s->run.id == 0 && g->used[f->place] == !save);
	*(save ? &g->n_saves : drop ? &g->n_drops : &g->n_restores) += 1;
	if (*fail == ERR_CHECKPOINT_PARTIAL)
		m.flags = PROTO_CHECKPOINT_PARTIAL;
	if (*fail != ERR_NONE)
		m.errnum = *fail == ERR_NO_SPACE ? ENOSPC : ESTALE;
	else if (f->op == PROTO_CHECKPOINT_RESTORE)
		g->state = g->checkpoints[f->place];
	else
		g->used[f->place] = save;
	if (save)
		g->checkpoints[f->place] = g->state;
	m.files = g->state;
	*fail = ERR_NONE;
	reply(s, &m.head, -1);
}

static int on_message(sd_event_source *source UNUSED, int fd, uint32_t revents UNUSED, void *user)
{
	struct fake_sandbox *s = user;
	static union proto_frame f;
	int fds[FDIO_PASS_MAX];
	size_t n = 0;
	ssize_t size = fd_recv(fd, &f, sizeof(f), fds, &n, MSG_DONTWAIT);

	if (size <= 0) {
		s->source = sd_event_source_disable_unref(s->source);
		return 0;
	}
	ASSERT(proto_check(&f, (size_t)size, n, PROTO_PARTY_F, PROTO_PARTY_I) == 0);
	if (f.head.type == PROTO_INIT_RUN)
		on_run(s, &f.run, fds);
	else if (f.head.type == PROTO_INIT_FILE)
		on_file(s, &f.file);
	else if (f.head.type == PROTO_INIT_MOVE)
		on_move(s, &f.move);
	else if (f.head.type == PROTO_INIT_LIMIT)
		engine_of_fake(s)->n_limits++;
	else if (f.head.type == PROTO_INIT_CHECKPOINT)
		on_checkpoint(s, &f.checkpoint);
	else if (f.head.type == PROTO_INIT_SIGNAL && f.signal.signo == SIGKILL && s->run.id) {
		s->run.killed = true;
		end_run(&s->run);
	}
	fd_close_many(fds, n);
	return 0;
}

void fake_engine_lose(struct engine_sandbox *s)
{
	struct fake_sandbox *f = (struct fake_sandbox *)s;

	f->source = sd_event_source_disable_unref(f->source);
	f->init = fd_close(f->init);
}

/* ---- the engine ---- */

static int start_init(sd_event_source *source UNUSED, void *user)
{
	const struct proto_init_ready ready = {.head = PROTO_HEAD(INIT_READY, proto_init_ready)};
	struct fake_sandbox *s = user;
	struct fake_engine *g = engine_of_fake(s);
	struct err e = ERR_INIT;
	int pair[2];

	s->later = sd_event_source_disable_unref(s->later);
	if (g->fail_create) {
		g->fail_create = false;
		(void)err_set(&e, ERR_ENGINE_UNAVAILABLE, 0, "no engine today");
		inside_refused(&s->base, &e);
		return 0;
	}
	(void)snprintf(s->path, sizeof(s->path), "%s/%u", g->root, ++g->n_created);
	g->n_alive++;
	ASSERT(mkdir(s->path, 0700) == 0);
	ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	s->init = pair[1];
	ASSERT(sd_event_add_io(g->engine.loop, &s->source, s->init, EPOLLIN, on_message, s) >= 0);
	inside_started(&s->base, pair[0], &(struct inside_counters){-1, -1, -1});
	reply(s, &ready.head, -1);
	return 0;
}

static void later(struct fake_sandbox *s, sd_event_handler_t fn)
{
	ASSERT(!s->later && sd_event_add_defer(s->base.engine->loop, &s->later, fn, s) >= 0);
}

static int fake_create(struct engine *base, const struct engine_create *c, engine_create_fn cb,
		       void *user, struct err *e UNUSED)
{
	struct fake_engine *g = (struct fake_engine *)base;
	struct fake_sandbox *s = calloc(1, sizeof(*s));

	ASSERT(s);
	inside_new(base, &s->base, c, cb, user);
	s->base.warm = true; /* so that it has sessions */
	s->base.clean = INSIDE_CLEAN_THERE;
	s->init = -1;
	s->run = (struct fake_run){.sandbox = s, .out = {-1, -1, -1}};
	s->next = g->sandboxes;
	g->sandboxes = s;
	(void)snprintf(g->last_persist, sizeof(g->last_persist), "%s",
		       c->persist_id ? c->persist_id : "");
	if (!g->hold_create)
		later(s, start_init);
	return 0;
}

void fake_engine_release(struct fake_engine *f)
{
	f->hold = f->hold_create = false;
	release_disks(f);
	for (struct fake_sandbox *s = f->sandboxes; s; s = s->next)
		if (s->base.state == INSIDE_ASKED && !s->later)
			later(s, start_init);
		else if (s->run.id)
			end_run(&s->run);
}

static int on_gone(sd_event_source *source UNUSED, void *user)
{
	struct fake_sandbox *s = user;

	(void)nftw(s->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	engine_of_fake(s)->n_alive--;
	s->later = sd_event_source_disable_unref(s->later);
	fake_engine_lose(&s->base);
	inside_gone(&s->base, 0);
	return 0;
}

static void fake_destroy(struct engine_sandbox *base)
{
	struct fake_sandbox *s = (struct fake_sandbox *)base;

	if (!s->later)
		later(s, on_gone);
}

static int on_changed(sd_event_source *source UNUSED, void *user)
{
	struct fake_sandbox *s = user;
	struct fake_engine *g = engine_of_fake(s);
	const int failed = g->fail_change;

	s->later = sd_event_source_disable_unref(s->later);
	g->fail_change = 0;
	inside_changed(&s->base, failed, failed == ENOTSUP ? PROTO_LIMIT_CPU : 0, g->used_bytes);
	if (s->base.state == INSIDE_ENDING && !s->later) /* destroyed before the answer */
		later(s, on_gone);
	return 0;
}

static int fake_change(struct engine_sandbox *base, const struct engine_limits *l UNUSED)
{
	later((struct fake_sandbox *)base, on_changed);
	return 0;
}

static void fake_release(struct engine_sandbox *base)
{
	struct fake_sandbox *s = (struct fake_sandbox *)base, **at;

	for (at = &engine_of_fake(s)->sandboxes; *at != s;)
		at = &(*at)->next;
	*at = s->next;
	engine_of_fake(s)->n_destroyed += s->path[0] != '\0';
	drop_run(&s->run);
	fake_engine_lose(base);
	s->later = sd_event_source_disable_unref(s->later);
	free(s);
}

struct forgotten {
	sd_event_source *source;
	engine_done_fn cb;
	void *user;
};

static int on_forgotten(sd_event_source *source, void *user)
{
	struct forgotten *f = user;

	(void)sd_event_source_disable_unref(source);
	f->cb(NULL, f->user);
	free(f);
	return 0;
}

static int fake_forget(struct engine *g, const char *persist_id UNUSED, engine_done_fn cb,
		       void *user, struct err *e UNUSED)
{
	struct forgotten *f = calloc(1, sizeof(*f));

	ASSERT(f && sd_event_add_defer(g->loop, &f->source, on_forgotten, f) >= 0);
	f->cb = cb;
	f->user = user;
	((struct fake_engine *)g)->n_forgotten++;
	return 0;
}

/* ---- files of stored workspaces ---- */

struct fake_disk { /* a call that was not answered yet */
	struct fake_disk *next;
	struct fake_engine *engine;
	struct engine_disk_order order;
	enum err_code code;
	sd_event_source *later;
};

/* Frees D. The answer is E, unless it has a CODE. */
static void answer_disk(struct fake_disk *d, const struct err *e)
{
	const struct engine_disk_order o = d->order;
	struct err own = ERR_INIT;
	struct fake_disk **at;

	for (at = &d->engine->disks; *at != d;)
		at = &(*at)->next;
	*at = d->next;
	if (d->code != ERR_NONE) {
		(void)err_set(&own, d->code, 0, "no disk today");
		e = &own;
	}
	(void)sd_event_source_disable_unref(d->later);
	free(d);
	if (o.had)
		o.had(e ? -1 : memfd_create("disk", MFD_CLOEXEC), e, o.user);
	if (o.done)
		o.done(e, o.user);
}

static int on_disk(sd_event_source *source UNUSED, void *user)
{
	answer_disk(user, NULL);
	return 0;
}

static int fake_disk(struct engine *base, const struct engine_disk_order *o, struct err *e)
{
	struct fake_engine *g = (struct fake_engine *)base;

	g->n_disks[o->what]++;
	(void)snprintf(g->last_disk, sizeof(g->last_disk), "%s", o->persist_id);
	if (g->fail_disk_at_once) {
		g->fail_disk_at_once = false;
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "no engine today");
	}
	struct fake_disk *d = calloc(1, sizeof(*d));
	ASSERT(d);
	*d = (struct fake_disk){.next = g->disks, .engine = g, .order = *o};
	if (g->fail_disk[o->what].n > 0) {
		g->fail_disk[o->what].n--;
		d->code = g->fail_disk[o->what].code;
	}
	g->disks = d;
	if (!g->hold_disks)
		ASSERT(sd_event_add_defer(base->loop, &d->later, on_disk, d) >= 0);
	return 0;
}

static void release_disks(struct fake_engine *g)
{
	g->hold_disks = false;
	for (struct fake_disk *d = g->disks; d; d = d->next)
		if (!d->later)
			ASSERT(sd_event_add_defer(g->engine.loop, &d->later, on_disk, d) >= 0);
}

static void fake_close(struct engine *base)
{
	struct fake_engine *g = (struct fake_engine *)base;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the engine was closed");
	while (g->disks)
		answer_disk(g->disks, &e);
	while (g->sandboxes)
		inside_cancel(&g->sandboxes->base, &e);
	(void)nftw(g->root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static const struct engine_ops fake_ops = {
    .name = "fake",
    .size = sizeof(struct fake_engine),
    .close = fake_close,
    .forget = fake_forget,
    .disk = fake_disk,
    .create = fake_create,
    .destroy = fake_destroy,
    .release = fake_release,
    .change = fake_change,
};

/* A folder whose name says whose it is; those of tests that were aborted go first. */
static void make_root(struct fake_engine *f)
{
	char prefix[64], path[NAME_MAX + 8];
	struct stat ns;
	uint64_t pid;

	ASSERT(stat("/proc/self/ns/pid", &ns) == 0);
	(void)snprintf(prefix, sizeof(prefix), "caisson-fake-%ju-", (uintmax_t)ns.st_ino);
	DIR *tmp = opendir("/tmp");
	for (const struct dirent *d; tmp && (d = readdir(tmp));) {
		const char *owner = d->d_name + strlen(prefix);

		if (!text_starts_with(d->d_name, prefix) ||
		    parse_u64_n(owner, strcspn(owner, "-"), 1, INT32_MAX, &pid) < 0 ||
		    kill((pid_t)pid, 0) == 0 || errno != ESRCH)
			continue;
		(void)snprintf(path, sizeof(path), "/tmp/%s", d->d_name);
		(void)nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	}
	if (tmp)
		(void)closedir(tmp);
	(void)snprintf(f->root, sizeof(f->root), "/tmp/%s%d-XXXXXX", prefix, (int)getpid());
	ASSERT(mkdtemp(f->root));
}

struct fake_engine *fake_engine_new(sd_event *loop)
{
	struct fake_engine *f = (struct fake_engine *)engine_new(&fake_ops);

	ASSERT(f);
	f->engine.loop = sd_event_ref(loop);
	f->engine.enforced = ENGINE_CAP_MEMORY | ENGINE_CAP_CPU | ENGINE_CAP_PIDS | ENGINE_CAP_DISK;
	make_root(f);
	return f;
}
