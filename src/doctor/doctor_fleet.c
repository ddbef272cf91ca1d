/* SPDX-License-Identifier: Apache-2.0 */
/* The row about the role in a fleet: whether `serve` would start with it, and as which worker; how long its certificate holds; which
 * workers of a router answer. */
#include "doctor/doctor.h"

#include "app/app.h"
#include "app/fleet_look.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/ids.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void refuse(struct doctor_row *r, const char *what, const char *mend)
{
	r->state = DOCTOR_MISSING;
	(void)snprintf(r->value, sizeof(r->value), "%s", what);
	(void)snprintf(r->mend, sizeof(r->mend), "%s", mend);
}

#define SOON_S (INT64_C(30) * 24 * 3600)

/* The pair is made by whoever runs the authority, and often by hand. */
static bool certificate_is_good(const struct settings *s, struct doctor_row *r, char until[32])
{
	struct err e = ERR_INIT;
	struct tm tm;
	int64_t end;

	if (fleet_look_certificate(s, &end, &e) < 0) {
		refuse(r, e.text, "a certificate of the fleet's authority (docs/fleet.md)");
		return false;
	}
	const time_t t = (time_t)end;
	if (!gmtime_r(&t, &tm) || strftime(until, 32, "%Y-%m-%d", &tm) == 0)
		(void)snprintf(until, 32, "far away");
	if (end - (int64_t)(now_wall_ns() / NS_PER_S) < SOON_S) {
		r->state = DOCTOR_NOTE;
		(void)snprintf(r->mend, sizeof(r->mend),
			       "a new certificate, and SIGHUP, before the one that is there ends");
	}
	return true;
}

static void say_worker(const struct settings *s, struct fleet_member *m, const char *until,
		       struct doctor_row *r)
{
	char host[FLEET_NAME_MAX + 1] = "";

	(void)gethostname(host, sizeof(host) - 1);
	if (fleet_member_init(m, s->fleet_name[0] ? s->fleet_name : host) < 0)
		refuse(r, "this machine has no name", "SANDBOX_FLEET_NAME");
	else
		(void)snprintf(
		    r->value, sizeof(r->value),
		    "worker %.200s, short id %s, for routers at %.200s; certificate until %s",
		    m->name, m->worker, s->tls_listen, until);
}

static void say_router(const struct settings *s, const char *until, struct doctor_row *r)
{
	struct fleet_look l;
	struct err e = ERR_INIT;

	if (fleet_look_workers(s, &l, &e) < 0) {
		refuse(r, e.text, "docs/fleet.md");
		return;
	}
	const size_t unasked = l.workers - l.asked;
	char more[64] = "";
	if (unasked > 0)
		(void)snprintf(more, sizeof(more), ", %zu were not asked", unasked);
	(void)snprintf(r->value, sizeof(r->value),
		       "router: %zu of %zu workers answer%s; certificate until %s%s%s", l.answered,
		       l.workers, more, until, l.first[0] ? "; " : "", l.first);
	if (l.answered == 0 || l.first[0]) {
		r->state = l.answered == 0 ? DOCTOR_WEAKER : DOCTOR_NOTE;
		(void)snprintf(r->mend, sizeof(r->mend), "%s",
			       l.first[0] ? "the worker that is named, or the list of workers"
					  : "SANDBOX_FLEET_WORKERS names no worker");
	}
}

static bool file_is_there(enum setting_id id, const char *path, struct doctor_row *r)
{
	char text[512];

	if (access(path, R_OK) == 0)
		return true;
	(void)snprintf(text, sizeof(text), "%.400s cannot be read: %s", path, strerror(errno));
	refuse(r, text, setting_rows[id].env);
	return false;
}

static bool files_are_there(const struct settings *s, struct doctor_row *r)
{
	if (streq(s->fleet_role, "router"))
		return file_is_there(SETTING_ID_fleet_certificate, s->fleet_certificate, r) &&
		       file_is_there(SETTING_ID_fleet_certificate_key, s->fleet_certificate_key,
				     r) &&
		       file_is_there(SETTING_ID_fleet_workers, s->fleet_workers, r) &&
		       file_is_there(SETTING_ID_fleet_ca, s->fleet_ca, r);
	return file_is_there(SETTING_ID_tls_certificate, s->tls_certificate, r) &&
	       file_is_there(SETTING_ID_tls_key, s->tls_key, r) &&
	       file_is_there(SETTING_ID_fleet_ca, s->fleet_ca, r);
}

void row_fleet(const struct doctor_facts *f, struct doctor_row *r)
{
	const struct settings *s = f->settings;
	struct fleet_member m = {0};
	struct err e = ERR_INIT;
	char until[32];

	if (app_check_role(s, &e) < 0) {
		refuse(r, e.text, "docs/fleet.md");
		return;
	}
	if (streq(s->fleet_role, "all") || !files_are_there(s, r))
		return;
	if (fleet_key_read(s->fleet_key, &m.key, &e) < 0)
		refuse(r, e.text, "SANDBOX_FLEET_KEY");
	else if (!certificate_is_good(s, r, until))
		return;
	else if (streq(s->fleet_role, "router"))
		say_router(s, until, r);
	else
		say_worker(s, &m, until, r);
	sodium_memzero(&m, sizeof(m));
}

/* The PostgreSQL database of a router: whether it answers, and whether this program knows its tables. */
void row_database(const struct doctor_facts *f, struct doctor_row *r)
{
	_cleanup_(buf_done) struct buf address = BUF_INIT(APP_DATABASE_MAX);
	struct err e = ERR_INIT;
	uint64_t tables = 0;
	unsigned server = 0;

	if (!f->settings->database[0])
		return;
	int x = app_database(f->settings, &address, &e);
	x = x < 0 ? x : store_look(buf_str(&address), &server, &tables, &e);
	if (address.data)
		explicit_bzero(address.data, address.len);
	if (x < 0) {
		refuse(r, e.text, "SANDBOX_DATABASE; docs/fleet.md, \"Several routers\"");
		return;
	}
	if (tables == 0)
		(void)snprintf(r->value, sizeof(r->value),
			       "PostgreSQL %u; the first start makes the tables", server / 10000);
	else
		(void)snprintf(r->value, sizeof(r->value), "PostgreSQL %u, tables of version %ju",
			       server / 10000, (uintmax_t)tables);
}
