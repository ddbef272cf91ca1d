/* SPDX-License-Identifier: Apache-2.0 */
/* The monitor: the privileged process of the native engine. This header is what its files share.
 *
 * Theory of operation. The monitor makes sandboxes and ends them; it knows nothing of what runs in
 * them. It is single-threaded. One poll loop (monitor.c) waits for
 *   - the channel to the front: fixed-size messages (engine/protocol/proto.h). requests.c checks every
 *     field and dispatches by one table. A message that breaks a rule ends the monitor, and with it
 *     every sandbox;
 *   - a signalfd: a child has ended, or the monitor is told to end (SIGTERM, SIGINT);
 *   - the channels of the zygotes, two for each image at most.
 * Disks are slow, so the monitor leaves file work to children. It never reads what a run
 * has written; of a stored workspace it opens only the disk image or the lock file, to lock it.
 *
 * Children. All are forks of the monitor that do not execute a program, except where it is said:
 *   template builder  makes the namespaces of one image, which the monitor keeps as two descriptors,
 *                     and ends (image_template.c). The monitor waits for it
 *   maker             makes the namespaces of one sandbox, clones init into them and ends (maker.c)
 *   init              PID 1 of a sandbox. Its maker clones it with CLONE_PARENT, so it is a child of
 *                     the monitor; it executes the init program from a sealed memfd
 *   zygote            the image's Python, from which warm interpreters are forked (zygote.h). It is
 *                     executed, too
 *   worker            works on the disks of sandboxes: ballast, trimming (workspace_worker.h)
 *   drop              keeps a disk until its sandbox has ended (workspace_session.h)
 *   sweeper           removes the files of stored workspaces that nobody can use any more, and ends
 *                     (common/remover.h)
 *   newuidmap(1), newgidmap(1)  executed to map ids of /etc/subuid (ids.c). The monitor waits
 * A child that the monitor does not wait for reports in shared memory (struct report), which the
 * monitor reads after it has reaped the child. reap.c finds the sandbox of a pid in a hash table.
 * Pids are safe names here: the kernel reuses the pid of a child only after the monitor reaped it.
 *
 * A sandbox is a struct monitor_sandbox at the index SLOT, which the front chooses. Its states (lifecycle.c):
 *
 *        MON_CREATE: maker forked         maker done             init reaped
 *   FREE ------------------------> MAKING ----------> LIVE ----------------------------> FREE
 *                                    |                 |                                  ^
 *                         MON_DESTROY|                 |MON_DESTROY: init killed          |
 *                                    v                 v              init reaped         |
 *                                  DOOMED ---------> ENDING ------------------------------+
 *                                         maker done
 *   FREE -> ASKED -> FREE while a request waits for blocks of the host; it is tried again, or refused.
 *   MAKING, DOOMED -> FREE when the maker failed. LIVE, ENDING -> WAITING -> FREE when init ended while
 *   helpers (sandboxes that write into the packages of this one) are left: they are killed first.
 *
 * The front hears MON_CREATED when a sandbox leaves MAKING or DOOMED, or ASKED without being made, and MON_GONE when it becomes FREE
 * again afterwards. Apart from MAKING and DOOMED, the monitor holds no descriptor of a sandbox but the
 * end of a channel that waits for a zygote (sandbox.warm), and an O_PATH one of the file of its disk, which neither
 * keeps its lock nor opens it. */
#pragma once

