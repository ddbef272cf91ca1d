/* SPDX-License-Identifier: Apache-2.0 */
/* Python packages of a sandbox: install, check, cancel, remove, list.
 *
 * A package is installed into /app/.venv of the sandbox. This virtual environment sees the image's
 * packages, is made with the first installation, and its bin folder is on PATH. Three parties work:
 *
 *   resolver   A fresh sandbox of the same image without anybody's data. It can reach only the
 *              configured index, through the egress proxy. pip decides there which wheels are
 *              needed and fetches them. No tenant's code runs in it, so nothing can leak through
 *              it, and its answers may be remembered for everybody.
 *   cache      Wheels by the SHA-256 of their bytes. The front computes it when it stores a wheel
 *              and again when it copies one out. No sandbox can write to the cache, so an entry
 *              can be poisoned only by breaking SHA-256.
 *   installer  A helper of the sandbox itself (same uid, same /app/.venv, no network). It unpacks
 *              the wheels that were copied to it, with the tenant's rights.
 *
 * Source packages are built only if a setting allows it, in the resolver. What such a resolver
 * reports and builds is used for that one installation and never shared.
 *
 * A sandbox has one installation at a time; others wait. All of them end with their sandbox, at once and in every state,
 * as does an installation that is cancelled. Records are kept in memory, by sandbox and
 * request text. There is one event loop and no blocking call. A callback is called exactly once, and
 * never before the call that was given it has returned. Texts passed in are borrowed. */
#pragma once

#include "egress/egress.h"
#include "sandbox/sandbox.h"

#include <stdbool.h>
#include <stdint.h>

struct packages;

#define PACKAGES_SPEC_MAX    4000  /* bytes of one request's text */
#define PACKAGES_NAMES_MAX   64    /* requirements of one request */
#define PACKAGES_MESSAGE_MAX 16384 /* bytes of a status's message */
#define PACKAGES_LIST_MAX    2000  /* packages of one listing */

enum package_word {
	PACKAGE_INSTALLING, /* "installing" */
	PACKAGE_SUCCESS,    /* "success" */
	PACKAGE_FAILED,     /* "failed" */
	PACKAGE_NOT_FOUND,  /* "not_found" */
	PACKAGE_ERROR,      /* "error": the question could not be answered */
};
const char *package_word_name(enum package_word word);

/* One status of the contract; valid during the callback. The members that clients get:
 *   word        success         has_success  besides status and message
 *   INSTALLING  (null)          no           of an install: success: null
 *                                            of a check: start_time, complete, elapsed_seconds
 *   SUCCESS     true            yes          complete, success; end_time if it was installed here
 *   FAILED      false           yes          complete, success, stderr, end_time
 *   NOT_FOUND   false           yes          complete, success
 *   ERROR       false           yes          complete, success */
struct package_status {
	enum package_word word;
	const char *message; /* UTF-8 */
	const char *errors;  /* FAILED: what the installer wrote, UTF-8; else "" */
	bool complete;       /* false while INSTALLING */
	bool has_success;    /* false = null */
	bool success;
	bool from_check;        /* from packages_check(), not from packages_install() */
	uint64_t start_wall_ns; /* since 1970; 0 = no record */
	uint64_t end_wall_ns;   /* since 1970; 0 = not ended, or no record */
	uint64_t elapsed_ns;    /* from the start to the end, or to now */
	const char *const
	    *installed; /* SUCCESS of an install: "name==version" of each new package */
	size_t n_installed;
};

/* Are sandboxes told the address of the index? Whether an address holds a secret cannot be known
 * for sure, so an address that may hold one is kept from them until the operator decides. */
enum packages_tell {
	PACKAGES_TELL_AUTO, /* yes, unless a part of its path may be a token:
			     * url_may_hold_token() */
	PACKAGES_TELL_ON,   /* yes: the operator says that it holds no secret */
	PACKAGES_TELL_OFF,
};

struct packages_config {
	struct budgets *budgets; /* borrowed; NULL: the queue is not bound */
	sd_event *loop;          /* borrowed */
	struct manager *manager; /* borrowed */
	struct egress *egress;   /* borrowed; the policy `packages` of the resolver */
	int cache_fd;            /* folder of the cache, for writing; taken; -1 = no cache */
	uint64_t cache_bytes;    /* size limit: the least recently used wheels are deleted */
	uint64_t plan_ttl_ns;    /* how long the answer of an index is remembered; 0 = not at all */
	const char *index_url;   /* http(s) address of a simple index; "" with wheel_fd */
	const char *extra_index_url; /* a second index of the operator; "" or NULL: none */
	const char *extra_hosts; /* further HOST[:PORT] that the index's pages link to, separated
			        * by blanks */
	bool index_is_trusted;   /* the operator set it: its host may have a private address */
	bool index_has_own_ca;   /* the operator set the certificates that it is checked against */
	enum packages_tell tell; /* are sandboxes told the address? */
	int wheel_fd;            /* folder of wheels used instead of an index; taken; -1 = none */
	int ca_fd;               /* certificates for the index, PEM; taken; -1 = the image's own */
	bool allow_sources;      /* build packages that have no wheel */
	uint64_t timeout_ns;     /* of one installation, including the time in the queue */
	uint64_t max_bytes;      /* total size of the wheels of one installation */
	/* Called for each package that was installed, or removed (VERSION NULL); may be NULL. */
	void (*changed)(const struct sandbox *s, const char *name, const char *version, void *user);
	void *user;
};

/* What resolvers may reach: the index of CONFIG and its further hosts. NULL with E set;
 * otherwise the caller owns the reference. */
struct egress_policy *packages_policy(const struct packages_config *config, struct err *e);

