/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between monitor, zygote, warm interpreters and init. Explanation: docs/runtime-frames.md.
 *
 * There are two kinds of channel. Both are SOCK_SEQPACKET; one message is one frame. Numbers are in
 * native byte order: both ends are on one machine and from one build, which RT_VERSION in the first
 * frame proves.
 *
 *   zygote channel       monitor ↔ zygote
 *                        RT_ZYGOTE_READY, RT_CLEAN → RT_CLEAN_DONE
 *   interpreter channel  init ↔ clean interpreter, spare, session process or backup
 *                        RT_HELLO, RT_ENTER, RT_READY, RT_BACKED, RT_FORK, RT_RUN, RT_RUN_DONE, RT_RESTED,
 *                        RT_WAKE → RT_WOKEN, RT_STORE → RT_WOKEN, RT_REVIVE → RT_REVIVED
 *
 * If a frame has a wrong size, kind or number of descriptors, an interpreter or zygote exits; the
 * monitor and init close the channel. Everything from an interpreter that has run submitted code is
 * hostile: of RT_RUN_DONE init reads only the fields of struct rt_run_done.
 *
 * This file includes only kernel and C library headers, because the extension inside the image is
 * compiled with it, too. */
#pragma once

#include <stdint.h>

#define RT_VERSION 3u

#define RT_FDS_MAX 16 /* descriptors of one frame */
/* cgroup.procs descriptors of one leaf: one on v2, one for each hierarchy on v1 */
#define RT_LEAVES_MAX  8
#define RT_RLIMITS_MAX 16
#define RT_ENV_MAX     (96 * 1024) /* bytes of NAME=VALUE\0 … of one run */
#define RT_CWD_MAX     4096
#define RT_PRELOAD_MAX 4096 /* bytes of the list of modules to import */

enum rt_kind {
	RT_NONE = 0,
	/* zygote → monitor, once: the imports are done and the heap is frozen. */
	RT_ZYGOTE_READY,
	/* monitor → zygote: make a clean interpreter. Descriptors: pidfd of init, the interpreter
	 * channel, then struct rt_clean.n_leaves descriptors of cgroup.procs of the keep leaf. */
	RT_CLEAN,
	/* zygote → monitor: the answer to RT_CLEAN, in order. rt_head.error is the reason of a
	 * failure. Init sees a later failure: its end of the interpreter channel reports EOF before
	 * RT_READY. */
	RT_CLEAN_DONE,
	/* clean interpreter → init: the interpreter runs as a child of init and has not entered the
	 * sandbox yet. Init learns its pid from SCM_CREDENTIALS of the message (init sets
	 * SO_PASSCRED), as with every RT_READY. */
	RT_HELLO,
	/* init → clean interpreter: the sandbox is complete; enter it. */
	RT_ENTER,
	/* interpreter → init: it is isolated and waits for a message. */
	RT_READY,
	/* init → clean interpreter: fork a spare. Init → session process: fork a backup.
	 * Descriptors, in this order: the interpreter channel of the new process; if has_ruleset is 1,
	 * the Landlock rules of runs (only for the clean interpreter: forks of a session process have
	 * them already); if has_proc is 1, a writable /proc; n_leaves descriptors of cgroup.procs of
	 * the run leaf. The new process calls setsid(), joins the leaf, sets its limits, applies the
	 * rules and the system call filter, and sends RT_READY. A failure is an EOF on its channel. */
	RT_FORK,
	/* init → spare, session process or backup: run. Descriptors: stdin, stdout, stderr, source; if
	 * RT_STATEFUL or RT_NOTEBOOK is set, the file for the result text; if RT_TAIL is set, the
	 * output tail. Bytes: struct rt_run, environment, working folder. */
	RT_RUN,
	/* session process → init, stateful runs only: the code has returned. The process waits for
	 * RT_FORK or RT_RUN from now on. A stateless run closes its channel at the start: init sees its
	 * end as an exit, or by its process name if RT_NAMED_END is set. */
	RT_RUN_DONE,
	/* session process → init, after an RT_FORK with `rests`: it may be stopped now. rt_head.error
	 * says why there is no backup, if there is none. Bytes: struct rt_rested. */
	RT_RESTED,
	/* init → backup: take the place of the session process, which has died. With a descriptor: it
	 * cannot go on in a fork, so write its variables into this file. */
	RT_WAKE,
	/* backup → init, the answer: struct rt_woken. An error is an EOF. */
	RT_WOKEN,
	/* init → spare: be the session process that the file, a descriptor, describes. */
	RT_REVIVE,
	/* spare → init, the answer: struct rt_woken, whose `gone` are the names that could not be read. */
	RT_REVIVED,
	/* backup → init: it is ready and waits. Bytes: struct rt_backed. Its sender is known as with RT_READY. */
	RT_BACKED,
	/* init → backup: the sandbox comes to rest. As RT_WAKE with a descriptor, into a file that outlives it. */
	RT_STORE,
	RT_KIND_MAX_,
};

