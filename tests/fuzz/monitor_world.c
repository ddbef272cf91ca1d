/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor_world.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "descriptors.h"
#include "engine/maker/native/monitor/workspace_store.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PROCESSES_MAX 256 /* of one input; more cannot be made */
#define PID_FIRST     1000
#define FORKS_OLD     3 /* a zygote that has forked as often gets a successor */
#define IDLE_S        60
#define AGE_S         600

struct process {
	enum world_kind kind;
	bool ended; /* waits to be reaped */
	bool reaped;
	int status;
	int channel; /* of a zygote: its own end; else -1 */
};

static struct process processes[PROCESSES_MAX];
static size_t n_processes;
static pid_t ended[PROCESSES_MAX]; /* in the order of their ends */
static size_t n_ended, n_reaped;
static unsigned faults;
static uint64_t clock_ns;
static struct image_lock locks[WORLD_IMAGES];
static bool groups[WORLD_SLOTS];
static bool announced[WORLD_SLOTS]; /* the front knows of it: MON_CREATED, but no MON_GONE yet */
static ino_t channels[PROCESSES_MAX];
static size_t n_channels;
static size_t n_descriptors; /* when it began */
static bool has_room;
static unsigned room;

static bool happens(enum world_fault fault)
{
	bool yes = faults & fault;

	faults &= ~(unsigned)fault;
	return yes;
}

void world_fail_next(unsigned more)
{
	faults |= more;
}

void world_room(unsigned n)
{
	has_room = true;
	room = n;
}

void world_pass(uint64_t ns)
{
	clock_ns += ns;
}

/* ---- processes ---- */

static struct process *process_of(pid_t pid)
{
	size_t i = (size_t)(pid - PID_FIRST);

	return pid >= PID_FIRST && i < n_processes ? &processes[i] : NULL;
}

pid_t world_fork(enum world_kind kind)
{
	if (n_processes == PROCESSES_MAX || happens(WORLD_NO_FORK))
		return -EAGAIN;
	processes[n_processes] = (struct process){.kind = kind, .channel = -1};
	return (pid_t)(PID_FIRST + n_processes++);
}

pid_t world_pick(enum world_kind kind, unsigned which)
{
	pid_t found[PROCESSES_MAX];
	unsigned n = 0;

	for (size_t i = 0; i < n_processes; i++)
		if (processes[i].kind == kind && !processes[i].ended)
			found[n++] = (pid_t)(PID_FIRST + i);
	return n > 0 ? found[which % n] : 0;
}

void world_exit(pid_t pid, int status)
{
	struct process *p = process_of(pid);

	ASSERT(p);
	if (p->ended)
		return;
	p->ended = true;
	p->status = status;
	p->channel = fd_close(p->channel);
	ended[n_ended++] = pid;
}

int world_channel(pid_t zygote)
{
	const struct process *p = process_of(zygote);

	return p ? p->channel : -1;
}

/* ---- system calls (meson.build renames them) ---- */

int fuzz_kill(pid_t pid, int signo)
{
	const struct process *p = process_of(pid);

	ASSERT(p && !p->reaped && signo == SIGKILL);
	world_exit(pid, SIGKILL);
	return 0;
}

pid_t fuzz_waitpid(pid_t pid, int *status, int options)
{
	ASSERT(pid == -1 && options == WNOHANG);
	if (n_reaped == n_ended)
		return 0;
	pid = ended[n_reaped++];
	process_of(pid)->reaped = true;
	*status = process_of(pid)->status;
	return pid;
}

int fuzz_waitid(idtype_t type, id_t id UNUSED, siginfo_t *info UNUSED, int options)
{
	ASSERT(type == P_ALL && options == (WEXITED | WNOHANG | WNOWAIT));
	for (size_t i = 0; i < n_processes; i++)
		if (!processes[i].reaped)
			return 0;
	errno = ECHILD;
	return -1;
}

