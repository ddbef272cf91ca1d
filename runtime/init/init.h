/* SPDX-License-Identifier: Apache-2.0 */
/* init: PID 1 of a sandbox, a static program that the monitor executes from a sealed memfd.
 *
 * The monitor starts it: as the first process of a new pid namespace, with the sandbox channel as
 * descriptor 0, three capabilities in its own user namespace, and a copy of the image's template as
 * its mounts. init reads its configuration from the channel, finishes the isolation
 * (setup_root.c), gives up every privilege, and sends INIT_READY.
 *
 * From then on it is one loop (init.c) over ppoll(2). It waits for:
 *   liveness    its end means that the monitor has ended
 *   signalfd    children have ended or stopped
 *   channel     messages from the front, below
 *   interpreters  clean, spare, session process, its backup, a fork of a checkpoint; runs may write anything to them
 *   requests    of programs in the sandbox, and the porter that reads them (asked.h)
 *
 * It holds three things that a run must not have: the channel, descriptors of the run's cgroups,
 * and pid 1. It has no other right that a run lacks. Runs have the same uid. They cannot harm it:
 * the kernel drops signals that PID 1 does not handle (pid_namespaces(7)); it is not dumpable, so
 * nobody can trace it or read its /proc folder; Landlock and the system call filter bind runs.
 *
 * Messages (engine/protocol/messages.tbl.h has their structs, init.c the table of handlers):
 *   INIT_CONFIG  first, from the monitor; answered by INIT_READY, or INIT_FAILED and the end
 *   INIT_RUN     start a run; answered by INIT_ENDED when it is over
 *   INIT_SIGNAL  signal the run, or kill all of it
 *   INIT_FILE, INIT_MOVE, INIT_SET  files; answered by INIT_FILED
 *   INIT_WATCH   changes of folders and of ports; answered by INIT_CHANGED
 *   INIT_WARM    a channel to a new clean interpreter; INIT_COLD asks for one
 *   INIT_REST    release the interpreters that can be made again
 *   INIT_KEEP    flush what is uploaded from now on
 *   INIT_CHECKPOINT  save, restore or drop a checkpoint, write a layer; answered by INIT_CHECKPOINTED
 *   INIT_FORGET  end the session of a context
 *   INIT_HEALTH  answer GET /health at a port (health.h)
 *
 * A run, one at a time (run_state.c has the table of the steps, run_start.c takes most of them):
 *
 *   NONE --> WAITING --> RUNNING ------------> ENDING --> NONE
 *     ^         |           '---> KILLING ------^
 *     '---------'
 *
 *   WAITING   accepted. A warm run stays here while its interpreter is being forked; after a limit
 *             it starts cold. It returns to NONE if it cannot start or is signalled.
 *   RUNNING   a spare was given the run (warm_spares.c, session_state.c), or a child was forked
 *             that executes Python or a command (run_child.c)
 *   KILLING   the front, a deadline or a limit has ended it: all its processes were sent SIGKILL
 *             (run_kill.c)
 *   ENDING    its first process has ended, has named its end (run_end.c) or, in a session, has
 *             reported that the code returned. All other processes of the run were sent SIGKILL.
 *   NONE      no process of it is left, and INIT_ENDED was sent
 *
 * session.h has the states of a session. Background processes begin and end beside runs: background.c.
 *
 * A deadline sends SIGTERM and, after a grace period, kills everything. A cell of a session gets SIGINT, which is
 * KeyboardInterrupt, so that the session can go on; then its process group does, for it may wait for a child. Memory without a cgroup
 * (memory_watch.c) and disk space without a limited file system (disk_use.c) are watched while a
 * run is on.
 *
 * Contained: an engine on containers starts this same program as the first process of a container,
 * with the path of its channel as argument. The container has all mounts and no privileges. init
 * checks that, and itself starts the interpreter from which runs are forked (own_zygote.c).
 *
 * init ends when the liveness pipe or the channel ends, and on any impossible message. The kernel then
 * kills every process of the sandbox. */
