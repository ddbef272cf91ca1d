/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks the file of `caisson backup`. Names and links of workspaces come from code that ran in sandboxes, so each
 * name is made beneath an open folder, and no link is followed. */
#include "cmd/restore_entries.h"

#include "base/fdio.h"
#include "base/text.h"
#include "base/tree.h"
#include "cmd/backup_archive.h"
#include "image/image_store.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MODE   0600
#define FOLDER_MODE 0700
#define TEXT_MAX    128u

struct unpacking {
	struct archive *in;
	struct archive_entry *entry; /* libarchive's */
	const char *name;            /* of the backup */
	int dir;
	const struct backup_place *place;
	crypto_hash_sha256_state sum;
	char text[TEXT_MAX]; /* data of an entry that is a text */
	bool begun, has_db, ended;
};

static int unsound(const struct unpacking *u, const char *why, struct err *e)
{
	return err_set(e, ERR_INVALID_CONTENT, 0, "%s is no complete backup: %s", u->name, why);
}

static int cut(const struct unpacking *u, struct err *e)
{
	const char *why = archive_error_string(u->in);

	return unsound(u, why ? why : "it cannot be read", e);
}

/* ---- data ---- */

static int write_at(int fd, const char *data, size_t len, off_t at)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, data, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* The data of the entry into FD, with its holes, or if FD is -1 into u->text. */
static int take_data(struct unpacking *u, int fd, struct err *e)
{
	const void *data;
	size_t len;
	la_int64_t at;
	int r;

	while ((r = archive_read_data_block(u->in, &data, &len, &at)) == ARCHIVE_OK) {
		(void)crypto_hash_sha256_update(&u->sum, data, len);
		if (fd < 0 && ((size_t)at >= TEXT_MAX || len >= TEXT_MAX - (size_t)at))
			return unsound(u, "an entry is too long", e);
		if (fd < 0 && len > 0)
			memcpy(u->text + at, data, len);
		r = fd < 0 ? 0 : write_at(fd, data, len, at);
		if (r < 0)
			return err_set(e, r == -ENOSPC ? ERR_STORE_FULL : ERR_SYSTEM, -r,
				       "the state folder cannot be written");
	}
	if (r != ARCHIVE_EOF)
		return cut(u, e);
	if (fd >= 0 && ftruncate(fd, archive_entry_size(u->entry)) < 0)
		return err_set(e, ERR_SYSTEM, errno, "the state folder cannot be written");
	return 0;
}

static int take_text(struct unpacking *u, struct err *e)
{
	memset(u->text, 0, sizeof(u->text));
	return take_data(u, -1, e);
}

/* ---- files ---- */

static int fail_at(const char *name, int r, struct err *e)
{
	return err_set(e, r == -ENOSPC ? ERR_STORE_FULL : ERR_SYSTEM, -r, "'%.200s' cannot be made",
		       name);
}

/* Opens the folder that NAME is in; *RET is its last part. */
static int open_parent(int dir, const char *name, const char **ret)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(name, '/');

	if (text_copy(folder, sizeof(folder), name) < 0)
		return -ENAMETOOLONG;
	*ret = slash ? slash + 1 : name;
	if (streq(*ret, "") || streq(*ret, ".") || streq(*ret, ".."))
		return -EINVAL;
	if (!slash)
		return fd_open_beneath(dir, ".", O_RDONLY | O_DIRECTORY, 0);
	folder[slash - name] = '\0';
	return fd_open_beneath(dir, folder, O_RDONLY | O_DIRECTORY, 0);
}

static int make_file(struct unpacking *u, int parent, const char *name, struct err *e)
{
	const struct timespec times[] = {{.tv_nsec = UTIME_OMIT},
					 {.tv_sec = archive_entry_mtime(u->entry),
					  .tv_nsec = archive_entry_mtime_nsec(u->entry)}};
	_cleanup_fd_ int fd =
	    openat(parent, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
		   FILE_MODE);

	if (fd < 0)
		return fail_at(name, -errno, e);
	int r = take_data(u, fd, e);
	if (r == 0 && archive_entry_mtime_is_set(u->entry))
		(void)futimens(fd, times);
	return r;
}

