/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs that run sandboxes share: settings, log, privileges, loop, manager, tools.
 *
 * Order:
 *   app_settings()  reads settings, nothing else
 *   app_begin()     starts the privileged monitor, then gives up all privileges, before a byte from
 *                   outside is read
 *   app_open()      makes the event loop and the manager */
#pragma once

#include "api/auth/accounting.h"
#include "api/files/files.h"
#include "api/history/cells.h"
#include "app/egress_audit.h"
#include "app/reopener.h"
#include "base/buf.h"
#include "budget/budgets.h"
#include "config/settings.h"
#include "egress/egress.h"
#include "fleet/ids.h"
#include "fleet/tally.h"
#include "http/http.h"
#include "mcp/mcp.h"
#include "objects/store.h"
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

/* Certificates that this process uses. */
enum app_certificate {
	APP_CERTIFICATE_LISTENER,  /* of the listener with TLS */
	APP_CERTIFICATE_ROUTER,    /* that a router shows to its workers */
	APP_CERTIFICATE_AUTHORITY, /* of the fleet */
	APP_CERTIFICATES,
};

struct fleet_router;
struct http_tls_client;
struct image_builder;
struct image_fetch;
struct router_files;

struct app {
	const char *verb;
	enum app_mode mode;
	struct settings settings;
	bool log_is_file; /* and it does not go to stderr */
	char state_dir[PATH_MAX];
	char image[ENGINE_NAME_MAX];
	struct engine_levels levels; /* of isolation: those of the settings, then of the engine */
	char engine_why[ENGINE_WHY_MAX]; /* why "auto" chose the engine; "" = it was named */
	const char *socket_path;         /* borrowed; removed at the end; NULL: none */
	const char *
	    listen_host; /* of `serve`, the one that others can reach, if any; set before app_begin(); borrowed */
	struct engine *engine;   /* from app_begin() until the manager takes it */
	bool lacks_image;        /* it was missing at the start */
	bool has_landlock;       /* Landlock, not only the uid, limits which files we can open */
	struct store *store;     /* NULL: it cannot be opened and is not needed */
	struct budgets *budgets; /* from app_settings() to app_done() */
	sd_event *loop;
	sd_event_source *workers; /* jobs of the pool of threads have ended */
	struct manager *manager;
	struct sandbox_records records;       /* the manager's, kept in the store */
	struct opener *opener;                /* NULL: no local files may be read */
	struct reopener *reopener;            /* NULL: nothing to open again */
	struct http_tls *tls;                 /* NULL: SANDBOX_TLS_LISTEN is not set */
	struct http_tls_client *port_tls;     /* NULL: no face, or no GnuTLS */
	struct buf tls_chain;                 /* until its key is there */
	struct buf tls_authority;             /* as that; of a worker */
	struct fleet_member member;           /* of a worker: app_fleet() */
	struct fleet_tally *uses, *elsewhere; /* of a worker: what users have here, and at others */
	void (*reloaded)(void *user);         /* app_reload() */
	void *reloaded_user;
	const char *const *image_defs; /* of `serve`, set before app_begin(): names; borrowed */
	size_t n_image_defs;
	const char *
	    own_image; /* the image that `image build` makes in sandboxes; set before app_begin(); NULL = none; borrowed */
	struct image_builder
	    *image_builder; /* NULL: this server neither builds nor downloads images */
	struct image_builder *image_puller; /* NULL: builds download nothing */
	struct image_fetch *image_fetch;    /* NULL: it downloads none */
	struct accounting *accounting;
	struct cells *cells; /* what runs do, for people */
	struct egress *egress;
	struct egress_audit *egress_audit;               /* NULL without a store */
	struct egress_policy *network;                   /* the default of new sandboxes */
	struct egress_policy *network_may[EGRESS_KINDS]; /* what clients may choose instead */
	struct packages *packages;
	int ca_fd; /* certificates for the package index, until `packages` takes it; -1 = none */
	char index_url[2001];
	bool index_is_trusted;         /* the operator named it */
	bool index_has_own_ca;         /* ca_fd is not the file of this machine */
	struct packages_inside inside; /* how sandboxes see the index */
	int cache_fd, wheel_fd; /* folders of wheels, until `packages` takes them; -1 = none */
	struct links *links;
	/* Appends the address of a server in a sandbox (api_port_url()), BASE NULL: that of this server. Set by who serves
	 * ports; NULL: nobody does. */
	int (*port_url)(void *user, const char *base, const char *owner, const char *id,
			uint16_t port, struct buf *ret);
	void *port_user;
	struct tools *tools;
	struct mcp_server *mcp;
	struct {
		int64_t until_s; /* 0: it is not used */
		bool refused;    /* what is in its files now */
	} certificates[APP_CERTIFICATES];
	struct router_files *router_files; /* of a router, from app_begin() on */
	struct app_moves *moves;           /* of a router; NULL: sandboxes do not move */
};

