/* SPDX-License-Identifier: Apache-2.0 */
/* Names to addresses, without blocking the loop. */
#pragma once

#include "base/attr.h"
#include "egress/address.h"

#include <systemd/sd-event.h>

#define EGRESS_ANSWER_MAX 32 /* addresses of one answer; more make it no answer */

struct egress_query; /* a question that waits for its answer */

/* N = 0: the name has no address, or nobody knows. Never called from inside ask(). */
typedef void (*egress_answer_fn)(const struct egress_address *addresses, size_t n, void *user);

struct egress_resolver {
	/* NULL: no memory, or too many wait. The query is gone when CB was called. */
	struct egress_query *(*ask)(struct egress_resolver *r, const char *name,
				    egress_answer_fn cb, void *user);
	/* CB will not be called. */
	void (*cancel)(struct egress_query *q);
	/* All queries are gone by then. */
	void (*free)(struct egress_resolver *r);
};

/* Asks as the machine is configured to (getaddrinfo), in up to EGRESS_WORKERS threads that are made
 * when there is something to ask and end when nothing was for a minute. NULL: no memory. */
#define EGRESS_WORKERS 4u
struct egress_resolver *egress_resolver_new(sd_event *loop);
