/* SPDX-License-Identifier: Apache-2.0 */
/* What GET /api/v1/server tells of the machine and of this program's settings. The machine is looked at once,
 * before the server gives up the rights that this needs. */
#pragma once

#include "app/app.h"

#include <jansson.h>

struct server_facts {
	const struct app *app; /* borrowed */
	json_t *images;        /* owned, both: arrays */
	json_t *doctor;
};

/* Looks at images and machine. What cannot be looked at is empty. Call it before app_begin(). */
void server_facts_gather(struct server_facts *f, const struct app *a);
void server_facts_done(struct server_facts *f);
/* doctor.c: the rows of `caisson doctor`, each with id, state, title, text and mend. New reference. */
json_t *cmd_doctor_rows(const struct settings *s);
/* For api_config.server; USER is the struct server_facts. New reference; NULL: no memory. */
json_t *server_facts_json(bool admin, void *user);
