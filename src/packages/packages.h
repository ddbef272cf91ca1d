/* SPDX-License-Identifier: Apache-2.0 */
/* Packages: installing into a sandbox, asking how far that is, cancelling, removing, listing.
 *
 * A package goes into /app/.venv of the sandbox: a virtual environment that sees the image's
 * packages, made with the first installation, its bin on PATH. Who does what:
 *
 *   resolver   a fresh sandbox of the same image without anybody's data. Its only way out is the
 *              egress proxy to the configured index. pip decides there which wheels are needed and
 *              fetches them. Nothing of a tenant runs in it, so nobody can leak through it, and
 *              what it says about the index may be remembered for everybody.
 *   cache      wheels by the SHA-256 of their bytes, computed by the front while it stores them
 *              and again while it copies them out. No sandbox can write there; to poison an entry
 *              is to break SHA-256.
 *   installer  a helper of the sandbox itself (same uid, same /app/.venv, no network): unpacks the
 *              wheels that were copied to it. Whatever runs there runs with the tenant's rights.
 *
 * Sources are built by setting only, in the resolver; what such a resolver says and makes is used
 * for that one installation and never shared.
 *
 * One installation works in a sandbox at a time, others of the same sandbox wait for it. Records
 * are kept in memory, by (sandbox, text as given). One event loop, no blocking call; a callback is
 * called exactly once and never before the call has returned. Texts passed in are borrowed. */
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

/* One status object of the contract; valid during the callback.
 *   word       success         has_success  members besides status and message
 *   INSTALLING (null)          no           of an install: success: null
 *                                           of a check: start_time, complete, elapsed_seconds
 *   SUCCESS    true            yes          complete, success; end_time when it was installed here
 *   FAILED     false           yes          complete, success, stderr, end_time
 *   NOT_FOUND  false           yes          complete, success
 *   ERROR      false           yes          complete, success */
struct package_status {
	enum package_word word;
	const char *message; /* UTF-8 */
	const char *errors;  /* FAILED: what the installer wrote, UTF-8; else "" */
	bool complete;       /* false while INSTALLING */
	bool has_success;    /* false = null */
	bool success;
	bool from_check;        /* the answer of packages_check(), not of packages_install() */
	uint64_t start_wall_ns; /* since 1970; 0 = no record */
	uint64_t end_wall_ns;   /* since 1970; 0 = not ended, or no record */
	uint64_t elapsed_ns;    /* from the start to the end, or to now */
	const char *const
	    *installed; /* SUCCESS here: "name==version" of what was new, n_installed */
	size_t n_installed;
};

/* Whether an address is a secret cannot be known: what may be one is kept, until somebody says. */
enum packages_tell {
	PACKAGES_TELL_AUTO, /* unless a part of its path may be a token: url_may_hold_token() */
	PACKAGES_TELL_ON,   /* somebody says that it holds none */
	PACKAGES_TELL_OFF,
};

struct packages_config {
	sd_event *loop;          /* borrowed */
	struct manager *manager; /* borrowed */
	struct egress *egress;   /* borrowed; the policy `packages` of the resolver */
	int cache_fd;            /* folder of the cache, for writing; taken; -1 = no cache */
	uint64_t cache_bytes;    /* the least recently used wheels go when it is full */
	uint64_t plan_ttl_ns;    /* how long the answer of an index is remembered; 0 = not at all */
	const char *index_url;   /* http(s) address of a simple index; "" with wheel_fd */
	const char
	    *extra_hosts;      /* further HOST[:PORT] that its pages may lead to, blank separated */
	bool index_is_trusted; /* the operator named it: its host may be a private address */
	bool index_has_own_ca; /* somebody named the certificates that it is checked against */
	enum packages_tell tell; /* its address to sandboxes */
	int wheel_fd;            /* folder of wheels used instead of an index; taken; -1 = none */
	int ca_fd;               /* certificates for the index, PEM; taken; -1 = the image's own */
	bool allow_sources;      /* build what has no wheel */
	uint64_t timeout_ns;     /* of one installation, waiting for others included */
	uint64_t max_bytes;      /* wheels of one installation */
	/* What was put into a sandbox, or taken out of it (VERSION NULL); may be NULL. */
	void (*changed)(const struct sandbox *s, const char *name, const char *version, void *user);
	void *user;
};

