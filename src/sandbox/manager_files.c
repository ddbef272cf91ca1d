/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a sandbox: listing, opening, changes of names. */
#include "base/workers.h"
#include "engine/engine_names.h"
#include "sandbox/manager.h"
#include "sandbox/sandbox_names.h"
#include "sandbox/sandbox_path.h"

#include <string.h>
#include <sys/stat.h>

int sandbox_list(struct sandbox *s, const char *path, sandbox_list_fn cb, void *user, struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	if (!handle)
		return -ENOENT;
	return engine_list_files(handle, path, cb, user, e);
}

int sandbox_peek(struct sandbox *s, const char *path, sandbox_list_fn cb, void *user, struct err *e)
{
	uint64_t used = s->used_ns;
	int r = sandbox_list(s, path, cb, user, e);

	s->used_ns = used;
	return r;
}

int sandbox_connect(struct sandbox *s, uint16_t port, bool uses, engine_fd_fn cb, void *user,
		    struct err *e)
{
	const uint64_t used = s->used_ns;
	struct engine_sandbox *handle = sandbox_use(s, e);

	if (!handle)
		return -ENOENT;
	s->used_ns = uses ? s->used_ns : used;
	return engine_connect(handle, port, cb, user, e);
}

int sandbox_list_ports(struct sandbox *s, engine_ports_fn cb, void *user, struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	return handle ? engine_list_ports(handle, cb, user, e) : -ENOENT;
}

int sandbox_answer_health(struct sandbox *s, uint16_t port)
{
	return s->handle ? engine_answer_health(s->handle, port) : -ESRCH;
}

int sandbox_watch(struct sandbox *s, const char *path, bool recursive, engine_watch_fn cb,
		  void *user, struct engine_watch **ret, struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	return handle ? engine_watch(handle, path, recursive, cb, user, ret, e) : -ENOENT;
}

int sandbox_watch_ports(struct sandbox *s, engine_watch_fn cb, void *user,
			struct engine_watch **ret, struct err *e)
{
	/* The page begins one whenever it is looked at. */
	const uint64_t used = s->used_ns;
	struct engine_sandbox *handle = sandbox_use(s, e);

	if (!handle)
		return -ENOENT;
	s->used_ns = used;
	return engine_watch_ports(handle, cb, user, ret, e);
}

struct opening {
	char name[sizeof(((struct engine_file *)0)->name)];
	char owner[SANDBOX_OWNER_MAX + 1];
	sandbox_file_fn cb;
	void *user;
};

static int64_t ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void on_opened(int fd, const struct err *e, void *user)
{
	struct opening *o = user;
	struct engine_file info = {0};
	struct err bad = ERR_INIT;
	struct stat st;

	/* The descriptor comes from the sandbox and is not trusted: only a regular file is read. */
	if (!e && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		(void)err_set(&bad, ERR_NOT_FOUND, 0, "not a regular file");
		workers_close(o->owner, fd);
		fd = -1;
		e = &bad;
	}
	if (!e) {
		memcpy(info.name, o->name, sizeof(info.name));
		info.size = (uint64_t)st.st_size;
		info.mtime_ns = ns_of(st.st_mtim);
		info.ctime_ns = ns_of(st.st_ctim);
		info.inode = st.st_ino;
		info.mode = st.st_mode;
	}
	o->cb(e ? -1 : fd, &info, e, o->user);
	free(o);
}

int sandbox_open_file(struct sandbox *s, const char *path, sandbox_file_fn cb, void *user,
		      struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);
	const char *slash = strrchr(path, '/');

	if (!handle)
		return -ENOENT;
	struct opening *o = calloc(1, sizeof(*o));
	if (!o)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "opening a file");
	(void)snprintf(o->name, sizeof(o->name), "%s", slash ? slash + 1 : path);
	(void)snprintf(o->owner, sizeof(o->owner), "%s", s->owner);
	o->cb = cb;
	o->user = user;
	int r = engine_open_file(handle, path, on_opened, o, e);
	if (r < 0)
		free(o);
	return r;
}

