/* SPDX-License-Identifier: Apache-2.0 */
/* A session becomes a stored sandbox in place: its disk, a file without a name, gets the name of a stored one. Nothing
 * is copied and nothing in the sandbox stops, because a session has the same file system as a stored sandbox, and the
 * loop device has held the lock of its file from the beginning.
 *
 * A child of the monitor does it, since flushing may take seconds. What was written before is on the disk of the host
 * when the file gets its name, so the workspace appears complete or not at all. A sandbox waits for its child before it
 * is gone: whoever hears of its end can forget the workspace, and nothing gets that name later.
 *
 * docs/decisions/0029-keep-in-place.md says why not a copy. */
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/monitor/workspace_store.h"
#include "engine/maker/native/monitor/workspace_worker.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "engine/maker/common/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void answer(struct monitor *m, uint32_t slot, int errnum)
{
	const struct proto_mon_kept a = {
	    .head = PROTO_HEAD(MON_KEPT, proto_mon_kept), .slot = slot, .errnum = errnum};

	monitor_send(m, &a.head, NULL, 0);
}

/* ---- the process ---- */

/* The options of a session's mount would lose what a stored sandbox must not lose with the power (disk_mount()). */
static int mount_as_stored(int fs, bool journal)
{
	_cleanup_fd_ int pick = fspick(fs, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);

	if (pick < 0 || fsconfig(pick, FSCONFIG_SET_FLAG, "barrier", NULL, 0) < 0 ||
	    (journal && fsconfig(pick, FSCONFIG_SET_STRING, "commit", "5", 0) < 0) ||
	    fsconfig(pick, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
		return -errno;
	return 0;
}

static int flush(int fs, int image)
{
	_cleanup_fd_ int root = openat(fs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return root < 0 || syncfs(root) < 0 || fsync(image) < 0 ? -errno : 0;
}

/* Without a name, the file can get one only through /proc, and only in the file system that it is in. */
static int give_name(const char *state_dir, int image, const char *key)
{
	char name[WORKSPACE_PATH_MAX];
	char path[32];
	_cleanup_fd_ int dir = workspace_root(state_dir);

	if (dir < 0)
		return dir;
	(void)snprintf(name, sizeof(name), "%s.img", key);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", image);
	if (linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	KILL_POINT(DISK_KEEP_NAMED);
	if (fsync(dir) == 0)
		return 0;
	const int r = -errno;
	(void)unlinkat(dir, name, 0);
	return r;
}

static int keep(const char *state_dir, const struct disk *d, const char *key)
{
	_cleanup_fd_ int image = -1;
	_cleanup_fd_ int fs = worker_open_disk(d->loop, d->image, &image);
	int r = fs < 0 ? fs : mount_as_stored(fs, d->size >= DISK_JOURNAL_FROM);

	r = r < 0 ? r : flush(fs, image);
	KILL_POINT(DISK_KEEP_FLUSHED);
	return r < 0 ? r : give_name(state_dir, image, key);
}

/* Ends with 0 or the errno. With the liveness pipe open, inits would not see the end of the monitor. */
NORETURN static void keep_and_end(const char *state_dir, struct disk d, const char *key,
				  pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
	    dup2(d.image, 0) < 0 || fd_close_from(1) < 0)
		_exit(ECANCELED);
	(void)prctl(PR_SET_NAME, "caisson-disks", 0, 0, 0);
	d.image = 0;
	_exit(-keep(state_dir, &d, key));
}

/* ---- the monitor ---- */

static int start(struct monitor *m, struct monitor_sandbox *b, const char *key)
{
	const pid_t parent = getpid();

	if (b->state != SANDBOX_LIVE || m->ending)
		return -ESRCH;
	if (b->disk.keeper > 0 || b->disk.stored)
		return -EALREADY;
	if (b->disk.image < 0 || b->disk.loop == DISK_LOOP_NONE || b->helper_of)
		return -ENOTSUP;
	const pid_t pid = sys_clone(0, SIGCHLD, -1);
	if (pid == 0)
		keep_and_end(m->config->state_dir, b->disk, key, parent);
	if (pid < 0)
		return pid;
	b->disk.keeper = pid;
	b->helpers++; /* it is gone only after that */
	return 0;
}

void monitor_sandbox_keep(struct monitor *m, const struct proto_mon_keep *k)
{
	const int r = start(m, &m->sandboxes[k->slot], k->persist);

	if (r < 0)
		answer(m, k->slot, -r);
}

bool monitor_sandbox_kept(struct monitor *m, pid_t pid, int status)
{
	uint32_t slot = 0;

	while (slot < m->config->max_sandboxes && m->sandboxes[slot].disk.keeper != pid)
		slot++;
	if (slot == m->config->max_sandboxes)
		return false;
	struct disk *d = &m->sandboxes[slot].disk;
	const int errnum = WIFEXITED(status) ? WEXITSTATUS(status) : ECANCELED;
	d->keeper = 0;
	if (errnum == 0) {
		d->stored = true; /* the next look gives it its blocks */
		d->backed = false;
		m->space.look_at = now_ns();
	}
	answer(m, slot, errnum);
	KILL_POINT(DISK_KEPT_SENT);
	monitor_sandbox_put_away(m, slot);
	return true;
}
