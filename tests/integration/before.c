/* SPDX-License-Identifier: Apache-2.0 */
#include "before.h"

#include "engine_client.h"
#include "outside.h"

#include "base/rand.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define END_WAIT_MS   120000 /* a disk that writes back gigabytes lets an unmount wait */
#define PROCESSES_MAX 256

void before_group_of_newest(char ret[64])
{
	static pid_t tree[PROCESSES_MAX];
	size_t n = outside_tree(getpid(), tree, PROCESSES_MAX);
	pid_t newest = 0;

	for (size_t i = 1; i < n; i++)
		newest = MAX(newest, tree[i]);
	ret[0] = '\0';
	for (int fd = 0; fd < 64; fd++) {
		char path[64];
		char link[512] = "";
		(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", newest, fd);
		if (readlink(path, link, sizeof(link) - 1) < 0)
			continue;
		const char *name = strrchr(link, '/');
		if (text_starts_with(link, "/sys/fs/cgroup/") && name &&
		    text_starts_with(name, "/caisson-"))
			(void)!text_copy(ret, 64, name + 1);
	}
}

static unsigned count_lines(const char *path, const char *with)
{
	FILE *f = fopen(path, "re");
	char line[4096];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, with) != NULL;
	if (f)
		(void)fclose(f);
	return n;
}

/* Loop devices whose file is in the state folder DIR. */
static unsigned count_loops(const char *dir)
{
	unsigned n = 0;

	for (int i = 0; i < 256; i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/sys/block/loop%d/loop/backing_file", i);
		n += count_lines(path, dir);
	}
	return n;
}

/* This process is a subreaper: whoever loses its parent becomes its child and is counted. */
static size_t count_processes(void)
{
	static pid_t tree[PROCESSES_MAX];

	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	return outside_tree(getpid(), tree, PROCESSES_MAX);
}

struct before before_look(const char *dir)
{
	return (struct before){.processes = count_processes(),
			       .mounts = count_lines("/proc/self/mountinfo", ""),
			       .loops = count_loops(dir)};
}

/* Prints the lines of the FILE of a process, for the reader of a failure. */
static void show(pid_t pid, const char *file)
{
	char path[64];
	char line[256];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		(void)printf("# %d %s: %s\n", pid, file, line);
	if (f)
		(void)fclose(f);
}

static void show_processes(void)
{
	static pid_t tree[PROCESSES_MAX];
	size_t n = outside_tree(getpid(), tree, PROCESSES_MAX);

	for (size_t i = 1; i < n; i++) {
		show(tree[i], "stat");
		show(tree[i], "wchan");
		show(tree[i], "stack");
	}
}

static bool is_clean(const char *group, const char *dir, const struct before *b)
{
	return count_processes() <= b->processes && count_loops(dir) <= b->loops &&
	       !(group[0] && outside_group_exists(group));
}

void before_expect_again(const struct before *b, const char *group, const char *dir)
{
	const struct timespec pause = {.tv_nsec = 10 * NS_PER_MS};
	unsigned looks = END_WAIT_MS / 10;

	while (!is_clean(group, dir, b) && looks > 0) {
		looks--;
		(void)nanosleep(&pause, NULL);
	}
	if (looks == 0) {
		(void)printf("# left: %zu processes (%zu before), %u loops, group %s\n",
			     count_processes(), b->processes, count_loops(dir),
			     group[0] && outside_group_exists(group) ? group : "gone");
		show_processes();
	}
	EXPECT(looks > 0);
	EXPECT(geteuid() != 0 || count_lines("/proc/self/mountinfo", "") == b->mounts);
}