#include "base/err.h"
#include "engine/maker/common/folder.h"
#include "engine/maker/common/remover.h"
#include "engine/maker/native/monitor/cgroup.h"
#include "engine/maker/native/monitor/workspace_session.h"
#include "engine/maker/native/monitor/workspace_space.h"
#include "engine/maker/native/monitor/zygote.h"
#include "engine/maker/native/native.h"
#include "engine/protocol/proto.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define MONITOR_FD    3  /* its channel to the front */
#define IMAGES_MAX    16 /* templates kept at a time */
#define LOCKS_MAX     64 /* images in use at a time, with those that were replaced meanwhile */
#define IDS_PER_RANGE 65536u
#define IDS_LEAST     16384u /* of a range, where the machine has given us fewer */
#define ID_OWNER      65533u /* offset of the uid that creates Z, in a range of IDS_PER_RANGE */
#define ID_FIRST      1024u  /* the uid of slot 0 in Z */
#define EARLY_MAX     256    /* see monitor.early */
#define ROOTS_MAX     256    /* sandboxes with a root user at a time */
/* How long the monitor waits for its children at its own end. A disk that writes back gigabytes takes seconds. The
 * front waits for less (CLOSE_WAIT_MS) and leaves the rest to the monitor. */
#define END_WAIT_MS 30000

/* How the user namespace Z is mapped (ids.c). Z contains the namespaces of all sandboxes. */
enum ids_mode {
	IDS_RANGE, /* root: a range that a lock file reserves; of IDS_PER_RANGE ids if the host has them, else of what there is */
	IDS_SUBUID, /* plain user: its uid is Z's root, the others come from /etc/subuid by newuidmap(1) */
	IDS_SINGLE, /* plain user: its uid is the only one in Z */
};
struct ids {
	enum ids_mode mode;
	uint32_t base; /* RANGE, SUBUID: first host id */
	uint32_t gid_base;
	uint32_t count;
	int lock; /* RANGE: the descriptor that holds the reservation */
	bool roots
	    [ROOTS_MAX]; /* RANGE: which parts of it are the other users of a sandbox, beside its own uid */
};

/* An image in use (image_lock.c). A shared flock(2) on its root folder keeps the files of a replaced
 * image until its template and the last of its sandboxes are gone. */
struct image_lock {
	int fd;         /* owned while USERS > 0 */
	uint32_t users; /* templates and sandboxes; 0 = free */
	dev_t dev;
	ino_t ino;
};

/* The namespaces of one image, which every sandbox of the image copies (image_template.c). */
struct template
{
	char image[PROTO_IMAGE_MAX]; /* "" = unused */
	dev_t dev;                   /* of the root folder that it was made from */
	ino_t ino;
	uint64_t ctime_ns; /* of that folder; the file system may reuse the number of an inode */
	int userns, mntns;
	struct image_lock *lock;
	struct zygotes zygotes;
	bool foreign;       /* the owners of its image's files are foreign ids */
	uint32_t sandboxes; /* sandboxes that were made from it, or are being made */
	uint64_t used_at;   /* when a sandbox was last requested, or a used one ended */
};

/* What a maker or a template builder reports: it writes the report into shared memory, and the monitor
 * reads it after the child has ended. */
struct report {
	uint32_t step;
	int32_t errnum;
	int32_t pid;   /* init */
	uint32_t uid;  /* of the sandbox, in Z */
	uint32_t loop; /* number of the loop device of the workspace; DISK_LOOP_NONE */
	uint64_t disk_size, disk_ballast; /* bytes */
};

enum monitor_sandbox_state {
	SANDBOX_FREE,
	SANDBOX_ASKED, /* nothing of it exists: it waits for blocks of the host (workspace_space.h) */
	SANDBOX_MAKING,  /* its maker runs */
	SANDBOX_DOOMED,  /* its maker runs, and the sandbox is to be destroyed */
	SANDBOX_LIVE,    /* init runs */
	SANDBOX_ENDING,  /* init was killed, but not reaped */
	SANDBOX_WAITING, /* init was reaped, but helpers are left */
	SANDBOX_STATE_MAX_,
};
struct monitor_sandbox {
	enum monitor_sandbox_state state;
	struct monitor_sandbox_asked *asked; /* in SANDBOX_ASKED: the request */
	uint32_t wanted;                     /* PROTO_SLOT_*: what the front wants of its end */
	pid_t maker;
	pid_t init;
	uint32_t uid;          /* in Z */
	uint32_t root;         /* its part of ids.roots + 1; 0 = it has no root user */
	struct disk disk;      /* of its workspace */
	uint32_t helper_of;    /* slot + 1 of the sandbox that it helps; 0 = none */
	uint32_t helpers;      /* how many sandboxes help this one */
	int channel;           /* while the maker runs: the front's end; else -1 */
	struct cgroup_fds fds; /* while the maker runs: for the front */
	int warm; /* the interpreter's end of its channel, until the zygote gets it; else -1 */
	struct template *image;  /* that it was made from; NULL = the template is gone */
	struct image_lock *lock; /* of its image */
	struct template
	    *waits_for;       /* the sandbox waits in the queue of this template; NULL = in none */
	uint32_t warm_next;   /* in that queue: slot + 1; 0 = the last */
	uint32_t pid_next[2]; /* chains of the pid table for maker and init (reap.c) */
};

