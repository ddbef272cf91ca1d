/* SPDX-License-Identifier: Apache-2.0 */
/* One function per row of `caisson doctor`. Each says what this machine has, how strong it is, and
 * what to do about it. Facts about the engine come from host_probe_run(); the rest is read here. */
#include "app/limits.h"
#include "doctor/doctor.h"

#include "base/attr.h"
#include "base/fdio.h"
#include "base/text.h"
#include "engine/engine.h"
#include "image/image.h"
#include "image/subuids.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <time.h>

#define CLOCK_FLOOR                                                                                \
	1735689600 /* 2025-01-01: with an earlier clock, no certificate or signed link is valid */
#define SPACE_MISSING    (UINT64_C(64) << 20)
#define SPACE_WEAK       (UINT64_C(1) << 30)
#define KERNEL_FLOOR     5013u /* cgroup.kill is 5.14, Landlock 5.13, NPROC by user namespace 5.14 */
#define LANDLOCK_SCOPES  6
#define SERVE_PORT       8181
#define DESCRIPTORS_GOOD 4096

#define SAY(r, ...)  ((void)snprintf((r)->value, sizeof((r)->value), __VA_ARGS__))
#define MEND(r, ...) ((void)snprintf((r)->mend, sizeof((r)->mend), __VA_ARGS__))

static bool is_root(const struct doctor_facts *f)
{
	return f->probe.uid == 0;
}

static void row_kernel(const struct doctor_facts *f, struct doctor_row *r)
{
	const struct host_probe *p = &f->probe;

	SAY(r, "Linux %s, %s, %s", p->release, p->machine,
	    is_root(f) ? "as root" : "as a plain user");
	if (p->kernel < KERNEL_FLOOR) {
		r->state = DOCTOR_WEAKER;
		MEND(r, "use Linux 5.14 or newer, better the 6.1 of Debian 12");
	}
}

/* The switch that may forbid user namespaces, and how to change it; NULL: no known switch does. */
static const char *userns_switch(const struct host_probe *p)
{
	/* AppArmor may permit them all the same, so it is the last one. */
	if (p->max_user_namespaces == 0)
		return "sudo sysctl -w user.max_user_namespaces=15000   (for good: a file in "
		       "/etc/sysctl.d)";
	if (p->unprivileged_userns_clone == 0)
		return "sudo sysctl -w kernel.unprivileged_userns_clone=1   (for good: a file in "
		       "/etc/sysctl.d)";
	if (p->apparmor_restrict_userns > 0)
		return "load the AppArmor profile that 'caisson doctor' prints (Ubuntu), or, for "
		       "all "
		       "programs: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
	return NULL;
}

static void row_namespaces(const struct doctor_facts *f, struct doctor_row *r)
{
	const struct host_probe *p = &f->probe;
	const char *how = userns_switch(p);
	int reached = 0;

	for (int i = 0; i < PROBE_TRY_MAX_; i++) {
		if (p->tried[i] == 0 || p->tried[i] == PROBE_NOT_THERE)
			continue;
		size_t n = strlen(r->value);
		(void)snprintf(r->value + n, sizeof(r->value) - n, "%s%s: %s", n ? "; " : "",
			       probe_try_text((enum probe_try)i), strerror(p->tried[i]));
		if (probe_try_needed((enum probe_try)i))
			r->state = DOCTOR_MISSING;
	}
	for (int i = 0; i < PROBE_TRY_MAX_; i++)
		reached += p->tried[i] == 0;
	if (reached == PROBE_TRY_MAX_) {
		SAY(r, "all %d kinds tried and working", reached);
		return;
	}
	r->state = DOCTOR_MISSING;
	if (!r->value[0])
		SAY(r, "no child process could be started");
	if (how)
		MEND(r, "%s", how);
	else if (p->tried[PROBE_PROC] > 0)
		MEND(r, "inside a container /proc is masked: run caisson on the host, or the "
			"container with "
			"--security-opt systempaths=unconfined");
	else
		MEND(r, "inside a container: run caisson on the host, or give the container "
			"CAP_SYS_ADMIN and no "
			"system call filter; else run it as root");
}

