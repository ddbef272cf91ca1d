/* SPDX-License-Identifier: Apache-2.0 */
/* Which ids of the host the sandboxes of this monitor get, and the id maps of the user namespace Z.
 *
 * A monitor of root takes a range of 65,536 ids from 1879048192 on, which systemd's page UIDS-GIDS
 * assigns to nobody. A lock file in the run folder shows that another monitor has a range. In a container with a user namespace
 * of its own (a pod with `hostUsers: false` has the ids 0 to 65535) these do not exist: then one monitor takes most of those that do. */
#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"
#include "engine/maker/native/monitor/monitor.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define RANGE_FIRST    UINT32_C(1879048192)
#define RANGES_MAX     4000u
#define IDS_BESIDE     3u    /* at the end of a range, of no sandbox */
#define OWN_FIRST      1000u /* of the ids of a container; accounts of its image are below */
#define SUBID_FILE_MAX (1u << 20)
#define NEWUIDMAP      "/usr/bin/newuidmap"
#define NEWGIDMAP      "/usr/bin/newgidmap"

static int lock_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int r = -errno;
		(void)close(fd);
		return r;
	}
	return fd;
}

/* The number at *AT, after blanks; *AT is moved behind it. */
static uint64_t number_at(const char **at)
{
	uint64_t n = 0;

	*at += strspn(*at, " ");
	const size_t len = strspn(*at, "0123456789");
	(void)!parse_u64_n(*at, len, 0, UINT32_MAX, &n);
	*at += len;
	return n;
}

/* The kernel has written MAP (user_namespaces(7)). */
bool ids_in_map(const char *map, uint32_t want, uint32_t *ret_first, uint32_t *ret_count)
{
	*ret_count = 0;
	for (const char *at = map; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		const uint64_t first = number_at(&at), host UNUSED = number_at(&at),
			       end = first + number_at(&at), from = MAX(first, OWN_FIRST);

		if (first <= want && end >= (uint64_t)want + IDS_PER_RANGE) {
			*ret_first = want;
			*ret_count = IDS_PER_RANGE;
			return true;
		}
		if (end > from && MIN(end - from, IDS_PER_RANGE - 1) > *ret_count) {
			*ret_first = (uint32_t)from;
			*ret_count = (uint32_t)MIN(end - from, IDS_PER_RANGE - 1);
		}
	}
	return *ret_count >= IDS_LEAST;
}

static int ids_of(const char *path, uint32_t want, uint32_t *ret_first, uint32_t *ret_count,
		  struct err *e)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(SUBID_FILE_MAX);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const int r = fd < 0 ? -errno : fd_read_file(fd, &b);

	if (r < 0)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, -r, "'%s' cannot be read", path);
	return ids_in_map(buf_str(&b), want, ret_first, ret_count)
		   ? 0
		   : err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
			     "this container has %u ids from 1000 on, and sandboxes need %u: give "
			     "it 65536, or the host's user namespace",
			     *ret_count, IDS_LEAST);
}

int ids_range(struct ids *ids, uint32_t want, struct err *e)
{
	uint32_t n_gid;
	int r = ids_of("/proc/self/uid_map", want, &ids->base, &ids->count, e);

	r = r < 0 ? r : ids_of("/proc/self/gid_map", want, &ids->gid_base, &n_gid, e);
	if (r < 0)
		return r;
	/* Files have one of each, and a uid is taken as a gid, too. */
	if (ids->base != ids->gid_base)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
			       "the user and group ids of this container are not the same ones");
	ids->mode = IDS_RANGE;
	ids->count = MIN(ids->count, n_gid);
	ids->lock = -1;
	return 0;
}

