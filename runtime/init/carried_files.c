/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the workspace for a front that gets no descriptors: gVisor passes descriptors into a sandbox
 * and none out of it. So the front sends a file of its own, and init copies: OPEN into it, COMMIT out of it
 * (workspace_files.c decides about names and limits).
 *
 * Copying is work in slices, a few files at a time, and the loop watches its deadlines between two slices. */
#include "init.h"

#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define PIECE_BYTES  (256u << 10)
#define SLICE_PIECES 8
#define FLUSH_BYTES  (8u << 20) /* of a stored workspace: no flush waits for more */

static struct init_carry *begin(struct init *in, uint32_t seq)
{
	for (size_t i = 0; i < INIT_CARRIES_MAX; i++) {
		struct init_carry *c = &in->carries[i];

		if (c->used)
			continue;
		*c = (struct init_carry){
		    .used = true, .seq = seq, .from = -1, .to = -1, .parent = -1};
		c->answer = (struct proto_init_filed){
		    .head = PROTO_HEAD(INIT_FILED, proto_init_filed), .seq = seq};
		return c;
	}
	return NULL;
}

/* The new file gets its name. link(2) replaces no file; RENAME_NOREPLACE would say the same, but gVisor has
 * it not for every kind of mount. */
static int name_it(const struct init_carry *c)
{
	int r = linkat(c->parent, c->temp, c->parent, c->name, 0);

	/* A watch tells by the rename that the file takes the place of another one. */
	if (r < 0 && errno == EEXIST && c->overwrite)
		r = renameat(c->parent, c->temp, c->parent, c->name);
	return r < 0 ? -errno : 0;
}

/* Of a stored workspace, bytes and name outlive a loss of power once the front is told that the file is there: the
 * bytes before they get the name, which may be that of an older file. */
static int keep_it(const struct init *in, const struct init_carry *c)
{
	if (in->flushes && fsync(c->to) < 0)
		return -errno;
	int r = name_it(c);
	/* of the file, because PARENT is O_PATH; workspace_files.c does the same */
	return r == 0 && in->flushes && fsync(c->to) < 0 ? -errno : r;
}

/* R: how the copy ended, 0 or -errno. */
static void end(struct init *in, struct init_carry *c, int r)
{
	if (c->parent >= 0) {
		r = r == 0 ? keep_it(in, c) : r;
		(void)unlinkat(c->parent, c->temp, 0);
		disk_changed(in);
	}
	c->from = fd_close(c->from);
	c->to = fd_close(c->to);
	c->parent = fd_close(c->parent);
	c->used = false;
	c->answer.errnum = -r;
	init_send(in, &c->answer.head, NULL, 0);
}

int carry_out(struct init *in, uint32_t seq, int file, const struct stat *st, int to)
{
	struct init_carry *c = begin(in, seq);

	if (!c)
		return -EAGAIN;
	c->from = fcntl(file, F_DUPFD_CLOEXEC, 0);
	c->to = fcntl(to, F_DUPFD_CLOEXEC, 0);
	c->left = (uint64_t)st->st_size;
	c->answer.bytes = c->left;
	c->answer.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
	if (c->from < 0 || c->to < 0)
		end(in, c, -EMFILE);
	return 0;
}

int carry_in(struct init *in, uint32_t seq, int from, int parent, const char *name, bool overwrite)
{
	uint64_t noise;
	struct init_carry *c = begin(in, seq);

	if (!c)
		return -EAGAIN;
	if (getrandom(&noise, sizeof(noise), 0) != sizeof(noise)) {
		c->used = false;
		return -EIO;
	}
	/* There is no O_TMPFILE under gVisor: until it is complete, the file has a name that says nothing. */
	(void)snprintf(c->temp, sizeof(c->temp), ".caisson-%016llx", (unsigned long long)noise);
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	c->overwrite = overwrite;
	c->left = UINT64_MAX;
	c->from = fcntl(from, F_DUPFD_CLOEXEC, 0);
	c->to = fd_open_beneath(parent, c->temp, O_CREAT | O_EXCL | O_WRONLY, 0644);
	int r = c->to < 0 ? c->to : c->from < 0 ? -EMFILE : 0;
	if (r == 0 && (c->parent = fcntl(parent, F_DUPFD_CLOEXEC, 0)) < 0) {
		(void)unlinkat(parent, c->temp, 0);
		r = -EMFILE;
	}
	if (r == 0 && fchmod(c->to, 0644) < 0)
		r = -errno;
	if (r < 0)
		end(in, c, r);
	return 0;
}

/* Copies a piece. 1 = there may be more, 0 = done, -errno. */
static int copy_piece(const struct init *in, struct init_carry *c)
{
	static char piece[PIECE_BYTES];
	const size_t want = c->left < sizeof(piece) ? (size_t)c->left : sizeof(piece);
	const ssize_t n = want > 0 ? read(c->from, piece, want) : 0;

	if (n <= 0)
		return n < 0 ? -errno : 0;
	c->left -= (uint64_t)n;
	int r = fd_write_all(c->to, piece, (size_t)n);
	if (r < 0)
		return r;
	c->unflushed += (uint64_t)n;
	if (in->flushes && c->parent >= 0 && c->unflushed >= FLUSH_BYTES) {
		c->unflushed = 0;
		if (fdatasync(c->to) < 0)
			return -errno;
	}
	return 1;
}

static void work(struct init *in, struct init_carry *c)
{
	int r = 1;

	for (int i = 0; i < SLICE_PIECES && r > 0; i++)
		r = copy_piece(in, c);
	/* A run made the file shorter meanwhile. */
	if (r == 0 && c->parent < 0)
		c->answer.bytes -= c->left;
	if (r <= 0)
		end(in, c, r);
}

bool carry_pending(const struct init *in)
{
	for (size_t i = 0; i < INIT_CARRIES_MAX; i++)
		if (in->carries[i].used)
			return true;
	return false;
}

void carry_work(struct init *in)
{
	for (size_t i = 0; i < INIT_CARRIES_MAX; i++)
		if (in->carries[i].used)
			work(in, &in->carries[i]);
}
