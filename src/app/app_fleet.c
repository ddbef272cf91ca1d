/* SPDX-License-Identifier: Apache-2.0 */
/* What a role in a fleet needs of the settings, and what it excludes. */
#include "app/app.h"

#include "base/text.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define TEXT_OF(field) offsetof(struct settings, field)

/* Texts without which a role cannot serve. */
static const struct {
	const char *role;
	enum setting_id id;
	size_t offset;
	const char *what;
} needed[] = {
    {"worker", SETTING_ID_tls_listen, TEXT_OF(tls_listen), "the address where routers reach it"},
    {"worker", SETTING_ID_tls_certificate, TEXT_OF(tls_certificate), "its certificate"},
    {"worker", SETTING_ID_tls_key, TEXT_OF(tls_key), "the key of its certificate"},
    {"worker", SETTING_ID_fleet_ca, TEXT_OF(fleet_ca),
     "the authority that signs certificates of routers"},
    {"worker", SETTING_ID_fleet_key, TEXT_OF(fleet_key), "the key of the fleet's ids"},
    {"router", SETTING_ID_fleet_workers, TEXT_OF(fleet_workers), "the list of workers"},
    {"router", SETTING_ID_fleet_ca, TEXT_OF(fleet_ca),
     "the authority that signs certificates of workers"},
    {"router", SETTING_ID_fleet_key, TEXT_OF(fleet_key), "the key of the fleet's ids"},
    {"router", SETTING_ID_fleet_certificate, TEXT_OF(fleet_certificate), "its certificate"},
    {"router", SETTING_ID_fleet_certificate_key, TEXT_OF(fleet_certificate_key), "the key of that"},
};

/* A worker does not look at these. Whoever sets one believes that it protects or opens something. */
static const enum setting_id of_routers[] = {
    SETTING_ID_api_key,       SETTING_ID_require_auth,      SETTING_ID_open_registration,
    SETTING_ID_token_minutes, SETTING_ID_signin_hours,      SETTING_ID_password_min,
    SETTING_ID_allowed_hosts, SETTING_ID_allowed_origins,   SETTING_ID_page_origins,
    SETTING_ID_fleet_workers, SETTING_ID_fleet_certificate, SETTING_ID_fleet_certificate_key,
};

static const enum setting_id of_fleets[] = {
    SETTING_ID_fleet_ca,      SETTING_ID_fleet_key,         SETTING_ID_fleet_name,
    SETTING_ID_fleet_workers, SETTING_ID_fleet_certificate, SETTING_ID_fleet_certificate_key,
};

static bool is_worker(const struct settings *s)
{
	return streq(s->fleet_role, "worker");
}

static int check_needed(const struct settings *s, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		char *const *text =
		    (char *const *)(const void *)((const char *)s + needed[i].offset);

		if (streq(needed[i].role, s->fleet_role) && !(*text)[0])
			return err_set(e, ERR_SETTING_INVALID, 0, "SANDBOX_ROLE=%s needs %s: %s",
				       s->fleet_role, setting_rows[needed[i].id].env,
				       needed[i].what);
	}
	return 0;
}

static int check_worker(const struct settings *s, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(of_routers); i++)
		if (settings_is_explicit(s, of_routers[i]))
			return err_set(
			    e, ERR_SETTING_INVALID, 0,
			    "%s has no meaning with SANDBOX_ROLE=worker, since routers judge "
			    "who asks: set it at the routers and remove it here",
			    setting_rows[of_routers[i]].env);
	if (settings_is_explicit(s, SETTING_ID_http_host) ||
	    (settings_is_explicit(s, SETTING_ID_http_port) && s->http_port != LINKS_PORT_OFF))
		return err_set(
		    e, ERR_SETTING_INVALID, 0,
		    "%s is for a listener of artifact links, and a worker has none, since "
		    "its links lead through routers: remove it",
		    setting_rows[settings_is_explicit(s, SETTING_ID_http_host)
				     ? SETTING_ID_http_host
				     : SETTING_ID_http_port]
			.env);
	if (settings_is_explicit(s, SETTING_ID_local_roots))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "%s is for clients on this machine, and those of a worker are "
			       "elsewhere: remove it",
			       setting_rows[SETTING_ID_local_roots].env);
	return 0;
}

static int check_router(const struct settings *s, struct err *e)
{
	if (s->faces[0])
		return err_set(
		    e, ERR_SETTING_INVALID, 0,
		    "SANDBOX_FACES does not work with SANDBOX_ROLE=router yet: remove it");
	return 0;
}

int app_check_role(const struct settings *s, struct err *e)
{
	const int r = check_needed(s, e);

	if (r < 0)
		return r;
	const int objects = app_check_objects(s, e);
	if (objects < 0)
		return objects;
	if (s->database[0] && !streq(s->fleet_role, "router"))
		return err_set(e, ERR_SETTING_INVALID, 0, APP_DATABASE_OF_ROUTERS);
	if (streq(s->fleet_role, "router"))
		return check_router(s, e);
	if (is_worker(s))
		return check_worker(s, e);
	for (size_t i = 0; i < ARRAY_SIZE(of_fleets); i++)
		if (settings_is_explicit(s, of_fleets[i]))
			return err_set(e, ERR_SETTING_INVALID, 0,
				       "%s is for members of a fleet: set SANDBOX_ROLE, or "
				       "remove it",
				       setting_rows[of_fleets[i]].env);
	return 0;
}

bool app_is_worker(const struct app *a)
{
	return a->mode == APP_SERVE && is_worker(&a->settings);
}

int app_begin_fleet(struct app *a, struct err *e)
{
	char host[FLEET_NAME_MAX + 1] = "";
	const char *name = a->settings.fleet_name;

	if (!app_is_worker(a))
		return 0;
	if (!name[0] && gethostname(host, sizeof(host) - 1) == 0)
		name = host;
	int r = fleet_key_read(a->settings.fleet_key, &a->member.key, e);
	if (r == 0 && fleet_member_init(&a->member, name) < 0)
		r = err_set(e, ERR_SETTING_INVALID, EINVAL,
			    "SANDBOX_FLEET_NAME: this machine has no name of its own");
	return r;
}

const struct fleet_member *app_fleet(const struct app *a)
{
	return app_is_worker(a) ? &a->member : NULL;
}
