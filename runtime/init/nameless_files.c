/* SPDX-License-Identifier: Apache-2.0 */
/* Counts open files that have no name, so that no walk over folders finds them: files that were
 * removed while they were open, and memfds. The descriptors of a process that is not dumpable cannot
 * be read, so its files are missed. */
#include "init.h"

#include "base/fdio.h"
#include "base/parse.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES  512u  /* of st_blocks, stat(2) */
#define FDS_MAX      8192u /* descriptors looked at, in all processes together */
#define NAMELESS_MAX 256u  /* files counted once each; a further one counts once per descriptor */

struct nameless {
	dev_t dev;
	struct disk_use use;
	uint32_t looked;
	size_t n;
	ino_t seen[NAMELESS_MAX];
};

static void add_open(struct nameless *o, int fds, const char *name)
{
	struct stat st;

	if (name[0] == '.' || ++o->looked > FDS_MAX || fstatat(fds, name, &st, 0) < 0 ||
	    !S_ISREG(st.st_mode) || st.st_nlink > 0 || st.st_dev != o->dev)
		return;
	for (size_t i = 0; i < o->n; i++)
		if (o->seen[i] == st.st_ino)
			return;
	if (o->n < NAMELESS_MAX)
		o->seen[o->n++] = st.st_ino;
	o->use.bytes += (uint64_t)st.st_blocks * BLOCK_BYTES;
	o->use.inodes++;
}

static void add_process(struct nameless *o, int proc, const char *pid)
{
	char path[32];
	const struct dirent *de;

	(void)snprintf(path, sizeof(path), "%.12s/fd", pid);
	int fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
	while (list && o->looked <= FDS_MAX && (de = readdir(list)))
		add_open(o, fd, de->d_name);
	if (list)
		(void)closedir(list);
	else
		(void)fd_close(fd);
}

struct disk_use open_nameless(const struct init *in, dev_t dev)
{
	struct nameless o = {.dev = dev};
	const struct dirent *de;
	uint64_t pid;
	int fd = openat(in->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	while (d && (de = readdir(d)))
		if (parse_u64_n(de->d_name, strlen(de->d_name), 2, INT32_MAX, &pid) == 0)
			add_process(&o, fd, de->d_name);
	if (d)
		(void)closedir(d);
	else
		(void)fd_close(fd);
	return o.use;
}
