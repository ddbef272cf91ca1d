/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_engine.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fake_sandbox {
	struct engine_sandbox base; /* first */
	struct fake_sandbox *next;
	char path[96];
	engine_lost_fn lost;
	void *lost_user;
	struct fake_run *run;
};

struct engine_run { /* what the interface hands around is our struct fake_run */
	void *unused;
};

struct fake_run {
	struct engine_run base; /* first */
	struct fake_sandbox *sandbox;
	struct engine_run_spec spec;
	char *code;
	uint64_t delivered[3];
	bool killed;
};

/* One completion that is due. */
struct fake_job {
	struct fake_job *next;
	struct fake_engine *engine;
	sd_event_source *source;
	void (*fn)(struct fake_job *j);
	struct fake_sandbox *sandbox;
	struct fake_run *run;
	struct err err;
	int fd;
	union {
		engine_create_fn create;
		engine_done_fn done;
		engine_fd_fn fd;
		engine_list_fn list;
		engine_point_fn point;
	} cb;
	struct engine_create create;
	char path[512];
	void *user;
};

static struct fake_engine *engine_of(struct engine_sandbox *s)
{
	return (struct fake_engine *)s->engine;
}

static struct fake_sandbox *sandbox_of(struct engine_sandbox *s)
{
	return (struct fake_sandbox *)s;
}

static int on_job(sd_event_source *source, void *user)
{
	struct fake_job *j = user;

	(void)sd_event_source_disable_unref(source);
	j->fn(j);
	free(j);
	return 0;
}

static struct fake_job *job_new(struct fake_engine *f, void (*fn)(struct fake_job *j), void *user)
{
	struct fake_job *j = calloc(1, sizeof(*j));

	ASSERT(j);
	j->engine = f;
	j->fn = fn;
	j->user = user;
	j->fd = -1;
	return j;
}

static void job_schedule(struct fake_job *j)
{
	ASSERT(sd_event_add_defer(j->engine->loop, &j->source, on_job, j) >= 0);
}

static void job_hold(struct fake_job *j)
{
	j->next = j->engine->held;
	j->engine->held = j;
}

void fake_engine_release(struct fake_engine *f)
{
	struct fake_job *j = TAKE_PTR(f->held);

	f->hold = false;
	f->hold_create = false;
	while (j) {
		struct fake_job *next = j->next;
		job_schedule(j);
		j = next;
	}
}

static const struct err *err_of(const struct fake_job *j)
{
	return j->err.code == ERR_NONE ? NULL : &j->err;
}

/* ---- create, destroy ---- */

static void do_create(struct fake_job *j)
{
	struct fake_engine *f = j->engine;
	struct engine_policy policy = {.limits = j->create.limits, .enforced = f->caps};

	if (j->err.code != ERR_NONE) {
		j->cb.create(NULL, NULL, &j->err, j->user);
		return;
	}
	struct fake_sandbox *s = calloc(1, sizeof(*s));
	ASSERT(s);
	s->base.engine = &f->engine;
	(void)snprintf(s->path, sizeof(s->path), "%s/%u", f->root, ++f->n_serial);
	ASSERT(mkdir(s->path, 0700) == 0);
	s->next = f->sandboxes;
	f->sandboxes = s;
	f->n_created++;
	f->n_alive++;
	j->cb.create(&s->base, &policy, NULL, j->user);
}

static int fake_create(struct engine *g, const struct engine_create *c, engine_create_fn cb,
		       void *user, struct err *e UNUSED)
{
	struct fake_engine *f = (struct fake_engine *)g;
	struct fake_job *j = job_new(f, do_create, user);

	j->create = *c;
	j->cb.create = cb;
	(void)snprintf(f->last_persist, sizeof(f->last_persist), "%s",
		       c->persist_id ? c->persist_id : "");
	if (f->fail_create)
		(void)err_set(&j->err, ERR_ENGINE_UNAVAILABLE, 0, "no engine today");
	f->fail_create = false;
	if (f->hold_create)
		job_hold(j);
	else
		job_schedule(j);
	return 0;
}

static int remove_entry(const char *path, const struct stat *st UNUSED, int type UNUSED,
			struct FTW *ftw UNUSED)
{
	return remove(path);
}

