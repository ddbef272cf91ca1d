/* SPDX-License-Identifier: Apache-2.0 */
/* Background processes of a sandbox: commands that begin and end beside its runs. Each ends when its first process does, at
 * its deadline, by a call, or with the processes of the sandbox, and always with all that it has started. A stored sandbox
 * stays active while one lives; its processes end when the server does.
 *
 * What ended is kept until it is forgotten: by a call, when the sandbox has too many, or with the sandbox. The newest output
 * of each stream is kept in memory (BUDGET_KEPT_BYTES); positions in it are bytes since the beginning. At the bound the output
 * of what has ended makes room for that of what lives. Loop only. */
#pragma once

#include "base/list.h"
#include "sandbox/sandbox.h"

#define PROCESSES_MAX                                                                              \
	64 /* of a sandbox, with those that have ended; the oldest of these makes room */
#define PROCESS_ID_SIZE     16              /* "p12" and NUL */
#define PROCESS_COMMAND_MAX 1024            /* bytes of the command that are kept for people */
#define PROCESS_NAME_MAX    64              /* bytes */
#define PROCESS_ENV_MAX     SANDBOX_ENV_MAX /* variables of one, besides those of the sandbox */
#define PROCESS_OUTPUT_MAX  (64u << 10)     /* bytes that are kept of a stream */
#define PROCESS_TERMINAL_MAX                                                                       \
	(256u                                                                                      \
	 << 10) /* the same of a terminal: what comes at once, so that clients who keep up miss nothing */
#define PROCESS_INPUT_MAX  (64u << 10) /* bytes that wait until it reads them */
#define PROCESS_WAIT_MAX_S 60          /* seconds of one wait of a client */
#define PROCESS_SIGNALS    "HUP|INT|QUIT|KILL|TERM|USR1|USR2|CONT|STOP" /* what clients may send */

struct process_request {
	const char *command; /* of the shell, for people; copied */
	const char *name;    /* NULL = it has none; copied */
	const char *const *argv;
	/* From the workspace on, or absolute inside; NULL = the sandbox's own folder, else the
	 * workspace. */
	const char *cwd;
	const char *const *env; /* NAME=VALUE, at most PROCESS_ENV_MAX; may be NULL */
	bool input;             /* process_write() will be called; else it reads an end */
	bool root;              /* as the root user of the sandbox: sandbox_check_root() */
	/* Of the terminal that it gets, each up to ENGINE_TERMINAL_MAX; 0 = none. All its output is in stdout then, and its
	 * input stays open. */
	uint32_t rows, columns;
	uint64_t timeout_ns; /* 0 = none */
	/* What the client showed; manager_end_processes() asks about it. Kept by
	 * manager_keep_credentials(). NULL = none. */
	const void *credential;
};

struct process_facts {
	const char *id, *name, *command; /* name: "" = none */
	bool running;
	bool has_input;
	/* of one that has ended */
	struct err failure; /* ERR_NONE, or why it never began */
	enum run_reason reason;
	int exit_code, signal;
	uint32_t killed; /* what it had left */
	uint64_t cpu_ns, peak_bytes;
	uint64_t started_ms;    /* since 1970 */
	uint64_t duration_ns;   /* so far */
	uint32_t rows, columns; /* of its terminal; 0 = it has none */
	uint64_t total[2];      /* bytes that it has written to stdout and stderr */
};

struct process;

/* SESSION_BUSY during a checkpoint, BUDGET_EXCEEDED beyond the bounds, QUOTA_EXCEEDED at the limit of processes, INVALID_ARGUMENT; the end of one that cannot be started
 * says why. The caller does not own *RET: it stays until it is forgotten. */
int sandbox_start_process(struct sandbox *s, const struct process_request *q, struct process **ret,
			  struct err *e) MUST_CHECK;
/* NOT_FOUND */
struct process *sandbox_find_process(const struct sandbox *s, const char *id, struct err *e);
void sandbox_each_process(const struct sandbox *s, void (*fn)(struct process *p, void *user),
			  void *user);