int sandbox_stat(struct sandbox *s, const char *path, engine_stat_fn cb, void *user, struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	return handle ? engine_stat_file(handle, path, cb, user, e) : -ENOENT;
}

int sandbox_list_attributes(struct sandbox *s, const char *path, sandbox_list_fn cb, void *user,
			    struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	return handle ? engine_list_attributes(handle, path, cb, user, e) : -ENOENT;
}

int sandbox_set_attributes(struct sandbox *s, const char *path, const char *attributes, size_t len,
			   engine_done_fn cb, void *user, struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	return handle ? engine_set_attributes(handle, path, attributes, len, cb, user, e) : -ENOENT;
}

/* ---- changes ---- */

struct file_change {
	struct sandbox *sandbox; /* reference */
	sandbox_done_fn cb;
	void *user;
	char path[ENGINE_PATH_MAX];
	char to[ENGINE_PATH_MAX]; /* of a move: the other name */
	bool moves;
};

static void change_free(struct file_change *c)
{
	(void)sandbox_unref(c->sandbox);
	free(c);
}

/* What was known of the workspace is old. */
static void files_changed(struct sandbox *s, const char *path)
{
	if (sandbox_path_is_outside(path))
		return;
	sandbox_forget_inventory(s);
	sandbox_tell(s, SANDBOX_FILES, path);
	sandbox_changed(s, path);
}

static void on_changed(const struct err *e, void *user)
{
	struct file_change *c = user;

	c->cb(e, c->user);
	/* After an error a part may have been done: of a folder that is removed, and of the folders above a new name. */
	if (!e || e->code != ERR_CANCELLED) {
		files_changed(c->sandbox, c->path);
		if (c->moves)
			files_changed(c->sandbox, c->to);
	}
	change_free(c);
}

/* NULL: S cannot be changed now. */
static struct file_change *change_new(struct sandbox *s, const char *path, sandbox_done_fn cb,
				      void *user, struct err *e)
{
	if (!sandbox_use(s, e) || sandbox_check_free(s, e) < 0)
		return NULL;
	struct file_change *c = calloc(1, sizeof(*c));
	if (!c) {
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "changing a file");
		return NULL;
	}
	(void)snprintf(c->path, sizeof(c->path), "%s", path);
	c->sandbox = sandbox_ref(s);
	c->cb = cb;
	c->user = user;
	sandbox_forget_inventory(s); /* a run may begin before the answer */
	return c;
}

/* R: whether the engine was asked. */
static int change_asked(struct file_change *c, int r)
{
	if (r == 0)
		sandbox_measure_uploads(c->sandbox); /* answered after the change */
	else
		change_free(c);
	return r;
}

int sandbox_remove_file(struct sandbox *s, const char *path, bool recursive, sandbox_done_fn cb,
			void *user, struct err *e)
{
	struct file_change *c = change_new(s, path, cb, user, e);

	return c ? change_asked(c, engine_remove_file(s->handle, path, recursive, on_changed, c, e))
		 : -EBUSY;
}

int sandbox_make_folder(struct sandbox *s, const char *path, unsigned how, sandbox_done_fn cb,
			void *user, struct err *e)
{
	struct file_change *c = change_new(s, path, cb, user, e);

	return c ? change_asked(c, engine_make_folder(s->handle, path, how, on_changed, c, e))
		 : -EBUSY;
}

int sandbox_move(struct sandbox *s, const char *from, const char *to, unsigned how,
		 sandbox_done_fn cb, void *user, struct err *e)
{
	struct file_change *c = change_new(s, from, cb, user, e);

	if (!c)
		return -EBUSY;
	(void)snprintf(c->to, sizeof(c->to), "%s", to);
	c->moves = true;
	return change_asked(c, engine_move_file(s->handle, from, to, how, on_changed, c, e));
}
