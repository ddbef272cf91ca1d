/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/native/monitor/loop_device.h"

#include "base/fdio.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

int loop_device_open(int number, char path[LOOP_PATH_MAX])
{
	(void)snprintf(path, LOOP_PATH_MAX, "/dev/loop%d", number);
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT &&
	    mknod(path, S_IFBLK | 0600, makedev(LOOP_MAJOR, (unsigned)number)) == 0)
		fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int loop_device_try(void)
{
	char path[LOOP_PATH_MAX];
	_cleanup_fd_ int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int number = control < 0 ? -1 : ioctl(control, LOOP_CTL_GET_FREE);

	if (number < 0)
		return -errno;
	_cleanup_fd_ int fd = loop_device_open(number, path);
	return fd < 0 ? fd : 0;
}
