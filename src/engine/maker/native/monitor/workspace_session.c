/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces of sessions on disk. Theory of operation: workspace_session.h. */
#include "engine/maker/native/monitor/workspace_session.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/loop_device.h"
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/monitor/workspace_ballast.h"
#include "engine/maker/native/monitor/workspace_store.h"
#include "engine/maker/native/monitor/workspace_worker.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define COMPLETE_MODE 0400 /* of a template: nothing else marks it as complete */
#define COPY_BYTES    (256u << 10)
#define INIT_END_MS   5000 /* an init that was killed ends sooner */
/* linux/ext4.h is not for programs. The flag means: not even the journal is written. */
#define EXT4_SHUTDOWN         _IOR('X', 125, uint32_t)
#define EXT4_SHUTDOWN_NOTHING 2u
/* The kernel reports each shutdown with two messages on the console, and waits for the console: on a serial one
 * that takes milliseconds. With less than this in use, writing it back takes less. */
#define SHUTDOWN_FROM (UINT64_C(8) << 20)

/* ---- what this host allows ---- */

static int nameless(int dir)
{
	int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

/* Returns the folder, or -1 with *WHY. A file on a tmpfs is memory, too, but its pages would be charged to
 * nobody; so this is refused. */
static int try_all(const struct monitor *m, const char **why)
{
	struct statfs s;

	*why = "only a server that root started can mount them";
	if (!m->root)
		return -1;
	*why = "loop devices cannot be opened";
	if (loop_device_try() < 0)
		return -1;
	*why = "mke2fs is missing (package e2fsprogs)";
	if (!disk_can_be_made())
		return -1;
	*why = "the state folder cannot be opened";
	_cleanup_fd_ int dir = workspace_root(m->config->state_dir);
	if (dir < 0 || fstatfs(dir, &s) < 0)
		return -1;
	*why = "the state folder is in memory";
	if (s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC)
		return -1;
	*why = "the file system of the state folder has no files without a name";
	_cleanup_fd_ int file = nameless(dir);
	return file < 0 ? -1 : TAKE_FD(dir);
}

int session_disks_open(struct monitor *m, struct err *e)
{
	struct session_disks *d = &m->disks;
	const char *why = "";

	*d = (struct session_disks){.dir = -1};
	for (size_t i = 0; i < SESSION_TEMPLATES; i++)
		d->templates[i].fd = -1;
	if (m->config->workspace == ENGINE_WORKSPACE_MEMORY)
		return 0;
	d->dir = try_all(m, &why);
	if (d->dir < 0 && m->config->workspace == ENGINE_WORKSPACE_DISK)
		return err_set(e, ERR_LIMIT_NOT_ENFORCEABLE, 0,
			       "SANDBOX_WORKSPACE=disk: workspaces cannot be on disk: %s", why);
	return 0;
}

/* ---- templates ---- */

int session_disks_template(struct monitor *m, const struct proto_limits *l)
{
	struct session_disks *d = &m->disks;

	for (size_t i = 0; i < SESSION_TEMPLATES; i++)
		if (d->templates[i].fd >= 0 && d->templates[i].bytes == l->workspace_bytes &&
		    d->templates[i].inodes == l->workspace_inodes)
			return d->templates[i].fd;
	int fd = nameless(d->dir);
	if (fd < 0)
		return fd;
	const uint32_t i = d->next++ % SESSION_TEMPLATES;
	(void)fd_close(d->templates[i].fd);
	d->templates[i].fd = fd;
	d->templates[i].bytes = l->workspace_bytes;
	d->templates[i].inodes = l->workspace_inodes;
	return fd;
}

static int copy_piece(int from, int to, off_t at, off_t end)
{
	static char piece[COPY_BYTES];

	while (at < end) {
		ssize_t n = pread(from, piece, (size_t)MIN(end - at, (off_t)COPY_BYTES), at);
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		for (ssize_t done = 0; done < n;) {
			ssize_t w = pwrite(to, piece + done, (size_t)(n - done), at + done);
			if (w < 0)
				return -errno;
			done += w;
		}
		at += n;
	}
	return 0;
}

/* Holes stay holes. */
static int copy_sparse(int from, int to)
{
	struct stat st;
	int r = 0;

	if (fstat(from, &st) < 0 || ftruncate(to, st.st_size) < 0)
		return -errno;
	for (off_t at = 0; r == 0;) {
		at = lseek(from, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO ? 0 : -errno; /* ENXIO: no data after AT */
		off_t end = lseek(from, at, SEEK_HOLE);
		if (end < 0)
			return -errno;
		r = copy_piece(from, to, at, end);
		at = end;
	}
	return r;
}

static bool is_complete(int template)
{
	struct stat st;

	return fstat(template, &st) == 0 && (st.st_mode & 07777u) == COMPLETE_MODE;
}

/* Several makers may find the template empty; one of them fills it. A template that was begun by a maker that
 * died is begun again. A failure is not this sandbox's. */
static void offer(int disk, int template)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", template);
	/* opened again, because a lock belongs to the open file, and makers inherit one and the same */
	_cleanup_fd_ int own = open(path, O_RDWR | O_CLOEXEC);
	if (own < 0 || flock(own, LOCK_EX | LOCK_NB) < 0 || is_complete(own))
		return;
	if (ftruncate(own, 0) == 0 && copy_sparse(disk, own) == 0)
		(void)fchmod(own, COMPLETE_MODE);
}

static int fill(int disk, int template, const struct proto_limits *l)
{
	if (is_complete(template))
		return copy_sparse(template, disk);
	int r = disk_fill(disk, l);
	if (r == 0)
		offer(disk, template);
	return r;
}

int session_disk_make(const struct maker *k, uint32_t uid, int *ret_tree)
{
	char device[LOOP_PATH_MAX];
	uint32_t number;
	struct stat st;
	_cleanup_fd_ int disk = nameless(k->disks);
	int r = disk < 0 ? disk : fill(disk, k->disk_template, k->limits);

	if (r < 0)
		return r;
	KILL_POINT(SESSION_DISK_FILLED);
	/* From now on the loop device has the lock that a stored disk needs: this one may become one (workspace_keep.c). */
	if (flock(disk, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	_cleanup_fd_ int loop = disk_attach(disk, device, &number);
	if (loop < 0)
		return loop;
	KILL_POINT(SESSION_DISK_ATTACHED);
	if (fstat(disk, &st) < 0)
		return -errno;
	_cleanup_fd_ int tree = disk_mount(
	    device, DISK_SESSION | ((uint64_t)st.st_size >= DISK_JOURNAL_FROM ? DISK_JOURNAL : 0));
	if (tree < 0)
		return tree;
	KILL_POINT(SESSION_DISK_MOUNTED);
	r = disk_report(k, tree, disk, number, k->disk_grant);
	if (r < 0)
		return r;
	if (fchownat(tree, "", uid, uid, AT_EMPTY_PATH) < 0)
		return -errno;
	*ret_tree = TAKE_FD(tree);
	return 0;
}

/* ---- the end ---- */

/* Whether FD is a folder of loop device LOOP. Any other file system is not ours to shut. *RET_BYTES: what is
 * in use there. */
static bool is_ours(int fd, uint32_t loop, uint64_t *ret_bytes)
{
	struct stat st;
	struct statfs s;

	if (fstat(fd, &st) < 0 || st.st_dev != makedev(LOOP_MAJOR, loop) || fstatfs(fd, &s) < 0 ||
	    s.f_type != EXT4_SUPER_MAGIC)
		return false;
	*ret_bytes = (uint64_t)(s.f_blocks - s.f_bfree) * (uint64_t)s.f_bsize;
	return true;
}

/* Descriptor 0 is the workspace, 1 a pidfd of init, 2 the file of the disk, 3 and above are closed: with the
 * liveness pipe open, inits would not see the end of the monitor. As long as 0 is open, the end of init does not
 * unmount the file system; the end of this process does. */
NORETURN static void drop_and_end(const int from[3], bool much, bool stored)
{
	uint32_t flags = EXT4_SHUTDOWN_NOTHING;
	struct pollfd p = {.fd = 1, .events = POLLIN};
	int fds[3];

	for (int i = 0; i < 3; i++)
		if ((fds[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 3)) < 0)
			_exit(1);
	for (int i = 0; i < 3; i++)
		if (dup2(fds[i], i) < 0)
			_exit(1);
	if (fd_close_from(3) < 0)
		_exit(1);
	KILL_POINT(SESSION_DISK_DROPPING);
	const int failed = much && !stored && ioctl(0, EXT4_SHUTDOWN, &flags) < 0 ? 1 : 0;
	(void)poll(&p, 1, INIT_END_MS);
	if (stored && ballast_trim(0, WORKER_TRIM_NS))
		worker_mark_backed(2, false);
	_exit(failed);
}

void session_disk_drop(struct monitor *m, struct monitor_sandbox *b)
{
	struct session_disks *d = &m->disks;
	/* One that is about to be stored must not lose what is cached. */
	const bool stored = b->disk.stored || b->disk.keeper > 0;
	size_t i = 0;

	while (i < SESSION_DROPS_MAX && d->drops[i] > 0)
		i++;
	if (b->disk.loop == DISK_LOOP_NONE || i == SESSION_DROPS_MAX)
		return;
	_cleanup_fd_ int fd = worker_open_workspace(b->init);
	_cleanup_fd_ int pidfd = (int)syscall(SYS_pidfd_open, b->init, 0);
	uint64_t used = 0;
	if (fd < 0 || pidfd < 0 || b->disk.image < 0 || !is_ours(fd, b->disk.loop, &used))
		return;
	pid_t pid = sys_clone(0, SIGCHLD, -1);
	if (pid == 0)
		drop_and_end((const int[]){fd, pidfd, b->disk.image}, used >= SHUTDOWN_FROM,
			     stored);
	d->drops[i] = MAX(pid, 0);
	d->dropped[i] = pid > 0 && stored ? (uint32_t)(b - m->sandboxes) + 1 : 0;
	b->helpers += d->dropped[i] != 0;
}

bool session_disk_dropped(struct monitor *m, pid_t pid)
{
	for (size_t i = 0; i < SESSION_DROPS_MAX; i++)
		if (m->disks.drops[i] == pid) {
			m->disks.drops[i] = 0;
			if (m->disks.dropped[i])
				monitor_sandbox_put_away(m, m->disks.dropped[i] - 1);
			return true;
		}
	return false;
}
