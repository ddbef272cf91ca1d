/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/fleet/router: the feed of events of all workers, GET /api/v1/events.
 *
 * feed.c has the client's stream, feed_source.c the stream of each worker. While a client does not read, nothing is read from workers,
 * whose own ring then says `resync` in place of what it had to drop. A source has at most one event that is not complete
 * (FEED_EVENT_MAX). A worker that goes and comes back is asked to go on where it stopped. */
#pragma once

#include "fleet/router/parts.h"

#define FEED_EVENT_MAX ((1u << 20) + 4096u) /* bytes of one event, as a worker has it */
#define FEED_ID_SIZE   40u

struct feed;

struct source {
	struct list node; /* of feed.sources */
	struct feed *feed;
	char id[FLEET_WORKER_SIZE];
	struct worker *worker; /* NULL: there is no connection, and none is being made */
	struct budget_share share;
	struct link *link;
	struct http_io io;
	sd_event_source *event, *more; /* MORE: goes on with what epoll does not tell of */
	struct buf out, in, text;      /* TEXT: of the stream, what is not yet an event */
	size_t searched;               /* bytes of TEXT without the end of an event */
	size_t scanned, head_len;
	struct relay_reply reply;
	struct http_chunk chunk;
	char last_id[FEED_ID_SIZE]; /* of the last event; "": there was none */
	bool live;                  /* it has said hello */
	bool settled;               /* it has said hello, or has failed once */
	bool paused;                /* the client reads slowly, or the answer has not begun */
	uint64_t again_ns;          /* not before that */
};

/* What a stream of events says: NAME and DATA end with NUL. */
struct feed_event {
	char *id, *name, *data; /* "" = none */
};
/* Reads TEXT, one event without the empty line behind it, in place. False: it is none, or has bytes that would be more than one. */
bool feed_event_read(char *text, struct feed_event *ret);

/* ---- feed_source.c ---- */

struct source *source_new(struct feed *d, const char id[FLEET_WORKER_SIZE]);
void source_free(struct source *s);
/* Connects to W. */
void source_open(struct source *s, struct worker *w);
void source_close(struct source *s);
/* Goes on with what it has read, and reads. False: the feed is gone. */
bool source_pump(struct source *s) MUST_CHECK;

/* ---- feed.c, for sources; false: the feed is gone ---- */

/* S has ended, or could not be made. ANSWER: what its worker said instead of the stream, with STATUS; 0: nothing. */
void feed_source_failed(struct source *s, int status, const char *answer, size_t len);

/* The request for S, up to the end of the head. */
int feed_write_head(struct feed *d, struct source *s, struct buf *ret) MUST_CHECK;
bool feed_take(struct source *s, const struct feed_event *v) MUST_CHECK;
/* Does the client's answer wait for this source, or has it enough to read? */
bool feed_is_slow(const struct feed *d, const struct source *s);
struct fleet_router *feed_router(const struct feed *d);
const struct caller *feed_caller(const struct feed *d);
