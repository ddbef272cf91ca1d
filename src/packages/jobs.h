/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of this folder alone: records, which clients ask about, and jobs, which work.
 */
#pragma once

#include "base/list.h"
#include "packages/box.h"
#include "packages/cache.h"
#include "packages/install_plan.h"
#include "packages/packages.h"
#include "packages/spec.h"
#include "packages/url.h"

#define RECORDS_MAX  2000u /* ended ones go, the oldest first */
#define JOBS_MAX     1000u /* waiting and working */
#define WORKERS_MAX  4u    /* installations at the same time */
#define LOOKERS_MAX  16u   /* listings at the same time */
#define HAVE_MAX     500u  /* packages of a sandbox that a resolver is told of */
#define RESULT_MAX   (4u << 20)
#define SHORT_RUN_NS (60 * NS_PER_S)

enum wait_kind {
	WAIT_INSTALL,
	WAIT_AGAIN, /* asked for what is at work already */
	WAIT_CHECK,
};

struct waiter {           /* who waits for the end of an installation */
	struct list node; /* of its record */
	struct record *record;
	enum wait_kind kind;
	sd_event_source *timer; /* NULL = until the end */
	packages_status_fn cb;
	packages_progress_fn progress;
	void *user;
};

struct record {           /* one installation, by sandbox and text */
	struct list node; /* of struct packages */
	struct packages *packages;
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[SANDBOX_ID_MAX + 1];
	uint64_t sandbox_ns; /* when that sandbox was made: an id may be used again */
	char *spec;          /* owned */
	struct job *job;     /* while it waits or works */
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
	JOB_LIST,  /* a list for a client */
	JOB_CHECK, /* is it there? */
};

struct job {
	struct list node; /* of struct packages */
	struct packages *packages;
	enum job_kind kind;
	struct sandbox *sandbox; /* reference */
	struct record *record;   /* JOB_INSTALL */
	struct spec *spec;       /* owned; not of JOB_LIST */
	char *text;              /* owned: the request as given */
	bool working;
	bool all; /* JOB_LIST */
	struct box *helper;
	struct box *resolver;
	json_t *have;         /* [[name, version], ...] of the sandbox, checked */
	char key[SHA256_HEX]; /* of the plan */
	bool remembered;      /* the plan came from memory */
	struct plan plan;
	size_t at;              /* the wheel, or the file for the resolver, at work */
	int giving;             /* that file; -1 = none */
	sd_event_source *timer; /* its deadline */
	sd_event_source *start; /* it begins with the next turn of the loop */
	packages_status_fn cb;  /* JOB_UNINSTALL, JOB_CHECK */
	packages_list_fn list_cb;
	void *user;
};

struct packages {
	struct packages_config config;
	char *index_url, *extra_hosts; /* config's texts, owned */
	struct url index;
	struct egress_policy *policy; /* of resolvers; of nothing with a folder of wheels */
	struct cache *cache;
	struct plans *plans;
	struct list records; /* newest first */
	struct list jobs;    /* in the order of their arrival */
	unsigned n_records, n_jobs;
	bool closing;
};

/* ---- install.c: what a job does ---- */

void job_start(struct job *j);
/* It ends now: tells whoever waits, frees J, starts what waited for it. INSTALLED: array of
 * strings, or NULL. */
void job_fail(struct job *j, const char *message, const char *errors);
/* The message of E, with the end of what the script in BOX (may be NULL) wrote. */
void job_fail_err(struct job *j, const struct err *e, const struct box *box);
void job_progress(struct job *j, const char *text, unsigned done, unsigned total);
/* All wheels of the plan have their descriptors: unpack them in the sandbox. */
void job_unpack(struct job *j);
/* The error text of a result, or NULL. */
const char *result_error(const json_t *result);

/* resolver.c: finds the plan by asking the index, fetches what is missing, calls job_unpack(). */
void job_resolve(struct job *j);

/* ---- packages.c ---- */

void packages_pump(struct packages *p);
void job_free(struct job *j);

/* ---- record.c ---- */

struct record *record_find(struct packages *p, const struct sandbox *s, const char *spec);
struct record *record_new(struct packages *p, const struct sandbox *s, const char *spec);
void record_free(struct record *r);
void record_drop_ended(struct packages *p, const struct sandbox *s);
/* Forgets what was said of sandboxes that are no more. */
void record_sweep(struct packages *p);
void record_end(struct record *r, enum package_word word, const char *message, const char *errors,
		const json_t *installed);
int record_wait(struct record *r, const struct packages_request *request, enum wait_kind kind,
		struct err *e) MUST_CHECK;
void record_progress(struct record *r, const char *text, unsigned done, unsigned total);
/* A status without a record. */
void status_tell(packages_status_fn cb, void *user, enum package_word word, bool from_check,
		 const char *message, const char *errors);