/* A stored disk that the front fills (workspace_arrival.c). */
struct disk_arrival {
	char key[PROTO_PERSIST_MAX]; /* "" = this place is free */
	char aside[FOLDER_NAME_MAX]; /* its name until it is whole */
	int file;                    /* with its lock */
	uint64_t bytes;              /* that it will take from the host */
	pid_t keeper;                /* the process that gives it its name; 0 = none */
	uint32_t seq;                /* of the request that this one serves */
};

struct monitor {
	int channel;
	int front; /* parent_watch() */
	int signals;
	int liveness_read, liveness_write;
	int init_program; /* sealed memfd */
	int filter;       /* sealed memfd: struct sock_filter[] */
	int extension;    /* sealed memfd: the extension that a zygote loads; -1 = no zygotes */
	bool root;
	bool own_devices; /* this host lets us make device nodes */
	bool ending;
	struct ids ids;
	struct cgroup cgroup;
	struct session_disks disks;
	struct space space;
	const struct native_monitor_config *config;
	struct template templates[IMAGES_MAX];
	struct image_lock locks[LOCKS_MAX];
	dev_t locked_dev; /* an image that was locked by somebody else, and when that was seen */
	ino_t locked_ino;
	uint64_t locked_ns;
	struct monitor_sandbox *sandboxes; /* config->max_sandboxes */
	struct report
	    *reports; /* shared memory; same index; [max_sandboxes] is for template builders */
	uint32_t *pid_table; /* finds a sandbox by a pid (reap.c) */
	uint32_t pid_mask;
	uint32_t n_making;
	/* Inits that were reaped before their maker, so that nothing says yet whose they are. */
	pid_t early[EARLY_MAX];
	uint32_t n_early;
	struct disk_arrival arrivals[PROTO_DISKS_NEW_MAX];
	struct remover sweep; /* removes what is left of workspaces */
	struct instance
	    *instance; /* the lock file that says that this monitor lives (instance.c) */
};

/* monitor.c */

/* For a process that will execute a program: resets ignored and blocked signals, which would outlive
 * execve(2). (A shell script that starts the server in the background ignores SIGINT for it.) */
void monitor_plain_signals(void);
/* Does not fail: the loop notices when the front is gone. */
void monitor_send(struct monitor *m, const struct proto_head *frame, const int *fds, size_t n);

/* child_memory.c: children forked from now on have none of the libraries but the C library. */
void monitor_slim_children(void);

/* requests.c. Serves some of the messages that wait on the channel. -errno: the channel has ended, or a
 * message was no valid request (-EPROTO, -EINVAL); then the monitor must end. */
int requests_take(struct monitor *m) MUST_CHECK;
/* Checks a message that proto_check() has passed, against the state of the monitor, too. */
int requests_check(const struct monitor *m, const union proto_frame *f) MUST_CHECK;

/* lifecycle.c */
void monitor_sandbox_create(struct monitor *m, const struct proto_mon_create *c);
/* Tries again to make the sandboxes that wait for blocks of the host, users in turn, until one has to wait on.
 * LAST: those that cannot be made are refused. */
