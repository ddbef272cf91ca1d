/* SPDX-License-Identifier: Apache-2.0 */
/* A workspace as an ext4 file system in a sparse file: one that is stored, or (workspace_session.c) one
 * that ends with its session. Only a monitor of root can do this. */
#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/workspace_ballast.h"
#include "engine/maker/native/monitor/workspace_store.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define JOURNAL_BYTES (UINT64_C(4) << 20)
#define INODE_BYTES   256u
#define INODES_OWN                                                                                 \
	24u /* what ext4 reserves, lost+found, four folders, matplotlib's font list in /tmp */
#define SPARE_SHIFT        10 /* a 1,024th for bitmaps and group descriptors, which need less */
#define SPARE_BYTES        (UINT64_C(256) << 10)
#define RESERVE_PART       48 /* ext4 keeps a fiftieth back for itself, but not more than 16 MiB */
#define RESERVE_MAX        (UINT64_C(16) << 20)
#define LOOP_TRIES         4096
#define LOOP_TRIES_AT_ONCE 8 /* then with pauses: the others need the processor */
#define LOOP_PAUSE_NS      300000
#define SECTOR_BYTES       512u /* of st_blocks, stat(2) */

/* All features are named, so that no configuration of the host decides. resize_inode is left out: a disk
 * keeps its size, and the blocks that the feature reserves would take room. */
#define FEATURES                                                                                   \
	"none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,"          \
	"large_file,huge_file,dir_nlink,extra_isize,metadata_csum"
#define EXTENDED "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=1000:1000"

static const char *const mkfs_paths[] = {"/usr/sbin/mke2fs", "/sbin/mke2fs"};

/* ---- a new disk ---- */

NORETURN static void exec_mkfs(int disk, uint64_t inodes)
{
	char count[24];
	char path[32];
	char *argv[] = {
	    (char *)(uintptr_t) "mke2fs",
	    (char *)(uintptr_t) "-qF",
	    (char *)(uintptr_t) "-b4096",
	    (char *)(uintptr_t) "-I256",
	    (char *)(uintptr_t) "-m0",
	    (char *)(uintptr_t) "-Jsize=4",
	    (char *)(uintptr_t) "-O",
	    (char *)(uintptr_t)FEATURES,
	    (char *)(uintptr_t) "-E",
	    (char *)(uintptr_t)EXTENDED,
	    (char *)(uintptr_t) "-N",
	    count,
	    path,
	    NULL,
	};
	char *env[] = {(char *)(uintptr_t) "MKE2FS_CONFIG=/dev/null", NULL};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	(void)snprintf(count, sizeof(count), "%llu", (unsigned long long)inodes);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", disk);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
	    fd_set_cloexec(disk, false) < 0)
		_exit(126);
	for (size_t i = 0; i < ARRAY_SIZE(mkfs_paths); i++)
		(void)execve(mkfs_paths[i], argv, env);
	_exit(127);
}

static int make_fs(int disk, uint64_t inodes)
{
	int status;
	pid_t pid = sys_clone(0, SIGCHLD, -1);

	if (pid < 0)
		return pid;
	if (pid == 0)
		exec_mkfs(disk, inodes);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 127)
		return -ENOPKG;
	return WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

/* At least the bytes and inodes of L, and little more. */
uint64_t disk_bytes(const struct proto_limits *l)
{
	const uint64_t inodes = (uint64_t)l->workspace_inodes + INODES_OWN;
	uint64_t n = l->workspace_bytes + (l->workspace_bytes >> SPARE_SHIFT) +
		     inodes * INODE_BYTES + SPARE_BYTES;

	if (n + JOURNAL_BYTES >= DISK_JOURNAL_FROM)
		n += JOURNAL_BYTES;
	n += MIN(n / RESERVE_PART, RESERVE_MAX);
	return (n + DISK_BLOCK_BYTES - 1) / DISK_BLOCK_BYTES * DISK_BLOCK_BYTES;
}

int disk_fill(int fd, const struct proto_limits *l)
{
	uint64_t inodes = (uint64_t)l->workspace_inodes + INODES_OWN;

	return ftruncate(fd, (off_t)disk_bytes(l)) < 0 ? -errno : make_fs(fd, inodes);
}

bool disk_can_be_made(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(mkfs_paths); i++)
		if (access(mkfs_paths[i], X_OK) == 0)
			return true;
	return false;
}

static int fill_flushed(int fd, const struct proto_limits *l)
{
	int r = disk_fill(fd, l);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return r;
}

/* Gives the disk its name only when it is complete and flushed. */
static int make_disk(int dir, const char *name, const struct proto_limits *l)
{
	char aside[WORKSPACE_PATH_MAX];

	_cleanup_fd_ int fd = folder_new(dir, aside, false);
	if (fd < 0)
		return fd;
	int r = fill_flushed(fd, l);
	KILL_POINT(STORED_ASIDE);
	if (r == 0 && linkat(dir, aside, dir, name, 0) < 0 && errno != EEXIST)
		r = -errno;
	KILL_POINT(STORED_NAMED);
	(void)unlinkat(dir, aside, 0);
	if (r == 0 && fsync(dir) < 0)
		r = -errno;
	return r;
}

