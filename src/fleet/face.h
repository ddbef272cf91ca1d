/* SPDX-License-Identifier: Apache-2.0 */
/* An API of another system (src/faces), as far as the router of a fleet has to know it. A router has the routes of a face and no
 * sandboxes: it asks where a request leads, and how that API refuses one. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct http_request;

#define FLEET_NAMES_SIZE 65

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
	/* The id of what a sandbox is made of that BODY asks for. False: it does not say. */
	bool (*find_source)(const char *body, size_t len, char ret[FLEET_NAMES_SIZE]);
	/* Answers REQ. SESSION_NOT_FOUND and NODE_LOST: the sandbox is not there. */
	void (*refuse)(struct http_request *req, const void *row, const struct err *e);
};
