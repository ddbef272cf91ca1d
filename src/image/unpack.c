/* SPDX-License-Identifier: Apache-2.0 */
#include "image/unpack.h"

#include "base/fdio.h"
#include "base/text.h"
#include "base/tree.h"
#include "image/layer_set.h"
#include "image/notes.h"

#include <archive_entry.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#define TICK_EVERY 256 /* entries between two reports of progress */
#define WHITEOUT   ".wh."
#define OPAQUE     ".wh..wh..opq"

struct unpack {
	struct archive *archive;
	int root;
	const struct image_watch *watch;
	struct unpack_stats stats;
	uint64_t seen; /* entries of this archive */
	/* The folder of the last entry, kept open because archives list the files of a folder one
	 * after the other. */
	char parent[PATH_MAX];
	int parent_fd;
	struct layer_set *layer; /* the names of this layer; NULL: no layer */
	struct notes *notes;     /* borrowed; NULL: none are made */
	bool is_disk;
};

static int fail(const struct unpack *u, int errnum, const char *name, struct err *e)
{
	if (errnum == ENOSPC || errnum == EDQUOT)
		return err_set(
		    e, ERR_IMAGE_BUILD_FAILED, errnum,
		    "the disk is full; free some space or move the state directory (--state-dir)");
	const char *why = errnum == EBADMSG        ? archive_error_string(u->archive)
			  : errnum == ENAMETOOLONG ? "its folders are too deep"
						   : NULL;

	return err_set(e, ERR_IMAGE_BUILD_FAILED, errnum, "cannot unpack '%.200s'%s%.100s", name,
		       why ? ": " : "", why ? why : "");
}

/* Names are short enough already, but a link may lead to a deep folder, from which the next link begins. What removes
 * and reads trees relies on their depth. */
static int check_depth(const struct unpack *u, int folder)
{
	_cleanup_fd_ int at = fcntl(folder, F_DUPFD_CLOEXEC, 0);
	struct stat top, st;

	if (at < 0 || fstat(u->root, &top) < 0)
		return -errno;
	for (unsigned depth = 0; depth < UNPACK_DEPTH_MAX; depth++) {
		if (fstat(at, &st) < 0)
			return -errno;
		if (st.st_ino == top.st_ino && st.st_dev == top.st_dev)
			return 0;
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (up < 0)
			return -errno;
		(void)fd_close(at);
		at = up;
	}
	return -ENAMETOOLONG;
}

/* In a layer, a folder may have become a link in a layer below (bin -> usr/bin). It is then resolved
 * inside the root as if that were "/". */
static int open_folder(const struct unpack *u, const char *path)
{
	const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOCTTY,
				     .resolve =
					 RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
	int fd = fd_open_beneath(u->root, path, O_RDONLY | O_DIRECTORY, 0);

	if (!u->layer || (fd != -ELOOP && fd != -ENOTDIR))
		return fd;
	_cleanup_fd_ int found = fd_openat2(u->root, path, &how);
	int r = found < 0 ? found : check_depth(u, found);

	return r < 0 ? r : TAKE_FD(found);
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
		u->parent_fd = open_folder(u, parent);
		if (u->parent_fd < 0)
			r = u->parent_fd;
		else
			(void)snprintf(u->parent, sizeof(u->parent), "%s", parent);
	}
	if (slash)
		*slash = '/';
	return r;
}

