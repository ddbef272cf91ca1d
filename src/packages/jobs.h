/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: records, which clients ask about, and jobs, which do the work. */
#pragma once

#include "base/list.h"
#include "packages/cache.h"
#include "packages/install_plan.h"
#include "packages/packages.h"
#include "packages/sandbox.h"
#include "packages/spec.h"
#include "packages/url.h"
#include "sandbox/sandbox_work.h"

#define RECORDS_MAX    2000u /* the oldest ended ones are forgotten first */
#define INSTALLERS_MAX 4u    /* installations at the same time */
#define LOOKERS_MAX    16u   /* listings at the same time */
#define HAVE_MAX       500u  /* packages of a sandbox that a resolver is told of */
#define SHORT_RUN_NS   (60 * NS_PER_S)

enum wait_kind {
	WAIT_INSTALL,
	WAIT_AGAIN, /* a second request for the same installation */
	WAIT_CHECK,
};

struct waiter {           /* a caller that waits for an installation to end */
	struct list node; /* of its record */
	struct record *record;
	enum wait_kind kind;
	sd_event_source *timer; /* NULL = waits without a limit */
	packages_status_fn cb;
	packages_progress_fn progress;
	void *user;
};

struct record {           /* one installation, found by sandbox and request text */
	struct list node; /* of struct packages */
	struct packages *packages;
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[SANDBOX_ID_MAX + 1];
	uint64_t sandbox_ns; /* when the sandbox was made: a later sandbox may have the same id */
	char *spec;          /* owned */
	struct job *job;     /* NULL once the installation has ended */
	enum package_word word;
	char *message; /* owned, when ended */
	char *errors;
	char **installed; /* owned, n_installed */
	size_t n_installed;
	uint64_t start_wall_ns, end_wall_ns;
	uint64_t start_ns, end_ns;
	struct list waiters;
};

enum job_kind {
	JOB_INSTALL,
	JOB_UNINSTALL,
	JOB_LIST,    /* a list for a client */
	JOB_CHECK,   /* is a package installed? */
	JOB_LOOK_UP, /* what has the index under a name? */
};

struct job {
	struct list node; /* of struct packages */
	struct packages *packages;
	enum job_kind kind;
	struct sandbox *sandbox; /* reference */
	struct sandbox_hold hold;
	bool orphan; /* its sandbox has ended */
	struct budget_share place;
	struct record *record; /* JOB_INSTALL */
	struct spec *spec;     /* owned; not of JOB_LIST */
	char *text;            /* owned: the request as given */
	bool working;
	bool all; /* JOB_LIST */
	uint64_t start_ns;
	uint64_t cpu_ns;  /* of sandboxes that are freed already */
	struct err cause; /* why it failed; ERR_NONE if a program in its sandbox said why */
	struct packages_sandbox *helper;
	struct packages_sandbox *resolver;
	struct step *step;    /* its thread is at work */
	json_t *have;         /* [[name, version], ...] of the sandbox, checked */
	char key[SHA256_HEX]; /* key of the plan */
	bool remembered;      /* the plan came from memory */
	struct plan plan;
	size_t at;              /* index of the wheel, or of the resolver's file, that is being
				 * copied */
	int giving;             /* the resolver's file that is being copied; -1 = none */
	sd_event_source *timer; /* its deadline */
	/* Starts the job in the next turn of the event loop, or ends an orphan. */
	sd_event_source *start;
	packages_status_fn cb; /* JOB_UNINSTALL, JOB_CHECK */
	packages_list_fn list_cb;
	packages_entry_fn entry_cb; /* JOB_LOOK_UP */
	void *user;
};

struct packages {
	struct packages_config config;
	char *index_url, *extra_index_url, *extra_hosts; /* config's texts, owned */
	struct url index, extra_index;
	struct egress_policy *policy; /* what resolvers may reach: nothing where a folder of
				       * wheels is used */
	struct cache *cache;
	struct plans *plans;
	json_t *entries;     /* of lookup.c: answers of the index by image and name */
	struct list records; /* newest first */
	struct list jobs;    /* oldest first */
	unsigned n_records;
	packages_observer_fn observer; /* may be NULL */
	void *observer_user;
	bool closing;
};

/* ---- install.c: what a job does ---- */

void job_start(struct job *j);
/* Ends a job: reports to all waiters, frees J, starts the jobs that waited for it. INSTALLED:
 * array of strings, or NULL. */
void job_fail(struct job *j, const char *message, const char *errors);
/* Fails with the message of E and the last output of the script in BOX (may be NULL). */
void job_fail_err(struct job *j, const struct err *e, const struct packages_sandbox *sandbox);
void job_fail_memory(struct job *j);
void job_progress(struct job *j, const char *text, unsigned done, unsigned total);
/* All wheels of the plan are open: unpacks them in the sandbox. */
void job_unpack(struct job *j);
/* The error text of a result, or NULL. */
const char *result_error(const json_t *result);

/* resolver.c: finds the plan by asking the index, fetches what is missing, calls job_unpack(). */
void job_resolve(struct job *j);

/* ---- step.c ---- */

/* Work of a job with files of the server. FN does it on a thread, where it may use what is here, and of PACKAGES the cache and
 * wheel_fd. DONE is called on the loop, unless the job was freed meanwhile, and takes what it needs. */
struct step {
	struct job *job; /* NULL: it was freed */
	const struct packages *packages;
	void (*fn)(struct step *s);
	void (*done)(struct job *j, struct step *s);
	struct plan plan; /* owned */
	int fd;           /* owned, or -1 */
	int error;        /* -errno */
	size_t at;
	char path[ENGINE_PATH_MAX];
	char name[SPEC_NAME_MAX + 1];
	char (*versions)[SPEC_NAME_MAX + 1]; /* owned */
	size_t n;
};
/* NULL: no memory. */
struct step *step_new(struct job *j, void (*fn)(struct step *s),
		      void (*done)(struct job *j, struct step *s));
/* The job waits for it, or has failed. Callers do nothing after it: without threads all has happened. */
void step_start(struct step *s);
/* Opens the wheels of the job's plan, as far as they are there. */
void job_open_wheels(struct job *j, void (*done)(struct job *j, struct step *s));
/* Gives them to the job. Returns how many are missing. */
unsigned step_take_wheels(struct step *s);

/* ---- lookup.c ---- */

void job_look_up(struct job *j);
/* The script in the resolver has answered. */
void job_looked_up(struct packages_sandbox *b, const struct err *e, void *user);

/* ---- packages.c ---- */

void packages_pump(struct packages *p);
void job_free(struct job *j);

/* ---- record.c ---- */

struct record *record_find(struct packages *p, const struct sandbox *s, const char *spec);
struct record *record_new(struct packages *p, const struct sandbox *s, const char *spec);
void record_free(struct record *r);
void record_drop_ended(struct packages *p, const struct sandbox *s);
/* Forgets the records of sandboxes that have ended. */
void record_sweep(struct packages *p);
void record_end(struct record *r, enum package_word word, const char *message, const char *errors,
		const json_t *installed);
int record_wait(struct record *r, const struct packages_request *request, enum wait_kind kind,
		struct err *e) MUST_CHECK;
void record_progress(struct record *r, const char *text, unsigned done, unsigned total);
/* Reports a status of something that has no record. */
void status_tell(packages_status_fn cb, void *user, enum package_word word, bool from_check,
		 const char *message, const char *errors);
