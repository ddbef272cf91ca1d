/* SPDX-License-Identifier: Apache-2.0 */
/* User namespaces that only say which ids a mount has. */
#include "base/fdio.h"
#include "base/kill_points.h"
#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/monitor.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* A process that only keeps its namespaces alive. The maker, its PARENT, may be killed at any moment; without
 * the signal this process would then live on, with the lock and the loop device of the workspace. */
NORETURN static void wait_for_death(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
		_exit(1);
	for (;;)
		(void)pause();
}

int id_mapping_make(const char *map)
{
	static const char *const maps[] = {"uid_map", "gid_map"};
	char path[64];
	int r = 0;
	int ns = -1;
	pid_t parent = getpid();
	pid_t pid = sys_clone(CLONE_NEWUSER, SIGCHLD, -1);

	if (pid < 0)
		return pid;
	if (pid == 0)
		wait_for_death(parent);
	KILL_POINT(DISK_MAPPING);
	for (size_t i = 0; i < ARRAY_SIZE(maps) && r == 0; i++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, maps[i]);
		_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);
		r = fd < 0 ? -errno : fd_write_all(fd, map, strlen(map));
	}
	if (r == 0) {
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
		ns = open(path, O_RDONLY | O_CLOEXEC);
		r = ns < 0 ? -errno : 0;
	}
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? r : ns;
}
