/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/copy.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/text.h"
#include "base/workers.h"

#define PIECE (256u << 10)
#define JOB   4u /* pieces that one job copies: then others have a turn */

struct copy {
	sd_event_source *later; /* tells the end, where there are no threads */
	char who[WORKERS_WHO_SIZE];
	int from, to; /* owned: a cancelled copy may be at work still */
	bool busy;    /* a thread has it, and alone uses DONE, SHA, RESULT, ENDED and PIECE */
	bool inside;  /* copy_start() has not returned */
	bool cancelled;
	bool ended;
	int result;
	uint64_t max, done;
	crypto_hash_sha256_state sha;
	copy_fn cb;
	void *user;
	char piece[PIECE];
};

static void copy_free(struct copy *c)
{
	(void)sd_event_source_disable_unref(c->later);
	workers_close(c->who, c->from);
	workers_close(c->who, c->to);
	free(c);
}

static void finish(struct copy *c)
{
	uint8_t digest[crypto_hash_sha256_BYTES];
	char hex[SHA256_HEX];
	copy_fn cb = c->cb;
	void *user = c->user;
	const uint64_t bytes = c->done;
	const int r = c->result;

	(void)crypto_hash_sha256_final(&c->sha, digest);
	text_hex(digest, sizeof(digest), hex);
	copy_free(c);
	cb(r, hex, bytes, user);
}

/* On a thread. */
static void copy_piece(struct copy *c)
{
	const ssize_t n = pread(c->from, c->piece, sizeof(c->piece), (off_t)c->done);
	int r = n < 0 ? -errno : 0;

	if (r == -EINTR)
		return;
	if (n > 0 && c->max - c->done < (uint64_t)n)
		r = -EFBIG;
	if (r == 0 && n > 0)
		r = fd_write_all(c->to, c->piece, (size_t)n);
	if (r == 0 && n > 0) {
		(void)crypto_hash_sha256_update(&c->sha, (const uint8_t *)c->piece, (size_t)n);
		c->done += (uint64_t)n;
	}
	c->result = r;
	c->ended = r < 0 || n == 0;
}

static void copy_some(void *user)
{
	struct copy *c = user;

	for (unsigned i = 0; i < JOB && !c->ended; i++)
		copy_piece(c);
}

static int on_later(sd_event_source *source UNUSED, void *user)
{
	finish(user);
	return 0;
}

static void go_on(struct copy *c);

static void on_copied(void *user)
{
	struct copy *c = user;

	loop_work("packages", "copied");
	c->busy = false;
	if (c->cancelled)
		copy_free(c);
	else if (!c->inside) /* else copy_start() goes on */
		go_on(c);
}

static void go_on(struct copy *c)
{
	if (c->ended) {
		finish(c);
		return;
	}
	c->busy = true;
	const int r = workers_run(c->who, copy_some, on_copied, c);
	if (r < 0) {
		c->busy = false;
		c->result = r;
		finish(c);
	}
}

/* The first job. Without threads it is all of them, and the loop tells the end. */
static int begin(struct copy *c, sd_event *loop)
{
	int r = 0;

	c->inside = true;
	do {
		c->busy = true;
		r = workers_run(c->who, copy_some, on_copied, c);
	} while (r == 0 && !c->busy && !c->ended);
	c->inside = false;
	if (r == 0 && c->busy)
		return 0;
	c->busy = false;
	c->result = r < 0 ? r : c->result;
	return sd_event_add_defer(loop, &c->later, on_later, c);
}

struct copy *copy_start(sd_event *loop, const char *who, int from, int to, uint64_t max, copy_fn cb,
			void *user)
{
	struct copy *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	(void)snprintf(c->who, sizeof(c->who), "%s", who);
	c->from = fd_dup(from);
	c->to = fd_dup(to);
	c->max = max;
	c->cb = cb;
	c->user = user;
	(void)crypto_hash_sha256_init(&c->sha);
	if (c->from < 0 || c->to < 0 || begin(c, loop) < 0) {
		copy_free(c);
		return NULL;
	}
	return c;
}

struct copy *copy_cancel(struct copy *c)
{
	if (!c)
		return NULL;
	c->cancelled = true;
	if (!c->busy) /* else when the thread is done */
		copy_free(c);
	return NULL;
}
