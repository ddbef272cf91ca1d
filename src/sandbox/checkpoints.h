/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints, branches and forks of a sandbox; sandbox.h says what a sandbox is.
 *
 * A checkpoint is a named copy of the files of the workspace and, if the session has variables, of
 * its interpreter. A branch runs a piece of code from the present state and keeps the result as a
 * checkpoint; afterwards the session is what it was before. A fork is a new sandbox with the same
 * files and a new session.
 *
 * One of these calls seizes the sandbox until it is done: runs, uploads, removals and a second such
 * call are SESSION_BUSY; files can still be read. Checkpoints end with their sandbox. Callbacks are
 * called as sandbox.h says: once, and never before the call has returned. */
#pragma once

#include "sandbox/sandbox.h"

#define CHECKPOINTS_MAX     8  /* of one sandbox */
#define CHECKPOINT_NAME_MAX 64 /* [A-Za-z0-9_-]{1,64} */
#define BRANCHES_MAX        CHECKPOINTS_MAX
#define FORK_FILES_MAX      10000u

struct checkpoint {
	const char *name;
	bool state_kept; /* it has variables; false = files only, a restore starts a new session */
	bool state_lost; /* save: the session's variables were lost before, and nobody knew yet */
	uint64_t files;  /* regular ones */
	uint64_t bytes;
	uint32_t skipped; /* sockets, devices */
	/* save: what the session has, and the checkpoint has not; restore: what the session had before, and has no
	 * more. ENGINE_KIND_*, see session_kinds(); 0 in a list */
	uint32_t kinds;
	uint64_t age_ns;
	const char *by; /* id of the run that ended last before it was made; "" or NULL = none */
	const char *parent; /* the checkpoint that was made or restored last before it; "" = none */
};

/* C is valid during the call, NULL with E. */
typedef void (*checkpoint_fn)(const struct checkpoint *c, const struct err *e, void *user);

/* Saves the present state as NAME; an older one of that name is dropped when the new one is complete.
 * TOO_MANY_CHECKPOINTS, NO_SPACE, OUT_OF_MEMORY. */
int sandbox_checkpoint(struct sandbox *s, const char *name, checkpoint_fn cb, void *user,
		       struct err *e) MUST_CHECK;
/* Restores session and files; the checkpoint stays. FILES_ONLY: the session starts anew.
 * CHECKPOINT_NOT_FOUND; CHECKPOINT_LOST: its interpreter has ended; CHECKPOINT_PARTIAL: the files are
 * incomplete, try again. */
int sandbox_restore(struct sandbox *s, const char *name, bool files_only, checkpoint_fn cb,
		    void *user, struct err *e) MUST_CHECK;
int sandbox_drop_checkpoint(struct sandbox *s, const char *name, checkpoint_fn cb, void *user,
			    struct err *e) MUST_CHECK;
/* Oldest first. FN must not begin anything in S. */
void sandbox_each_checkpoint(const struct sandbox *s,
			     void (*fn)(const struct checkpoint *c, void *user), void *user);

struct branch;

struct branch_item {      /* one continuation */
	const char *name; /* of the checkpoint that it leads to; different ones */
	const char *code;
	size_t code_len;
};

struct branch_request {
	const struct branch_item *items; /* copied */
	size_t n;                        /* 1 to BRANCHES_MAX */
	uint64_t timeout_ns;             /* of each; as struct run_request */
	/* The run of continuation I has ended: RESULT (valid during the call), or E. */
	void (*on_run)(size_t i, const struct run_result *result, const struct err *e, void *user);
	/* The result is saved as C, or could not be saved (E). Both NULL: the code did not return, so
	 * there is no new state. */
	void (*on_kept)(size_t i, const struct checkpoint *c, const struct err *e, void *user);
	/* The end. E: the session was not restored, or not all continuations were tried. KINDS: what the session has
	 * and no continuation had, ENGINE_KIND_*. */
	void (*on_done)(uint32_t kinds, const struct err *e, void *user);
	void *user;
};

/* Runs each continuation from the present state, one after the other: a process cannot move to
 * files of its own, docs/decisions/0004-branches.md. *RET is valid until on_done. */
int sandbox_branch(struct sandbox *s, const struct branch_request *request, struct branch **ret,
		   struct err *e) MUST_CHECK;
/* Ends the run that is on and tries no further one; on_done follows. */
void branch_cancel(struct branch *b);

struct fork_result {
	struct sandbox *sandbox; /* the new one, borrowed */
	uint64_t files, bytes;
	uint32_t
	    skipped; /* what is no regular file or cannot be read; empty folders do not count */
};
typedef void (*fork_fn)(const struct fork_result *r, const struct err *e, void *user);

/* A new sandbox ID (NULL: a new id; one that exists is INVALID_ARGUMENT) of the same owner with
 * copies of the regular files, on any engine. Fails as a whole. */
int sandbox_fork(struct sandbox *s, const char *id, fork_fn cb, void *user,
		 struct err *e) MUST_CHECK;
/* The id that S was forked from, or "". */
const char *sandbox_parent(const struct sandbox *s);
