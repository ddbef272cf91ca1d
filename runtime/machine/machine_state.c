/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, time and processes of the sandbox, as runtime/python/limits.py tells them to psutil. */
#include "machine_files.h"

#include "base/parse.h"
#include "old_libc.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define FILE_MAX 4096 /* bytes of a file that are read */
#define UTIME                                                                                      \
	14 /* the field of /proc/PID/stat with the processor time of a program (proc(5)), before that of the kernel */

/* The beginning of the file PATH as a text. */
static bool read_start(const char *path, char ret[FILE_MAX])
{
	const int fd = machine_open(path);
	const ssize_t n = fd < 0 ? -1 : read(fd, ret, FILE_MAX - 1);

	if (fd >= 0)
		(void)close(fd);
	ret[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The number at TEXT, after blanks; 0 if there is none. */
static uint64_t number_at(const char *text)
{
	const char *digits = text + strspn(text, " \t");
	uint64_t n = 0;

	return parse_u64_n(digits, strspn(digits, "0123456789"), 0, UINT64_MAX, &n) == 0 ? n : 0;
}

struct processes {
	uint64_t memory;       /* bytes; what several share is divided among them (Pss) */
	uint64_t user, system; /* clock ticks of those that live */
	unsigned n;
};

static void add_process(struct processes *p, const char *pid)
{
	char path[64], text[FILE_MAX];

	(void)snprintf(path, sizeof(path), "/proc/%.20s/smaps_rollup", pid);
	const char *pss = read_start(path, text) ? strstr(text, "\nPss:") : NULL;
	if (pss)
		p->memory += number_at(pss + 5) * 1024;
	(void)snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	const char *rest = read_start(path, text) ? strrchr(text, ')') : NULL;
	if (!rest) /* it has ended */
		return;
	p->n++;
	for (unsigned field = 3; rest && field <= UTIME; field++)
		rest = strchr(rest + 1, ' ');
	const char *next = rest ? strchr(rest + 1, ' ') : NULL;
	if (next) {
		p->user += number_at(rest);
		p->system += number_at(next);
	}
}

static struct processes look_at_processes(void)
{
	struct processes p = {.n = 0};
	DIR *all = opendir("/proc");
	const struct dirent *de;

	while (all && (de = readdir(all)))
		if (de->d_name[0] >= '1' && de->d_name[0] <= '9')
			add_process(&p, de->d_name);
	if (all)
		(void)closedir(all);
	return p;
}

static uint64_t bytes_of(const char *path, bool all)
{
	struct statvfs fs;

	if (statvfs(path, &fs) < 0)
		return 0;
	return (uint64_t)(all ? fs.f_blocks : fs.f_blocks - fs.f_bfree) * fs.f_frsize;
}

/* Since the sandbox began: its /proc was mounted then. In hundredths of a second. */
static uint64_t age(void)
{
	struct timespec now;
	struct stat st;

	if (old_stat("/proc", &st) < 0 || clock_gettime(CLOCK_REALTIME, &now) < 0)
		return 1;
	const int64_t passed = ((int64_t)now.tv_sec - (int64_t)st.st_ctim.tv_sec) * 100 +
			       ((int64_t)now.tv_nsec - (int64_t)st.st_ctim.tv_nsec) / 10000000;
	return passed > 0 ? (uint64_t)passed : 1;
}

struct memory {
	uint64_t limit, used, files, left; /* bytes */
};

/* init gives /dev/shm half of the memory limit; a limit that was changed since is in the environment. */
static uint64_t memory_limit(void)
{
	const char *changed = getenv("CAISSON_MEMORY");
	const uint64_t given = changed ? number_at(changed) : 0;

	return given > 0 ? given : 2 * bytes_of("/dev/shm", true);
}

static struct memory look_at_memory(void)
{
	struct memory m = {
	    .limit = memory_limit(),
	    .used = look_at_processes().memory,
	    .files = bytes_of("/dev/shm", false) + bytes_of("/tmp", false),
	};

	m.left = m.limit > m.used + m.files ? m.limit - m.used - m.files : 0;
	return m;
}

uint64_t machine_memory(bool left)
{
	return left ? look_at_memory().left : memory_limit();
}

void machine_meminfo(int fd)
{
	const struct memory m = look_at_memory();
	const struct {
		const char *name;
		uint64_t bytes;
	} lines[] = {{"MemTotal:", m.limit}, {"MemFree:", m.left},   {"MemAvailable:", m.left},
		     {"Buffers:", 0},        {"Cached:", m.files},   {"SwapCached:", 0},
		     {"Active:", m.used},    {"Inactive:", m.files}, {"SwapTotal:", 0},
		     {"SwapFree:", 0},       {"Shmem:", m.files},    {"Slab:", 0},
		     {"SReclaimable:", 0}};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		(void)dprintf(fd, "%-15s %8llu kB\n", lines[i].name,
			      (unsigned long long)lines[i].bytes / 1024);
}

void machine_stat(int fd)
{
	const struct processes p = look_at_processes();
	const unsigned n = machine_processors();
	const uint64_t whole = age() * (uint64_t)sysconf(_SC_CLK_TCK) / 100 * n;
	const uint64_t idle = whole > p.user + p.system ? whole - p.user - p.system : 0;
	struct timespec since;

	(void)clock_gettime(CLOCK_BOOTTIME, &since);
	(void)dprintf(fd, "cpu  %llu 0 %llu %llu 0 0 0 0 0 0\n", (unsigned long long)p.user,
		      (unsigned long long)p.system, (unsigned long long)idle);
	for (unsigned i = 0; i < n; i++)
		(void)dprintf(fd, "cpu%u %llu 0 %llu %llu 0 0 0 0 0 0\n", i,
			      (unsigned long long)p.user / n, (unsigned long long)p.system / n,
			      (unsigned long long)idle / n);
	/* Start times of processes count from here: clock_gettime(2) tells it to everybody. */
	(void)dprintf(fd,
		      "intr 0\nctxt 0\nbtime %lld\nprocesses %u\nprocs_running 1\nprocs_blocked "
		      "0\nsoftirq 0\n",
		      (long long)(time(NULL) - since.tv_sec), p.n);
}

void machine_uptime(int fd)
{
	const unsigned long long hundredths = age();

	(void)dprintf(fd, "%llu.%02llu %llu.%02llu\n", hundredths / 100, hundredths % 100,
		      hundredths / 100, hundredths % 100);
}

/* Nothing counts the load of a sandbox. */
void machine_loadavg(int fd)
{
	(void)dprintf(fd, "0.00 0.00 0.00 1/%u 0\n", look_at_processes().n);
}

void machine_version(int fd)
{
	struct utsname u;

	if (uname(&u) == 0)
		(void)dprintf(fd, "%s version %s (caisson) %s\n", u.sysname, u.release, u.version);
}
