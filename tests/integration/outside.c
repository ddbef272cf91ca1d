/* SPDX-License-Identifier: Apache-2.0 */
#include "outside.h"

#include "base/attr.h"
#include "base/parse.h"
#include "base/text.h"

#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>

#define GROUP_ROOT "/sys/fs/cgroup"
#define NAMES_MAX  256

static pid_t parent_of(pid_t pid)
{
	char path[64];
	char text[512];
	uint64_t parent;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (n <= 0)
		return 0;
	text[n] = '\0';
	const char *end = strrchr(text, ')'); /* a name may hold anything: ") S PARENT " */
	if (!end || strlen(end) < 5 ||
	    parse_u64_n(end + 4, strcspn(end + 4, " "), 0, INT32_MAX, &parent) < 0)
		return 0;
	return (pid_t)parent;
}

static pid_t pid_of(const char *name)
{
	uint64_t pid;

	return parse_u64(name, 1, INT32_MAX, &pid) == 0 ? (pid_t)pid : 0;
}

size_t outside_tree(pid_t root, pid_t *ret, size_t max)
{
	size_t n = 0;

	ret[n++] = root;
	for (size_t i = 0; i < n; i++) {
		_cleanup_dir_ DIR *d = opendir("/proc");
		const struct dirent *de;
		while (d && n < max && (de = readdir(d))) {
			pid_t pid = pid_of(de->d_name);
			if (pid > 0 && parent_of(pid) == ret[i])
				ret[n++] = pid;
		}
	}
	return n;
}

pid_t outside_child(pid_t parent, const char *name)
{
	_cleanup_dir_ DIR *d = opendir("/proc");
	const struct dirent *de;

	while (d && (de = readdir(d))) {
		pid_t pid = pid_of(de->d_name);
		char path[64];
		char text[32] = "";
		if (pid == 0 || parent_of(pid) != parent)
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 &&
		    strncmp(text, name, strlen(name)) == 0)
			return pid;
	}
	return 0;
}

static struct {
	char names[NAMES_MAX][64];
	size_t n;
	const char *below;
	size_t count;
	char found[64];
} walk;

static bool is_known(const char *name)
{
	for (size_t i = 0; i < walk.n; i++)
		if (streq(walk.names[i], name))
			return true;
	return false;
}

static int note_name(const char *path, const struct stat *st UNUSED, int type UNUSED,
		     struct FTW *at)
{
	const char *name = path + at->base;

	if (text_starts_with(name, "caisson-") && !is_known(name) && walk.n < NAMES_MAX)
		(void)snprintf(walk.names[walk.n++], 64, "%s", name);
	return 0;
}

static int find_new(const char *path, const struct stat *st UNUSED, int type UNUSED, struct FTW *at)
{
	const char *name = path + at->base;

	if (text_starts_with(name, "caisson-") && !is_known(name))
		(void)snprintf(walk.found, sizeof(walk.found), "%s", name);
	return 0;
}

static int count_below(const char *path, const struct stat *st UNUSED, int type,
		       struct FTW *at UNUSED)
{
	const char *in = strstr(path, walk.below);

	if (type == FTW_D && in && in[strlen(walk.below)] == '/')
		walk.count++;
	return 0;
}

static int note_exists(const char *path, const struct stat *st UNUSED, int type UNUSED,
		       struct FTW *at)
{
	if (streq(path + at->base, walk.below))
		walk.count++;
	return 0;
}

void outside_groups_before(void)
{
	walk.n = 0;
	(void)nftw(GROUP_ROOT, note_name, 16, FTW_PHYS);
}

void outside_groups_after(char ret[64])
{
	walk.found[0] = '\0';
	(void)nftw(GROUP_ROOT, find_new, 16, FTW_PHYS);
	memcpy(ret, walk.found, 64);
}

size_t outside_groups_below(const char *name)
{
	walk.below = name;
	walk.count = 0;
	if (name[0])
		(void)nftw(GROUP_ROOT, count_below, 16, FTW_PHYS);
	return walk.count;
}

int outside_group_exists(const char *name)
{
	walk.below = name;
	walk.count = 0;
	if (name[0])
		(void)nftw(GROUP_ROOT, note_exists, 16, FTW_PHYS);
	return walk.count > 0;
}
