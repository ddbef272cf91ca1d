/* SPDX-License-Identifier: Apache-2.0 */
/* The image builder's own half: the process that keeps the rights of the start. */
#include "app/image_builder.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/parent.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHANNEL_FD   3
#define STOP_WAIT_MS 30000 /* a build that is stopped unmounts and removes what it made */

#define NOTE_FD   4
#define NOTE_PATH "/dev/fd/4"

/* Descriptors that came with an order, borrowed; -1 = none. */
struct inputs {
	int layer, note;
};

struct process {
	const struct image_builder_config *config;
	pid_t build; /* 0: none */
	int build_fd;
	int watch;           /* parent_watch() */
	uint64_t kill_at_ns; /* 0: the build was not told to stop */
	bool leaving;        /* the server has ended */
};

/* In the child, between fork and exec. */
NORETURN static void become_build(const struct image_builder_config *c,
				  const struct image_order_msg *m, const struct inputs *in, int out,
				  pid_t parent)
{
	const char *const pull[] = {"pull", "--if-missing", "--name", c->pulled, NULL};
	const char *const build[] = {
	    "build", m->order == IMAGE_ORDER_BUILD ? c->names[m->which] : NULL, NULL};
	const char *const commit[] = {"commit",  m->name, m->base, in->note >= 0 ? "--note" : NULL,
				      NOTE_PATH, NULL};
	const char *const own[] = {"commit", m->name, m->base, "--own", NULL};
	const char *const note[] = {"note", m->name, "--note", NOTE_PATH, NULL};
	const char *const remove[] = {"rm", m->name, "--of-sandbox", NULL};
	const char *const base[] = {"pull", m->reference, "--for-build", NULL};
	const char *const *const orders[] = {[IMAGE_ORDER_BUILD] = build,
					     [IMAGE_ORDER_PULL] = pull,
					     [IMAGE_ORDER_COMMIT] = c->own ? own : commit,
					     [IMAGE_ORDER_NOTE] = note,
					     [IMAGE_ORDER_REMOVE] = remove,
					     [IMAGE_ORDER_PULL_BASE] = base};
	const char *const *argv = orders[m->order];
	const char *args[8] = {"caisson", "image"};
	int null = in->layer >= 0 ? in->layer : open("/dev/null", O_RDONLY | O_CLOEXEC);

	for (size_t i = 0; i < c->n_env; i++)
		if (setenv(c->env[i][0], c->env[i][1], 1) < 0)
			_exit(127);
	/* The builder kills the build's process group, in which it must not be itself. */
	(void)setpgid(0, 0);
	/* On SIGTERM a build removes what it made. */
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0 ||
	    (in->note >= 0 && dup3(in->note, NOTE_FD, 0) < 0 && in->note != NOTE_FD))
		_exit(127);
	for (size_t i = 0; argv[i]; i++)
		args[2 + i] = argv[i];
	/* execv(3) does not change the strings, although its type says so. */
	char *passed[ARRAY_SIZE(args)];
	memcpy(passed, args, sizeof(passed));
	(void)execv("/proc/self/exe", passed);
	_exit(127);
}

