/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layer_set.h"

#include "base/text.h"
#include "image/unpack.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#define SLOTS_FIRST 1024u
#define HASH_MAX    (2 * UNPACK_ENTRIES_MAX) /* slots; half of them are used at most */

struct layer_set {
	unsigned char key[crypto_shorthash_KEYBYTES];
	uint64_t *slots; /* 0 = free */
	size_t n_slots;  /* a power of two */
	size_t used;
};

int layer_set_new(struct layer_set **ret)
{
	struct layer_set *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->slots = calloc(SLOTS_FIRST, sizeof(*s->slots));
	if (!s->slots) {
		free(s);
		return -ENOMEM;
	}
	s->n_slots = SLOTS_FIRST;
	crypto_shorthash_keygen(s->key);
	*ret = s;
	return 0;
}

void layer_set_free(struct layer_set *s)
{
	if (!s)
		return;
	free(s->slots);
	free(s);
}

static uint64_t hash_of(const struct layer_set *s, const char *path)
{
	uint64_t h;

	_Static_assert(sizeof(h) == crypto_shorthash_BYTES, "a hash fills a slot");
	(void)crypto_shorthash((unsigned char *)&h, (const unsigned char *)path, strlen(path),
			       s->key);
	return h ? h : 1;
}

static uint64_t *find(uint64_t *slots, size_t n, uint64_t h)
{
	size_t i = h & (n - 1);

	while (slots[i] && slots[i] != h)
		i = (i + 1) & (n - 1);
	return &slots[i];
}

static int grow(struct layer_set *s)
{
	const size_t n = 2 * s->n_slots;
	uint64_t *slots = n <= 2 * HASH_MAX ? calloc(n, sizeof(*slots)) : NULL;

	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_slots; i++)
		if (s->slots[i])
			*find(slots, n, s->slots[i]) = s->slots[i];
	free(s->slots);
	s->slots = slots;
	s->n_slots = n;
	return 0;
}

int layer_set_add(struct layer_set *s, const char *path)
{
	int r = s->used >= s->n_slots / 2 ? grow(s) : 0;

	if (r < 0)
		return r;
	const uint64_t h = hash_of(s, path);
	uint64_t *slot = find(s->slots, s->n_slots, h);

	s->used += *slot ? 0 : 1;
	*slot = h;
	return 0;
}

bool layer_set_has(const struct layer_set *s, const char *path)
{
	return *find(s->slots, s->n_slots, hash_of(s, path)) != 0;
}

/* 1: DIR was looked into before. Names are no help here: several of them, by way of links, may mean one folder. A folder
 * that has the number of one that was removed is new, and so of this layer. */
static int note_pruned(struct layer_set *s, int dir)
{
	char key[64]; /* begins as no clean name does */
	struct stat st;

	if (fstat(dir, &st) < 0)
		return -errno;
	(void)snprintf(key, sizeof(key), "//%jx:%jx", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return layer_set_has(s, key) ? 1 : layer_set_add(s, key);
}

/* The deepest folder that unpacking makes has UNPACK_DEPTH_MAX parents, so the recursion ends. */
int layer_prune_children(struct layer_set *s, int dir, const char *prefix, uint64_t *removed)
{
	const int known = note_pruned(s, dir);

	if (known != 0)
		return MIN(known, 0);
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *list = fd >= 0 ? fdopendir(fd) : NULL;

	if (!list) {
		int saved = errno;

		(void)fd_close(fd);
		return -saved;
	}
	for (struct dirent *de; (de = readdir(list)) != NULL;) {
		char path[PATH_MAX];

		if (streq(de->d_name, ".") || streq(de->d_name, ".."))
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s%s", prefix, de->d_name) >=
		    sizeof(path))
			return -ENAMETOOLONG;
		int r = layer_prune(s, dirfd(list), path, removed);

		if (r < 0)
			return r;
	}
	return 0;
}

int layer_prune(struct layer_set *s, int dir, const char *path, uint64_t *removed)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const bool ours = layer_set_has(s, path);
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISDIR(st.st_mode)) {
		if (!ours && unlinkat(dir, name, 0) < 0)
			return -errno;
		*removed += ours ? 0 : 1;
		return 0;
	}
	char prefix[PATH_MAX];
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || (size_t)snprintf(prefix, sizeof(prefix), "%s/", path) >= sizeof(prefix))
		return fd < 0 ? -errno : -ENAMETOOLONG;
	int r = layer_prune_children(s, fd, prefix, removed);

	/* A folder that still has something of this layer stays. */
	if (r >= 0 && !ours && unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY)
		r = -errno;
	return r;
}
