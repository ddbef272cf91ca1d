/* SPDX-License-Identifier: Apache-2.0 */
/* Enforces the memory limit of a sandbox that has no memory cgroup: adds up what its processes and
 * its memory file systems hold.
 *
 * There are two ways to count. The cheap one reads /proc/PID/status and counts a page that processes
 * share after a fork once per process. Only if that sum is over the limit, the exact one reads
 * smaps_rollup, so that a pool of forked workers is not killed for memory that exists once.
 *
 * Counted: private pages, page tables, shared pages, files on tmpfs, open memfd_create(2) files, System V
 * objects, and UNIX sockets with what waits in them. A mapped page of such a file or segment is found twice, in the processes and in
 * the file, so the larger of both sums is used.
 *
 * Not counted: buffers of pipes, which the kernel bounds for each user (pipe(7)), files without a name that are
 * in flight in a socket, and memfds of a process that is not dumpable. Only the limits of open files and processes
 * bound these. */
#include "init.h"

#include "base/attr.h"
#include "base/fdio.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PROCESSES_MAX 4096
#define TEXT_MAX      2048

/* Where a session has its files. A folder of these that lies on the disk of a stored sandbox is not
 * counted. */
static const char *const memory_mounts[] = {"/mnt/data", "/tmp", "/dev/shm", "/home/sandbox"};

static uint64_t in_mounts(void)
{
	uint64_t sum = 0;
	struct statfs v;

	for (size_t i = 0; i < sizeof(memory_mounts) / sizeof(memory_mounts[0]); i++)
		if (statfs(memory_mounts[i], &v) == 0 && v.f_type == TMPFS_MAGIC)
			sum += (uint64_t)(v.f_blocks - v.f_bfree) * (uint64_t)v.f_bsize;
	return sum;
}

static ssize_t read_text(int proc, const char *pid, const char *name, char ret[TEXT_MAX])
{
	char path[64];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s", pid, name) >= sizeof(path))
		return -1;
	int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, ret, TEXT_MAX - 1);
	(void)close(fd);
	if (n >= 0)
		ret[n] = '\0';
	return n;
}

/* Reads the next number of TEXT; *AT moves behind it. */
static uint64_t next_number(const char **at)
{
	uint64_t value = 0;

	*at += strcspn(*at, "0123456789");
	size_t n = strspn(*at, "0123456789");
	if (parse_u64_n(*at, n, 0, UINT64_MAX, &value) < 0)
		value = 0;
	*at += n;
	return value;
}

struct held {            /* bytes */
	uint64_t own;    /* private pages, also swapped ones, and page tables */
	uint64_t pages;  /* the part of `own` that processes may share after a fork */
	uint64_t shared; /* shared pages of tmpfs files, memfds and segments */
};

/* The value of a line "KEY   N kB" in bytes; 0 = there is no such line. */
static uint64_t value_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	if (!at)
		return 0;
	at += strlen(key);
	return next_number(&at) * 1024;
}

/* From /proc/PID/status, proc(5), which is readable even if the process is not dumpable. */
static struct held resident(int proc, const char *pid)
{
	char text[TEXT_MAX];

	if (read_text(proc, pid, "status", text) <= 0)
		return (struct held){0};
	/* search behind the process name, which the run chooses */
	const char *at = strstr(text, "\nTgid:");
	if (!at)
		return (struct held){0};
	/* gVisor's kernel tells VmRSS alone, which counts mapped files as well. */
	uint64_t pages = strstr(at, "\nRssAnon:")
			     ? value_of(at, "\nRssAnon:") + value_of(at, "\nVmSwap:")
			     : value_of(at, "\nVmRSS:");
	return (struct held){.own = pages + value_of(at, "\nVmPTE:"),
			     .pages = pages,
			     .shared = value_of(at, "\nRssShmem:")};
}

uint64_t watch_resident(const struct init *in, pid_t pid)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%d", pid);
	return resident(in->proc, name).own;
}

