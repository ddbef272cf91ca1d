/* SPDX-License-Identifier: Apache-2.0 */
/* The messages between front and monitor or keeper (proto.h has the rules, and the checks). */
#pragma once

#include "engine/protocol/proto_head.h"

struct proto_mon_hello {
	struct proto_head head;
	uint32_t version;
	uint32_t enforced; /* enum proto_cap bits */
	uint32_t best_effort;
	uint32_t slots;     /* sandboxes at most */
	uint32_t front_uid; /* uid and gid kept for the front; 0 = none (plain user) */
	uint32_t err_code;  /* enum err_code: why it could not start; 0 = it is up */
	int32_t errnum;
	uint32_t levels;                 /* bits: the levels of isolation that can be made here */
	char runtime[PROTO_RUNTIME_MAX]; /* of levels that name none; "" = no daemon makes them */
	char cgroup[16];                 /* "v1", "v2", "none": for people */
	char text[256];                  /* why not */
};

struct proto_mon_create {
	struct proto_head head;
	uint32_t slot;      /* free, < slots; chosen by the front */
	uint32_t warm;      /* 0 or 1 */
	uint32_t egress;    /* 0 or 1: INIT_READY comes with a listening socket */
	uint32_t helper_of; /* slot + 1 of the sandbox that this one helps, 0 = none */
	uint32_t level;     /* of isolation: its index, < PROTO_LEVELS_MAX */
	uint32_t root;      /* 0 or 1: it has a root user; not with `persist` or `helper_of` */
	uint32_t pad;
	uint32_t payer; /* users take turns where requests wait: any number, one for each user */
	struct proto_limits limits;
	char image[PROTO_IMAGE_MAX];
	char persist[PROTO_PERSIST_MAX]; /* key of a stored workspace, "" = none */
};

/* Descriptors: [channel to init, oom counter, peak, CPU time] as `fds` says; on failure none. */
enum { PROTO_CREATED_OOM = 1, PROTO_CREATED_PEAK = 2, PROTO_CREATED_CPU = 4 };
#define PROTO_CREATED_UNCOUNTED 8 /* in no control group; no descriptor */
struct proto_mon_created {
	struct proto_head head;
	uint32_t slot;
	uint32_t fds;  /* PROTO_CREATED_ bits: which descriptors follow the channel */
	uint32_t step; /* enum proto_step; NONE = success */
	int32_t errnum;
	uint64_t image_dev, image_ino; /* of the image's root folder; 0 = it is gone by now */
	uint64_t image_ctime_ns;
};

enum {                        /* MON_DESTROY */
       PROTO_SLOT_UNUSED = 1, /* it was made ahead of need and never used */
       PROTO_SLOT_COUNT = 2,  /* a run is on: MON_GONE must tell the CPU time */
};
struct proto_mon_slot {
	struct proto_head head;
	uint32_t slot;
	uint32_t flags; /* PROTO_SLOT_* */
};

struct proto_mon_gone {
	struct proto_head head;
	uint32_t slot;
	uint32_t pad;
	uint64_t cpu_ns; /* of everything that was ever in it, if PROTO_SLOT_COUNT asked for it or
			  * it ended on its own; 0 = not asked for, or no group counts it */
};

/* Descriptor: init's end of the channel to the new clean interpreter; none = there will not be one. */
struct proto_mon_warmed {
	struct proto_head head;
	uint32_t slot;
	uint32_t soon; /* its zygote is ready, so a run should wait for it */
};

/* The kernel charges what the front writes into workspaces in memory to the front. The limit on all
 * sandboxes together is that much lower. */
struct proto_mon_charged {
	struct proto_head head;
	uint64_t bytes; /* at most the limit; there is one */
};

struct proto_mon_forget {
	struct proto_head head;
	uint32_t seq;
	char persist[PROTO_PERSIST_MAX];
};

struct proto_mon_forgotten {
	struct proto_head head;
	uint32_t seq;
	int32_t errnum; /* 0 = it is gone */
};

/* The workspace of a session gets the key of a stored one, in place. Nothing of the sandbox stops meanwhile. */
struct proto_mon_keep {
	struct proto_head head;
	uint32_t slot;
	char persist[PROTO_PERSIST_MAX];
};

/* errnum: EALREADY = it is being kept; ENOTSUP = its workspace is no disk; EEXIST = there is a workspace of that key;
 * ESRCH = the sandbox does not live */
