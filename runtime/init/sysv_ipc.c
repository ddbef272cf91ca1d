/* SPDX-License-Identifier: Apache-2.0 */
/* System V objects of the sandbox: segments, semaphores and messages. They outlive every process
 * that could be looked at, so the namespace itself is asked what it holds.
 *
 * Semaphores and messages are counted by how many there are, at what one takes of the kernel. */
#include "init.h"

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#define SEMAPHORE_BYTES 64u  /* a cache line each, struct sem of ipc/sem.c */
#define MESSAGE_BYTES   64u  /* beside its text, struct msg_msg of linux/msg.h */
#define OBJECT_BYTES    512u /* a queue or a set, beside what is in it */

union semun { /* the caller has to define it, semctl(2) */
	int val;
	struct semid_ds *buf;
	struct seminfo *info;
};

/* The kernel's own structures behind the type that the C library declares, shmctl(2), msgctl(2). */
union shm_answer {
	struct shmid_ds ds;
	struct shm_info info;
};

union msg_answer {
	struct msqid_ds ds;
	struct msginfo info;
};

uint64_t ipc_segments(void)
{
	union shm_answer a = {0};

	if (shmctl(0, SHM_INFO, &a.ds) < 0)
		return 0;
	return ((uint64_t)a.info.shm_rss + a.info.shm_swp) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Of its answer: msgpool queues, msgmap messages, msgtql bytes. */
static uint64_t in_messages(void)
{
	union msg_answer a = {0};

	if (msgctl(0, MSG_INFO, &a.ds) < 0)
		return 0;
	return (uint64_t)a.info.msgpool * OBJECT_BYTES + (uint64_t)a.info.msgmap * MESSAGE_BYTES +
	       (uint64_t)a.info.msgtql;
}

/* Of its answer: semusz sets, semaem semaphores. */
static uint64_t in_semaphores(void)
{
	struct seminfo info = {0};

	if (semctl(0, 0, SEM_INFO, (union semun){.info = &info}) < 0)
		return 0;
	return (uint64_t)info.semusz * OBJECT_BYTES + (uint64_t)info.semaem * SEMAPHORE_BYTES;
}

uint64_t ipc_kernel(void)
{
	return in_messages() + in_semaphores();
}

/* Each of these takes a place of the kernel's table, and tells or removes what is there. The
 * highest place in use is what the question about the whole answers. */

static void clear_segments(void)
{
	union shm_answer a;
	int last = shmctl(0, SHM_INFO, &a.ds);

	for (int i = 0; i <= last; i++) {
		int id = shmctl(i, SHM_STAT, &a.ds);
		if (id >= 0)
			(void)shmctl(id, IPC_RMID, NULL);
	}
}

static void clear_messages(void)
{
	union msg_answer a;
	int last = msgctl(0, MSG_INFO, &a.ds);

	for (int i = 0; i <= last; i++) {
		int id = msgctl(i, MSG_STAT, &a.ds);
		if (id >= 0)
			(void)msgctl(id, IPC_RMID, NULL);
	}
}

static void clear_semaphores(void)
{
	struct seminfo info;
	struct semid_ds ds;
	int last = semctl(0, 0, SEM_INFO, (union semun){.info = &info});

	for (int i = 0; i <= last; i++) {
		int id = semctl(i, 0, SEM_STAT, (union semun){.buf = &ds});
		if (id >= 0)
			(void)semctl(id, 0, IPC_RMID);
	}
}

void ipc_clear(void)
{
	clear_segments();
	clear_messages();
	clear_semaphores();
}
