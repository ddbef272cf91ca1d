/* SPDX-License-Identifier: Apache-2.0 */
/* Enforces the disk limit of a stored workspace that is a plain folder of the host, where no file
 * system enforces it.
 *
 * init walks the workspace, the packages, /tmp and the home folder, and adds up their files, a slice per
 * turn of its loop.
 * During a run the next walk begins at the earliest moment at which the limit could be reached
 * (FILL_*), and walking takes at most a fifth of the time (REST_FACTOR). A walk finds files that have
 * a name; open files without a name are counted through /proc (nameless_files.c). A folder that
 * cannot be opened counts as if it were over the limit.
 *
 * A run that exceeds the limit is killed. The workspace can then hold the limit and what was written
 * during one walk. The next run may start with that excess (SLACK_*), because otherwise no run could
 * delete files.
 *
 * When the disk of the host is near its reserve (proto_disk_reserve()), the limit is what the workspace holds.
 *
 * Best effort: a run that keeps moving its folders can hide them from the walk until it ends. A run
 * whose processes are not dumpable can hide open files without a name. */
#include "init.h"

#include "base/attr.h"
#include "base/fdio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SLICE_ENTRIES 512
#define WALK_MAX      (UINT64_C(1) << 21) /* entries; a larger tree counts as over the limit */
#define EVERYTHING    (UINT64_C(1) << 62)
#define BLOCK_BYTES   512u /* of st_blocks, stat(2) */
#define LOOK_MIN_NS   UINT64_C(20000000)
#define LOOK_MAX_NS   UINT64_C(1000000000)
#define FILL_BYTE_NS  1u     /* a run writes at most 1 GB a second, by assumption */
#define FILL_FILE_NS  10000u /* and makes at most 100,000 files a second */
#define REST_FACTOR   4u     /* pause between two walks: this many times the last walk's time */
/* How far above the limit a run may still start: a quarter of the limit, but at least what a run can
 * write between two walks on a busy machine. */
#define SLACK_PART  4u
#define SLACK_BYTES (UINT64_C(256) << 20)
#define SLACK_FILES UINT64_C(32768)

static struct disk_use limit_of(const struct init *in)
{
	return (struct disk_use){.bytes = in->config.limits.workspace_bytes,
				 .inodes = in->config.limits.workspace_inodes};
}

/* What the host can still give to folders of sandboxes. */
static uint64_t host_room(const struct init *in)
{
	struct statvfs v;

	if (fstatvfs(in->workspace, &v) < 0)
		return 0;
	const uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;
	const uint64_t reserve = proto_disk_reserve((uint64_t)v.f_blocks * v.f_frsize);
	return left > reserve ? left - reserve : 0;
}

/* Submitted code executes, also where a session writes or reads variables and no run is on. */
static bool grows(const struct init *in)
{
	return init_executes(in) ||
	       (in->session.state == SESSION_WAKING && in->session.waking != WAKING_WAITS);
}

static bool exceeds(struct disk_use a, struct disk_use b)
{
	return a.bytes > b.bytes || a.inodes > b.inodes;
}

/* ---- the walk ---- */

/* Opens a folder for reading. A run may have removed its own right to read the folder, so the mode is
 * changed for a moment. The run may replace the folder by a symbolic link meanwhile, and chmod(2) on
 * the name would follow it. So the folder is opened with O_PATH first, and its mode is changed
 * through that descriptor. */
static int open_list(int parent, const char *name)
{
	struct stat st;
	char held[32];
	int fd = fd_open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);

	if (fd != -EACCES)
		return fd;
	/* Without CAP_DAC_READ_SEARCH not even "." of such a folder can be opened. */
	_cleanup_fd_ int folder = strcmp(name, ".") == 0
				      ? fcntl(parent, F_DUPFD_CLOEXEC, 0)
				      : fd_open_beneath(parent, name, O_PATH | O_DIRECTORY, 0);
	if (folder < 0 || fstat(folder, &st) < 0)
		return fd;
	(void)snprintf(held, sizeof(held), "/proc/self/fd/%d", folder);
	if (fchmodat(AT_FDCWD, held, (st.st_mode & 07777u) | S_IRUSR | S_IXUSR, 0) < 0)
		return fd;
	fd = open(held, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = fd < 0 ? -errno : fd;
	(void)!fchmodat(AT_FDCWD, held, st.st_mode & 07777u, 0);
	return fd;
}

static void enter(struct init_disk *d, int parent, const char *name)
{
	int fd = d->depth < DISK_DEPTH_MAX ? open_list(parent, name) : -ELOOP;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (dir) {
		d->open[d->depth++] = dir;
		return;
	}
	(void)fd_close(fd);
	if (fd != -ENOENT && fd != -ENOTDIR) /* it is still there but cannot be opened */
		d->found.bytes = EVERYTHING;
}

static void add(struct init_disk *d, int dir, const char *name)
{
	struct stat st;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	uint64_t names = S_ISDIR(st.st_mode) || st.st_nlink == 0 ? 1 : st.st_nlink;
	d->found.bytes += (uint64_t)st.st_blocks * BLOCK_BYTES / names;
	d->found.inodes++; /* every name of a file counts */
	if (S_ISDIR(st.st_mode))
		enter(d, dir, name);
}

/* ---- a walk from begin to end ---- */

static void begin(struct init *in)
{
	struct init_disk *d = &in->disk;

	while (d->depth > 0)
		(void)closedir(d->open[--d->depth]);
	d->walking = true;
	d->due = false;
	d->folder = 0;
	d->found = (struct disk_use){0};
	d->began = init_now();
}

