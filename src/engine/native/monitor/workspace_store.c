/* SPDX-License-Identifier: Apache-2.0 */
/* Names, locks and removal of stored workspaces. Theory of operation: workspace_store.h. */
#include "engine/native/monitor/workspace_store.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/native/monitor/loop_device.h"
#include "engine/native/sys.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

/* NONBLOCK: if something made a pipe of a workspace's file, opening it must not wait for a writer. */
#define LOCK_FLAGS    (O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define LOCK_TRIES    200
#define LOCK_PAUSE_NS (10 * NS_PER_MS)
#define SWEEP_MAX     100000
#define DEPTH_MAX     32 /* deeper folders are moved to the top first */

int workspace_root(const char *state_dir)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/workspaces", state_dir) >= sizeof(path))
		return -ENAMETOOLONG;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

void workspace_aside_name(char ret[WORKSPACE_PATH_MAX], const char *prefix)
{
	char random[17];

	rand_hex(random, 8);
	(void)snprintf(ret, WORKSPACE_PATH_MAX, "%s%s", prefix, random);
}

/* Whether FD is still the file NAME: it may have been removed while we waited for the lock. */
static bool is_still(int dir, const char *name, int fd)
{
	struct stat a;
	struct stat b;

	return fstat(fd, &a) == 0 && fstatat(dir, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int workspace_lock(int dir, const char *name, int flags)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};

	for (int i = 0; i < LOCK_TRIES; i++) {
		_cleanup_fd_ int fd = openat(dir, name, flags | LOCK_FLAGS, 0600);
		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			if (is_still(dir, name, fd))
				return TAKE_FD(fd);
			continue;
		}
		if (errno != EWOULDBLOCK)
			return -errno;
		(void)nanosleep(&pause, NULL);
	}
	return -EBUSY;
}

/* ---- removal ---- */

static bool is_aside(const char *name)
{
	return text_starts_with(name, WORKSPACE_NEW) || text_starts_with(name, WORKSPACE_DEAD);
}

static int try_lock(int dir, const char *name, int flags)
{
	_cleanup_fd_ int fd = openat(dir, name, flags | LOCK_FLAGS);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return TAKE_FD(fd);
}

/* Whether R, from try_lock(), means that a link or a folder stands where a disk should be. No sandbox uses
 * that, so it needs no lock. */
static bool is_foreign(int r)
{
	return r == -ELOOP || r == -EISDIR;
}

static int forget_disk(int dir, const char *key)
{
	char name[WORKSPACE_PATH_MAX];
	char aside[WORKSPACE_PATH_MAX];

	(void)snprintf(name, sizeof(name), "%s.img", key);
	workspace_aside_name(aside, WORKSPACE_DEAD);
	_cleanup_fd_ int fd = try_lock(dir, name, O_RDWR);
	if (fd < 0 && !is_foreign(fd))
		return fd == -ENOENT ? 0 : fd;
	return renameat(dir, name, dir, aside) < 0 ? -errno : 0;
}

/* The lock of a folder is a file beside it, which is removed last. */
static int forget_folder(int dir, const char *key)
{
	char name[WORKSPACE_PATH_MAX];
	char aside[WORKSPACE_PATH_MAX];

	(void)snprintf(name, sizeof(name), "%s.lock", key);
	workspace_aside_name(aside, WORKSPACE_DEAD);
	_cleanup_fd_ int fd = try_lock(dir, name, O_RDWR);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (renameat(dir, key, dir, aside) < 0 && errno != ENOENT)
		return -errno;
	return unlinkat(dir, name, 0) < 0 ? -errno : 0;
}

int workspace_forget(const char *state_dir, const char *key)
{
	_cleanup_fd_ int dir = workspace_root(state_dir);
	int r = dir < 0 ? dir : forget_disk(dir, key);

	return r < 0 ? r : forget_folder(dir, key);
}

static bool is_dots(const char *name)
{
	return streq(name, ".") || streq(name, "..");
}

/* Empties a folder without following links. Folders that lie too deep are moved to TOP, for another round.
 * Returns 1 when there were such folders, 0, or -errno. */
