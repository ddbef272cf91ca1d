/* SPDX-License-Identifier: Apache-2.0 */
/* Tries what a sandbox with a root user needs of the state folder: its image mounted with other owners, below an overlay. */
#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/probe.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MAP "0 1879048192 1000\n" /* ids that are only mapped; no file gets them */

static int result_of(long r)
{
	return r < 0 ? errno : 0;
}

/* In a mount namespace of its own, over /tmp: nothing of it stays. Returns an errno. */
static int try_mapped(const char *folder)
{
	static const char *const dirs[] = {"/tmp/low", "/tmp/up", "/tmp/work", "/tmp/over"};
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
					      MOUNT_ATTR_NODEV | MOUNT_ATTR_IDMAP};
	const int ns = id_mapping_make(MAP);
	const int tree =
	    (int)syscall(SYS_open_tree, AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	int r = ns < 0 ? -ns : result_of(tree);

	attr.userns_fd = (uint64_t)(unsigned)ns;
	r = r ? r
	      : result_of(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)));
	r = r ? r : result_of(unshare(CLONE_NEWNS));
	r = r ? r : result_of(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	r = r ? r : result_of(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m"));
	for (size_t i = 0; i < ARRAY_SIZE(dirs) && r == 0; i++)
		r = result_of(mkdir(dirs[i], 0755));
	r = r ? r
	      : result_of(
		    syscall(SYS_move_mount, tree, "", AT_FDCWD, dirs[0], MOVE_MOUNT_F_EMPTY_PATH));
	return r ? r
		 : result_of(
		       mount("overlay", "/tmp/over", "overlay", MS_NOSUID | MS_NODEV,
			     "lowerdir=/tmp/low,upperdir=/tmp/up,workdir=/tmp/work,userxattr"));
}

int probe_mapped_mount(const char *folder)
{
	int status = 0;
	const pid_t pid = fork();

	if (pid == 0)
		_exit(try_mapped(folder));
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (pid < 0)
		return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}
