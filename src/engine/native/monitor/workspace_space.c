/* SPDX-License-Identifier: Apache-2.0 */
/* Free space of the host below the sparse files of sessions. Theory of operation: workspace_session.h. */
#include "base/fdio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/native/monitor/cgroup.h"
#include "engine/native/monitor/monitor.h"

#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>

/* The reserve: a sixteenth of the file system, within bounds. What the kernel has accepted from sandboxes and
 * has not written back yet must fit into it. */
#define RESERVE_PART 16
#define RESERVE_MAX  (UINT64_C(2) << 30)
#define RESERVE_MIN  (UINT64_C(64) << 20)
#define REOPEN_PART  4 /* disks are opened again when a quarter more than the reserve is free */

/* The next look comes when the reserve could be reached at the earliest. */
#define FASTEST_BYTES (UINT64_C(4) << 30) /* a second */
#define LOOK_MIN_NS   (20 * NS_PER_MS)
#define LOOK_FULL_NS  (200 * NS_PER_MS)
#define LOOK_MAX_NS   (10 * NS_PER_S)

/* What ext4 reserves on its own: a fiftieth of its blocks, but not more than 4,096. */
#define EXT4_RESERVE_PART 50
#define EXT4_RESERVE_MAX  4096u
#define SECTORS_A_BLOCK   8u

struct space {
	uint64_t free;
	uint64_t reserve;
};

static int measure(const struct session_disks *d, struct space *ret)
{
	struct statvfs v;

	if (fstatvfs(d->dir, &v) < 0)
		return -errno;
	*ret = (struct space){
	    .free = (uint64_t)v.f_bavail * v.f_frsize,
	    .reserve = MAX(MIN((uint64_t)v.f_blocks * v.f_frsize / RESERVE_PART, RESERVE_MAX),
			   RESERVE_MIN),
	};
	return 0;
}

bool session_disks_full(const struct session_disks *d)
{
	struct space s = {0};

	return measure(d, &s) == 0 && s.free < s.reserve;
}

/* Reads the file NAME of loop device NUMBER in /sys, without its newline. */
static int read_attribute(uint32_t number, const char *name, char *text, size_t size)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "/sys/block/loop%u/%s", number, name);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (n <= 0)
		return -ENOENT;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return 0;
}

/* Whether loop device NUMBER has one of our files. Its sandbox may have ended a moment ago, and the number may
 * be somebody else's now. A file without a name is shown as "FOLDER/#INODE (deleted)". */
static bool is_ours(const struct monitor *m, uint32_t number)
{
	char text[PATH_MAX];
	char prefix[PATH_MAX];

	return read_attribute(number, "loop/backing_file", text, sizeof(text)) == 0 &&
	       (size_t)snprintf(prefix, sizeof(prefix), "%s/workspaces/#", m->config->state_dir) <
		   sizeof(prefix) &&
	       text_starts_with(text, prefix);
}

/* ext4 refuses new blocks to everybody while `reserved_clusters` are left. What it has accepted already has its
 * block. Where /sys cannot be written, only new workspaces are refused. */
static void close_disk(const struct monitor *m, uint32_t number, bool closed)
{
	char text[32];
	char path[64];
	uint64_t sectors;

	if (!is_ours(m, number) || read_attribute(number, "size", text, sizeof(text)) < 0 ||
	    parse_u64(text, SECTORS_A_BLOCK, UINT64_MAX, &sectors) < 0)
		return;
	const uint64_t blocks = sectors / SECTORS_A_BLOCK;
	(void)snprintf(path, sizeof(path), "/sys/fs/ext4/loop%u", number);
	_cleanup_fd_ int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		(void)!cgroup_write_u64(
		    dir, "reserved_clusters",
		    closed ? blocks - 1
			   : MIN(blocks / EXT4_RESERVE_PART, (uint64_t)EXT4_RESERVE_MAX));
}

static void close_all(struct monitor *m, bool closed)
{
	m->disks.full = closed;
	for (uint32_t i = 0; i < m->config->max_sandboxes; i++)
		if (m->boxes[i].state == BOX_LIVE && m->boxes[i].loop != SESSION_LOOP_NONE)
			close_disk(m, m->boxes[i].loop, closed);
}

static bool any_disk(const struct monitor *m)
{
	for (uint32_t i = 0; i < m->config->max_sandboxes; i++)
		if (m->boxes[i].state != BOX_FREE && m->boxes[i].loop != SESSION_LOOP_NONE)
			return true;
	return false;
}

static uint64_t wait_ns(const struct session_disks *d, const struct space *s)
{
	if (d->full)
		return LOOK_FULL_NS;
	const uint64_t room = s->free > s->reserve ? s->free - s->reserve : 0;
	return MIN(MAX(room / (FASTEST_BYTES / NS_PER_S), LOOK_MIN_NS), LOOK_MAX_NS);
}

uint64_t session_disks_look(struct monitor *m)
{
	struct session_disks *d = &m->disks;
	const uint64_t now = now_ns();
	struct space s = {0};

	if (d->look_at == 0 || now < d->look_at)
		return d->look_at;
	if (!any_disk(m) || measure(d, &s) < 0) {
		d->full = false;
		d->look_at = 0;
		return 0;
	}
	if (!d->full && s.free < s.reserve)
		close_all(m, true);
	else if (d->full && s.free > s.reserve + s.reserve / REOPEN_PART)
		close_all(m, false);
	d->look_at = now + wait_ns(d, &s);
	return d->look_at;
}

void session_disks_added(struct monitor *m, uint32_t loop)
{
	if (m->disks.full)
		close_disk(m, loop, true);
	if (m->disks.look_at == 0)
		m->disks.look_at = now_ns();
}
