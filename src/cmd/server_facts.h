/* SPDX-License-Identifier: Apache-2.0 */
/* What GET /api/v1/server tells of the machine and of this program's settings. The machine is looked at once,
 * before the server gives up the rights that this needs. */
#pragma once

#include "api/api.h"
#include "app/app.h"
#include "build/builds.h"
#include "image/image_store.h"

#include <jansson.h>
#include <time.h>

struct server_facts {
	const struct app *app; /* borrowed */
	struct image_store
	    store; /* open from the start: the folders above it may be closed to the front */
	struct timespec looked_at; /* when `images` was read, by the folder's clock */
	json_t *images;            /* owned, all three: arrays */
	json_t *definitions;       /* of images that can be built: name, description */
	json_t *doctor;
	struct { /* who is told of downloads of builds */
		void (*line)(const char *text, void *user);
		void (*ended)(const char *reason, void *user);
		void *user;
	} downloads;
	const char **names; /* owned; of `definitions`, in their order */
	size_t n_names;
};

/* Looks at images and machine. What cannot be looked at is empty. Call it before app_begin(). */
void server_facts_gather(struct server_facts *f, const struct app *a);
/* The same without the machine and the definitions, for builds alone. */
void server_facts_open(struct server_facts *f, const struct app *a);
/* What builds know of the images in S. New reference. */
json_t *server_facts_images(const struct image_store *s);
void server_facts_done(struct server_facts *f);
/* doctor.c: the rows of `caisson doctor`, each with id, state, title, text and mend. New reference. */
json_t *cmd_doctor_rows(const struct settings *s);
/* For api_config.server; USER is the struct server_facts. New reference; NULL: no memory. */
json_t *server_facts_json(bool admin, void *user);
/* Builds of images, after app_open(); F stays borrowed until builds_free(). */
int server_facts_builds(struct server_facts *f, struct builds **ret, struct err *e) MUST_CHECK;
