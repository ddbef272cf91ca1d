/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves names without blocking the event loop. */
#pragma once

#include "base/attr.h"
#include "egress/address.h"

#include <systemd/sd-event.h>

#define EGRESS_ANSWER_MAX 32 /* addresses of one answer; an answer with more counts as none */

struct egress_query; /* a name that is being resolved */

/* N = 0: the name has no address, or cannot be resolved. Never called from inside ask(). */
typedef void (*egress_answer_fn)(const struct egress_address *addresses, size_t n, void *user);

struct egress_resolver {
	/* NULL: no memory, or too many queries wait. The query is freed after CB was called. */
	struct egress_query *(*ask)(struct egress_resolver *r, const char *name,
				    egress_answer_fn cb, void *user);
	/* CB is not called any more. */
	void (*cancel)(struct egress_query *q);
	/* There must be no queries left. */
	void (*free)(struct egress_resolver *r);
};

/* A resolver that uses the configuration of the machine (getaddrinfo(3)). It has at most EGRESS_WORKERS
 * threads, which start when there is a query and end after a minute without one. NULL: no memory. */
#define EGRESS_WORKERS 4u
struct egress_resolver *egress_resolver_new(sd_event *loop);
