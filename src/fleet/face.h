/* SPDX-License-Identifier: Apache-2.0 */
/* An API of another system (src/faces), as far as the router of a fleet has to know it. A router has the routes of a face and no
 * sandboxes: it asks where a request leads, and how that API refuses one. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct http_request;

#define FLEET_NAMES_SIZE 65
#define FLEET_KEPT_SIZE  129 /* of the name of a template or snapshot */

/* Both have the form of an id (ids.h), or lead nowhere. */
struct fleet_names {
	char id
	    [FLEET_NAMES_SIZE]; /* of a sandbox, or of what is kept of one; "" = it is not named */
	char token[FLEET_NAMES_SIZE]; /* of a sandbox, shown by whoever may use it; "" = none */
};

/* ROW is what the face has added the route with. */
struct fleet_face {
	const char *name; /* as SANDBOX_FACES has it, and the state of workers that offer it */
	/* For http_route.admit of what needs a credential. */
	bool (*admit)(struct http_request *req, void *row);
	/* Whom REQ is about. < 0 with E: it names nobody, or two, as `refuse` says it. */
	int (*find)(const struct http_request *req, const void *row, struct fleet_names *ret,
		    struct err *e);
	/* The id or name, without a tag, of the template or snapshot that REQ is about: letters, digits, '-' and '_' alone. BODY: of REQ; it
	 * may be empty. False: it names none that a client can have made. */
	bool (*find_kept)(const struct http_request *req, const void *row, const char *body,
			  size_t len, char ret[FLEET_KEPT_SIZE]);
	/* Path, before such a name, by which a worker says what it has of that (fleet/kept.h). */
	const char *kept_path;
	/* Answers REQ. SESSION_NOT_FOUND and NODE_LOST: the sandbox is not there. */
	void (*refuse)(struct http_request *req, const void *row, const struct err *e);
};
