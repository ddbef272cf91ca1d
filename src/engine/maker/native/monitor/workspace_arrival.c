/* SPDX-License-Identifier: Apache-2.0 */
/* The files of stored disks, for a front that sends them to an object store or fills them from there. The front gets descriptors and no
 * names: one to read, of a disk that nobody uses, or one to write, of a file that was made for it.
 *
 * A new file has a name of the new and its lock until it is whole, as each that is being made (folder.h), so whatever ends this monitor,
 * the next start removes it. A child gives it its name, since flushing a folder may take seconds. The lock belongs to the open file,
 * which the front has, too: no sandbox opens the disk before the front has closed it.
 *
 * What a front writes there is mounted later. A front that was taken over could write a file system that is wrong, for which ext4 is not
 * made; so only the monitor of a worker gives files away (docs/decisions/0055-moving-sandboxes.md). */
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/monitor/workspace_store.h"

#include "base/fdio.h"
#include "base/text.h"
#include "engine/maker/common/sys.h"
#include "engine/maker/native/native.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECTOR_BYTES 512u /* of st_blocks, stat(2) */

static void answer(struct monitor *m, uint32_t seq, int r, int file)
{
	const struct proto_mon_disk_had a = {.head = PROTO_HEAD(MON_DISK_HAD, proto_mon_disk_had),
					     .seq = seq,
					     .errnum = r < 0 ? -r : 0};

	monitor_send(m, &a.head, &file, r == 0 && file >= 0 ? 1 : 0);
}

static struct disk_arrival *find(struct monitor *m, const char *key)
{
	for (size_t i = 0; i < PROTO_DISKS_NEW_MAX; i++)
		if (streq(m->arrivals[i].key, key))
			return &m->arrivals[i];
	return NULL;
}

static void file_name(char ret[WORKSPACE_PATH_MAX], const char *key)
{
	(void)snprintf(ret, WORKSPACE_PATH_MAX, "%s.img", key);
}

/* ---- reading ---- */

static int open_to_read(const struct monitor *m, const char *key)
{
	char name[WORKSPACE_PATH_MAX];
	_cleanup_fd_ int dir = workspace_root(m->config->state_dir);

	file_name(name, key);
	return dir < 0 ? dir : folder_lock(dir, name, O_RDONLY);
}

/* ---- a new one ---- */

static int begin(struct monitor *m, const struct proto_mon_disk *d)
{
	struct disk_arrival *a = find(m, "");
	_cleanup_fd_ int dir = workspace_root(m->config->state_dir);

	if (dir < 0)
		return dir;
	if (find(m, d->persist) || workspace_is_there(m->config->state_dir, d->persist))
		return -EEXIST;
	if (!a)
		return -EMFILE;
	if (space_left(m) < d->bytes)
		return -ENOSPC;
	const int file = folder_new(dir, a->aside, false);
	if (file < 0)
		return file;
	a->file = file;
	a->bytes = d->bytes;
	(void)!text_copy(a->key, sizeof(a->key), d->persist);
	return file;
}

/* Its name and its file go; what was kept has another name by then. */
static void end(struct monitor *m, struct disk_arrival *a)
{
	_cleanup_fd_ int dir = workspace_root(m->config->state_dir);

	if (dir >= 0)
		(void)!folder_set_aside(dir, a->aside);
	(void)fd_close(a->file);
	*a = (struct disk_arrival){.file = -1};
	workspace_sweep(m);
}

/* ---- its name ---- */

static int give_name(const char *state_dir, const struct disk_arrival *a)
{
	char name[WORKSPACE_PATH_MAX];
	_cleanup_fd_ int dir = workspace_root(state_dir);

	file_name(name, a->key);
	if (dir < 0)
		return dir;
	if (linkat(dir, a->aside, dir, name, 0) < 0)
		return -errno;
	const int r = fsync(dir) < 0 ? -errno : 0;
	(void)unlinkat(dir, r < 0 ? name : a->aside, 0);
	return r;
}

/* Ends with 0 or the errno. With the liveness pipe open, inits would not see the end of the monitor. */
NORETURN static void give_name_and_end(const char *state_dir, const struct disk_arrival *a,
				       pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent ||
	    fd_close_from(0) < 0)
		_exit(ECANCELED);
	(void)prctl(PR_SET_NAME, "caisson-disks", 0, 0, 0);
	_exit(-give_name(state_dir, a));
}

static void keep(struct monitor *m, const struct proto_mon_disk *d)
{
	struct disk_arrival *a = find(m, d->persist);
	const pid_t parent = getpid();

	if (!a || a->keeper > 0 || m->ending) {
		answer(m, d->seq, -ENOENT, -1);
		return;
	}
	const pid_t pid = sys_clone(0, SIGCHLD, -1);
	if (pid == 0)
		give_name_and_end(m->config->state_dir, a, parent);
	if (pid < 0) {
		end(m, a);
		answer(m, d->seq, pid, -1);
		return;
	}
	a->keeper = pid;
	a->seq = d->seq;
}

bool monitor_disk_kept(struct monitor *m, pid_t pid, int status)
{
	for (size_t i = 0; i < PROTO_DISKS_NEW_MAX; i++) {
		struct disk_arrival *a = &m->arrivals[i];

		if (!a->key[0] || a->keeper != pid)
			continue;
		const int errnum = WIFEXITED(status) ? WEXITSTATUS(status) : ECANCELED;
		const uint32_t seq = a->seq;
		end(m, a);
		answer(m, seq, -errnum, -1);
		return true;
	}
	return false;
}

/* ---- the request ---- */

static void drop(struct monitor *m, const struct proto_mon_disk *d)
{
	struct disk_arrival *a = find(m, d->persist);

	if (a && a->keeper == 0)
		end(m, a);
	answer(m, d->seq, 0, -1);
}

void monitor_disk(struct monitor *m, const struct proto_mon_disk *d)
{
	_cleanup_fd_ int read_only = -1;
	int r;

	if (!m->config->moves || !(workspace_enforced(m) & PROTO_CAP_PERSISTENT)) {
		answer(m, d->seq, m->config->moves ? -ENOTSUP : -EPERM, -1);
	} else if (d->what == PROTO_DISK_READ) {
		read_only = open_to_read(m, d->persist);
		answer(m, d->seq, MIN(read_only, 0), read_only);
	} else if (d->what == PROTO_DISK_NEW) {
		r = begin(m, d);
		answer(m, d->seq, MIN(r, 0), r);
	} else if (d->what == PROTO_DISK_KEEP) {
		keep(m, d);
	} else {
		drop(m, d);
	}
}

void monitor_disks_measure(const struct monitor *m, uint64_t *has, uint64_t *claims)
{
	struct stat st;

	for (size_t i = 0; i < PROTO_DISKS_NEW_MAX; i++) {
		const struct disk_arrival *a = &m->arrivals[i];
		const uint64_t blocks = a->key[0] && fstat(a->file, &st) == 0
					    ? (uint64_t)st.st_blocks * SECTOR_BYTES
					    : 0;

		*has += blocks;
		*claims += a->key[0] ? MAX(a->bytes, blocks) : 0;
	}
}