/* What resolvers may reach: the index of CONFIG and what goes with it. NULL with E set; the
 * caller's reference. */
struct egress_policy *packages_policy(const struct packages_config *config, struct err *e);

#define PACKAGES_INSIDE_LINES 3
/* The index of CONFIG as programs in sandboxes may use it by themselves. HOST is "" where they
 * cannot: there is none (a folder of wheels), its address has credentials in it (a user part, a
 * query, by TELL a part of the path), which no sandbox may see, or it is checked against
 * certificates that images do not have.
 */
struct packages_inside {
	char host[EGRESS_HOST_MAX + 1];
	uint16_t port;
	const char
	    *env[PACKAGES_INSIDE_LINES + 1]; /* NAME=VALUE, into LINES; NULL after the last */
	char lines[PACKAGES_INSIDE_LINES][2100];
};
/* RET must stay where it is. */
void packages_inside(const struct packages_config *config, struct packages_inside *ret);

/* What cannot be kept from sandboxes is refused (SETTING_INVALID): code of packages that are built
 * runs where the address of the index is known, and what it builds is given to who asked for it. */
int packages_check_secrets(const struct packages_config *config, struct err *e) MUST_CHECK;

int packages_new(const struct packages_config *config, struct packages **ret,
		 struct err *e) MUST_CHECK;
/* Before the manager goes. Installations still at work end as cancelled. NULL is fine. */
struct packages *packages_free(struct packages *p);

/* Is SPEC something that may be installed? One or more requirements (PEP 508 names, extras and
 * version specifiers; environment markers after ';' only with one requirement a line), separated
 * by blanks, commas outside of brackets being part of a specifier, or by line ends ('#' begins a
 * comment). Never an option, a path or an address. Nothing else looks at the text. */
int packages_check_spec(const char *spec, size_t len, struct err *e) MUST_CHECK;

typedef void (*packages_status_fn)(const struct package_status *status, void *user);
typedef void (*packages_progress_fn)(const char *text, unsigned done, unsigned total, void *user);

struct packages_request {
	const char *spec;
	/* CB is called when the installation has ended, or after WAIT_NS with INSTALLING; it then
	 * goes on. UINT64_MAX = wait for the end. */
	uint64_t wait_ns;
	packages_status_fn cb;
	packages_progress_fn progress; /* until CB is called; may be NULL */
	void *user;
};

/* Starts an installation. While one with the same text is at work in this sandbox the answer is
 * INSTALLING at once. INVALID_ARGUMENT: packages_check_spec() says no. QUOTA_EXCEEDED: too many
 * wait. Everything else comes as a status. */
int packages_install(struct packages *p, struct sandbox *s, const struct packages_request *request,
		     struct err *e) MUST_CHECK;
/* How far it is: waits like an installation while it is at work; without a record the sandbox is
 * asked whether the package is there. */
int packages_check(struct packages *p, struct sandbox *s, const struct packages_request *request,
		   struct err *e) MUST_CHECK;
/* Ends an installation; its record then says failed, "cancelled". NOT_FOUND: none at work. */
int packages_cancel(struct packages *p, struct sandbox *s, const char *spec,
		    struct err *e) MUST_CHECK;

/* Removes what packages_install() has put into the sandbox, by plain names separated by blanks.
 * Packages of the image stay: FAILED, with a message that says so. */
int packages_uninstall(struct packages *p, struct sandbox *s,
		       const struct packages_request *request, struct err *e) MUST_CHECK;

struct package_row { /* hostile: what the sandbox says; printable ASCII */
	const char *name;
	const char *version;
	bool from_image; /* part of the image, not installed into the sandbox */
};
typedef void (*packages_list_fn)(const struct package_row *rows, size_t n, const struct err *e,
				 void *user);
/* What was installed into the sandbox, sorted by name; with ALL also what its image has. Looks
 * while a run is going on, too. */
int packages_list(struct packages *p, struct sandbox *s, bool all, packages_list_fn cb, void *user,
		  struct err *e) MUST_CHECK;