static void row_uids(const struct doctor_facts *f, struct doctor_row *r)
{
	const struct host_probe *p = &f->probe;
	const struct passwd *pw = getpwuid(p->uid);
	char command[SUBUIDS_COMMAND_MAX];

	switch (p->uids) {
	case PROBE_UIDS_RANGE:
		if (p->n_uids < PROBE_RANGE_FULL)
			SAY(r, "%u ids of this container", p->n_uids);
		else
			SAY(r, "a range of %u ids of this server's own", p->n_uids);
		return;
	case PROBE_UIDS_SUBUID:
		SAY(r, "%u ids of /etc/subuid", p->n_uids);
		return;
	case PROBE_UIDS_SINGLE:
	default:
		r->state = DOCTOR_WEAKER;
		SAY(r, "all sandboxes share your uid on the host and are kept apart by their "
		       "namespaces alone. One of them can use up what the kernel counts by uid "
		       "(watches of epoll): the server then takes no new clients for a while");
	}
	if (!p->newuidmap)
		MEND(r, "sudo apt-get install uidmap");
	else if (!p->subuid_entry) {
		subuids_command("/etc", pw ? pw->pw_name : "USER", command);
		MEND(r, "sudo %s", command);
	} else
		MEND(r, "newuidmap refuses the range of /etc/subuid: it must be set-uid root and "
			"the range 65,536 long; a container must not have no-new-privileges, and "
			"needs --cap-add SETUID --cap-add SETGID");
}

static void limit_row(const struct doctor_facts *f, struct doctor_row *r, uint32_t cap,
		      const char *instead)
{
	const struct host_probe *p = &f->probe;

	if (p->enforced & cap) {
		SAY(r, "%s", streq(p->cgroup, "none") ? "held by rlimits" : p->cgroup);
		if (!streq(p->cgroup, "none"))
			SAY(r, "held by cgroup %s", p->cgroup);
		return;
	}
	r->state = DOCTOR_WEAKER;
	SAY(r, "%s", instead);
	MEND(r, "%s", doctor_cgroup_fault(is_root(f)));
}

static void row_memory(const struct doctor_facts *f, struct doctor_row *r)
{
	limit_row(f, r, ENGINE_CAP_MEMORY,
		  "best effort: address space of each process, and polling");
}

static void row_swap(const struct doctor_facts *f, struct doctor_row *r)
{
	if (!(f->probe.enforced & ENGINE_CAP_MEMORY)) {
		r->state = DOCTOR_WEAKER;
		SAY(r, "not limited (no memory limit)");
	} else if (f->probe.swap) {
		SAY(r, "counted with memory");
	} else {
		r->state = DOCTOR_WEAKER;
		SAY(r, "not limited: a sandbox may fill the host's swap");
		MEND(r, "boot with swapaccount=1, or switch swap off (swapoff -a)");
	}
}

static void row_cpu(const struct doctor_facts *f, struct doctor_row *r)
{
	limit_row(f, r, ENGINE_CAP_CPU, "not limited; time limits of runs hold");
}

static void row_pids(const struct doctor_facts *f, struct doctor_row *r)
{
	limit_row(f, r, ENGINE_CAP_PIDS, "best effort: RLIMIT_NPROC");
}

static void row_disk(const struct doctor_facts *f, struct doctor_row *r)
{
	if (f->probe.enforced & ENGINE_CAP_DISK) {
		const bool disk = is_root(f) && f->probe.loop;

		if (streq(f->settings->workspace, "memory") || !disk)
			SAY(r, "tmpfs: bytes and inodes, counted as the sandbox's memory");
		else
			SAY(r,
			    "workspace: a disk of its own, not memory, if the state folder is on "
			    "one; /tmp: tmpfs");
		if (disk || !streq(f->settings->workspace, "disk"))
			return;
		r->state = DOCTOR_MISSING;
		MEND(r, "SANDBOX_WORKSPACE=disk needs `caisson serve` as root and loop devices");
		return;
	}
	r->state = DOCTOR_MISSING;
	SAY(r, "no tmpfs with limits");
}

static void row_persistent(const struct doctor_facts *f, struct doctor_row *r)
{
	if (is_root(f) && f->probe.loop) {
		SAY(r, "disk images over loop devices");
		if (f->settings->total_disk > 0)
			SAY(r, "disk images over loop devices, of %" PRIu64 " MiB in all",
			    f->settings->total_disk >> 20);
		return;
	}
	struct limits_insisted insisted = {0};
	struct err ignored = ERR_INIT;

	(void)!limits_insisted(f->settings, &insisted,
			       &ignored); /* `serve` reports the error when it starts */
	r->state = DOCTOR_WEAKER;
	if (is_root(f)) {
		r->state = DOCTOR_NOTE;
		SAY(r, "only workspaces that live as long as their sandbox");
		MEND(r, "modprobe loop");
	} else if (insisted.stored & ENGINE_CAP_DISK) {
		SAY(r, "none is made: their limits were set, and cannot be enforced here");
		MEND(r, "run `caisson serve` as root, or set SANDBOX_ALLOW_WEAKER=disk");
	} else {
		SAY(r, "best effort: folders, which are counted while runs go on; a run that "
		       "passes the limit is ended");
		MEND(r, "run `caisson serve` as root");
	}
}

