/* SPDX-License-Identifier: Apache-2.0 */
/* What this host can enforce, found out by trying it: in a child that ends, with the same code that
 * the monitor uses. Nothing stays behind. Takes 10-20 ms; nothing here is needed before the first
 * answer to a client. The manager's question (which limits hold) is `enforced` and `best_effort`;
 * the rest is for people (doctor) and for the effective policy. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum probe_try {
#define P(name, needed, what) PROBE_##name,
#include "engine/native/probe.tbl.h"
#undef P
	PROBE_TRY_MAX_,
};

enum probe_uids {
	PROBE_UIDS_RANGE,  /* root: a range of our own */
	PROBE_UIDS_SUBUID, /* plain user: /etc/subuid through newuidmap */
	PROBE_UIDS_SINGLE, /* plain user: every sandbox is the own uid on the host */
};

#define PROBE_TEXT_MAX  256
#define PROBE_NOT_THERE (-1) /* of a sysctl */

struct host_probe {
	/* who and where */
	uid_t uid;
	char release[65]; /* uname */
	char machine[65];
	uint32_t kernel; /* major * 1000 + minor */

	/* namespaces: 0 = works, else errno; -1 = not reached because something before it failed */
	int tried[PROBE_TRY_MAX_];
	enum probe_uids uids;
	uint32_t n_uids;   /* of the range */
	bool subuid_entry; /* /etc/subuid has one for this user, even when it cannot be used */
	bool newuidmap;    /* the helper is installed */
	int max_user_namespaces; /* sysctls; PROBE_NOT_THERE */
	int unprivileged_userns_clone;
	int apparmor_restrict_userns;

	/* limits: enum engine_cap bits, as the monitor would say them */
	uint32_t enforced;
	uint32_t best_effort;
	char cgroup[8];         /* "v1", "v2", "none" */
	bool swap;              /* swap is limited too */
	bool cgroup2_delegated; /* plain user: some group of ours may be written */

	/* filters */
	bool seccomp;        /* a filter can be loaded, and can kill the process */
	int landlock;        /* level, 0 = none */
	bool front_filter;   /* the server can tie itself with its own filter; it refuses to start
				without */
	bool front_landlock; /* and with rules for its files */
	bool openat2;
	bool pidfd;
	bool close_range;

	/* disk */
	bool loop; /* loop devices: persistent workspaces as images */

	/* the host's other doors; sysctls, PROBE_NOT_THERE */
	int unprivileged_bpf_disabled;
	int io_uring_disabled;
	int perf_event_paranoid;
	int kexec_load_disabled;
	int modules_disabled;
	char core_pattern[128];
	char vulnerable[PROBE_TEXT_MAX]; /* CPU bugs without mitigation, comma-separated; "" = none
					  */
	char af_modules[PROBE_TEXT_MAX]; /* risky protocol modules that are loaded or could be */
	int ksm;                         /* pages are merged between processes */
};

/* Never fails as a whole: what cannot be found out is as bad as what is not there. */
void host_probe_run(struct host_probe *ret);

const char *probe_try_text(enum probe_try t);
bool probe_try_needed(enum probe_try t);
/* Whether sandboxes can be made at all. */
bool host_probe_usable(const struct host_probe *p);

/* ---- parts (probe_ns.c), for tests ---- */
void probe_namespaces(struct host_probe *p);
