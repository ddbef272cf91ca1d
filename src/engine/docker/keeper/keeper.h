/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper: the one process that talks to the container daemon.
 *
 * It trusts nobody but the daemon. The front sends it the fixed messages MON_... (requests.c checks
 * every field). From those it makes the few calls of the API that it knows, with bodies of its own
 * (container.c); no text of a client gets into a call but the checked name of an image. Answers are
 * bounded, and read as JSON only here.
 *
 * A cell is one sandbox: a container, its volumes, and a folder of the host with the socket to which
 * init connects (cell.c has the states). What the daemon does not remove because it does not answer is
 * kept on a list and removed later (debris.c). An earlier keeper that died has left a lock file that
 * nobody holds; the containers with its label are removed at the next start (orphans.c). */
#pragma once

#include "base/list.h"
#include "engine/docker/docker.h"
#include "engine/docker/keeper/about.h"
#include "engine/docker/keeper/daemon.h"
#include "engine/inside/proto.h"

#include <limits.h>

#define KEEPER_FD      3
#define KEEPER_UID     1000u /* uid and gid of everything in a container */
#define KEEPER_ID_MAX  17    /* 16 hex digits and NUL */
#define KEEPER_NAME    64    /* bytes of the name of a container or volume */
#define PIDS_SPARE     8     /* init and the interpreters that wait */
#define IMAGE_VOLUMES  16    /* folders that an image may declare as volumes */
#define VOLUME_PATH    128   /* bytes of such a path */
#define LABEL_STATE    "org.caisson.state"
#define LABEL_INSTANCE "org.caisson.instance"
#define PROFILE_FILE   "seccomp.json" /* below FOLDER/parts */
#define CALL_S         60u            /* seconds that a call may take */

enum cell_state {
	CELL_FREE,
	CELL_WAITING, /* for the stored workspace, which a container that is being removed still has */
	CELL_LOOKING,  /* at the image */
	CELL_MAKING,   /* the container is being created */
	CELL_STARTING, /* ... started */
	CELL_AWAITED,  /* it runs; init has not connected yet */
	CELL_UP,       /* init has its configuration, the front the channel */
	CELL_REMOVING, /* the container is being removed */
	CELL_EMPTYING, /* its volumes are */
};

struct image_volumes {
	unsigned n;
	char path[IMAGE_VOLUMES][VOLUME_PATH];
};

struct cell {
	enum cell_state state;
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
	bool uncounted;        /* no control group of this machine holds its limits */
	int lock;              /* of the stored workspace; -1 */
	int listener;          /* where init connects; -1 */
	int channel;           /* init's, until the front has it; -1 */
	uint64_t until;        /* AWAITED: then it counts as failed */
	/* counters of the container's control groups; -1 = cannot be read */
	int memory, memory_stat, cpu, pids;
	uint64_t cpu_ns;    /* the last figure */
	unsigned empty;     /* EMPTYING: volumes that are still being removed */
	uint32_t helper_of; /* slot + 1 */
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
	int lifeline_read, lifeline_write;
	int filter;    /* sealed memfd: the filter of runs */
	char *profile; /* JSON: the filter of containers */
	struct cell *cells;
	uint32_t serial;
	unsigned orphans;    /* containers that are being removed */
	struct list changes; /* of limits, which the daemon has not answered yet (limits.c) */
	unsigned debris_n;
	struct debris *debris;
	uint64_t debris_at; /* when it is tried again */
	bool closing;
};

/* keeper.c */
void keeper_send(struct keeper *k, const struct proto_head *frame, int *fds, size_t n);

/* requests.c: all messages that are there; < 0 = the front has ended, or has sent a wrong one. */
int keeper_take(struct keeper *k) MUST_CHECK;

/* cell.c */
void cell_create(struct keeper *k, const struct proto_mon_create *c);
void cell_destroy(struct keeper *k, uint32_t slot);
void cell_usage(struct keeper *k, uint32_t slot);
void cell_warm(struct keeper *k, uint32_t slot);
/* limits.c */
void cell_limit(struct keeper *k, const struct proto_mon_limit *l);
void limits_close(struct keeper *k); /* no answer comes any more */
void cell_connected(struct cell *b); /* somebody has connected to its listener */
void cell_tick(struct cell *b, uint64_t now);

/* container.c: the body of the call that makes the container of B, free(3); NULL = no memory. */
char *container_json(const struct keeper *k, const struct cell *b);
bool container_is_podman(const struct keeper *k);
/* The body of the call that makes the volume PART of B; free(3); NULL = no memory. */
char *container_volume_json(const struct keeper *k, const struct cell *b, const char *part);
/* The path of that call. */
void container_path(const struct cell *b, char *ret, size_t size);
/* The body of the call that changes the limits of a container; free(3); NULL = no memory. */
char *container_update_json(const struct proto_mon_limit *l);
/* What an answer of the daemon means, as a step and an errno. */
struct container_fault {
	uint32_t step;
	int errnum;
};
struct container_fault container_fault(uint32_t step, int status, const char *body, size_t len);
/* Reads the answer to a question about an image. */
int container_read_image(struct cell *b, const char *body, size_t len) MUST_CHECK;

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
int counters_open(struct cell *b, pid_t pid, int *ret_oom, int *ret_peak, int *ret_cpu) MUST_CHECK;
void counters_close(struct cell *b);
uint64_t counters_read(int fd);
uint64_t counters_cpu(const struct cell *b);
/* Memory in use, without cached pages of files. */
uint64_t counters_memory(const struct cell *b);

/* stored.c: stored workspaces, FOLDER/stored/KEY/data and venv. */
int keep_open(struct keeper *k, struct cell *b) MUST_CHECK; /* 0 or -errno */
int keep_forget(struct keeper *k, const char *key) MUST_CHECK;
void keep_path(const struct keeper *k, const char *key, const char *part, char *ret, size_t size);

/* orphans.c */
int keeper_id_take(struct keeper *k, struct err *e) MUST_CHECK;
void keeper_id_drop(struct keeper *k);
void orphans_remove(struct keeper *k); /* asks; the answers come later */

/* debris.c: removes the container NAME and its volumes when the daemon answers again. */
void debris_add(struct keeper *k, const char *name);
void debris_tick(struct keeper *k, uint64_t now);
