/* SPDX-License-Identifier: Apache-2.0 */
#include "image/unpack.h"

#include "base/fdio.h"
#include "base/text.h"

#include <archive_entry.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define TICK_EVERY 256 /* entries between two reports of progress */

struct unpack {
	struct archive *archive;
	int root;
	const struct image_watch *watch;
	struct unpack_stats stats;
	/* The folder of the last entry, kept open because archives list the files of a folder one
	 * after the other. */
	char parent[PATH_MAX];
	int parent_fd;
};

int unpack_clean_name(const char *name, char *ret, size_t size)
{
	size_t out = 0;
	unsigned depth = 0;

	if (name[0] == '/')
		return -EINVAL;
	while (*name) {
		size_t n = strcspn(name, "/");
		bool dot = n == 1 && name[0] == '.';

		if ((n == 0 && name[0] != '/') || n > NAME_MAX ||
		    (n == 2 && name[0] == '.' && name[1] == '.'))
			return -EINVAL;
		if (n > 0 && !dot) {
			if (++depth > UNPACK_DEPTH_MAX || out + n + 2 > size)
				return -EINVAL;
			if (out > 0)
				ret[out++] = '/';
			memcpy(ret + out, name, n);
			out += n;
		}
		name += n;
		while (*name == '/')
			name++;
	}
	ret[out] = '\0';
	return 0;
}

static int fail(const struct unpack *u UNUSED, int errnum, const char *name, struct err *e)
{
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_set(
		    e, ERR_IMAGE_BUILD_FAILED, errnum,
		    "the disk is full; free some space or move the state directory (--state-dir)");
	return err_set(e, ERR_IMAGE_BUILD_FAILED, errnum, "cannot unpack '%.200s'", name);
}

/* Opens the folder of NAME; *RET_LAST gets the last part of NAME. Missing folders are made, because
 * an archive need not list them. */
static int open_parent(struct unpack *u, char *name, char **ret_last)
{
	char *slash = strrchr(name, '/');

	*ret_last = slash ? slash + 1 : name;
	if (slash)
		*slash = '\0';
	const char *parent = slash ? name : ".";
	int r = 0;

	if (u->parent_fd < 0 || !streq(u->parent, parent)) {
		u->parent_fd = fd_close(u->parent_fd);
		u->parent_fd = fd_open_beneath(u->root, parent, O_RDONLY | O_DIRECTORY, 0);
		if (u->parent_fd < 0)
			r = u->parent_fd;
		else
			(void)snprintf(u->parent, sizeof(u->parent), "%s", parent);
	}
	if (slash)
		*slash = '/';
	return r;
}

static int make_folders(struct unpack *u, char *name)
{
	for (char *s = strchr(name, '/'); s; s = strchr(s + 1, '/')) {
		*s = '\0';
		char *last = NULL;
		int r = open_parent(u, name, &last);

		if (r >= 0 && mkdirat(u->parent_fd, last, 0755) < 0 && errno != EEXIST)
			r = -errno;
		*s = '/';
		if (r < 0)
			return r;
	}
	return 0;
}

static mode_t safe_mode(mode_t mode, bool folder)
{
	if (folder)
		return (mode & 01755) | 0555 | ((mode & 01000) ? (mode & 0777) : 0200);
	return (mode & 0755) | 0444 | ((mode & 0111) ? 0111 : 0);
}

static int make_folder(struct unpack *u, const char *last, mode_t mode)
{
	if (mkdirat(u->parent_fd, last, 0755) < 0 && errno != EEXIST)
		return -errno;
	_cleanup_fd_ int fd =
	    openat(u->parent_fd, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fchmod(fd, safe_mode(mode, true)) < 0)
		return -errno;
	return 0;
}

static int copy_data(struct unpack *u, int fd)
{
	const void *block;
	size_t len;
	int64_t offset;

	for (;;) {
		int r = archive_read_data_block(u->archive, &block, &len, &offset);

		if (r == ARCHIVE_EOF)
			return 0;
		if (r != ARCHIVE_OK)
			return -EBADMSG;
		if (offset < 0 || (uint64_t)offset > UNPACK_BYTES_MAX ||
		    len > UNPACK_BYTES_MAX - u->stats.bytes)
			return -EFBIG;
		u->stats.bytes += len;
		if (lseek(fd, offset, SEEK_SET) < 0)
			return -errno;
		r = fd_write_all(fd, block, len);
		if (r < 0)
			return r;
	}
}