static void run_end(struct fake_run *r, const struct engine_run_result *res)
{
	r->sandbox->run = NULL;
	r->spec.on_done(&r->base, res, NULL, r->spec.user);
	free(r->code);
	free(r);
}

static void do_destroy(struct fake_job *j)
{
	struct fake_sandbox *s = j->sandbox;

	(void)nftw(s->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	for (struct fake_sandbox **at = &j->engine->sandboxes; *at; at = &(*at)->next)
		if (*at == s) {
			*at = s->next;
			break;
		}
	j->engine->n_destroyed++;
	j->engine->n_alive--;
	free(s);
	if (j->cb.done)
		j->cb.done(NULL, j->user);
}

static void fake_destroy(struct engine_sandbox *s, engine_done_fn cb, void *user)
{
	struct fake_job *j = job_new(engine_of(s), do_destroy, user);

	j->sandbox = sandbox_of(s);
	j->cb.done = cb;
	if (j->sandbox->run)
		j->sandbox->run->killed = true;
	job_schedule(j);
}

static void fake_on_lost(struct engine_sandbox *s, engine_lost_fn cb, void *user)
{
	sandbox_of(s)->lost = cb;
	sandbox_of(s)->lost_user = user;
}

void fake_engine_lose(struct engine_sandbox *s)
{
	sandbox_of(s)->lost(s, "test", sandbox_of(s)->lost_user);
}

/* ---- runs ---- */

void fake_output(struct fake_run *r, enum engine_stream stream, const void *data, size_t len)
{
	uint64_t max = r->spec.output_max[stream];
	uint64_t room = max == 0 ? UINT64_MAX : max - r->delivered[stream];
	size_t n = (size_t)MIN((uint64_t)len, room);

	if (n == 0)
		return;
	r->delivered[stream] += n;
	r->spec.on_output(&r->base, stream, data, n, r->spec.user);
}

struct engine_sandbox *fake_run_sandbox(struct fake_run *r)
{
	return &r->sandbox->base;
}

static void do_run(struct fake_job *j)
{
	struct fake_run *r = j->run;
	struct engine_run_result res = {.end = ENGINE_END_EXITED, .duration_ns = 5000000};

	if (r->killed)
		res = (struct engine_run_result){.end = ENGINE_END_KILLED, .exit_code = 137};
	else if (j->engine->script)
		j->engine->script(r, r->sandbox->path, r->code, r->spec.code_len, &res);
	run_end(r, &res);
}

static int fake_run(struct engine_sandbox *s, const struct engine_run_spec *spec,
		    struct engine_run **ret, struct err *e)
{
	struct fake_engine *f = engine_of(s);

	if (sandbox_of(s)->run)
		return err_set(e, ERR_SESSION_BUSY, EBUSY, "busy");
	struct fake_run *r = calloc(1, sizeof(*r));
	ASSERT(r);
	r->sandbox = sandbox_of(s);
	r->spec = *spec;
	r->code = malloc(spec->code_len + 1);
	ASSERT(r->code);
	memcpy(r->code, spec->code ? spec->code : "", spec->code_len);
	r->code[spec->code_len] = '\0';
	r->sandbox->run = r;
	struct fake_job *j = job_new(f, do_run, NULL);
	j->run = r;
	if (f->hold)
		job_hold(j);
	else
		job_schedule(j);
	*ret = &r->base;
	return 0;
}

static int fake_signal(struct engine_run *base, int signo)
{
	struct fake_run *r = (struct fake_run *)base;

	r->killed = r->killed || signo == SIGKILL;
	if (r->killed)
		fake_engine_release(engine_of(&r->sandbox->base));
	return 0;
}

/* ---- files ---- */

static void do_fd(struct fake_job *j)
{
	j->cb.fd(j->fd, err_of(j), j->user);
}

static int fake_open_file(struct engine_sandbox *s, const char *path, engine_fd_fn cb, void *user,
			  struct err *e UNUSED)
{
	struct fake_job *j = job_new(engine_of(s), do_fd, user);
	char full[700];

	(void)snprintf(full, sizeof(full), "%s/%s", sandbox_of(s)->path, path);
	j->cb.fd = cb;
	j->fd = open(full, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (j->fd < 0)
		(void)err_set(&j->err, ERR_NOT_FOUND, errno, "%s", path);
	job_schedule(j);
	return 0;
}

static void temporary_name(struct engine_sandbox *s, uint32_t put, char *ret, size_t size)
{
	(void)snprintf(ret, size, "%s/.put-%u", sandbox_of(s)->path, put);
}

static bool is_there(struct engine_sandbox *s, const char *path)
{
	char full[700];
	struct stat st;

	(void)snprintf(full, sizeof(full), "%s/%s", sandbox_of(s)->path, path);
	return lstat(full, &st) == 0;
}

static int fake_put_file(struct engine_sandbox *s, const char *path, bool overwrite,
			 uint32_t *ret_put, engine_fd_fn cb, void *user, struct err *e UNUSED)
{
	struct fake_job *j = job_new(engine_of(s), do_fd, user);
	char full[700];

	*ret_put = ++engine_of(s)->n_puts;
	temporary_name(s, *ret_put, full, sizeof(full));
	j->cb.fd = cb;
	if (!overwrite && is_there(s, path)) {
		(void)err_set(&j->err, ERR_FILE_EXISTS, EEXIST, "%s", path);
	} else {
		j->fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		if (j->fd < 0)
			(void)err_set(&j->err, ERR_SYSTEM, errno, "%s", path);
	}
	job_schedule(j);
	return 0;
}

static void do_done(struct fake_job *j)
{
	j->cb.done(err_of(j), j->user);
}

static int fake_commit_file(struct engine_sandbox *s, uint32_t put, const char *path,
			    bool overwrite, bool keep, engine_done_fn cb, void *user,
			    struct err *e UNUSED)
{
	struct fake_job *j = job_new(engine_of(s), do_done, user);
	char from[700], to[700];

	temporary_name(s, put, from, sizeof(from));
	(void)snprintf(to, sizeof(to), "%s/%s", sandbox_of(s)->path, path);
	j->cb.done = cb;
	if (!keep)
		(void)unlink(from);
	else if (!overwrite && is_there(s, path))
		(void)err_set(&j->err, ERR_FILE_EXISTS, EEXIST, "%s", path);
	else if (rename(from, to) < 0)
		(void)err_set(&j->err, ERR_SYSTEM, errno, "%s", path);
	job_schedule(j);
	return 0;
}

static int fake_remove_file(struct engine_sandbox *s, const char *path, bool recursive UNUSED,
			    engine_done_fn cb, void *user, struct err *e UNUSED)
{
	struct fake_job *j = job_new(engine_of(s), do_done, user);
	char full[700];

	(void)snprintf(full, sizeof(full), "%s/%s", sandbox_of(s)->path, path);
	j->cb.done = cb;
	if (unlink(full) < 0)
		(void)err_set(&j->err, ERR_NOT_FOUND, errno, "%s", path);
	job_schedule(j);
	return 0;
}

static int64_t ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void do_list(struct fake_job *j)
{
	struct engine_file files[64];
	size_t n = 0;
	_cleanup_dir_ DIR *dir = opendir(j->path);
	struct dirent *d;

	ASSERT(dir);
	while ((d = readdir(dir)) && n < ARRAY_SIZE(files)) {
		struct stat st;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
		    fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		struct engine_file *f = &files[n++];
		(void)snprintf(f->name, sizeof(f->name), "%s", d->d_name);
		f->size = (uint64_t)st.st_size;
		f->mtime_ns = ns_of(st.st_mtim);
		f->ctime_ns = ns_of(st.st_ctim);
		f->inode = st.st_ino;
		f->mode = st.st_mode;
	}
	j->cb.list(files, n, false, NULL, j->user);
}

static int fake_list_files(struct engine_sandbox *s, const char *path, engine_list_fn cb,
			   void *user, struct err *e UNUSED)
{
	struct fake_job *j = job_new(engine_of(s), do_list, user);

	engine_of(s)->n_lists++;
	j->cb.list = cb;
	(void)snprintf(j->path, sizeof(j->path), "%s/%s", sandbox_of(s)->path, path);
	job_schedule(j);
	return 0;
}

/* ---- engine ---- */

static uint32_t fake_caps(struct engine *g)
{
	return ((struct fake_engine *)g)->caps;
}

static void fake_close(struct engine *g)
{
	struct fake_engine *f = (struct fake_engine *)g;

	(void)nftw(f->root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	while (f->sandboxes) {
		struct fake_sandbox *s = f->sandboxes;
		f->sandboxes = s->next;
		free(s);
	}
	free(f);
}

static void do_forget(struct fake_job *j)
{
	j->engine->n_forgotten++;
	j->cb.done(NULL, j->user);
}

static int fake_forget(struct engine *g, const char *persist_id UNUSED, engine_done_fn cb,
		       void *user, struct err *e UNUSED)
{
	struct fake_job *j = job_new((struct fake_engine *)g, do_forget, user);

	j->cb.done = cb;
	job_schedule(j);
	return 0;
}

/* ---- kept states ---- */

static void do_point(struct fake_job *j)
{
	const struct engine_point p = {.state_kept = true, .files = j->engine->state, .bytes = 10};

	j->cb.point(j->err.code == ERR_NONE ? &p : NULL, err_of(j), j->user);
}

static int schedule_point(struct engine_sandbox *s, engine_point_fn cb, void *user,
			  enum err_code *fail)
{
	struct fake_job *j = job_new(engine_of(s), do_point, user);

	ASSERT(!sandbox_of(s)->run);
	j->cb.point = cb;
	if (*fail != ERR_NONE)
		(void)err_set(&j->err, *fail, 0, "as the test wants it");
	bool good = *fail == ERR_NONE;
	*fail = ERR_NONE;
	job_schedule(j);
	return good;
}

static int fake_save_point(struct engine_sandbox *s, uint32_t place, engine_point_fn cb, void *user,
			   struct err *e UNUSED)
{
	struct fake_engine *f = engine_of(s);

	ASSERT(place < ENGINE_POINTS_MAX && !f->point_used[place]);
	f->n_saves++;
	if (schedule_point(s, cb, user, &f->fail_save)) {
		f->point_used[place] = true;
		f->points[place] = f->state;
	}
	return 0;
}

static int fake_restore_point(struct engine_sandbox *s, uint32_t place, bool files_only UNUSED,
			      engine_point_fn cb, void *user, struct err *e UNUSED)
{
	struct fake_engine *f = engine_of(s);

	ASSERT(place < ENGINE_POINTS_MAX && f->point_used[place]);
	f->n_restores++;
	if (schedule_point(s, cb, user, &f->fail_restore))
		f->state = f->points[place];
	return 0;
}

static int fake_drop_point(struct engine_sandbox *s, uint32_t place, engine_point_fn cb, void *user,
			   struct err *e UNUSED)
{
	struct fake_engine *f = engine_of(s);
	enum err_code none = ERR_NONE;

	ASSERT(place < ENGINE_POINTS_MAX && f->point_used[place]);
	f->n_drops++;
	f->point_used[place] = false;
	(void)schedule_point(s, cb, user, &none);
	return 0;
}

static const struct engine_ops fake_ops = {
    .name = "fake",
    .caps = fake_caps,
    .create = fake_create,
    .destroy = fake_destroy,
    .on_lost = fake_on_lost,
    .forget = fake_forget,
    .run = fake_run,
    .signal = fake_signal,
    .open_file = fake_open_file,
    .put_file = fake_put_file,
    .commit_file = fake_commit_file,
    .remove_file = fake_remove_file,
    .list_files = fake_list_files,
    .close = fake_close,
    .save_point = fake_save_point,
    .restore_point = fake_restore_point,
    .drop_point = fake_drop_point,
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
	struct fake_engine *f = calloc(1, sizeof(*f));

	ASSERT(f);
	f->engine.ops = &fake_ops;
	f->loop = loop;
	f->caps = ENGINE_CAP_MEMORY | ENGINE_CAP_CPU | ENGINE_CAP_PIDS | ENGINE_CAP_DISK;
	make_root(f);
	return f;
}
