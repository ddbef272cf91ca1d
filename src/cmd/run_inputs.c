/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/run_inputs.h"

#include "base/fdio.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTH_MAX  32
#define NAME_SIZE  64         /* of a module */
#define MODULE_MAX (1u << 20) /* bytes of a module that is looked through */
#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* ---- the list ---- */

static bool has(const struct run_inputs *in, const char *path)
{
	for (size_t i = 0; i < in->n; i++)
		if (streq(in->list[i].path, path))
			return true;
	return false;
}

static int make_room(struct run_inputs *in)
{
	size_t room = in->room ? in->room * 2 : 16;
	struct run_input *list = reallocarray(in->list, room, sizeof(*list));

	if (!list)
		return -ENOMEM;
	in->list = list;
	in->room = room;
	fd_raise_limit(); /* each file stays open until it is copied */
	return 0;
}

/* Takes FD, a regular file of SIZE bytes. */
static int add_file(struct run_inputs *in, int fd, uint64_t size, const char *path, struct err *e)
{
	_cleanup_fd_ int mine = fd;

	if (has(in, path))
		return 0;
	if (in->n == RUN_INPUTS_MAX)
		return err_set(e, ERR_TOO_MANY_FILES, 0,
			       "more than %d files to copy; copy an archive instead",
			       RUN_INPUTS_MAX);
	if (__builtin_add_overflow(in->bytes, size, &in->bytes) || in->bytes > in->max_bytes)
		return err_set(e, ERR_NO_SPACE, 0,
			       "the files to copy have more than %ju MiB (see --workspace-limit)",
			       (uintmax_t)(in->max_bytes >> 20));
	if (in->n == in->room && make_room(in) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "%s", path);
	char *copy = strdup(path);
	if (!copy)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "%s", path);
	in->list[in->n++] = (struct run_input){.path = copy, .fd = TAKE_FD(mine), .size = size};
	return 0;
}

void run_inputs_done(struct run_inputs *in)
{
	for (size_t i = 0; i < in->n; i++) {
		free(in->list[i].path);
		(void)fd_close(in->list[i].fd);
	}
	free(in->list);
	*in = (struct run_inputs){0};
}

/* ---- folders ---- */

static int add_folder(struct run_inputs *in, int fd, const char *prefix, unsigned depth,
		      struct err *e);

/* One entry of the folder DIR. */
static int add_entry(struct run_inputs *in, int dir, const char *name, const char *prefix,
		     unsigned depth, struct err *e)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "/" : "", name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return err_set(e, ERR_INVALID_PATH, ENAMETOOLONG, "%s/%s", prefix, name);
	/* A FIFO or a device is not even opened. */
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
		in->left_out++;
		return 0;
	}
	_cleanup_fd_ int fd = openat(dir, name, OPEN_FLAGS | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "cannot read %s", path);
	if (S_ISDIR(st.st_mode))
		return add_folder(in, TAKE_FD(fd), path, depth + 1, e);
	return add_file(in, TAKE_FD(fd), (uint64_t)st.st_size, path, e);
}

/* Takes FD. */
static int add_folder(struct run_inputs *in, int fd, const char *prefix, unsigned depth,
		      struct err *e)
{
	DIR *dir = fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		(void)close(fd);
		return err_set(e, ERR_SYSTEM, errno, "cannot read %s", prefix);
	}
	if (depth > DEPTH_MAX)
		r = err_set(e, ERR_INVALID_PATH, 0, "%s: more than %d folders deep", prefix,
			    DEPTH_MAX);
	while (r >= 0 && (entry = readdir(dir)))
		if (!streq(entry->d_name, ".") && !streq(entry->d_name, ".."))
			r = add_entry(in, dirfd(dir), entry->d_name, prefix, depth, e);
	(void)closedir(dir);
	return r;
}

