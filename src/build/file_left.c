/* SPDX-License-Identifier: Apache-2.0 */
/* What the sandbox of a run leaves for later ones: a file on its disk, which the engine gives up with the sandbox. So the sandbox stays. */
#include "build/file_build.h"

#include "base/workers.h"
#include "build/builds.h"

void file_build_close_archive(struct file_build *b, struct file_archive *a)
{
	workers_close(b->owner, a->fd);
	a->fd = -1;
	if (!a->sandbox)
		return;
	if (!a->lost)
		sandbox_release(a->sandbox, &a->hold);
	build_close_sandbox(a->sandbox);
	a->sandbox = NULL;
}

/* Reading what it has left fails from now on, and the build with that. */
static void on_left_lost(struct sandbox_hold *h)
{
	CONTAINER_OF(h, struct file_archive, hold)->lost = true;
}

void file_build_keep_left(struct file_build *b, int fd, uint64_t len)
{
	struct file_archive *a = &b->left[b->at];

	sandbox_release(b->sandbox, &b->hold);
	*a = (struct file_archive){.fd = fd,
				   .len = len,
				   .sandbox = b->sandbox,
				   .hold = {.ended = on_left_lost, .rests = true}};
	list_init(&a->hold.node);
	sandbox_hold(a->sandbox, &a->hold);
	b->held = false;
	b->sandbox = NULL;
}

void file_build_close_unneeded(struct file_build *b)
{
	for (size_t i = 0; i < b->at; i++) {
		bool needed = false;
		for (size_t j = b->at; j < b->plan.n; j++)
			for (size_t k = 0; k < b->plan.runs[j].n_from; k++)
				needed = needed || b->plan.runs[j].from[k] == i;
		if (!needed)
			file_build_close_archive(b, &b->left[i]);
	}
}
