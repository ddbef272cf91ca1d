/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a stored sandbox, for a backup. A sandbox may be in use meanwhile, and no lock is taken: its calls would fail
 * for as long as the copy takes. Instead its times of change are looked at before and after. What code inside has written
 * is flushed first; what changes while it is read is read again. */
#include "cmd/backup_archive.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/maker/native/monitor/workspace_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define TRIES    8u /* the pauses between them double: 13 s in all */
#define PAUSE_MS 100u
/* The kernel stamps a change with the time of its last tick. A change that is no older than this can be followed by another
 * one with the same stamp. */
#define STAMP_NS (20 * NS_PER_MS)

static uint64_t ns_of(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * NS_PER_S + (uint64_t)t->tv_nsec;
}

static bool is_fresh(const struct stat *st)
{
	const uint64_t now = now_wall_ns(), at = ns_of(&st->st_ctim);

	return now < at + STAMP_NS && at < now + NS_PER_S;
}

/* ---- a disk ---- */

/* Whether a sandbox has the disk open: what its file system holds in memory must be written first. Its own lock is free
 * again at once. */
static bool is_open(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return true;
	(void)flock(fd, LOCK_UN);
	return false;
}

static int write_disk(struct backup_out *o, const char *name, int fd, struct err *e)
{
	struct stat before, after;

	if (is_open(fd))
		sync(); /* its mount is in no namespace that this process could name */
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (fstat(fd, &before) < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s'", name);
	if (is_fresh(&before))
		return 1;
	backup_out_name(o, name, AE_IFREG, 0600);
	archive_entry_set_size(o->entry, before.st_size);
	int r = backup_out_file(o, fd, e);
	if (r < 0)
		return r;
	if (fstat(fd, &after) < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s'", name);
	return ns_of(&before.st_mtim) != ns_of(&after.st_mtim) ||
	       ns_of(&before.st_ctim) != ns_of(&after.st_ctim);
}

/* ---- a folder ---- */

struct folder {
	struct backup_out *out; /* NULL: only look */
	crypto_hash_sha256_state seen;
	bool fresh;
	char path[PATH_MAX];
};

static int walk(struct folder *f, int fd, unsigned depth, struct err *e);

static void note(struct folder *f, const struct stat *st)
{
	const uint64_t words[] = {st->st_ino,         st->st_mode,           st->st_uid,
				  st->st_gid,         (uint64_t)st->st_size, ns_of(&st->st_mtim),
				  ns_of(&st->st_ctim)};

	backup_sum_name(&f->seen, f->path);
	(void)crypto_hash_sha256_update(&f->seen, (const unsigned char *)words, sizeof(words));
	f->fresh = f->fresh || is_fresh(st);
}

static void name_entry(struct folder *f, const struct stat *st)
{
	backup_out_name(f->out, f->path, st->st_mode & S_IFMT, st->st_mode & 07777);
	archive_entry_set_uid(f->out->entry, st->st_uid);
	archive_entry_set_gid(f->out->entry, st->st_gid);
	archive_entry_set_mtime(f->out->entry, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

/* FD is open without following links: code inside may put a link in the place of what was listed. */
static int add_open(struct folder *f, int fd, unsigned depth, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%.200s'", f->path);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0;
	note(f, &st);
	if (f->out)
		name_entry(f, &st);
	if (S_ISDIR(st.st_mode)) {
		int r = f->out ? backup_out_head(f->out, e) : 0;
		return r < 0 ? r : walk(f, fd, depth + 1, e);
	}
	if (!f->out)
		return 0;
	archive_entry_set_size(f->out->entry, st.st_size);
	return backup_out_file(f->out, fd, e);
}

static int add_link(struct folder *f, int dir, const char *name, const struct stat *st,
		    struct err *e)
{
	char target[PATH_MAX];
	const ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	note(f, st);
	if (n < 0 || !f->out)
		return 0; /* gone: the second look notices */
	target[n] = '\0';
	name_entry(f, st);
	archive_entry_copy_symlink(f->out->entry, target);
	return backup_out_head(f->out, e);
}

static int add_name(struct folder *f, int dir, const char *name, unsigned depth, struct err *e)
{
	const size_t len = strlen(f->path);
	struct stat st;
	const int n = snprintf(f->path + len, sizeof(f->path) - len, "/%s", name);
	int r = 0;

	if (n < 0 || (size_t)n >= sizeof(f->path) - len || depth > BACKUP_DEPTH_MAX) {
		f->path[len] = '\0';
		if (f->out)
			(void)fprintf(stderr,
				      "caisson backup: too deep, left out: a name in %.200s\n",
				      f->path);
		return 0;
	}
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		f->fresh = true; /* it has just been removed */
	} else if (S_ISLNK(st.st_mode)) {
		r = add_link(f, dir, name, &st, e);
	} else if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		_cleanup_fd_ int fd =
		    openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0)
			r = add_open(f, fd, depth, e);
		else if (errno == ENOENT || errno == ELOOP)
			f->fresh = true;
		else
			r = err_set(e, ERR_SYSTEM, errno, "'%.200s' cannot be read", f->path);
	}
	f->path[len] = '\0';
	return r;
}

static int walk(struct folder *f, int fd, unsigned depth, struct err *e)
{
	const int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *list = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *de;
	int r = 0;

	if (!list) {
		const int saved = errno;
		(void)fd_close(copy);
		return err_set(e, ERR_SYSTEM, saved, "'%.200s' cannot be read", f->path);
	}
	while (r >= 0 && (de = readdir(list)))
		if (!streq(de->d_name, ".") && !streq(de->d_name, ".."))
			r = add_name(f, fd, de->d_name, depth, e);
	return r;
}

static int look(struct folder *f, struct backup_out *o, const char *name, int fd, struct err *e)
{
	*f = (struct folder){.out = o};
	(void)crypto_hash_sha256_init(&f->seen);
	(void)!text_copy(f->path, sizeof(f->path), name);
	return add_open(f, fd, 0, e);
}

static int write_folder(struct backup_out *o, const char *name, int fd, struct err *e)
{
	_cleanup_free_ struct folder *f = malloc(sizeof(*f));
	char first[BACKUP_SUM_SIZE], second[BACKUP_SUM_SIZE];

	if (!f)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the backup");
	int r = look(f, o, name, fd, e);
	if (r < 0)
		return r;
	const bool fresh = f->fresh;
	backup_sum_text(&f->seen, first);
	r = look(f, NULL, name, fd, e);
	if (r < 0)
		return r;
	backup_sum_text(&f->seen, second);
	return fresh || !streq(first, second);
}

/* ---- both ---- */

static int left_out(struct backup_out *o, const char *key, struct err *e)
{
	char name[PATH_MAX];

	(void)snprintf(name, sizeof(name), BACKUP_LEFT_OUT "%s", key);
	int r = backup_out_text(o, name, "", e);
	return r < 0 ? r : 1;
}

static void pause_before(unsigned try)
{
	const uint64_t ns = ((uint64_t)PAUSE_MS << (try - 1)) * NS_PER_MS;
	const struct timespec pause = {.tv_sec = (time_t)(ns / NS_PER_S),
				       .tv_nsec = (long)(ns % NS_PER_S)};

	(void)nanosleep(&pause, NULL);
}

int backup_workspace(struct backup_out *o, const struct backup_place *place, int dir,
		     const char *key, struct err *e)
{
	char name[PATH_MAX];
	int r = 1;

	(void)snprintf(name, sizeof(name), "%s/%s" BACKUP_DISK, place->name, key);
	const char *in = name + strlen(place->name) + 1;
	bool disk = place->disks;
	_cleanup_fd_ int fd =
	    disk ? openat(dir, in, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
	if (!disk || (fd < 0 && errno == ENOENT)) {
		(void)snprintf(name, sizeof(name), "%s/%s", place->name, key);
		fd = openat(dir, in, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		disk = false;
	}
	if (fd < 0 && errno == ENOENT)
		return 0; /* it was never used, or it has just been deleted */
	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s' cannot be read", name);
	for (unsigned i = 0; i < TRIES && r == 1; i++) {
		if (i > 0)
			pause_before(i);
		r = disk ? write_disk(o, name, fd, e) : write_folder(o, name, fd, e);
	}
	return r == 1 ? left_out(o, key, e) : r;
}

void backup_become_owner(void)
{
	struct ids ids = {.lock = -1};
	struct err ignored = ERR_INIT;

	/* Where this fails no sandbox of a plain user has ever run; reading says so if one has. */
	if (geteuid() != 0 && ids_reserve(&ids, false, NULL, &ignored) == 0)
		(void)!workspace_become_owner(&ids);
}
