/* SPDX-License-Identifier: Apache-2.0 */
/* Stateful runs, in PID 1 of a sandbox.
 *
 * A session (session_state.c). Its process has the variables:
 *
 *   NONE --> RUNNING --> HELD --> FORKING --> READY --> RUNNING     any of them --> NONE: it is lost
 *                        HELD, READY --> RESTING --> HELD
 *                        any of them --> NONE --> WAKING --> HELD: another process takes its place
 *
 *   NONE      there is no state: the first stateful run takes the spare of the clean interpreter
 *   RUNNING   a cell executes in the session process; the backup, if there is one, is stopped
 *   HELD      the session process is stopped and has no backup
 *   FORKING   between runs: it forks the backup, and rehearses
 *   READY     it is stopped. So is the backup, or none could be made.
 *   RESTING   HELD, and init wants no backup before a stateful run or a checkpoint needs it
 *   WAKING    it has died. Its backup wakes up, or writes its variables for a spare to read. */
#pragma once

#include "engine/protocol/proto.h"
#include "frames.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct init;
struct run_child;

/* How long init waits for a session process to fork. After it the process counts as dead, so it is long: a fork takes
 * milliseconds, but a machine that swaps or is suspended takes seconds. */
#define SESSION_FORK_WAIT_NS UINT64_C(10000000000)
#define SESSION_FORK_LOOK_NS UINT64_C(20000000) /* between two looks at the memory meanwhile */
enum session_state {
	SESSION_NONE,
	SESSION_HELD,
	SESSION_RESTING,
	SESSION_FORKING,
	SESSION_READY,
	SESSION_RUNNING,
	SESSION_WAKING,
};
enum waking {
	WAKING_WAITS,   /* until no process of the run is left */
	WAKING_BACKUP,  /* RT_WAKE was sent */
	WAKING_SPARE,   /* the variables are written; there is no process before a spare is there */
	WAKING_REVIVES, /* RT_REVIVE was sent */
};
struct init_noted {
	pid_t pid;
	uint64_t start; /* field 22 of /proc/PID/stat, proc(5) */
};
#define SESSION_NOTED_MAX 1024 /* those beyond end with the next run of another kind */
struct init_session {
	enum session_state state;
	pid_t pid; /* the session process; 0 in NONE */
	int channel;
	pid_t backup; /* 0 = there is none, or it is not ready yet */
	int backup_channel;
	/* HELD, FORKING: the backup from before the last cell, until another one is there */
	pid_t old;
	int old_channel;
	bool old_carries;
	pid_t gone_pid; /* an earlier session process that was killed and is not reaped yet */
	bool rested;    /* FORKING: the session process may be stopped */
	bool
	    carries; /* the backup lacks threads that it would need: its variables are written and read */
	enum waking waking;
	int carried;    /* WAKING: the file between the backup and the spare; -1 */
	uint64_t until; /* FORKING, WAKING: then it counts as dead; 0 = not begun */
	uint64_t look_at,
	    look_in; /* when init looks whether all that should is stopped, and how long after the last look; 0 = never */
	uint64_t mark;      /* of its processes (contexts.c); 0 = none */
	bool has_state;     /* a cell has returned */
	uint32_t threads;   /* of the session process, at the end of its last cell */
	bool has_processes; /* there were some at the end of its last cell */
	bool has_threads;   /* some of them are the program's own: Python knows them */
	bool has_services;  /* all of those begin again when a backup takes over */
	uint32_t processes; /* that cells have started and that live */
	bool
	    has_connections; /* the last backup was made without them; what a process of the session said */
	struct init_noted noted[SESSION_NOTED_MAX]; /* while another run is on */
	size_t n_noted;
	/* What the front has not been told. */
	bool lost;   /* a state was lost */
	bool behind; /* the old backup took over: what the last cell did to the variables is lost */
	enum proto_lost why;
	bool carried_on;         /* a state was carried into a new interpreter */
	bool from_disk;          /* it was, or is being, read from the disk: stored_variables.c */
	uint32_t kept, gone;     /* names that are there, and that are not */
	char names[RT_GONE_MAX]; /* the first of those; what a process of the sandbox said */
};

/* session_state.c */
void session_start(struct init *in);
void session_prepare(struct init *in);
void session_rest(struct init *in);    /* ends the backup; the session process has the variables */
void session_wanted(struct init *in);  /* RESTING ends: a backup is needed */
void session_settled(struct init *in); /* all was stopped: when to look again */
void session_late(struct init *in);    /* a run has waited too long for FORKING to end */
uint64_t session_next(const struct init *in); /* when it wants to be called again, 0 = never */
bool session_can(const struct init *in);      /* a stateful run may start at once */
pid_t session_take(struct init *in, const struct run_child *c);
int session_channel(
    const struct init *in); /* of the session process, if it may say something; or -1 */
void session_events(struct init *in, short backup, short process);
void session_run_ended(struct init *in);
void session_lose(struct init *in);
/* Adds to E, of a stateful run, what the front has not been told. */
void session_say(struct init *in, struct proto_init_ended *e);
bool session_keeps(const struct init *in,
		   pid_t pid);                /* PID is the session's, and not the run that is on */
pid_t session_waiting(const struct init *in); /* the process whose memory is the state; 0 = none */
bool session_reaped(struct init *in, pid_t pid);
/* READY: the backup leaves the session and is the caller's; its channel goes to RET. */
pid_t session_part(struct init *in, int *ret_channel);
/* PID, a stopped backup, takes the place of the session process, see init_session.carries; 0 = the session begins
 * anew. */
