/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation: workspace_ballast.h. */
#include "engine/maker/native/monitor/workspace_ballast.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "engine/protocol/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define UNIT_BYTES   (UINT64_C(1) << 20) /* ballast is a multiple of it */
#define FOLDER_MODE  0711                /* init may look at the size of the ballast */
#define SECTOR_BYTES 512u                /* of st_blocks, stat(2) */
#define EXTENTS_EACH 128u                /* asked for at a time */
#define EXTENTS_MAX  (1u << 18)
#define PIECE_BYTES  (UINT64_C(1) << 30)  /* trimmed at a time */
#define INODE_BYTES  256u                 /* as workspace_disk.c makes them */
#define REACH_SPARE  (UINT64_C(64) << 20) /* a journal of any version of mke2fs in a small disk */
#define TRIM_LEAST   (UINT64_C(64) << 10)

struct extent {
	uint64_t at, end; /* bytes of the disk */
};

struct extents {
	struct extent *list;
	size_t n, size;
};

/* ---- where a file lies on its disk ---- */

static int add(struct extents *e, uint64_t at, uint64_t end)
{
	if (e->n > 0 && e->list[e->n - 1].end == at) {
		e->list[e->n - 1].end = end;
		return 0;
	}
	if (e->n == e->size) {
		const size_t size = e->size == 0 ? EXTENTS_EACH : e->size * 2;
		struct extent *list =
		    size > EXTENTS_MAX ? NULL : realloc(e->list, size * sizeof(*list));
		if (!list)
			return -ENOMEM;
		e->list = list;
		e->size = size;
	}
	e->list[e->n++] = (struct extent){at, end};
	return 0;
}

/* Adds where the bytes of FD lie. */
static int locate(int fd, struct extents *e)
{
	uint64_t from = 0;
	union {
		struct fiemap map;
		char space[sizeof(struct fiemap) + EXTENTS_EACH * sizeof(struct fiemap_extent)];
	} u;
	const struct fiemap_extent *x = u.map.fm_extents;

	for (;;) {
		memset(&u, 0, sizeof(u.map));
		u.map.fm_start = from;
		u.map.fm_length = FIEMAP_MAX_OFFSET - from;
		u.map.fm_extent_count = EXTENTS_EACH;
		if (ioctl(fd, FS_IOC_FIEMAP, &u.map) < 0)
			return -errno;
		for (uint32_t i = 0; i < u.map.fm_mapped_extents; i++) {
			int r = add(e, x[i].fe_physical, x[i].fe_physical + x[i].fe_length);
			if (r < 0)
				return r;
			from = x[i].fe_logical + x[i].fe_length;
			if (x[i].fe_flags & FIEMAP_EXTENT_LAST)
				return 0;
		}
		if (u.map.fm_mapped_extents == 0)
			return 0;
	}
}

static int by_place(const void *a, const void *b)
{
	const struct extent *x = a;
	const struct extent *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* ---- the file ---- */

/* Opens the ballast. What init could have put in its place is refused. -ENOENT: there is none. */
static int open_ballast(int fs, int flags)
{
	const struct open_how folder = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
					.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
						   RESOLVE_NO_XDEV};
	struct stat st;

	_cleanup_fd_ int dir =
	    (int)syscall(SYS_openat2, fs, PROTO_BALLAST_FOLDER, &folder, sizeof(folder));
	if (dir < 0 || fstat(dir, &st) < 0)
		return -errno;
	if (st.st_uid != 0)
		return -EPERM;
	if ((flags & O_CREAT) && (st.st_mode & 07777u) != FOLDER_MODE &&
	    fchmod(dir, FOLDER_MODE) < 0)
		return -errno;
	_cleanup_fd_ int fd = openat(dir, PROTO_BALLAST_FILE,
				     O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) && st.st_nlink == 1 ? TAKE_FD(fd) : -EPERM;
}

/* Its blocks; one that was cut off in the middle of its making has more or fewer than its length says. */
static uint64_t bytes_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0
				  : (uint64_t)st.st_blocks * SECTOR_BYTES / UNIT_BYTES * UNIT_BYTES;
}

/* What nobody else has taken. */
static uint64_t room_of(int fs)
{
	struct statfs s;

	return fstatfs(fs, &s) < 0 ? 0 : (uint64_t)s.f_bavail * (uint64_t)s.f_bsize;
}