long fuzz_syscall(long number, ...)
{
	va_list args;

	va_start(args, number);
	const pid_t pid = number == SYS_pidfd_open ? va_arg(args, pid_t) : 0;
	va_end(args);
	if (number == SYS_clone3) {
		const pid_t child = world_fork(WORLD_MAKER);

		errno = child < 0 ? -child : 0;
		return child < 0 ? -1 : child;
	}
	ASSERT(number == SYS_pidfd_open);
	ASSERT(process_of(pid) && !process_of(pid)->reaped);
	errno = EMFILE;
	return happens(WORLD_NO_PIDFD) ? -1 : eventfd(0, EFD_CLOEXEC);
}

uint64_t fuzz_now_ns(void)
{
	return clock_ns += NS_PER_US; /* who waits for something to happen does not wait for ever */
}

/* ---- control groups ---- */

static int group_make(struct cgroup *c UNUSED, uint32_t slot, const struct proto_limits *l,
		      struct cgroup_fds *fds)
{
	ASSERT(slot < WORLD_SLOTS && !groups[slot] && proto_limits_ok(l));
	if (happens(WORLD_NO_GROUP))
		return -ENOSPC;
	groups[slot] = true;
	*fds = CGROUP_FDS_NONE;
	fds->join[fds->n++] = eventfd(0, EFD_CLOEXEC);
	fds->oom = eventfd(0, EFD_CLOEXEC);
	return 0;
}

static void group_remove(struct cgroup *c UNUSED, uint32_t slot)
{
	ASSERT(slot < WORLD_SLOTS && groups[slot]);
	groups[slot] = false;
}

static int group_use(struct cgroup *c UNUSED, uint32_t slot, struct cgroup_use *ret)
{
	ASSERT(slot < WORLD_SLOTS && groups[slot]);
	*ret = (struct cgroup_use){.memory_bytes = 1, .cpu_ns = 1, .pids = 1};
	return 0;
}

static int group_limit(struct cgroup *c UNUSED, uint32_t slot, uint32_t what,
		       const struct proto_limits *l)
{
	ASSERT(slot < WORLD_SLOTS && groups[slot] && what != 0 &&
	       (what & ~(uint32_t)PROTO_LIMIT_ALL) == 0);
	ASSERT(!(what & PROTO_LIMIT_MEMORY) || l->memory_bytes >= PROTO_MEMORY_MIN);
	ASSERT(!(what & PROTO_LIMIT_PIDS) || l->pids >= PROTO_PIDS_MIN);
	ASSERT(!(what & PROTO_LIMIT_CPU) || l->cpu_milli >= PROTO_CPU_MIN);
	return happens(WORLD_NO_GROUP) ? -EBUSY : 0;
}

/* Whatever is said to be charged elsewhere, a part of the memory stays. */
static int group_limit_all(struct cgroup *c UNUSED, uint64_t bytes)
{
	ASSERT(bytes >= WORLD_TOTAL / 64 && bytes <= WORLD_TOTAL);
	return 0;
}

static uint64_t group_use_all(struct cgroup *c UNUSED)
{
	return 1;
}

static const struct cgroup_ops group_ops = {.name = "fuzz",
					    .make = group_make,
					    .remove = group_remove,
					    .use = group_use,
					    .limit = group_limit,
					    .limit_all = group_limit_all,
					    .use_all = group_use_all};

void cgroup_fds_close(struct cgroup_fds *fds)
{
	fd_close_many(fds->join, fds->n);
	fds->kill = fd_close(fds->kill);
	fds->oom = fd_close(fds->oom);
	fds->peak = fd_close(fds->peak);
	*fds = CGROUP_FDS_NONE;
}

uint32_t cgroup_open_keep(const struct cgroup *c UNUSED, uint32_t slot, int ret[CGROUP_PROCS_MAX])
{
	ASSERT(slot < WORLD_SLOTS && groups[slot]);
	ret[0] = eventfd(0, EFD_CLOEXEC);
	return 1;
}

/* ---- images ---- */

struct image_lock *image_lock_ref(struct image_lock *l)
{
	l->users++;
	return l;
}

struct image_lock *image_lock_unref(struct image_lock *l)
{
	ASSERT(!l || l->users > 0);
	if (l)
		l->users--;
	return NULL;
}

