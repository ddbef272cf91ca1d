/* SPDX-License-Identifier: Apache-2.0 */
/* What all kinds of control groups share: finding the trees, reading and writing small files, removal. */
#include "engine/maker/native/monitor/cgroup.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define VALUE_MAX        4096
#define REMOVE_DEPTH_MAX 4

static const struct cgroup_ops *const kinds[] = {&cgroup2_ops, &cgroup1_ops, &cgroup_none_ops};

int cgroup_open(struct cgroup *c, const char *instance, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		*c = (struct cgroup){.ops = kinds[i]};
		for (size_t t = 0; t < CGROUP_TREE_MAX_; t++)
			c->dir[t] = c->leave[t] = -1;
		int r = kinds[i]->open(c, instance);
		if (r == 0)
			return 0;
		(void)cgroup_close(c);
		if (r != -ENOTSUP)
			return err_set(e, ERR_ENGINE_UNAVAILABLE, -r, "control groups (%s)",
				       kinds[i]->name);
	}
	return err_set(e, ERR_INTERNAL, 0, "no kind of control groups works");
}

bool cgroup_close(struct cgroup *c)
{
	bool clean = true;

	for (size_t i = 0; i < CGROUP_TREE_MAX_; i++) {
		c->dir[i] = fd_close(c->dir[i]);
		c->leave[i] = fd_close(c->leave[i]);
		if (c->path[i][0])
			clean &= cgroup_remove_tree(c->path[i]);
		c->path[i][0] = '\0';
	}
	return clean;
}

void cgroup_fds_close(struct cgroup_fds *fds)
{
	fd_close_many(fds->join, fds->n);
	fds->kill = fd_close(fds->kill);
	fds->oom = fd_close(fds->oom);
	fds->peak = fd_close(fds->peak);
	fds->cpu = fd_close(fds->cpu);
	*fds = CGROUP_FDS_NONE;
}

