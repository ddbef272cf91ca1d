/* SPDX-License-Identifier: Apache-2.0 */
/* The face of E2B: its SDKs, unchanged, find here what they expect of E2B's servers. Three services share one address and
 * are told apart by their paths: the control plane (sandboxes), envd (processes and files of one sandbox), and the code
 * interpreter. docs/decisions/0041-e2b-face.md has the reasons, docs/e2b.md what is offered.
 *
 * Below /faces/e2b, and at names below http_config.port_domain. Off unless SANDBOX_FACES names it. Loop only. */
#pragma once

#include "api/api.h"
#include "api/auth/auth.h"
#include "budget/budgets.h"
#include "build/builds.h"
#include "fleet/face.h"
#include "http/http.h"
#include "sandbox/sandbox.h"

struct e2b;

struct fleet_member;

struct e2b_config {
	sd_event *loop; /* borrowed, all of them, until e2b_free() */
	struct manager *manager;
	struct auth *auth;
	struct budgets *budgets;
	uint64_t max_upload_bytes;
	struct builds *builds;
	bool templates;                   /* clients may build some */
	uint64_t template_cache;          /* bytes of a user's cache of their steps; 0 = none */
	const char *base;                 /* URL of the server; filled in until the first request */
	const struct fleet_member *fleet; /* of a worker: ids of sandboxes name it; NULL: none */
	const char *port_domain;          /* http_config.port_domain; "" = there is none */
	bool port_tls;                    /* api_config.port_tls is there */
};

int e2b_new(const struct e2b_config *config, struct e2b **ret, struct err *e) MUST_CHECK;
/* Call it after http_server_free() and before manager_free(). NULL is fine. */
struct e2b *e2b_free(struct e2b *f);
/* OWNER is removed: the templates go, and what was kept of their steps. */
void e2b_forget_owner(struct e2b *f, const char *owner);
/* For http_config.is_face: api, and PORT-SANDBOX for the ports of envd and the code interpreter. */
bool e2b_is_name(const char *label, size_t len);
/* API asks F about names of ports, and answers as F says. */
void e2b_serve_ports(struct e2b *f, struct api *api);
/* Adds the routes for listeners of SCOPES, and for those names. */
int e2b_add_routes(struct e2b *f, struct http_server *http, unsigned scopes,
		   struct err *e) MUST_CHECK;

/* For the router of a fleet, where the face has neither manager, builds nor API: its routes are added as above, and
 * http_config.reroute takes them. */
extern const struct fleet_face e2b_fleet_face;