#pragma once

#include "engine/protocol/proto.h"
#include "file_tree.h"
#include "session.h"
#include "walls/filter_load.h"
#include "watches.h"

#include <dirent.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#define INIT_FDS_MAX     PROTO_CONFIG_PROCS_MAX
#define INIT_LEAVING_MAX 4           /* runs that are over and still being freed */
#define FDS_LAST         0x7fffffffU /* for close_range(2): gVisor takes it for a signed number */
#define RUN_CODE_FD      3  /* where a Python run finds its source; runtime/python/boot.py */
#define STORE_INODES     2  /* of the workspace's file system: its folders `data` and `venv` */
#define DISK_INODES      15 /* of a stored one: three more folders, and those of ext4 */
#define SESSION_INODES                                                                             \
	13          /* of a session's disk: also `checkpoints`, and what ext4 keeps for itself */
#define DISK_KEPT 4 /* folders of a stored sandbox besides the workspace */

enum run_state { RUN_NONE, RUN_WAITING, RUN_RUNNING, RUN_KILLING, RUN_ENDING };
enum run_form {
	RUN_COLD,     /* a child of init that executes Python or a command */
	RUN_WARM,     /* a spare; it may report its end by its process name (run_end.c) */
	RUN_STATEFUL, /* the session process, or the spare that is to be it */
};

struct init_run {
	enum run_state state; /* changed by run_to() alone */
	enum run_form form;
	uint32_t id;    /* the front's number for it; 0 in NONE */
	pid_t pid;      /* RUNNING, KILLING: first process, also its process group and session */
	bool forked;    /* from the clean interpreter: it may exec a bare Python (places.py) */
	uint32_t flags; /* PROTO_ENDED_* */
	uint32_t gone;  /* STATEFUL: what ended with its process, PROTO_KIND_* */
	int status;     /* of the first process, wait(2) */
	int error;      /* pipe: errno when the start failed, else end of file */
	uint32_t left;  /* processes found when it ended, where init lists them */
	uint32_t killed;
	uint64_t started_ns, ended_ns;
	uint64_t term_at, group_at, kill_at; /* 0 = never */
	uint64_t grace_ns;
	uint64_t cpu_ns, max_rss;
	uint32_t cell;       /* STATEFUL: its number in the session, 0 = it has not said */
	uint64_t orphans_ns; /* CPU time of its processes whose parent had ended */
};

enum background_state { BACKGROUND_FREE, BACKGROUND_RUNNING, BACKGROUND_ENDING };
struct init_background {
	enum background_state state;
	uint32_t id;  /* the front's number for it, as that of a run */
	pid_t reaper; /* 0 = its processes have a mark */
	pid_t pid;    /* first process, its group and session; 0 = not known yet, or reaped */
	int signo;    /* is due when it is known; 0 = none */
	int error;    /* as in struct init_run */
	bool has_status;
	int status;
	uint32_t flags; /* PROTO_ENDED_* */
	uint32_t killed;
	uint64_t started_ns, ended_ns, frozen_ns; /* FROZEN: 0 = it is not */
	uint64_t term_at, kill_at, grace_ns;      /* 0 = never */
	uint64_t again_at;                        /* ENDING; FROZEN: 0 = all rest */
	int terminal;                             /* the master of its terminal; 0 = it has none */
	uint64_t cpu_ns, max_rss;
};
enum background_by { BACKGROUND_BY_UNKNOWN, BACKGROUND_BY_REAPERS, BACKGROUND_BY_MARKS };
struct init_backgrounds {
	struct init_background at[PROTO_BACKGROUND_MAX];
	enum background_by by;               /* how their processes are told: background_owner.c */
	const struct init_background *ended; /* MARKS: owner of the process that is reaped next */
	uint32_t n;                          /* that are not FREE */
	int reports[2];                      /* pipe from the reapers; 0 = not made yet */
};

