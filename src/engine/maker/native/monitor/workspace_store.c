/* SPDX-License-Identifier: Apache-2.0 */
/* Names, locks and removal of stored workspaces. Theory of operation: workspace_store.h. */
#include "engine/maker/native/monitor/workspace_store.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "engine/maker/common/folder.h"
#include "engine/maker/common/stored_folder.h"
#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/loop_device.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#define LOCK_TRIES    200
#define LOCK_PAUSE_NS (10 * NS_PER_MS)

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

int workspace_lock(int dir, const char *name, int flags)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	int r = -EBUSY;

	for (int i = 0; i < LOCK_TRIES && r == -EBUSY; i++) {
		if (i > 0)
			(void)nanosleep(&pause, NULL);
		r = folder_lock(dir, name, flags);
	}
	return r;
}

bool workspace_is_there(const char *state_dir, const char *key)
{
	char name[WORKSPACE_PATH_MAX];
	_cleanup_fd_ int dir = workspace_root(state_dir);

	(void)snprintf(name, sizeof(name), "%s.img", key);
	return dir >= 0 && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- removal ---- */

static int forget_disk(int dir, const char *key)
{
	char name[WORKSPACE_PATH_MAX];

	(void)snprintf(name, sizeof(name), "%s.img", key);
	_cleanup_fd_ int fd = folder_lock(dir, name, O_RDWR);
	if (fd < 0 && !folder_is_foreign(fd))
		return fd == -ENOENT ? 0 : fd;
	return folder_set_aside(dir, name);
}

int workspace_forget(const char *state_dir, const char *key)
{
	_cleanup_fd_ int dir = workspace_root(state_dir);
	int r = dir < 0 ? dir : forget_disk(dir, key);

	return r < 0 ? r : stored_folder_forget(dir, key);
}

/* Files in folders of a plain user belong to ids of /etc/subuid, or are in folders whose rights a run has taken away.
 * Only root of a user namespace with these ids may remove them. */
int workspace_become_owner(const struct ids *ids)
{
	int ready[2];
	int go[2];
	char byte;

	if (ids->mode == IDS_RANGE)
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

static int become_root_of_folders(const void *user)
{
	return workspace_become_owner(user);
}

void workspace_sweep(struct monitor *m)
{
	static char path[PATH_MAX];

	if (m->ending || (size_t)snprintf(path, sizeof(path), "%s/workspaces",
					  m->config->state_dir) >= sizeof(path))
		return;
	m->sweep.folder = path;
	m->sweep.prepare = become_root_of_folders;
	m->sweep.user = &m->ids;
	remover_start(&m->sweep);
}

bool workspace_swept(struct monitor *m, pid_t pid)
{
	return remover_ended(&m->sweep, pid);
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
