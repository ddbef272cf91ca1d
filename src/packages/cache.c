/* SPDX-License-Identifier: Apache-2.0 */
#include "packages/cache.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/workers.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ENTRIES_MAX 20000u

struct cache {
	int dir; /* -1 = none */
	uint64_t max_bytes;
};

struct entry {
	char name[SHA256_HEX];
	uint64_t bytes;
	int64_t used_ns;
};

static bool is_hex(const char *s)
{
	return strlen(s) == SHA256_HEX - 1 && strspn(s, "0123456789abcdef") == SHA256_HEX - 1;
}

struct cache *cache_new(int dir, uint64_t max_bytes)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (!c) {
		(void)fd_close(dir);
		return NULL;
	}
	c->max_bytes = max_bytes;
	c->dir = dir;
	return c;
}

struct cache *cache_free(struct cache *c)
{
	if (c)
		(void)fd_close(c->dir);
	free(c);
	return NULL;
}

int cache_open(struct cache *c, const char *sha256)
{
	if (c->dir < 0 || !is_hex(sha256))
		return -1;
	int fd = openat(c->dir, sha256, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	/* The modification time says when an entry was last used. A file of another uid keeps
	 * its time. */
	if (fd >= 0)
		(void)futimens(fd, NULL);
	return fd;
}

int cache_begin(struct cache *c)
{
	int fd = c->dir < 0 ? -1 : openat(c->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);

	if (fd < 0)
		fd = memfd_create("wheel", MFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int by_use(const void *a, const void *b)
{
	const struct entry *x = a;
	const struct entry *y = b;

	return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* Lists all entries; *RET is owned. */
static size_t list_entries(struct cache *c, struct entry **ret, uint64_t *ret_bytes)
{
	struct entry *all = calloc(ENTRIES_MAX, sizeof(*all));
	int copy = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *d = copy < 0 ? NULL : fdopendir(copy);
	size_t n = 0;

	*ret = all;
	*ret_bytes = 0;
	for (struct dirent *de; all && d && n < ENTRIES_MAX && (de = readdir(d));) {
		struct stat st;
		if (!is_hex(de->d_name) ||
		    fstatat(c->dir, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		memcpy(all[n].name, de->d_name, SHA256_HEX);
		all[n].bytes = (uint64_t)st.st_size;
		all[n].used_ns =
		    (int64_t)st.st_mtim.tv_sec * (int64_t)NS_PER_S + st.st_mtim.tv_nsec;
		*ret_bytes += all[n++].bytes;
	}
	return n;
}

static void make_room(struct cache *c, uint64_t bytes)
{
	_cleanup_free_ struct entry *all = NULL;
	uint64_t sum;
	size_t n = list_entries(c, &all, &sum);

	if (sum + bytes <= c->max_bytes && n < ENTRIES_MAX)
		return;
	qsort(all, n, sizeof(*all), by_use);
	for (size_t i = 0; i < n && (sum + bytes > c->max_bytes || n - i >= ENTRIES_MAX); i++) {
		(void)unlinkat(c->dir, all[i].name, 0);
		sum -= all[i].bytes;
	}
}

/* C outlives it: jobs of threads end before what they use. */
struct change {
	struct cache *cache;
	int fd; /* owned; -1: the entry goes */
	uint64_t bytes;
	char sha256[SHA256_HEX];
};

static void keep(const struct change *g)
{
	const struct cache *c = g->cache;
	char path[64];

	make_room(g->cache, g->bytes);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", g->fd);
	/* A failure costs only the next download: either the entry exists already, or the file
	 * was not made in this folder. */
	if (linkat(AT_FDCWD, path, c->dir, g->sha256, AT_SYMLINK_FOLLOW) < 0 && errno == EEXIST)
		(void)utimensat(c->dir, g->sha256, NULL, AT_SYMLINK_NOFOLLOW);
	(void)close(g->fd);
}

static void change(void *user)
{
	struct change *g = user;

	if (g->fd >= 0)
		keep(g);
	else
		(void)unlinkat(g->cache->dir, g->sha256, 0);
	free(g);
}

/* FD is owned. */
static void start(struct cache *c, int fd, const char *sha256, uint64_t bytes)
{
	struct change *g = malloc(sizeof(*g));

	if (g) {
		*g = (struct change){.cache = c, .fd = fd, .bytes = bytes};
		memcpy(g->sha256, sha256, SHA256_HEX);
	}
	if (g && workers_run_counted("packages", change, NULL, g) == 0)
		return;
	free(g);
	workers_close("packages", fd);
}

void cache_keep(struct cache *c, int fd, const char *sha256, uint64_t bytes)
{
	if (c->dir < 0 || !is_hex(sha256) || bytes > c->max_bytes)
		return;
	const int copy = fd_dup(fd);
	if (copy >= 0)
		start(c, copy, sha256, bytes);
}

void cache_drop(struct cache *c, const char *sha256)
{
	if (c->dir >= 0 && is_hex(sha256))
		start(c, -1, sha256, 0);
}