struct init_leaving { /* a stopped process that never executes again */
	pid_t pid;    /* 0 = free */
	bool killed;  /* it has been sent SIGKILL */
};

struct init_zygote {    /* contained: init starts the interpreter itself (own_zygote.c) */
	bool wanted;    /* false = every run starts its own */
	unsigned tries; /* in a row that ended soon */
	uint64_t began;
	int said; /* a memory file: its standard error; 0 = not made yet, or not to be had */
};

enum warm_state { WARM_NONE, WARM_COMING, WARM_CLEAN };
enum spare_state { SPARE_NONE, SPARE_FORKING, SPARE_READY };
struct init_warm {
	int channel; /* to the clean interpreter; -1 = there is none */
	bool soon;   /* a new one is being forked; its hello is due */
	enum warm_state state;
	pid_t clean; /* 0 until its hello */
	int spare_channel;
	enum spare_state spare_state;
	pid_t spare;     /* 0 until it is ready */
	bool told_cold;  /* the front was told (INIT_COLD) that there is no clean interpreter */
	bool forks;      /* it forks spares; false: it becomes the next spare itself */
	bool spent;      /* that happened, and no other clean interpreter has come since */
	uint64_t shared; /* memory of a clean interpreter in bytes, where no cgroup counts memory */
	bool rest;       /* the front sent INIT_REST; init follows it between runs */
};

/* Checkpoints of the sandbox (checkpoints.c). */
enum checkpoint_state {
	CHECKPOINT_FREE,
	CHECKPOINT_FILES, /* files alone */
	CHECKPOINT_LIVE,  /* and an interpreter: what was the session's backup */
	CHECKPOINT_LOST,  /* files, and an interpreter that has ended since */
};
struct init_checkpoint {
	enum checkpoint_state state;
	pid_t pid;    /* LIVE */
	int channel;  /* LIVE */
	bool carries; /* LIVE; as in the session */
};
enum checkpoints_phase {
	CHECKPOINTS_IDLE,
	CHECKPOINTS_FORKING,
	CHECKPOINTS_COPYING,
	CHECKPOINTS_UNDOING
};
struct init_checkpoints {
	int store; /* folder of a file system that is mounted nowhere, -1 = none */
	struct init_checkpoint at[PROTO_CHECKPOINTS_MAX];
	/* The request that is being handled. */
	enum checkpoints_phase phase;
	struct proto_init_checkpoint f;
	uint64_t until; /* deadline of this phase */
	pid_t fork;     /* RESTORE: the process that becomes the session's; 0 = not there yet */
	int fork_channel;
	pid_t copier;
	int report;     /* pipe from the copier: struct copier_report */
	int layer;      /* LAYER: pipe to the reader, borrowed while the copier is forked */
	int error;      /* UNDOING: errno of the copy that failed */
	char aside[32]; /* RESTORE: folder that holds the files as they were before */
	bool direct;    /* RESTORE: these were removed first, because both do not fit */
	struct tree_count count;
};

/* What a folder on a file system of the host holds, where no limit of a file system applies:
 * disk_use.c. */
#define DISK_DEPTH_MAX 256 /* folders in folders; deeper ones cannot be counted */
struct disk_use {
	uint64_t bytes;  /* allocated; a file with several names counts once */
	uint64_t inodes; /* names */
};
struct init_disk {
	bool counts;             /* false = a file system holds the limits */
	bool due;                /* something has changed since the last walk */
	bool walking;            /* a walk is under way */
	int kept[DISK_KEPT];     /* O_PATH of the folders besides the workspace; only if `counts` */
	struct disk_use known;   /* result of the last walk */
	struct disk_use found;   /* so far, in the walk under way */
	struct disk_use before;  /* when the run began */
	uint64_t host_room;      /* bytes that the host can give, at the last look */
	uint64_t began, next_at; /* start of the walk; when the next is due in a run */
	uint32_t folder;         /* 0 = workspace, then `kept` */
	uint32_t depth;
	DIR *open[DISK_DEPTH_MAX];
};

