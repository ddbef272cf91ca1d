/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/native/monitor/workspace_worker.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/monitor/workspace_ballast.h"
#include "engine/maker/native/monitor/workspace_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

/* What ext4 reserves on its own: a fiftieth of its blocks, but not more than 4,096. */
#define EXT4_RESERVE_PART 50
#define EXT4_RESERVE_MAX  4096u
#define TRIM_MOST_NS      (20 * NS_PER_S) /* of one disk: others wait for the same worker */
#define MODE_BACKED       (0600 | S_ISVTX)
#define MODE_AT_REST      0600

static uint64_t kept_by_ext4(uint64_t blocks)
{
	return MIN(blocks / EXT4_RESERVE_PART, (uint64_t)EXT4_RESERVE_MAX);
}

bool worker_is_disk_of(uint32_t loop, int image)
{
	char path[LOOP_PATH_MAX];
	struct loop_info64 info;
	struct stat st;

	_cleanup_fd_ int fd = loop_device_open((int)loop, path);
	if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) < 0 || fstat(image, &st) < 0)
		return false;
	/* the kernel's long form of a device number */
	const uint64_t dev = (uint64_t)(minor(st.st_dev) & 0xffu) |
			     (uint64_t)major(st.st_dev) << 8 |
			     (uint64_t)(minor(st.st_dev) & ~0xffu) << 12;
	return info.lo_inode == st.st_ino && info.lo_device == dev;
}

/* ext4 refuses new blocks to everybody while `reserved_clusters` are left. What it has accepted already has its
 * block. */
void worker_close_disk(uint32_t loop, int image, uint64_t size, bool closed)
{
	const uint64_t blocks = size / DISK_BLOCK_BYTES;
	char path[64];

	if (blocks == 0 || !worker_is_disk_of(loop, image))
		return;
	(void)snprintf(path, sizeof(path), "/sys/fs/ext4/loop%u", loop);
	_cleanup_fd_ int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		(void)!cgroup_write_u64(dir, "reserved_clusters",
					closed ? blocks - 1 : kept_by_ext4(blocks));
}

/* No name in the image may lead out of it. */
int worker_open_workspace(pid_t init)
{
	const struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				     .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
						RESOLVE_NO_MAGICLINKS};
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/root", init);
	_cleanup_fd_ int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	int fd = (int)syscall(SYS_openat2, root, "mnt/data", &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

int worker_room(pid_t init, uint32_t loop, uint64_t *ret)
{
	_cleanup_fd_ int fd = worker_open_workspace(init);
	struct stat st;
	struct statfs s;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || fstatfs(fd, &s) < 0)
		return -errno;
	if (st.st_dev != makedev(LOOP_MAJOR, loop) || s.f_type != EXT4_SUPER_MAGIC)
		return -ENODEV;
	const uint64_t kept = kept_by_ext4(s.f_blocks);
	*ret = s.f_bfree > kept ? (s.f_bfree - kept) * (uint64_t)s.f_bsize : 0;
	return 0;
}

/* ---- the process ---- */

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Leaves only the files of the plan open: with the liveness pipe, inits would not see the end of the monitor. */
static int close_others(const struct space *p)
{
	int *keep = calloc(p->n_plan, sizeof(*keep));
	unsigned first = 0;
	int r = 0;

	if (!keep)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->n_plan; i++)
		keep[i] = p->plan[i].image;
	qsort(keep, p->n_plan, sizeof(*keep), compare);
	for (uint32_t i = 0; i < p->n_plan && r == 0; i++) {
		if ((unsigned)keep[i] > first)
			r = (int)syscall(SYS_close_range, first, (unsigned)keep[i] - 1, 0);
		first = (unsigned)keep[i] + 1;
	}
	free(keep);
	return r < 0 ? -errno : fd_close_from(first);
}

