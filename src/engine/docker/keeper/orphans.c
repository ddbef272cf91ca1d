/* SPDX-License-Identifier: Apache-2.0 */
/* Which containers are ours. Each carries the id of its state folder and that of the keeper that made
 * it. A keeper holds a lock file with its id as long as it lives, and the kernel releases the lock when
 * it dies. So at its start a keeper removes the containers and volumes of its own state folder whose
 * keeper's lock nobody holds. It never touches those of another state folder, nor anybody else's. */
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/docker/keeper/keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define ID_BYTES       8
#define LOCK_TRIES_MAX 16

static bool is_id(const char *s)
{
	return strlen(s) == 2 * ID_BYTES && strspn(s, "0123456789abcdef") == 2 * ID_BYTES;
}

static void lock_path(const struct keeper *k, const char *instance, char *ret)
{
	(void)snprintf(ret, PATH_MAX, "%s/%s.lock", k->folder, instance);
}

/* Reads the id of the state folder, or makes it: with link(2), so that of two keepers one wins. */
static int take_state_id(struct keeper *k)
{
	char path[PATH_MAX], fresh[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/id", k->folder);
	(void)snprintf(fresh, sizeof(fresh), "%s/id.%s", k->folder, k->instance);
	if (access(path, F_OK) < 0) {
		_cleanup_fd_ int fd =
		    open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		const int r = fd_write_all(fd, k->instance, 2 * ID_BYTES);
		const int linked = r == 0 && link(fresh, path) < 0 && errno != EEXIST ? -errno : r;
		(void)unlink(fresh);
		if (linked < 0)
			return linked;
	}
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fd_read_exact(fd, k->state_id, 2 * ID_BYTES);
	return r < 0 ? r : is_id(k->state_id) ? 0 : -EBADMSG;
}

/* Between open(2) and flock(2) another keeper may take the new file for one of a dead keeper and remove
 * it. Then its name is gone, and the next try takes another id. */
static int try_lock(struct keeper *k)
{
	char path[PATH_MAX];
	struct stat st;

	rand_hex(k->instance, ID_BYTES);
	lock_path(k, k->instance, path);
	_cleanup_fd_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0)
		return -errno;
	return st.st_nlink > 0 ? TAKE_FD(fd) : -EAGAIN;
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

/* Names of the daemon's objects go into the path of a call. */
static bool is_name(const char *s)
{
	static const char allowed[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

	return s && *s && *s != '.' && strlen(s) < 128 && strspn(s, allowed) == strlen(s);
}

static void on_removed(int status, const char *body, size_t len, void *user)
{
	(void)status, (void)body, (void)len, (void)user; /* the next start looks again */
}

/* Lock files of keepers that have ended. */
static void remove_locks(const struct keeper *k)
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
		if (has_ended(k, id))
			(void)unlink(path);
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

	if (status != 200 || jsonio_read(body, len, 0, &doc, &why) < 0)
		return;
	json_array_foreach(json_object_get(doc, "Volumes"), i, item) {
		const char *name = json_string_value(json_object_get(item, "Name"));
		if (!is_name(name) || !is_ours(k, json_object_get(item, "Labels")))
			continue;
		(void)snprintf(path, sizeof(path), "/volumes/%s", name);
		(void)!daemon_start(k->daemon, "DELETE", path, NULL, CALL_S, on_removed, k);
	}
	json_decref(doc);
	remove_locks(k);
}

static void remove_channels(const struct keeper *k)
{
	char path[PATH_MAX], id[KEEPER_ID_MAX];
	(void)snprintf(path, sizeof(path), "%s/cells", k->folder);
	DIR *d = opendir(path);
	const struct dirent *de;

	/* "caisson-INSTANCE-NUMBER" */
	while (d && (de = readdir(d))) {
		if (!text_starts_with(de->d_name, "caisson-") ||
		    strlen(de->d_name) < 8 + 2 * ID_BYTES)
			continue;
		(void)snprintf(id, sizeof(id), "%.16s", de->d_name + strlen("caisson-"));
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
	char path[160];

	(void)snprintf(path, sizeof(path),
		       "/volumes?filters=%%7B%%22label%%22%%3A%%5B%%22" LABEL_STATE
		       "%%3D%s%%22%%5D%%7D",
		       k->state_id);
	(void)!daemon_start(k->daemon, "GET", path, NULL, CALL_S, on_volumes, k);
}

static void on_gone(int status, const char *body, size_t len, void *user)
{
	struct keeper *k = user;

	(void)status, (void)body, (void)len;
	/* A volume can be removed when its container is gone. */
	if (--k->orphans == 0)
		ask_volumes(k);
}

static void on_containers(int status, const char *body, size_t len, void *user)
{
	struct keeper *k = user;
	json_t *doc = NULL, *item;
	json_error_t why;
	size_t i;
	char path[256];

	if (status != 200 || jsonio_read(body, len, 0, &doc, &why) < 0)
		return;
	k->orphans = 1;
	json_array_foreach(doc, i, item) {
		const char *id = json_string_value(json_object_get(item, "Id"));
		if (!is_name(id) || !is_ours(k, json_object_get(item, "Labels")))
			continue;
		(void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", id);
		k->orphans +=
		    daemon_start(k->daemon, "DELETE", path, NULL, CALL_S, on_gone, k) == 0;
	}
	json_decref(doc);
	on_gone(0, NULL, 0, k);
}

void orphans_remove(struct keeper *k)
{
	char path[160];

	remove_channels(k);
	(void)snprintf(path, sizeof(path),
		       "/containers/json?all=1&filters=%%7B%%22label%%22%%3A%%5B%%22" LABEL_STATE
		       "%%3D%s%%22%%5D%%7D",
		       k->state_id);
	(void)!daemon_start(k->daemon, "GET", path, NULL, CALL_S, on_containers, k);
}
