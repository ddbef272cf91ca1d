/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that have not ended, in a file beside the database, so that they survive a crash of the server.
 *
 * Each server of the state folder has one region of the file and holds a lock on it while it lives
 * (F_OFD_SETLK: the kernel drops the lock however the process ends). A region has slots. A slot holds
 * the row that the history gets if the server dies during the run; it is written before the run starts
 * and freed by the helper once the real row is committed. That costs one pwrite(2) into the page cache
 * at the start of a run and one at its end: no fsync. The file is not mapped, because a failing disk
 * would then mean SIGBUS. When a server starts, the rows in regions that nobody has locked become
 * history, and the file is cut after the last region in use. */
#include "store/db.h"

#include "base/fdio.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REGIONS        64u /* servers that may share a state folder */
#define SLOT_BYTES     512u
#define REGION_BYTES   ((off_t)SLOT_BYTES * (RUNNING_SLOTS + 1)) /* slot 0: head */
#define RESERVED_BYTES ((off_t)64 << 10) /* of the disk, for each server that lives */
#define PIECE_SLOTS    128u
#define CLAIM_TRIES    5
#define FILE_MODE      0600

/* No slot crosses a page, so a write that SIGKILL interrupts is there whole or not at all. */
struct slot {
	uint32_t used;
	uint32_t zero;
	struct store_run run;
};
_Static_assert(sizeof(struct slot) <= SLOT_BYTES, "a row fits");

struct head {
	char magic[16];
	uint32_t row_bytes; /* rows of another program version have another size and are ignored */
	uint32_t slots;
};

static const struct head own_head = {
    .magic = "caisson-runs-1",
    .row_bytes = sizeof(struct store_run),
    .slots = RUNNING_SLOTS,
};

static off_t slot_at(unsigned region, unsigned i)
{
	return (off_t)region * REGION_BYTES + (off_t)SLOT_BYTES * (i + 1);
}