/* RUN_WAITING: what the run needs to start. */
struct init_waiting {
	struct proto_init_run f;
	uint32_t asked; /* how often init asked for another clean interpreter */
	uint64_t until; /* from then on the run starts cold */
	int fds[PROTO_RUN_BASE_FDS + PROTO_RUN_MORE_FDS];
	size_t n;
};

struct init_put {
	bool used;
	int fd; /* unnamed file that is being written; -1 = the front has the file (carried_files.c) */
	uint32_t number;
};

/* A file that is being copied from or to a file of the front's (carried_files.c). */
#define CARRY_TEMP 32
struct init_carry {
	bool used;
	uint32_t seq;
	int from, to;
	uint64_t left; /* OPEN: bytes; COMMIT: no bound, the file system has one */
	struct proto_init_filed answer;
	/* COMMIT */
	int parent; /* O_PATH; -1 = this is no COMMIT */
	uint64_t unflushed;
	bool overwrite;
	char temp[CARRY_TEMP];
	char name[PROTO_NAME_MAX];
};
#define INIT_CARRIES_MAX 16

struct init_remove { /* a folder that is being removed, a slice at a time */
	bool active;
	uint32_t seq;
	uint32_t slices;
	char path[PROTO_PATH_MAX];
};

struct init {
	int channel, liveness, children; /* children: signalfd(SIGCHLD) */
	int proc;                        /* O_PATH of a writable /proc that is mounted nowhere */
	int oom_score;                   /* its own /proc/self/oom_score_adj; -1 = none */
	int workspace, tmp, home, root;  /* O_PATH of /mnt/data, /tmp, /home/sandbox, / */
	int dev;                         /* a /dev to mount; -1 = take the template's */
	int store;                       /* a stored workspace to mount; -1 = make one in memory */
	int ballast;         /* O_PATH of the folder of a disk's ballast; -1 = no disk */
	int packages, image; /* to mount: packages, -1 = the workspace's; what root_user.h says */
	int lock;            /* of a stored workspace, kept open until the end; -1 */
	int egress;          /* the listening socket, until the front has it; -1 */
	bool stored;         /* the workspace outlives the sandbox */
	bool flushes;   /* so uploads are on the disk before they are told to be there; INIT_KEEP */
	bool on_disk;   /* the workspace is on a disk, not in memory */
	bool contained; /* in a container, whose mounts are complete: see main() */
	bool inward;    /* descriptors pass to init only: the kernel is gVisor's */
	char python[64]; /* program of cold runs; "" = the image has none */
	int landlock;    /* prepared rules, -1 = none */
	int kill;        /* cgroup.kill of the run leaf, -1 = none */
	int procs[INIT_FDS_MAX];
	uint32_t n_procs;
	struct proto_init_config config;
	struct sock_filter filter[FILTER_MAX];
	uint16_t n_filter;
	struct init_run run;
	struct init_backgrounds background;
	struct init_leaving leaving[INIT_LEAVING_MAX];
	uint64_t defer_until; /* nothing is freed or forked before; 0 = not now (run_end.c) */
	uint64_t told_at;     /* when the front was told of the last end; 0 = never */
	uint32_t awake;    /* of those that kill_each() saw last: neither stopped nor about to be */
	uint32_t dying;    /* of those, too: they were sent SIGKILL */
	bool strangers;    /* kill_strangers() is due */
	bool back_to_back; /* the client sends statements back to back: fork the next one at once */
	struct init_warm warm;
	struct init_zygote zygote;
	struct init_session session;
	struct init_contexts contexts;
	struct init_checkpoints checkpoints;
	struct init_waiting waiting;
	uint64_t watch_at; /* next check of memory and sockets; 0 = no run is on */
	struct init_disk disk;
	struct init_put puts[PROTO_PUTS_MAX];
	struct init_remove remove;
	struct init_carry carries[INIT_CARRIES_MAX];
	struct init_watches watches;
};

