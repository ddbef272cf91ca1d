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
	sd_event_source *end;  /* serve_worker_end() */
	bool leaving;          /* what rests is being saved */
	uint64_t begun_ns;     /* that */
	uint64_t since_ns;     /* since when no router does it */
	void (*on_end)(void *user);
	void *user;
	bool lost; /* no sandbox can be made any more */
};

/* `serve --role ROLE` is its --fleet-role, which has a longer name because `user add` has a --role, too. BUF lives as long as ARGV. */
#define ROLE_FLAG_SIZE 64
void serve_worker_flag(int argc, char **argv, char buf[ROLE_FLAG_SIZE]);

/* How long a worker that was told to end serves on, so that each router, which asks once a second, hears of it first. */
#define SERVE_WORKER_TELL_NS (2 * NS_PER_S + NS_PER_S / 2)
/* And then, if routers save stored sandboxes, until all are at rest and saved; at most so long, and less if nothing is being saved. */
#define SERVE_WORKER_SAVE_NS (60 * NS_PER_S)
#define SERVE_WORKER_IDLE_NS (10 * NS_PER_S)

/* The worker is to end: FN is called when what its routers need of it is done, never before this returns. Until then it serves as before,
 * but stored sandboxes come to rest, and none is opened. Negative: there is no memory. */
int serve_worker_end(struct serve_worker *w, void (*fn)(void *user), void *user) MUST_CHECK;
/* After http_server_free(). FN is not called any more. */
void serve_worker_done(struct serve_worker *w);

/* Adds the state for routers and what they ask and tell of credentials, and to the plain listener readiness, figures and a refusal of everything else. */
int serve_worker_add_routes(struct serve_worker *w, struct http_server *http, struct api *api,
			    struct err *e) MUST_CHECK;
