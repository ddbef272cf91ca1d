/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that the server offers over plain HTTP besides MCP and links: the user routes of the
 * second family, REST with its description, metrics. Every route that is not public asks `auth` for the
 * caller, and shows and changes only what belongs to that caller. */
#pragma once

#include "api/auth/accounting.h"
#include "api/auth/auth.h"
#include "api/history/cells.h"
#include "base/buf.h"
#include "budget/budgets.h"
#include "build/builds.h"
#include "packages/packages.h"
#include "sandbox/sandbox.h"

#include <jansson.h>

struct api;

/* What a face says of the sandbox whose port a request names (api/ports). */
enum api_port_door {
	API_PORT_UNKNOWN, /* it is none of the face's */
	API_PORT_GONE,    /* nothing answers there */
	API_PORT_CLOSED,  /* it is there; strangers come in if it is public */
	API_PORT_OPEN,    /* and the request has its token */
};
struct caller;
struct api_port_face {
	/* *RET_OWNER is set for CLOSED and OPEN: borrowed, for this turn of the loop. */
	enum api_port_door (*look)(void *user, const struct http_request *req, const char *id,
				   const struct caller **ret_owner);
	/* REQ may pass: a sandbox that is paused goes on. */
	void (*wake)(void *user, const char *id);
	/* What the sandbox is called to the server on PORT: the value of Host, appended to RET. Nothing appended: localhost:PORT. */
	int (*name)(void *user, const char *id, uint16_t port, struct buf *ret);
	/* The server on PORT speaks TLS, so we do to it. May be NULL. */
	bool (*speaks_tls)(void *user, const char *id, uint16_t port);
	/* Answers REQ as clients of the face expect it. False: it has not, and any answer will do. */
	bool (*refuse)(void *user, struct http_request *req, const char *id, uint16_t port,
		       enum err_code code);
	void *user;
};

struct api_config {
	sd_event *loop; /* borrowed, all of them, until api_free() */
	struct manager *manager;
	struct store *store; /* may be NULL: there are no users, keys and history */
	struct auth *auth;
	struct accounting *accounting;
	struct cells *cells;
	struct packages *packages; /* may be NULL: nothing can be installed */
	struct budgets *budgets;   /* may be NULL: nothing is bound */
	bool open_registration;
	bool worker;                      /* of a fleet: users, keys and sign-in are its routers' */
	bool loopback;                    /* no other machine can reach this server */
	uint64_t signin_ns;               /* life of a browser's sign-in */
	const char *profile;              /* of its tools */
	const char *base;                 /* URL of the server; filled in until the first request */
	const char *port_domain;          /* http_config.port_domain; "" = there is none */
	struct http_tls_client *port_tls; /* to servers in sandboxes; NULL: no face needs it */
	bool save_figures; /* figures that code shows are kept as files (run_request.display) */
	uint64_t max_upload_bytes;
	uint64_t max_code_bytes;
	const char *version; /* of the program */
	/* Appends lines of metrics of other rooms; may be NULL. */
	int (*metrics)(struct buf *out, void *user);
	/* The user OWNER was removed: what others keep of it can go. NULL: nobody does. */
	void (*removed)(const char *owner, void *user);
	/* The effective policy as JSON (owned), the same facts as `doctor`; NULL: there is none. */
	char *(*policy)(void *user);
	void *user;
	/* What GET /server says besides version, time and pool; ADMIN: with settings and the state of the
	 * machine. New reference. NULL: nothing. */
	json_t *(*server)(bool admin, void *server_user);
	void *server_user;
	/* What GET /fleet says, as `metrics`; NULL: this server is no router. */
	json_t *(*fleet)(void *user);
	struct builds *builds;
};

int api_new(const struct api_config *config, struct api **ret, struct err *e) MUST_CHECK;
/* Call it after http_server_free(). A may be NULL. */
struct api *api_free(struct api *a);
/* FACE is copied; there is one. */
void api_set_port_face(struct api *a, const struct api_port_face *face);
/* Appends the address of the server on PORT of the sandbox ID of OWNER, for a browser that finds this server at BASE. */
int api_port_url(struct api *a, const char *base, const char *owner, const char *id, uint16_t port,
		 struct buf *ret) MUST_CHECK;
/* Adds the routes for listeners of SCOPES. */
int api_add_routes(struct api *a, struct http_server *http, unsigned scopes,
		   struct err *e) MUST_CHECK;
/* Health and figures, without a caller, for listeners of SCOPES that have nothing else. */
int api_add_probes(struct api *a, struct http_server *http, unsigned scopes,
		   struct err *e) MUST_CHECK;
/* Cancels the runs whose credential has been revoked since they began (auth.h). */
void api_end_callers(struct api *a);
/* For http_config.log: counts answers and bytes. A may be NULL, and REQ, too. */
void api_note_request(struct api *a, struct http_request *req, int status, uint64_t bytes,
		      uint64_t ns);