static int lock_region(int fd, unsigned region, short type)
{
	struct flock l = {.l_type = type,
			  .l_whence = SEEK_SET,
			  .l_start = (off_t)region * REGION_BYTES,
			  .l_len = REGION_BYTES};

	return fcntl(fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

static int write_at(int fd, const void *data, size_t len, off_t at)
{
	ssize_t n = pwrite(fd, data, len, at);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -ENOSPC;
}

/* ---- what an earlier server left ---- */

/* Texts from the file may lack their NUL. */
static void end_texts(struct store_run *r)
{
	r->id[sizeof(r->id) - 1] = '\0';
	r->owner[sizeof(r->owner) - 1] = '\0';
	r->sandbox[sizeof(r->sandbox) - 1] = '\0';
	r->kind[sizeof(r->kind) - 1] = '\0';
	r->reason[sizeof(r->reason) - 1] = '\0';
}

/* The dead server may have committed the row before it could free the slot. */
static int add_unless_known(struct db *db, const struct store_run *r, struct err *e)
{
	uint64_t known = 0;
	int x = db_number(db, &known, db_begin(db, Q_RUN_KNOWN, e, "tt", r->sandbox, r->id), e);

	if (x < 0 || known > 0)
		return x;
	return run_write(db, r, r->started_ms, e);
}

/* Calls FN for each slot of REGION that is in use, until it returns an error. The file is read in large
 * pieces: a start must not wait for thousands of small reads. */
typedef int (*slot_fn)(struct slot *s, off_t at, void *user, struct err *e);

static int each_used(int fd, unsigned region, slot_fn fn, void *user, struct err *e)
{
	_cleanup_free_ char *piece = malloc(PIECE_SLOTS * (size_t)SLOT_BYTES);
	int r = 0;

	if (!piece)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the file of runs under way");
	for (unsigned i = 0; i < RUNNING_SLOTS && r == 0; i += PIECE_SLOTS) {
		ssize_t n = pread(fd, piece, PIECE_SLOTS * (size_t)SLOT_BYTES, slot_at(region, i));

		/* Where the file ends, no further slot was ever used. */
		for (ssize_t at = 0; r == 0 && at + (ssize_t)sizeof(struct slot) <= n;
		     at += SLOT_BYTES) {
			struct slot s;

			memcpy(&s, piece + at, sizeof(s));
			if (s.used)
				r = fn(&s, slot_at(region, i) + at, user, e);
		}
		if (n < (ssize_t)(PIECE_SLOTS * SLOT_BYTES))
			break;
	}
	return r;
}

static int note_use(struct slot *s, off_t at UNUSED, void *user, struct err *e UNUSED)
{
	*(bool *)user = *(bool *)user || s->used == 1;
	return 0;
}

static int add_slot(struct slot *s, off_t at UNUSED, void *user, struct err *e)
{
	if (s->used != 1)
		return 0;
	end_texts(&s->run);
	return add_unless_known(user, &s->run, e);
}

static int clear_slot(struct slot *s UNUSED, off_t at, void *user, struct err *e)
{
	const uint32_t unused = 0;

	return write_at(*(int *)user, &unused, sizeof(unused), at) < 0
		   ? err_set(e, ERR_STORE_FAILED, errno, "the file of runs under way")
		   : 0;
}

static int add_region(struct db *db, int fd, unsigned region, struct err *e)
{
	bool used = false;
	int r = each_used(fd, region, note_use, &used, e);

	if (r < 0 || !used)
		return r;
	r = db_transaction(db, false, e);
	r = r < 0 ? r : each_used(fd, region, add_slot, db, e);
	return db_finish(db, false, r, e);
}

/* Writes the rows of REGION, which is locked by us, to the history, and its DRAFTS of cells. The region is empty
 * after that. */
static int recover(struct db *db, int fd, unsigned region, bool drafts, struct err *e)
{
	struct head h = {0};
	bool ours = pread(fd, &h, sizeof(h), (off_t)region * REGION_BYTES) == (ssize_t)sizeof(h) &&
		    memcmp(&h, &own_head, sizeof(h)) == 0;
	int r = ours ? add_region(db, fd, region, e) : 0;

	r = r < 0 || !drafts ? r : drafts_recover(db, region, e);
	return r < 0 ? r : each_used(fd, region, clear_slot, &fd, e);
}

/* Takes REGION for this server and reserves space on the disk for its first slots, so that a disk that
 * fills up later does not matter to them. */
static int claim(struct running *w, int fd, unsigned region, struct err *e)
{
	int r = -posix_fallocate(fd, (off_t)region * REGION_BYTES, RESERVED_BYTES);

	r = r < 0 ? r : write_at(fd, &own_head, sizeof(own_head), (off_t)region * REGION_BYTES);
	if (r < 0)
		return err_set(e, store_err_of(-r), -r, "the file of runs under way");
	w->region = region;
	w->fd = fd;
	return 0;
}

static int watch(struct store *s, int fd, struct err *e)
{
	struct running *w = &s->running;
	struct stat st;
	uint64_t drafts = 0; /* of any server; the file may have been cut since */
	int r = db_number(&s->db, &drafts, db_begin(&s->db, Q_DRAFT_COUNT, e, ""), e);

	if (r == 0 && fstat(fd, &st) < 0)
		r = err_set(e, ERR_STORE_FAILED, errno, "the file of runs under way");
	for (unsigned i = 0; r == 0 && i < REGIONS; i++) {
		bool there = (off_t)i * REGION_BYTES < st.st_size;

		if (!there && w->fd >= 0 && drafts == 0)
			break;
		if (lock_region(fd, i, F_WRLCK) < 0)
			continue; /* another server holds it */
		r = recover(&s->db, fd, i, drafts > 0, e);
		if (r == 0 && w->fd < 0)
			r = claim(w, fd, i, e);
		else
			(void)lock_region(fd, i, F_UNLCK);
	}
	return r;
}

/* Makes the file end where region FIRST begins, if no other server holds that region or a later one. A
 * server locks its region before it writes there, so nothing of another one is cut off. */
static void shrink(int fd, unsigned first)
{
	struct flock rest = {
	    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)first * REGION_BYTES};
	struct stat st;

	if (fcntl(fd, F_OFD_SETLK, &rest) < 0)
		return;
	if (fstat(fd, &st) == 0 && st.st_size > rest.l_start)
		(void)!ftruncate(fd, rest.l_start);
	rest.l_type = F_UNLCK;
	(void)fcntl(fd, F_OFD_SETLK, &rest);
}

int store_watch_runs(struct store *s, struct err *e)
{
	if (s->replica) /* of a router, which has no runs */
		return 0;
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s-runs", s->path) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the store");
	_cleanup_fd_ int fd =
	    open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, FILE_MODE);
	if (fd < 0)
		return err_set(e, store_err_of(errno), errno, "%s", path);
	int r = watch(s, fd, e);
	/* Another server that shrinks the file holds all later regions for some microseconds. */
	for (int i = 0; r == 0 && s->running.fd < 0 && i < CLAIM_TRIES; i++) {
		(void)usleep(1000);
		r = watch(s, fd, e);
	}
	if (r == 0 && s->running.fd >= 0)
		shrink(fd, s->running.region + 1);
	if (s->running.fd >= 0)
		(void)TAKE_FD(fd);
	return r;
}

