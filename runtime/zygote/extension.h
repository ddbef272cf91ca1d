/* SPDX-License-Identifier: Apache-2.0 */
/* The extension that turns an image's Python into a zygote, its forks into clean interpreters, and
 * their forks into runs.
 *
 * Processes, and the file that each executes:
 *   zygote             serve_zygote.c  root of the image's user namespace; waits for the monitor
 *   clean interpreter  serve_zygote.c  fork of the zygote, inside a sandbox (enter_sandbox.c);
 *                                      waits for init
 *   spare              serve_zygote.c  fork of a clean interpreter, tied by Landlock and the
 *                                      filter; waits for its run
 *   run                spare_run.c     what a spare becomes
 *
 * All of it happens inside sys.excepthook of a `python3 -c` that has raised: at that moment the
 * interpreter is complete and no Python frame is left, so a run starts on an empty stack as in a
 * plain interpreter.
 *
 * Limited API of CPython 3.9 only. One thread. Nothing of it is reached by submitted code but as
 * its own process, so a broken state here is that run's own trouble. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "frames.h"

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct frame { /* a received message; the descriptors are owned until taken */
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

#define HIGH_FD 100 /* above what programs that count their descriptors look at */

struct zygote {
	int control; /* zygote only: to the monitor */
	struct sock_filter *filter;
	uint16_t n_filter; /* 0 = none: only where tests ask for that, zygote.py */
	int tied;          /* Landlock and filter are on */
	int fork_open;     /* PyOS_BeforeFork() has run and its other half has not */
	PyObject *refresh; /* Python halves, see zygote.py */
	PyObject *enter;
	PyObject *load;
	PyObject *flush;
	PyObject *leave;
	PyObject *show;
	PyObject *cell;
	PyObject *result;
	PyObject *rest;
	PyObject *finish;
	int channel;        /* to init, of a holder */
	int session;        /* this process holds, or continues, the state of stateful runs */
	struct frame frame; /* one buffer is enough: one thread, one frame at a time */
};
extern struct zygote zygote;

/* frame_channel.c. Descriptors received are CLOEXEC and above 2. 0, or -errno; -EPIPE at the end of
 * the channel; -EPROTO for a message that is cut or carries too much. */
int channel_recv(int channel, struct frame *f);
int channel_send(int channel, const void *frame, size_t len);
void frame_close_fds(struct frame *f);

/* arena_pages.c. From now on Python's small objects are made in one range of addresses, where that
 * can be had. */
void arena_gather(void);
/* Takes what is free between objects, for good, so that a fork makes its own in fresh pages of its
 * own instead of copying pages that it shares. Returns how many bytes. */
size_t arena_fill(void);

/* immortal_objects.c. Learns how this interpreter marks what is never freed; before the first
 * import. */
void immortal_learn(void);
/* Marks so everything in the list KNOWN and all that it leads to; CODE is the type of code objects.
 * Returns how many objects; 0 where the interpreter has no such mark. */
long immortal_make(PyObject *known, PyObject *code);

/* learned_pages.c. What a stateless run, or one of a SESSION, makes its own: LEN bytes of pairs of
 * 64-bit numbers, address and length. 0, or -1. */
int learned_set(int session, const void *ranges, size_t len);
/* In a spare: makes it this process's own now. */
void learned_copy(int session);

/* enter_sandbox.c. Enters the sandbox of the init behind PIDFD and drops everything; the process is
 * only good for _exit() when it fails. Returns 0 or -errno. */
int enter_sandbox(const struct rt_clean *c, int pidfd, const int *leaves);
/* Closes every descriptor but KEEP, which becomes 3. Returns 0 or -errno. */
int enter_close_others(int keep);
/* What makes a run of a fork: session, leaf, limits, Landlock, filter, as F and its descriptors
 * say. Returns 0 or -errno. */
int enter_run(const struct rt_fork *k, const int *fds);

/* serve_zygote.c. Neither returns. */
_Noreturn void serve_monitor(void);
_Noreturn void serve_init(int channel);

/* spare_run.c. Becomes the run that F describes; CHANNEL is the spare's. */
_Noreturn void run_start(struct frame *f, int channel);
/* Runs TEXT (takes the reference) as the first of a session, in an interpreter that was started
 * inside and is no fork: runtime/python/places.py. */
_Noreturn void run_hold(PyObject *text, int channel, int result);

/* named_end.c. A run begins here and now; its end may be named when NAMED is not 0. */
void end_begin(int named);
/* Names the end of the run with STATUS and stops, where that cannot be told from exiting. Returns
 * when it can, or when somebody let the process go on: it then exits. */
void end_name(int status);

/* written_through.c. The type of streams that write every call at once: a subclass of BASE, which
 * is io.TextIOWrapper. Also replaces builtins.print. A new reference, or NULL with an exception. */
PyObject *through_type(PyObject *base);
/* STREAM, of that type, writes to the descriptor FD. It takes the place of the standard output or
 * error stream that was registered before. */
void through_register(PyObject *stream, int fd, bool is_stderr);

/* output_tail.c. Writes LEN bytes to FD; with tail_write() what goes to standard output may wait in
 * the tail. 0, or -1 with an exception. */
int write_all(int fd, const char *bytes, size_t len);
int tail_write(int fd, const char *bytes, size_t len);
int tail_flush(void); /* 0, or -1 with an exception */
int tail_watch(void); /* once, in the zygote; -1 = no memory */
/* The run that begins has the tail in FD, which stays the caller's. */
void tail_begin(int fd);
void tail_end(void); /* what is in it is written, and it is not used again */
