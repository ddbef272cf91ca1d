/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson move-users`: users, keys and audit log from the SQLite file of this state folder into the empty PostgreSQL database that
 * SANDBOX_DATABASE names. The file stays as it is. */
#include "app/app.h"
#include "cmd/cmd.h"

#include "store/copy.h"

#include <inttypes.h>
#include <sodium.h>
#include <unistd.h>

#define VERB "move-users"

static int move(const struct app *a, struct store_moved *ret, struct err *e)
{
	_cleanup_(buf_done) struct buf address = BUF_INIT(APP_DATABASE_MAX);
	char path[APP_STORE_PATH_MAX];

	app_store_path(a, path);
	if (!a->settings.database[0])
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "say with SANDBOX_DATABASE which PostgreSQL database they go to");
	if (access(path, F_OK) < 0)
		return err_set(e, ERR_NOT_FOUND, 0, "there is no database %s (see --state-dir)",
			       path);
	if (store_is_served(path))
		return err_set(
		    e, ERR_STORE_BUSY, 0,
		    "a server uses %s: end it first, or what it changes meanwhile is lost", path);
	int r = app_database(&a->settings, &address, e);
	r = r < 0 ? r
		  : store_move(path, buf_str(&address), (uint64_t)a->settings.audit_keep, ret, e);
	if (address.data)
		sodium_memzero(address.data, address.len);
	return r;
}

int cmd_move_users(int argc, char **argv)
{
	struct store_moved moved = {0};
	struct err e = ERR_INIT;
	struct app a;
	int r = app_settings(&a, VERB, APP_RUN, true, &argc, argv, &e);

	if (r >= 0 && argc != 1) {
		app_done(&a);
		return cmd_usage(VERB, "it takes no arguments");
	}
	r = r < 0 ? r : move(&a, &moved, &e);
	app_done(&a);
	if (r < 0)
		return cmd_fail(VERB, &e);
	(void)printf("copied %" PRIu64 " users, %" PRIu64 " keys and %" PRIu64
		     " rows of the audit log\n",
		     moved.users, moved.keys, moved.audit);
	return 0;
}