/* On entry ids->count is how many sandboxes want their own id. */
static int reserve_range(struct ids *ids, const char *run_dir, struct err *e)
{
	const uint32_t wanted = ids->count;

	for (uint32_t i = 0; i < RANGES_MAX; i++) {
		int r = ids_range(ids, RANGE_FIRST + i * IDS_PER_RANGE, e);

		if (r < 0)
			return r;
		if (ids->count < IDS_PER_RANGE && i > 0)
			return err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
				       "another server in this container has its ids");
		if (ids->count < ID_FIRST + wanted + IDS_BESIDE)
			return err_set(e, ERR_ENGINE_UNAVAILABLE, 0,
				       "%u ids are too few for %u sandboxes; permit fewer "
				       "(SANDBOX_MAX_SESSIONS, SANDBOX_STORED_MAX_ACTIVE)",
				       ids->count, wanted);
		char path[PATH_MAX];
		if ((size_t)snprintf(path, sizeof(path), "%s/ids-%u.lock", run_dir, i) >=
		    sizeof(path))
			return err_set(e, ERR_INTERNAL, ENAMETOOLONG, "'%s'", run_dir);
		int fd = lock_file(path);
		if (fd == -EWOULDBLOCK)
			continue;
		if (fd < 0)
			return err_set(e, ERR_ENGINE_UNAVAILABLE, -fd, "'%s' cannot be locked",
				       path);
		ids->lock = fd;
		return 0;
	}
	return err_set(e, ERR_ENGINE_UNAVAILABLE, 0, "all %u id ranges are in use", RANGES_MAX);
}

int ids_parse_subid(const char *text, const char *name, uid_t uid, uint32_t want,
		    uint32_t *ret_first, uint32_t *ret_count)
{
	char number[16];

	(void)snprintf(number, sizeof(number), "%u", uid);
	while (*text) {
		size_t len = strcspn(text, "\n");
		const char *colon = memchr(text, ':', len);
		const char *second =
		    colon ? memchr(colon + 1, ':', len - (size_t)(colon + 1 - text)) : NULL;
		if (second) {
			size_t who = (size_t)(colon - text);
			uint64_t first;
			uint64_t count;
			bool mine = (who == strlen(number) && memcmp(text, number, who) == 0) ||
				    (name && who == strlen(name) && memcmp(text, name, who) == 0);
			if (mine &&
			    parse_u64_n(colon + 1, (size_t)(second - colon - 1), 1, UINT32_MAX - 1,
					&first) == 0 &&
			    parse_u64_n(second + 1, len - (size_t)(second + 1 - text), want,
					UINT32_MAX, &count) == 0 &&
			    first + count <= UINT32_MAX) {
				*ret_first = (uint32_t)first;
				*ret_count = (uint32_t)count;
				return 0;
			}
		}
		text += len + (text[len] == '\n');
	}
	return -ENOENT;
}

static int find_subid(const char *path, uint32_t want, uint32_t *ret_first, uint32_t *ret_count)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(SUBID_FILE_MAX);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	const struct passwd *pw = getpwuid(getuid());

	if (fd < 0 || fd_read_file(fd, &b) < 0)
		return -ENOENT;
	return ids_parse_subid(buf_str(&b), pw ? pw->pw_name : NULL, getuid(), want, ret_first,
			       ret_count);
}

/* Whether a set-uid program can get the rights that it needs. In containers often not: they have
 * no_new_privs, or lack the capabilities altogether. */
static bool can_gain_ids(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 &&
	       prctl(PR_CAPBSET_READ, CAP_SETUID, 0, 0, 0) == 1 &&
	       prctl(PR_CAPBSET_READ, CAP_SETGID, 0, 0, 0) == 1;
}

/* On entry ids->count is how many sandboxes want their own id. */
static void choose_plain(struct ids *ids)
{
	uint32_t want = ids->count + 1;
	uint32_t n_gid;

	if (can_gain_ids() && access(NEWUIDMAP, X_OK) == 0 && access(NEWGIDMAP, X_OK) == 0 &&
	    find_subid("/etc/subuid", want, &ids->base, &ids->count) == 0 &&
	    find_subid("/etc/subgid", want, &ids->gid_base, &n_gid) == 0) {
		ids->mode = IDS_SUBUID;
		ids->count = MIN(MIN(ids->count, n_gid), IDS_PER_RANGE);
		return;
	}
	ids->mode = IDS_SINGLE;
	ids->count = 1;
}

