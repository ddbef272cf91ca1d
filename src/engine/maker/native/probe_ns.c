/* SPDX-License-Identifier: Apache-2.0 */
/* Tries every kind of namespace and mount that a sandbox needs, in a child process. */
#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/probe.h"

#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define TRIAL_RANGE_FIRST 1879048192u /* ids that are only mapped; no file is owned by them */

struct trial { /* shared with the child */
	int result[PROBE_TRY_MAX_];
};

static const struct {
	enum probe_try what;
	int flag;
} spaces[] = {
    {PROBE_MOUNTNS, CLONE_NEWNS}, {PROBE_NETNS, CLONE_NEWNET},       {PROBE_IPCNS, CLONE_NEWIPC},
    {PROBE_UTSNS, CLONE_NEWUTS},  {PROBE_CGROUPNS, CLONE_NEWCGROUP}, {PROBE_PIDNS, CLONE_NEWPID},
};

static int result_of(int r)
{
	return r == 0 ? 0 : errno;
}

static int try_loopback(void)
{
	struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	_cleanup_fd_ int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return s < 0 ? errno : result_of(ioctl(s, SIOCSIFFLAGS, &ifr));
}

static int try_overlay(void)
{
	static const char *const dirs[] = {"/tmp/low",  "/tmp/up",   "/tmp/work",
					   "/tmp/over", "/tmp/proc", "/tmp/pts"};

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return errno;
	return result_of(mount("overlay", "/tmp/over", "overlay", MS_NOSUID | MS_NODEV,
			       "lowerdir=/tmp/low,upperdir=/tmp/up,workdir=/tmp/work,userxattr"));
}

/* Filters of containers often permit everything else. */
static int try_pivot(void)
{
	return chdir("/tmp") < 0 ? errno : -sys_pivot_root(".", ".");
}

/* Runs as PID 1 of the new PID namespace. All mounts are made over /tmp of its own mount namespace. */
static void try_mounts(struct trial *t)
{
	int *r = t->result;

	r[PROBE_PRIVATE] = result_of(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	if (r[PROBE_PRIVATE] == 0)
		r[PROBE_TMPFS] = result_of(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV,
						 "size=1m,nr_inodes=64,mode=755"));
	if (r[PROBE_TMPFS] == 0) {
		r[PROBE_OVERLAY] = try_overlay();
		r[PROBE_PROC] = result_of(mount("proc", "/tmp/proc", "proc",
						MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid"));
		r[PROBE_DEVPTS] =
		    result_of(mount("devpts", "/tmp/pts", "devpts", MS_NOSUID | MS_NOEXEC,
				    "newinstance,ptmxmode=0666,mode=0620"));
	}
	r[PROBE_LOOPBACK] = try_loopback();
	if (r[PROBE_TMPFS] == 0)
		r[PROBE_PIVOT] = try_pivot();
}

NORETURN static void child_main(struct trial *t, int sock)
{
	char byte = 0;
	int status;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	t->result[PROBE_USERNS] = result_of(unshare(CLONE_NEWUSER));
	if (t->result[PROBE_USERNS] != 0 || write(sock, &byte, 1) != 1 ||
	    read(sock, &byte, 1) != 1 || byte != 1)
		_exit(1);
	/* Become root of the new user namespace, which also shows that the maps are in force. */
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0) {
		t->result[PROBE_MAPS] = errno;
		_exit(1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		t->result[spaces[i].what] = result_of(unshare(spaces[i].flag));
	if (t->result[PROBE_MOUNTNS] != 0 || t->result[PROBE_PIDNS] != 0)
		_exit(1);
	pid_t first = fork();
	if (first == 0) {
		try_mounts(t);
		_exit(0);
	}
	_exit(first > 0 && waitpid(first, &status, 0) == first ? 0 : 1);
}

/* Tries everything with the given ids. Returns whether the maps could be written. */
static bool round_with(const struct ids *ids, struct trial *t)
{
	int pair[2];
	char byte = 0;

	for (size_t i = 0; i < PROBE_TRY_MAX_; i++)
		t->result[i] = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return false;
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(pair[0]);
		child_main(t, pair[1]);
	}
	(void)close(pair[1]);
	if (pid > 0 && read(pair[0], &byte, 1) == 1) {
		int r = ids_write_maps(ids, pid);

		t->result[PROBE_MAPS] = -r;
		byte = r == 0;
		(void)!write(pair[0], &byte, 1);
	}
	(void)close(pair[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return t->result[PROBE_MAPS] == 0;
}

void probe_namespaces(struct host_probe *p)
{
	struct ids ids = {.count = 1, .lock = -1}; /* the trial needs ids for one sandbox only */
	struct err e = ERR_INIT;
	struct trial *t =
	    mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; i < PROBE_TRY_MAX_; i++)
		p->tried[i] = -1;
	if (t == MAP_FAILED)
		return;
	if (p->uid == 0 && ids_range(&ids, TRIAL_RANGE_FIRST, &e) < 0)
		ids = (struct ids){.mode = IDS_RANGE, .lock = -1}; /* the maps will be refused */
	else if (p->uid != 0 && ids_reserve(&ids, false, "", &e) < 0)
		ids = (struct ids){.mode = IDS_SINGLE, .count = 1, .lock = -1};
	if (!round_with(&ids, t) && ids.mode == IDS_SUBUID) {
		ids = (struct ids){.mode = IDS_SINGLE, .count = 1, .lock = -1};
		(void)round_with(&ids, t);
	}
	p->uids = ids.mode == IDS_RANGE    ? PROBE_UIDS_RANGE
		  : ids.mode == IDS_SUBUID ? PROBE_UIDS_SUBUID
					   : PROBE_UIDS_SINGLE;
	p->n_uids = ids.count;
	memcpy(p->tried, t->result, sizeof(p->tried));
	(void)munmap(t, sizeof(*t));
}