/* Reads settings (read_settings.h) and configures the log. */
int app_settings(struct app *a, const char *verb, enum app_mode mode, bool file_in_cwd, int *argc,
		 char **argv, struct err *e) MUST_CHECK;
/* The same with settings that have been read, which go to A. */
int app_take_settings(struct app *a, const char *verb, enum app_mode mode, struct settings *s,
		      struct err *e) MUST_CHECK;
/* app_begin.c: checks that the image is there, starts the monitor, gives up privileges. */
/* Whether clients may build templates: the settings say so, and there is what it takes. After app_begin(). */
bool app_builds_templates(const struct app *a);
int app_begin(struct app *a, struct err *e) MUST_CHECK;
/* Whether the engine has images in the state folder and the server's is not among them. */
bool app_lacks_image(const struct app *a);
/* Names and values of the settings that a command for images gets by its environment, where no other account
 * can read them. Borrowed from A. */
#define APP_IMAGE_ENV 8
void app_image_env(const struct app *a, const char *ret[APP_IMAGE_ENV][2]);
/* Makes loop and manager. The engine opens when it is first needed, or with manager_start(). */
int app_open(struct app *a, struct err *e) MUST_CHECK;
/* app_packages.c: app_prepare_packages() needs the privileges of the start, the others the loop. */
int app_prepare_packages(struct app *a, struct err *e) MUST_CHECK;
int app_open_egress(struct app *a, struct err *e) MUST_CHECK;
/* For the tools: adds a row to the audit log. USER is the struct app. */
void app_tool_audit(const char *principal, const char *action, const char *object,
		    const char *result, void *user);
/* For the tools: records the answer of a person, in the log and the audit log. */
void app_domain_answered(const struct sandbox *s, const char *domain, bool allowed, void *user);
int app_open_packages(struct app *a, struct err *e) MUST_CHECK;
/* The package index that sandboxes may use themselves; its texts are in A. */
struct sandbox_index app_index(struct app *a);
/* A SIGHUP waits for app_on_stop(), instead of ending a server that has just been started, and ends none of the small
 * processes that it forks. Nothing is changed if the signal is ignored. */
void app_hold_hangup(void);
/* From now on SIGTERM, SIGINT and SIGHUP call FN from the loop instead of ending the process. SIGHUP
 * stays ignored if it is ignored at the start, as nohup(1) does. */
int app_on_stop(struct app *a, sd_event_signal_handler_t fn, void *user, struct err *e) MUST_CHECK;
/* The loop exits: when the variables of stored sandboxes are on their disks, or after a few seconds. */
int app_end(struct app *a);
/* app_fleet.c: the settings of a role, which `serve` alone has. SETTING_INVALID: what is missing, or contradicts the role. */
int app_check_role(const struct settings *s, struct err *e) MUST_CHECK;
bool app_is_worker(const struct app *a);
/* Reads the key of the fleet, with the privileges of the start. */
int app_begin_fleet(struct app *a, struct err *e) MUST_CHECK;
/* What marks ids; NULL: this server is no worker. Borrowed from A. */
const struct fleet_member *app_fleet(const struct app *a);
/* The name that certificates of routers have. */
#define FLEET_ROUTER_DNS "router.caisson.internal"
/* reload.c: what app_reload() needs from a process with the privileges of the start. */
int app_begin_reopener(struct app *a, struct err *e) MUST_CHECK;
/* From now on certificates whose files change are read again. */
int app_follow_files(struct app *a, struct err *e) MUST_CHECK;
/* app_tls.c: reads the certificate and its key, after the last fork and with the privileges of the start. */
int app_begin_tls(struct app *a, struct err *e) MUST_CHECK;
/* Takes a new one, REOPEN_AUTHORITY (of a worker), REOPEN_CERTIFICATE and then REOPEN_KEY. FILE is a negative errno, or taken. */
void app_take_tls(struct app *a, enum reopen what, int file);
/* After the HTTP server. */
void app_tls_done(struct app *a);
/* reload.c: has the log opened and the settings file read again, and returns at once. A wrong file changes nothing,
 * and the log says what is wrong. RELOADED is called from the loop when that is done, so that the caller passes on the
 * settings that it gave to others. */