void running_close(struct store *s)
{
	struct running *w = &s->running;

	for (size_t i = 0; w->fd >= 0 && i < ARRAY_SIZE(w->used); i++)
		if (w->used[i]) { /* the next server puts these rows into the history */
			w->fd = fd_close(w->fd);
			return;
		}
	if (w->fd >= 0)
		shrink(w->fd, w->region);
	w->fd = fd_close(w->fd);
}

/* ---- the slots of this server ---- */

/* Returns a free slot for OWNER, or RUNNING_SLOTS if all are used. Called with the helper's lock held. */
static unsigned take(struct running *w, struct helper *h, const char *owner)
{
	struct row_share *x = share_of(h, owner);

	if (!share_fits(x->slots, 1, RUNNING_SLOTS - w->n_used))
		return RUNNING_SLOTS;
	for (unsigned i = 0; i < ARRAY_SIZE(w->used); i++) {
		uint64_t unused = ~w->used[i];

		if (unused) {
			unsigned bit = (unsigned)__builtin_ctzll(unused);
			w->used[i] |= UINT64_C(1) << bit;
			w->whose[i * 64 + bit] = (uint16_t)(x - h->shares);
			w->n_used++;
			x->slots++;
			return i * 64 + bit;
		}
	}
	return RUNNING_SLOTS;
}

static int write_slot(const struct running *w, unsigned i, const struct store_run *r)
{
	struct slot s = {.used = 1, .run = *r};

	return write_at(w->fd, &s, sizeof(s), slot_at(w->region, i));
}

void running_free(struct store *s, uint32_t ticket)
{
	struct running *w = &s->running;
	const uint32_t unused = 0;

	if (ticket == 0)
		return;
	(void)!write_at(w->fd, &unused, sizeof(unused), slot_at(w->region, ticket - 1));
	w->used[(ticket - 1) / 64] &= ~(UINT64_C(1) << ((ticket - 1) % 64));
	w->n_used--;
	s->helper.shares[w->whose[ticket - 1]].slots--;
}

uint32_t store_run_begin(struct store *s, const struct store_run *r)
{
	struct helper *h = s ? &s->helper : NULL;

	if (!s || s->running.fd < 0)
		return 0;
	(void)pthread_mutex_lock(&h->lock);
	unsigned i = take(&s->running, h, r->owner);
	(void)pthread_mutex_unlock(&h->lock);
	if (i == RUNNING_SLOTS)
		return 0;
	if (write_slot(&s->running, i, r) == 0)
		return i + 1;
	store_run_forget(s, i + 1);
	return 0;
}

void store_run_forget(struct store *s, uint32_t ticket)
{
	if (!s || ticket == 0)
		return;
	(void)pthread_mutex_lock(&s->helper.lock);
	running_free(s, ticket);
	(void)pthread_mutex_unlock(&s->helper.lock);
}

void store_note_run(struct store *s, const struct store_run *r, uint32_t ticket)
{
	struct note n = {.kind = NOTE_RUN, .at_ms = store_now_ms(), .run = *r, .ticket = ticket};

	if (s && ticket)
		(void)!write_slot(&s->running, ticket - 1, r);
	note_push(s, &n);
}