int run_inputs_add(struct run_inputs *in, const char *path, struct err *e)
{
	char real[PATH_MAX];
	struct stat st;
	_cleanup_fd_ int fd = open(path, OPEN_FLAGS);

	if (fd < 0 || fstat(fd, &st) < 0 || !realpath(path, real))
		return err_set(e, ERR_NOT_FOUND, errno, "--in: %s", path);
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	if (streq(name, "..")) {
		slash = strrchr(real, '/');
		name = slash ? slash + 1 : real;
	}
	if (S_ISDIR(st.st_mode))
		return add_folder(in, TAKE_FD(fd), streq(name, ".") ? "" : name, 0, e);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID_PATH, 0, "--in: %s is no file and no folder", path);
	return add_file(in, TAKE_FD(fd), (uint64_t)st.st_size, name, e);
}

/* ---- modules beside a script ---- */

static int add_imports(struct run_inputs *in, int dir, const char *code, struct err *e);

static int add_module(struct run_inputs *in, int dir, const char *name, struct err *e)
{
	_cleanup_(buf_done) struct buf code = BUF_INIT(MODULE_MAX);
	char file[NAME_SIZE + 16];
	struct stat st;

	(void)snprintf(file, sizeof(file), "%s.py", name);
	_cleanup_fd_ int fd = openat(dir, file, OPEN_FLAGS | O_NOFOLLOW);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !has(in, file)) {
		bool readable = fd_read_file(fd, &code) >= 0;
		int r = add_file(in, TAKE_FD(fd), (uint64_t)st.st_size, file, e);

		return r < 0 || !readable ? r : add_imports(in, dir, buf_str(&code), e);
	}
	(void)snprintf(file, sizeof(file), "%s/__init__.py", name);
	if (has(in, file) || fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	_cleanup_fd_ int folder = openat(dir, name, OPEN_FLAGS | O_DIRECTORY | O_NOFOLLOW);
	return folder < 0 ? 0 : add_folder(in, TAKE_FD(folder), name, 0, e);
}

static bool is_name(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

/* Adds the first module that is named at P, before a point. Returns where its name ends. */
static const char *add_name(struct run_inputs *in, int dir, const char *p, int *r, struct err *e)
{
	char name[NAME_SIZE];
	size_t n = 0;

	p += strspn(p, " \t");
	while (is_name(p[n]))
		n++;
	if (n > 0 && n < sizeof(name)) {
		memcpy(name, p, n);
		name[n] = '\0';
		*r = add_module(in, dir, name, e);
	}
	return p + n;
}

/* Looks for `import a, b.c` and `from a.b import c`. A line inside a string that looks like one does no
 * harm: a module that nobody imports is copied. */
static int add_imports(struct run_inputs *in, int dir, const char *code, struct err *e)
{
	int r = 0;

	for (const char *line = code; r >= 0 && line; line = strchr(line, '\n')) {
		line += *line == '\n';
		const char *p = line + strspn(line, " \t");
		if (text_starts_with(p, "from "))
			(void)add_name(in, dir, p + strlen("from "), &r, e);
		if (!text_starts_with(p, "import "))
			continue;
		for (p += strlen("import "); r >= 0; p++) {
			p = add_name(in, dir, p, &r, e);
			p += strcspn(p, ",\n;#");
			if (*p != ',')
				break;
		}
	}
	return r;
}

int run_inputs_add_script(struct run_inputs *in, const char *file, const struct buf *code,
			  const char **ret_path, struct err *e)
{
	char folder[PATH_MAX];
	struct stat st;
	_cleanup_fd_ int fd = open(file, OPEN_FLAGS);

	*ret_path = NULL;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "%s", file);
	if (!S_ISREG(st.st_mode))
		return 0;
	const char *slash = strrchr(file, '/');
	const char *name = slash ? slash + 1 : file;
	(void)snprintf(folder, sizeof(folder), "%.*s",
		       slash ? (int)MIN(slash - file + 1, PATH_MAX - 1) : 1, slash ? file : ".");
	size_t at = in->n;
	int r = add_file(in, TAKE_FD(fd), (uint64_t)st.st_size, name, e);
	if (r < 0)
		return r;
	_cleanup_fd_ int dir = open(folder, OPEN_FLAGS | O_DIRECTORY);
	r = dir < 0 ? 0 : add_imports(in, dir, buf_str(code), e);
	if (r >= 0 && at < in->n)
		*ret_path = in->list[at].path;
	return r;
}
