/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a workspace: listing, opening, removal. */
#include "sandbox/manager.h"

#include <string.h>
#include <sys/stat.h>

struct listing {
	sandbox_list_fn cb;
	void *user;
};

static void on_listed(const struct engine_file *files, size_t n, bool more, const struct err *e,
		      void *user)
{
	struct listing *l = user;
	struct engine_file *sorted = NULL;
	struct err oom = ERR_INIT;

	if (!e && n > 0) {
		sorted = calloc(n, sizeof(*sorted));
		if (sorted) {
			memcpy(sorted, files, n * sizeof(*sorted));
			qsort(sorted, n, sizeof(*sorted), engine_file_compare);
		} else {
			(void)err_set(&oom, ERR_OUT_OF_MEMORY, ENOMEM, "a listing");
			e = &oom;
		}
	}
	l->cb(sorted, e ? 0 : n, more, e, l->user);
	free(sorted);
	free(l);
}

int sandbox_list(struct sandbox *s, const char *path, sandbox_list_fn cb, void *user, struct err *e)
{
	struct engine_sandbox *handle = sandbox_use(s, e);

	if (!handle)
		return -ENOENT;
	struct listing *l = calloc(1, sizeof(*l));
	if (!l)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a listing");
	l->cb = cb;
	l->user = user;
	int r = engine_list_files(handle, path, on_listed, l, e);
	if (r < 0)
		free(l);
	return r;
}

int sandbox_peek(struct sandbox *s, const char *path, sandbox_list_fn cb, void *user, struct err *e)
{
	uint64_t used = s->used_ns;
	int r = sandbox_list(s, path, cb, user, e);

	s->used_ns = used;
	return r;
}

struct opening {
	char name[sizeof(((struct engine_file *)0)->name)];
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
		fd = fd_close(fd);
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
	o->cb = cb;
	o->user = user;
	int r = engine_open_file(handle, path, on_opened, o, e);
	if (r < 0)
		free(o);
	return r;
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
	sandbox_forget_inventory(s);
	sandbox_tell(s, SANDBOX_FILES, path);
	return engine_remove_file(handle, path, recursive, cb, user, e);
}
