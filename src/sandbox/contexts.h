/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts of a sandbox: sessions that each have variables, threads and processes of their own, and share its files. A run
 * without a name is of the default context. Another one is made by its first run or by a call, and ends by a call or with
 * the processes of the sandbox. While a run is on, the threads and processes of all contexts go on. Checkpoints and
 * branches have the default context alone. Loop only. */
#pragma once

#include "sandbox/sandbox.h"

#define CONTEXTS_MAX     ENGINE_CONTEXTS_MAX /* of a sandbox, the default one included */
#define CONTEXT_NAME_MAX 64                  /* [A-Za-z0-9_-]{1,64} */
#define CONTEXT_DEFAULT  "default"           /* how clients may call that one */

struct context {
	char name[CONTEXT_NAME_MAX + 1]; /* "" = the default one */
	uint32_t number;                 /* engine_run_spec.context */
	uint64_t runs;
	struct run_undone undone;       /* what its next run tells (run_session.c) */
	struct session_clients clients; /* whom it is told to */
};

/* The context NAME of S; NULL, "" and CONTEXT_DEFAULT: the default one. MAKE: if there is none, it is made. Borrowed. NULL
 * after setting E: NOT_FOUND, INVALID_ARGUMENT, QUOTA_EXCEEDED (CONTEXTS_MAX). */
struct context *sandbox_context(struct sandbox *s, const char *name, bool make, struct err *e);
/* The default one is the first. */
void sandbox_each_context(const struct sandbox *s, void (*fn)(const struct context *c, void *user),
			  void *user);
/* Ends its processes and forgets it. SESSION_BUSY while a run of it is on or waits, INVALID_ARGUMENT: it is the default
 * one. */
int sandbox_end_context(struct sandbox *s, const char *name, struct err *e) MUST_CHECK;
/* S is being freed. */
void contexts_free(struct sandbox *s);