void app_reload(struct app *a, void (*reloaded)(void *user), void *user);
/* app_router.c: whether this is the router of a fleet, which has neither engine nor image. */
bool app_is_router(const struct app *a);
/* Reads what it needs, with the privileges of the start. */
int app_begin_router(struct app *a, struct err *e) MUST_CHECK;
/* Reads the file PATH of the setting ID. SETTING_INVALID: it cannot be read. */
int app_read_member(const char *path, enum setting_id id, struct buf *ret,
		    struct err *e) MUST_CHECK;
/* The certificate, key and authority that the router S has. */
int app_member_tls(const struct settings *s, struct http_tls_client **ret,
		   struct err *e) MUST_CHECK;
/* Takes a new certificate of a router, in the order of enum reopen. FILE is a negative errno, or taken. */
void app_take_router_tls(struct app *a, enum reopen what, int file);
/* Makes the router, which knows its workers from now on. AUTH is borrowed until the router's end. */
int app_open_router(struct app *a, struct auth *auth, const char *public_origin,
		    const char *port_domain, struct fleet_router **ret, struct err *e) MUST_CHECK;
/* Of an open router: for api_config.fleet. APP is a struct app. */
json_t *app_fleet_json(void *app);
int app_fleet_metrics(struct buf *out, void *app) MUST_CHECK;
/* app_metrics.c: for api_config.metrics. APP is a struct app. */
int app_metrics(struct buf *out, void *app) MUST_CHECK;
/* The certificates that are used from now on, in PEM; kept by nobody. */
void app_note_certificate(struct app *a, enum app_certificate which, const char *pem, size_t len);
/* Whether the files that were read last could not be used. */
void app_note_refused(struct app *a, enum app_certificate which, bool refused);
/* Before fleet_router_free(). */
void app_close_router(struct app *a);
/* After it. */
void app_router_done(struct app *a);
/* app_mcp.c: links, tools and the MCP registry of the profile. HTTP: the main server, or NULL. */
int app_open_mcp(struct app *a, struct http_server *http, struct err *e) MUST_CHECK;
void app_done(struct app *a);
#define APP_STORE_PATH_MAX (PATH_MAX + 16)
void app_store_path(const struct app *a, char ret[APP_STORE_PATH_MAX]);
/* app_store.c: the address of the PostgreSQL database that SANDBOX_DATABASE names. It may have a password. */
#define APP_DATABASE_MAX 4096u
#define APP_DATABASE_OF_ROUTERS                                                                    \
	"SANDBOX_DATABASE is for the routers of a fleet (SANDBOX_ROLE=router): a server with "     \
	"sandboxes of its own keeps its users in SANDBOX_DB_PATH. Remove it here"
int app_database(const struct settings *s, struct buf *ret, struct err *e) MUST_CHECK;
/* app_moves.c: stored sandboxes that move. SETTING_INVALID: what is missing. The second one also reads the file of SANDBOX_OBJECTS_KEY; both
 * are content without that setting. */
int app_check_moves(const struct settings *s, struct err *e) MUST_CHECK;
int app_check_moves_key(const struct settings *s, struct err *e) MUST_CHECK;
int app_begin_moves(struct app *a, struct err *e) MUST_CHECK;
const struct fleet_moves_config *app_moves(struct app *a); /* NULL: they do not */
void app_moves_done(struct app *a);
/* app_objects.c: a setting of an object store that somebody has set, or NULL. */
const char *app_names_objects(const struct settings *s);
/* Whether these settings are whole, and those of a router. Reads no file. */
int app_check_objects(const struct settings *s, struct err *e) MUST_CHECK;
/* The object store of a router, with its credentials: objects_store_done(). */
int app_objects(const struct settings *s, struct objects_store *ret, struct err *e) MUST_CHECK;
/* app_store.c: opens the database of this state folder. For verbs without an engine too. */
int app_open_store(struct app *a, struct err *e) MUST_CHECK;

/* Longest message that a client may send, in bytes. */
size_t app_max_message(const struct app *a);

/* app_records.c: limits of stored sandboxes, and their records in the store if there is one.
 * INSISTED: the limits that must be enforced (limits.h). */
struct manager_stored app_stored(struct app *a, uint32_t insisted);
/* A worker of a fleet: counts what users have here. Nothing elsewhere. */
int app_count_uses(struct app *a, struct err *e) MUST_CHECK;

/* Can only this machine reach a listener on HOST? */
bool app_is_loopback(const char *host);

/* Reports a failed start: the log event, and one line "ERROR: …" on stderr. Returns the exit status. */
int app_fail(const struct app *a, const struct err *e);
