/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors that a session process needs for its next cell: its channel, the file for the result of this one, and a
 * reserve. A program may close all that it does not know, and it may use up all that it can have.
 *
 * In a native sandbox runtime/machine/machine_keep.c leaves them open. In others a cell that closes its channel ends the
 * session process, and the backup takes over. */
#include "extension.h"
#include "old_libc.h"

#include <unistd.h>

/* The next cell comes with six descriptors, and the backup needs some: open while a cell executes, free between cells. */
#define RESERVE_N 8

static int own[2 + RESERVE_N]; /* channel, result, reserve */

static void keep(size_t n)
{
	static void (*keeper)(const int *fds, size_t n);

	if (!keeper)
		*(void **)&keeper = dlsym(RTLD_DEFAULT, "caisson_keep");
	if (keeper)
		keeper(own, n);
}

void kept_begin(int result)
{
	own[0] = zygote.channel;
	own[1] = result;
	for (size_t i = 0; i < RESERVE_N; i++)
		own[2 + i] = fd_copy_high(zygote.channel);
	keep(2 + RESERVE_N);
}

void kept_free(void)
{
	keep(2);
	for (size_t i = 0; i < RESERVE_N; i++)
		if (own[2 + i] >= 0)
			(void)close(own[2 + i]);
}

void kept_rest(void)
{
	keep(1);
	(void)close(own[1]);
}