/* CLOCK_MONOTONIC, in nanoseconds. */
static inline uint64_t init_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* init.c */
_Noreturn void init_die(const char *why);
void init_send(struct init *in, const struct proto_head *frame, const int *fds, size_t n);
/* Opens `oom_score`, while init is still dumpable: later its /proc files belong to root. */
void init_open_score(struct init *in);
/* fork(2) of a process that the kernel shall kill before others when memory is short: its oom_score_adj is SCORE. That
 * is a preference, so a failure is ignored. */
pid_t init_fork(const struct init *in, uint32_t score);

/* setup_root.c: the rest of the isolation. 0, or -errno and the step. */
int init_setup(struct init *in, enum proto_step *ret_step);
/* kept_folders.c: removes what a dead process of a stored sandbox left in /tmp and the home folder. */
void kept_tidy(void);
/* Drops what is left of the privileges and reads them back. */
int init_drop(void);

/* run_end.c */
struct end {
	int status; /* 0 to 255 */
	uint64_t cpu_ns, max_rss;
};
/* Whether the run has named its end (run_end.c). If so it is on the list of those that leave. */
bool end_look(struct init *in, struct end *ret);
/* Has PID, which is stopped, killed when init does what it deferred. False = the list is full. */
bool end_leave(struct init *in, pid_t pid);
bool end_is_leaving(const struct init *in, pid_t pid);
bool end_any(const struct init *in);         /* is a process on the list? */
bool end_any_stopped(const struct init *in); /* is one on the list that was not killed yet? */
bool end_reaped(struct init *in, pid_t pid); /* PID has ended; was it on the list? */
/* Whether PID, alive or not yet reaped, has called execve(2) since it was forked. */
bool end_has_executed(const struct init *in, pid_t pid);
enum end_look {
	END_GONE,    /* or a zombie */
	END_DYING,   /* it was sent SIGKILL and executes nothing any more */
	END_STOPPED, /* or a SIGSTOP waits for it */
	END_WAITING, /* uninterruptible: for a disk, or in vfork(2) for its child, and may have been stopped */
	END_ENTERING, /* of the zygote: on its way into the sandbox, and init does not know it yet */
	END_ALIVE,
};
enum end_look end_look_at(const struct init *in, pid_t pid);
struct end_stat {
	pid_t parent;
	uint64_t start; /* clock ticks since the machine was started */
};
bool end_stat(const struct init *in, pid_t pid,
	      struct end_stat *ret); /* false: there is no such process */
/* A run is over, and the front needs the CPU to answer its client: see run_end.c. */
void deferral_begin(struct init *in);
void deferral_look(struct init *in, bool stateful); /* a run has come: sets `back_to_back` */
void deferral_end(struct init *in);                 /* call before anything of a tenant executes */
void deferral_work(struct init *in);                /* when it is time */

/* run_state.c: the only place that changes the state of a run. ENDING clears pid, NONE everything. */
void run_to(struct init *in, enum run_state state);

/* The earlier of two times; 0 = never. */
static inline uint64_t init_sooner(uint64_t a, uint64_t b)
{
	return a != 0 && (b == 0 || a < b) ? a : b;
}

/* Whether the run that is on, if one is, has started: processes of it may exist. */
static inline bool run_is_on(const struct init *in)
{
	return in->run.state >= RUN_RUNNING;
}

/* Whether submitted code may execute. */
static inline bool init_executes(const struct init *in)
{
	return run_is_on(in) || in->background.n > 0;
}

/* run_start.c */
void run_start(struct init *in, const struct proto_init_run *f, const int *fds, size_t n);
void run_signal(struct init *in, const struct proto_init_signal *f);
void run_reap(struct init *in);           /* reaps the children that have ended */
void run_tick(struct init *in);           /* acts on deadlines that have passed */
uint64_t run_next(const struct init *in); /* the next deadline, 0 = none */
void run_returned(struct init *in, int status, uint64_t cpu_ns,
		  uint64_t max_rss);  /* the run's first process has returned */
