/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the database that the settings name. */
#include "app/app.h"

#include "app/profile.h"
#include "base/fdio.h"
#include "base/text.h"

#include <fcntl.h>
#include <sodium.h>
#include <string.h>

void app_store_path(const struct app *a, char ret[APP_STORE_PATH_MAX])
{
	if (a->settings.db_path[0])
		(void)snprintf(ret, APP_STORE_PATH_MAX, "%s", a->settings.db_path);
	else
		(void)snprintf(ret, APP_STORE_PATH_MAX, "%s/caisson.db", a->state_dir);
}

/* The page of the second family lets people choose short passwords. */
static unsigned password_min(const struct settings *s)
{
	bool ours = profile_of(s)->full || streq(s->profile, "code");

	return ours || settings_is_explicit(s, SETTING_ID_password_min) ? (unsigned)s->password_min
									: STORE_PASSWORD_MIN;
}

/* RET may have a password. */
static int read_address(const struct settings *s, struct buf *ret, struct err *e)
{
	if (s->database[0] != '/') {
		const int r = buf_add_str(ret, s->database);
		return r < 0 ? err_set(e, ERR_OUT_OF_MEMORY, -r, "SANDBOX_DATABASE") : 0;
	}
	_cleanup_fd_ int fd = open(s->database, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	const int r = fd < 0 ? -errno : fd_read_file(fd, ret);

	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, -r,
			       "SANDBOX_DATABASE: cannot read its file");
	if (ret->len == 0)
		return err_set(e, ERR_SETTING_INVALID, 0, "SANDBOX_DATABASE: its file is empty");
	ret->len = strcspn(buf_str(ret), "\r\n");
	ret->data[ret->len] = '\0';
	return 0;
}

int app_database(const struct settings *s, struct buf *ret, struct err *e)
{
	int r = read_address(s, ret, e);

	if (r == 0 && !text_starts_with(buf_str(ret), "postgresql://") &&
	    !text_starts_with(buf_str(ret), "postgres://"))
		r = err_set(
		    e, ERR_SETTING_INVALID, 0,
		    "SANDBOX_DATABASE: give postgresql://USER:PASSWORD@HOST/DATABASE, or the "
		    "absolute path of a file that has it");
	return r;
}

int app_open_store(struct app *a, struct err *e)
{
	const struct settings *s = &a->settings;
	_cleanup_(buf_done) struct buf address = BUF_INIT(APP_DATABASE_MAX);
	char path[APP_STORE_PATH_MAX];
	struct store_config config = {
	    .path = path,
	    .copied = app_is_router(a),
	    .runs_keep = (uint64_t)s->runs_keep,
	    .audit_keep = (uint64_t)s->audit_keep,
	    .cells_bytes = s->history_user_bytes,
	    .cells_total = s->history_bytes,
	    .password_min = password_min(s),
	    .keys_each = budget_bounds(a->budgets, BUDGET_KEYS).each,
	    .keys_total = budget_bounds(a->budgets, BUDGET_KEYS).total,
	};

	app_store_path(a, path);
	if (!s->database[0])
		return store_open(&config, &a->store, e);
	if (a->mode != APP_RUN && !app_is_router(a))
		return err_set(e, ERR_SETTING_INVALID, 0, APP_DATABASE_OF_ROUTERS);
	int r = app_database(s, &address, e);
	config.address = buf_str(&address);
	r = r < 0 ? r : store_open(&config, &a->store, e);
	if (address.data)
		sodium_memzero(address.data, address.len);
	return r;
}
