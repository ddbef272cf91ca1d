/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/file_output.h"

#include "base/fdio.h"
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

void file_output_write(void *user)
{
	struct file_output *o = user;

	o->error = fd_write_all(o->fd, o->data, o->len);
	free(TAKE_PTR(o->data)); /* here, because giving back megabytes takes milliseconds */
	if (o->error == 0)
		return;
	const off_t at = lseek(o->fd, 0, SEEK_CUR); /* a part may have been written */

	o->size = at < 0 ? 0 : (uint64_t)at;
	o->host_full = o->error == -ENOSPC && engine_host_is_full(o->fd);
}

void file_output_flush(void *user)
{
	struct file_output *o = user;

	o->error = fdatasync(o->fd) < 0 ? -errno : 0;
	o->host_full = o->error != 0;
	o->flushed = true;
}

void file_output_close(void *user)
{
	struct file_output *o = user;

	o->fd = fd_close(o->fd);
}
