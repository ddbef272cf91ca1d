/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a Python program of ours in a sandbox and keeps what it writes. The sandbox may have changed its
 * Python, so nothing that comes back is trusted: the caller checks every byte. Private to this
 * folder. */
#pragma once

#include "base/buf.h"
#include "sandbox/sandbox.h"

#define PROGRAM_MAX     (16u << 10) /* bytes of a program */
#define PROGRAM_ERR_MAX 4096u       /* last bytes of stderr that are kept */

struct program_result {
	bool good; /* it ended with exit code 0, and wrote no more than was allowed */
	enum run_reason reason;
	struct buf *out; /* what it wrote to stdout; the callee may take it */
	const char *err; /* the end of its stderr; any bytes */
	size_t err_len;
};
/* R is valid during the call. E: the program was not run, and R is NULL. */
typedef void (*program_fn)(const struct program_result *r, const struct err *e, void *user);

/* CODE is taken, also on failure. TIMEOUT_NS 0: the sandbox's own. The sandbox is busy until CB is called. */
int program_run(struct sandbox *s, struct buf *code, size_t out_max, uint64_t timeout_ns,
		program_fn cb, void *user, struct err *e) MUST_CHECK;

/* Appends NAME = a bytes literal of Python, so that no byte of DATA can become code. */
int program_add_bytes(struct buf *code, const char *name, const char *data, size_t len) MUST_CHECK;
