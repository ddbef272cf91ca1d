/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api. */
#pragma once

#include "api/api.h"
#include "api/json_body.h"
#include "api/json_reply.h"
#include "base/list.h"

#define API_REFUSED 9

struct api_stats {
	uint64_t answers[5]; /* 1xx … 5xx */
	uint64_t refused
	    [API_REFUSED]; /* by status, as in stats.c; of what was no request, or not yet one */
	uint64_t sent_bytes;
	uint64_t answer_ns; /* from heads of requests to ends of answers */
};

struct rest;

struct api {
	struct api_config config;
	struct api_stats stats;
	struct rest *rest;
	struct login_limits *login_limits;
	struct list logins; /* logins that wait for their turn */
	unsigned n_logins;
	struct list branches; /* struct api_branch, owned */
	struct list runs;     /* struct api_run, owned; newest first */
	struct figures *figures;
	uint64_t began_ns;
	unsigned archives;              /* archives that are being sent */
	uint8_t port_key[32];           /* of passes for ports */
	struct api_port_face port_face; /* its functions are NULL: there is none */
	struct list strangers;          /* struct exchange of people who are not the owner */
	char *openapi;                  /* owned, all three; made when they are first requested */
	char *description;              /* of /openapi.json */
	char *docs_page;
};

/* State of a request that waits for something. The client may disconnect meanwhile. */
struct api_wait {
	struct api *api;
	struct http_request *req; /* NULL: the client has left */
	struct caller *who;       /* reference */
	char text[STORE_NAME_SIZE];
	struct store_user user;
};

/* Makes the state for REQ. If memory is short, it answers and returns NULL. */
struct api_wait *api_wait_new(struct api *a, struct http_request *req, const struct caller *who);
void api_wait_free(struct api_wait *w);

/* Adds a row to the audit log. REQ and WHO may be NULL. */
void api_audit(struct api *a, struct http_request *req, const struct caller *who,
	       const char *action, const char *object, const char *result);

/* classic_users.c */
/* Answers 422: a field of the body is not valid. */
void api_invalid(struct http_request *req, const char *field, const char *why);
int stats_add_routes(struct api *a, struct http_server *http, unsigned scopes) MUST_CHECK;
int stats_add_probes(struct api *a, struct http_server *http, unsigned scopes) MUST_CHECK;
/* Answers a request that a worker of a fleet leaves to its routers. */
void api_of_router(struct http_request *req, void *user);
/* classic_login.c; USER is the struct api */
void classic_post_token(struct http_request *req, void *user);
void classic_logins_done(struct api *a);
/* Checks name and password, within the limits of login_limits.h. DONE is called once, maybe before this returns, with the
 * user or with E: UNAUTHORIZED, RATE_LIMITED, and errors of the store. */
typedef void (*api_login_fn)(const struct store_user *u, const struct err *e, void *user);
void api_login(struct api *a, const struct http_request *req, const char *name,
	       const char *password, api_login_fn done, void *user);
/* describe_pages.c */
int describe_pages_add_routes(struct api *a, struct http_server *http, unsigned scopes) MUST_CHECK;
void describe_pages_done(struct api *a);
int users_add_routes(struct api *a, struct http_server *http, unsigned scopes) MUST_CHECK;
