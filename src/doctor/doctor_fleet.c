/* SPDX-License-Identifier: Apache-2.0 */
/* The row about the role in a fleet: whether `serve` would start with it, and as which worker. */
#include "doctor/doctor.h"

#include "app/app.h"
#include "base/text.h"
#include "fleet/ids.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void refuse(struct doctor_row *r, const char *what, const char *mend)
{
	r->state = DOCTOR_MISSING;
	(void)snprintf(r->value, sizeof(r->value), "%s", what);
	(void)snprintf(r->mend, sizeof(r->mend), "%s", mend);
}

static bool files_are_there(const struct settings *s, struct doctor_row *r)
{
	const struct {
		enum setting_id id;
		const char *path;
	} files[] = {
	    {SETTING_ID_tls_certificate, s->tls_certificate},
	    {SETTING_ID_tls_key, s->tls_key},
	    {SETTING_ID_fleet_ca, s->fleet_ca},
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		char text[512];

		if (access(files[i].path, R_OK) == 0)
			continue;
		(void)snprintf(text, sizeof(text), "%s cannot be read: %s", files[i].path,
			       strerror(errno));
		refuse(r, text, setting_rows[files[i].id].env);
		return false;
	}
	return true;
}

void row_fleet(const struct doctor_facts *f, struct doctor_row *r)
{
	const struct settings *s = f->settings;
	char host[FLEET_NAME_MAX + 1] = "";
	struct fleet_member m = {0};
	struct err e = ERR_INIT;

	if (app_check_role(s, &e) < 0) {
		refuse(r, e.text, "docs/fleet.md");
		return;
	}
	if (streq(s->fleet_role, "all") || !files_are_there(s, r))
		return;
	if (fleet_key_read(s->fleet_key, &m.key, &e) < 0) {
		refuse(r, e.text, "SANDBOX_FLEET_KEY");
		return;
	}
	(void)gethostname(host, sizeof(host) - 1);
	if (fleet_member_init(&m, s->fleet_name[0] ? s->fleet_name : host) < 0) {
		refuse(r, "this machine has no name", "SANDBOX_FLEET_NAME");
		return;
	}
	(void)snprintf(r->value, sizeof(r->value),
		       "worker %.200s, short id %s, for routers at %.200s", m.name, m.worker,
		       s->tls_listen);
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