static int start_build(struct process *p, const struct image_order_msg *m, const struct inputs *in,
		       int *ret_output)
{
	int out[2];
	const pid_t self = getpid();

	if (pipe2(out, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();

	if (pid == 0)
		become_build(p->config, m, in, out[1], self);
	int r = pid < 0 ? -errno : 0;

	(void)close(out[1]);
	if (r == 0) {
		p->build_fd = (int)syscall(SYS_pidfd_open, pid, 0);
		r = p->build_fd < 0 ? -errno : 0;
	}
	if (r < 0) {
		(void)close(out[0]);
		if (pid > 0) {
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, NULL, 0);
		}
		return r;
	}
	p->build = pid;
	p->kill_at_ns = 0;
	if (p->config->bases)
		KILL_POINT(PULL_TAKEN);
	*ret_output = out[0];
	return 0;
}

static void stop_build(struct process *p)
{
	if (p->build == 0 || p->kill_at_ns != 0)
		return;
	(void)kill(p->build, SIGTERM);
	p->kill_at_ns = now_ns() + STOP_WAIT_MS * NS_PER_MS;
}

/* The server may have ended: then nobody reads this, and the next look at the channel tells. */
static void tell(const struct process *p, enum image_news news, int status, int fd)
{
	const struct image_news_msg m = {.news = news, .status = status};
	int r UNUSED = parent_send(CHANNEL_FD, p->watch, &m, sizeof(m), &fd, fd >= 0);
}

static void leave(struct process *p)
{
	p->leaving = true;
	stop_build(p);
}

static bool is_name(const char name[IMAGE_ORDER_NAME])
{
	const size_t n = strnlen(name, IMAGE_ORDER_NAME);

	return n < IMAGE_ORDER_NAME && parse_is_image_name(name, n);
}

/* What it means is for the command to judge; here it must be no option. */
static bool is_reference(const char reference[IMAGE_ORDER_REFERENCE])
{
	return strnlen(reference, IMAGE_ORDER_REFERENCE) < IMAGE_ORDER_REFERENCE && reference[0] &&
	       reference[0] != '-';
}

static bool is_possible(const struct process *p, const struct image_order_msg *m,
			const struct inputs *in)
{
	switch (m->order) {
	case IMAGE_ORDER_BUILD:
		return m->which < p->config->n;
	case IMAGE_ORDER_PULL:
		return p->config->pulled != NULL;
	case IMAGE_ORDER_COMMIT:
		return p->config->commits && in->layer >= 0 && is_name(m->name) &&
		       is_name(m->base) && (!p->config->own || streq(m->name, p->config->own));
	case IMAGE_ORDER_NOTE:
		return p->config->commits && !p->config->own && in->note >= 0 && is_name(m->name);
	case IMAGE_ORDER_REMOVE:
		return p->config->commits && !p->config->own && is_name(m->name);
	case IMAGE_ORDER_PULL_BASE:
		return p->config->bases && is_reference(m->reference);
	default:
		return false;
	}
}

static void on_order(struct process *p)
{
	struct image_order_msg m;
	int fds[FDIO_PASS_MAX];
	size_t n_fds = 0;
	ssize_t n = fd_recv(CHANNEL_FD, &m, sizeof(m), fds, &n_fds, 0);

	const bool commits = n == (ssize_t)sizeof(m) && m.order == IMAGE_ORDER_COMMIT;
	const struct inputs in = {.layer = commits && n_fds > 0 ? fds[0] : -1,
				  .note = n_fds > commits ? fds[n_fds - 1] : -1};

	if (n != (ssize_t)sizeof(m)) {
		leave(p);
	} else if (m.order == IMAGE_ORDER_CANCEL) {
		stop_build(p);
	} else if (p->build == 0 && is_possible(p, &m, &in)) {
		_cleanup_fd_ int output = -1;
		int r = start_build(p, &m, &in, &output);

		tell(p, IMAGE_NEWS_BEGUN, -r, output);
	}
	fd_close_many(fds, n_fds > FDIO_PASS_MAX ? 0 : n_fds);
}

static void on_build_ended(struct process *p)
{
	int status = 0;

	/* A build waits for its programs, so this finds some only after a kill. Until waitpid() the id of the
	 * group cannot become somebody else's. */
	(void)kill(-p->build, SIGKILL);
	if (waitpid(p->build, &status, 0) != p->build)
		return;
	p->build = 0;
	p->build_fd = fd_close(p->build_fd);
	if (p->config->bases)
		KILL_POINT(PULL_ENDED);
	tell(p, IMAGE_NEWS_ENDED, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
	     -1);
}

static int wait_ms(struct process *p)
{
	const uint64_t now = now_ns();

	if (p->build == 0 || p->kill_at_ns == 0)
		return -1;
	if (now < p->kill_at_ns)
		return (int)((p->kill_at_ns - now) / NS_PER_MS) + 1;
	(void)kill(-p->build, SIGKILL);
	return -1;
}

void image_builder_serve(int channel, const struct image_builder_config *c)
{
	struct process p = {.config = c, .build_fd = -1};
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	/* The client of `stdio` waits for the end of these. */
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		_exit(1);
	(void)prctl(PR_SET_NAME, c->bases ? "caisson-pulls" : "caisson-images", 0, 0, 0);
	if (setsid() < 0 ||
	    (channel == CHANNEL_FD ? 0 : dup3(channel, CHANNEL_FD, O_CLOEXEC)) < 0 ||
	    syscall(SYS_close_range, CHANNEL_FD + 1, ~0U, 0) < 0)
		_exit(1);
	p.watch = parent_watch();
	while (!p.leaving || p.build != 0) {
		struct pollfd fds[] = {{.fd = p.leaving ? -1 : CHANNEL_FD, .events = POLLIN},
				       {.fd = p.build_fd, .events = POLLIN},
				       {.fd = p.leaving ? -1 : p.watch, .events = POLLIN}};

		if (poll(fds, ARRAY_SIZE(fds), wait_ms(&p)) < 0 && errno != EINTR)
			_exit(1);
		if (fds[1].revents)
			on_build_ended(&p);
		if (fds[0].revents)
			on_order(&p);
		if (fds[2].revents)
			leave(&p);
	}
	_exit(0);
}