static int empty(int top, int at, int depth)
{
	int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;
	int again = 0;

	if (!d)
		return fd < 0 ? -errno : -ENOMEM;
	while ((de = readdir(d))) {
		char aside[WORKSPACE_PATH_MAX];
		if (is_dots(de->d_name) || unlinkat(fd, de->d_name, 0) == 0)
			continue;
		if (errno != EISDIR)
			return -errno;
		if (depth == DEPTH_MAX) {
			workspace_aside_name(aside, WORKSPACE_DEAD);
			if (renameat(fd, de->d_name, top, aside) < 0)
				return -errno;
			again = 1;
			continue;
		}
		_cleanup_fd_ int next =
		    openat(fd, de->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int r = next < 0 ? -errno : empty(top, next, depth + 1);
		if (r < 0)
			return r;
		again |= r;
		if (unlinkat(fd, de->d_name, AT_REMOVEDIR) < 0)
			return -errno;
	}
	return again;
}

static void remove_aside(int dir, const char *name)
{
	int again;

	if (unlinkat(dir, name, 0) == 0)
		return;
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	do
		again = empty(fd, fd, 0);
	while (again > 0);
	if (again == 0)
		(void)unlinkat(dir, name, AT_REMOVEDIR);
}

/* Skips workspaces that are being made: their makers hold the lock. */
static void sweep(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;
	int seen = 0;

	while (d && seen++ < SWEEP_MAX && (de = readdir(d))) {
		if (!is_aside(de->d_name))
			continue;
		_cleanup_fd_ int lock = try_lock(dir, de->d_name, O_RDONLY);
		if (lock >= 0 || is_foreign(lock))
			remove_aside(dir, de->d_name);
	}
}

/* Files in folders of a plain user belong to ids of /etc/subuid. Only root of a user namespace with these
 * ids may remove them. */
static int become_root_of_folders(const struct ids *ids)
{
	int ready[2];
	int go[2];
	char byte;

	if (ids->mode != IDS_SUBUID)
		return 0;
	pid_t self = getpid();
	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	pid_t writer = sys_clone(0, SIGCHLD, -1);
	if (writer < 0)
		return writer;
	if (writer == 0) {
		(void)close(ready[1]);
		if (read(ready[0], &byte, 1) == 1 && ids_write_maps(ids, self) == 0)
			(void)!write(go[1], "", 1);
		_exit(0);
	}
	(void)close(go[1]);
	if (unshare(CLONE_NEWUSER) < 0 || write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
		return -EPERM;
	return setresuid(0, 0, 0) < 0 ? -errno : 0;
}

NORETURN static void sweep_and_end(const struct monitor *m)
{
	/* Close everything: with the lifeline open, inits would not see the end of the monitor. */
	if (syscall(SYS_close_range, 3U, ~0U, 0) < 0)
		_exit(1);
	(void)prctl(PR_SET_NAME, "caisson-sweep", 0, 0, 0);
	_cleanup_fd_ int dir = workspace_root(m->config->state_dir);
	KILL_POINT(SWEEP_BEGUN);
	/* fsync(2) here, because the monitor must not wait for a disk */
	if (dir >= 0 && fsync(dir) == 0 && become_root_of_folders(&m->ids) == 0)
		sweep(dir);
	_exit(0);
}

void workspace_sweep(struct monitor *m)
{
	char path[PATH_MAX];

	m->sweep_again = m->sweep > 0;
	if (m->sweep_again || m->ending)
		return;
	if ((size_t)snprintf(path, sizeof(path), "%s/workspaces", m->config->state_dir) >=
		sizeof(path) ||
	    access(path, F_OK) < 0)
		return;
	/* When it is killed, the next one goes on. */
	pid_t pid = sys_clone(0, SIGCHLD, -1);
	if (pid == 0)
		sweep_and_end(m);
	m->sweep = MAX(pid, 0);
}

bool workspace_swept(struct monitor *m, pid_t pid)
{
	if (pid != m->sweep)
		return false;
	m->sweep = 0;
	if (m->sweep_again)
		workspace_sweep(m);
	return true;
}

/* ---- what this host allows ---- */

static bool has_disks(const struct monitor *m)
{
	return m->root && loop_device_try() == 0;
}

uint32_t workspace_enforced(const struct monitor *m)
{
	return has_disks(m) ? PROTO_CAP_PERSISTENT : 0;
}

uint32_t workspace_best_effort(const struct monitor *m)
{
	return m->root ? 0 : PROTO_CAP_PERSISTENT;
}
