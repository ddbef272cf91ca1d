/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of a stored sandbox while it rests: one file on its disk, in a folder that no mount shows in the sandbox,
 * so no run can name a path in it. It has the variables of the default context.
 *
 *   to rest   The front sends INIT_STORE. The backup of the session writes (RT_STORE, runtime/python/carry.py) into a file
 *             without its name yet. When that is whole it gets its name, and INIT_STORED answers.
 *   in use    The first stateful run waits until a spare has read the file and is the session process (RT_REVIVE).
 *
 * The file is removed before it is read. So no old values come back after newer ones, and a file that hangs or ends its
 * reader does so once: what is in it was written by submitted code. An empty file is the mark that there were variables
 * and none could be written. It is made when a cell leaves the first ones, and replaced when all are written: so the next
 * answer tells also after SIGKILL. */
#include "init.h"

#include "base/fdio.h"
#include "base/kill_points.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FOLDER "variables"
#define WHOLE  "default"
#define PART   "default.part"
/* Of the limit of the workspace; and of what is free, so that the runs before the file is read have room. */
#define DISK_SHARE 4u
#define FREE_SHARE 2u

enum phase {
	PHASE_NONE,
	PHASE_ASKED,
	PHASE_WRITING, /* the backup has the file, or is about to get it */
};

static struct {
	int store;   /* O_PATH; the root of the disk, until the folder is there; -1 */
	int folder;  /* O_PATH; -1 */
	bool there;  /* the file, of an earlier life of the sandbox */
	bool marked; /* an empty file is there, of this life */
	enum phase phase;
} own = {.store = -1, .folder = -1};

/* ---- the folder ---- */

void variables_keep(void)
{
	struct stat st;

	if (own.store < 0)
		return;
	if (mkdirat(own.store, FOLDER, 0700) == 0 || errno == EEXIST)
		own.folder =
		    openat(own.store, FOLDER, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	own.store = fd_close(own.store);
	if (own.folder < 0)
		return;
	(void)unlinkat(own.folder, PART, 0); /* of a sandbox that was killed meanwhile */
	own.there = fstatat(own.folder, WHOLE, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

void variables_begin(int store, bool stored)
{
	own.store = store;
	if (stored) /* now, while there is room for a folder */
		variables_keep();
}

int variables_folder(void)
{
	return own.folder;
}

static void drop(void)
{
	if (own.there && unlinkat(own.folder, WHOLE, 0) < 0)
		(void)unlinkat(own.folder, WHOLE, AT_REMOVEDIR);
	own.there = false;
}

void variables_forget(uint32_t context)
{
	if (context == 0)
		drop();
}

void variables_mark(uint32_t context)
{
	if (context != 0 || own.folder < 0 || own.there || own.marked)
		return;
	const int fd = openat(own.folder, WHOLE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	own.marked = fd >= 0;
	(void)fd_close(fd);
}

void variables_ended(uint32_t context)
{
	variables_forget(context);
	if (context != 0 || !own.marked)
		return;
	(void)unlinkat(own.folder, WHOLE, 0);
	own.marked = false;
}

/* ---- to rest ---- */

static void answer(struct init *in, int errnum)
{
	const struct proto_init_stored a = {.head = PROTO_HEAD(INIT_STORED, proto_init_stored),
					    .errnum = errnum};

	own.phase = PHASE_NONE;
	init_send(in, &a.head, NULL, 0);
}

static void fail(struct init *in, int errnum)
{
	(void)unlinkat(own.folder, PART, 0);
	(void)fd_close(openat(own.folder, WHOLE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
	answer(in, errnum);
}

void variables_store(struct init *in)
{
	if (own.folder < 0) {
		answer(in, ENOTSUP);
		return;
	}
	own.phase = PHASE_ASKED;
	in->back_to_back = true; /* the backup is wanted at once */
}

static uint64_t bytes_max(struct init *in)
{
	const uint64_t limit = in->config.limits.workspace_bytes;
	struct statvfs v;

	if (fstatvfs(own.folder, &v) < 0)
		return 0;
	uint64_t room = (uint64_t)v.f_bavail * v.f_frsize;
	if (in->disk.counts) {
		const uint64_t used = disk_known(in).bytes;
		room = MIN(room, limit - MIN(limit, used));
	}
	return MIN(limit / DISK_SHARE, room / FREE_SHARE);
}

int variables_file(struct init *in, pid_t pid)
{
	if (own.phase != PHASE_WRITING)
		return -1;
	const uint64_t most = bytes_max(in);
	const struct rlimit size = {.rlim_cur = most, .rlim_max = most};

	(void)prlimit(pid, RLIMIT_FSIZE, &size, NULL); /* a write beyond it fails */
	(void)unlinkat(own.folder, PART, 0);
	return openat(own.folder, PART, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

bool variables_writing(void)
{
	return own.phase == PHASE_WRITING;
}

void variables_written(struct init *in)
{
	KILL_POINT(STORE_WRITTEN);
	if (renameat(own.folder, PART, own.folder, WHOLE) < 0) {
		fail(in, errno);
		return;
	}
	KILL_POINT(STORE_NAMED);
	answer(in, 0);
}

/* The session process ends here, so that its memory is there for what its backup needs to write. */
static void begin(struct init *in)
{
	if (in->session.backup <= 0) {
		fail(in, EAGAIN);
		return;
	}
	deferral_end(in);
	own.phase = PHASE_WRITING;
	in->session.carries = true;
	session_take_over(in);
}

void variables_work(struct init *in)
{
	struct init_session *s = &in->session;

	if (own.phase == PHASE_NONE)
		return;
	if (own.phase == PHASE_WRITING) {
		if (s->state == SESSION_NONE)
			fail(in, EIO);
		return;
	}
	if (in->run.state != RUN_NONE || checkpoints_busy(in)) {
		answer(in, EBUSY);
		return;
	}
	if (!contexts_choose(in, 0))
		return;
	session_wanted(in);
	if (s->state == SESSION_READY) {
		begin(in);
	} else if (s->state == SESSION_NONE) {
		if (!s->lost && !own.there) /* else nobody has been told */
			variables_ended(0);
		answer(in, ENODATA);
	}
}

/* ---- in use again ---- */

/* The mark takes the place of the file in one step, and that is on the disk before the file is read: no answer that comes
 * from the file can be older than its end. */
static void spend(void)
{
	(void)unlinkat(own.folder, PART, 0);
	_cleanup_fd_ int mark =
	    openat(own.folder, PART, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	own.marked = mark >= 0 && renameat(own.folder, PART, own.folder, WHOLE) == 0;
	if (!own.marked) {
		(void)unlinkat(own.folder, PART, 0);
		(void)unlinkat(own.folder, WHOLE, 0);
	}
	own.there = false;
	_cleanup_fd_ int folder =
	    openat(own.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* ours is O_PATH */
	if (folder >= 0)
		(void)fsync(folder);
	KILL_POINT(STORE_SPENT);
}

static int take(void)
{
	const int fd = openat(own.folder, WHOLE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		spend();
		return fd;
	}
	drop();
	variables_mark(0);
	return fd_close(fd);
}

bool variables_there(const struct init *in)
{
	return own.there && in->contexts.current == 0 && in->session.state == SESSION_NONE;
}

bool variables_wanted(struct init *in, uint32_t context)
{
	struct init_session *s = &in->session;

	if (context != 0 || !variables_there(in))
		return false;
	const int fd = take();
	if (fd < 0) {
		s->lost = true;
		s->why = PROTO_LOST_RESTED;
		return false;
	}
	session_read(in, fd);
	return true;
}
