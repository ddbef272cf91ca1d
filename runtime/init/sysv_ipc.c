/* SPDX-License-Identifier: Apache-2.0 */
/* System V objects of the sandbox: shared memory segments, semaphores and messages. They outlive
 * their processes, so their memory is found by asking the ipc namespace and not the processes.
 *
 * The kernel tells how many semaphores and messages there are. Each is counted with the kernel
 * memory that one takes. */
#include "init.h"

#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#define SEMAPHORE_BYTES 64u  /* one cache line: struct sem in the kernel's ipc/sem.c */
#define MESSAGE_BYTES   64u  /* without its text: struct msg_msg in the kernel's linux/msg.h */
#define OBJECT_BYTES    512u /* one empty message queue or semaphore set */

union semun { /* no header defines it, semctl(2) */
	int val;
	struct semid_ds *buf;
	struct seminfo *info;
};

/* shmctl(2) and msgctl(2) are declared with one type of buffer, but *_INFO fills another one. */
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

/* MSG_INFO reuses fields, msgctl(2): msgpool = queues, msgmap = messages, msgtql = bytes of text. */
static uint64_t in_messages(void)
{
	union msg_answer a = {0};

	if (msgctl(0, MSG_INFO, &a.ds) < 0)
		return 0;
	return (uint64_t)a.info.msgpool * OBJECT_BYTES + (uint64_t)a.info.msgmap * MESSAGE_BYTES +
	       (uint64_t)a.info.msgtql;
}

/* SEM_INFO reuses fields, semctl(2): semusz = sets, semaem = semaphores. */
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

/* *_INFO returns the highest index in use of the kernel's table. *_STAT turns an index into the
 * object's id, and IPC_RMID removes the object. */

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
