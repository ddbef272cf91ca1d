/* SPDX-License-Identifier: Apache-2.0 */
/* Files of /proc and /sys that a sandbox does not have, for programs that cannot do without: jax adds up no numbers unless
 * /proc/cpuinfo can be read, and scripts look for MemTotal. /proc shows processes only, so that nothing tells of the host
 * (docs/decisions/0009-figures-of-the-machine.md). The dynamic linker loads this library into each program of a sandbox
 * (/etc/ld.so.preload, see ld.so(8)). It takes the place of open(2) and fopen(3) of the C library, and does something only
 * where the file is not there and has a row below: the program gets a file in memory with the text of this moment.
 *
 * It runs in programs that nobody trusts, has no right that they do not have, and tells them nothing that they could not
 * ask the kernel for. Statically linked programs do without it. */
#include "machine_files.h"

#include "base/parse.h"
#include "old_libc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PUBLIC     __attribute__((visibility("default")))
#define PROCESSORS "/sys/devices/system/cpu"

static const struct row {
	const char *path;
	void (*write)(int fd);
} rows[] = {
    {"/proc/cpuinfo", machine_cpuinfo},        {"/proc/loadavg", machine_loadavg},
    {"/proc/meminfo", machine_meminfo},        {"/proc/stat", machine_stat},
    {"/proc/uptime", machine_uptime},          {"/proc/version", machine_version},
    {PROCESSORS "/online", machine_cpu_list},  {PROCESSORS "/possible", machine_cpu_list},
    {PROCESSORS "/present", machine_cpu_list},
};

static int kernel_open(int dir, const char *path, int flags, mode_t mode)
{
	return (int)syscall(SYS_openat, dir, path, flags | O_LARGEFILE, mode);
}

/* Is FOLDER (LEN bytes of its path) what DIR is open for, or the working folder? */
static int is_folder(int dir, const char *folder, size_t len)
{
	char link[32], found[64]; /* longer than the folders of all rows */
	ssize_t n;

	if (dir == AT_FDCWD) {
		n = getcwd(found, sizeof(found)) ? (ssize_t)strlen(found) : -1;
	} else {
		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
		n = readlink(link, found, sizeof(found));
	}
	return n == (ssize_t)len && memcmp(found, folder, len) == 0;
}

/* What is made: a row, or the file NAME of the topology of a processor. Neither: nothing. */
struct found {
	const struct row *row;
	const char *name;
	unsigned cpu;
};

/* cpuN/topology/NAME, in full or seen from the folder of processors. */
static struct found find_topology(int dir, const char *path)
{
	static const char folder[] = PROCESSORS "/", middle[] = "/topology/";
	const bool full = strncmp(path, folder, sizeof(folder) - 1) == 0;
	const char *at = full ? path + sizeof(folder) - 1 : path;
	uint64_t cpu = 0;

	if (strncmp(at, "cpu", 3) != 0)
		return (struct found){0};
	at += 3;
	const size_t digits = strspn(at, "0123456789");
	if (digits == 0 || strncmp(at + digits, middle, sizeof(middle) - 1) != 0 ||
	    parse_u64_n(at, digits, 0, UINT16_MAX, &cpu) < 0)
		return (struct found){0};
	const char *name = at + digits + sizeof(middle) - 1;
	if (!machine_topology(-1, (unsigned)cpu, name) ||
	    !(full || is_folder(dir, PROCESSORS, sizeof(PROCESSORS) - 1)))
		return (struct found){0};
	return (struct found){.name = name, .cpu = (unsigned)cpu};
}

/* lscpu opens the folder first, and its files below that. */
static struct found find(int dir, const char *path)
{
	const size_t len = strlen(path);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *own = rows[i].path;
		const size_t own_len = strlen(own);

		if (len == 0 || len > own_len || strcmp(own + own_len - len, path) != 0)
			continue;
		if (len == own_len ||
		    (own[own_len - len - 1] == '/' && is_folder(dir, own, own_len - len - 1)))
			return (struct found){.row = &rows[i]};
	}
	return find_topology(dir, path);
}