/* Owner and rights of a tenant's file. Nobody needs a file here with which another user gets the rights of its owner. */
static int set_rights(struct unpacking *u, int parent, const char *name)
{
	if (fchownat(parent, name, (uid_t)archive_entry_uid(u->entry),
		     (gid_t)archive_entry_gid(u->entry), AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (archive_entry_filetype(u->entry) == AE_IFLNK)
		return 0;
	return fchmodat(parent, name, archive_entry_perm(u->entry) & 01777u, 0) < 0 ? -errno : 0;
}

/* An entry of the folder of a workspace. TOP: the folder itself, which begins a new copy. */
static int make_tenants(struct unpacking *u, const char *name, bool top, struct err *e)
{
	const char *last, *target = archive_entry_symlink(u->entry);
	int r = 0;
	_cleanup_fd_ int parent = open_parent(u->dir, name, &last);

	if (parent < 0)
		return fail_at(name, parent, e);
	if (top)
		r = tree_remove(parent, last);
	if (r < 0)
		return fail_at(name, r, e);
	switch (archive_entry_filetype(u->entry)) {
	case AE_IFDIR:
		r = mkdirat(parent, last, FOLDER_MODE) < 0 ? -errno : 0;
		break;
	case AE_IFLNK:
		r = !target || symlinkat(target, parent, last) < 0 ? -errno : 0;
		break;
	case AE_IFREG:
		r = make_file(u, parent, last, e);
		if (r < 0)
			return r;
		break;
	default:
		return unsound(u, "it has a special file", e);
	}
	r = r < 0 ? r : set_rights(u, parent, last);
	return r < 0 ? fail_at(name, r, e) : 0;
}

/* OF: the kind of server that NAME is from, if it is the folder or the disk of a sandbox. */
static int make_workspace(struct unpacking *u, const char *name, const struct backup_place *of,
			  struct err *e)
{
	const bool top = !strchr(name + strlen(of->name) + 1, '/');

	if (of != u->place)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "the backup has files of stored sandboxes of a server %s: restore "
			       "it for one %s, not %s",
			       of->server, of->server, u->place->server);
	if (!of->disks)
		return make_tenants(u, name, top, e);
	if (!text_ends_with(name, BACKUP_DISK))
		return unsound(u, "it has a strange workspace", e);
	return make_file(u, u->dir, name, e);
}

/* ---- entries ---- */

static int leave_out(struct unpacking *u, const char *key, struct err *e)
{
	char name[PATH_MAX];
	_cleanup_fd_ int dir =
	    openat(u->dir, u->place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (strchr(key, '/') || key[0] == '.' ||
	    (size_t)snprintf(name, sizeof(name), "%s" BACKUP_DISK, key) >= sizeof(name))
		return unsound(u, "it has a strange name", e);
	(void)fprintf(stderr, "caisson restore: the backup does not have the files of sandbox %s\n",
		      key);
	int r = dir < 0 ? -errno : tree_remove(dir, name);
	r = r < 0 ? r : tree_remove(dir, key);
	return r < 0 ? fail_at(key, r, e) : 0;
}

static int check_end(struct unpacking *u, const char *before, struct err *e)
{
	if (!u->has_db || !streq(before, u->text))
		return unsound(u, "its digest is wrong", e);
	u->ended = true;
	return 0;
}

static int take_entry(struct unpacking *u, struct err *e)
{
	const char *path = archive_entry_pathname(u->entry);
	char before[BACKUP_SUM_SIZE], name[PATH_MAX];
	int r;

	if (!path || u->ended || text_copy(name, sizeof(name), path) < 0 || !name[0] ||
	    archive_entry_hardlink(u->entry))
		return unsound(u, "it has a strange entry", e);
	if (name[strlen(name) - 1] == '/') /* so a tar writes folders */
		name[strlen(name) - 1] = '\0';
	if (!u->begun && !streq(name, BACKUP_FIRST))
		return unsound(u, "'caisson backup' has not made it", e);
	backup_sum_text(&u->sum, before);
	backup_sum_name(&u->sum, name);
	const struct backup_place *of =
	    backup_place_of(name, archive_entry_filetype(u->entry) == AE_IFREG);
	if (of)
		return make_workspace(u, name, of, e);
	if (streq(name, BACKUP_DB)) {
		u->has_db = true;
		return make_file(u, u->dir, BACKUP_DB, e);
	}
	r = take_text(u, e);
	if (r < 0)
		return r;
	if (streq(name, BACKUP_END))
		return check_end(u, before, e);
	if (text_starts_with(name, BACKUP_LEFT_OUT))
		return leave_out(u, name + strlen(BACKUP_LEFT_OUT), e);
	if (u->begun || !streq(name, BACKUP_FIRST))
		return unsound(u, "it has an unknown entry", e);
	u->begun = true;
	return streq(u->text, BACKUP_FORM)
		   ? 0
		   : unsound(u, "a newer version of this program has made it", e);
}

int restore_entries(int fd, int dir, const struct backup_place *place, const char *name,
		    struct err *e)
{
	struct unpacking u = {.in = archive_read_new(), .name = name, .dir = dir, .place = place};
	int r = u.in && mkdirat(dir, place->name, place->mode) == 0 ? 0 : -ENOMEM;
	int ar = ARCHIVE_FATAL;

	(void)crypto_hash_sha256_init(&u.sum);
	if (r < 0 || archive_read_support_filter_zstd(u.in) != ARCHIVE_OK ||
	    archive_read_support_format_tar(u.in) != ARCHIVE_OK)
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the backup");
	else if (archive_read_open_fd(u.in, fd, BACKUP_BLOCK) != ARCHIVE_OK)
		r = cut(&u, e);
	while (r == 0 && (ar = archive_read_next_header(u.in, &u.entry)) >= ARCHIVE_WARN &&
	       ar != ARCHIVE_EOF)
		r = take_entry(&u, e);
	if (r == 0 && ar != ARCHIVE_EOF)
		r = cut(&u, e);
	if (r == 0 && !u.ended)
		r = unsound(&u, "its end is missing", e);
	if (u.in)
		(void)archive_read_free(u.in);
	return r;
}
