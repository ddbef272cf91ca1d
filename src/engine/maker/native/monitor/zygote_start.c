/* SPDX-License-Identifier: Apache-2.0 */
/* How a fork of the monitor becomes a zygote: it enters Z as its root, gets its own mounts, network and
 * IPC, makes the image its root and executes the image's Python. Nothing of the host is left in it. */
#include "base/buf.h"
#include "base/fdio.h"
#include "base/kill_points.h"
#include "engine/maker/common/blob.h"
#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/monitor/zygote.h"
#include "frames.h"
#include "texts.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define PYTHON          "/usr/bin/python3"
#define TMP_OPTIONS     "mode=1777,size=64m,nr_inodes=4k"
#define MACHINE_LIBRARY "/tmp/.caisson-machine.so"
#define FDS_FROM        3  /* channel, extension, filter: runtime/python/zygote.py */
#define FDS_HIGH        32 /* above every descriptor that is given away */

struct start {
	const struct template *t;
	int channel, extension, filter;
	int said; /* where it writes why it cannot start; or -1 */
	char preload[RT_PRELOAD_MAX + sizeof("CAISSON_PRELOAD=")];
};

static char *const environment[] = {
#define BOTH(text) (char[]){text},
#define RUN(text)
#define ZYGOTE(text) (char[]){text},
#include "engine/protocol/environment.tbl.h"
#undef BOTH
#undef RUN
#undef ZYGOTE
};

/* Reads the image's list of modules to preload, separated by blanks. When it contains any other character,
 * nothing is preloaded. */
static void read_preload(struct monitor *m, const struct template *t, struct start *s)
{
	static const char allowed[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_. \n";
	_cleanup_(buf_done) struct buf b = BUF_INIT(RT_PRELOAD_MAX);
	char path[PATH_MAX];

	(void)snprintf(s->preload, sizeof(s->preload), "CAISSON_PRELOAD=");
	if ((size_t)snprintf(path, sizeof(path), "%s/images/%s/preload", m->config->state_dir,
			     t->image) >= sizeof(path))
		return;
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fd_read_file(fd, &b) < 0)
		return;
	const char *text = buf_str(&b);
	if (strspn(text, allowed) == b.len)
		(void)snprintf(s->preload, sizeof(s->preload), "CAISSON_PRELOAD=%s", text);
}

static int enter_z(const struct start *s)
{
	struct rlimit no_core = {1, 1}; /* as for runs; run_limits() of init says why */

	if (setns(s->t->userns, CLONE_NEWUSER) < 0 || setns(s->t->mntns, CLONE_NEWNS) < 0)
		return -errno;
	if (setgroups(0, NULL) < 0 && errno != EPERM) /* a single-id map switches setgroups off */
		return -errno;
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return -errno;
	if (unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		return -errno;
	(void)setrlimit(RLIMIT_CORE, &no_core);
	/* set after the change of uid, which clears it (prctl(2)) */
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ? -errno : 0;
}

/* What /etc/ld.so.preload of a sandbox names, for the runs that are forks of the zygote: it has no skeleton. */
static int place_machine_library(void)
{
	_cleanup_fd_ int fd =
	    open("image" MACHINE_LIBRARY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

	return fd < 0 ? -errno
		      : fd_write_all(fd, native_machine_library,
				     (size_t)(native_machine_library_end - native_machine_library));
}

static int enter_image(void)
{
	static const char *const scratch[] = {"image/tmp", "image/home/sandbox"};

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || chdir("/") < 0)
		return -errno;
	if (mount("/proc", "image/proc", NULL, MS_BIND | MS_REC, NULL) < 0 ||
	    mount("/dev", "image/dev", NULL, MS_BIND | MS_REC, NULL) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(scratch); i++)
		if (mount("tmpfs", scratch[i], "tmpfs", MS_NOSUID | MS_NODEV, TMP_OPTIONS) < 0)
			return -errno;
	int r = place_machine_library();
	if (r < 0)
		return r;
	if (chdir("image") < 0)
		return -errno;
	r = sys_pivot_root(".", ".");
	if (r == 0 && (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0))
		r = -errno;
	return r;
}

static int place_fds(struct start *s)
{
	const int from[] = {s->channel, s->extension, s->filter};
	int high[ARRAY_SIZE(from)];
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, FDS_HIGH);
		if (high[i] < 0)
			return -errno;
	}
	const int said = s->said >= 0 ? fcntl(s->said, F_DUPFD_CLOEXEC, FDS_HIGH) : null;
	if (said < 0 || dup2(said, 2) < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0)
		return -errno;
	s->said = 2;
	for (size_t i = 0; i < ARRAY_SIZE(from); i++)
		if (dup2(high[i], FDS_FROM + (int)i) < 0)
			return -errno;
	return fd_close_from(FDS_FROM + ARRAY_SIZE(from));
}

NORETURN static void become_zygote(struct start *s)
{
	static char name[] = "python3";
	static char flag[] = "-c";
	char *argv[] = {name, flag, (char *)(uintptr_t)runtime_zygote_text, NULL};
	static char library[] = "LD_PRELOAD=" MACHINE_LIBRARY;
	char *env[ARRAY_SIZE(environment) + 3];

	monitor_plain_signals();
	memcpy(env, environment, sizeof(environment));
	env[ARRAY_SIZE(environment)] = s->preload;
	env[ARRAY_SIZE(environment) + 1] = library;
	env[ARRAY_SIZE(environment) + 2] = NULL;
	const char *step = "its namespaces cannot be entered";
	int r = enter_z(s);
	if (r == 0) {
		step = "its root cannot be made";
		r = enter_image();
	}
	if (r == 0) {
		step = "its descriptors cannot be placed";
		r = place_fds(s);
	}
	if (r == 0) {
		step = PYTHON " cannot be executed";
		(void)execve(PYTHON, argv, env);
		r = -errno;
	}
	if (s->said >= 0)
		(void)dprintf(s->said, "%s: %s", step, strerror(-r));
	_exit(127); /* the monitor sees the end of the channel, and the sandboxes stay cold */
}

int zygote_start(struct monitor *m, const struct template *t, struct zygote *z)
{
	static struct start s;
	int pair[2];

	if (m->extension < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	_cleanup_fd_ int ours = pair[0];
	_cleanup_fd_ int theirs = pair[1];
	_cleanup_fd_ int said = memfd_create("zygote", MFD_CLOEXEC);
	s = (struct start){.t = t,
			   .channel = theirs,
			   .extension = m->extension,
			   .filter = m->filter,
			   .said = said};
	read_preload(m, t, &s);
	pid_t pid = sys_clone(0, SIGCHLD, -1);
	if (pid < 0)
		return pid;
	if (pid == 0)
		become_zygote(&s);
	KILL_POINT(ZYGOTE_FORKED);
	*z = (struct zygote){
	    .state = ZYGOTE_STARTING, .pid = pid, .channel = TAKE_FD(ours), .said = TAKE_FD(said)};
	return 0;
}