bool machine_makes(int dir, const char *path)
{
	const struct found f = find(dir, path);

	return f.row || f.name;
}

/* A file in memory with the text of F, or -1 with the errno of a file that is not there. */
static int made(const struct found *f, int flags)
{
	const int fd = (int)syscall(SYS_memfd_create, f->row ? f->row->path + 1 : f->name,
				    flags & O_CLOEXEC ? MFD_CLOEXEC : 0U);

	if (fd >= 0) {
		if (f->row)
			f->row->write(fd);
		else
			(void)machine_topology(fd, f->cpu, f->name);
		if (lseek(fd, 0, SEEK_SET) == 0)
			return fd;
		(void)close(fd);
	}
	errno = ENOENT;
	return -1;
}

static int open_or_make(int dir, const char *path, int flags, mode_t mode)
{
	const int fd = kernel_open(dir, path, flags, mode);

	if (fd >= 0 || errno != ENOENT || (flags & (O_ACCMODE | O_CREAT | O_DIRECTORY)))
		return fd;
	const struct found f = find(dir, path);
	if (f.row || f.name)
		return made(&f, flags);
	errno = ENOENT; /* is_folder() may have changed it */
	return fd;
}

int machine_open(const char *path)
{
	return kernel_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

/* The third argument is there only if a file may be made. */
#define MODE_OF(flags)                                                                             \
	({                                                                                         \
		mode_t mode_ = 0;                                                                  \
		if (((flags)&O_CREAT) || ((flags)&O_TMPFILE) == O_TMPFILE) {                       \
			va_list list_;                                                             \
			va_start(list_, flags);                                                    \
			mode_ = va_arg(list_, mode_t);                                             \
			va_end(list_);                                                             \
		}                                                                                  \
		mode_;                                                                             \
	})

PUBLIC int open(const char *path, int flags, ...)
{
	return open_or_make(AT_FDCWD, path, flags, MODE_OF(flags));
}

PUBLIC int open64(const char *path, int flags, ...)
{
	return open_or_make(AT_FDCWD, path, flags, MODE_OF(flags));
}

PUBLIC int openat(int dir, const char *path, int flags, ...)
{
	return open_or_make(dir, path, flags, MODE_OF(flags));
}

PUBLIC int openat64(int dir, const char *path, int flags, ...)
{
	return open_or_make(dir, path, flags, MODE_OF(flags));
}

/* What programs call that were compiled with _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

PUBLIC int __open_2(const char *path, int flags)
{
	return open_or_make(AT_FDCWD, path, flags, 0);
}

PUBLIC int __open64_2(const char *path, int flags)
{
	return open_or_make(AT_FDCWD, path, flags, 0);
}

PUBLIC int __openat_2(int dir, const char *path, int flags)
{
	return open_or_make(dir, path, flags, 0);
}

PUBLIC int __openat64_2(int dir, const char *path, int flags)
{
	return open_or_make(dir, path, flags, 0);
}

/* fopen(3) of the C library does not call open(2) by its name. */
static FILE *stream_or_make(const char *name, const char *path, const char *mode)
{
	FILE *(*original)(const char *, const char *);
	void *found = dlsym(RTLD_NEXT, name);

	memcpy(&original, &found,
	       sizeof(original)); /* ISO C has no cast from an object to a function */
	FILE *f = original(path, mode);
	if (f || errno != ENOENT || mode[0] != 'r' || strchr(mode, '+'))
		return f;
	const int fd =
	    open_or_make(AT_FDCWD, path, O_RDONLY | (strchr(mode, 'e') ? O_CLOEXEC : 0), 0);
	f = fd >= 0 ? fdopen(fd, mode) : NULL;
	if (fd >= 0 && !f)
		(void)close(fd);
	return f;
}

PUBLIC FILE *fopen(const char *path, const char *mode)
{
	return stream_or_make("fopen", path, mode);
}

PUBLIC FILE *fopen64(const char *path, const char *mode)
{
	return stream_or_make("fopen64", path, mode);
}
