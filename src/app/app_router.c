/* SPDX-License-Identifier: Apache-2.0 */
/* What the router of a fleet has besides a server: its certificate, the key of the fleet, and the list of workers. */
#include "app/app.h"

#include "app/reopener.h"
#include "base/buf.h"
#include "base/fdio.h"
#include "base/libcurl.h"
#include "base/log.h"
#include "base/text.h"
#include "fleet/router/names.h"
#include "fleet/router/router.h"
#include "fleet/router/slices.h"

#include <sodium.h>
#include <string.h>

#define LOOK_US (UINT64_C(1000) * 1000)

struct router_files {
	struct http_tls_client *tls;
	struct buf chain, authority; /* until the key of the certificate is there */
	bool wrong;                  /* one of those that come now cannot be used */
	struct fleet_key key;
	struct fleet_members members; /* of the start */
	struct reopener *reopener; /* a process of its own: the other one opens the log each time */
	struct fleet_router *router; /* borrowed; NULL: not open */
	struct fleet_names *names;
	sd_event_source *look;
	struct buf seen; /* the list as it was read last */
};

bool app_is_router(const struct app *a)
{
	return a->mode == APP_SERVE && streq(a->settings.fleet_role, "router");
}

/* ---- files ---- */

int app_read_member(const char *path, enum setting_id id, struct buf *ret, struct err *e)
{
	_cleanup_fd_ int fd = reopener_open(path);
	const int r = fd < 0 ? fd : fd_read_file(fd, ret);

	return r < 0 ? err_set(e, ERR_SETTING_INVALID, -r, "%s: cannot read %s",
			       setting_rows[id].env, path)
		     : 0;
}

static void forget(struct buf *secret)
{
	if (secret->data)
		sodium_memzero(secret->data, secret->len);
	buf_done(secret);
}

static int make_tls(const struct buf *chain, const struct buf *key, const struct buf *ca,
		    struct http_tls_client **ret, struct err *e)
{
	const struct http_tls_client_config config = {.chain = buf_str(chain),
						      .chain_len = chain->len,
						      .key = buf_str(key),
						      .key_len = key->len,
						      .ca = buf_str(ca),
						      .ca_len = ca->len,
						      .name = FLEET_WORKER_NAME};

	return http_tls_client_new(&config, ret, e);
}

static void note(struct app *a, const struct buf *chain, const struct buf *ca)
{
	app_note_certificate(a, APP_CERTIFICATE_ROUTER, buf_str(chain), chain->len);
	app_note_certificate(a, APP_CERTIFICATE_AUTHORITY, buf_str(ca), ca->len);
}

static int renew_tls(struct app *a, const struct buf *key, struct err *e)
{
	struct router_files *f = a->router_files;
	struct http_tls_client *fresh = NULL;
	const int r = make_tls(&f->chain, key, &f->authority, &fresh, e);

	if (r < 0)
		return r;
	note(a, &f->chain, &f->authority);
	if (f->router)
		fleet_router_set_tls(f->router, fresh);
	(void)http_tls_client_free(f->tls);
	f->tls = fresh;
	return 0;
}

static void forget_texts(struct router_files *f)
{
	buf_done(&f->chain);
	buf_done(&f->authority);
	f->chain = f->authority = (struct buf)BUF_INIT(REOPENER_FILE_MAX);
}

/* A: where it is noted what they are; or NULL. */
static int read_tls(const struct settings *s, struct app *a, struct http_tls_client **ret,
		    struct err *e)
{
	struct buf chain = BUF_INIT(REOPENER_FILE_MAX), key = chain, ca = chain;
	int r = app_read_member(s->fleet_certificate, SETTING_ID_fleet_certificate, &chain, e);

	r = r < 0 ? r
		  : app_read_member(s->fleet_certificate_key, SETTING_ID_fleet_certificate_key,
				    &key, e);
	r = r < 0 ? r : app_read_member(s->fleet_ca, SETTING_ID_fleet_ca, &ca, e);
	r = r < 0 ? r : make_tls(&chain, &key, &ca, ret, e);
	if (r == 0 && a)
		note(a, &chain, &ca);
	forget(&key);
	buf_done(&chain);
	buf_done(&ca);
	return r;
}

