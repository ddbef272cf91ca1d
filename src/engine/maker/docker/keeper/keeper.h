/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper: the one process that talks to the container daemon.
 *
 * It trusts nobody but the daemon. The front sends it the fixed messages MON_... (requests.c checks
 * every field). From those it makes the few calls of the API that it knows, with bodies of its own
 * (container.c); no text of a client gets into a call but the checked name of an image. Answers are
 * bounded, and read as JSON only here.
 *
 * A sandbox is one sandbox: a container, its volumes, and a folder of the host with the socket to which
 * init connects (sandbox.c has the states). What the daemon does not remove is kept on a list and removed
 * later (leftovers.c). An earlier keeper that died has left a lock file that
 * nobody holds; the containers with its label are removed at the next start (orphans.c). */
#pragma once

#include "base/list.h"
#include "engine/maker/common/remover.h"
#include "engine/maker/docker/docker.h"
#include "engine/maker/docker/keeper/about.h"
#include "engine/maker/docker/keeper/daemon.h"
#include "engine/protocol/proto.h"

#include <limits.h>

#define KEEPER_FD      3
#define KEEPER_UID     1000u      /* uid and gid of everything in a container */
#define KEEPER_ID_MAX  17         /* 16 hex digits and NUL */
#define KEEPER_NAME    64         /* bytes of the name of a container or volume */
#define KEEPER_PREFIX  "caisson-" /* ... and its begin; then STATE-INSTANCE-NUMBER */
#define PIDS_SPARE     8          /* init and the interpreters that wait */
#define IMAGE_VOLUMES  16         /* folders that an image may declare as volumes */
#define VOLUME_PATH    128        /* bytes of such a path */
#define LABEL_STATE    "org.caisson.state"
#define LABEL_INSTANCE "org.caisson.instance"
#define PROFILE_FILE   "seccomp.json" /* below FOLDER/parts */
#define CALL_S         60u            /* seconds that a call may take */

enum docker_sandbox_state {
	SANDBOX_FREE,
	SANDBOX_WAITING, /* for the stored workspace, which a container that is being removed still has */
	SANDBOX_LOOKING,  /* at the image */
	SANDBOX_MAKING,   /* the container is being created */
	SANDBOX_STARTING, /* ... started */
	SANDBOX_AWAITED,  /* it runs; init has not connected yet */
	SANDBOX_UP,       /* init has its configuration, the front the channel */
	SANDBOX_REMOVING, /* the container is being removed */
	SANDBOX_EMPTYING, /* its volumes are */
};

struct image_volumes {
	unsigned n;
	char path[IMAGE_VOLUMES][VOLUME_PATH];
};

struct docker_sandbox {
	enum docker_sandbox_state state;
	uint32_t slot;
	struct keeper *keeper;
	struct proto_mon_create c;
	char name[KEEPER_NAME]; /* of the container; its volumes are NAME-data, NAME-venv */
	char id[72];            /* the daemon's id of the container */
	char image_id[80];      /* "sha256:…" */
	struct image_volumes volumes;
	unsigned volumes_made; /* Podman: those of the sandbox that are there */
	bool started;          /* the daemon has said so */
	bool ended;            /* the front has asked for its end */
	bool told;             /* the front has had MON_CREATED */
	bool stored;           /* its workspace is a folder of the host */
	bool late;             /* a call had no answer: the daemon may still make a part of it */
	bool uncounted;        /* no control group of this machine holds its limits */
	int lock;              /* of the stored workspace; -1 */
	int listener;          /* where init connects; -1 */
	int channel;           /* init's, until the front has it; -1 */
	uint64_t until;        /* AWAITED: then it counts as failed */
	/* counters of the container's control groups; -1 = cannot be read */
	int memory, memory_stat, cpu, pids;
	uint64_t cpu_ns;    /* the last figure */
	unsigned empty;     /* EMPTYING: volumes that are still being removed */
	uint32_t number;    /* no other sandbox of this keeper has it, unlike the slot; 0 = free */
	uint32_t helper_of; /* slot + 1 of the sandbox that it helps; 0 = none */
	uint32_t helps;     /* the number of that one */
};