void template_free(struct monitor *m, struct template *t)
{
	if (!t->image[0])
		return;
	zygote_stop(m, t);
	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		if (m->sandboxes[i].image == t)
			m->sandboxes[i].image = NULL;
	t->sandboxes = 0;
	t->lock = image_lock_unref(t->lock);
	t->image[0] = '\0';
}

int template_get(struct monitor *m, const char *image, struct template **ret, struct report *why)
{
	const unsigned at = (unsigned)(image[0] - 'a');

	*why = (struct report){.step = PROTO_STEP_IMAGE, .errnum = ENOENT};
	if (at >= WORLD_IMAGES || image[1] != '\0' || happens(WORLD_NO_IMAGE))
		return -ENOENT;
	struct template *t = &m->templates[at];
	if (happens(WORLD_NEW_IMAGE))
		template_free(m, t);
	if (!t->image[0])
		t->lock = image_lock_ref(&locks[at]);
	t->image[0] = image[0];
	t->used_at = clock_ns;
	*ret = t;
	return 0;
}

int zygote_start(struct monitor *m UNUSED, const struct template *t, struct zygote *z)
{
	int pair[2];

	ASSERT(t->image[0] && z->state == ZYGOTE_NONE && z->pid == 0);
	if (happens(WORLD_NO_ZYGOTE))
		return -EMFILE;
	const pid_t pid = world_fork(WORLD_ZYGOTE);
	if (pid < 0)
		return pid;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	process_of(pid)->channel = pair[1];
	*z = (struct zygote){.state = ZYGOTE_STARTING,
			     .pid = pid,
			     .channel = pair[0],
			     .said = memfd_create("zygote", MFD_CLOEXEC)};
	return 0;
}

/* ---- the rest of the monitor ---- */

uint32_t ids_slot(const struct ids *ids UNUSED, uint32_t slot)
{
	return ID_FIRST + slot;
}

uint32_t ids_stored(const struct ids *ids UNUSED, uint32_t slots, const char *key UNUSED)
{
	return ID_FIRST + slots;
}