#define PACKAGES_INSIDE_LINES 3
/* The index of CONFIG for programs inside sandboxes. HOST is "" if they cannot use it: there is
 * no index (a folder of wheels is used), its address holds credentials (a user part, a query or,
 * depending on TELL, a part of the path), or it needs certificates that images do not have. */
struct packages_inside {
	char host[EGRESS_HOST_MAX + 1];
	uint16_t port;
	const char
	    *env[PACKAGES_INSIDE_LINES + 1]; /* NAME=VALUE, into LINES; NULL after the last */
	char lines[PACKAGES_INSIDE_LINES][2100];
};
/* RET must not be moved: `env` points into it. */
void packages_inside(const struct packages_config *config, struct packages_inside *ret);

/* Refuses settings that would show a secret to sandboxes (SETTING_INVALID). The code of packages
 * that are built runs where the index's address is known, and its output goes to the caller. */
int packages_check_secrets(const struct packages_config *config, struct err *e) MUST_CHECK;

int packages_new(const struct packages_config *config, struct packages **ret,
		 struct err *e) MUST_CHECK;
/* Call it before the manager is freed. Installations in progress end as cancelled. Accepts NULL. */
struct packages *packages_free(struct packages *p);

/* Checks a request: one or more requirements (PEP 508 names, extras and version specifiers; an
 * environment marker after ';' only with one requirement a line). Blanks or line ends separate
 * them, commas outside of brackets belong to a specifier, '#' begins a comment. Options, paths
 * and addresses are refused. This is the only place that looks at the text. */
int packages_check_spec(const char *spec, size_t len, struct err *e) MUST_CHECK;

typedef void (*packages_status_fn)(const struct package_status *status, void *user);
typedef void (*packages_progress_fn)(const char *text, unsigned done, unsigned total, void *user);

/* Sees the installations of all sandboxes: how each begins, what it does, and how it ends. TEXT: what is done now, or
 * the message of the end, "" at the beginning. TOTAL is 0 while it is not known. It must not start or end anything. */
typedef void (*packages_observer_fn)(void *user, const char *owner, const char *sandbox,
				     const char *spec, enum package_word word, const char *text,
				     unsigned done, unsigned total);
void packages_set_observer(struct packages *p, packages_observer_fn fn, void *user);

struct packages_request {
	const char *spec;
	/* CB is called when the installation has ended. If it has not ended after WAIT_NS, CB is
	 * called with INSTALLING and the installation goes on. UINT64_MAX: wait for the end. */
	uint64_t wait_ns;
	packages_status_fn cb;
	packages_progress_fn progress; /* until CB is called; may be NULL */
	void *user;
};

/* Starts an installation. If the same text is being installed in this sandbox, the answer is
 * INSTALLING at once. INVALID_ARGUMENT: packages_check_spec() refuses it. QUOTA_EXCEEDED: too
 * many jobs wait. Everything else is reported as a status. */
int packages_install(struct packages *p, struct sandbox *s, const struct packages_request *request,
		     struct err *e) MUST_CHECK;
/* How far an installation is. Waits like packages_install() if it is in progress. Without a
 * record, looks in the sandbox for the package. */
int packages_check(struct packages *p, struct sandbox *s, const struct packages_request *request,
		   struct err *e) MUST_CHECK;
/* Cancels an installation; its record then says failed, "cancelled". NOT_FOUND: none is in
 * progress. */
int packages_cancel(struct packages *p, struct sandbox *s, const char *spec,
		    struct err *e) MUST_CHECK;

/* Removes packages that packages_install() has installed, by plain names separated by blanks.
 * Packages of the image cannot be removed: FAILED, with a message that says so. */
int packages_uninstall(struct packages *p, struct sandbox *s,
		       const struct packages_request *request, struct err *e) MUST_CHECK;

struct package_row { /* not trusted: the sandbox reports it; printable ASCII */
	const char *name;
	const char *version;
	bool from_image; /* part of the image, not installed into the sandbox */
};
#define PACKAGES_VERSIONS_MAX 30

/* What the index has under a name. Not trusted: the index reports it. Texts are UTF-8. */
struct package_entry {
	const char *name;    /* as the index writes it */
	const char *version; /* what an installation would take now; "" = nothing fits, see WHY */
	const char *summary; /* of that version; "" = the index does not say */
	const char *why;
	uint64_t bytes;              /* of that version's wheel; 0 = unknown */
	const char *const *versions; /* newest first, at most PACKAGES_VERSIONS_MAX of TOTAL */
	size_t n_versions;
	uint64_t total;
};
/* E: NOT_FOUND, the index has nothing under that name; EXECUTION_FAILED, it cannot be asked. */
typedef void (*packages_entry_fn)(const struct package_entry *entry, const struct err *e,
				  void *user);
/* Looks NAME up for the Python of the sandbox's image, in a resolver like that of an installation, so it
 * counts as one. The answer is remembered as long as a plan. Where a folder of wheels is used, it tells what
 * that holds, whether it fits or not. Only the name itself is looked up: a guess at similar names would
 * show those that somebody has registered to be mistaken for others. INVALID_ARGUMENT: no plain name. */
int packages_look_up(struct packages *p, struct sandbox *s, const char *name, packages_entry_fn cb,
		     void *user, struct err *e) MUST_CHECK;

typedef void (*packages_list_fn)(const struct package_row *rows, size_t n, const struct err *e,
				 void *user);
/* Lists the packages that were installed into the sandbox, sorted by name; with ALL also those
 * of the image. Works during a run, too. */
int packages_list(struct packages *p, struct sandbox *s, bool all, packages_list_fn cb, void *user,
		  struct err *e) MUST_CHECK;
