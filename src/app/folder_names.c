/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a folder, for an upload of the whole folder. Runs in the opener. Every folder is opened
 * below the one above it without following links, so that a change of the folder meanwhile cannot lead
 * out of it. */
#include "app/folder_names.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct walk {
	struct buf names;
	unsigned files;
	unsigned entries;
	char path[PATH_MAX]; /* of the folder that is read, with a slash at its end, or "" */
};

static int read_folder(struct walk *w, int fd, unsigned depth);

static int enter(struct walk *w, int parent, const char *name, unsigned depth)
{
	size_t len = strlen(w->path);
	int n = snprintf(w->path + len, sizeof(w->path) - len, "%s/", name);
	int fd = fd_open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);
	int r;

	if (n < 0 || (size_t)n >= sizeof(w->path) - len || depth == FOLDER_DEPTH_MAX) {
		(void)fd_close(fd);
		r = -E2BIG;
	} else {
		r = fd < 0 ? fd : read_folder(w, fd, depth + 1);
	}
	w->path[len] = '\0';
	return r;
}

static int add_file(struct walk *w, const char *name)
{
	if (++w->files > FOLDER_FILES_MAX || buf_add_str(&w->names, w->path) < 0 ||
	    buf_add(&w->names, name, strlen(name) + 1) < 0)
		return -E2BIG;
	return 0;
}

/* FD is taken. */
static int read_folder(struct walk *w, int fd, unsigned depth)
{
	DIR *d = fdopendir(fd);
	const struct dirent *de;
	struct stat st;
	int r = 0;

	if (!d) {
		(void)fd_close(fd);
		return -errno;
	}
	while (r == 0 && (de = readdir(d))) {
		if (streq(de->d_name, ".") || streq(de->d_name, ".."))
			continue;
		if (++w->entries > FOLDER_ENTRIES_MAX)
			r = -E2BIG;
		else if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* it has just been removed */
		else if (S_ISDIR(st.st_mode))
			r = enter(w, dirfd(d), de->d_name, depth);
		else if (S_ISREG(st.st_mode))
			r = add_file(w, de->d_name);
	}
	(void)closedir(d);
	return r;
}

int folder_names(int fd)
{
	struct walk w = {.names = BUF_INIT(FOLDER_TEXT_MAX)};
	_cleanup_fd_ int file = memfd_create("names", MFD_CLOEXEC);
	int r = file < 0 ? -errno : 0;

	if (r < 0)
		(void)fd_close(fd);
	else
		r = read_folder(&w, fd, 0);
	if (r == 0 && w.names.len > 0)
		r = fd_write_all(file, w.names.data, w.names.len);
	buf_done(&w.names);
	return r < 0 ? r : TAKE_FD(file);
}