static void row_seccomp(const struct doctor_facts *f, struct doctor_row *r)
{
	if (f->probe.seccomp) {
		SAY(r, "loads; foreign calls end the process");
		return;
	}
	r->state = DOCTOR_MISSING;
	SAY(r, "the filter cannot be loaded");
	MEND(r, "the kernel needs CONFIG_SECCOMP_FILTER; in a container, a profile that allows "
		"seccomp(2)");
}

static void row_landlock(const struct doctor_facts *f, struct doctor_row *r)
{
	int level = f->probe.landlock;

	if (level >= LANDLOCK_SCOPES) {
		SAY(r, "level %d", level);
		return;
	}
	r->state = DOCTOR_WEAKER;
	if (level >= 2) {
		SAY(r,
		    "level %d: paths, without the walls for signals and abstract sockets (level "
		    "%d)",
		    level, LANDLOCK_SCOPES);
		MEND(r, "use Linux 6.12 or newer");
		return;
	}
	SAY(r, level == 0 ? "not there: the mounts are the only wall of files"
			  : "level 1 is not used: it forbids every move between folders");
	MEND(r, "use Linux 6.12 or newer and have landlock among lsm= of the kernel command line");
}

static void row_front(const struct doctor_facts *f, struct doctor_row *r)
{
	if (!f->probe.front_filter) {
		r->state = DOCTOR_MISSING;
		SAY(r, "the server cannot load its own system call filter, and refuses to start");
		MEND(r, "the kernel needs CONFIG_SECCOMP_FILTER; in a container, a profile that "
			"allows seccomp(2)");
	} else if (!f->probe.front_landlock) {
		r->state = DOCTOR_WEAKER;
		SAY(r, "system call filter; without Landlock the rights of its uid alone say which "
		       "files it can open");
		MEND(r, "use Linux 6.12 or newer and have landlock among lsm= of the kernel "
			"command line");
	} else {
		SAY(r, "system call filter, and Landlock for its files");
	}
}

static void row_calls(const struct doctor_facts *f, struct doctor_row *r)
{
	const struct host_probe *p = &f->probe;

	if (p->openat2 && p->pidfd && p->close_range) {
		SAY(r, "openat2, pidfd_open, close_range");
		return;
	}
	r->state = DOCTOR_MISSING;
	SAY(r, "missing:%s%s%s", p->openat2 ? "" : " openat2", p->pidfd ? "" : " pidfd_open",
	    p->close_range ? "" : " close_range");
	MEND(r, "use Linux 5.9 or newer; in a container, a profile that allows them");
}

struct image_list {
	char names[200];
	const char *wanted;
	bool found;
};

static int add_image(void *user, const struct image_manifest *m)
{
	struct image_list *l = user;
	size_t n = strlen(l->names);

	(void)snprintf(l->names + n, sizeof(l->names) - n, "%s%s", n ? ", " : "",
		       image_manifest_str(m, "name"));
	l->found |= streq(image_manifest_str(m, "name"), l->wanted);
	return 0;
}

static void row_image(const struct doctor_facts *f, struct doctor_row *r)
{
	struct image_list list = {.wanted = f->image};
	struct image_store store = {.dir = -1};
	struct err e = ERR_INIT;

	if (f->state_dir[0] && image_store_open(&store, f->state_dir, false, &e) == 0) {
		if (image_manifest_each(&store, IMAGES_ALL, add_image, &list, &e) < 0)
			list.found = false;
		image_store_done(&store);
	}
	SAY(r, "%s", list.names);
	if (list.found)
		return;
	r->state = DOCTOR_MISSING;
	SAY(r, "'%s' is not there%s%s", f->image, list.names[0] ? "; there are: " : "", list.names);
	MEND(r, "caisson image build %s", f->image);
}

/* Cuts PATH to its nearest parent that exists. */
static bool find_existing(char path[PATH_MAX])
{
	while (access(path, F_OK) != 0) {
		char *slash = strrchr(path, '/');
		if (!slash)
			return false;
		slash[slash == path] = '\0';
		if (slash == path)
			break;
	}
	return true;
}

