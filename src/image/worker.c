/* SPDX-License-Identifier: Apache-2.0 */
#include "image/worker.h"

#include "base/fdio.h"
#include "base/text.h"
#include "walls/landlock.h"
#include "walls/privileges.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define NOBODY 65534

struct message {
	int32_t result; /* of fn: 0 or a negative errno; 1 = fn goes on */
	struct err error;
	char report[WORKER_REPORT_MAX];
};

static struct message message; /* what is told, or was received last */
static int report_pipe = -1;   /* in the worker */

/* What TLS, the resolver and its modules read. */
static const char *const network_files[] = {"/etc", "/usr",         "/lib",     "/lib64",
					    "/run", "/dev/urandom", "/dev/null"};

static int write_text(const char *file, const char *text)
{
	_cleanup_fd_ int fd = open(file, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

/* An empty network namespace. A plain user needs a user namespace for it, in which its own id stays
 * mapped, so that it can make files. Where the kernel refuses, the worker goes on without. */
static void leave_network(void)
{
	const uid_t uid = geteuid();
	const gid_t gid = getegid();
	char line[64];

	if (uid == 0) {
		int r UNUSED = unshare(CLONE_NEWNET | CLONE_NEWIPC);
		return;
	}
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return;
	int r UNUSED = write_text("/proc/self/setgroups", "deny");

	(void)snprintf(line, sizeof(line), "%u %u 1\n", gid, gid);
	r = write_text("/proc/self/gid_map", line);
	(void)snprintf(line, sizeof(line), "%u %u 1\n", uid, uid);
	r = write_text("/proc/self/uid_map", line);
}

/* No capability is left but, for root with a folder as source, reading it whoever owns it. */
static int drop_caps(bool read_all)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	if (geteuid() == 0) {
		for (unsigned long cap = 0; cap <= 63; cap++)
			if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EINVAL)
				return -errno;
		if (read_all)
			data[0].effective = data[0].permitted = 1u << CAP_DAC_READ_SEARCH;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &head, data) < 0)
		return -errno;
	return 0;
}

static int allow_fd(int rules, int fd, enum landlock_rights rights)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return landlock_add(rules, path, "", rights);
}

/* Before the ids change, because the folders may be in one that only their owner can enter. */
static int prepare_files(const struct worker *work)
{
	_cleanup_fd_ int rules = landlock_new();
	int r = 0;

	if (rules < 0)
		return rules == -EOPNOTSUPP ? TAKE_FD(rules) : rules;
	if (work->write >= 0)
		r = allow_fd(rules, work->write, LANDLOCK_WRITE);
	if (r >= 0 && work->source >= 0)
		r = allow_fd(rules, work->source, LANDLOCK_READ);
	for (size_t i = 0; r >= 0 && work->kind == WORKER_NETWORK && i < ARRAY_SIZE(network_files);
	     i++)
		r = landlock_add(rules, "", network_files[i], LANDLOCK_READ);
	return r < 0 ? r : TAKE_FD(rules);
}

