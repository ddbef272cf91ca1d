/* SPDX-License-Identifier: Apache-2.0 */
/* What the sandbox's processes and its memory file systems hold together, where no control group
 * counts it. Two looks: a cheap one that counts pages shared after a fork once per process, and
 * only when that is over the limit an exact one (smaps_rollup), so that a pool of forked workers is
 * not killed for memory that exists once. */
#include "init.h"

#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PROCESSES_MAX 4096
#define TEXT_MAX      2048

/* the first is none when the workspace is stored */
static const char *const memory_mounts[] = {"/mnt/data", "/tmp", "/dev/shm", "/home/sandbox"};

static uint64_t in_mounts(const struct init *in)
{
	uint64_t sum = 0;
	struct statvfs v;

	for (size_t i = in->stored ? 1 : 0; i < sizeof(memory_mounts) / sizeof(memory_mounts[0]);
	     i++)
		if (statvfs(memory_mounts[i], &v) == 0)
			sum += (uint64_t)(v.f_blocks - v.f_bfree) * v.f_frsize;
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

/* The next number of a text of the kernel; *AT moves behind it. */
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

/* Resident pages without those of files: proc(5), statm. */
static uint64_t resident(int proc, const char *pid)
{
	char text[TEXT_MAX];
	const char *at = text;

	if (read_text(proc, pid, "statm", text) <= 0)
		return 0;
	(void)next_number(&at); /* size */
	uint64_t all = next_number(&at);
	uint64_t shared = next_number(&at);
	return all > shared ? (all - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint64_t proportional(int proc, const char *pid)
{
	char text[TEXT_MAX];

	if (read_text(proc, pid, "smaps_rollup", text) <= 0)
		return resident(proc,
				pid); /* a process that made itself unreadable counts in full */
	const char *at = strstr(text, "Pss_Anon:");
	return at ? next_number(&at) * 1024 : 0;
}

/* Interpreters that wait are not readable, and nearly all of their memory is the zygote's: nothing
 * of them counts but what the holder of a session has beyond the clean interpreter. */
static uint64_t of_waiting(const struct init *in)
{
	char pid[16];

	if (in->session.holder <= 0 || in->warm.clean <= 0)
		return 0;
	(void)snprintf(pid, sizeof(pid), "%d", in->session.holder);
	uint64_t holder = resident(in->proc, pid);
	(void)snprintf(pid, sizeof(pid), "%d", in->warm.clean);
	uint64_t clean = resident(in->proc, pid);
	return holder > clean ? holder - clean : 0;
}

static bool is_waiting(const struct init *in, const char *name)
{
	uint64_t pid;

	if (parse_u64_n(name, strlen(name), 2, INT32_MAX, &pid) < 0)
		return false;
	return (pid_t)pid == in->warm.clean || (pid_t)pid == in->warm.spare ||
	       session_keeps(in, (pid_t)pid) || end_is_leaving(in, (pid_t)pid);
}

static uint64_t in_processes(const struct init *in, uint64_t (*one)(int, const char *))
{
	int proc = in->proc;
	uint64_t sum = 0;
	int n = 0;
	int fd = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *de;

	while (d && n++ < PROCESSES_MAX && (de = readdir(d)))
		if (de->d_name[0] >= '1' && de->d_name[0] <= '9' && !is_waiting(in, de->d_name))
			sum += one(proc, de->d_name);
	if (d)
		(void)closedir(d);
	else if (fd >= 0)
		(void)close(fd);
	return sum;
}

bool watch_memory(const struct init *in)
{
	uint64_t limit = in->config.limits.memory_bytes;
	uint64_t base = in_mounts(in) + of_waiting(in);

	if (base + in_processes(in, resident) <= limit)
		return false;
	return base + in_processes(in, proportional) > limit;
}
