/* SPDX-License-Identifier: Apache-2.0 */
/* Events for people who watch: one stream for each tab of a browser, GET /api/v1/events.
 *
 * The events of an owner are in a ring of at most FEED_RING_BYTES, which all its tabs read, each at its own place.
 * So a tab costs its stream and little more. A tab that reads slowly falls behind in the ring instead of
 * filling memory, and is told `resync` when the ring has passed it; so is a tab that comes back too late. Without
 * a tab, and a minute after the last one, nothing is kept and nothing is written: feed_wants() says so. */
#pragma once

#include "api/auth/auth.h"
#include "budget/budgets.h"

#include <jansson.h>

#define FEED_RING_BYTES (1u << 20)

struct feed;

int feed_new(sd_event *loop, struct budgets *budgets, struct feed **ret, struct err *e) MUST_CHECK;
struct feed *feed_free(struct feed *f); /* after the HTTP server; NULL is fine */

/* Drops the events of OWNER, unless somebody follows. */
void feed_forget(struct feed *f, const char *owner);
/* Does anybody watch OWNER's sandboxes? If not, events need not be made. */
bool feed_wants(const struct feed *f, const char *owner);
/* Tells all tabs of OWNER. SANDBOX: the id that tabs may ask for alone; it can be a part of DATA. DATA is
 * taken; NULL (no memory) makes the tabs load everything again. */
void feed_tell(struct feed *f, const char *owner, const char *sandbox, const char *name,
	       json_t *data);

struct feed_request {
	const char *owner;
	const char *sandbox; /* NULL: all */
	const char *last_id; /* as the client gives it, or NULL */
	const struct caller *who;
};
/* Answers REQ with the stream, or with why there is none. It ends with the credential of the caller. */
void feed_follow(struct feed *f, struct http_request *req, const struct feed_request *request);