static int make_file(struct unpack *u, const char *last, struct archive_entry *entry)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
				    {.tv_sec = archive_entry_mtime(entry)}};
	int64_t size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0;

	/* A second entry of the same name replaces the first, as with tar. */
	if (unlinkat(u->parent_fd, last, 0) < 0 && errno != ENOENT)
		return -errno;
	_cleanup_fd_ int fd =
	    openat(u->parent_fd, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	int r = copy_data(u, fd);

	if (r < 0)
		return r;
	/* A hole at the end of a sparse file has no data block. */
	struct stat st;

	if (size > 0 && (uint64_t)size <= UNPACK_BYTES_MAX && fstat(fd, &st) == 0 &&
	    st.st_size < size && ftruncate(fd, size) < 0)
		return -errno;
	if (fchmod(fd, safe_mode(archive_entry_perm(entry), false)) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

static int make_hard_link(struct unpack *u, const char *last, const char *target)
{
	char clean[PATH_MAX];
	int r = unpack_clean_name(target, clean, sizeof(clean));

	if (r < 0 || !clean[0])
		return -EINVAL;
	_cleanup_fd_ int fd = fd_open_beneath(u->root, clean, O_RDONLY, 0);

	if (fd < 0)
		return fd;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	if (unlinkat(u->parent_fd, last, 0) < 0 && errno != ENOENT)
		return -errno;
	/* Uses the path in /proc, because AT_EMPTY_PATH needs a capability that a plain user lacks.
	 */
	char self[64];

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, self, u->parent_fd, last, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int make_symlink(struct unpack *u, const char *last, const char *target)
{
	if (!target || !*target || strlen(target) >= PATH_MAX)
		return -EINVAL;
	if (unlinkat(u->parent_fd, last, 0) < 0 && errno != ENOENT)
		return -errno;
	return symlinkat(target, u->parent_fd, last) < 0 ? -errno : 0;
}

static int make_entry(struct unpack *u, struct archive_entry *entry, char *name)
{
	const char *hard = archive_entry_hardlink(entry);
	mode_t type = archive_entry_filetype(entry);
	mode_t mode = archive_entry_perm(entry);
	char *last = NULL;

	if (!hard && type != AE_IFDIR && type != AE_IFREG && type != AE_IFLNK) {
		u->stats.skipped++;
		return 0;
	}
	int r = open_parent(u, name, &last);

	if (r == -ENOENT) {
		r = make_folders(u, name);
		if (r >= 0)
			r = open_parent(u, name, &last);
	}
	if (r < 0)
		return r;
	if (hard)
		return make_hard_link(u, last, hard);
	if (type == AE_IFLNK)
		return make_symlink(u, last, archive_entry_symlink(entry));
	u->stats.setid += (mode & 06000) ? 1 : 0;
	return type == AE_IFDIR ? make_folder(u, last, mode) : make_file(u, last, entry);
}

static int unpack_next(struct unpack *u, struct archive_entry *entry, struct err *e)
{
	char name[PATH_MAX];
	const char *raw = archive_entry_pathname(entry);

	if (!raw || unpack_clean_name(raw, name, sizeof(name)) < 0)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, EBADMSG,
			       "the archive holds a forbidden name '%.200s'", raw ? raw : "");
	if (++u->stats.entries > UNPACK_ENTRIES_MAX)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, E2BIG,
			       "the archive holds more than %" PRIu64 " entries",
			       UNPACK_ENTRIES_MAX);
	if (!name[0])
		return 0;
	int r = make_entry(u, entry, name);

	if (r < 0)
		return fail(u, -r, name, e);
	if (u->stats.entries % TICK_EVERY == 0) {
		u->watch->tick(u->watch->user, "files", u->stats.entries, 0);
		if (image_cancelled(u->watch))
			return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
	}
	return 0;
}

int image_unpack(struct archive *a, int root, const struct image_watch *w, struct unpack_stats *ret,
		 struct err *e)
{
	struct unpack u = {.archive = a, .root = root, .watch = w, .parent_fd = -1};
	int r = 0;

	while (r >= 0) {
		struct archive_entry *entry = NULL;
		int ar = archive_read_next_header(a, &entry);

		if (ar == ARCHIVE_EOF)
			break;
		if (ar < ARCHIVE_WARN)
			r = err_set(
			    e, ERR_IMAGE_BUILD_FAILED, EBADMSG, "cannot read the archive (%.200s)",
			    archive_error_string(a) ? archive_error_string(a) : "unknown format");
		else
			r = unpack_next(&u, entry, e);
	}
	u.parent_fd = fd_close(u.parent_fd);
	if (r < 0)
		return r;
	*ret = u.stats;
	return 0;
}