struct keeper {
	const struct keeper_config *config;
	struct daemon *daemon;
	struct docker_about about;
	char folder[PATH_MAX - 128];  /* STATE_DIR/docker */
	char state_id[KEEPER_ID_MAX]; /* of the state folder, for ever */
	char instance[KEEPER_ID_MAX]; /* of this process */
	int lock;                     /* FOLDER/INSTANCE.lock */
	int channel;                  /* to the front */
	int front;                    /* parent_watch() */
	int liveness_read, liveness_write;
	int filter;    /* sealed memfd: the filter of runs */
	char *profile; /* JSON: the filter of containers */
	struct docker_sandbox *sandboxes;
	uint32_t serial;
	unsigned orphans;       /* containers or volumes that are being removed */
	bool orphans_left;      /* the daemon has refused a list or a removal in this round */
	unsigned orphan_rounds; /* that ended so */
	uint64_t orphans_at;    /* the next round; 0 = there is none */
	bool orphans_more;      /* there are more containers than the list of this round had */
	bool orphans_late;      /* the daemon may still make what a killed keeper has asked for */
	struct list changes;    /* of limits, which the daemon has not answered yet (limits.c) */
	uint32_t n_changes;
	unsigned n_leftovers;
	struct leftover *leftovers;
	struct remover remover; /* of stored workspaces */
	char stored[PATH_MAX];  /* its folder */
	bool closing;
};

/* keeper.c */
void keeper_send(struct keeper *k, const struct proto_head *frame, int *fds, size_t n);

/* requests.c: all messages that are there; < 0 = the front has ended, or has sent a wrong one. */
int keeper_take(struct keeper *k) MUST_CHECK;

/* sandbox.c */
void docker_sandbox_create(struct keeper *k, const struct proto_mon_create *c);
void docker_sandbox_destroy(struct keeper *k, uint32_t slot);
void docker_sandbox_usage(struct keeper *k, uint32_t slot);
/* The sandbox that B helps; NULL: B is no helper, or that one has ended or is ending. */
const struct docker_sandbox *docker_sandbox_helped(const struct docker_sandbox *b) MUST_CHECK;
/* limits.c */
void docker_sandbox_limit(struct keeper *k, const struct proto_mon_limit *l);
void limits_close(struct keeper *k); /* no answer comes any more */
void docker_sandbox_connected(
    struct docker_sandbox *b); /* somebody has connected to its listener */
void docker_sandbox_tick(struct docker_sandbox *b, uint64_t now);

/* container.c: the body of the call that makes the container of B, free(3); NULL = no memory. */
char *container_json(const struct keeper *k, const struct docker_sandbox *b);
bool container_is_podman(const struct keeper *k);
/* The body of the call that makes the volume PART of B; free(3); NULL = no memory. */
char *container_volume_json(const struct keeper *k, const struct docker_sandbox *b,
			    const char *part);
/* The path of that call. */
void container_path(const struct docker_sandbox *b, char *ret, size_t size);
/* The body of the call that changes the limits of a container; free(3); NULL = no memory. */
char *container_update_json(const struct proto_mon_limit *l);
/* What an answer of the daemon means, as a step and an errno. */
struct container_fault {
	uint32_t step;
	int errnum;
};
struct container_fault container_fault(uint32_t step, int status, const char *body, size_t len);
/* Reads the answer to a question about an image. */
int container_read_image(struct docker_sandbox *b, const char *body, size_t len) MUST_CHECK;

/* profile.c: the system call filter of containers, for the option seccomp=; free(3). */
char *profile_json(void);

/* parts.c: what comes into every container, as files in FOLDER/parts. */
int parts_make(struct keeper *k, struct err *e) MUST_CHECK;
struct part {
	const char *file;  /* below FOLDER/parts; "" = the folder itself */
	const char *where; /* in the container */
};
extern const struct part parts[];
extern const size_t parts_n;

/* counters.c: opens the counters of the process PID, which must be in the container NAME or ID. */
int counters_open(struct docker_sandbox *b, pid_t pid, int *ret_oom, int *ret_peak,
		  int *ret_cpu) MUST_CHECK;
void counters_close(struct docker_sandbox *b);
uint64_t counters_read(int fd);
uint64_t counters_cpu(const struct docker_sandbox *b);
/* Memory in use, without cached pages of files. */
uint64_t counters_memory(const struct docker_sandbox *b);

/* stored.c: stored workspaces, FOLDER/stored/KEY/data and venv. */
int keep_open(struct keeper *k, struct docker_sandbox *b) MUST_CHECK; /* 0 or -errno */
int keep_forget(struct keeper *k, const char *key) MUST_CHECK;
void keep_path(const struct keeper *k, const char *key, const char *part, char *ret, size_t size);

/* orphans.c */
int keeper_id_take(struct keeper *k, struct err *e) MUST_CHECK;
void keeper_id_drop(struct keeper *k);
void orphans_remove(struct keeper *k); /* asks; the answers come later */
void orphans_tick(struct keeper *k, uint64_t now);

/* leftovers.c: removes the container NAME and its volumes, however often that needs asking. LATE: the daemon may
 * still make one of them. */
void leftovers_add(struct keeper *k, const char *name, bool late);
/* There is so much of it that nothing more should be made. */
bool leftovers_is_much(const struct keeper *k);
void leftovers_tick(struct keeper *k, uint64_t now);
void leftovers_hurry(struct keeper *k); /* the next tick asks for everything */
