/* SPDX-License-Identifier: Apache-2.0 */
/* kill(2) and killpg(3) across runs. Landlock keeps the processes of a run from signalling any other: each run, command and
 * cell has a domain of its own, so that it can signal neither init nor an interpreter that waits. So the kernel also refuses
 * to end a server that an earlier command has started. Then init is asked, which sends the signal if the target is
 * submitted code and the user ids permit it (runtime/init/asked.c).
 *
 * kill(2) may be called from a handler of signals and after vfork(2), so nothing here takes a lock or allocates memory. */
#include "ask_init_send.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PUBLIC       __attribute__((visibility("default")))
#define ANSWER_TRIES 4 /* of a second; a signal that comes meanwhile ends one */
#define TRY_MS       1000

/* 0, or an errno; EPERM also if no answer comes. */
static int answer_on(int sock)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	int32_t answer = EPERM;

	for (int i = 0; i < ANSWER_TRIES; i++)
		if (poll(&p, 1, TRY_MS) > 0)
			return recv(sock, &answer, sizeof(answer), MSG_DONTWAIT) == sizeof(answer)
				   ? answer
				   : EPERM;
	return EPERM;
}

static int ask(const struct ask_init *what)
{
	int pair[2];
	int answer = EPERM;
	const int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (sock < 0)
		return EPERM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
		const int sent = ask_init_send(sock, what, &pair[1], 1);
		(void)syscall(SYS_close, pair[1]);
		if (sent == 0)
			answer = answer_on(pair[0]);
		(void)syscall(SYS_close, pair[0]);
	}
	(void)syscall(SYS_close, sock);
	return answer;
}

/* A group of which some could be signalled is not asked for, nor is -1: as far as the kernel is concerned that succeeded. */
PUBLIC int kill(pid_t pid, int signo)
{
	const int was = errno;

	if (syscall(SYS_kill, pid, signo) == 0)
		return 0;
	if (errno != EPERM || (pid >= -1 && pid <= 1))
		return -1;
	const struct ask_init what = {.kind = ASK_INIT_SIGNAL, .pid = pid, .signo = signo};
	errno = ask(&what);
	if (errno != 0)
		return -1;
	errno = was;
	return 0;
}

PUBLIC int killpg(pid_t group, int signo)
{
	if (group < 0) {
		errno = EINVAL;
		return -1;
	}
	return kill(-group, signo);
}