static void row_state_dir(const struct doctor_facts *f, struct doctor_row *r)
{
	char path[PATH_MAX];
	struct statvfs v;

	memcpy(path, f->state_dir, sizeof(path));
	if (!path[0] || !find_existing(path) || statvfs(path, &v) < 0) {
		r->state = DOCTOR_MISSING;
		SAY(r, "there is no folder for images");
		MEND(r, "set HOME, or name one: --state-dir DIR");
		return;
	}
	uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
	SAY(r, "%.200s, %" PRIu64 " MiB free", f->state_dir, free_bytes >> 20);
	if (access(path, W_OK | X_OK) != 0) {
		r->state = DOCTOR_WEAKER;
		SAY(r, "%.200s cannot be %s", f->state_dir,
		    streq(path, f->state_dir) ? "written" : "made");
		MEND(r, "sudo install -d -o %u %.200s; or name another: --state-dir DIR",
		     f->probe.uid, f->state_dir);
	} else if (free_bytes < SPACE_WEAK || (v.f_files > 0 && v.f_favail < 1000)) {
		r->state = free_bytes < SPACE_MISSING ? DOCTOR_MISSING : DOCTOR_WEAKER;
		MEND(r, "free some space: an image takes about 1 GiB while it is built twice that");
	} else if (is_root(f) && streq(f->name, "native") && !fd_folder_allocates(path)) {
		r->state = DOCTOR_WEAKER;
		SAY(r,
		    "%.120s: its file system cannot allocate blocks ahead; if another program "
		    "fills it, stored "
		    "sandboxes can lose what they have not flushed",
		    f->state_dir);
		MEND(r, "put the state folder on ext4, XFS or btrfs: --state-dir DIR");
	}
}

static bool port_free(uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	_cleanup_fd_ int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;

	return s >= 0 && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
	       bind(s, (struct sockaddr *)&a, sizeof(a)) == 0;
}

/* Each client takes one or two descriptors, each sandbox some. The server raises its soft limit to the hard one. */
static void row_descriptors(const struct doctor_facts *f UNUSED, struct doctor_row *r)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0) {
		SAY(r, "the limit cannot be read");
		return;
	}
	if (l.rlim_max >= DESCRIPTORS_GOOD) {
		SAY(r, "up to %ju", (uintmax_t)l.rlim_max);
		return;
	}
	r->state = DOCTOR_WEAKER;
	SAY(r,
	    "at most %ju, a part of them for clients, the others for sandboxes. Whoever comes "
	    "later is "
	    "refused (429, 503, too many open files); what is there goes on",
	    (uintmax_t)l.rlim_max);
	MEND(r, "LimitNOFILE=65536 in the unit of systemd; elsewhere, as root: ulimit -Hn 65536 "
		"before the server is started");
}

static void row_ports(const struct doctor_facts *f, struct doctor_row *r)
{
	int links = f->settings->http_port;
	bool main_free = port_free(SERVE_PORT);
	bool links_free = links <= 0 || port_free((uint16_t)links);

	if (main_free && links_free) {
		SAY(r, links > 0 ? "%d and %d are free" : "%d is free", SERVE_PORT, links);
		return;
	}
	r->state = DOCTOR_NOTE;
	if (!main_free && !links_free)
		SAY(r, "%d and %d are taken (by a caisson that runs?)", SERVE_PORT, links);
	else
		SAY(r, "%d is taken (by a caisson that runs?)", main_free ? links : SERVE_PORT);
	MEND(r, "links then use a free port; for the server: --listen 127.0.0.1:PORT");
}

static void row_root_users(const struct doctor_facts *f, struct doctor_row *r)
{
	const uint32_t counted = ENGINE_CAP_MEMORY | ENGINE_CAP_PIDS;
	const bool wanted = f->settings->root;
	char path[PATH_MAX];
	int tried;

	/* A server with SANDBOX_ROOT=on does not start without these. */
	if (!is_root(f) || (f->probe.enforced & counted) != counted) {
		r->state = wanted ? DOCTOR_MISSING : DOCTOR_NOTE;
		SAY(r, "not possible: they take a server that root started, and control groups for "
		       "memory and processes");
		if (wanted)
			MEND(r, "run `caisson serve` as root, or set SANDBOX_ROOT=off");
		return;
	}
	(void)snprintf(path, sizeof(path), "%.4000s/images", f->state_dir);
	if (!f->state_dir[0] || !find_existing(path))
		return; /* row_state_dir() says so */
	tried = probe_mapped_mount(path);
	if (tried == 0) {
		SAY(r, "images can be mounted with owners of a sandbox's own%s",
		    wanted ? "" : " (off: SANDBOX_ROOT)");
		return;
	}
	r->state = wanted ? DOCTOR_WEAKER : DOCTOR_NOTE;
	SAY(r, "no sandbox can have one: %.200s cannot be mounted with other owners (%s)", path,
	    strerror(-tried));
	MEND(r, "use Linux 5.19 or newer, and a state folder on ext4, XFS or btrfs: --state-dir "
		"DIR");
}

