/* SPDX-License-Identifier: Apache-2.0 */
/* Which containers are ours. Each carries the id of its state folder and that of the keeper that made
 * it. A keeper holds a lock file with its id as long as it lives, and the kernel releases the lock when
 * it dies. So at its start a keeper removes the containers and volumes of its own state folder whose
 * keeper's lock nobody holds. It never touches those of another state folder, nor anybody else's. If the daemon
 * refuses a list or a removal, all of this begins again a little later.
 *
 * Podman makes a volume that a container mounts and that is gone, and gives it no label. So volumes are known by
 * their names, too. A daemon may also make what a killed keeper had asked for after the first look: then there is
 * another one, later. */
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/maker/common/folder.h"
#include "engine/maker/docker/keeper/keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define ID_BYTES       8
#define LOCK_TRIES_MAX 16
#define ROUNDS_MAX     8
#define AGAIN_NS       (500 * NS_PER_MS) /* doubles with each round */
#define LATE_NS        (2 * CALL_S * NS_PER_S)
#define LIST_MAX       512u /* containers in one answer: each has 5 KB there, see DAEMON_REPLY_MAX */

static bool is_id(const char *s)
{
	return strlen(s) == 2 * ID_BYTES && strspn(s, "0123456789abcdef") == 2 * ID_BYTES;
}

static void lock_path(const struct keeper *k, const char *instance, char *ret)
{
	(void)snprintf(ret, PATH_MAX, "%s/%s.lock", k->folder, instance);
}

static int read_state_id(struct keeper *k, const char *path)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	const int r = fd_read_exact(fd, k->state_id, 2 * ID_BYTES);
	return r == 0 && is_id(k->state_id) ? 0 : -EBADMSG;
}

/* With link(2), so that of two keepers one wins. On the disk before it has its name: a file that a power cut left empty
 * would be no id for any later start. */
static int make_state_id(const struct keeper *k, const char *path)
{
	char fresh[PATH_MAX];

	(void)snprintf(fresh, sizeof(fresh), "%s/id.%s", k->folder, k->instance);
	_cleanup_fd_ int fd =
	    open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = fd_write_all(fd, k->instance, 2 * ID_BYTES);
	if (r == 0 && (fsync(fd) < 0 || (link(fresh, path) < 0 && errno != EEXIST)))
		r = -errno;
	(void)unlink(fresh);
	return r;
}

/* Reads the id of the state folder, or makes it. A file without an id is replaced: no container can have what was
 * never there. */
static int take_state_id(struct keeper *k)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/id", k->folder);
	int r = read_state_id(k, path);
	if (r != -ENOENT && r != -EBADMSG)
		return r;
	if (r == -EBADMSG && unlink(path) < 0 && errno != ENOENT)
		return -errno;
	r = make_state_id(k, path);
	return r < 0 ? r : read_state_id(k, path);
}

static int try_lock(struct keeper *k)
{
	char path[PATH_MAX];

	rand_hex(k->instance, ID_BYTES);
	lock_path(k, k->instance, path);
	return folder_new_lock(path);
}

int keeper_id_take(struct keeper *k, struct err *e)
{
	if ((size_t)snprintf(k->folder, sizeof(k->folder), "%s/docker", k->config->state_dir) >=
	    sizeof(k->folder))
		return err_set(e, ERR_SETTING_INVALID, ENAMETOOLONG, "'%s'", k->config->state_dir);
	int r = fd_make_dirs(k->folder, 0711);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "'%s' cannot be made", k->folder);
	for (int i = 0; i < LOCK_TRIES_MAX && k->lock < 0; i++)
		k->lock = try_lock(k);
	if (k->lock < 0)
		return err_set(e, ERR_SYSTEM, -k->lock, "a lock file in '%s'", k->folder);
	r = take_state_id(k);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "'%s/id'", k->folder) : 0;
}

