/* SPDX-License-Identifier: Apache-2.0 */
/* What a router needs so that stored sandboxes move: database, object store, and the secret of the keys of snapshots. */
#include "app/app.h"

#include "base/libcurl.h"
#include "base/text.h"
#include "fleet/router/router.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define SECRET_MIN 32u
#define SECRET_MAX 4096u

struct app_moves {
	struct objects_store objects;
	struct buf secret, address;
	char path[APP_STORE_PATH_MAX + 8];
	struct fleet_moves_config config;
};

static bool moves_sandboxes(const struct settings *s)
{
	return s->objects_endpoint[0] && s->objects_key[0] && s->database[0];
}

int app_check_moves(const struct settings *s, struct err *e)
{
	if (!s->objects_key[0])
		return 0;
	if (!s->objects_endpoint[0])
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_OBJECTS_KEY needs SANDBOX_OBJECTS_ENDPOINT, too: the "
			       "object store where sandboxes are saved");
	if (!s->database[0])
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_OBJECTS_KEY needs SANDBOX_DATABASE, too: which worker has "
			       "a saved sandbox is written in PostgreSQL");
	return 0;
}

static void forget(struct buf *secret)
{
	if (secret->data)
		sodium_memzero(secret->data, secret->cap);
	buf_done(secret);
}

static int read_secret(const struct settings *s, struct buf *ret, struct err *e)
{
	const int r = app_read_member(s->objects_key, SETTING_ID_objects_key, ret, e);

	return r < 0 || ret->len >= SECRET_MIN
		   ? r
		   : err_set(e, ERR_SETTING_INVALID, 0,
			     "SANDBOX_OBJECTS_KEY: %s has fewer than %u bytes", s->objects_key,
			     SECRET_MIN);
}

int app_check_moves_key(const struct settings *s, struct err *e)
{
	struct buf secret = BUF_INIT(SECRET_MAX);
	int r = app_check_moves(s, e);

	if (r == 0 && s->objects_key[0])
		r = read_secret(s, &secret, e);
	forget(&secret);
	return r;
}

static int read_all(struct app *a, struct app_moves *x, struct err *e)
{
	const struct settings *s = &a->settings;
	char path[APP_STORE_PATH_MAX];
	int r = app_objects(s, &x->objects, e);

	r = r < 0 ? r : read_secret(s, &x->secret, e);
	r = r < 0 ? r : app_database(s, &x->address, e);
	/* It cannot be loaded when threads use it. */
	r = r < 0 ? r : libcurl_load(e);
	app_store_path(a, path);
	(void)snprintf(x->path, sizeof(x->path), "%s-moves", path);
	return r;
}

int app_begin_moves(struct app *a, struct err *e)
{
	struct app_moves *x;

	if (!moves_sandboxes(&a->settings))
		return 0;
	x = calloc(1, sizeof(*x));
	if (!x)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "sandboxes that move");
	buf_init(&x->secret, SECRET_MAX);
	buf_init(&x->address, APP_DATABASE_MAX);
	a->moves = x;
	return read_all(a, x, e);
}

const struct fleet_moves_config *app_moves(struct app *a)
{
	struct app_moves *x = a->moves;

	if (!x)
		return NULL;
	x->config = (struct fleet_moves_config){.path = x->path,
						.address = buf_str(&x->address),
						.objects = &x->objects,
						.ca = a->settings.objects_ca,
						.secret = x->secret.data,
						.secret_len = x->secret.len,
						.user_bytes = a->settings.objects_user_bytes,
						.total_bytes = a->settings.objects_total_bytes};
	return &x->config;
}

void app_moves_done(struct app *a)
{
	struct app_moves *x = TAKE_PTR(a->moves);

	if (!x)
		return;
	forget(&x->secret);
	forget(&x->address);
	objects_store_done(&x->objects);
	free(x);
}
