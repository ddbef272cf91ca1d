/* SPDX-License-Identifier: Apache-2.0 */
/* Accounting: may an owner start a run now, and what did each run cost? Every run passes here, whether
 * it came by MCP, REST or a shared stdio.
 *
 * The quota is the user's own, or the server's settings if the user has none. It is read once a minute
 * for each owner, so a change takes effect within a minute and a run costs a lookup in a small table.
 * CPU time is that of the sandbox, by the counter of its control group: a run counts what was used since
 * the last run ended, however it ends. Installations count what their sandboxes used.
 * A run that the end of the server cuts short counts nothing, because nobody is left to measure it; no user can cause that.
 *
 * At a worker of a fleet what other workers have said of the user counts, too. */
#pragma once

#include "fleet/tally.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

#define ACCOUNTING_REASONS (RUN_LOST + 1)
#define ACCOUNTING_BUCKETS 11    /* one more counts what is longer than all bounds */
#define ACCOUNTING_OWNERS  4096u /* remembered at the same time; the oldest of a bucket goes */

struct accounting;

struct accounting_config {
	struct store *store;      /* borrowed; NULL: no history, and the settings are the quota */
	struct manager *manager;  /* borrowed; gets its hooks */
	struct store_quota quota; /* of the server; 0 = no limit */
	/* Borrowed, of a worker (fleet/tally.h); NULL: this server is none. What users have here, and at other workers. */
	struct fleet_tally *uses;
	const struct fleet_tally *elsewhere;
};

int accounting_new(const struct accounting_config *config, struct accounting **ret,
		   struct err *e) MUST_CHECK;
/* After the manager's end. NULL is fine. */
struct accounting *accounting_free(struct accounting *l);

/* The limits of OWNER: INT64_MAX means no limit, 0 means nothing is allowed. */
int accounting_quota(struct accounting *l, const char *owner, struct store_quota *ret,
		     struct err *e) MUST_CHECK;

struct accounting_stats {
	uint64_t runs[ACCOUNTING_REASONS];
	uint64_t run_buckets[ACCOUNTING_BUCKETS + 1];
	uint64_t run_ms;
	uint64_t run_cpu_ns;
	uint64_t output_bytes;
};
extern const uint64_t accounting_bounds_ms[ACCOUNTING_BUCKETS]; /* upper bounds of the buckets */
const struct accounting_stats *accounting_stats(const struct accounting *l);