void keeper_id_drop(struct keeper *k)
{
	char path[PATH_MAX];

	if (k->lock < 0)
		return;
	lock_path(k, k->instance, path);
	(void)unlink(path);
	k->lock = fd_close(k->lock);
}

/* Whether the keeper INSTANCE has ended. Without its lock file it has ended orderly, or was ended by
 * somebody who removed the file. */
static bool has_ended(const struct keeper *k, const char *instance)
{
	char path[PATH_MAX];

	if (!is_id(instance) || streq(instance, k->instance))
		return false;
	lock_path(k, instance, path);
	_cleanup_fd_ int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT;
	return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static bool is_ours(const struct keeper *k, json_t *labels)
{
	const char *state = json_string_value(json_object_get(labels, LABEL_STATE));
	const char *instance = json_string_value(json_object_get(labels, LABEL_INSTANCE));

	return state && instance && streq(state, k->state_id) && has_ended(k, instance);
}

/* Whether the volume NAME has the name that a keeper of our state folder gives, and this keeper has ended. */
static bool has_our_name(const struct keeper *k, const char *name)
{
	char begin[KEEPER_NAME], instance[KEEPER_ID_MAX];

	(void)snprintf(begin, sizeof(begin), KEEPER_PREFIX "%s-", k->state_id);
	if (!text_starts_with(name, begin))
		return false;
	name += strlen(begin);
	(void)snprintf(instance, sizeof(instance), "%.16s", name);
	return strlen(name) > 2 * ID_BYTES && name[2 * ID_BYTES] == '-' && has_ended(k, instance);
}

/* Names of the daemon's objects go into the path of a call. */
static bool is_name(const char *s)
{
	static const char allowed[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	return s && *s && *s != '.' && strlen(s) < 128 && strspn(s, allowed) == strlen(s);
}

/* ROUNDS_MAX takes two minutes. After that, the next start looks again. */
static void end_round(struct keeper *k)
{
	const uint64_t now = now_ns();

	if (k->orphans_left && ++k->orphan_rounds < ROUNDS_MAX) {
		k->orphans_at = now + (AGAIN_NS << k->orphan_rounds);
	} else if (k->orphans_more && !k->orphans_left) {
		k->orphans_at = now;
	} else if (k->orphans_late) {
		k->orphans_late = false;
		k->orphans_at = now + LATE_NS;
	}
}

static void on_removed(int status, const char *body, size_t len, void *user)
{
	struct keeper *k = user;

	(void)body, (void)len;
	k->orphans_left = k->orphans_left || !daemon_says_gone(status);
	if (--k->orphans == 0)
		end_round(k);
}

/* Lock files of keepers that have ended without removing them: they were killed. */
static void remove_locks(struct keeper *k)
{
	DIR *d = opendir(k->folder);
	const struct dirent *de;
	char path[PATH_MAX], id[KEEPER_ID_MAX];

	while (d && (de = readdir(d))) {
		if (!text_ends_with(de->d_name, ".lock") ||
		    strlen(de->d_name) != 2 * ID_BYTES + strlen(".lock"))
			continue;
		(void)snprintf(id, sizeof(id), "%.16s", de->d_name);
		lock_path(k, id, path);
		if (has_ended(k, id) && unlink(path) == 0)
			k->orphans_late = true;
	}
	if (d)
		(void)closedir(d);
}

static void on_volumes(int status, const char *body, size_t len, void *user)
{
	struct keeper *k = user;
	json_t *doc = NULL, *item;
	json_error_t why;
	size_t i;
	char path[256];

	k->orphans = 1;
	if (status != 200 || jsonio_read(body, len, 0, &doc, &why) < 0) {
		on_removed(0, NULL, 0, k);
		return;
	}
	json_array_foreach(json_object_get(doc, "Volumes"), i, item) {
		const char *name = json_string_value(json_object_get(item, "Name"));
		if (!is_name(name) ||
		    (!is_ours(k, json_object_get(item, "Labels")) && !has_our_name(k, name)))
			continue;
		(void)snprintf(path, sizeof(path), "/volumes/%s", name);
		k->orphans +=
		    daemon_start(k->daemon, "DELETE", path, NULL, CALL_S, on_removed, k) == 0;
	}
	json_decref(doc);
	remove_locks(k);
	on_removed(204, NULL, 0, k);
}

static void remove_channels(const struct keeper *k)
{
	char path[PATH_MAX], id[KEEPER_ID_MAX];
	(void)snprintf(path, sizeof(path), "%s/channels", k->folder);
	DIR *d = opendir(path);
	const struct dirent *de;

	while (d && (de = readdir(d))) {
		const char *end = strrchr(de->d_name, '-');
		/* STATE was not in the names of earlier versions. */
		if (!text_starts_with(de->d_name, KEEPER_PREFIX) ||
		    end - de->d_name < (ptrdiff_t)strlen(KEEPER_PREFIX) + 2 * ID_BYTES)
			continue;
		(void)snprintf(id, sizeof(id), "%.16s", end - 2 * ID_BYTES);
		if (!has_ended(k, id))
			continue;
		_cleanup_fd_ int fd =
		    openat(dirfd(d), de->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			(void)unlinkat(fd, "socket", 0);
		(void)unlinkat(dirfd(d), de->d_name, AT_REMOVEDIR);
	}
	if (d)
		(void)closedir(d);
}

static void ask_volumes(struct keeper *k)
{
	static const char path[] =
	    "/volumes?filters=%7B%22name%22%3A%5B%22" KEEPER_PREFIX "%22%5D%7D";

	if (daemon_start(k->daemon, "GET", path, NULL, CALL_S, on_volumes, k) < 0)
		on_volumes(0, NULL, 0, k);
}

static void on_gone(int status, const char *body, size_t len, void *user)
{
	struct keeper *k = user;

	(void)body, (void)len;
	k->orphans_left = k->orphans_left || !daemon_says_gone(status);
	if (--k->orphans > 0)
		return;
	/* A volume can be removed when its container is gone. */
	if (k->orphans_more && !k->orphans_left)
		end_round(k);
	else
		ask_volumes(k);
}

static void on_containers(int status, const char *body, size_t len, void *user)
{
	struct keeper *k = user;
	json_t *doc = NULL, *item;
	json_error_t why;
	size_t i;
	char path[256];

	k->orphans = 1;
	if (status != 200 || jsonio_read(body, len, 0, &doc, &why) < 0) {
		on_removed(0, NULL, 0, k);
		return;
	}
	unsigned found = 0;
	json_array_foreach(doc, i, item) {
		const char *id = json_string_value(json_object_get(item, "Id"));
		if (!is_name(id) || !is_ours(k, json_object_get(item, "Labels")))
			continue;
		found++;
		(void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", id);
		k->orphans +=
		    daemon_start(k->daemon, "DELETE", path, NULL, CALL_S, on_gone, k) == 0;
	}
	k->orphans_more = found > 0 && json_array_size(doc) >= LIST_MAX;
	json_decref(doc);
	on_gone(204, NULL, 0, k);
}

void orphans_remove(struct keeper *k)
{
	char path[160];

	k->orphans_at = 0;
	k->orphans_left = k->orphans_more = false;
	remove_channels(k);
	(void)snprintf(
	    path, sizeof(path),
	    "/containers/json?all=1&limit=%u&filters=%%7B%%22label%%22%%3A%%5B%%22" LABEL_STATE
	    "%%3D%s%%22%%5D%%7D",
	    LIST_MAX, k->state_id);
	if (daemon_start(k->daemon, "GET", path, NULL, CALL_S, on_containers, k) < 0)
		on_containers(0, NULL, 0, k);
}

void orphans_tick(struct keeper *k, uint64_t now)
{
	if (k->orphans_at != 0 && now >= k->orphans_at)
		orphans_remove(k);
}