int worker_open_disk(uint32_t number, int disk, int *ret_image)
{
	char path[LOOP_PATH_MAX];
	char image[32];

	_cleanup_fd_ int loop = loop_device_open((int)number, path);
	if (loop < 0)
		return loop;
	if (!worker_is_disk_of(number, disk))
		return -ENXIO;
	(void)snprintf(image, sizeof(image), "/proc/self/fd/%d", disk);
	_cleanup_fd_ int file = open(image, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return -errno;
	int fs = disk_mount(path, 0); /* it has its options from its first mount */
	if (fs >= 0)
		*ret_image = TAKE_FD(file);
	return fs;
}

static bool trim_mount(int fs, uint64_t most_ns)
{
	/* that of the mount is no descriptor for this */
	_cleanup_fd_ int root = openat(fs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return root >= 0 && ballast_trim(root, most_ns);
}

static void work(struct space_plan *w)
{
	_cleanup_fd_ int image = -1;
	_cleanup_fd_ int fs = worker_open_disk(w->loop, w->image, &image);
	uint64_t ballast;

	w->tried = true;
	if (fs < 0)
		return;
	if (w->what == WORKER_CLAIM) {
		worker_close_disk(w->loop, w->image, w->size, false);
		if (ballast_set(fs, image, w->claim, &ballast) == 0 || ballast < w->ballast)
			w->ballast = ballast;
		KILL_POINT(DISK_CLAIMED);
	} else if (w->what == WORKER_BACK) {
		worker_mark_backed(image, true);
		/* Without it the claim still stands. */
		(void)!ballast_back(fs, image);
	} else {
		/* what is left is trimmed the next time */
		(void)trim_mount(fs, TRIM_MOST_NS);
	}
}

NORETURN static void work_and_end(struct space *p, pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
	    close_others(p) < 0)
		_exit(1);
	(void)prctl(PR_SET_NAME, "caisson-disks", 0, 0, 0);
	for (uint32_t i = 0; i < p->n_plan; i++)
		work(&p->plan[i]);
	_exit(0);
}

pid_t worker_start(struct monitor *m)
{
	const pid_t parent = getpid();

	if (m->ending)
		return 0;
	pid_t pid = sys_clone(0, SIGCHLD, -1);
	if (pid == 0)
		work_and_end(&m->space, parent);
	return MAX(pid, 0);
}

/* ---- blocks of stored disks whose server was killed ---- */

void worker_mark_backed(int image, bool backed)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", image); /* it may be an O_PATH */
	(void)!fchmodat(AT_FDCWD, path, backed ? MODE_BACKED : MODE_AT_REST, 0);
}

static void return_one(int dir, const char *name)
{
	char device[LOOP_PATH_MAX];
	uint32_t number;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    !(st.st_mode & S_ISVTX))
		return;
	_cleanup_fd_ int disk = folder_lock(dir, name, O_RDWR);
	if (disk < 0) /* in use, or gone */
		return;
	_cleanup_fd_ int loop = disk_attach(disk, device, &number);
	_cleanup_fd_ int fs = loop < 0 ? -1 : disk_mount(device, 0);
	if (fs >= 0 && trim_mount(fs, WORKER_TRIM_NS))
		worker_mark_backed(disk, false);
}

NORETURN static void return_and_end(const char *state_dir, pid_t parent)
{
	const struct dirent *de;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
	    fd_close_from(3) < 0)
		_exit(1);
	(void)prctl(PR_SET_NAME, "caisson-disks", 0, 0, 0);
	/* All is closed by the end of the process. */
	const int dir = workspace_root(state_dir);
	const int list = dir < 0 ? -1 : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = list < 0 ? NULL : fdopendir(list);
	while (d && (de = readdir(d)))
		if (text_ends_with(de->d_name, ".img"))
			return_one(dir, de->d_name);
	_exit(0);
}

pid_t worker_start_return(struct monitor *m)
{
	const pid_t parent = getpid();

	if (!m->root)
		return 0;
	pid_t pid = sys_clone(0, SIGCHLD, -1);
	if (pid == 0)
		return_and_end(m->config->state_dir, parent);
	return MAX(pid, 0);
}
