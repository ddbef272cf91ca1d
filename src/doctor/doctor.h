/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `caisson doctor`, for the verb in src/cmd/doctor.c. */
#pragma once

#include "base/err.h"
#include "config/settings.h"
#include "engine/maker/docker/docker.h"
#include "engine/maker/native/probe.h"

#include <limits.h>
#include <stddef.h>

enum doctor_state {
	DOCTOR_OK,
	DOCTOR_NOTE,    /* worth knowing about this host; no wall of a sandbox depends on it */
	DOCTOR_WEAKER,  /* works, with less than the full strength */
	DOCTOR_MISSING, /* no sandbox can be made */
	DOCTOR_STATE_MAX_,
};

struct doctor_facts {               /* borrowed by every row */
	struct host_probe probe;    /* of the native engine */
	bool probed;                /* the engine of the settings has answered */
	struct engine_probe engine; /* its answer, with nothing to follow */
	struct docker_about daemon; /* engine docker */
	struct err engine_error;    /* why it is not usable */
	const char *name;           /* of that engine: "native", "docker" */
	char why[ENGINE_WHY_MAX];   /* why it was chosen; "" = the settings name it */
	const struct settings *settings;
	char state_dir[PATH_MAX]; /* "" = not known */
	char image[208];          /* name of the image that sandboxes get */
};

struct doctor_row {
	enum doctor_state state;
	char value[512]; /* "" = the row has nothing to say, and is not shown */
	char mend[768];  /* what to do about it; "" = nothing to do */
};

enum doctor_for { DOCTOR_FOR_ANY, DOCTOR_FOR_NATIVE, DOCTOR_FOR_DOCKER };

struct doctor_check {
	const char *id;
	const char *what;
	enum doctor_for engine; /* the row is about sandboxes of this engine */
	void (*look)(const struct doctor_facts *f, struct doctor_row *r);
};

extern const struct doctor_check doctor_checks[];
extern const size_t doctor_n_checks;

/* Whether check C is about the engine that F found. */
bool doctor_concerns(const struct doctor_facts *f, const struct doctor_check *c);

/* ---- doctor_docker.c ---- */
void row_engine(const struct doctor_facts *f, struct doctor_row *r);
void row_daemon(const struct doctor_facts *f, struct doctor_row *r);
void row_daemon_limits(const struct doctor_facts *f, struct doctor_row *r);
void row_daemon_users(const struct doctor_facts *f, struct doctor_row *r);
void row_levels(const struct doctor_facts *f, struct doctor_row *r);

/* ---- doctor_fleet.c ---- */
void row_fleet(const struct doctor_facts *f, struct doctor_row *r);
void row_database(const struct doctor_facts *f, struct doctor_row *r);
void row_objects(const struct doctor_facts *f, struct doctor_row *r);

/* ---- doctor_bugs.c ---- */
struct kernel_version;
void row_known_bugs(const struct doctor_facts *f, struct doctor_row *r);
/* Fills in the row for the kernel V on MACHINE (as uname -m says). RELEASE is its name for a person. */
void doctor_bugs_say(const struct kernel_version *v, const char *release, const char *machine,
		     struct doctor_row *r);

/* ---- doctor_container.c ---- */
struct container_facts {
	const struct host_probe *probe;
	uint64_t caps;         /* of this process, effective */
	bool filtered;         /* a system call filter was in force before the program started */
	bool cgroup_read_only; /* a tree of control groups is mounted read-only */
	char apparmor[64];     /* the profile that confines this process; "" = none */
};
void row_container(const struct doctor_facts *f, struct doctor_row *r);
/* For a start in which nothing has failed yet: the same line if this process could not make any session, even though the
 * engine could be opened. It tries that only where something was taken from the process. */
void doctor_container_refusal(char *ret, size_t size);
/* For a start that failed for lack of rights: RET is one line about the flags without which a container has no sandboxes,
 * or "" if none is missing. */
void doctor_container_flags(char *ret, size_t size);
/* Fills in the row: what a container with other flags would have. Nothing is missing: "". */
void doctor_container_say(const struct container_facts *c, struct doctor_row *r);
/* Whether the text of mountinfo(5) has a tree of control groups that is mounted read-only. */
bool doctor_cgroup_read_only(const char *mountinfo);
/* Why the control groups hold no limit here: none mounted, read-only, or not delegated; and the remedy. */
const char *doctor_cgroup_fault(bool root);
