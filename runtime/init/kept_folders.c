/* SPDX-License-Identifier: Apache-2.0 */
/* /tmp and the home folder of a stored sandbox outlive its processes, as those of a stopped container do.
 * What only a living process can use does not: a socket that nobody listens on any more makes clients
 * wait, and keeps a server from binding its name. Sockets lie in /tmp and one or two folders below it, so
 * only these are looked at. Runs before init takes requests, with the rights of a run. */
#include "init.h"

#include "base/fdio.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define DEPTH_MAX   3    /* /tmp/a/b/socket */
#define ENTRIES_MAX 4096 /* in all: a full folder must not delay the start */

static void tidy(int folder, unsigned depth, unsigned *left)
{
	DIR *d = fdopendir(folder);
	const struct dirent *de;

	if (!d) {
		(void)close(folder);
		return;
	}
	while (*left > 0 && (de = readdir(d))) {
		--*left;
		if (de->d_type == DT_SOCK) {
			(void)unlinkat(dirfd(d), de->d_name, 0);
		} else if (de->d_type == DT_DIR && depth < DEPTH_MAX &&
			   strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0) {
			int fd = fd_open_beneath(dirfd(d), de->d_name, O_RDONLY | O_DIRECTORY, 0);
			if (fd >= 0)
				tidy(fd, depth + 1, left);
		}
	}
	(void)closedir(d);
}

void kept_tidy(void)
{
	static const char *const folders[] = {"/tmp", "/home/sandbox"};

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		unsigned left = ENTRIES_MAX;
		int fd = open(folders[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			tidy(fd, 1, &left);
	}
}
