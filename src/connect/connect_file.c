/* SPDX-License-Identifier: Apache-2.0 */
#include "connect/connect.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#define BACKUP_SUFFIX ".caisson-backup"
#define FOLDER_MODE   0700
#define FILE_MODE     0600 /* of a new one: keys of other servers may be added to it */

void connect_file_done(struct connect_file *f)
{
	buf_done(&f->text);
}

/* The folder of PATH in RET. */
static void folder_of(const char *path, char ret[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	size_t n = slash > path ? (size_t)(slash - path) : 1;

	memcpy(ret, path, n);
	ret[n] = '\0';
}

/* Through sudo the environment may still be that of the person, whose files would then become root's. */
static int check_owner(const char *path, const struct stat *st, struct err *e)
{
	const struct passwd *owner;

	if (st->st_uid == geteuid())
		return 0;
	owner = getpwuid(st->st_uid);
	return err_set(e, ERR_FORBIDDEN, 0,
		       "%s belongs to %s (uid %u), and this runs as uid %u; start it as that user, "
		       "without sudo",
		       path, owner ? owner->pw_name : "another user", (unsigned)st->st_uid,
		       (unsigned)geteuid());
}

/* A file that does not exist: the nearest folder that does must be ours. */
static int check_folder(struct connect_file *f, struct err *e)
{
	char path[PATH_MAX];

	for (folder_of(f->path, path); stat(path, &f->st) < 0; folder_of(path, path))
		if (errno != ENOENT || streq(path, "/"))
			return err_set(e, ERR_SYSTEM, errno, "%s", path);
	if (!S_ISDIR(f->st.st_mode))
		return err_set(e, ERR_USAGE, 0, "%s is no folder", path);
	return check_owner(path, &f->st, e);
}

static int read_text(const char *path, struct stat *ret_st, struct buf *text, struct err *e)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return err_set(e, ERR_SYSTEM, errno, "%s", path);
	if (!S_ISREG(ret_st->st_mode))
		return err_set(e, ERR_USAGE, 0, "%s is no file", path);
	int r = fd_read_file(fd, text);
	if (r == -ENOBUFS)
		return err_set(e, ERR_USAGE, 0, "%s is larger than %u MiB", path,
			       CONNECT_FILE_MAX >> 20);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "%s", path) : 0;
}

int connect_file_read(struct connect_file *ret, const char *path, struct err *e)
{
	struct stat st;
	int r;

	*ret = (struct connect_file){.text = BUF_INIT(CONNECT_FILE_MAX)};
	if (lstat(path, &st) < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			return err_set(e, ERR_SYSTEM, errno, "%s", path);
		r = text_copy(ret->path, sizeof(ret->path), path);
		return r < 0 ? err_set(e, ERR_USAGE, -r, "the path of a file")
			     : check_folder(ret, e);
	}
	if (!realpath(path, ret->path))
		return err_set(e, ERR_SYSTEM, errno, "%s leads nowhere", path);
	r = read_text(ret->path, &ret->st, &ret->text, e);
	r = r < 0 ? r : check_owner(ret->path, &ret->st, e);
	ret->exists = r == 0;
	return r;
}

/* ---- writing ---- */

/* Makes the file NEW with the text, and with the mode and the owner of the file that it will replace. */
static int make_new(const char *new, const struct buf *text, const struct stat *like, struct err *e)
{
	_cleanup_fd_ int fd =
	    open(new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
	struct stat st;

	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "%s", new);
	int r = fd_write_all(fd, buf_str(text), text->len);
	if (r == 0 && like &&
	    (fstat(fd, &st) < 0 ||
	     ((st.st_uid != like->st_uid || st.st_gid != like->st_gid) &&
	      fchown(fd, like->st_uid, like->st_gid) < 0) ||
	     fchmod(fd, like->st_mode & 07777) < 0))
		r = -errno;
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "%s", new) : 0;
}

static int sync_folder(const char *folder, struct err *e)
{
	_cleanup_fd_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || (fsync(fd) < 0 && errno != EINVAL)
		   ? err_set(e, ERR_SYSTEM, errno, "%s", folder)
		   : 0;
}

/* A client that is running may write its file at any moment. */
static bool is_unchanged(const struct connect_file *f)
{
	struct stat st;

	if (lstat(f->path, &st) < 0)
		return !f->exists && errno == ENOENT;
	return f->exists && st.st_ino == f->st.st_ino && st.st_dev == f->st.st_dev &&
	       st.st_size == f->st.st_size && st.st_mtim.tv_sec == f->st.st_mtim.tv_sec &&
	       st.st_mtim.tv_nsec == f->st.st_mtim.tv_nsec;
}

static int changed(const struct connect_file *f, struct err *e)
{
	return err_set(e, ERR_ALREADY_EXISTS, 0,
		       "%s was changed by another program meanwhile; try again", f->path);
}

/* Puts TEXT at PATH, which is F's or that of its backup. */
static int put(const struct connect_file *f, const char *path, const struct buf *text,
	       struct err *e)
{
	char folder[PATH_MAX], new[PATH_MAX], random[17];

	folder_of(path, folder);
	rand_hex(random, 8);
	const int n = snprintf(new, sizeof(new), "%s/.caisson-%s", folder, random);
	if (n < 0 || n >= (int)sizeof(new))
		return err_set(e, ERR_USAGE, 0, "the path of a file is too long");
	int r = make_new(new, text, f->exists ? &f->st : NULL, e);
	if (r == 0 && !is_unchanged(f))
		r = changed(f, e);
	if (r == 0 && rename(new, path) < 0)
		r = err_set(e, ERR_SYSTEM, errno, "%s", path);
	if (r < 0) {
		(void)unlink(new);
		return r;
	}
	return sync_folder(folder, e);
}

static int backup_path(const struct connect_file *f, char ret[PATH_MAX], struct err *e)
{
	const int n = snprintf(ret, PATH_MAX, "%s" BACKUP_SUFFIX, f->path);

	return n < PATH_MAX ? 0 : err_set(e, ERR_USAGE, 0, "the path of a file is too long");
}

int connect_file_write(const struct connect_file *f, const struct buf *text, bool backup,
		       struct err *e)
{
	char folder[PATH_MAX], path[PATH_MAX];

	folder_of(f->path, folder);
	int r = fd_make_dirs(folder, FOLDER_MODE);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "%s", folder);
	r = backup ? backup_path(f, path, e) : 0;
	r = r < 0 || !backup ? r : put(f, path, &f->text, e);
	return r < 0 ? r : put(f, f->path, text, e);
}

int connect_file_backup(const struct connect_file *f, struct buf *ret, struct err *e)
{
	char path[PATH_MAX];
	struct stat st;
	int r = backup_path(f, path, e);

	if (r < 0)
		return r;
	if (lstat(path, &st) < 0 && errno == ENOENT)
		return 0;
	r = read_text(path, &st, ret, e);
	return r < 0 ? r : 1;
}

int connect_file_restore(const struct connect_file *f, const struct buf *text, struct err *e)
{
	char path[PATH_MAX];
	int r = backup_path(f, path, e);

	if (r < 0)
		return r;
	if (text->len > 0)
		r = put(f, f->path, text, e);
	else if (!is_unchanged(f))
		r = changed(f, e);
	else if (unlink(f->path) < 0)
		r = err_set(e, ERR_SYSTEM, errno, "%s", f->path);
	if (r == 0 && unlink(path) < 0 && errno != ENOENT)
		r = err_set(e, ERR_SYSTEM, errno, "%s", path);
	return r;
}
