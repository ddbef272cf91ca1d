/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson restore FILE`: unpacks a backup into a state folder that has neither database nor stored sandboxes. Everything is
 * unpacked and checked beside its place first, so a backup that was cut off changes nothing. */
#include "app/app.h"
#include "cmd/backup_archive.h"
#include "cmd/cmd.h"
#include "cmd/restore_entries.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/tree.h"
#include "image/image_store.h"
#include "store/copy.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define VERB        "restore"
#define FOLDER_MODE 0700
#define STATE_MODE  0755
#define PARENT_MODE 0711
#define ASIDE_SIZE  32

static bool is_empty(int dir, const char *name)
{
	const int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *list = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *de;

	if (!list)
		return fd < 0 && errno == ENOENT;
	while ((de = readdir(list)))
		if (!streq(de->d_name, ".") && !streq(de->d_name, ".."))
			return false;
	return true;
}

static int check_place(int state, const char *store, const char *state_dir,
		       const struct backup_place *place, struct err *e)
{
	if (store_is_served(store))
		return err_set(e, ERR_STORE_BUSY, 0,
			       "a server uses %s: stop it, or name a new folder (--state-dir)",
			       store);
	if (access(store, F_OK) == 0)
		return err_set(
		    e, ERR_ALREADY_EXISTS, 0,
		    "there is a database %s already: name a new folder (--state-dir), or "
		    "move that one away",
		    store);
	if (!is_empty(state, place->folder))
		return err_set(e, ERR_ALREADY_EXISTS, 0,
			       "%s has files of sandboxes already: name a new folder (--state-dir)",
			       state_dir);
	return 0;
}

static int unpack(int state, const char *aside, const char *file, const struct backup_place *place,
		  struct err *e)
{
	char copy[PATH_MAX];
	_cleanup_fd_ int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return err_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno, "'%s'",
			       file);
	_cleanup_fd_ int dir = openat(state, aside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s'", aside);
	int r = restore_entries(fd, dir, place, file, e);
	if (r < 0)
		return r;
	(void)snprintf(copy, sizeof(copy), "/proc/self/fd/%d/" BACKUP_DB, dir);
	r = store_check_copy(copy, e);
	if (r == 0 && syncfs(dir) < 0)
		r = err_set(e, ERR_SYSTEM, errno, "the state folder cannot be flushed");
	return r;
}

/* The folder that FOLDER is in, as the keeper of the containers makes it. */
static int make_parent(int state, const char *folder)
{
	char parent[ASIDE_SIZE];
	const char *slash = strchr(folder, '/');

	if (!slash)
		return 0;
	(void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - folder), folder);
	return mkdirat(state, parent, PARENT_MODE) < 0 && errno != EEXIST ? -errno : 0;
}

/* The database last: a folder that has one is complete. Neither step replaces anything that a server may have made meanwhile:
 * rename(2) replaces only an empty folder. */
static int put_in_place(int state, const char *aside, const char *store,
			const struct backup_place *place, struct err *e)
{
	char from[ASIDE_SIZE + 32];

	(void)snprintf(from, sizeof(from), "%s/%s", aside, place->name);
	if (make_parent(state, place->folder) < 0 || fchmodat(state, from, place->mode, 0) < 0 ||
	    renameat(state, from, state, place->folder) < 0)
		return err_set(e, ERR_ALREADY_EXISTS, errno, "the folder of the sandboxes");
	(void)snprintf(from, sizeof(from), "%s/" BACKUP_DB, aside);
	if (linkat(state, from, AT_FDCWD, store, 0) == 0 && fsync(state) == 0)
		return 0;
	int r = err_set(e, errno == EEXIST ? ERR_ALREADY_EXISTS : ERR_SYSTEM, errno, "'%s'", store);
	(void)snprintf(from, sizeof(from), "%s/%s", aside, place->name);
	(void)!renameat(state, place->folder, state, from);
	return r;
}

static int restore(struct app *a, const char *file, struct err *e)
{
	char store[APP_STORE_PATH_MAX], aside[ASIDE_SIZE], random[17];
	const struct backup_place *place = backup_place(a->settings.engine);

	if (a->settings.database[0])
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "users and keys are in PostgreSQL (SANDBOX_DATABASE): restore that "
			       "database with pg_restore, or remove the setting");
	app_store_path(a, store);
	int r = fd_make_dirs(a->state_dir, STATE_MODE);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "cannot make %s (see --state-dir)", a->state_dir);
	_cleanup_fd_ int state = open(a->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (state < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s'", a->state_dir);
	r = check_place(state, store, a->state_dir, place, e);
	if (r < 0)
		return r;
	backup_become_owner();
	rand_hex(random, 8);
	(void)snprintf(aside, sizeof(aside), ".restore-%s", random);
	if (mkdirat(state, aside, FOLDER_MODE) < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s' cannot be written", a->state_dir);
	r = unpack(state, aside, file, place, e);
	r = r < 0 ? r : put_in_place(state, aside, store, place, e);
	(void)!tree_remove(state, aside);
	return r;
}

int cmd_restore(int argc, char **argv)
{
	struct err e = ERR_INIT;
	struct app a;
	int r = app_settings(&a, VERB, APP_RUN, true, &argc, argv, &e);

	if (r >= 0 && argc != 2) {
		app_done(&a);
		return cmd_usage(VERB, "it needs the name of one file");
	}
	if (r == 0 && sodium_init() < 0)
		r = err_set(&e, ERR_SYSTEM, 0, "libsodium does not start");
	if (r >= 0)
		r = restore(&a, argv[1], &e);
	app_done(&a);
	if (r < 0)
		return cmd_fail(VERB, &e);
	(void)printf("restored into %s\n", a.state_dir);
	return 0;
}
