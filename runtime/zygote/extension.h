/* SPDX-License-Identifier: Apache-2.0 */
/* The C extension that turns an image's Python into a zygote. Forks of the zygote are clean
 * interpreters; forks of those are spares; a spare becomes a run.
 *
 * Processes, and the file that each executes:
 *   zygote             serve_zygote.c  root of the image's user namespace; waits for the monitor
 *   clean interpreter  serve_zygote.c  fork of the zygote, inside a sandbox (enter_sandbox.c);
 *                                      waits for init
 *   spare              serve_zygote.c  fork of a clean interpreter, confined by Landlock and the
 *                                      system call filter; waits for its run
 *   run                spare_run.c     what a spare becomes
 *   session process    spare_run.c     a run that is the first cell of a session, and all later cells;
 *                                      between them it waits for init (serve_zygote.c)
 *   backup             serve_zygote.c  stopped fork of a session process, which takes its place if it dies
 *
 * All of this happens inside sys.excepthook of a `python3 -c` that has raised an exception. At that
 * moment the interpreter is complete and no Python frame is left. So a run starts on an empty stack,
 * as in a plain interpreter.
 *
 * The code uses the limited API of CPython 3.9 and one thread. Submitted code reaches this extension
 * only in its own process: if it breaks something here, it harms only its own run. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "frames.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct frame { /* a received message; it owns the descriptors until a receiver takes them */
	union {
		struct rt_head h;
		struct rt_clean clean;
		struct rt_fork fork;
		struct rt_run run;
		unsigned char bytes[sizeof(struct rt_run) + RT_ENV_MAX + RT_CWD_MAX];
	} u;
	size_t len;
	int fds[RT_FDS_MAX];
	size_t n_fds;
};

struct zygote {
	int control; /* zygote only: the channel to the monitor */
	struct sock_filter *filter;
	uint16_t n_filter; /* 0 = no filter: only in tests that ask for that (zygote.py) */
	int tied;          /* Landlock and the filter are in force */
	int fork_open;     /* PyOS_BeforeFork() was called, PyOS_AfterFork_*() not yet */
	PyObject *refresh; /* the Python halves: functions of zygote.py */
	PyObject *take_over;
	PyObject *ahead;
	PyObject *enter;
	PyObject *load;
	PyObject *flush;
	PyObject *leave;
	PyObject *show;
	PyObject *cell;
	PyObject *result;
	PyObject *rest;
	PyObject *finish;
	PyObject *wait;
	PyObject *needs_carrying;
	PyObject *carry;
	PyObject *revive;
	PyObject *hush;
	int channel;          /* to init, in a clean interpreter, session process or backup */
	int session;          /* this process is a session process or its backup */
	unsigned begin_again; /* sockets of servers that take_over() makes anew */
	int trackers[2];      /* pipes to resource trackers, which a backup keeps; 0 = none */
	struct frame frame;   /* one buffer is enough: one thread, one frame at a time */
};
extern struct zygote zygote;

/* frame_channel.c. Received descriptors are CLOEXEC and above 2. Functions return 0 or -errno:
 * -EPIPE at the end of the channel, -EPROTO for a message that is truncated or carries too many
 * descriptors. */
int channel_recv(int channel, struct frame *f);
int channel_send(int channel, const void *frame, size_t len);
void frame_close_fds(struct frame *f);
/* A copy of FD with CLOEXEC, above the numbers that programs look at when they count descriptors. If the limit of open
 * files is lower than that, above the first few. Returns it, or -1 with errno. */
int fd_copy_high(int fd);

/* kept_files.c. The descriptors of a session process that its cells cannot close, nor use up: while code executes; then
 * without the reserve; between cells only the channel, and RESULT is closed. */
void kept_begin(int result);
void kept_free(void);
void kept_rest(void);

/* arena_pages.c. From now on Python allocates small objects in one range of addresses, if the
 * interpreter permits it. */
void arena_gather(void);
/* Allocates the free gaps between objects and never frees them. So a fork makes its own objects in
 * fresh pages instead of copying shared ones. Returns the number of bytes. */
size_t arena_fill(void);

/* immortal_objects.c. Learns how this interpreter marks immortal objects. Must be called before the
 * first import. */
void immortal_learn(void);
/* Makes every object of the list KNOWN immortal, and everything that they refer to. CODE is the
 * type of code objects. Returns the number of objects; 0 if the interpreter has no immortal
 * objects. */
long immortal_make(PyObject *known, PyObject *code);