void run_waiting(struct init *in);    /* starts the waiting run if it can start now */
void run_watch_disk(struct init *in); /* counts a workspace that no file system limits */

/* run_kill.c. Kept are init, the interpreters that wait, and the processes on the leaving list. */
bool kill_keeps_any(const struct init *in); /* is any process kept besides init? */
/* Calls FN with SIGNO for each process of the namespace other than those that are kept; returns how many there were. */
uint32_t kill_each(struct init *in, void (*fn)(struct init *, pid_t, int), int signo);
/* Sends each of them SIGNO (0 = nothing) that is not of the session either, and returns how many these were. */
uint32_t kill_others(struct init *in, int signo);
void kill_run(struct init *in); /* kills every process of the run that is on */
/* Between runs: kills every process that is not kept. If init does not know all of those yet, it sets `strangers`, and
 * the loop comes again. */
void kill_strangers(struct init *in);
/* Continues what SIGSTOP to all processes has stopped, except what waits stopped. */
void kill_wake(const struct init *in);

/* background.c */
struct run_child;
int background_start(struct init *in,
		     struct run_child *c); /* 0 or -errno; EAGAIN = there are too many */
/* Whether there is one with the number of F; if so, it gets the signal. */
bool background_signal(struct init *in, const struct proto_init_signal *f);
bool background_resize(struct init *in,
		       const struct proto_init_signal *f); /* false: F is a signal */
void background_end_all(struct init *in, uint32_t flag);   /* PROTO_ENDED_*: why */
void background_events(struct init *in); /* the pipe from the reapers can be read */
/* Whether PID was a reaper, or a process with a mark; then USE counts for its background process. */
struct rusage;
bool background_reaped(struct init *in, pid_t pid, int status, const struct rusage *use);
void background_tick(struct init *in);
uint64_t background_next(const struct init *in); /* when that is due; 0 = never */
/* Stops every process that is none of these, as far as they can be told apart; else all for a moment. */
void background_stop_others(const struct init *in);

/* background_owner.c */
bool background_any(const struct init *in);
bool background_keeps(const struct init *in, pid_t pid); /* PID belongs to one, or is a reaper */
const struct init_background *background_owner(const struct init *in, pid_t pid); /* NULL = none */
bool background_marks(struct init *in); /* true = by marks, false = by reapers */
uint64_t background_mark(uint32_t id);  /* of the one with this number */
/* Whether background_look() is due for each process before it is reaped: then its mark is gone. */
bool background_looks(const struct init *in);
void background_look(struct init *in, pid_t pid);

/* venv_env.c. ENV holds LEN bytes of NAME=VALUE\0 and has room for ROOM more; VENV_ROOM are enough.
 * If the sandbox has a virtual environment in /app/.venv, its bin is put first on PATH, VIRTUAL_ENV
 * is set, and COUNT grows by the variables that were added. Returns the new length. */
#define VENV_ROOM 64
size_t venv_extend(char *env, size_t len, size_t room, uint32_t *count);
bool venv_is_there(void);

/* run_child.c: runs between fork and exec. Never returns; the errno of a failure goes to ERROR. */
struct run_child {
	const struct init *in;
	const struct proto_init_run *f;
	int out, err, args, code, result, stdin_fd, tail; /* -1 = none */
	int error;
	/* Master of the terminal that the standard streams are, and that becomes the session's; 0 = none */
	int terminal;
};
_Noreturn void run_child(const struct run_child *c);

struct rt_rlimit;
/* Fills RET (RT_RLIMITS_MAX entries) with the limits of runs; returns their number. */
uint32_t run_limits(const struct init *in, struct rt_rlimit *ret);

