/* SPDX-License-Identifier: Apache-2.0 */
/* A helper sandbox for one piece of work. It does one operation at a time. Every operation ends
 * with its callback, which is never called after packages_sandbox_free(). */
#pragma once

#include "base/buf.h"
#include "egress/egress.h"
#include "engine/engine.h"
#include "packages/copy.h"

#include <jansson.h>

struct packages_sandbox;

#define PACKAGES_SANDBOX_OUTPUT_MAX 16384u /* bytes kept of a script's output: the last ones */

typedef void (*packages_sandbox_fn)(struct packages_sandbox *b, const struct err *e,
				    void *user); /* E NULL = success */

struct packages_sandbox_config {
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
struct packages_sandbox *packages_sandbox_new(const struct packages_sandbox_config *config,
					      packages_sandbox_fn cb, void *user, struct err *e);
/* Kills what runs in the sandbox and starts to remove it. Accepts NULL; returns NULL. */
struct packages_sandbox *packages_sandbox_free(struct packages_sandbox *b);
uint64_t packages_sandbox_cpu_ns(const struct packages_sandbox *b); /* used so far; B may be NULL */

#define PACKAGES_SANDBOX_RESULT_MAX (4u << 20)
#define PACKAGES_SANDBOX_VALUES_MAX                                                                \
	30000u /* in it; whoever gets it looks at all of them on the loop */
/* Runs SCRIPT in Python, with a line `JOB = ...` before it that is made from JOB (owned).
 * Succeeds if the script exits with status 0 and has answered with a JSON object on its stdout, of at most PACKAGES_SANDBOX_RESULT_MAX
 * bytes and PACKAGES_SANDBOX_VALUES_MAX values. packages_sandbox_result() has it until the next operation; packages_sandbox_output() has what was written to stderr. Neither is
 * trusted: code in the sandbox may have written it. */
void packages_sandbox_run(struct packages_sandbox *b, json_t *job, const char *script,
			  uint64_t timeout_ns, packages_sandbox_fn cb, void *user);
const struct buf *packages_sandbox_output(const struct packages_sandbox *b);
const json_t *packages_sandbox_result(const struct packages_sandbox *b);
/* Writes all bytes of FD (borrowed) to PATH. If SHA256 is given and the bytes have another
 * digest, the operation fails and leaves no file. */
void packages_sandbox_put(struct packages_sandbox *b, const char *path, int fd, const char *sha256,
			  packages_sandbox_fn cb, void *user);
/* Copies PATH to FD (borrowed), at most MAX bytes. packages_sandbox_sha256() and packages_sandbox_bytes() describe the
 * copy. */
void packages_sandbox_get(struct packages_sandbox *b, const char *path, int fd, uint64_t max,
			  packages_sandbox_fn cb, void *user);
const char *packages_sandbox_sha256(const struct packages_sandbox *b);
uint64_t packages_sandbox_bytes(const struct packages_sandbox *b);
