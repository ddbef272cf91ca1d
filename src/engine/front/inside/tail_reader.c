/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/front/inside/tail_reader.h"

#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int tail_make(struct output_tail **ret)
{
	_cleanup_fd_ int fd =
	    (int)syscall(SYS_memfd_create, "output", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	/* The seals: a file that the run made shorter would kill its reader with SIGBUS. */
	if (fd < 0 || ftruncate(fd, OUTPUT_TAIL_BYTES) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	void *map = mmap(NULL, OUTPUT_TAIL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	*ret = map;
	return TAKE_FD(fd);
}

bool tail_hold(struct output_tail *t, bool *ret_again)
{
	uint32_t state = OUTPUT_TAIL_OPEN;
	bool held = atomic_compare_exchange_strong(&t->state, &state, OUTPUT_TAIL_BUSY);

	*ret_again = !held && state != OUTPUT_TAIL_CLOSED;
	return held;
}

size_t tail_take(struct output_tail *t, char *bytes)
{
	uint32_t at = atomic_load(&t->at);
	uint32_t len = atomic_load(&t->len);
	size_t n = len <= OUTPUT_TAIL_ROOM && at < len ? len - at : 0;

	memcpy(bytes, t->bytes + (n > 0 ? at : 0), n);
	atomic_store(&t->at, 0);
	atomic_store(&t->len, 0);
	return n;
}

void tail_release(struct output_tail *t, bool open)
{
	atomic_store(&t->state, open ? OUTPUT_TAIL_OPEN : OUTPUT_TAIL_CLOSED);
}

void tail_unmap(struct output_tail *t)
{
	if (t)
		(void)munmap(t, OUTPUT_TAIL_BYTES);
}