int app_member_tls(const struct settings *s, struct http_tls_client **ret, struct err *e)
{
	return read_tls(s, NULL, ret, e);
}

static int take_text(int fd, struct buf *ret, enum setting_id id, const char *path, struct err *e)
{
	buf_done(ret);
	*ret = (struct buf)BUF_INIT(REOPENER_FILE_MAX);
	const int r = fd < 0 ? fd : fd_read_file(fd, ret);

	return r < 0 ? err_set(e, ERR_SETTING_INVALID, -r, "%s: cannot read %s",
			       setting_rows[id].env, path)
		     : 0;
}

/* They come in the order authority, certificate, key. If one cannot be read, all stay as they were. */
void app_take_router_tls(struct app *a, enum reopen what, int file)
{
	const struct settings *s = &a->settings;
	struct router_files *f = a->router_files;
	struct buf key = BUF_INIT(REOPENER_FILE_MAX);
	_cleanup_fd_ int fd = file;
	struct err e = ERR_INIT;
	int r;

	if (what == REOPEN_MEMBER_AUTHORITY) {
		f->wrong = false;
		r = take_text(fd, &f->authority, SETTING_ID_fleet_ca, s->fleet_ca, &e);
	} else if (what == REOPEN_MEMBER_CERTIFICATE) {
		r = take_text(fd, &f->chain, SETTING_ID_fleet_certificate, s->fleet_certificate,
			      &e);
	} else {
		r = take_text(fd, &key, SETTING_ID_fleet_certificate_key, s->fleet_certificate_key,
			      &e);
		if (r == 0 && !f->wrong)
			r = renew_tls(a, &key, &e);
		forget(&key);
		forget_texts(f);
	}
	if (r < 0)
		LOG_ERROR("certificate_not_read", LOG_S("error", e.text),
			  LOG_S("effect", "connections to workers are made with the one before"));
	else if (what == REOPEN_MEMBER_KEY && !f->wrong)
		LOG_INFO("certificate_read", LOG_S("file", s->fleet_certificate));
	f->wrong = f->wrong || r < 0;
	if (what == REOPEN_MEMBER_KEY)
		app_note_refused(a, APP_CERTIFICATE_ROUTER, f->wrong);
}

/* Also if no line needs it yet: it cannot be loaded when threads use it. */
static int load_libcurl(const struct fleet_members *m, struct err *e)
{
	struct err why = ERR_INIT;
	bool needed = false;

	for (size_t i = 0; i < m->n_names; i++)
		needed = needed || m->names[i].slices;
	if (!fleet_slices_can() || libcurl_load(&why) == 0)
		return 0;
	if (needed)
		return err_set(e, ERR_SYSTEM, ENOENT, "endpointslices: %s", why.text);
	LOG_INFO("no_libcurl", LOG_S("error", why.text),
		 LOG_S("effect", "this router can use no line endpointslices:NAMESPACE/NAME:PORT"));
	return 0;
}

static int read_members(struct app *a, struct err *e)
{
	struct router_files *f = a->router_files;
	int r = app_read_member(a->settings.fleet_workers, SETTING_ID_fleet_workers, &f->seen, e);

	if (r < 0)
		return r;
	r = fleet_members_parse(buf_str(&f->seen), f->seen.len, &f->members, e);
	r = r < 0 ? r : load_libcurl(&f->members, e);
	return r < 0 ? err_wrap(e, "SANDBOX_FLEET_WORKERS") : 0;
}

int app_begin_router(struct app *a, struct err *e)
{
	const struct reopener_config config = {.workers = a->settings.fleet_workers};

	a->router_files = calloc(1, sizeof(*a->router_files));
	if (!a->router_files)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the router");
	buf_init(&a->router_files->seen, FLEET_MEMBERS_FILE);
	int r = reopener_start(&config, &a->router_files->reopener, e);
	r = r < 0 ? r : read_members(a, e);
	r = r < 0 ? r : fleet_key_read(a->settings.fleet_key, &a->router_files->key, e);
	r = r < 0 ? r : app_begin_moves(a, e);
	return r < 0 ? r : read_tls(&a->settings, a, &a->router_files->tls, e);
}

