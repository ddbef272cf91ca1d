/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson backup FILE`: users, keys, history and the files of stored sandboxes as one file. It reads the state folder itself and
 * asks no server, so it works beside servers and without one. Images are left out: they can be built again. */
#include "app/app.h"
#include "cmd/backup_archive.h"
#include "cmd/cmd.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "store/copy.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define VERB      "backup"
#define FILE_MODE 0600

struct keys { /* of the workspaces in the copy of the database */
	char (*names)[STORE_WORD_SIZE + STORE_ID_SIZE];
	size_t n;
};

static int take_key(const char *workspace, void *user, struct err *e)
{
	struct keys *k = user;
	void *grown = realloc(k->names, (k->n + 1) * sizeof(*k->names));

	if (!grown)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the backup");
	k->names = grown;
	(void)!text_copy(k->names[k->n], sizeof(*k->names), workspace);
	k->n += strchr(workspace, '/') ? 0 : 1;
	return 0;
}

static void aside_name(const char *file, const char *what, char ret[PATH_MAX + 40])
{
	char random[17];

	rand_hex(random, 8);
	(void)snprintf(ret, PATH_MAX + 40, "%s.%s-%s", file, what, random);
}

static int write_db(struct backup_out *o, const char *copy, struct err *e)
{
	struct stat st;
	_cleanup_fd_ int fd = open(copy, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s'", copy);
	backup_out_name(o, BACKUP_DB, AE_IFREG, FILE_MODE);
	archive_entry_set_size(o->entry, st.st_size);
	return backup_out_file(o, fd, e);
}

static int open_place(const struct app *a, const struct backup_place *place)
{
	char path[PATH_MAX + 16];

	(void)snprintf(path, sizeof(path), "%s/%s", a->state_dir, place->folder);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool has_files(int dir, const struct backup_place *place, const char *key)
{
	char disk[NAME_MAX];

	(void)snprintf(disk, sizeof(disk), "%s" BACKUP_DISK, key);
	return dir >= 0 && (faccessat(dir, key, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
			    (place->disks && faccessat(dir, disk, F_OK, AT_SYMLINK_NOFOLLOW) == 0));
}

/* The number of sandboxes that are left out. */
static int write_workspaces(struct backup_out *o, const struct app *a, const struct keys *k,
			    struct err *e)
{
	const struct backup_place *place = backup_place(a->settings.engine),
				  *other = backup_other_place(a->settings.engine);
	int left_out = 0;

	_cleanup_fd_ int dir = open_place(a, place);
	if (dir < 0 && errno != ENOENT)
		return err_set(e, ERR_SYSTEM, errno, "'%s' in the state folder", place->folder);
	_cleanup_fd_ int elsewhere = open_place(a, other);
	for (size_t i = 0; i < k->n; i++) {
		const char *key = k->names[i];

		if (!has_files(dir, place, key) && has_files(elsewhere, other, key)) {
			(void)fprintf(
			    stderr,
			    "caisson backup: the files of sandbox %s are those of a server "
			    "%s: they are not in this backup. Is SANDBOX_ENGINE as the "
			    "server has it?\n",
			    key, other->server);
			left_out++;
			continue;
		}
		int r = dir < 0 ? 0 : backup_workspace(o, place, dir, key, e);
		if (r < 0)
			return r;
		left_out += r;
		if (r > 0)
			(void)fprintf(stderr,
				      "caisson backup: the files of sandbox %s change all the "
				      "time: they are not in this backup\n",
				      key);
	}
	return left_out;
}

static int write_all(struct app *a, const char *file, int fd, struct err *e)
{
	_cleanup_(backup_out_done) struct backup_out o = {0};
	char store[APP_STORE_PATH_MAX], copy[PATH_MAX + 40];
	struct keys keys = {0};

	app_store_path(a, store);
	aside_name(file, "db", copy);
	int r = backup_out_open(&o, fd, e);
	r = r < 0 ? r : backup_out_text(&o, BACKUP_FIRST, BACKUP_FORM, e);
	r = r < 0 ? r : store_copy(store, copy, take_key, &keys, e);
	r = r < 0 ? r : write_db(&o, copy, e);
	(void)unlink(copy);
	r = r < 0 ? r : write_workspaces(&o, a, &keys, e);
	free(keys.names);
	if (r < 0)
		return r;
	int end = backup_out_end(&o, e);
	return end < 0 ? end : r;
}

/* FILE gets its name when it is complete and on the disk. It takes the place of no other file. */
static int write_file(struct app *a, const char *file, struct err *e)
{
	char part[PATH_MAX + 40];

	if (strlen(file) >= PATH_MAX)
		return err_set(e, ERR_USAGE, 0, "the name of the file is too long");
	if (access(file, F_OK) == 0)
		return err_set(e, ERR_FILE_EXISTS, 0, "there is a file '%s' already", file);
	aside_name(file, "part", part);
	_cleanup_fd_ int fd =
	    open(part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s' cannot be made", part);
	int r = write_all(a, file, fd, e);
	if (r >= 0 && fsync(fd) < 0)
		r = err_set(e, ERR_SYSTEM, errno, "'%s'", part);
	if (r >= 0 && renameat2(AT_FDCWD, part, AT_FDCWD, file, RENAME_NOREPLACE) < 0 &&
	    !(errno == EINVAL && access(file, F_OK) < 0 && rename(part, file) == 0))
		r = err_set(e, ERR_FILE_EXISTS, errno, "'%s'", file);
	if (r < 0)
		(void)unlink(part);
	return r;
}

static int check_store(const struct app *a, struct err *e)
{
	char path[APP_STORE_PATH_MAX];

	if (a->settings.database[0])
		return err_set(
		    e, ERR_SETTING_INVALID, 0,
		    "users and keys are in PostgreSQL (SANDBOX_DATABASE), and a router has "
		    "nothing else: back that database up with pg_dump");
	app_store_path(a, path);
	if (access(path, F_OK) == 0)
		return 0;
	return err_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, errno == ENOENT ? 0 : errno,
		       "there is no database %s (see --state-dir)", path);
}

int cmd_backup(int argc, char **argv)
{
	struct err e = ERR_INIT;
	struct app a;
	int r = app_settings(&a, VERB, APP_RUN, true, &argc, argv, &e);

	if (r >= 0 && argc != 2) {
		app_done(&a);
		return cmd_usage(VERB, "it needs the name of one file");
	}
	r = r < 0 ? r : check_store(&a, &e);
	if (r == 0 && sodium_init() < 0)
		r = err_set(&e, ERR_SYSTEM, 0, "libsodium does not start");
	if (r == 0)
		backup_become_owner();
	r = r < 0 ? r : write_file(&a, argv[1], &e);
	app_done(&a);
	if (r < 0)
		return cmd_fail(VERB, &e);
	return r == 0 ? 0 : err_code_exit(ERR_SESSION_BUSY);
}
