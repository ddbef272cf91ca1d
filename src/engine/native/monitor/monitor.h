/* SPDX-License-Identifier: Apache-2.0 */
/* The privileged process: what its files share.
 *
 * Theory of operation. Single-threaded, one ppoll loop (monitor.c) over two descriptors: the
 * channel to the front and a signalfd. Everything it is told is a fixed-size message (proto.h),
 * checked field by field (requests.c, plan.c); anything else ends the process and with it every
 * sandbox.
 *
 * It never touches a file of a sandbox, never reads what a sandbox writes, and holds no descriptor
 * per sandbox: an init is its own child, so its pid is its name until it is reaped (reap.c).
 *
 * Processes that it makes, all of them from fork without exec until init:
 *   template  one per image, ends when the image's namespaces are built (image_template.c)
 *   maker     one per sandbox, ends when init is cloned (maker.c); init is the monitor's own child
 *             (CLONE_PARENT)
 * What they find out they write into shared memory (struct report), so no pipe is needed. */
#pragma once

#include "base/err.h"
#include "engine/inside/proto.h"
#include "engine/native/monitor/cgroup.h"
#include "engine/native/monitor/zygote.h"
#include "engine/native/native.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define MONITOR_FD    3  /* its channel */
#define IMAGES_MAX    16 /* templates kept at a time */
#define LOCKS_MAX     64 /* images in use at a time, replaced ones included */
#define IDS_PER_RANGE 65536u
#define ID_FRONT      65535u /* offset of the front's uid in the range; not mapped in Z */
#define ID_OWNER      65533u /* of the uid that is Z's creator: no process has it */
#define ID_FIRST      1024u  /* offset of slot 0's uid in Z */
#define EARLY_MAX     256
#define END_WAIT_MS   900 /* from end of the channel to exit, at most */

/* Ids: how Z is mapped (ids.c). */
enum ids_mode {
	IDS_RANGE,  /* root: a range reserved by a lock file */
	IDS_SUBUID, /* plain user: own uid as Z's root, /etc/subuid beyond, by newuidmap(1) */
	IDS_SINGLE, /* plain user: the own uid alone */
};
struct ids {
	enum ids_mode mode;
	uint32_t base; /* RANGE, SUBUID: first host id */
	uint32_t gid_base;
	uint32_t count;
	int lock; /* RANGE: the descriptor that holds the reservation */
};

/* An image in use (image_lock.c): flock(LOCK_SH) on its root folder keeps the files of a replaced
 * image until its template and the last of its sandboxes are gone. */
struct image_lock {
	int fd;         /* owned while USERS > 0 */
	uint32_t users; /* templates and sandboxes; 0 = free */
	dev_t dev;
	ino_t ino;
};

/* One image's namespaces (image_template.c). */
struct template
{
	char image[PROTO_IMAGE_MAX]; /* "" = unused */
	dev_t dev;                   /* of the root folder it was made from */
	ino_t ino;
	uint64_t ctime_ns; /* an inode's number may be used again */
	int userns, mntns;
	struct image_lock *lock;
	struct nursery nursery;
	uint32_t boxes;   /* sandboxes that are made from it or live */
	uint64_t used_at; /* when one was asked for, or the last that was used has ended */
};

/* What a forked helper found out; shared memory, written by the helper, read after it has ended. */
struct report {
	uint32_t step;
	int32_t errnum;
	int32_t pid;  /* init */
	uint32_t uid; /* of the sandbox, in Z */
};

enum box_state {
	BOX_FREE,
	BOX_MAKING,
	BOX_LIVE,
	BOX_ENDING,
	BOX_WAITING, /* init is gone, but helpers are left */
};
struct box {
	enum box_state state;
	bool doomed; /* destroyed while it was being made */
	bool unused; /* its end does not count as use of its image */
	bool count;  /* MON_GONE says what it used */
	pid_t maker;
	pid_t init;
	uint32_t uid;          /* in Z */
	uint32_t helper_of;    /* slot + 1, 0 = of none */
	uint32_t helpers;      /* how many say so of this one */
	int channel;           /* BOX_MAKING: the front's end, until it is sent; else -1 */
	struct cgroup_fds fds; /* BOX_MAKING: for the front */
	int warm; /* the clean interpreter's end of its channel until the zygote has it; -1 */
	struct template *image;     /* it was made from; NULL = that one is gone */
	struct image_lock *lock;    /* of its image */
	struct template *waits_for; /* in this one's queue; NULL = in none */
	uint32_t warm_next;
	uint32_t pid_next[2]; /* chains of the pid table: maker, init; slot + 1 */
};

struct monitor {
	int channel;
	int signals;
	int lifeline_read, lifeline_write;
	int init_program; /* sealed memfd */
	int filter;       /* sealed memfd: struct sock_filter[] */
	int extension;    /* sealed memfd: what a zygote loads; -1 = no zygotes */
	bool root;
	bool own_devices; /* device nodes may be made here */
	bool ending;
	struct ids ids;
	struct cgroup cgroup;
	const struct native_monitor_config *config;
	struct template templates[IMAGES_MAX];
	struct image_lock locks[LOCKS_MAX];
	struct box *boxes;      /* config->max_sandboxes */
	struct report *reports; /* shared; same index; [max_sandboxes] is the template's */
	uint32_t *pid_table;    /* slot + 1 by pid; see reap.c */
	uint32_t pid_mask;
	uint32_t n_making;
	pid_t early[EARLY_MAX]; /* children that ended before their maker had said whose init they
				   are */
	uint32_t n_early;
	struct instance *instance; /* the lock that says "alive" (instance.c) */
};