/* What the disk needs for NAME in DIR beyond SIZE bytes that were counted: many tiny files, or long links, are a large image. */
static int count_blocks(struct unpack *u, int dir, const char *name, uint64_t size)
{
	struct stat st;

	if (u->stats.max == 0)
		return 0;
	if (fstatat(dir, name, &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	const uint64_t all = (uint64_t)st.st_blocks * 512;
	/* XFS reserves as much again for a file that is still open. */
	const uint64_t more = MIN(all - MIN(all, size), (uint64_t)st.st_blksize);

	if (more > unpack_room(&u->stats))
		return -EFBIG;
	u->stats.bytes += more;
	return 0;
}

/* A folder that the archive does not list. In a layer it may replace a file of the lower layers. */
static int make_missing(struct unpack *u, const char *last)
{
	struct stat st;

	if (mkdirat(u->parent_fd, last, 0755) < 0) {
		if (errno != EEXIST)
			return -errno;
		if (!u->layer || fstatat(u->parent_fd, last, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode))
			return 0;
		if (unlinkat(u->parent_fd, last, 0) < 0 || mkdirat(u->parent_fd, last, 0755) < 0)
			return -errno;
	}
	u->stats.entries++; /* one entry may need UNPACK_DEPTH_MAX of them */
	return count_blocks(u, u->parent_fd, last, 0);
}

static int make_folders(struct unpack *u, char *name)
{
	for (char *s = strchr(name, '/'); s; s = strchr(s + 1, '/')) {
		*s = '\0';
		char *last = NULL;
		int r = open_parent(u, name, &last);

		if (r >= 0)
			r = make_missing(u, last);
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

/* Makes room for an entry: what has its name and is no folder goes; a folder only in a layer. */
static int remove_old(struct unpack *u, const char *last)
{
	if (unlinkat(u->parent_fd, last, 0) == 0 || errno == ENOENT)
		return 0;
	if (!u->layer || errno != EISDIR)
		return -errno;
	/* The folder of the last entry may be beneath. */
	return tree_remove(u->parent_fd, last);
}

static int make_folder(struct unpack *u, const char *last, mode_t mode)
{
	struct stat st;

	if (u->layer && fstatat(u->parent_fd, last, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    !S_ISDIR(st.st_mode) && unlinkat(u->parent_fd, last, 0) < 0)
		return -errno;
	const bool made = mkdirat(u->parent_fd, last, 0755) == 0;

	if (!made && errno != EEXIST)
		return -errno;
	_cleanup_fd_ int fd =
	    openat(u->parent_fd, last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fchmod(fd, safe_mode(mode, true)) < 0)
		return -errno;
	return made ? count_blocks(u, fd, "", 0) : 0;
}

/* An archive that grows too much is a bomb. libarchive's reader of disks has no count. */
static bool is_bomb(const struct unpack *u)
{
	struct archive *a = u->archive;

	if (u->is_disk)
		return false;
	const int64_t in = archive_filter_bytes(a, -1);
	const int64_t out = archive_filter_bytes(a, 0);

	return in > 0 && out > (int64_t)UNPACK_RATIO_FREE &&
	       (uint64_t)out / (uint64_t)in > UNPACK_RATIO_MAX;
}

static int copy_data(struct unpack *u, int fd)
{
	const void *block;
	size_t len;
	int64_t offset;
	uint64_t end = 0; /* of the file: holes count, too */

	for (;;) {
		int r = archive_read_data_block(u->archive, &block, &len, &offset);

		if (r == ARCHIVE_EOF)
			return 0;
		if (r != ARCHIVE_OK)
			return -EBADMSG;
		if (offset < 0 || (uint64_t)offset < end || (uint64_t)offset > UNPACK_BYTES_MAX ||
		    (uint64_t)offset + len - end > unpack_room(&u->stats) || is_bomb(u))
			return -EFBIG;
		u->stats.bytes += (uint64_t)offset + len - end;
		end = (uint64_t)offset + len;
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
	int r = remove_old(u, last);

	if (r < 0)
		return r;
	_cleanup_fd_ int fd =
	    openat(u->parent_fd, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	r = copy_data(u, fd);
	if (r < 0)
		return r;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	r = count_blocks(u, fd, "", (uint64_t)st.st_size);
	if (r < 0)
		return r;
	/* A hole at the end of a sparse file has no data block. */
	if (st.st_size < size) {
		if ((uint64_t)(size - st.st_size) > unpack_room(&u->stats))
			return -EFBIG;
		u->stats.bytes += (uint64_t)(size - st.st_size);
		if (ftruncate(fd, size) < 0)
			return -errno;
	}
	if (fchmod(fd, safe_mode(archive_entry_perm(entry), false)) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* TARGET is a name of the tree, like that of an entry. The link is made from folder to folder, so
 * that nothing is followed. */
static int make_hard_link(struct unpack *u, const char *last, const char *target)
{
	char clean[PATH_MAX];
	struct stat st, old;
	int r = unpack_clean_name(target, clean, sizeof(clean));

	if (r < 0 || !clean[0])
		return -EINVAL;
	char *slash = strrchr(clean, '/');

	if (slash)
		*slash = '\0';
	const char *name = slash ? slash + 1 : clean;
	_cleanup_fd_ int folder = open_folder(u, slash ? clean : ".");

	if (folder < 0)
		return folder;
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return -EINVAL;
	/* A link to itself would remove the file. */
	if (fstatat(u->parent_fd, last, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
	    old.st_ino == st.st_ino && old.st_dev == st.st_dev)
		return 0;
	r = remove_old(u, last);
	if (r < 0)
		return r;
	return linkat(folder, name, u->parent_fd, last, 0) < 0 ? -errno : 0;
}

static int make_symlink(struct unpack *u, const char *last, const char *target)
{
	if (!target || !*target || strlen(target) >= PATH_MAX)
		return -EINVAL;
	int r = remove_old(u, last);

	if (r < 0)
		return r;
	return symlinkat(target, u->parent_fd, last) < 0 ? -errno
							 : count_blocks(u, u->parent_fd, last, 0);
}

/* Removes of the lower layers what the name of a whiteout says. */
static int remove_lower(struct unpack *u, char *name)
{
	char *last = NULL;
	char path[PATH_MAX];
	int r = open_parent(u, name, &last);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	const size_t folder = (size_t)(last - name);

	if (streq(last, OPAQUE)) {
		(void)snprintf(path, sizeof(path), "%.*s", (int)folder, name);
		r = layer_prune_children(u->layer, u->parent_fd, path, &u->stats.removed);
	} else if (text_starts_with(last, WHITEOUT WHITEOUT)) {
		return 0; /* aufs' own files */
	} else {
		const char *gone = last + strlen(WHITEOUT);

		if (!gone[0] || streq(gone, ".") || streq(gone, ".."))
			return -EINVAL;
		(void)snprintf(path, sizeof(path), "%.*s%s", (int)folder, name, gone);
		r = layer_prune(u->layer, u->parent_fd, path, &u->stats.removed);
	}
	u->parent_fd = fd_close(u->parent_fd);
	return r;
}

static bool is_whiteout(const struct unpack *u, const char *name)
{
	const char *slash = strrchr(name, '/');

	return u->layer && text_starts_with(slash ? slash + 1 : name, WHITEOUT);
}

static int find_parent(struct unpack *u, char *name, char **ret_last)
{
	int r = open_parent(u, name, ret_last);

	if (r != -ENOENT && r != -ENOTDIR)
		return r;
	r = make_folders(u, name);
	return r < 0 ? r : open_parent(u, name, ret_last);
}

static int make_entry(struct unpack *u, struct archive_entry *entry, char *name)
{
	const char *hard = archive_entry_hardlink(entry);
	mode_t type = archive_entry_filetype(entry);
	mode_t mode = archive_entry_perm(entry);
	char *last = NULL;

	if (is_whiteout(u, name))
		return remove_lower(u, name);
	if (!hard && type != AE_IFDIR && type != AE_IFREG && type != AE_IFLNK) {
		u->stats.skipped++;
		return 0;
	}
	int r = find_parent(u, name, &last);

	if (r >= 0 && u->layer)
		r = layer_set_add(u->layer, name);
	if (r < 0)
		return r;
	if (hard)
		return make_hard_link(u, last, hard);
	if (type == AE_IFLNK)
		return make_symlink(u, last, archive_entry_symlink(entry));
	u->stats.setid += (mode & 06000) ? 1 : 0;
	return type == AE_IFDIR ? make_folder(u, last, mode) : make_file(u, last, entry);
}

/* What make_entry() has not set. A hard link has what its file has. */
static int note_entry(const struct unpack *u, struct archive_entry *entry, const char *name)
{
	const mode_t type = archive_entry_filetype(entry);
	const mode_t mode = archive_entry_perm(entry) & NOTE_MODES;
	const bool known = type == AE_IFDIR || type == AE_IFREG || type == AE_IFLNK;

	if (!u->notes || !known || archive_entry_hardlink(entry))
		return 0;
	const struct note n = {.uid = archive_entry_uid(entry),
			       .gid = archive_entry_gid(entry),
			       .mode = type == AE_IFLNK ? NOTE_NO_MODE : mode};
	const bool same = type == AE_IFLNK || mode == safe_mode(mode, type == AE_IFDIR);

	return same && n.uid == 0 && n.gid == 0 ? 0 : notes_add(u->notes, &n, name);
}

static int unpack_next(struct unpack *u, struct archive_entry *entry, struct err *e)
{
	char name[PATH_MAX];
	const char *raw = archive_entry_pathname(entry);

	if (!raw || unpack_clean_name(raw, name, sizeof(name)) < 0)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, EBADMSG,
			       "the archive holds a forbidden name '%.200s'", raw ? raw : "");
	if (++u->stats.entries > UNPACK_ENTRIES_MAX) /* with the folders that were made for them */
		return err_set(e, ERR_IMAGE_BUILD_FAILED, E2BIG,
			       "the archive holds more than %" PRIu64 " entries",
			       UNPACK_ENTRIES_MAX);
	if (is_bomb(u))
		return err_set(e, ERR_IMAGE_BUILD_FAILED, E2BIG,
			       "the archive grows more than %" PRIu64 " times when it is unpacked",
			       UNPACK_RATIO_MAX);
	if (!name[0])
		return 0;
	int r = make_entry(u, entry, name);

	if (r >= 0)
		r = note_entry(u, entry, name);
	if (r < 0)
		return fail(u, -r, name, e);
	if (++u->seen % TICK_EVERY == 0) {
		u->watch->tick(u->watch->user, "files", u->stats.entries, 0);
		if (image_cancelled(u->watch))
			return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
	}
	return 0;
}

/* The names go through a copy, because libarchive cannot set a name from a part of itself. */
static int strip_top(struct archive_entry *entry, const char *top, struct err *e)
{
	const char *name = archive_entry_pathname(entry);
	const char *target = archive_entry_hardlink(entry);
	const size_t n = strlen(top);
	char copy[PATH_MAX];

	if (!name || !text_starts_with(name, top) ||
	    text_copy(copy, sizeof(copy), name + n + (name[n] == '/' ? 1 : 0)) < 0)
		return err_set(e, ERR_SYSTEM, EINVAL, "cannot read the folder");
	archive_entry_copy_pathname(entry, copy);
	if (!target)
		return 0;
	if (!text_starts_with(target, top) ||
	    text_copy(copy, sizeof(copy), target + n + (target[n] == '/' ? 1 : 0)) < 0)
		return err_set(e, ERR_SYSTEM, EINVAL, "cannot read the folder");
	archive_entry_copy_hardlink(entry, copy);
	return 0;
}

/* Folders of a disk are entered by hand; of files with several names all but the first become links. */
static int next_of_folder(struct unpack *u, const char *top,
			  struct archive_entry_linkresolver *links, struct archive_entry *entry,
			  struct err *e)
{
	struct archive_entry *spare = NULL;
	int r = 0;

	(void)archive_read_disk_descend(u->archive);
	archive_entry_linkify(links, &entry, &spare);
	if (entry) {
		r = strip_top(entry, top, e);
		if (r >= 0)
			r = unpack_next(u, entry, e);
	}
	archive_entry_free(entry);
	archive_entry_free(spare);
	return r;
}

int image_unpack_folder(struct archive *disk, const char *top, int root,
			const struct image_watch *w, struct unpack_stats *ret, struct err *e)
{
	struct unpack u = {.archive = disk,
			   .root = root,
			   .watch = w,
			   .stats = *ret,
			   .parent_fd = -1,
			   .is_disk = true};
	struct archive_entry_linkresolver *links = archive_entry_linkresolver_new();
	int r = links ? 0 : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading a folder");

	if (links)
		archive_entry_linkresolver_set_strategy(links, ARCHIVE_FORMAT_TAR_PAX_RESTRICTED);
	while (r >= 0) {
		struct archive_entry *entry = archive_entry_new();
		int ar = entry ? archive_read_next_header2(disk, entry) : ARCHIVE_FATAL;

		if (ar == ARCHIVE_OK || ar == ARCHIVE_WARN) {
			r = next_of_folder(&u, top, links, entry, e);
			continue;
		}
		archive_entry_free(entry);
		if (ar == ARCHIVE_EOF)
			break;
		r = err_set(e, ERR_IMAGE_BUILD_FAILED, EIO, "cannot read the folder (%.200s)",
			    archive_error_string(disk) ? archive_error_string(disk) : "");
	}
	if (links)
		archive_entry_linkresolver_free(links);
	u.parent_fd = fd_close(u.parent_fd);
	if (r >= 0)
		*ret = u.stats;
	return r;
}

static int unpack_all(struct unpack *u, struct err *e)
{
	int r = 0;

	while (r >= 0) {
		struct archive_entry *entry = NULL;
		const char *why = NULL;
		int ar = archive_read_next_header(u->archive, &entry);

		if (ar == ARCHIVE_EOF)
			break;
		if (ar >= ARCHIVE_WARN) {
			r = unpack_next(u, entry, e);
			continue;
		}
		why = archive_error_string(u->archive);
		r = err_set(e, ERR_IMAGE_BUILD_FAILED, EBADMSG, "cannot read the archive (%.200s)",
			    why ? why : "unknown format");
	}
	u->parent_fd = fd_close(u->parent_fd);
	return r;
}

int image_unpack(struct archive *a, int root, const struct image_watch *w, struct unpack_stats *ret,
		 struct err *e)
{
	struct unpack u = {.archive = a, .root = root, .watch = w, .stats = *ret, .parent_fd = -1};
	int r = unpack_all(&u, e);

	if (r >= 0)
		*ret = u.stats;
	return r;
}

int image_unpack_noted(struct archive *a, int root, int notes, const struct image_watch *w,
		       struct unpack_stats *ret, struct err *e)
{
	struct notes all = {.fd = notes, .text = BUF_INIT(NOTES_PIECE)};
	struct unpack u = {
	    .archive = a, .root = root, .watch = w, .stats = *ret, .parent_fd = -1, .notes = &all};
	int r = unpack_all(&u, e);

	if (r >= 0 && (r = notes_end(&all)) < 0)
		r = err_set(e, ERR_SYSTEM, -r, "cannot note the owners of files");
	buf_done(&all.text);
	if (r >= 0)
		*ret = u.stats;
	return r;
}

int image_unpack_layer(struct archive *a, int root, const struct image_watch *w,
		       struct unpack_stats *ret, struct err *e)
{
	struct unpack u = {.archive = a, .root = root, .watch = w, .stats = *ret, .parent_fd = -1};
	int r = layer_set_new(&u.layer);

	r = r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "unpacking a layer") : unpack_all(&u, e);
	layer_set_free(u.layer);
	if (r >= 0)
		*ret = u.stats;
	return r;
}
