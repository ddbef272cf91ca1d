/* SPDX-License-Identifier: Apache-2.0 */
/* What warm interpreters are told and what they say. Prose and pictures: docs/runtime-frames.md.
 *
 * Two kinds of channel, both SOCK_SEQPACKET, one frame a message, native byte order (both ends are
 * on one machine and of one build; RT_VERSION in the first frame proves it):
 *
 *   zygote channel       monitor ↔ zygote       RT_ZYGOTE_READY, RT_CLEAN → RT_CLEAN_DONE
 *   interpreter channel  init ↔ clean interpreter, spare or holder
 *                                               RT_HELLO, RT_ENTER, RT_READY, RT_FORK, RT_RUN,
 * RT_RUN_DONE
 *
 * A frame of a wrong size, kind or number of descriptors ends the receiver (the process side) or
 * the channel (the monitor's and init's side). Everything that comes out of an interpreter that has
 * run submitted code is hostile; of RT_RUN_DONE only the fields named there are looked at.
 *
 * Only kernel and C library headers: this file is also read by the extension inside the image. */
#pragma once

#include <stdint.h>

#define RT_VERSION 1u

#define RT_FDS_MAX 16 /* descriptors of one frame */
#define RT_LEAVES_MAX                                                                              \
	8 /* cgroup.procs descriptors of one leaf: one on v2, one a hierarchy on v1                \
	   */
#define RT_RLIMITS_MAX 16
#define RT_ENV_MAX     (96 * 1024) /* bytes of NAME=VALUE\0 … of one run */
#define RT_CWD_MAX     4096
#define RT_PRELOAD_MAX 4096 /* bytes of the list of modules to preload */

enum rt_kind {
	RT_NONE = 0,
	/* zygote → monitor, once: imports are done, the heap is frozen. */
	RT_ZYGOTE_READY,
	/* monitor → zygote: make a clean interpreter. Descriptors: pidfd of init, the interpreter
	 * channel, then struct rt_clean.n_leaves descriptors of cgroup.procs of the keep leaf. */
	RT_CLEAN,
	/* zygote → monitor: the answer, in order. rt_head.error says why not. What fails later is
	 * seen by init: its end of the interpreter channel reports EOF before RT_READY. */
	RT_CLEAN_DONE,
	/* clean interpreter → init: there, a child of init, not yet inside. Its pid is in the
	 * kernel's SCM_CREDENTIALS of the message (init sets SO_PASSCRED); so is that of every
	 * RT_READY. */
	RT_HELLO,
	/* init → clean interpreter: the sandbox is complete, enter it. */
	RT_ENTER,
	/* interpreter → init: isolated and waiting. */
	RT_READY,
	/* init → clean interpreter, holder, or a holder's fork that waits: fork a spare.
	 * Descriptors: the spare's interpreter channel; when has_ruleset is 1 the Landlock rules of
	 * runs (only to the clean interpreter: a holder's forks have them already); when has_proc
	 * is 1 a writable /proc; n_leaves descriptors of cgroup.procs of the run leaf. The spare
	 * makes a session of its own, joins the leaf, takes its limits, ties itself by the rules
	 * and the filter, and says RT_READY. No answer but that; a failure is an EOF there. */
	RT_FORK,
	/* init → spare, once: run. Descriptors: stdin, stdout, stderr, source and, when RT_STATEFUL
	 * is set, the place for the result text;
	 * when RT_TAIL is set, the output tail. After it: struct rt_run, env bytes, cwd bytes. */
	RT_RUN,
	/* spare → init, stateful runs only: the code has returned and this process is the state
	 * from now on; it waits for RT_FORK. A stateless run has no channel: its end is its exit,
	 * or its name when RT_NAMED_END is set. */
	RT_RUN_DONE,
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
	uint64_t anon_bytes; /* private memory of the zygote, 0 = unknown */
	uint64_t huge_bytes; /* of it in huge pages */
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

struct rt_fork {
	struct rt_head h;
	uint32_t n_leaves;
	uint32_t has_ruleset; /* 0 or 1 */
	uint32_t has_proc;    /* 0 or 1 */
	uint32_t oom_score;   /* for oom_score_adj, when has_proc */
	uint32_t n_rlimits;
	uint32_t awaited; /* 0 or 1: a run waits for it, so nothing is rehearsed */
	uint32_t
	    self; /* 0 or 1: no fork, the clean interpreter becomes the spare; its channel ends */
	uint32_t unused;
	struct rt_rlimit rlimit[RT_RLIMITS_MAX];
};

enum rt_run_flag {
	RT_STATEFUL = 1u << 0, /* keep the variables; run in the state of the holder */
	RT_DISPLAY = 1u << 1,  /* save figures that are open and unsaved at the end */
	/* When all is done the run may take the name of RT_END_FORMAT and stop; its parent then
	 * kills it. Only the kernel's freeing of the memory is left then, which is not waited for.
	 */
	RT_NAMED_END = 1u << 2,
	RT_TAIL = 1u << 3, /* the last descriptor is that of base/output_tail.h */
};

/* The name (prctl(2), PR_SET_NAME; at most 15 characters) of a run that is over: exit status and
 * largest resident set in KiB. Any code can take it, and gains by that what os._exit() gives it. */
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
	uint32_t cwd_len; /* at most RT_CWD_MAX, no NUL */
	uint32_t unused;
};

struct rt_run_done {
	struct rt_head h;
	int32_t status;  /* 0, or 1 after an exception: exit status that `python3` would have had */
	uint32_t lost;   /* enum rt_lost: what of the state a fork cannot carry */
	uint64_t cpu_ns; /* as the process itself counts it */
	uint64_t max_rss; /* bytes */
};

enum rt_lost {
	RT_LOST_THREADS = 1u << 0, /* threads that the run left behind */
};
