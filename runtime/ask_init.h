/* SPDX-License-Identifier: Apache-2.0 */
/* What a program of a native sandbox may ask init for, over a socket in a folder that no run can change
 * (docs/decisions/0049-asking-init.md). One datagram is one request: struct ask_init and one descriptor, a socket of the
 * program's own on which the answer comes: an int32_t, 0 or an errno. Who asks is told by the kernel (SCM_CREDENTIALS).
 * No answer, and the end of that socket, mean that nothing was done.
 *
 * ASK_INIT_LIST tells of the processes that the asker may signal. With its answer comes a file: for each of them four numbers
 * of 32 bits, its process id and the lengths of what follows, which are the first bytes of stat,
 * status and cmdline of proc(5).
 *
 * This file includes only headers of the C library, because runtime/machine is compiled with it. */
#pragma once

#include <stdint.h>

#define ASK_INIT_FOLDER "/run/caisson"
#define ASK_INIT_SOCKET ASK_INIT_FOLDER "/init"

enum ask_init_kind {
	ASK_INIT_SIGNAL = 1, /* as kill(2) does for the asker: also if they are of another run */
	ASK_INIT_LIST,
	ASK_INIT_SUDO, /* start a command as root: asked_sudo.c */
};

/* SUDO: what comes along. The socket for the answer; a file with working folder, command and environment, each text with its
 * NUL; the three standard descriptors. After that an int32_t from the asker is a signal for the command, and the end of the
 * asker's socket ends it. */
#define ASK_INIT_SUDO_FDS 5
struct ask_init_ended {
	int32_t began; /* 0: VALUE is why it did not begin, an errno; 1: it is as that of wait(2) */
	int32_t value;
};

struct ask_init {
	uint32_t kind;
	int32_t
	    pid; /* SUDO: texts of the command. SIGNAL: above 1: a process; below -1: a process group */
	int32_t signo; /* 0 = is there one? SUDO: texts of the environment */
};