struct proto_mon_kept {
	struct proto_head head;
	uint32_t slot;
	int32_t errnum; /* 0 = the files are on the disk of the host, under that key */
};

/* The file of a stored workspace itself, for a worker that sends it elsewhere or gets it from there. */
enum proto_disk {
	PROTO_DISK_READ, /* one that no sandbox uses */
	PROTO_DISK_NEW,  /* an empty one without a name */
	PROTO_DISK_KEEP, /* it gets its name */
	PROTO_DISK_DROP, /* it goes */
	PROTO_DISK_MAX_,
};
#define PROTO_DISKS_NEW_MAX 4u /* at a time */
struct proto_mon_disk {
	struct proto_head head;
	uint32_t seq;
	uint32_t what; /* enum proto_disk */
	uint64_t
	    bytes; /* NEW: that it will take from the host, at most PROTO_DISK_MAX; 0 for the others */
	char persist[PROTO_PERSIST_MAX];
};

/* errnum: EBUSY = a sandbox uses it; ENOENT = there is none, or nothing was made for this key; EEXIST = there is one, or is
 * being made; ENOSPC; EMFILE = PROTO_DISKS_NEW_MAX are being made; EPERM = this server was not started for it; ENOTSUP = here
 * workspaces are no disks */
struct proto_mon_disk_had {
	struct proto_head head;
	uint32_t seq;
	int32_t
	    errnum; /* 0 = done; of READ and NEW with the descriptor, which has the lock of the file */
};

/* The request is as if it had not been sent. Every maker serves MON_CREATE and MON_DESTROY. */
struct proto_mon_unsupported {
	struct proto_head head;
	uint32_t type; /* of the request */
	uint32_t of;   /* its `slot`, or its `seq` */
};

/* MON_USAGE of PROTO_SLOT_ALL asks for the memory of all sandboxes together, and nothing else. */
#define PROTO_SLOT_ALL UINT32_MAX
struct proto_mon_used {
	struct proto_head head;
	uint32_t slot;
	uint32_t pids;
	uint64_t memory_bytes;
	uint64_t cpu_ns;
};

/* Other limits for a sandbox that lives. Either all of them are changed or none. */
enum {
	PROTO_LIMIT_MEMORY = 1,
	PROTO_LIMIT_CPU = 2,
	PROTO_LIMIT_PIDS = 4,
	PROTO_LIMIT_ALL = 7,
};
struct proto_mon_limit {
	struct proto_head head;
	uint32_t slot;
	uint32_t what; /* PROTO_LIMIT_ bits, not 0: the members that are changed */
	uint64_t memory_bytes;
	uint32_t cpu_milli;
	uint32_t pids;
};

/* errnum: EBUSY = the sandbox uses more memory than that; ENOTSUP = this limit cannot be changed here;
 * ESRCH = the sandbox does not live */
struct proto_mon_limited {
	struct proto_head head;
	uint32_t slot;
	int32_t errnum; /* 0 = done */
	uint32_t what;  /* the PROTO_LIMIT_ bit that failed */
	uint32_t pad;
	uint64_t memory_bytes; /* EBUSY: in use */
};

/* How much of its disk a sandbox gets from the host (monitor/workspace_space.h). Sent when it has changed. */
enum proto_ration {
	PROTO_RATION_ALL,
	PROTO_RATION_PART, /* less than its own limit */
	PROTO_RATION_NONE, /* it can write no new data */
	PROTO_RATION_MAX_,
};
struct proto_mon_ration {
	struct proto_head head;
	uint32_t slot;
	uint32_t ration; /* enum proto_ration */
};

/* The disk of the host, below the disks of sandboxes (monitor/workspace_space.h). Sent when it has changed, at the
 * monitor's looks. */
enum proto_space {
	PROTO_SPACE_ENOUGH,
	PROTO_SPACE_SHORT, /* no room for another sandbox, or one that is there was stopped */
	PROTO_SPACE_FULL,  /* less than the reserve is free: no sandbox can write new data */
	PROTO_SPACE_MAX_,
};
struct proto_mon_space {
	struct proto_head head;
	uint32_t state; /* enum proto_space */
	uint32_t disks; /* of sandboxes that live */
	uint64_t free_bytes, reserve_bytes;
	uint64_t promised_bytes; /* what the disks may still take from the host */
};
struct proto_mon_zygote {
	struct proto_head head;
	char image[PROTO_IMAGE_MAX];
	char said[PROTO_SAID_MAX]; /* its last words; code of the image wrote them, so any bytes */
};
