/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/copy.h"

#include "base/fdio.h"
#include "base/text.h"

#define PIECE (256u << 10)
#define TURN  4u /* pieces copied in one turn of the event loop */

struct copy {
	sd_event_source *source;
	int from, to;
	uint64_t max, done;
	crypto_hash_sha256_state sha;
	copy_fn cb;
	void *user;
	char piece[PIECE];
};

static void finish(struct copy *c, int r)
{
	uint8_t digest[crypto_hash_sha256_BYTES];
	char hex[SHA256_HEX];
	copy_fn cb = c->cb;
	void *user = c->user;
	uint64_t bytes = c->done;

	(void)crypto_hash_sha256_final(&c->sha, digest);
	text_hex(digest, sizeof(digest), hex);
	(void)copy_cancel(c);
	cb(r, hex, bytes, user);
}

static int on_turn(sd_event_source *source UNUSED, void *user)
{
	struct copy *c = user;

	for (unsigned i = 0; i < TURN; i++) {
		ssize_t n = pread(c->from, c->piece, sizeof(c->piece), (off_t)c->done);
		int r = n < 0 ? -errno : 0;

		if (r == -EINTR)
			continue;
		if (n > 0 && c->max - c->done < (uint64_t)n)
			r = -EFBIG;
		if (r == 0 && n > 0)
			r = fd_write_all(c->to, c->piece, (size_t)n);
		if (r < 0 || n == 0) {
			finish(c, r);
			return 0;
		}
		(void)crypto_hash_sha256_update(&c->sha, (const uint8_t *)c->piece, (size_t)n);
		c->done += (uint64_t)n;
	}
	return sd_event_source_set_enabled(c->source, SD_EVENT_ONESHOT);
}

struct copy *copy_start(sd_event *loop, int from, int to, uint64_t max, copy_fn cb, void *user)
{
	struct copy *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->from = from;
	c->to = to;
	c->max = max;
	c->cb = cb;
	c->user = user;
	(void)crypto_hash_sha256_init(&c->sha);
	/* Requests of clients go first. */
	if (sd_event_add_defer(loop, &c->source, on_turn, c) < 0 ||
	    sd_event_source_set_priority(c->source, SD_EVENT_PRIORITY_NORMAL + 10) < 0)
		return copy_cancel(c);
	return c;
}

struct copy *copy_cancel(struct copy *c)
{
	if (!c)
		return NULL;
	(void)sd_event_source_disable_unref(c->source);
	free(c);
	return NULL;
}