void monitor_sandboxes_go_on(struct monitor *m, bool last);
void monitor_sandbox_destroy(struct monitor *m, uint32_t slot, uint32_t flags); /* PROTO_SLOT_* */
/* Requests a warm interpreter in place of a lost one. The answer goes out at once. */
void monitor_sandbox_warm(struct monitor *m, uint32_t slot);
void monitor_sandbox_forget(struct monitor *m, const struct proto_mon_forget *f);
void monitor_sandbox_made(struct monitor *m, uint32_t slot, int status); /* the maker was reaped */
void monitor_sandbox_gone(struct monitor *m, uint32_t slot);             /* init was reaped */
void monitor_sandbox_put_away(struct monitor *m,
			      uint32_t slot); /* nobody holds its stored disk any more */

/* workspace_keep.c */
void monitor_sandbox_keep(struct monitor *m, const struct proto_mon_keep *k);
/* Whether PID, which has ended with STATUS, made the disk of a session a stored one. */
bool monitor_sandbox_kept(struct monitor *m, pid_t pid, int status) MUST_CHECK;

/* workspace_arrival.c */
void monitor_disk(struct monitor *m, const struct proto_mon_disk *d);
/* Whether PID, which has ended with STATUS, gave a new disk its name. */
bool monitor_disk_kept(struct monitor *m, pid_t pid, int status) MUST_CHECK;
/* Adds what the disks that the front fills have of the host, and what they will have. */
void monitor_disks_measure(const struct monitor *m, uint64_t *has, uint64_t *claims);

/* monitor_sandbox_limits.c */
void monitor_sandbox_usage(struct monitor *m, uint32_t slot);
void monitor_sandbox_limit(struct monitor *m, const struct proto_mon_limit *l);

/* maker.c: what the maker process does. */
struct maker {
	const struct template *t;
	const struct ids *ids;
	const char *state_dir;
	const char *persist; /* key of a stored workspace, or "" */
	int disks;           /* folder for disks of sessions */
	int disk_template;   /* -1 = no disk: the workspace is in memory, or stored */
	uint64_t
	    disk_grant; /* what a disk may promise beyond the blocks that it has (space_grant()) */
	int disk_to;    /* where the file of the disk goes; -1 = it has none */
	const struct proto_limits *limits;
	bool root;
	bool own_devices;   /* as monitor.own_devices */
	uint32_t uid;       /* in Z; a stored folder keeps its own instead */
	uint32_t root_user; /* as monitor_sandbox.root */
	int liveness;       /* the monitor's writing end, which the maker closes */
	int helped;         /* pidfd of the init whose packages this sandbox mounts, -1 = none */
	int channel;        /* init's end */
	int program;
	struct report *report;
	struct cgroup_fds *fds;
};
NORETURN void maker_run(const struct maker *k);

/* image_lock.c. Locks the folder ROOT. -EBUSY: somebody is removing it. */
int image_lock_take(struct monitor *m, const char *root, struct image_lock **ret) MUST_CHECK;
struct image_lock *image_lock_ref(struct image_lock *l);
struct image_lock *image_lock_unref(struct image_lock *l); /* NULL is fine; returns NULL */

/* image_template.c */
int template_get(struct monitor *m, const char *image, struct template **ret,
		 struct report *why) MUST_CHECK;
void template_free(struct monitor *m, struct template *t);

/* skeleton.c: fills the folder SKEL, which an overlay will put over the folder IMAGE.
 * INSTALL_TOOL is that of native_monitor_config. 0 or -errno. */
int skeleton_make(int skel, int image, const char *install_tool) MUST_CHECK;

/* zygote_start.c: Z, which must be NONE, becomes STARTING as a zygote of T. 0 or -errno. */
int zygote_start(struct monitor *m, const struct template *t, struct zygote *z) MUST_CHECK;