/* warm_spares.c */
void warm_start(struct init *in, int channel, bool soon); /* CHANNEL -1 = cold runs only */
void warm_prepare(struct init *in); /* between runs: asks for a spare, or ends it for a rest */
/* INIT_WARM: takes CHANNEL to a new clean interpreter; -1 = there will be none. */
void warm_arrived(struct init *in, int channel, bool soon);
void warm_rest(struct init *in);           /* INIT_REST */
void warm_tell(struct init *in);           /* sends INIT_COLD once if the interpreter is gone */
uint64_t warm_next(const struct init *in); /* when warm_tell() is due; 0 = not by time */
/* Whether run F may not start now: it waits for an interpreter, or one is about to appear that
 * would be taken for a process of the run. */
bool warm_must_wait(const struct init *in, const struct proto_init_run *f);
/* The front says that F can be warm, but no interpreter is there or on its way. */
bool warm_is_lost(const struct init *in, const struct proto_init_run *f);
void warm_ask(struct init *in); /* sends INIT_COLD for a run that waits */
bool warm_can(const struct init *in, const struct proto_init_run *f);
/* Hands the run C to the spare. Its channel goes to RET_CHANNEL unless that is NULL. Returns its
 * pid, or -errno. */
pid_t warm_take(struct init *in, const struct run_child *c, int *ret_channel);
int warm_send_run(int channel, const struct run_child *c);
int warm_pair(int pair[2]);
/* Reads one frame of KIND that has SIZE bytes. Returns the sender's pid, 0 if no frame is there, or
 * -errno. */
pid_t warm_take_frame(int channel, unsigned kind, void *frame, size_t size);
/* Hands the spare the frame KIND with the descriptor FD (borrowed). Returns its pid, and its channel in RET_CHANNEL, or
 * -errno. */
pid_t warm_take_for(struct init *in, unsigned kind, int fd, int *ret_channel);
void warm_events(struct init *in, short clean, short spare);
void warm_give_up(struct init *in);           /* cold runs only from now on */
bool warm_reaped(struct init *in, pid_t pid); /* whether PID was an interpreter that waited */
/* There is a spare, but no clean interpreter that could make another one. */
bool warm_spare_alone(const struct init *in);
bool warm_is_spent(const struct init *in); /* neither is left: a warm run needs a new interpreter */

/* checkpoints.c */
void checkpoints_start(struct init *in);
/* PIPE: of a LAYER, borrowed; -1 = none. -1 = not a possible request. */
int checkpoints_handle(struct init *in, const struct proto_init_checkpoint *f, int pipe);
bool checkpoints_busy(const struct init *in); /* no run may start */
/* A kept fork is forking, and init does not know the new pid yet: no unknown process may be killed
 * meanwhile. */
bool checkpoints_forking(const struct init *in);
uint64_t checkpoints_next(const struct init *in); /* when it wants to be called again, 0 = never */
void checkpoints_choose(struct init *in);         /* a request may need the default context */
void checkpoints_work(struct init *in);
void checkpoints_events(struct init *in, short fork);
bool checkpoints_keep(const struct init *in, pid_t pid);
bool checkpoints_replace(
    const struct init *in); /* a RESTORE is under way: the session gets another process */
bool checkpoints_any(const struct init *in); /* a kept interpreter lives */
bool checkpoints_reaped(struct init *in, pid_t pid, int status);

/* copier.c: the main function of a child of init that copies files for a checkpoint request. UNDO:
 * removes what a copier that failed has left. Never returns; OUT gets a report. */
struct copier_report { /* sent at the end, and once before steps that may fail without harm */
	int32_t error;
	uint32_t touched; /* RESTORE: files of the workspace were changed */
	struct tree_count count;
};
_Noreturn void copier_main(const struct init *in, bool undo, int out);

/* own_zygote.c: the interpreter of a container of its own. */
void zygote_begin(struct init *in); /* after INIT_READY */
void zygote_again(struct init *in); /* its channel has ended: starts another one, a few times */