int workspace_forget(const char *state_dir UNUSED, const char *key)
{
	for (const char *c = key; *c; c++)
		ASSERT((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') ||
		       (*c == '-' && c > key));
	ASSERT(key[0]);
	return key[0] == 'b' ? -EBUSY : 0;
}

void remover_kill(struct remover *r UNUSED, bool reap UNUSED)
{
}

void workspace_sweep(struct monitor *m UNUSED)
{
}

bool workspace_swept(struct monitor *m UNUSED, pid_t pid UNUSED)
{
	return false;
}

/* No maker is run, so none makes a disk. */
int session_disks_template(struct monitor *m UNUSED, const struct proto_limits *l UNUSED)
{
	return has_room ? 0 : -ENOSPC;
}

bool workspace_is_there(const char *state_dir UNUSED, const char *key)
{
	return key[0] == WORLD_IS_THERE;
}

int space_grant(struct monitor *m UNUSED, const struct proto_limits *l UNUSED, uint64_t *ret)
{
	*ret = 0;
	if (happens(WORLD_NO_ROOM) || (has_room && room == 0))
		return -EAGAIN;
	*ret = has_room;
	room -= has_room;
	return has_room ? 0 : -ENOSPC;
}

/* No disk of this world can be kept. */
void monitor_sandbox_keep(struct monitor *me, const struct proto_mon_keep *k)
{
	const struct proto_mon_kept a = {
	    .head = PROTO_HEAD(MON_KEPT, proto_mon_kept), .slot = k->slot, .errnum = ENOTSUP};

	ASSERT(k->persist[0] && k->persist[0] != '-');
	monitor_send(me, &a.head, NULL, 0);
}

bool monitor_disk_kept(struct monitor *m UNUSED, pid_t pid UNUSED, int status UNUSED)
{
	return false;
}

void monitor_disk(struct monitor *m, const struct proto_mon_disk *d)
{
	const struct proto_mon_disk_had a = {
	    .head = PROTO_HEAD(MON_DISK_HAD, proto_mon_disk_had), .seq = d->seq, .errnum = EPERM};

	ASSERT(d->what < PROTO_DISK_MAX_);
	monitor_send(m, &a.head, NULL, 0);
}

bool monitor_sandbox_kept(struct monitor *m UNUSED, pid_t pid UNUSED, int status UNUSED)
{
	return false;
}

void session_disk_drop(struct monitor *m UNUSED, struct monitor_sandbox *b)
{
	ASSERT(b->disk.loop == DISK_LOOP_NONE);
}

bool session_disk_dropped(struct monitor *m UNUSED, pid_t pid UNUSED)
{
	return false;
}

void space_added(struct monitor *m UNUSED, struct monitor_sandbox *b, const struct report *r)
{
	ASSERT(r->loop == DISK_LOOP_NONE);
	b->disk.arrival = fd_close(b->disk.arrival);
}

void space_removed(struct monitor_sandbox *b)
{
	b->disk.arrival = fd_close(b->disk.arrival);
}

bool space_reaped(struct monitor *m UNUSED, pid_t pid UNUSED)
{
	return false;
}

NORETURN void maker_run(const struct maker *k UNUSED)
{
	abort(); /* no process is made here */
}

/* What the front gets of a new sandbox is a channel that nobody has been given before, and nothing
 * of the monitor's own. */
static void check_created(const struct monitor *m, const int *fds, size_t n)
{
	struct stat st;

	for (size_t i = 0; i < n; i++)
		ASSERT(fds[i] > 2 && fds[i] != m->channel && fds[i] != m->liveness_read &&
		       fds[i] != m->filter && fds[i] != m->init_program);
	ASSERT(fstat(fds[0], &st) == 0 && S_ISSOCK(st.st_mode));
	for (size_t i = 0; i < n_channels; i++)
		ASSERT(channels[i] != st.st_ino);
	ASSERT(n_channels < PROCESSES_MAX);
	channels[n_channels++] = st.st_ino;
}

void monitor_send(struct monitor *m, const struct proto_head *frame, const int *fds, size_t n)
{
	union proto_frame f = {0};

	memcpy(&f, frame, frame->size);
	ASSERT(proto_check(&f, frame->size, n, PROTO_PARTY_M, PROTO_PARTY_F) == 0);
	switch (f.head.type) {
	case PROTO_MON_CREATED:
		ASSERT(f.created.slot < WORLD_SLOTS && !announced[f.created.slot]);
		ASSERT((f.created.step == PROTO_STEP_NONE) == (n > 0));
		announced[f.created.slot] = n > 0;
		if (n > 0)
			check_created(m, fds, n);
		break;
	case PROTO_MON_GONE:
		ASSERT(f.gone.slot < WORLD_SLOTS && announced[f.gone.slot]);
		announced[f.gone.slot] = false;
		break;
	case PROTO_MON_WARMED:
		ASSERT(n == 0 || announced[f.warmed.slot]);
		break;
	default:
		break;
	}
}

/* ---- begin, check, end ---- */

void world_begin(struct monitor *m, bool root, int *ret_front)
{
	static const struct native_monitor_config config = {
	    .state_dir = "/",
	    .max_sandboxes = WORLD_SLOTS,
	    .total_bytes = WORLD_TOTAL,
	    .warm = true,
	    .zygote = {.idle_s = IDLE_S, .age_s = AGE_S, .forks = FORKS_OLD}};
	static struct monitor_sandbox sandboxes[WORLD_SLOTS];
	static struct report reports[WORLD_SLOTS + 1];
	int pair[2];

	n_descriptors = fuzz_count_descriptors();
	n_processes = n_ended = n_reaped = n_channels = 0;
	faults = 0;
	has_room = false;
	clock_ns = NS_PER_S;
	memset(locks, 0, sizeof(locks));
	memset(groups, 0, sizeof(groups));
	memset(announced, 0, sizeof(announced));
	memset(reports, 0, sizeof(reports));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	*ret_front = pair[1];
	*m = (struct monitor){.channel = pair[0],
			      /* readable and empty: reap_all() never waits */
			      .signals = open("/dev/null", O_RDONLY | O_CLOEXEC),
			      .liveness_read = 0,
			      .filter = 1,
			      .init_program = 2,
			      .root = root,
			      .cgroup = {.ops = &group_ops, .later = PROTO_LIMIT_ALL},
			      .disks = {.dir = -1},
			      .config = &config,
			      .sandboxes = sandboxes,
			      .reports = reports};
	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		sandboxes[i] = (struct monitor_sandbox){
		    .channel = -1, .warm = -1, .disk = DISK_NONE, .fds = CGROUP_FDS_NONE};
	turns_init(&m->space.asked);
	if (reap_init(m) < 0)
		abort();
}

static void check_sandbox(const struct monitor *m, uint32_t slot)
{
	const struct monitor_sandbox *b = &m->sandboxes[slot];
	uint32_t helpers = 0;

	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		helpers += m->sandboxes[i].helper_of == slot + 1;
	ASSERT(b->helpers == helpers);
	const bool none = b->state == SANDBOX_FREE || b->state == SANDBOX_ASKED;
	ASSERT(none != groups[slot]);
	ASSERT((b->state == SANDBOX_ASKED) == (b->asked != NULL));
	const bool making = b->state == SANDBOX_MAKING || b->state == SANDBOX_DOOMED;
	ASSERT((b->maker > 0) == making);
	ASSERT((b->init > 0) == (b->state == SANDBOX_LIVE || b->state == SANDBOX_ENDING));
	ASSERT((b->channel >= 0) == making);
	ASSERT(announced[slot] == (!none && !making));
	if (none)
		ASSERT(b->warm < 0 && !b->lock && !b->image && !b->waits_for && !b->helper_of);
}

/* Who waits for a zygote stands in its queue once, and the queue ends where it says. */
static void check_queue(const struct monitor *m, const struct template *t)
{
	const struct zygotes *n = &t->zygotes;
	uint32_t waiting = 0, queued = 0, last = 0, sandboxes = 0;

	for (uint32_t i = 0; i < WORLD_SLOTS; i++) {
		waiting += m->sandboxes[i].waits_for == t;
		sandboxes += m->sandboxes[i].image == t;
	}
	for (uint32_t at = n->first; at != 0; at = m->sandboxes[at - 1].warm_next) {
		ASSERT(m->sandboxes[at - 1].waits_for == t && m->sandboxes[at - 1].warm >= 0);
		ASSERT(++queued <= waiting);
		last = at;
	}
	ASSERT(queued == waiting && (queued == 0 || n->last == last));
	ASSERT(t->sandboxes == sandboxes);
}

void world_check(const struct monitor *m)
{
	uint32_t making = 0, asked = 0, listed = 0;

	for (uint32_t i = 0; i < WORLD_SLOTS; i++) {
		check_sandbox(m, i);
		asked += m->sandboxes[i].state == SANDBOX_ASKED;
		making += m->sandboxes[i].state == SANDBOX_MAKING ||
			  m->sandboxes[i].state == SANDBOX_DOOMED;
	}
	ASSERT(m->n_making == making);
	for (const struct list *l = m->space.asked.list.next; l != &m->space.asked.list;
	     l = l->next)
		ASSERT(++listed <= asked);
	ASSERT(listed == asked && m->space.waiting == asked);
	for (size_t i = 0; i < WORLD_IMAGES; i++)
		check_queue(m, &m->templates[i]);
}

void world_end(struct monitor *m)
{
	monitor_sandboxes_go_on(m, true);
	reap_all(m);
	ASSERT(reap_children(m) >= 0);
	for (size_t i = 0; i < WORLD_IMAGES; i++)
		template_free(m, &m->templates[i]);
	world_check(m);
	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		ASSERT(m->sandboxes[i].state == SANDBOX_FREE);
	for (size_t i = 0; i < WORLD_IMAGES; i++)
		ASSERT(locks[i].users == 0);
	for (size_t i = 0; i < n_processes; i++)
		ASSERT(processes[i].ended);
	m->channel = fd_close(m->channel);
	m->signals = fd_close(m->signals);
	free(m->pid_table);
	m->pid_table = NULL;
	ASSERT(fuzz_count_descriptors() == n_descriptors);
}
