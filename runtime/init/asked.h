/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of programs in the sandbox (ask_init.h).
 *
 * init never reads what they send. If there is a datagram, it forks a porter, which takes them one by one and gives init
 * fixed numbers over a channel of their own. Descriptors that came along are closed in the porter: closing a socket may
 * wait (SO_LINGER), and init may not. The porter ends when nothing has come for a moment. It is no part of a run, but
 * its CPU time and memory are charged to the run's control groups. */
#pragma once

#include "ask_init.h"
#include "init.h"

/* Before pivot_root(2): mounts the folder below ROOT and binds the socket there. 0 or -errno. */
int asked_begin(const char *root);

/* To be polled; -1 = not now. The first: for datagrams, if no porter takes them. The second: the porter's. */
int asked_socket(void);
int asked_channel(void);
uint64_t asked_next(void); /* when the first is due again; 0 = not by time */
void asked_events(struct init *in, short request, short channel);
bool asked_reaped(pid_t pid); /* whether PID was the porter */
pid_t asked_porter(void);     /* 0 = there is none */

/* run_end.c. Whether PID is bound by the filter of runs, as all submitted code is; then RET has its real and its saved user. */
bool end_users(const struct init *in, pid_t pid, uid_t ret[2]);

/* asked_signal.c. Sends SIGNO to PID, or to the process group -PID, as kill(2) does for a process of user UID. 0 or -errno;
 * -EPERM also for what is ours: init, reapers, interpreters that wait or have variables. -EAGAIN: later. */
int asked_signal(struct init *in, uid_t uid, pid_t pid, int signo);
/* Those that UID may signal, the first MAX. Returns their number. */
uint32_t asked_list(struct init *in, uid_t uid, pid_t *ret, uint32_t max);

/* asked_porter.c: the main function of the porter. SOCKET: for datagrams; CHANNEL: to init. */
#define ASKED_LIST_MAX 1000
struct asked_for {     /* from the porter; answered by struct asked_answer as far as it is used */
	uint32_t kind; /* enum ask_init_kind */
	uid_t uid;
	pid_t pid;
	int signo;
};
struct asked_answer {
	int error;           /* 0 or -errno */
	uint32_t background; /* SUDO */
	uint32_t n;
	pid_t pids[ASKED_LIST_MAX];
};
_Noreturn void porter_main(struct init *in, int socket, int channel);

/* asked_sudo.c. Whether a process PID of user UID may have commands executed as root: 0 or -errno. RET: the number of the
 * background process that it belongs to, 0 = the run. Not while that is paused. */
int asked_sudo(const struct init *in, uid_t uid, pid_t pid, uint32_t *ret);
/* The main function of the process that executes one and waits for it. FDS: those of ASK_INIT_SUDO. GO: a byte is written
 * when init can find the process, and one is read before the command begins. */
_Noreturn void sudo_main(const struct init *in, const struct ask_init *ask,
			 const int fds[ASK_INIT_SUDO_FDS], uint32_t background, int go);
