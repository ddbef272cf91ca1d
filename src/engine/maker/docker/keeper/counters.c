/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's figures about a container, from the control groups of its first process. They are files
 * of this machine, so no question to the daemon is needed. */
#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"
#include "engine/maker/docker/keeper/keeper.h"

#include <fcntl.h>
#include <string.h>

#define CGROUP_TEXT_MAX 16384u
#define STAT_MAX        8192
#define CGROUPS         "/sys/fs/cgroup"

struct groups { /* folders below CGROUPS, "" = there is none */
	bool v2;
	char memory[512], cpu[512], pids[512];
};

static bool has_word(const char *list, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
		if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
			return true;
	return false;
}

/* A line of /proc/PID/cgroup, cgroups(7): "NUMBER:CONTROLLERS:/PATH". */
static void take_line(struct groups *g, char *line)
{
	char *list = strchr(line, ':');
	char *path = list ? strchr(list + 1, ':') : NULL;

	if (!path)
		return;
	*path++ = '\0';
	list++;
	if (strstr(path, "/.."))
		return;
	if (!*list && text_starts_with(line, "0")) {
		if (g->memory[0]) /* the unified tree of a host with both kinds */
			return;
		g->v2 = true;
		(void)snprintf(g->memory, sizeof(g->memory), "%.400s", path);
		return;
	}
	if (g->v2) {
		g->v2 = false;
		g->memory[0] = '\0';
	}
	if (has_word(list, "memory"))
		(void)snprintf(g->memory, sizeof(g->memory), "/memory%.400s", path);
	if (has_word(list, "cpuacct"))
		(void)snprintf(g->cpu, sizeof(g->cpu), "/%.60s%.400s", list, path);
	if (has_word(list, "pids"))
		(void)snprintf(g->pids, sizeof(g->pids), "/pids%.400s", path);
}

static int open_in(const char *folder, const char *file, int flags)
{
	char path[640];

	if (!folder[0])
		return -1;
	(void)snprintf(path, sizeof(path), CGROUPS "%s/%s", folder, file);
	return open(path, flags | O_CLOEXEC);
}

static void open_all(struct docker_sandbox *b, const struct groups *g, int *ret_oom, int *ret_peak,
		     int *ret_cpu)
{
	if (g->v2) {
		*ret_oom = open_in(g->memory, "memory.events", O_RDONLY);
		*ret_peak = open_in(g->memory, "memory.peak", O_RDONLY);
		*ret_cpu = open_in(g->memory, "cpu.stat", O_RDONLY);
		b->memory = open_in(g->memory, "memory.current", O_RDONLY);
		b->memory_stat = open_in(g->memory, "memory.stat", O_RDONLY);
		b->cpu = open_in(g->memory, "cpu.stat", O_RDONLY);
		b->pids = open_in(g->memory, "pids.current", O_RDONLY);
		return;
	}
	*ret_oom = open_in(g->memory, "memory.oom_control", O_RDONLY);
	*ret_peak = open_in(g->memory, "memory.max_usage_in_bytes", O_RDWR);
	*ret_cpu = open_in(g->cpu, "cpuacct.usage", O_RDONLY);
	b->memory = open_in(g->memory, "memory.usage_in_bytes", O_RDONLY);
	b->memory_stat = open_in(g->memory, "memory.stat", O_RDONLY);
	b->cpu = open_in(g->cpu, "cpuacct.usage", O_RDONLY);
	b->pids = open_in(g->pids, "pids.current", O_RDONLY);
}

int counters_open(struct docker_sandbox *b, pid_t pid, int *ret_oom, int *ret_peak, int *ret_cpu)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(CGROUP_TEXT_MAX);
	struct groups g = {0};
	char path[64];
	char *rest = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fd_read_file(fd, &text) < 0 || buf_add_char(&text, '\0') < 0)
		return -ESRCH;
	for (char *line = strtok_r(text.data, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest))
		take_line(&g, line);
	/* The name of the container's group is its id, which the daemon told us. */
	if (b->id[0] && !strstr(g.memory, b->id) && !strstr(g.cpu, b->id))
		return -EPERM;
	open_all(b, &g, ret_oom, ret_peak, ret_cpu);
	return 0;
}

uint64_t counters_read(int fd)
{
	char text[64];
	uint64_t value;
	ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return parse_u64_n(text, strcspn(text, "\n"), 0, UINT64_MAX, &value) == 0 ? value : 0;
}

/* cpuacct.usage is a number of nanoseconds, cpu.stat begins with "usage_usec N". */
uint64_t counters_cpu(const struct docker_sandbox *b)
{
	static const char key[] = "usage_usec ";
	char text[256];
	uint64_t value;
	ssize_t n = b->cpu >= 0 ? pread(b->cpu, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	const bool us = text_starts_with(text, key);
	const char *number = us ? text + strlen(key) : text;
	if (parse_u64_n(number, strcspn(number, "\n"), 0, UINT64_MAX / 1000, &value) < 0)
		return 0;
	return value * (us ? 1000 : 1);
}

/* The number behind KEY, which begins a line; 0 = it is not there. */
static uint64_t number_of(const char *text, const char *key)
{
	const size_t n = strlen(key);
	uint64_t value;

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, key, n) == 0 && line[n] == ' ' &&
		    parse_u64_n(line + n + 1, strcspn(line + n + 1, "\n"), 0, UINT64_MAX, &value) ==
			0)
			return value;
	return 0;
}

uint64_t counters_memory(const struct docker_sandbox *b)
{
	/* v1 also has the figures of groups below; v2 has no other ones. */
	static const char *const lists[][2] = {{"total_inactive_file", "inactive_file"},
					       {"total_active_file", "active_file"}};
	char text[STAT_MAX];
	uint64_t used = counters_read(b->memory);
	const ssize_t n =
	    b->memory_stat >= 0 ? pread(b->memory_stat, text, sizeof(text) - 1, 0) : -1;

	if (n <= 0)
		return used;
	text[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const uint64_t all = number_of(text, lists[i][0]);
		const uint64_t cached = all > 0 ? all : number_of(text, lists[i][1]);
		used -= MIN(used, cached);
	}
	return used;
}

void counters_close(struct docker_sandbox *b)
{
	b->memory = fd_close(b->memory);
	b->memory_stat = fd_close(b->memory_stat);
	b->cpu = fd_close(b->cpu);
	b->pids = fd_close(b->pids);
}
