/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out what this host can enforce. It tries each mechanism in a child process, with the same
 * code that the monitor uses, and leaves nothing behind. It takes 10-20 ms and is not needed before
 * the first answer to a client. The manager uses `enforced` and `best_effort`; the other fields are
 * for people (doctor) and for the effective policy. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROBE_RANGE_FULL 65536u

enum probe_try {
#define P(name, needed, what) PROBE_##name,
#include "engine/maker/native/probe.tbl.h"
#undef P
	PROBE_TRY_MAX_,
};

enum probe_uids {
	PROBE_UIDS_RANGE,  /* root: a range of uids that no user has */
	PROBE_UIDS_SUBUID, /* plain user: the range in /etc/subuid, through newuidmap */
	PROBE_UIDS_SINGLE, /* plain user: on the host, every sandbox has this user's own uid */
};

#define PROBE_TEXT_MAX  256
#define PROBE_NOT_THERE (-1) /* this kernel does not have the sysctl */

struct host_probe {
	/* process and kernel */
	uid_t uid;
	char release[65]; /* uname(2) */
	char machine[65];
	uint32_t kernel; /* major * 1000 + minor */

	/* namespaces and mounts: 0 = works, errno, or -1 = not tried because an earlier one failed */
	int tried[PROBE_TRY_MAX_];
	enum probe_uids uids;
	uint32_t
	    n_uids; /* size of the range; less than PROBE_RANGE_FULL: all that a container has */
	bool subuid_entry;       /* /etc/subuid has a range for this user, usable or not */
	bool newuidmap;          /* newuidmap and newgidmap are installed */
	int max_user_namespaces; /* sysctls; PROBE_NOT_THERE */
	int unprivileged_userns_clone;
	int apparmor_restrict_userns;

	/* limits: bits of enum engine_cap, as the monitor would report them */
	uint32_t enforced;
	uint32_t best_effort;
	char cgroup[8]; /* "v1", "v2", "none" */
	bool swap;      /* swap is limited too */

	/* filters */
	bool seccomp;        /* a filter can be loaded, and can kill the process */
	int landlock;        /* version of the ABI, 0 = none */
	bool front_filter;   /* the front can load its own filter; it does not start without it */
	bool front_landlock; /* the front can restrict which files it can open */
	bool openat2;
	bool pidfd;
	bool close_range;

	/* disk */
	bool loop; /* loop devices: persistent workspaces as images */

	/* other attack surface of the host: sysctls, or PROBE_NOT_THERE */
	int unprivileged_bpf_disabled;
	int io_uring_disabled;
	int perf_event_paranoid;
	int kexec_load_disabled;
	int modules_disabled;
	char core_pattern[128];
	char vulnerable[PROBE_TEXT_MAX]; /* CPU bugs without mitigation, comma-separated; "" = none
					  */
	char af_modules[PROBE_TEXT_MAX]; /* risky protocol modules that this kernel can load */
	int ksm; /* /sys/kernel/mm/ksm/run: 1 = equal pages of processes are merged */
};

/* Always fills RET. A mechanism that could not be tried counts as missing. */
void host_probe_run(struct host_probe *ret);

/* Whether FOLDER, or an image beneath it, can be mounted with other owners below an overlay, as sandboxes with a root user need
 * (idmapped mounts, mount_setattr(2)). Tried in a child, as root of the host. 0 or -errno. */
int probe_mapped_mount(const char *folder);

const char *probe_try_text(enum probe_try t);
bool probe_try_needed(enum probe_try t);
/* Whether sandboxes can be made at all. */
bool host_probe_usable(const struct host_probe *p);
/* The setting of this host that forbids the caller user namespaces, and the remedy; NULL: none that is known.
 * CERTAIN: leaves out what AppArmor may permit all the same. */
const char *host_userns_refusal(bool certain);

/* ---- parts (probe_ns.c), for tests ---- */
void probe_namespaces(struct host_probe *p);
