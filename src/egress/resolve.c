/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's own resolver in worker processes.
 *
 * getaddrinfo(3) follows nsswitch.conf, /etc/hosts and resolv.conf as everything else on the
 * machine does, and blocks while it does so. A worker is a fork of the front that holds one socket:
 * a message in is a name, a message out is struct answer. One question at a time each; a question
 * that nobody waits for any more takes its worker with it. What comes back is checked for its size
 * only: the worker is ours, the addresses in it are judged by the policy. */
#include "egress/resolve.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "egress/egress.h"

#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define QUERIES_MAX   256u
#define IDLE_US       (60u * 1000000u)
#define ACCURACY_US   100000u
#define WORKER_SOCKET 3

struct answer {
	uint32_t n;
	struct egress_address addresses[EGRESS_ANSWER_MAX];
};

struct worker {
	struct workers *all;
	pid_t pid; /* 0 = none */
	int fd;
	sd_event_source *io;
	struct egress_query *query; /* being asked */
	uint64_t used_ns;
};

struct egress_query {
	struct workers *all;
	struct egress_query *next;
	struct worker *worker; /* NULL = waits */
	char name[EGRESS_HOST_MAX + 1];
	egress_answer_fn cb;
	void *user;
};

struct workers {
	struct egress_resolver resolver; /* first */
	sd_event *loop;
	struct worker worker[EGRESS_WORKERS];
	struct egress_query *first, **last; /* those that wait */
	unsigned n;
	sd_event_source *idle;
};

/* ---- the worker ---- */

static void ask_machine(const char *name, struct answer *ret)
{
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;

	*ret = (struct answer){0};
	if (getaddrinfo(name, NULL, &hints, &all) != 0)
		return;
	for (const struct addrinfo *a = all; a; a = a->ai_next) {
		if (ret->n == EGRESS_ANSWER_MAX) {
			ret->n = 0; /* part of an answer cannot be judged */
			break;
		}
		if (egress_address_from(a->ai_addr, &ret->addresses[ret->n]))
			ret->n++;
	}
	freeaddrinfo(all);
}