/* ids.c */
int ids_reserve(struct ids *ids, bool root, const char *run_dir, struct err *e) MUST_CHECK;
int ids_write_maps(const struct ids *ids, pid_t child) MUST_CHECK;
/* RANGE: the front's uid, which is not mapped in Z; and the one that creates Z, with which no process runs. */
uint32_t ids_front(const struct ids *ids);
uint32_t ids_owner(const struct ids *ids);
/* Which ids MAP (the text of /proc/self/uid_map or gid_map) has for a range: all from WANT on, IDS_PER_RANGE, or else what its
 * longest line has from 1000 on. False: fewer than IDS_LEAST. */
bool ids_in_map(const char *map, uint32_t want, uint32_t *ret_first, uint32_t *ret_count);
/* Makes IDS the range from WANT on, or in a container with ids of its own what ids_in_map() says. */
int ids_range(struct ids *ids, uint32_t want, struct err *e) MUST_CHECK;
/* The id in Z of the sandbox in SLOT. */
uint32_t ids_slot(const struct ids *ids, uint32_t slot);
/* The id in Z for a new stored folder; if there are enough ids, one that no slot below SLOTS has. */
uint32_t ids_stored(const struct ids *ids, uint32_t slots, const char *key);
/* TEXT is a file as in subuid(5), lines of "name:first:count". Finds the first range of NAME or UID with
 * at least WANT ids. */
int ids_parse_subid(const char *text, const char *name, uid_t uid, uint32_t want,
		    uint32_t *ret_first, uint32_t *ret_count) MUST_CHECK;

/* root_ids.c. Other users of a sandbox: root, what packages add, nobody. They are ids of the range beside the uids of the slots, so no
 * other sandbox has them. -EAGAIN: all parts are taken, ROOTS_MAX. */
int ids_take_root(struct ids *ids, uint32_t *ret) MUST_CHECK;
uint32_t ids_give_root(struct ids *ids, uint32_t root); /* 0 is fine; returns 0 */
#define IDS_MAP_MAX 256
/* The id map of a sandbox with a root user, as user_namespaces(7) has it: inside, then from BASE on. BASE 0: in Z. FOREIGN: of
 * an image whose files have such ids (base/foreign_ids.h), for mount_setattr(2). */
void ids_root_map(uint32_t base, uint32_t uid, uint32_t root, bool foreign, char ret[IDS_MAP_MAX]);
/* A user namespace with the id map MAP, user_namespaces(7), for mount_setattr(2): ids on the disk, then those of the
 * host. No process is in it. Returns a descriptor or -errno. */
int id_mapping_make(const char *map) MUST_CHECK;
/* Whether sandboxes can have a root user here: each needs ids of its own, and a control group that counts the processes
 * of all its users. */
bool monitor_has_root(const struct monitor *m);

/* instance.c: the run folder, the lock that says that this monitor lives, what dead monitors left. */
struct instance {
	char run_dir[PATH_MAX];
	char name[32]; /* "caisson-XXXXXXXX": the name of its control groups */
	char lock_path[PATH_MAX];
	int lock;
};
int instance_open(struct instance *in, bool root, struct err *e) MUST_CHECK;
/* Records the folders that a later start removes once this instance is dead. */
int instance_record(struct instance *in, const struct cgroup *c, struct err *e) MUST_CHECK;
void instance_sweep(const struct instance *in);
/* CLEAN: all its groups are gone. Else the lock file stays, so that a later start removes them. */
void instance_close(struct instance *in, bool clean);

/* reap.c */
int reap_init(struct monitor *m) MUST_CHECK;
void reap_watch(struct monitor *m, uint32_t slot, bool init); /* sandboxes[slot].maker or .init */
bool reap_is_early(struct monitor *m, pid_t pid);             /* takes PID out of monitor.early */
int reap_children(struct monitor *m)
    MUST_CHECK;                   /* all that ended; -ENOBUFS = monitor.early is full */
void reap_all(struct monitor *m); /* kills all and waits for every child, at most END_WAIT_MS */
