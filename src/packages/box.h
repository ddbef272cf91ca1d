/* SPDX-License-Identifier: Apache-2.0 */
/* A helper sandbox for one piece of work. It does one operation at a time. Every operation ends
 * with its callback, which is never called after box_free(). */
#pragma once

#include "base/buf.h"
#include "egress/egress.h"
#include "engine/engine.h"
#include "packages/copy.h"

#include <jansson.h>

struct box;

#define BOX_OUTPUT_MAX 16384u /* bytes kept of a script's output: the last ones */

typedef void (*box_fn)(struct box *b, const struct err *e, void *user); /* E NULL = success */

struct box_config {
	sd_event *loop;
	struct engine *engine;
	const struct engine_create *create;
	/* What the sandbox may reach; NULL: nothing. Where it is set, CREATE must set `egress`
	 * too. */
	struct egress *egress;
	struct egress_policy *policy;
	const char *label;
	const char *payer; /* the owner whose threads read and write its files (base/workers.h) */
};

/* Makes the sandbox. NULL: nothing will be called, E says why. */
struct box *box_new(const struct box_config *config, box_fn cb, void *user, struct err *e);
/* Kills what runs in the sandbox and starts to remove it. Accepts NULL; returns NULL. */
struct box *box_free(struct box *b);
uint64_t box_cpu_ns(const struct box *b); /* used so far; B may be NULL */

#define BOX_RESULT_MAX (4u << 20)
#define BOX_VALUES_MAX 30000u /* in it; whoever gets it looks at all of them on the loop */
/* Runs SCRIPT in Python, with a line `JOB = ...` before it that is made from JOB (owned).
 * Succeeds if the script exits with status 0 and has answered with a JSON object on its stdout, of at most BOX_RESULT_MAX
 * bytes and BOX_VALUES_MAX values. box_result() has it until the next operation; box_output() has what was written to stderr. Neither is
 * trusted: code in the sandbox may have written it. */
void box_run(struct box *b, json_t *job, const char *script, uint64_t timeout_ns, box_fn cb,
	     void *user);
const struct buf *box_output(const struct box *b);
const json_t *box_result(const struct box *b);
/* Writes all bytes of FD (borrowed) to PATH. If SHA256 is given and the bytes have another
 * digest, the operation fails and leaves no file. */
void box_put(struct box *b, const char *path, int fd, const char *sha256, box_fn cb, void *user);
/* Copies PATH to FD (borrowed), at most MAX bytes. box_sha256() and box_bytes() describe the
 * copy. */
void box_get(struct box *b, const char *path, int fd, uint64_t max, box_fn cb, void *user);
const char *box_sha256(const struct box *b);
uint64_t box_bytes(const struct box *b);