NORETURN static void work(int fd, pid_t parent)
{
	char name[EGRESS_HOST_MAX + 1];
	struct answer answer;
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (getppid() != parent || null < 0 || dup2(fd, WORKER_SOCKET) < 0 || dup2(null, 0) < 0 ||
	    dup2(null, 1) < 0 || dup2(null, 2) < 0 || close_range(WORKER_SOCKET + 1, ~0U, 0) < 0)
		_exit(1);
	for (;;) {
		ssize_t len = recv(WORKER_SOCKET, name, sizeof(name) - 1, 0);

		if (len < 0 && errno == EINTR)
			continue;
		if (len <= 0)
			_exit(0);
		name[len] = '\0';
		ask_machine(name, &answer);
		if (send(WORKER_SOCKET, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
			_exit(1);
	}
}

/* ---- the front's side ---- */

static void worker_end(struct worker *w)
{
	w->io = sd_event_source_disable_unref(w->io);
	w->fd = fd_close(w->fd);
	if (w->pid > 0) {
		(void)kill(w->pid, SIGKILL);
		while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	w->pid = 0;
	w->query = NULL;
}

static void give_out(struct workers *all);

static void finish(struct egress_query *q, const struct answer *answer)
{
	struct workers *all = q->all;

	if (q->worker)
		q->worker->query = NULL;
	all->n--;
	q->cb(answer->addresses, answer->n, q->user);
	free(q);
	give_out(all);
}

static int on_answer(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *user)
{
	static const struct answer none;
	struct worker *w = user;
	struct egress_query *q = w->query;
	struct answer answer;
	ssize_t len = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (len != (ssize_t)sizeof(answer) || answer.n > EGRESS_ANSWER_MAX || !q) {
		worker_end(w);
		if (q) {
			q->worker = NULL;
			finish(q, &none);
		}
		return 0;
	}
	w->used_ns = now_ns();
	finish(q, &answer);
	return 0;
}

static int worker_start(struct worker *w)
{
	int pair[2];
	pid_t parent = getpid();

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid == 0)
		work(pair[1], parent);
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return -EAGAIN;
	}
	w->pid = pid;
	w->fd = pair[0];
	int r = sd_event_add_io(w->all->loop, &w->io, w->fd, EPOLLIN, on_answer, w);
	if (r < 0)
		worker_end(w);
	return r;
}

/* A worker that has nothing to do, made when none is left. */
static struct worker *find_worker(struct workers *all)
{
	for (unsigned i = 0; i < EGRESS_WORKERS; i++)
		if (all->worker[i].pid > 0 && !all->worker[i].query)
			return &all->worker[i];
	for (unsigned i = 0; i < EGRESS_WORKERS; i++)
		if (all->worker[i].pid == 0 && worker_start(&all->worker[i]) == 0)
			return &all->worker[i];
	return NULL;
}

static int on_idle(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct workers *all = user;
	bool more = false;

	for (unsigned i = 0; i < EGRESS_WORKERS; i++) {
		struct worker *w = &all->worker[i];
		if (w->pid == 0)
			continue;
		if (!w->query && now_ns() - w->used_ns >= IDLE_US * NS_PER_US)
			worker_end(w);
		else
			more = true;
	}
	if (more)
		(void)sd_event_source_set_time_relative(source, IDLE_US);
	(void)sd_event_source_set_enabled(source, more ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
	return 0;
}

/* Gives what waits to workers that have nothing to do. */
static void give_out(struct workers *all)
{
	while (all->first) {
		struct worker *w = find_worker(all);
		struct egress_query *q = all->first;

		if (!w)
			return; /* the next answer, or the end of a worker, comes back here */
		if (send(w->fd, q->name, strlen(q->name), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
			worker_end(w);
			return;
		}
		w->query = q;
		w->used_ns = now_ns();
		q->worker = w;
		all->first = q->next;
		if (!all->first)
			all->last = &all->first;
		(void)sd_event_source_set_time_relative(all->idle, IDLE_US);
		(void)sd_event_source_set_enabled(all->idle, SD_EVENT_ONESHOT);
	}
}

static struct egress_query *ask(struct egress_resolver *resolver, const char *name,
				egress_answer_fn cb, void *user)
{
	struct workers *all = (struct workers *)resolver;
	struct egress_query *q = all->n < QUERIES_MAX ? calloc(1, sizeof(*q)) : NULL;

	if (!q)
		return NULL;
	q->all = all;
	q->cb = cb;
	q->user = user;
	memcpy(q->name, name, strnlen(name, EGRESS_HOST_MAX));
	*all->last = q;
	all->last = &q->next;
	all->n++;
	give_out(all);
	return q;
}

static void cancel(struct egress_query *q)
{
	struct workers *all = q->all;

	if (q->worker) {
		worker_end(q->worker);
	} else {
		struct egress_query **at = &all->first;
		while (*at != q)
			at = &(*at)->next;
		*at = q->next;
		if (!*at)
			all->last = at;
	}
	all->n--;
	free(q);
	give_out(all);
}

static void free_all(struct egress_resolver *resolver)
{
	struct workers *all = (struct workers *)resolver;

	ASSERT(all->n == 0);
	for (unsigned i = 0; i < EGRESS_WORKERS; i++)
		worker_end(&all->worker[i]);
	(void)sd_event_source_disable_unref(all->idle);
	free(all);
}

struct egress_resolver *egress_resolver_new(sd_event *loop)
{
	struct workers *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->resolver = (struct egress_resolver){.ask = ask, .cancel = cancel, .free = free_all};
	all->loop = loop;
	all->last = &all->first;
	for (unsigned i = 0; i < EGRESS_WORKERS; i++)
		all->worker[i] = (struct worker){.all = all, .fd = -1};
	if (sd_event_add_time_relative(loop, &all->idle, CLOCK_MONOTONIC, IDLE_US, ACCURACY_US,
				       on_idle, all) < 0 ||
	    sd_event_source_set_enabled(all->idle, SD_EVENT_OFF) < 0) {
		(void)sd_event_source_disable_unref(all->idle);
		free(all);
		return NULL;
	}
	return &all->resolver;
}
