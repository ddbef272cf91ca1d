/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/native/monitor/devices.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Numbers: Documentation/admin-guide/devices.txt of the kernel. */
static const struct {
	const char *name;
	unsigned major, minor;
} nodes[] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

static const struct {
	const char *name;
	const char *target;
} links[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

static const char *const folders[] = {"pts", "shm"};

static const char *const options[][2] = {{"mode", "0755"}, {"size", "64k"}, {"nr_inodes", "32"}};

static int fill(int dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (symlinkat(links[i].target, dir, links[i].name) < 0)
			return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (mkdirat(dir, folders[i], 0755) < 0)
			return -errno;
	return 0;
}

static int make_nodes(int dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++)
		if (mknodat(dir, nodes[i].name, S_IFCHR | 0666,
			    makedev(nodes[i].major, nodes[i].minor)) < 0)
			return -errno;
	return 0;
}

int devices_make(void)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	_cleanup_fd_ int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);

	if (fs < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(options); i++)
		if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
			return -errno;
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	_cleanup_fd_ int dir = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (dir < 0)
		return -errno;
	mode_t mask = umask(0);
	int r = make_nodes(dir);
	if (r == 0)
		r = fill(dir);
	(void)umask(mask);
	if (r == 0 && mount_setattr(dir, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		r = -errno;
	return r < 0 ? r : TAKE_FD(dir);
}

int devices_bind(void)
{
	/* Adds flags to those of the host's mount, which are locked. */
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
	_cleanup_fd_ int dir = open("dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char from[32];
	char to[32];

	if (dir < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		(void)snprintf(from, sizeof(from), "/dev/%s", nodes[i].name);
		(void)snprintf(to, sizeof(to), "dev/%s", nodes[i].name);
		if (mknod(to, S_IFREG | 0644, 0) < 0 || mount(from, to, NULL, MS_BIND, NULL) < 0 ||
		    mount_setattr(AT_FDCWD, to, 0, &attr, sizeof(attr)) < 0)
			return -errno;
	}
	return fill(dir);
}