static int open_disk(const struct maker *k)
{
	char name[WORKSPACE_PATH_MAX];
	_cleanup_fd_ int dir = workspace_root(k->state_dir);

	if (dir < 0)
		return dir;
	(void)snprintf(name, sizeof(name), "%s.img", k->persist);
	int r = workspace_lock(dir, name, O_RDWR);
	if (r != -ENOENT)
		return r;
	r = k->disk_grant > 0 ? make_disk(dir, name, k->limits) : -ENOSPC;
	return r < 0 ? r : workspace_lock(dir, name, O_RDWR);
}

/* ---- from file to mount ---- */

/* Attaches the disk to a loop device, which the kernel frees after its last user (AUTOCLEAR). All who look at
 * the same time are told the same free device, and one gets it: the others try again. So with each try there is
 * one fewer, and the tries suffice for four thousand makers at once. */
int disk_attach(int disk, char path[LOOP_PATH_MAX], uint32_t *ret_number)
{
	struct loop_config c = {.fd = (uint32_t)disk,
				.block_size = DISK_BLOCK_BYTES,
				.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO};
	const struct timespec pause = {.tv_nsec = LOOP_PAUSE_NS};
	_cleanup_fd_ int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (control < 0)
		return -errno;
	for (int i = 0; i < LOOP_TRIES; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE);
		if (number < 0)
			return -errno;
		_cleanup_fd_ int fd = loop_device_open(number, path);
		if (fd < 0)
			return fd;
		if (ioctl(fd, LOOP_CONFIGURE, &c) == 0) {
			*ret_number = (uint32_t)number;
			return TAKE_FD(fd);
		}
		if (errno != EBUSY)
			return -errno;
		if (i >= LOOP_TRIES_AT_ONCE)
			(void)nanosleep(&pause, NULL);
	}
	return -EAGAIN;
}

/* noinit_itable: else the kernel would write zeros into tables, where a hole reads as zeros anyway.
 * No `discard`: a commit would wait until the host has freed each extent of a removed file. Removed files become
 * holes in the sparse file when the sandbox rests (workspace_space.h).
 *
 * The disk of a session is lost with its session in any case, so nothing has to survive a loss of power.
 * nobarrier: fsync(2) inside does not flush the file on the host. A storm of it would make the host's file
 * system commit its journal each time, and everybody would wait. */
static const struct {
	const char *key;
	const char *value; /* NULL: a flag */
	unsigned needs;    /* DISK_* */
} options[] = {
    {"errors", "remount-ro", 0},
    {"noinit_itable", NULL, 0},
    {"nobarrier", NULL, DISK_SESSION},
    {"commit", "30", DISK_SESSION | DISK_JOURNAL},
};

int disk_mount(const char *device, unsigned flags)
{
	_cleanup_fd_ int fs = fsopen("ext4", FSOPEN_CLOEXEC);

	if (fs < 0)
		return -errno;
	if (fsconfig(fs, FSCONFIG_SET_STRING, "source", device, 0) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if ((options[i].needs & ~flags) == 0 &&
		    fsconfig(fs, options[i].value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
			     options[i].key, options[i].value, 0) < 0)
			return -errno;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	int tree =
	    fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
	return tree < 0 ? -errno : tree;
}

/* Everything on a disk has the owner of its root folder, which no run can change: 1000, or for a session that was kept
 * the id of the host that the session had. */
static int map_mount(int tree, uint32_t uid)
{
	struct stat root;
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP};
	char map[48];

	if (fstat(tree, &root) < 0)
		return -errno;
	(void)snprintf(map, sizeof(map), "%u %u 1\n", root.st_uid, uid);
	_cleanup_fd_ int ns = id_mapping_make(map);

	if (ns < 0)
		return ns;
	attr.userns_fd = (uint64_t)(unsigned)ns;
	return mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

/* Sends the file of a disk to the monitor. */
static int send_image(int to, int image)
{
	char path[32];

	/* opened again, because a lock belongs to the open file */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", image);
	_cleanup_fd_ int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = fd_send(to, "", 1, &fd, 1, MSG_DONTWAIT);
	return n < 0 ? (int)n : 0;
}

int disk_report(const struct maker *k, int fs, int image, uint32_t loop, uint64_t claim)
{
	struct report *r = k->report;
	int e = ballast_disk_size(fs, image, &r->disk_size);

	if (e < 0)
		return e;
	e = ballast_set(fs, image, claim, &r->disk_ballast);
	e = e < 0 ? e : send_image(k->disk_to, image);
	r->loop = e < 0 ? DISK_LOOP_NONE : loop;
	return e;
}

int workspace_open_disk(const struct maker *k, uint32_t uid, int *ret_tree)
{
	char device[LOOP_PATH_MAX];
	uint32_t number = 0;
	struct stat st;
	_cleanup_fd_ int disk = open_disk(k);

	if (disk < 0)
		return disk;
	if (fstat(disk, &st) < 0)
		return -errno;
	KILL_POINT(STORED_LOCKED);
	_cleanup_fd_ int loop = disk_attach(disk, device, &number);
	if (loop < 0)
		return loop;
	KILL_POINT(DISK_ATTACHED);
	_cleanup_fd_ int tree = disk_mount(device, 0);
	if (tree < 0)
		return tree;
	int r = disk_report(k, tree, disk, number,
			    (uint64_t)st.st_blocks * SECTOR_BYTES + k->disk_grant);
	r = r < 0 ? r : map_mount(tree, uid);
	KILL_POINT(STORED_MOUNTED);
	if (r == 0)
		*ret_tree = TAKE_FD(tree);
	return r;
}