/* learned_pages.c. Stores which pages a run touches; SESSION says whether of a stateless run or of
 * a session. RANGES is LEN bytes of triples of 64-bit numbers: address, length, and whether the run
 * writes there. Returns 0, or -1. */
int learned_set(int session, const void *ranges, size_t len);
/* In a spare: copies or maps those pages now. */
void learned_copy(int session);

/* enter_sandbox.c. Enters the sandbox of the init behind PIDFD and drops all rights. After a
 * failure the process must call _exit(). Returns 0 or -errno. */
int enter_sandbox(const struct rt_clean *c, int pidfd, const int *leaves);
/* The same for a process that is inside already and has no rights. Returns 0 or -errno. */
int enter_inside(void);
/* Closes every descriptor except KEEP, which becomes number 3. Returns 0 or -errno. */
int enter_close_others(int keep);
/* Isolates a spare as K and its descriptors FDS say: session, leaf, limits, Landlock, filter.
 * Returns 0 or -errno. */
int enter_run(const struct rt_fork *k, const int *fds);

/* library_data.c. Moves each range into a sealed file of its own, mapped privately in its place. RANGES is
 * LEN bytes of triples of 64-bit numbers: address, length, and whether the mapping is writable; whole
 * pages. Returns the number of bytes that were moved. The contents are the same in each case. */
size_t library_move(const void *ranges, size_t len);

/* thread_pools.c. Before a fork: ends the worker threads of OpenMP, which the fork would wait for. They start
 * again when they are needed. */
void pools_pause(void);
size_t
threads_count(void); /* of this process, also those that Python does not know; 2 if nobody says */

/* backup_files.c. In a backup, whose own channel is CHANNEL: replaces the descriptors that it has inherited.
 * RET_CONNECTIONS: how many of them were sockets of the network or databases. 0 or -errno; after a failure the process
 * must exit. */
int backup_files(int channel, uint32_t *ret_connections);

/* serve_zygote.c. The loops of the zygote, and of a clean interpreter or session process. */
_Noreturn void serve_monitor(void);
_Noreturn void serve_init(int channel);
/* Answers init with KIND and what SAID, a tuple of told() in carry.py, says. 0 or -errno. */
int session_tell(unsigned kind, PyObject *said);
/* In a container, whose init has started this interpreter with the channel as descriptor 3. */
_Noreturn void serve_as_clean(void);

/* spare_run.c. Becomes the run that F describes; CHANNEL is the spare's channel to init. */
_Noreturn void run_start(struct frame *f, int channel);
/* In a session process: runs the next cell. 0 or -errno; then the process must exit. */
int run_cell(struct frame *f);
/* In a spare: becomes the session process that another one has described, and serves init. */
_Noreturn void run_revive(struct frame *f, int channel);
/* Runs TEXT as the first run of a session (steals the reference), in an interpreter that was
 * started inside the sandbox and is no fork: start_bare() in runtime/python/places.py. RESULT -1 = there is no TEXT:
 * it becomes the session process that the file in descriptor 3 describes. */
_Noreturn void run_hold(PyObject *text, int channel, int result);

/* named_end.c. A run begins now. If NAMED is not 0, end_name() may be used at its end. */
void end_begin(int named);
/* Writes STATUS into the process name and stops the process, if no program can tell that from an
 * exit. If it returns, the caller must exit: the named end was not possible, or somebody continued
 * the process. */
void end_name(int status);

/* written_through.c. Returns the type of streams that write at every call, a subclass of BASE,
 * which is io.TextIOWrapper; also replaces builtins.print. A new reference, or NULL with an
 * exception. */
PyObject *through_type(PyObject *base);
/* STREAM, an instance of that type, writes to the descriptor FD from now on. It replaces the
 * standard output or error stream that was registered before. */
void through_register(PyObject *stream, int fd, bool is_stderr);

/* Writes LEN bytes to FD. 0, or -1 with an exception. */
int write_all(int fd, const char *bytes, size_t len);

/* output_tail.c; runtime/output has the first four for an interpreter without a tail. Like
 * write_all(), but bytes for standard output may stay in the tail. */
int tail_write(int fd, const char *bytes, size_t len);
int tail_flush(void); /* 0, or -1 with an exception */
int tail_watch(void); /* once, in the zygote; -1 = out of memory */
/* The run that begins uses the tail in the memory file FD. FD stays the caller's. */
void tail_begin(int fd);
void tail_end(void); /* writes the tail to the pipe and stops using it */