static bool remove_below(int parent, const char *name, int depth)
{
	_cleanup_fd_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return errno == ENOENT;
	int copy = fd_dup(fd);
	_cleanup_dir_ DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
	const struct dirent *de;
	while (d && depth < REMOVE_DEPTH_MAX && (de = readdir(d)))
		if (de->d_type == DT_DIR && !streq(de->d_name, ".") && !streq(de->d_name, ".."))
			(void)remove_below(fd, de->d_name, depth + 1);
	if (!d && copy >= 0)
		(void)close(copy);
	return unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

bool cgroup_remove_tree(const char *path)
{
	return remove_below(AT_FDCWD, path, 0);
}

/* Takes the next blank-separated word of *S; returns its length. */
static size_t next_word(const char **s, const char **ret)
{
	*s += strspn(*s, " ");
	*ret = *s;
	size_t n = strcspn(*s, " \n");
	*s += n;
	return n;
}

static bool has_item(const char *list, size_t len, const char *item)
{
	size_t want = strlen(item);

	while (len > 0) {
		const char *comma = memchr(list, ',', len);
		size_t n = comma ? (size_t)(comma - list) : len;
		if (n == want && memcmp(list, item, n) == 0)
			return true;
		if (!comma)
			return false;
		list += n + 1;
		len -= n + 1;
	}
	return false;
}

struct mount_line { /* slices of one line of mountinfo(5) */
	const char *root, *point, *type, *options;
	size_t root_len, point_len, type_len, options_len;
};

static bool parse_mount_line(const char *line, size_t len, struct mount_line *m)
{
	const char *s = line;
	const char *word;
	const char *dash = memmem(line, len, " - ", 3);

	if (!dash)
		return false;
	for (int i = 0; i < 3; i++)
		(void)next_word(&s, &word);
	m->root_len = next_word(&s, &m->root);
	m->point_len = next_word(&s, &m->point);
	s = dash + 3;
	m->type_len = next_word(&s, &m->type);
	(void)next_word(&s, &word);
	m->options_len = next_word(&s, &m->options);
	return m->point_len > 0 && !memchr(m->point, '\\', m->point_len);
}

/* Finds the group of this process in the tree of controller NAME: the third field of its line in
 * /proc/self/cgroup. */
static bool own_group(const char *self, const char *name, const char **ret, size_t *ret_len)
{
	while (*self) {
		size_t len = strcspn(self, "\n");
		const char *a = memchr(self, ':', len);
		const char *b = a ? memchr(a + 1, ':', len - (size_t)(a + 1 - self)) : NULL;
		if (b) {
			size_t list = (size_t)(b - a - 1);
			if (name ? has_item(a + 1, list, name) : (list == 0 && self[0] == '0')) {
				*ret = b + 1;
				*ret_len = len - (size_t)(b + 1 - self);
				return true;
			}
		}
		self += len + (self[len] == '\n');
	}
	return false;
}

int cgroup_find(const char *mountinfo, const char *self, const char *name, char ret[PATH_MAX],
		size_t *ret_mount_len)
{
	const char *type = name ? "cgroup" : "cgroup2";
	const char *own;
	size_t own_len;
	struct mount_line m;

	if (!own_group(self, name, &own, &own_len))
		return -ENOENT;
	for (size_t len; *mountinfo; mountinfo += len + (mountinfo[len] == '\n')) {
		len = strcspn(mountinfo, "\n");
		if (!parse_mount_line(mountinfo, len, &m) || m.type_len != strlen(type) ||
		    memcmp(m.type, type, m.type_len) != 0 ||
		    (name && !has_item(m.options, m.options_len, name)))
			continue;
		/* A container may see only a part of the tree: cut off the path of the mount's root. */
		size_t cut = m.root_len > 1 ? m.root_len : 0;
		if (cut > own_len || memcmp(own, m.root, cut) != 0 ||
		    (cut > 0 && cut < own_len && own[cut] != '/'))
			continue;
		size_t rest = own_len - cut;
		if (rest == 1 && own[cut] == '/')
			rest = 0;
		if (m.point_len + rest >= PATH_MAX)
			continue;
		memcpy(ret, m.point, m.point_len);
		memcpy(ret + m.point_len, own + cut, rest);
		ret[m.point_len + rest] = '\0';
		*ret_mount_len = m.point_len;
		return 0;
	}
	return -ENOENT;
}

int cgroup_mkdir(int dir, const char *name)
{
	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

int cgroup_write(int dir, const char *name, const char *value)
{
	_cleanup_fd_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

int cgroup_write_u64(int dir, const char *name, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return cgroup_write(dir, name, text);
}

static int read_text(int dir, const char *name, char ret[VALUE_MAX])
{
	_cleanup_fd_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, ret, VALUE_MAX - 1);
	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return 0;
}

int cgroup_read_u64(int dir, const char *name, uint64_t *ret)
{
	char text[VALUE_MAX];
	int r = read_text(dir, name, text);

	return r < 0 ? r : parse_u64_n(text, strcspn(text, "\n"), 0, UINT64_MAX, ret);
}

int cgroup_read_key(int dir, const char *name, const char *key, uint64_t *ret)
{
	char text[VALUE_MAX] = "";
	size_t n = strlen(key);
	int r = read_text(dir, name, text);

	if (r < 0)
		return r;
	for (const char *line = text; *line; line += *line == '\n') {
		size_t len = strcspn(line, "\n");
		if (len > n && line[n] == ' ' && memcmp(line, key, n) == 0)
			return parse_u64_n(line + n + 1, len - n - 1, 0, UINT64_MAX, ret);
		line += len;
	}
	return -ENOENT;
}

uint64_t cgroup_memory(int dir, const char *usage, const char *stat, const char *prefix)
{
	static const char *const lists[] = {"inactive_file", "active_file"};
	char key[32];
	uint64_t all;
	uint64_t cached;

	if (cgroup_read_u64(dir, usage, &all) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		(void)snprintf(key, sizeof(key), "%s%s", prefix, lists[i]);
		if (cgroup_read_key(dir, stat, key, &cached) == 0)
			all -= MIN(all, cached);
	}
	return all;
}

void cgroup_slot_name(uint32_t slot, char ret[16])
{
	(void)snprintf(ret, 16, "s%u", slot);
}

int cgroup_open_slot(const struct cgroup *c, enum cgroup_tree t, uint32_t slot)
{
	char name[16];

	if (c->dir[t] < 0)
		return -ENOTSUP;
	cgroup_slot_name(slot, name);
	const int fd = openat(c->dir[t], name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

void cgroup_rmdir(int dir, const char *slot)
{
	static const char *const leaves[] = {"run", "keep"};
	char path[32];

	if (dir < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(leaves); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", slot, leaves[i]);
		(void)unlinkat(dir, path, AT_REMOVEDIR);
	}
	(void)unlinkat(dir, slot, AT_REMOVEDIR);
}

uint32_t cgroup_open_keep(const struct cgroup *c, uint32_t slot, int ret[CGROUP_PROCS_MAX])
{
	static const char *const files[CGROUP_TREE_MAX_] = {
	    [CGROUP_MEMORY] = "tasks",
	    [CGROUP_UNIFIED] = "keep/cgroup.procs",
	};
	char name[16];
	char path[48];
	uint32_t n = 0;

	cgroup_slot_name(slot, name);
	for (size_t i = 0; i < CGROUP_TREE_MAX_ && n < CGROUP_PROCS_MAX; i++) {
		if (c->dir[i] < 0 || !files[i])
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", name, files[i]);
		int fd = openat(c->dir[i], path, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			ret[n++] = fd;
	}
	return n;
}
