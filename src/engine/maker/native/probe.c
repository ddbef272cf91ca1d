/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/native/probe.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"
#include "engine/engine.h"
#include "engine/maker/native/monitor/loop_device.h"
#include "engine/maker/native/monitor/monitor.h"
#include "walls/confine.h"
#include "walls/filter.h"
#include "walls/landlock.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define SMALL_FILE_MAX  (64u << 10)
#define SUBID_FILE_MAX  (1u << 20)
#define VULNERABILITIES "/sys/devices/system/cpu/vulnerabilities"

static const struct {
	const char *what;
	bool needed;
} tries[] = {
#define P(name, needed, what) [PROBE_##name] = {what, needed},
#include "engine/maker/native/probe.tbl.h"
#undef P
};

const char *probe_try_text(enum probe_try t)
{
	return tries[t].what;
}

bool probe_try_needed(enum probe_try t)
{
	return tries[t].needed;
}

bool host_probe_usable(const struct host_probe *p)
{
	for (size_t i = 0; i < PROBE_TRY_MAX_; i++)
		if (tries[i].needed && p->tried[i] != 0)
			return false;
	return p->seccomp && p->openat2 && p->pidfd && p->close_range;
}

/* The first line of a small file, without its newline; "" when it cannot be read. */
static bool read_line(const char *path, char *ret, size_t size)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(SMALL_FILE_MAX);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	ret[0] = '\0';
	if (fd < 0 || fd_read_file(fd, &b) < 0)
		return false;
	const char *s = buf_str(&b);
	size_t n = MIN(strcspn(s, "\n"), size - 1);
	memcpy(ret, s, n);
	ret[n] = '\0';
	return true;
}

static int read_sysctl(const char *name)
{
	char path[128];
	char text[32];
	int64_t v;

	(void)snprintf(path, sizeof(path), "/proc/sys/%s", name);
	if (!read_line(path, text, sizeof(text)) || parse_i64(text, -1000, INT32_MAX, &v) < 0)
		return PROBE_NOT_THERE;
	return (int)v;
}

const char *host_userns_refusal(bool certain)
{
	char label[64];

	if (read_sysctl("user/max_user_namespaces") == 0)
		return "user.max_user_namespaces is 0: sudo sysctl -w "
		       "user.max_user_namespaces=15000";
	if (geteuid() == 0)
		return NULL;
	if (read_sysctl("kernel/unprivileged_userns_clone") == 0)
		return "kernel.unprivileged_userns_clone is 0: sudo sysctl -w "
		       "kernel.unprivileged_userns_clone=1";
	/* A program with a profile of its own is asked by that profile. */
	if (!certain && read_sysctl("kernel/apparmor_restrict_unprivileged_userns") > 0 &&
	    (!read_line("/proc/self/attr/apparmor/current", label, sizeof(label)) ||
	     text_starts_with(label, "unconfined")))
		return "kernel.apparmor_restrict_unprivileged_userns is 1: load the AppArmor "
		       "profile "
		       "that 'caisson doctor' prints, or sudo sysctl -w "
		       "kernel.apparmor_restrict_unprivileged_userns=0";
	return NULL;
}

static void probe_kernel(struct host_probe *p)
{
	struct utsname u;
	uint64_t major;
	uint64_t minor;

	if (uname(&u) < 0)
		return;
	(void)snprintf(p->release, sizeof(p->release), "%s", u.release);
	(void)snprintf(p->machine, sizeof(p->machine), "%s", u.machine);
	size_t a = strspn(u.release, "0123456789");
	size_t b = u.release[a] == '.' ? strspn(u.release + a + 1, "0123456789") : 0;
	if (parse_u64_n(u.release, a, 0, 999, &major) == 0 &&
	    parse_u64_n(u.release + a + 1, b, 0, 999, &minor) == 0)
		p->kernel = (uint32_t)(major * 1000 + minor);
}

static void probe_subuid(struct host_probe *p)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(SUBID_FILE_MAX);
	_cleanup_fd_ int fd = open("/etc/subuid", O_RDONLY | O_CLOEXEC);
	struct ids ids = {.lock = -1};

	p->newuidmap =
	    access("/usr/bin/newuidmap", X_OK) == 0 && access("/usr/bin/newgidmap", X_OK) == 0;
	p->max_user_namespaces = read_sysctl("user/max_user_namespaces");
	p->unprivileged_userns_clone = read_sysctl("kernel/unprivileged_userns_clone");
	p->apparmor_restrict_userns = read_sysctl("kernel/apparmor_restrict_unprivileged_userns");
	if (p->uid == 0 || fd < 0 || fd_read_file(fd, &b) < 0)
		return;
	const struct passwd *pw = getpwuid(p->uid);
	p->subuid_entry = ids_parse_subid(buf_str(&b), pw ? pw->pw_name : NULL, p->uid, 1,
					  &ids.base, &ids.count) == 0;
}

/* Opens the control groups in a child, because that may move the process and its parent into a leaf
 * group. */
