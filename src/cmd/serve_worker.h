/* SPDX-License-Identifier: Apache-2.0 */
/* What `caisson serve` has as a worker of a fleet alone. */
#pragma once

#include "api/api.h"
#include "app/app.h"
#include "http/http.h"
#include "moving/orders.h"

#include <stdbool.h>

struct serve_worker {
	const struct app *app; /* borrowed, as long as the HTTP server */
	struct auth *auth;     /* the same */
	struct orders *orders; /* NULL: stored sandboxes of this worker do not move */
	bool draining;         /* no router sends anything new */
	bool lost;             /* no sandbox can be made any more */
};

/* `serve --role ROLE` is its --fleet-role, which has a longer name because `user add` has a --role, too. BUF lives as long as ARGV. */
#define ROLE_FLAG_SIZE 64
void serve_worker_flag(int argc, char **argv, char buf[ROLE_FLAG_SIZE]);

/* How long a worker that was told to end serves on, so that each router, which asks once a second, hears of it first. */
#define SERVE_WORKER_TELL_NS (2 * NS_PER_S + NS_PER_S / 2)

/* Adds the state for routers and what they ask and tell of credentials, and to the plain listener readiness, figures and a refusal of everything else. */
int serve_worker_add_routes(struct serve_worker *w, struct http_server *http, struct api *api,
			    struct err *e) MUST_CHECK;
