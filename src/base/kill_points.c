/* SPDX-License-Identifier: Apache-2.0 */
/* In test builds only. It makes system calls and nothing else, because it also runs between fork and
 * exec. */
#include "base/kill_points.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define STATUS_KILLED 137

/* The mapping survives fork(2). After execve(2) the file is mapped again from its descriptor. */
static struct kill_control *map(void)
{
	static struct kill_control *control;
	static int tried;

	if (!control && !tried) {
		void *p = mmap(NULL, KILL_POINTS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			       KILL_POINTS_FD, 0);
		control = p == MAP_FAILED ? NULL : p;
		tried = 1;
	}
	return control;
}

void kill_points_open(void)
{
	const char *path = getenv(KILL_POINTS_VARIABLE);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	(void)dup2(fd, KILL_POINTS_FD); /* without CLOEXEC: for the monitor, init and zygotes */
	(void)close(fd);
	(void)map();
}

static void wait_for_go(const struct kill_control *c)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (int i = 0; i < KILL_POINTS_WAIT_MS && !__atomic_load_n(&c->go, __ATOMIC_SEQ_CST); i++)
		(void)nanosleep(&pause, NULL);
}

void kill_point_pass(enum kill_point p)
{
	struct kill_control *c = map();

	if (!c)
		return;
	(void)__atomic_add_fetch(&c->passed[p], 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&c->armed, __ATOMIC_SEQ_CST) != (uint32_t)p ||
	    __atomic_fetch_sub(&c->left, 1, __ATOMIC_SEQ_CST) != 1)
		return;
	__atomic_store_n(&c->reached, 1, __ATOMIC_SEQ_CST);
	if (c->act == KILL_ACT_WAIT) {
		wait_for_go(c);
		return;
	}
	(void)kill(getpid(), SIGKILL);
	_exit(STATUS_KILLED); /* the first process of a pid namespace cannot kill itself */
}
