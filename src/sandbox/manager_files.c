/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a workspace: listing, opening, removal. */
#include "base/workers.h"
#include "sandbox/manager.h"
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

int sandbox_connect(struct sandbox *s, uint16_t port, engine_fd_fn cb, void *user, struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	return handle ? engine_connect(handle, port, cb, user, e) : -ENOENT;
}

int sandbox_list_ports(struct sandbox *s, engine_ports_fn cb, void *user, struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	return handle ? engine_list_ports(handle, cb, user, e) : -ENOENT;
}

int sandbox_watch(struct sandbox *s, const char *path, bool recursive, engine_watch_fn cb,
		  void *user, struct engine_watch **ret, struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	return handle ? engine_watch(handle, path, recursive, cb, user, ret, e) : -ENOENT;
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

struct removal {
	struct sandbox *sandbox; /* reference */
	sandbox_done_fn cb;
	void *user;
	char path[ENGINE_PATH_MAX];
};

static void removal_free(struct removal *r)
{
	(void)sandbox_unref(r->sandbox);
	free(r);
}

static void on_removed(const struct err *e, void *user)
{
	struct removal *r = user;

	r->cb(e, r->user);
	if (!e || e->code != ERR_CANCELLED) /* of a folder a part may have gone */
		sandbox_files_changed(r->sandbox, r->path);
	removal_free(r);
}

int sandbox_remove_file(struct sandbox *s, const char *path, bool recursive, sandbox_done_fn cb,
			void *user, struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	if (!handle)
		return -ENOENT;
	int r = sandbox_check_free(s, e);
	if (r < 0)
		return r;
	struct removal *removal = calloc(1, sizeof(*removal));
	if (!removal)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "removing a file");
	(void)snprintf(removal->path, sizeof(removal->path), "%s", path);
	removal->sandbox = sandbox_ref(s);
	removal->cb = cb;
	removal->user = user;
	sandbox_forget_inventory(s); /* a run may begin before the answer */
	r = engine_remove_file(handle, path, recursive, on_removed, removal, e);
	if (r == 0)
		sandbox_measure_uploads(s); /* answered after the removal */
	else
		removal_free(removal);
	return r;
}

void sandbox_files_changed(struct sandbox *s, const char *path)
{
	if (sandbox_path_is_outside(path))
		return;
	sandbox_forget_inventory(s);
	sandbox_tell(s, SANDBOX_FILES, path);
	sandbox_changed(s, path);
}
