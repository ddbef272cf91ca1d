/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs that run sandboxes share: settings, log, privileges, loop, manager, tools.
 *
 * Order: app_settings() (nothing has happened yet) -> app_begin() (the privileged monitor is
 * started, then all privileges are given up; before any outside byte is read) -> app_open() (loop,
 * manager). */
#pragma once

#include "api/files.h"
#include "api/ledger.h"
#include "app/egress_audit.h"
#include "config/settings.h"
#include "egress/egress.h"
#include "http/http.h"
#include "mcp/mcp.h"
#include "packages/packages.h"
#include "sandbox/sandbox.h"
#include "store/store.h"
#include "tools/tools.h"

#include <limits.h>

enum app_mode {
	APP_STDIO, /* protocol on stdout; log to file or stderr */
	APP_SERVE,
	APP_RUN, /* output of the script on stdout and stderr; log only to a file that was named */
};

struct app {
	const char *verb;
	enum app_mode mode;
	struct settings settings;
	bool log_is_file; /* and nothing of it goes to stderr */
	char state_dir[PATH_MAX];
	char image[ENGINE_NAME_MAX];
	const char *socket_path; /* removed at the end; NULL: none; borrowed */
	const char *listen_host; /* of `serve`, before app_begin(); borrowed */
	int monitor_fd;          /* until the engine has it */
	bool has_landlock;       /* its files are bounded by more than its uid */
	struct store *store;     /* NULL where it cannot be opened and is not needed */
	sd_event *loop;
	struct manager *manager;
	struct sandbox_records records; /* of the manager, in the store */
	struct opener *opener;          /* NULL: no file of this machine is read */
	struct ledger *ledger;
	struct egress *egress;
	struct egress_audit *egress_audit;               /* NULL without a store */
	struct egress_policy *network;                   /* of sandboxes */
	struct egress_policy *network_may[EGRESS_KINDS]; /* what they may be made with instead */
	struct packages *packages;
	int ca_fd; /* certificates for the package index, until packages have it; -1 = none */
	char index_url[2001];
	bool index_is_trusted;         /* the operator named it */
	bool index_has_own_ca;         /* ca_fd is not this machine's */
	struct packages_inside inside; /* the index as sandboxes see it */
	int cache_fd, wheel_fd;        /* folders of wheels, until packages have them; -1 = none */
	struct links *links;
	struct tools *tools;
	struct mcp_server *mcp;
};

/* Reads settings (read_settings.h) and configures the log. */
int app_settings(struct app *a, const char *verb, enum app_mode mode, bool file_in_cwd, int *argc,
		 char **argv, struct err *e) MUST_CHECK;
/* app_begin.c: checks that the image is there, starts the monitor, gives up privileges. */
int app_begin(struct app *a, struct err *e) MUST_CHECK;
/* Loop and manager. The engine itself opens at its first need or with manager_start(). */
int app_open(struct app *a, struct err *e) MUST_CHECK;
/* app_packages.c: what needs the rights of whoever starts the server, and what needs the loop. */
int app_prepare_packages(struct app *a, struct err *e) MUST_CHECK;
int app_open_egress(struct app *a, struct err *e) MUST_CHECK;
/* Of the tools: what a person answered goes to the log and the audit log. */
void app_domain_answered(const struct sandbox *s, const char *domain, bool allowed, void *user);
int app_open_packages(struct app *a, struct err *e) MUST_CHECK;
/* The index that sandboxes may ask by themselves; its texts are in A. */
struct sandbox_index app_index(struct app *a);
/* FN is called from the loop for SIGTERM, SIGINT and SIGHUP (but where that is ignored, as below
 * nohup(1)), which do not end the process any more. */
int app_on_stop(struct app *a, sd_event_signal_handler_t fn, void *user, struct err *e) MUST_CHECK;
/* app_mcp.c: links, tools and the MCP registry of the profile. HTTP: the main server, or NULL. */
int app_open_mcp(struct app *a, struct http_server *http, struct err *e) MUST_CHECK;
void app_done(struct app *a);
#define APP_STORE_PATH_MAX (PATH_MAX + 16)
void app_store_path(const struct app *a, char ret[APP_STORE_PATH_MAX]);
/* The database of this state folder (app_store.c). For verbs without an engine too. */
int app_open_store(struct app *a, struct err *e) MUST_CHECK;

/* Bytes of the longest message of a client. */
size_t app_max_message(const struct app *a);

/* Stored sandboxes of this server: limits, and records in the store if there is one (app_records.c).
 * INSISTED: limits of sessions that somebody has set. */
struct manager_stored app_stored(struct app *a, uint32_t insisted); /* on their limits */

/* Is the engine of the settings the native one, which has a monitor? */
bool app_is_native(const struct app *a);
/* Can only this machine reach a listener on HOST? */
bool app_is_loopback(const char *host);

/* A start that failed: the log event, one line "ERROR: ..." on stderr, and its exit status. */
int app_fail(const struct app *a, const struct err *e);