/* ---- changes of the list ---- */

static void take_members(struct router_files *f, struct buf *text)
{
	struct fleet_members *fresh;
	struct err e = ERR_INIT;

	if (text->len == f->seen.len && memcmp(buf_str(text), buf_str(&f->seen), text->len) == 0)
		return;
	fresh = malloc(sizeof(*fresh));
	if (!fresh)
		return;
	if (fleet_members_parse(buf_str(text), text->len, fresh, &e) < 0) {
		LOG_ERROR("workers_not_read", LOG_S("error", e.text),
			  LOG_S("effect", "the list stays as it was"));
	} else {
		fleet_names_set(f->names, fresh);
		LOG_INFO("workers_read", LOG_U("workers", fresh->n),
			 LOG_U("names", fresh->n_names));
	}
	free(fresh);
	buf_done(&f->seen); /* a wrong list is told once */
	f->seen = *text;
	*text = (struct buf)BUF_INIT(FLEET_MEMBERS_FILE);
}

static void on_file(enum reopen what, int file, void *user)
{
	struct router_files *f = user;
	_cleanup_(buf_done) struct buf text = BUF_INIT(FLEET_MEMBERS_FILE);
	_cleanup_fd_ int fd = what == REOPEN_WORKERS ? file : -1;

	if (what != REOPEN_WORKERS)
		return;
	const int r = fd < 0 ? fd : fd_read_file(fd, &text);
	if (r < 0)
		LOG_OFTEN(LOG_LEVEL_ERROR, "workers_not_read", LOG_S("error", strerror(-r)));
	else
		take_members(f, &text);
}

static int on_look(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct router_files *f = user;

	if (reopener_ask(f->reopener, sd_event_source_get_event(source), on_file, f) < 0)
		return 0; /* it has said so in the log */
	(void)sd_event_source_set_time_relative(source, LOOK_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void on_members(const struct fleet_members *m, void *user)
{
	const struct router_files *f = user;

	fleet_router_set_members(f->router, m);
}

int app_open_router(struct app *a, struct auth *auth, const char *public_origin,
		    const char *port_domain, struct fleet_router **ret, struct err *e)
{
	struct router_files *f = a->router_files;
	const struct fleet_router_config config = {.loop = a->loop,
						   .auth = auth,
						   .store = a->store,
						   .accounting = a->accounting,
						   .budgets = a->budgets,
						   .tls = f->tls,
						   .moves = app_moves(a),
						   .key = &f->key,
						   .public_origin = public_origin,
						   .port_domain = port_domain};
	int r = fleet_router_new(&config, ret, e);

	if (r < 0)
		return r;
	f->router = *ret;
	r = fleet_names_new(a->loop, on_members, f, &f->names, e);
	if (r < 0)
		return r;
	fleet_names_set(f->names, &f->members);
	r = sd_event_add_time_relative(a->loop, &f->look, CLOCK_MONOTONIC, LOOK_US, LOOK_US / 20,
				       on_look, f);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "the event loop") : 0;
}

json_t *app_fleet_json(void *app)
{
	const struct app *a = app;

	return fleet_router_json(a->router_files->router);
}

int app_fleet_metrics(struct buf *out, void *app)
{
	const struct app *a = app;

	return fleet_router_metrics(a->router_files->router, out);
}

void app_close_router(struct app *a)
{
	struct router_files *f = a->router_files;

	if (!f)
		return;
	f->look = sd_event_source_disable_unref(f->look);
	f->names = fleet_names_free(f->names);
	f->reopener = reopener_free(f->reopener);
	f->router = NULL;
}

void app_router_done(struct app *a)
{
	struct router_files *f = TAKE_PTR(a->router_files);

	app_moves_done(a);
	if (!f)
		return;
	f->tls = http_tls_client_free(f->tls);
	forget_texts(f);
	buf_done(&f->seen);
	sodium_memzero(&f->key, sizeof(f->key));
	free(f);
}