int ids_reserve(struct ids *ids, bool root, const char *run_dir, struct err *e)
{
	ids->lock = -1;
	if (root)
		return reserve_range(ids, run_dir, e);
	choose_plain(ids);
	return 0;
}

uint32_t ids_slot(const struct ids *ids, uint32_t slot)
{
	switch (ids->mode) {
	case IDS_RANGE:
		return ID_FIRST + slot;
	case IDS_SUBUID:
		return 1 + slot;
	case IDS_SINGLE:
	default:
		return 0;
	}
}

uint32_t ids_stored(const struct ids *ids, uint32_t slots, const char *key)
{
	uint32_t hash = 2166136261u; /* FNV-1a; it only has to spread the names */

	if (ids->mode == IDS_SINGLE)
		return 0;
	for (; *key; key++)
		hash = (hash ^ (unsigned char)*key) * 16777619u;
	return ids->count > slots + 1 ? slots + 1 + hash % (ids->count - slots - 1)
				      : 1 + hash % (ids->count - 1);
}

static int write_proc(pid_t pid, const char *name, const char *text)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fd_write_all(fd, text, strlen(text));
}

/* Runs newuidmap(1) or newgidmap(1). They are setuid root, so they may map the ids that /etc/subuid
 * grants; the kernel would refuse these to a plain user. */
static int run_idmap(const char *program, pid_t child, uint32_t own, uint32_t first, uint32_t count)
{
	char pid[16];
	char own_text[16];
	char first_text[16];
	char count_text[16];
	static char zero[] = "0";
	static char one[] = "1";
	char *path = (char *)(uintptr_t)program; /* execve(2) wants non-const and does not write */
	char *argv[] = {path, pid, zero, own_text, one, one, first_text, count_text, NULL};
	char *env[] = {NULL};
	int status;

	(void)snprintf(pid, sizeof(pid), "%d", child);
	(void)snprintf(own_text, sizeof(own_text), "%u", own);
	(void)snprintf(first_text, sizeof(first_text), "%u", first);
	(void)snprintf(count_text, sizeof(count_text), "%u", count);
	pid_t helper = fork();
	if (helper < 0)
		return -errno;
	if (helper == 0) {
		(void)execve(program, argv, env);
		_exit(127);
	}
	while (waitpid(helper, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

uint32_t ids_front(const struct ids *ids)
{
	return ids->base + ids->count - 1;
}

uint32_t ids_owner(const struct ids *ids)
{
	return ids->base + ids->count - IDS_BESIDE;
}

int ids_write_maps(const struct ids *ids, pid_t child)
{
	char map[64];
	int r;

	switch (ids->mode) {
	case IDS_RANGE: /* all but the last id, which is the front's */
		(void)snprintf(map, sizeof(map), "0 %u %u\n", ids->base, ids->count - 1);
		r = write_proc(child, "uid_map", map);
		return r < 0 ? r : write_proc(child, "gid_map", map);
	case IDS_SUBUID:
		r = run_idmap(NEWUIDMAP, child, getuid(), ids->base, ids->count);
		return r < 0 ? r : run_idmap(NEWGIDMAP, child, getgid(), ids->gid_base, ids->count);
	case IDS_SINGLE:
	default:
		/* user_namespaces(7): a process may map its own gid only after setgroups is off. */
		r = write_proc(child, "setgroups", "deny");
		(void)snprintf(map, sizeof(map), "0 %u 1\n", getuid());
		if (r == 0)
			r = write_proc(child, "uid_map", map);
		(void)snprintf(map, sizeof(map), "0 %u 1\n", getgid());
		return r < 0 ? r : write_proc(child, "gid_map", map);
	}
}
