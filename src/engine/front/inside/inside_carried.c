/* SPDX-License-Identifier: Apache-2.0 */
/* Files for a sandbox that cannot send descriptors (gVisor): memory files of ours, which init fills or
 * reads (runtime/init/carried_files.c). */
#include "engine/front/inside/inside.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/workers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct inside_carried {   /* what is being uploaded */
	struct list node; /* of the sandbox */
	uint32_t put;
	int fd;
};

int inside_carry_out(uint64_t most)
{
	_cleanup_fd_ int fd = memfd_create("workspace file", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	/* The seal keeps the size that the file has, so it gets the largest one; that takes no memory. */
	if (fd < 0 || ftruncate(fd, (off_t)most) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int inside_carried_out(int fd, uint64_t bytes, int64_t mtime_ns)
{
	struct timespec mtime = {.tv_sec = mtime_ns / (int64_t)NS_PER_S,
				 .tv_nsec = mtime_ns % (int64_t)NS_PER_S};
	struct stat st;

	if (mtime_ns < 0)
		mtime = (struct timespec){0};
	if (fstat(fd, &st) < 0 || bytes > (uint64_t)st.st_size || ftruncate(fd, (off_t)bytes) < 0 ||
	    futimens(fd, (struct timespec[]){mtime, mtime}) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -EPROTO;
	return 0;
}

/* Without a bound: whoever writes counts what all uploads of a sandbox write (sandbox/file_writer.c). */
int inside_carry_in(struct engine_sandbox *s, uint32_t put)
{
	struct inside_carried *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct inside_carried){.put = put, .fd = memfd_create("upload", MFD_CLOEXEC)};
	const int writer = c->fd < 0 ? -1 : fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
	if (writer < 0) {
		int r = -errno;
		c->fd = fd_close(c->fd);
		free(c);
		return r;
	}
	list_append(&s->carried, &c->node);
	return writer;
}

int inside_carried_in(struct engine_sandbox *s, uint32_t put)
{
	list_for_each(l, &s->carried) {
		struct inside_carried *c = list_entry(l, struct inside_carried, node);
		const int fd = c->fd;

		if (c->put != put)
			continue;
		list_remove(l);
		free(c);
		(void)lseek(fd, 0, SEEK_SET); /* init reads from there */
		return fd;
	}
	return -ENOENT;
}

void inside_carried_abort(struct engine_sandbox *s)
{
	while (!list_is_empty(&s->carried)) {
		struct inside_carried *c = list_pop_first(&s->carried, struct inside_carried, node);

		workers_close(INSIDE_CARRIED, c->fd);
		free(c);
	}
}