struct rt_head {
	uint32_t kind; /* enum rt_kind */
	int32_t error; /* positive errno, 0 = none */
};

struct rt_zygote_ready {
	struct rt_head h;
	uint32_t version; /* RT_VERSION */
	uint32_t modules; /* entries of sys.modules */
	uint32_t threads; /* must be 1 */
	uint32_t import_ms;
	uint64_t anon_bytes; /* private memory of the zygote; 0 = unknown */
	uint64_t huge_bytes; /* how much of it is in huge pages */
};

struct rt_clean {
	struct rt_head h;
	uint32_t uid, gid; /* inside the sandbox's user namespace; not 0 */
	uint32_t n_leaves;
	uint32_t unused;
};

struct rt_rlimit {
	uint32_t resource;
	uint32_t unused;
	uint64_t cur, max;
};

struct rt_rested {
	struct rt_head h;
	uint32_t carries; /* 0 or 1: the backup lacks threads that it would need */
	uint32_t unused;
};

struct rt_backed {
	struct rt_head h;
	uint32_t
	    connections; /* of the session, which the backup has not: network sockets and databases */
	uint32_t unused;
};

#define RT_GONE_MAX 152 /* bytes of the names that are told */
struct rt_woken {
	struct rt_head h;
	uint32_t kept; /* names that were written or read; 0 if the backup goes on as it is */
	uint32_t gone; /* and those that were not */
	char names[RT_GONE_MAX]; /* the first of those, "con, pool", UTF-8, ends with a NUL */
};

struct rt_fork {
	struct rt_head h;
	uint32_t n_leaves;
	uint32_t has_ruleset; /* 0 or 1 */
	uint32_t has_proc;    /* 0 or 1 */
	uint32_t oom_score;   /* for oom_score_adj, if has_proc is 1 */
	uint32_t n_rlimits;
	uint32_t awaited; /* 0 or 1: a run waits for this fork, so nobody rehearses */
	uint32_t self;    /* 0 or 1: no fork, the clean interpreter becomes the spare */
	uint32_t rests;   /* 0 or 1: a session process answers RT_RESTED */
	struct rt_rlimit rlimit[RT_RLIMITS_MAX];
};

enum rt_run_flag {
	RT_STATEFUL = 1u << 0, /* keep the variables for the next run of the session */
	RT_DISPLAY = 1u << 1,  /* save figures that are open and unsaved at the end */
	/* When everything is flushed, the run may write its exit status into its process name
	 * (RT_END_FORMAT) and stop itself; init then kills it. The client need not wait until the
	 * kernel has freed the memory. */
	RT_NAMED_END = 1u << 2,
	RT_TAIL = 1u << 3, /* the last descriptor is the memory of base/output_tail.h */
	/* As in a notebook: the value of a last expression, await at the top level, `!command` and
	 * `%magic`, folded tracebacks with hints. */
	RT_NOTEBOOK = 1u << 4,
	RT_ERRORS =
	    1u << 5, /* with RT_NOTEBOOK: exceptions are records (tracebacks.py) and not printed */
};

/* The process name of a run that has ended: exit status, and peak resident set in KiB. prctl(2)
 * PR_SET_NAME takes at most 15 characters. Any code can take such a name; that gains it no more
 * than os._exit() does. */
#define RT_END_FORMAT    ":%03u%011llu"
#define RT_END_STATUS_AT 1
#define RT_END_STATUS    3 /* digits */
#define RT_END_RSS_AT    4
#define RT_END_RSS       11
#define RT_END_LEN       15

struct rt_run {
	struct rt_head h;
	uint32_t flags;   /* enum rt_run_flag */
	uint32_t env_len; /* at most RT_ENV_MAX, ends with a NUL unless 0 */
	uint32_t cwd_len; /* at most RT_CWD_MAX, without a NUL */
	uint32_t unused;
};

struct rt_run_done {
	struct rt_head h;
	int32_t status; /* exit status that `python3` would have had: 0, or 1 after an exception */
	uint32_t left;  /* enum rt_left */
	uint32_t cell;  /* which one of the session it was, from 1: tracebacks say so */
	uint32_t threads; /* of the process, also those that Python does not know */
	uint64_t cpu_ns;  /* CPU time as the process itself counts it */
	uint64_t max_rss; /* bytes */
};

enum rt_left {                             /* what the cell left in the session */
	       RT_LEFT_THREADS = 1u << 0,  /* threads of Python, which rest until the next cell */
	       RT_LEFT_SERVICES = 1u << 1, /* all of them begin again after a crash */
};