static void probe_cgroup(struct host_probe *p)
{
	struct shared {
		uint32_t enforced, best_effort;
		bool swap;
		char name[sizeof(p->cgroup)];
	} *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	(void)snprintf(p->cgroup, sizeof(p->cgroup), "none");
	if (s == MAP_FAILED)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		struct cgroup c;
		struct err e = ERR_INIT;
		char instance[32];

		(void)snprintf(instance, sizeof(instance), "caisson-probe-%d", (int)getpid());
		if (cgroup_open(&c, instance, &e) < 0)
			_exit(1);
		s->enforced = c.enforced;
		s->best_effort = c.best_effort;
		s->swap = c.swap;
		(void)snprintf(s->name, sizeof(s->name), "%s", c.ops->name);
		cgroup_close(&c);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (s->name[0]) {
		p->enforced |= s->enforced;
		p->best_effort |= s->best_effort;
		p->swap = s->swap;
		memcpy(p->cgroup, s->name, sizeof(p->cgroup));
	}
	(void)munmap(s, sizeof(*s));
}

static bool can_filter(void)
{
	static struct filter_program f;
	struct err e = ERR_INIT;
	int status = 0;
	uint32_t kill = SECCOMP_RET_KILL_PROCESS;

	if (syscall(__NR_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill) != 0 ||
	    filter_compile(&filter_run, 0, &f, &e) < 0)
		return false;
	pid_t pid = fork();
	if (pid == 0)
		_exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && filter_load(f.insn, f.n) == 0
			  ? 0
			  : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

/* A child tries the restrictions that the front applies to itself when it starts (confine.h). */
static void probe_front(struct host_probe *p)
{
	enum { FILES = 1, FILTER = 2 };
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		const struct confine_places none = {0};
		struct err e = ERR_INIT;
		int done = 0;
		int files = confine_files(&none);

		if (files >= 0)
			done |= FILES;
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && confine_front(files, &e) == 0)
			done |= FILTER;
		_exit(done);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return;
	p->front_landlock = WEXITSTATUS(status) & FILES;
	p->front_filter = WEXITSTATUS(status) & FILTER;
}

static void probe_calls(struct host_probe *p)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
	int fd = (int)syscall(__NR_openat2, AT_FDCWD, "/", &how, sizeof(how));

	p->openat2 = fd >= 0;
	(void)fd_close(fd);
	fd = (int)syscall(__NR_pidfd_open, getpid(), 0);
	p->pidfd = fd >= 0;
	(void)fd_close(fd);
	p->close_range = syscall(__NR_close_range, ~0U, ~0U, 0) == 0;
	p->seccomp = can_filter();
	p->landlock = landlock_abi();
	p->loop = loop_device_try() == 0;
}

static void add_word(char *list, size_t size, const char *word)
{
	size_t n = strlen(list);

	if (n + strlen(word) + 3 < size)
		(void)snprintf(list + n, size - n, "%s%s", n ? ", " : "", word);
}

static void probe_cpu_bugs(struct host_probe *p)
{
	_cleanup_dir_ DIR *d = opendir(VULNERABILITIES);
	const struct dirent *de;

	while (d && (de = readdir(d))) {
		char path[512];
		char line[PROBE_TEXT_MAX];

		(void)snprintf(path, sizeof(path), "%s/%s", VULNERABILITIES, de->d_name);
		if (de->d_name[0] != '.' && read_line(path, line, sizeof(line)) &&
		    text_starts_with(line, "Vulnerable"))
			add_word(p->vulnerable, sizeof(p->vulnerable), de->d_name);
	}
}

/* Finds modules of protocols that had bugs leading to root and that socket(2) loads for any user.
 * The filter of sandboxes permits three address families, so only the host's other users can reach
 * these modules. */
static void probe_modules(struct host_probe *p)
{
	static const char *const modules[] = {"af_alg", "algif_aead", "rxrpc", "esp4",
					      "esp6",   "tipc",       "sctp",  "dccp",
					      "vsock",  "can",        "rds",   "n_gsm"};
	_cleanup_(buf_done) struct buf b = BUF_INIT(4u << 20);
	char path[256];

	(void)snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", p->release);
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fd_read_file(fd, &b) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++) {
		char file[64];

		(void)snprintf(file, sizeof(file), "/%s.ko", modules[i]);
		if (strstr(buf_str(&b), file))
			add_word(p->af_modules, sizeof(p->af_modules), modules[i]);
	}
}

static void probe_host(struct host_probe *p)
{
	char ksm[16];
	uint64_t run;

	p->unprivileged_bpf_disabled = read_sysctl("kernel/unprivileged_bpf_disabled");
	p->io_uring_disabled = read_sysctl("kernel/io_uring_disabled");
	p->perf_event_paranoid = read_sysctl("kernel/perf_event_paranoid");
	p->kexec_load_disabled = read_sysctl("kernel/kexec_load_disabled");
	p->modules_disabled = read_sysctl("kernel/modules_disabled");
	(void)read_line("/proc/sys/kernel/core_pattern", p->core_pattern, sizeof(p->core_pattern));
	p->ksm = PROBE_NOT_THERE;
	if (read_line("/sys/kernel/mm/ksm/run", ksm, sizeof(ksm)) &&
	    parse_u64(ksm, 0, 10, &run) == 0)
		p->ksm = (int)run;
	probe_cpu_bugs(p);
	probe_modules(p);
}

void host_probe_run(struct host_probe *ret)
{
	struct host_probe *p = ret;

	*p = (struct host_probe){.uid = geteuid()};
	probe_kernel(p);
	probe_subuid(p);
	probe_namespaces(p);
	probe_calls(p);
	probe_front(p);
	probe_cgroup(p);
	probe_host(p);
	if (p->uids != PROBE_UIDS_SINGLE)
		p->enforced |= ENGINE_CAP_OWN_UID;
	if (p->tried[PROBE_TMPFS] == 0)
		p->enforced |= ENGINE_CAP_DISK;
}