/* monitor.c. A front that is gone is noticed by the loop; sending does not fail. */
/* In a process that becomes another program: nothing is ignored or blocked any more, which would
 * outlive execve(2) (whoever started the server in the background of a script had SIGINT ignored).
 */
void monitor_plain_signals(void);
void monitor_send(struct monitor *m, const struct proto_head *frame, const int *fds, size_t n);

/* requests.c: serves what waits on the channel, some at a time; -errno: it has ended, or something
 * came that is no request (-EPROTO, -EINVAL), and so must the monitor. */
int requests_take(struct monitor *m) MUST_CHECK;

/* plan.c: checks a request against everything that is known before anything is done. */
int plan_check_create(const struct monitor *m, const struct proto_mon_create *c) MUST_CHECK;
/* In a build for tests of the tests: limits so wide that they are none (base/walls.h). */
void plan_leave_out(struct proto_limits *l);
int plan_check_forget(const struct proto_mon_forget *f) MUST_CHECK;

/* lifecycle.c */
void sandbox_create(struct monitor *m, const struct proto_mon_create *c);
void sandbox_destroy(struct monitor *m, uint32_t slot, uint32_t flags); /* PROTO_SLOT_* */
/* A clean interpreter in place of the one it has lost; the answer goes out at once. */
void sandbox_warm(struct monitor *m, uint32_t slot);
void sandbox_usage(struct monitor *m, uint32_t slot);
void sandbox_forget(struct monitor *m, const struct proto_mon_forget *f);
void sandbox_made(struct monitor *m, uint32_t slot, int status); /* the maker has ended */
void sandbox_gone(struct monitor *m, uint32_t slot);             /* init has ended */

/* maker.c: the maker process. Never returns. */
struct maker {
	const struct template *t;
	const struct ids *ids;
	const char *state_dir;
	const char *persist; /* key of a stored workspace, or "" */
	const struct proto_limits *limits;
	bool root;
	bool own_devices; /* host root that may make device nodes */
	uint32_t uid;     /* in Z; that of a stored folder wins */
	int helped;       /* pidfd of the sandbox whose packages this one gets, -1 = none */
	int channel;      /* init's end */
	int program;
	struct report *report;
	struct cgroup_fds *fds;
};
NORETURN void maker_run(const struct maker *k);

/* image_lock.c. Takes the lock of the folder ROOT; -errno on failure (EBUSY: it is being removed).
 */
int image_lock_take(struct monitor *m, const char *root, struct image_lock **ret) MUST_CHECK;
struct image_lock *image_lock_ref(struct image_lock *l);
struct image_lock *image_lock_unref(struct image_lock *l); /* NULL is fine; returns NULL */

/* image_template.c */
int template_get(struct monitor *m, const char *image, struct template **ret,
		 struct report *why) MUST_CHECK;
void template_free(struct monitor *m, struct template *t);

/* skeleton.c: fills the folder SKEL; IMAGE is what it will lie upon. 0 or -errno. */
int skeleton_make(int skel, int image) MUST_CHECK;

/* zygote_start.c: on success Z, which was NONE, is STARTING as one of T's. 0 or -errno. */
int zygote_start(struct monitor *m, const struct template *t, struct zygote *z) MUST_CHECK;

/* ids.c */
int ids_reserve(struct ids *ids, bool root, const char *run_dir, struct err *e) MUST_CHECK;
int ids_write_maps(const struct ids *ids, pid_t child) MUST_CHECK;
/* The id in Z of the sandbox in SLOT. */
uint32_t ids_slot(const struct ids *ids, uint32_t slot);
/* The id in Z for a new stored folder, if possible one that no slot below SLOTS has. */
uint32_t ids_stored(const struct ids *ids, uint32_t slots, const char *key);
/* "name:first:count" lines of subuid(5) for NAME or UID: the first range of at least WANT ids. */
int ids_parse_subid(const char *text, const char *name, uid_t uid, uint32_t want,
		    uint32_t *ret_first, uint32_t *ret_count) MUST_CHECK;

/* instance.c: run folder, "this instance lives" lock, leftovers of the dead. */
struct instance {
	char run_dir[PATH_MAX];
	char name[32]; /* "caisson-XXXXXXXX": the name of its control groups */
	char lock_path[PATH_MAX];
	int lock;
};
int instance_open(struct instance *in, bool root, struct err *e) MUST_CHECK;
/* Writes the folders that a later start removes when this instance is dead. */
int instance_record(struct instance *in, const struct cgroup *c, struct err *e) MUST_CHECK;
void instance_sweep(const struct instance *in);
void instance_close(struct instance *in);

/* reap.c */
int reap_init(struct monitor *m) MUST_CHECK;
void reap_watch(struct monitor *m, uint32_t slot, bool init); /* boxes[slot].maker or .init */
bool reap_is_early(struct monitor *m, pid_t pid);             /* forgets it */
int reap_children(struct monitor *m) MUST_CHECK; /* all that have ended; -errno = tables are full */
void reap_all(struct monitor *m);                /* kills all and waits, END_WAIT_MS at most */