/* memory_watch.c: for hosts where no cgroup limits memory. Returns how many bytes are left; 0 = the
 * sandbox has reached its limit. */
uint64_t watch_memory(const struct init *in);
uint64_t watch_resident(const struct init *in, pid_t pid); /* bytes, without pages of files */

/* network.c */
/* Makes the socket buffers of the sandbox's network namespace small. Needs a mount namespace that
 * shows a whole /proc, so before pivot_root, and CAP_NET_ADMIN in the sandbox's user namespace. */
void sockets_bound(void);
/* True = so many TCP and UDP sockets are open that they can hold more than the memory limit. */
bool sockets_watch(const struct init *in);
/* Bytes that the UNIX sockets of the sandbox hold, as sock_diag(7) tells it; 0 where the kernel tells nothing,
 * UINT64_MAX / 2 for more sockets than anybody needs. */
uint64_t sockets_unix_bytes(void);
int loopback_up(void); /* 0 or -errno */
/* A socket, not blocking, that is or is being connected to PORT (1 to 65535) of 127.0.0.1, or else of ::1. The caller's.
 * -ECONNREFUSED: nobody listens there. */
int port_connect(uint32_t port);
/* Writes those of ports_read() to OUT. Their number, or -errno. */
int ports_list(const struct init *in, int out);
int egress_listen(void); /* the socket on 127.0.0.1:PROTO_EGRESS_PORT, or -errno */

/* sysv_ipc.c: bytes of the sandbox's System V objects, attached or not. Segments count with what is
 * in memory or swapped, semaphores and messages with what the kernel needs for them. */
uint64_t ipc_segments(void);
uint64_t ipc_kernel(void);
void ipc_clear(void); /* removes all; an attached segment goes with the last process that has it */

/* nameless_files.c: the files on device DEV that have no name and that processes other than init
 * have open. */
struct disk_use open_nameless(const struct init *in, dev_t dev);

/* disk_use.c. These do nothing if the workspace's file system has limits. */
void disk_start(struct init *in, const char *const kept[DISK_KEPT]); /* after the mounts */
bool disk_pending(const struct init *in);                            /* a slice of a walk is due */
uint64_t disk_next(const struct init *in); /* the next walk in a run; 0 = none */
/* Walks a slice. True = the run that is on has passed the limit of bytes or of files. */
bool disk_work(struct init *in);
/* A run is about to start. -EDQUOT: the workspace is so far over its limit that files must go. */
int disk_run_begins(struct init *in);
void disk_session_begins(struct init *in); /* variables are about to be written or read */
/* Whether one more file, FD (-1 = an empty one), has room: 0 or -EDQUOT. */
int disk_admit(struct init *in, int fd);
void disk_changed(struct init *in); /* the last walk is out of date */
struct disk_use disk_known(struct init *in);

/* carried_files.c */
/* Copies FILE, whose status is ST, into the front's file TO; both are borrowed. It answers SEQ at the end.
 * -EAGAIN: too many files are being copied, and there is no answer. */
int carry_out(struct init *in, uint32_t seq, int file, const struct stat *st, int to);
/* Copies the front's file FROM into a new file and gives it NAME in the folder PARENT (borrowed), as
 * carry_out(). */
int carry_in(struct init *in, uint32_t seq, int from, int parent, const char *name, bool overwrite);
bool carry_pending(const struct init *in);
void carry_work(struct init *in); /* a slice of each */

/* workspace_files.c */
/* FILE: the front's file that came with it, borrowed; -1 = none. -1 = not a possible request. */
int files_handle(struct init *in, const struct proto_init_file *f, int file);
bool files_pending(const struct init *in); /* a slice of work is due */
void files_work(struct init *in);
/* Makes the folder PATH, which is absolute and below the workspace, and its parents. A failure is left to
 * whoever enters it. */
void files_make_folder(const struct init *in, const char *path);