void process_look(const struct process *p, struct process_facts *ret);
/* Appends what is kept of STREAM from FROM on, at most MAX bytes of it, as UTF-8. *RET_FROM is where the text begins, more
 * than FROM if that is not kept any more; *RET_NEXT is the position behind it. */
int process_output(const struct process *p, enum engine_stream stream, uint64_t from, size_t max,
		   struct buf *b, uint64_t *ret_from, uint64_t *ret_next) MUST_CHECK;
/* The same as the bytes that they are; how many. RET has MAX bytes. */
size_t process_bytes(const struct process *p, enum engine_stream stream, uint64_t from, size_t max,
		     char *ret, uint64_t *ret_from);
/* INVALID_ARGUMENT: it has no terminal, or none can have this size. Those who watch it are told. */
int process_resize(struct process *p, int64_t rows, int64_t columns, struct err *e) MUST_CHECK;
/* SIGNO 1 to 31 to its process group; SIGKILL ends all of it. Nothing happens to one that has ended. */
int process_signal(struct process *p, int signo, struct err *e) MUST_CHECK;
/* All that belongs to it is stopped, or goes on: engine_freeze(). */
int process_freeze(struct process *p, bool frozen, struct err *e) MUST_CHECK;
/* Gives LEN bytes to its standard input, all or none: SERVER_BUSY while it has not read what came before, BUDGET_EXCEEDED
 * (BUDGET_RUN_INPUT) if too much of the user waits, INVALID_ARGUMENT if it reads no more. CLOSE: nothing
 * follows. */
int process_write(struct process *p, const void *data, size_t len, bool close,
		  struct err *e) MUST_CHECK;
void process_forget(struct process *p); /* kills it if it lives */

/* FN is called after output, when all input was taken, when the terminal has another size, and at the end, until the watch
 * is removed. */
struct process_watch {
	struct list node;
	void (*fn)(struct process_watch *w);
	/* It may miss no output: the process waits while more than PROCESS_AHEAD bytes of a stream lie beyond AT, which the
	 * watcher moves on, and says so by process_pace(), also after it has left. Without memory or budget for that much, a
	 * part is missed all the same: process_bytes() tells. */
	bool paced;
	uint64_t at[2]; /* positions in stdout and stderr */
};
#define PROCESS_AHEAD (64u << 10)
void process_watch(struct process *p, struct process_watch *w);
void process_unwatch(struct process_watch *w);
void process_pace(struct process *p);
struct process *process_ref(struct process *p);
struct process *process_unref(struct process *p);         /* returns NULL */
struct manager *process_manager(const struct process *p); /* of one that lives */

/* process_wait.c */
/* The number of one of PROCESS_SIGNALS; 0: it is none. */
int process_signal_number(const char *name);
/* A client waits for the end of a process, or for output. */
struct process_wait;
struct process_wait_request {
	const char *owner;   /* of the client: a wait takes one of its BUDGET_FOLLOWERS */
	uint64_t timeout_ns; /* 0: it does not wait */
	bool output;         /* output beyond FROM ends the wait, too */
	uint64_t from[2];    /* positions in stdout and stderr */
	/* Called once, after process_wait() has returned, and the wait is gone. P lives until FN
	 * returns. */
	void (*fn)(struct process *p, void *user);
	void *user;
};
/* *RET NULL: there is nothing to wait for, and FN is not called. */
int process_wait(struct process *p, const struct process_wait_request *q, struct process_wait **ret,
		 struct err *e) MUST_CHECK;
void process_wait_cancel(struct process_wait *w); /* FN is not called; NULL is fine */

/* How a process keeps the credential with which it was started. */
struct process_credentials {
	void *(*ref)(const void *credential);
	void (*unref)(void *credential);
};
void manager_keep_credentials(struct manager *m, const struct process_credentials *c); /* copied */
/* Kills the processes that were started with a credential for which REVOKED is true. */
void manager_end_processes(struct manager *m, bool (*revoked)(const void *credential));

void processes_forget_all(struct sandbox *s); /* the sandbox is being freed: none lives */
/* For manager_end_processes(): USER is the address of its REVOKED. */
void process_end_revoked(struct process *p, void *user);