void session_adopt(struct init *in, pid_t pid, int channel, bool carries);
/* The run has ended and no process of it is left. True = its session process has died, and another one does not have
 * its place yet: the front is told later. */
bool session_wakes(struct init *in);
bool session_is_waking(const struct init *in);   /* and does not wait for the end of the run */
bool session_wants_spare(const struct init *in); /* also while a run is on: it is ending */

/* For session_state.c and session_waking.c. The only place that changes the state. */
void session_to(struct init_session *s, enum session_state state);
void session_take_over(struct init *in); /* the session process is dead or silent */
/* session_waking.c */
void session_wake_on(struct init *in);
void session_woken(struct init *in); /* its process has answered, or has died */
bool session_is_read(const struct init *in);
void session_read(struct init *in,
		  int file); /* NONE: FILE (taken) has the variables of the session */

/* stored_variables.c: the variables of a stored sandbox that rests */
void variables_begin(int store,
		     bool stored); /* STORE: the folder of the disk, taken; -1 = there is none */
int variables_folder(void);        /* borrowed; -1 = there is none */
void variables_keep(void);         /* a session is about to become a stored sandbox */
void variables_store(struct init *in); /* INIT_STORE */
void variables_work(struct init *in);
/* The session of CONTEXT begins anew, or gets the variables of a checkpoint. */
void variables_forget(uint32_t context);
/* A cell of CONTEXT has left variables: until they are written, the disk says that there were some. */
void variables_mark(uint32_t context);
void variables_ended(uint32_t context);      /* there are none any more, and the client knows */
bool variables_there(const struct init *in); /* of the current session, and nobody has read them */
/* The session of CONTEXT, if it is current, is needed: if the disk has its variables, they are read first. */
bool variables_wanted(struct init *in, uint32_t context); /* true: they are being read */
/* The file into which PID, the backup that wakes, is to write; the caller's. -1: variables are not being stored. */
int variables_file(struct init *in, pid_t pid);
bool variables_writing(void);
void variables_written(struct init *in); /* the file is whole */

/* contexts.c: the sessions that are not current */
#define ASIDE_BRANCH PROTO_CONTEXTS_MAX /* place of the session while continuations execute */
struct init_aside {
	bool used;
	struct init_session
	    session; /* NONE, HELD, READY or RESTING; pid 0 = its process has died */
};
struct init_contexts {
	uint32_t current; /* context of init.session */
	uint32_t n;       /* used places */
	uint32_t marks;   /* that were given; no two sessions have the same */
	struct init_aside at[PROTO_CONTEXTS_MAX + 1];
};
/* Makes the session of CONTEXT current. False: not yet, because a process of the current one is being made. */
bool contexts_choose(struct init *in, uint32_t context);
enum session_state contexts_state(const struct init *in, uint32_t context);
/* A stateful run of CONTEXT waits: its session becomes current, and is read from the disk. If not yet, the run goes on
 * to wait: warm_must_wait(). */
void contexts_come(struct init *in, uint32_t context);
/* F, a stateful run, has come. */
void contexts_begin(struct init *in, const struct proto_init_run *f);
/* Ends the session of CONTEXT with all that it has started. No run of that context is on. */
void contexts_end(struct init *in, uint32_t context);
void contexts_rest(struct init *in);  /* as session_rest() */
void contexts_go_on(struct init *in); /* a run begins */
void contexts_end_awake(struct init *in);
bool contexts_any(const struct init *in);    /* is a session set aside? */
bool contexts_active(const struct init *in); /* and may one have something that could execute? */
bool contexts_wait(const struct init *in, pid_t pid); /* PID is the process of one, or a backup */
bool contexts_keep(const struct init *in, pid_t pid); /* or something that one has started */
/* The session process of each, 0 if it has died; -1 after the last. *AT is 0 for the first. */
pid_t contexts_next(const struct init *in, size_t *at);
bool contexts_reaped(struct init *in, pid_t pid);
/* PID is going to be the process of the current session. */
void contexts_mark(struct init *in, pid_t pid);
uint64_t contexts_mark_of(pid_t pid); /* 0 = PID is of no session */
/* run_kill.c: what a run has left may be killed again. The kernel completes a fork that SIGSTOP meets, so kill_run() may
 * have missed a process. Those that init does not know yet are made while variables are written and read, and by the
 * interpreter of a container. */
bool kill_again(const struct init *in);
/* As kill_each(), for each process that is WANTED */
uint32_t kill_each_that(struct init *in, bool (*wanted)(const struct init *, pid_t),
			void (*fn)(struct init *, pid_t, int), int signo);
/* Sets the session aside, if there is one, and adopts PID instead; as session_adopt(). */
void session_park(struct init *in, pid_t pid, int channel, bool carries);
/* The session that was set aside comes back, and the one in its place ends. False = there is none, or it has died. */
bool session_return(struct init *in);
void parked_end(struct init *in);
bool parked_any(const struct init *in);

/* What the session has besides variables, and no backup or checkpoint: PROTO_KIND_* */
uint32_t session_kinds(const struct init *in);

/* session_processes.c */
void processes_go_on(struct init *in); /* a cell of the session begins */
void processes_note(
    struct init *in); /* another run is about to begin, and those of the session go on, too */
void processes_end_awake(struct init *in); /* kills those that should be stopped, and are not */
void processes_stop(struct init *in); /* stops all that executes, and counts those of the session */
/* Whether PID is a process of the session, while another run is on or none is. */
bool processes_keep(const struct init *in, pid_t pid);