static void end(struct init *in)
{
	struct init_disk *d = &in->disk;
	struct disk_use most = limit_of(in);
	uint64_t t = init_now();

	while (d->depth > 0)
		(void)closedir(d->open[--d->depth]);
	d->walking = false;
	d->known = d->found;
	/* the earliest moment at which the limit could be reached */
	d->host_room = host_room(in);
	uint64_t bytes = most.bytes - MIN(most.bytes, d->known.bytes);
	bytes = MIN(bytes, d->host_room);
	uint64_t files = most.inodes - MIN(most.inodes, d->known.inodes);
	uint64_t wait = MIN(bytes * FILL_BYTE_NS, files * FILL_FILE_NS);
	wait = MAX(MIN(wait, LOOK_MAX_NS), LOOK_MIN_NS);
	d->next_at = t + MAX(wait, (t - d->began) * REST_FACTOR);
}

static void add_nameless(struct init *in)
{
	struct stat st;

	if (!grows(in) || fstat(in->workspace, &st) < 0)
		return;
	struct disk_use more = open_nameless(in, st.st_dev);
	in->disk.found.bytes += more.bytes;
	in->disk.found.inodes += more.inodes;
}

/* True = the walk is over. */
static bool step(struct init *in)
{
	struct init_disk *d = &in->disk;

	if (d->depth == 0) {
		if (d->folder > DISK_KEPT) {
			add_nameless(in);
			return true;
		}
		int root = d->folder == 0 ? in->workspace : d->kept[d->folder - 1];
		d->folder++;
		if (root >= 0)
			enter(d, root, ".");
		return false;
	}
	DIR *dir = d->open[d->depth - 1];
	const struct dirent *de = readdir(dir);
	if (de) {
		add(d, dirfd(dir), de->d_name);
	} else {
		(void)closedir(dir);
		d->depth--;
	}
	if (d->found.inodes > WALK_MAX)
		d->found.bytes = EVERYTHING;
	return d->found.bytes >= EVERYTHING;
}

static void walk(struct init *in, uint64_t entries)
{
	if (!in->disk.walking || (in->disk.due && !grows(in)))
		begin(in);
	for (; entries > 0; entries--)
		if (step(in)) {
			end(in);
			return;
		}
}

static void settle(struct init *in)
{
	while (in->disk.due || in->disk.walking)
		walk(in, UINT64_MAX);
}

/* ---- interface ---- */

void disk_start(struct init *in, const char *const kept[DISK_KEPT])
{
	in->disk = (struct init_disk){0};
	in->disk.counts = in->stored && (in->config.fds & PROTO_CONFIG_FOLDER);
	in->disk.due = in->disk.counts;
	for (size_t i = 0; i < DISK_KEPT; i++)
		in->disk.kept[i] =
		    in->disk.counts ? open(kept[i], O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
}

bool disk_pending(const struct init *in)
{
	return in->disk.walking || (in->disk.due && !grows(in) && in->defer_until == 0);
}

uint64_t disk_next(const struct init *in)
{
	return in->disk.counts && grows(in) && !in->disk.walking ? in->disk.next_at : 0;
}

bool disk_work(struct init *in)
{
	struct init_disk *d = &in->disk;
	struct disk_use most = limit_of(in);

	if (!d->counts || (!disk_pending(in) && (disk_next(in) == 0 || init_now() < d->next_at)))
		return false;
	walk(in, SLICE_ENTRIES);
	if (d->host_room == 0 && !d->walking) /* as if the limit were what is there */
		most.bytes = 0;
	/* a run that began above the limit may go on as long as it adds nothing */
	most.bytes = MAX(most.bytes, d->before.bytes);
	most.inodes = MAX(most.inodes, d->before.inodes);
	return grows(in) && exceeds(d->walking ? d->found : d->known, most);
}

void disk_session_begins(struct init *in)
{
	struct init_disk *d = &in->disk;

	if (!d->counts || grows(in))
		return;
	settle(in);
	d->before = d->known;
	d->next_at = init_now() + LOOK_MIN_NS;
}

int disk_run_begins(struct init *in)
{
	struct init_disk *d = &in->disk;
	struct disk_use most = limit_of(in);

	if (!d->counts)
		return 0;
	d->host_room = host_room(in);
	/* On a full host nothing may be added to what there is, so that must be known as it is now: a file system that allocates
	 * late may have taken blocks for its own lists since the last walk. */
	d->due = d->due || d->host_room == 0;
	settle(in);
	d->before = d->known;
	d->next_at = init_now() + LOOK_MIN_NS;
	most.bytes += MAX(most.bytes / SLACK_PART, SLACK_BYTES);
	most.inodes += MAX(most.inodes / SLACK_PART, SLACK_FILES);
	if (!exceeds(d->known, most))
		return 0;
	d->due = true;
	return -EDQUOT;
}

int disk_admit(struct init *in, int fd)
{
	struct init_disk *d = &in->disk;
	struct stat st = {0};

	if (!d->counts)
		return 0;
	if (fd >= 0 && fstat(fd, &st) < 0)
		return -errno;
	if (!grows(in))
		settle(in);
	struct disk_use then = {.bytes = d->known.bytes + (uint64_t)st.st_blocks * BLOCK_BYTES,
				.inodes = d->known.inodes + 1};
	if (exceeds(then, limit_of(in)))
		return -EDQUOT;
	d->host_room = host_room(in);
	if (d->host_room == 0)
		return -PROTO_E_HOST_FULL;
	if (fd >= 0)
		d->known = then; /* until the next walk */
	disk_changed(in);
	return 0;
}

void disk_changed(struct init *in)
{
	in->disk.due = in->disk.counts;
}

struct disk_use disk_known(struct init *in)
{
	if (!grows(in))
		settle(in);
	return in->disk.known;
}
