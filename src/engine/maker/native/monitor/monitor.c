/* SPDX-License-Identifier: Apache-2.0 */
/* The monitor's start, loop and end. Theory of operation: monitor.h. */
#include "engine/maker/native/monitor/monitor.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/parent.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/maker/common/blob.h"
#include "engine/maker/native/monitor/devices.h"
#include "engine/maker/native/monitor/workspace_store.h"
#include "walls/confine.h"
#include "walls/filter.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define ZYGOTES_MAX ((size_t)IMAGES_MAX * 2)
#define OTHERS      ((size_t)3) /* that the loop waits for */

void monitor_send(struct monitor *m, const struct proto_head *frame, const int *fds, size_t n)
{
	if (!m->ending)
		(void)!parent_send(m->channel, m->front, frame, frame->size, fds, n);
}

/* Returns false when the monitor must end. */
static bool take_signals(struct monitor *m)
{
	struct signalfd_siginfo info;

	while (read(m->signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
			return false;
	return reap_children(m) == 0;
}

/* Each image has at most two zygotes: the current one and its successor. */
static struct zygote *zygote_at(struct monitor *m, size_t i)
{
	struct zygotes *n = &m->templates[i / 2].zygotes;

	return i % 2 == 0 ? &n->current : &n->successor;
}

static int wait_ms(uint64_t until)
{
	uint64_t now = now_ns();

	if (until == 0)
		return -1;
	return until <= now ? 0 : (int)MIN((until - now) / NS_PER_MS + 1, (uint64_t)INT_MAX);
}

static void loop(struct monitor *m)
{
	struct pollfd p[OTHERS + ZYGOTES_MAX] = {{.fd = m->signals, .events = POLLIN},
						 {.fd = m->channel, .events = POLLIN},
						 {.fd = m->front, .events = POLLIN}};

	for (;;) {
		const uint64_t tick = zygote_tick(m);
		const uint64_t look = space_look(m);
		const uint64_t next = tick == 0 || (look != 0 && look < tick) ? look : tick;
		for (size_t i = 0; i < ZYGOTES_MAX; i++) {
			const struct zygote *z = zygote_at(m, i);
			p[OTHERS + i] = (struct pollfd){
			    .fd = z->state == ZYGOTE_NONE ? -1 : z->channel, .events = POLLIN};
		}
		if (poll(p, ARRAY_SIZE(p), wait_ms(next)) < 0 && errno != EINTR)
			return;
		if (p[0].revents && !take_signals(m))
			return;
		if (p[1].revents && requests_take(m) < 0)
			return;
		if (p[2].revents)
			return;
		for (size_t i = 0; i < ZYGOTES_MAX; i++)
			if (p[OTHERS + i].revents && zygote_at(m, i)->state != ZYGOTE_NONE &&
			    zygote_at(m, i)->channel == p[OTHERS + i].fd)
				zygote_event(m, &m->templates[i / 2], zygote_at(m, i));
	}
}

/* ---- start and end ---- */

/* Makes the system call itself: the C library does not let us touch the two signals that it uses. */
void monitor_plain_signals(void)
{
	static const struct {
		uint64_t handler, flags, restorer, mask;
	} plain = {0}; /* the kernel's struct sigaction: SIG_DFL */
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		(void)syscall(SYS_rt_sigaction, i, &plain, NULL, sizeof(plain.mask));
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int start_signals(struct monitor *m)
{
	sigset_t set;

	monitor_plain_signals();
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	m->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (m->signals < 0)
		return -errno;
	return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int start_memory(struct monitor *m)
{
	uint32_t n = m->config->max_sandboxes;

	m->sandboxes = calloc(n, sizeof(*m->sandboxes));
	if (!m->sandboxes)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		m->sandboxes[i].channel = -1;
		m->sandboxes[i].warm = -1;
		m->sandboxes[i].disk = DISK_NONE;
		m->sandboxes[i].fds = CGROUP_FDS_NONE;
	}
	m->reports = mmap(NULL, sizeof(*m->reports) * (n + 1), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m->reports == MAP_FAILED)
		return -errno;
	return reap_init(m);
}

/* The memfds that every sandbox shares. They are sealed, so that no process can change them; that of
 * init has the mode 0555, because init executes it with the uid of a sandbox. */
static int start_program(struct monitor *m, struct err *e)
{
	_cleanup_free_ struct filter_program *filter = calloc(1, sizeof(*filter));
	int liveness[2];

	if (!filter)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "monitor");
	int r = filter_compile(&filter_run, 0, filter, e);
	if (r < 0)
		return r;
	m->init_program = fd_sealed_memfd("init", native_init_program,
					  (size_t)(native_init_program_end - native_init_program));
	if (m->init_program < 0 || fchmod(m->init_program, 0555) < 0)
		return err_set(e, ERR_SYSTEM, errno, "init's program");
	m->filter = fd_sealed_memfd("filter", filter->insn, filter->n * sizeof(filter->insn[0]));
	if (m->filter < 0)
		return err_set(e, ERR_SYSTEM, -m->filter, "the system call filter");
	m->extension = -1;
	if (m->config->warm)
		m->extension = fd_sealed_memfd(
		    "caisson", native_zygote_extension,
		    (size_t)(native_zygote_extension_end - native_zygote_extension));
	if (pipe2(liveness, O_CLOEXEC) < 0)
		return err_set(e, ERR_SYSTEM, errno, "the liveness pipe");
	m->liveness_read = liveness[0];
	m->liveness_write = liveness[1];
	return 0;
}

/* Root without CAP_MKNOD (in some containers) binds the host's device nodes, as a plain user does. */
static void try_devices(struct monitor *m)
{
	_cleanup_fd_ int dev = m->root ? devices_make() : -1;

	m->own_devices = dev >= 0;
}

static int limit_all(struct monitor *m, struct err *e)
{
	int r = m->cgroup.ops->limit_all(&m->cgroup, m->config->total_bytes);

	return r == 0 ? 0
		      : err_set(e, ERR_LIMIT_NOT_ENFORCEABLE, -r,
				"the memory of all sandboxes together cannot be limited here");
}

static int start(struct monitor *m, struct instance *in, struct err *e)
{
	int r = start_signals(m);

	if (r == 0)
		r = start_memory(m);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "monitor");
	m->instance = in;
	try_devices(m);
	r = instance_open(in, m->root, e);
	if (r < 0)
		return r;
	instance_sweep(in);
	m->ids.count = m->config->max_sandboxes;
	if (m->root)
		r = confine_monitor(e);
	if (r < 0)
		return r;
	r = ids_reserve(&m->ids, m->root, in->run_dir, e);
	if (r == 0)
		r = cgroup_open(&m->cgroup, in->name, e);
	if (r == 0)
		r = instance_record(in, &m->cgroup, e);
	if (r == 0 && m->config->total_bytes > 0)
		r = limit_all(m, e);
	if (r == 0)
		r = session_disks_open(m, e);
	if (r == 0 && space_open(m) < 0)
		r = err_set(e, ERR_OUT_OF_MEMORY, errno, "monitor");
	if (r == 0)
		r = start_program(m, e);
	if (r == 0) {
		monitor_slim_children();
		workspace_sweep(m);
		space_begin(m);
	}
	return r;
}

static void say_hello(struct monitor *m, const struct err *e)
{
	struct proto_mon_hello h = {
	    .head = PROTO_HEAD(MON_HELLO, proto_mon_hello),
	    .version = PROTO_VERSION,
	    .enforced = m->cgroup.enforced | PROTO_CAP_DISK | workspace_enforced(m) |
			(m->disks.dir >= 0 ? PROTO_CAP_ON_DISK : 0u) |
			(m->config->total_bytes > 0 ? PROTO_CAP_TOTAL : 0u) |
			(monitor_has_root(m) ? PROTO_CAP_ROOT : 0u) |
			(m->ids.mode != IDS_SINGLE ? PROTO_CAP_OWN_UID : 0u),
	    .best_effort = m->cgroup.best_effort | workspace_best_effort(m),
	    .slots = m->config->max_sandboxes,
	    .levels = 1,
	    .front_uid = m->ids.mode == IDS_RANGE ? ids_front(&m->ids) : 0,
	    .err_code = e->code,
	    .errnum = e->errnum,
	};

	char images[PATH_MAX];
	(void)snprintf(images, sizeof(images), "%s/images", m->config->state_dir);
	_cleanup_fd_ int fd = open(images, O_PATH | O_DIRECTORY | O_CLOEXEC);
	(void)!text_copy(h.cgroup, sizeof(h.cgroup), m->cgroup.ops ? m->cgroup.ops->name : "none");
	(void)snprintf(h.text, sizeof(h.text), "%.*s", (int)sizeof(h.text) - 1, e->text);
	monitor_send(m, &h.head, &fd, fd >= 0 ? 1 : 0);
}

int monitor_main(const struct native_monitor_config *config)
{
	static struct monitor m;
	static struct instance in;
	struct err e = ERR_INIT;
	int type;
	socklen_t len = sizeof(type);

	m.config = config;
	m.channel = MONITOR_FD;
	m.front = parent_watch();
	m.root = geteuid() == 0;
	if (getsockopt(m.channel, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET) {
		(void)fprintf(stderr,
			      "caisson monitor: it is started by the other verbs, not by hand\n");
		return err_code_exit(ERR_USAGE);
	}
	in.lock = -1;
	(void)umask(022);
	(void)prctl(PR_SET_NAME, "caisson-monitor", 0, 0,
		    0); /* its name would be "exe", after /proc/self/exe */
	loop_goes_first();
	int r = start(&m, &in, &e);
	say_hello(&m, &e);
	if (r == 0)
		loop(&m);
	if (m.sandboxes && m.pid_table)
		reap_all(&m);
	instance_close(&in, cgroup_close(&m.cgroup));
	return r < 0 ? err_code_exit(e.code) : 0;
}