static struct held proportional(int proc, const char *pid)
{
	char text[TEXT_MAX];
	struct held h = resident(proc, pid);

	if (read_text(proc, pid, "smaps_rollup", text) <= 0)
		return h; /* a process that is not dumpable counts in full */
	h.own -= MIN(h.own, h.pages);
	h.own += value_of(text, "\nPss_Anon:") + value_of(text, "\nSwapPss:");
	h.shared = value_of(text, "\nPss_Shmem:");
	return h;
}

static uint64_t beyond(const struct init *in, pid_t pid, uint64_t clean)
{
	uint64_t own = pid > 0 ? watch_resident(in, pid) : 0;

	return own - MIN(own, clean);
}

/* Memory of the waiting interpreters. Nearly all of it is shared with the zygote. So of a session
 * that waits, or of its backup while it runs, and of each context that is set aside, and of each checkpoint's interpreter only what exceeds the clean
 * interpreter is counted, and of the others nothing. Pages that these share are counted more than once. */
static uint64_t of_waiting(const struct init *in)
{
	if (in->warm.clean <= 0 && in->warm.shared == 0)
		return 0;
	uint64_t clean = in->warm.clean > 0 ? watch_resident(in, in->warm.clean) : in->warm.shared;
	uint64_t sum = beyond(in, session_waiting(in), clean);

	size_t at = 0;
	for (pid_t pid = contexts_next(in, &at); pid >= 0; pid = contexts_next(in, &at))
		sum += beyond(in, pid, clean);
	for (size_t i = 0; i < PROTO_CHECKPOINTS_MAX; i++)
		if (in->checkpoints.at[i].state == CHECKPOINT_LIVE)
			sum += beyond(in, in->checkpoints.at[i].pid, clean);
	return sum;
}

static bool is_waiting(const struct init *in, const char *name)
{
	uint64_t number;

	if (parse_u64_n(name, strlen(name), 2, INT32_MAX, &number) < 0)
		return false;
	pid_t pid = (pid_t)number;
	return pid == in->warm.clean || pid == in->warm.spare || session_keeps(in, pid) ||
	       checkpoints_keep(in, pid) || end_is_leaving(in, pid) || contexts_wait(in, pid);
}

static struct held in_processes(const struct init *in, struct held (*one)(int, const char *))
{
	int proc = in->proc;
	struct held sum = {0};
	int n = 0;
	int fd = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *de;

	while (d && n++ < PROCESSES_MAX && (de = readdir(d)))
		if (de->d_name[0] >= '1' && de->d_name[0] <= '9' && !is_waiting(in, de->d_name)) {
			struct held h = one(proc, de->d_name);
			sum.own += h.own;
			sum.shared += h.shared;
		}
	if (d)
		(void)closedir(d);
	else if (fd >= 0)
		(void)close(fd);
	return sum;
}

/* Bytes of open memfds. All memfds are on one internal device of the kernel; a memfd of our own tells
 * its number. */
static uint64_t in_memfds(const struct init *in)
{
	static dev_t dev;
	struct stat st;

	if (dev == 0) {
		_cleanup_fd_ int fd = memfd_create("watch", MFD_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0)
			return 0;
		dev = st.st_dev;
	}
	return open_nameless(in, dev).bytes;
}

static uint64_t left(const struct init *in, uint64_t files, uint64_t kernel,
		     struct held (*one)(int, const char *))
{
	const uint64_t limit = in->config.limits.memory_bytes;
	struct held h = in_processes(in, one);

	return limit - MIN(limit, h.own + of_waiting(in) + kernel + MAX(h.shared, files));
}

uint64_t watch_memory(const struct init *in)
{
	const uint64_t files = in_mounts() + in_memfds(in) + ipc_segments();
	const uint64_t kernel = ipc_kernel() + sockets_unix_bytes();

	const uint64_t room = left(in, files, kernel, resident);
	return room > 0 ? room : left(in, files, kernel, proportional);
}