static int give_up_rights(const struct worker *work, struct err *e)
{
	_cleanup_fd_ int rules = prepare_files(work);
	int r = 0;

	if (rules < 0 && rules != -EOPNOTSUPP)
		return err_set(e, ERR_SYSTEM, -rules, "the worker's walls");
	if (work->kind == WORKER_LOCAL)
		leave_network();
	if (work->kind == WORKER_NETWORK && geteuid() == 0) {
		r = privileges_drop(NOBODY, NOBODY, e);
		/* The certificates are in a memory file, opened by /proc/self/fd. */
		if (r >= 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
			r = err_set(e, ERR_SYSTEM, errno, "the worker's walls");
	} else {
		r = drop_caps(work->source >= 0);
		if (r < 0)
			return err_set(e, ERR_SYSTEM, -r, "the worker's capabilities");
	}
	if (r >= 0 && rules >= 0) {
		r = landlock_apply(rules);
		if (r < 0)
			return err_set(e, ERR_SYSTEM, -r, "the worker's walls");
	}
#if !defined(__SANITIZE_ADDRESS__)
	/* Bytes of address space: decompressors choose themselves how much they take. */
	const struct rlimit memory = {.rlim_cur = UINT64_C(2) << 30, .rlim_max = UINT64_C(2) << 30};

	if (r >= 0 && setrlimit(RLIMIT_AS, &memory) < 0)
		return err_set(e, ERR_SYSTEM, errno, "the worker's limits");
#endif
	return r;
}

/* It must not outlive whoever waits for it. prctl(2): a change of account clears this. */
static void end_with(pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(1);
}

NORETURN static void be_worker(const struct worker *work, int pipe, pid_t parent)
{
	message = (struct message){0};
	report_pipe = pipe;
	end_with(parent);
	(void)signal(SIGPIPE, SIG_IGN);
	int r = give_up_rights(work, &message.error);

	end_with(parent);
	if (r >= 0)
		r = work->fn(work->ctx, message.report, &message.error);
	message.result = r < 0 ? r : 0;
	_exit(fd_write_all(pipe, &message, sizeof(message)) < 0 ? 1 : 0);
}

int worker_tell(const void *report)
{
	ASSERT(report == message.report);
	message.result = 1;
	return fd_write_all(report_pipe, &message, sizeof(message));
}

/* The text of the child's error goes to a terminal, so control characters become question marks. */
static void clean_error(struct err *e)
{
	e->text[sizeof(e->text) - 1] = '\0';
	e->member[0] = '\0';
	if (e->code <= ERR_NONE || e->code >= ERR_CODE_MAX_)
		e->code = ERR_IMAGE_BUILD_FAILED;
	for (char *s = e->text; *s; s++) {
		const bool c1 = text_is_c1(s);

		if (c1 || (unsigned char)*s < ' ' || *s == 0x7f)
			*s = '?';
		if (c1)
			*++s = '?';
	}
	if (!text_is_utf8(e->text, strlen(e->text)))
		for (char *s = e->text; *s; s++)
			*s = (unsigned char)*s > 0x7e ? '?' : *s;
}

/* True when the message is complete; false when the watch was cancelled or the child has ended. */
static bool wait_message(int pipe, const struct image_watch *w)
{
	struct pollfd p[] = {{.fd = pipe, .events = POLLIN},
			     {.fd = w->cancel_fd, .events = POLLIN}};

	message = (struct message){0};
	while (poll(p, ARRAY_SIZE(p), -1) < 0)
		if (errno != EINTR)
			return false;
	return !p[1].revents && fd_read_exact(pipe, &message, sizeof(message)) == 0;
}

int worker_begin(const struct worker *work, struct worker_process *ret, struct err *e)
{
	const pid_t self = getpid();
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot start a worker");
	_cleanup_fd_ int ours = ends[0];
	_cleanup_fd_ UNUSED int theirs = ends[1];
	const pid_t pid = fork();

	if (pid < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot start a worker");
	if (pid == 0)
		be_worker(work, theirs, self);
	*ret = (struct worker_process){.pid = pid, .pipe = TAKE_FD(ours)};
	return 0;
}

static int reap(struct worker_process *p)
{
	int status = 0;

	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	p->pid = 0;
	p->pipe = fd_close(p->pipe);
	return status;
}

void worker_end(struct worker_process *p)
{
	if (p->pid == 0)
		return;
	(void)kill(p->pid, SIGKILL);
	(void)reap(p);
}

int worker_next(struct worker_process *p, const struct image_watch *w, void *report, size_t len,
		struct err *e)
{
	ASSERT(p->pid > 0 && len <= WORKER_REPORT_MAX);
	const bool complete = wait_message(p->pipe, w);

	if (complete && message.result == 1) {
		memcpy(report, message.report, len);
		return 1;
	}
	if (!complete)
		(void)kill(p->pid, SIGKILL);
	const int status = reap(p);

	if (!complete && image_cancelled(w))
		return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
	if (!complete)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, 0,
			       "the process that reads the image died (status 0x%x)",
			       (unsigned)status);
	if (message.result < 0) {
		clean_error(&message.error);
		*e = message.error;
		return message.result;
	}
	memcpy(report, message.report, len);
	return 0;
}

int worker_run(const struct worker *work, const struct image_watch *w, void *report, size_t len,
	       struct err *e)
{
	struct worker_process p = WORKER_PROCESS_INIT;
	int r = worker_begin(work, &p, e);

	if (r >= 0)
		r = worker_next(&p, w, report, len, e);
	/* Nobody waits for a second report of this one. */
	if (r > 0)
		r = err_set(e, ERR_IMAGE_BUILD_FAILED, 0, "the process that reads the image");
	worker_end(&p);
	return r;
}