/* Makes holes in IMAGE where FD lies. Nobody reads them: they were free. */
static int punch(int fd, int image)
{
	struct extents e = {0};
	int r = locate(fd, &e);

	for (size_t i = 0; i < e.n && r == 0; i++)
		if (fallocate(image, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      (off_t)e.list[i].at, (off_t)(e.list[i].end - e.list[i].at)) < 0)
			r = -errno;
	free(e.list);
	return r;
}

/* Others take blocks at the same time, so it is tried with less, too. */
static int grow(int fd, uint64_t from, uint64_t to)
{
	while (to > from && fallocate(fd, 0, (off_t)from, (off_t)(to - from)) < 0) {
		if (errno != ENOSPC)
			return -errno;
		if (ftruncate(fd, (off_t)from) < 0)
			return -errno;
		to = from + (to - from) / 2 / UNIT_BYTES * UNIT_BYTES;
	}
	return 0;
}

static int change(int fs, int fd, int image, uint64_t want)
{
	const uint64_t have = bytes_of(fd);
	const uint64_t most = (have + room_of(fs)) / UNIT_BYTES * UNIT_BYTES;

	want = MIN(want, most);
	int r = want > have ? grow(fd, have, want) : ftruncate(fd, (off_t)want) < 0 ? -errno : 0;
	/* All of it: whoever took some in before may have been killed before this step. Ballast without a
	 * hole would count as blocks that its disk has, and be promised to others. */
	r = r < 0 ? r : punch(fd, image);
	if (r < 0 && want > have)
		(void)!ftruncate(fd, (off_t)have);
	return r;
}

int ballast_disk_size(int fs, int image, uint64_t *ret)
{
	struct statvfs v;
	struct stat st;

	if (fstat(image, &st) < 0 || fstatvfs(fs, &v) < 0)
		return -errno;
	/* No less than what the file system can write to, and little more: its blocks, its inodes, and an eighth
	 * for journal, bitmaps and what ext4 keeps back. */
	const uint64_t known =
	    (uint64_t)v.f_blocks * v.f_frsize + (uint64_t)v.f_files * INODE_BYTES;
	*ret = MIN((uint64_t)st.st_size, known + (known >> 3) + REACH_SPARE);
	return 0;
}

int ballast_set(int fs, int image, uint64_t claim, uint64_t *ret)
{
	uint64_t size = 0;

	*ret = 0;
	int r = ballast_disk_size(fs, image, &size);
	if (r < 0)
		return r;
	const uint64_t want =
	    size > claim ? (size - claim + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES : 0;
	_cleanup_fd_ int fd = open_ballast(fs, want > 0 ? O_CREAT : 0);
	if (fd < 0)
		return want == 0 && fd == -ENOENT ? 0 : fd;
	r = change(fs, fd, image, want);
	*ret = bytes_of(fd);
	return r;
}

/* ---- blocks of the host ---- */

int ballast_back(int fs, int image)
{
	_cleanup_fd_ int fd = open_ballast(fs, 0);
	struct extents e = {0};
	uint64_t at = 0, size = 0;

	if (fd < 0 && fd != -ENOENT)
		return fd;
	int r = ballast_disk_size(fs, image, &size);
	r = r < 0 || fd < 0 ? r : locate(fd, &e);
	if (e.n > 0)
		qsort(e.list, e.n, sizeof(*e.list), by_place);
	for (size_t i = 0; i <= e.n && r == 0; i++) {
		const uint64_t end = i < e.n ? e.list[i].at : size;
		if (end > at &&
		    fallocate(image, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)(end - at)) < 0)
			r = -errno;
		at = i < e.n ? e.list[i].end : end;
	}
	free(e.list);
	return r;
}

bool ballast_trim(int fd, uint64_t most_ns)
{
	const uint64_t end = now_ns() + most_ns;
	struct statfs s;

	/* what was removed since the last commit cannot be given back yet */
	if (syncfs(fd) < 0 || fstatfs(fd, &s) < 0)
		return false;
	const uint64_t bytes = ((uint64_t)s.f_blocks + s.f_blocks / 8) * (uint64_t)s.f_bsize;
	for (uint64_t at = 0; at <= bytes; at += PIECE_BYTES) {
		struct fstrim_range range = {.start = at, .len = PIECE_BYTES, .minlen = TRIM_LEAST};
		if (now_ns() >= end)
			return false;
		/* -EINVAL: AT is behind the last block */
		if (ioctl(fd, FITRIM, &range) < 0)
			return errno == EINVAL && at > 0;
	}
	return true;
}