static void row_public_ports(const struct doctor_facts *f, struct doctor_row *r)
{
	if (!f->settings->public_ports)
		return;
	r->state = DOCTOR_NOTE;
	SAY(r, "owners may open ports of their sandboxes to everybody (SANDBOX_PUBLIC_PORTS)");
}

static void row_clock(const struct doctor_facts *f UNUSED, struct doctor_row *r)
{
	time_t now = time(NULL);
	struct tm tm;

	if (!gmtime_r(&now, &tm) ||
	    strftime(r->value, sizeof(r->value), "%Y-%m-%d %H:%M UTC", &tm) == 0)
		SAY(r, "cannot be read");
	if (now < CLOCK_FLOOR) {
		r->state = DOCTOR_WEAKER;
		MEND(r, "set the clock (timedatectl set-ntp true): signatures of packages and "
			"links do not hold");
	}
}

static void row_core_dumps(const struct doctor_facts *f, struct doctor_row *r)
{
	const char *pattern = f->probe.core_pattern;

	if (pattern[0] != '|' && pattern[0] != '@') {
		SAY(r, "to files");
		return;
	}
	SAY(r, "go to a handler of the host; held back in sandboxes (RLIMIT_CORE 1, which they "
	       "cannot change)");
}

/* Sandboxes cannot reach these kernel features, but other programs on the host can. */
static void door_row(struct doctor_row *r, bool closed, const char *yes, const char *no,
		     const char *mend)
{
	SAY(r, "%s", closed ? yes : no);
	if (closed)
		return;
	r->state = DOCTOR_NOTE;
	MEND(r, "%s", mend);
}

static void row_bpf(const struct doctor_facts *f, struct doctor_row *r)
{
	door_row(r, f->probe.unprivileged_bpf_disabled != 0, "off",
		 "open to every user; closed to sandboxes by the filter",
		 "sudo sysctl -w kernel.unprivileged_bpf_disabled=1");
}

static void row_io_uring(const struct doctor_facts *f, struct doctor_row *r)
{
	int v = f->probe.io_uring_disabled;

	door_row(r, v > 0, "off", "open to every user; closed to sandboxes by the filter",
		 v == 0 ? "sudo sysctl -w kernel.io_uring_disabled=2" : "");
}

static void row_modules(const struct doctor_facts *f, struct doctor_row *r)
{
	if (!f->probe.af_modules[0] || f->probe.modules_disabled > 0) {
		SAY(r, "none of those with a record of root bugs");
		return;
	}
	r->state = DOCTOR_NOTE;
	SAY(r, "%s; closed to sandboxes by the filter", f->probe.af_modules);
	MEND(r, "list those you do not use as `install NAME /bin/false` in "
		"/etc/modprobe.d/caisson.conf");
}

static void row_cpu_bugs(const struct doctor_facts *f, struct doctor_row *r)
{
	if (!f->probe.vulnerable[0]) {
		SAY(r, "mitigated");
		return;
	}
	r->state = DOCTOR_NOTE;
	SAY(r, "without mitigation: %s", f->probe.vulnerable);
	MEND(r, "update microcode and kernel, and do not boot with mitigations=off");
}

static void row_ksm(const struct doctor_facts *f, struct doctor_row *r)
{
	door_row(r, f->probe.ksm != 1, "off",
		 "on: equal pages of different tenants can be told by timing",
		 "echo 2 | sudo tee /sys/kernel/mm/ksm/run");
}

const struct doctor_check doctor_checks[] = {
#define D(id, engine, what) {#id, what, DOCTOR_FOR_##engine, row_##id},
#include "doctor/doctor.tbl.h"
#undef D
};
const size_t doctor_n_checks = ARRAY_SIZE(doctor_checks);
