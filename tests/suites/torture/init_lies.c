/* SPDX-License-Identifier: Apache-2.0 */
/* An init that was taken over, as a front sees it: this library stands between the front and the init of the next sandbox, and changes
 * what init says. LIES_CONTROL names a file of struct control, which the test writes and reads while the server runs. */
#include "engine/protocol/proto.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* What the next sandbox's init does; the names are those of tests/integration/hostile_init.test.ts. */
enum lie {
	HONEST,
	SILENT,      /* never says anything, not even that it is ready */
	MUTE,        /* says that it is ready, and nothing else */
	DEAF,        /* reads nothing after the first message */
	LONG,        /* its messages are too long */
	SHORT,       /* too short */
	OTHERS,      /* has the types of another party */
	TWICE,       /* says everything twice */
	SERIAL,      /* answers what was not asked */
	DESCRIPTORS, /* adds eight descriptors to each message */
	PIPES,       /* sends a pipe where a file belongs, and says that it is a long list */
	COLDS,       /* asks for interpreters without an end */
	ENDS,        /* ends runs without an end */
	FILES,       /* sends files without an end */
	CHANGES,     /* tells changes that nobody asked for */
	READIES,     /* is ready again and again */
	ERRNOS,      /* fails with numbers that are no errno */
	PORTS,       /* tells ports that are none */
};

struct control {
	int64_t lie;     /* of the next sandbox; then 0 again */
	int64_t started; /* sandboxes whose init lied */
	int64_t sent;    /* messages that they made up */
};

struct liar {
	int init, front;
	enum lie lie;
};

static struct control idle, *control = &idle;

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("LIES_CONTROL");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);
	if (p != MAP_FAILED)
		control = p;
}

static ssize_t (*real_recvmsg(void))(int, struct msghdr *, int)
{
	static ssize_t (*real)(int, struct msghdr *, int);

	if (!real)
		real = (ssize_t(*)(int, struct msghdr *, int))dlsym(RTLD_NEXT, "recvmsg");
	if (!real)
		abort();
	return real;
}

struct packet {
	union proto_frame frame;
	char more[16]; /* of messages that are too long */
	size_t size;
	int fds[PROTO_FDS_MAX];
	size_t n;
};

union passed {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(PROTO_FDS_MAX * sizeof(int))];
};

static bool receive(int sock, struct packet *ret)
{
	union passed passed = {0};
	struct iovec piece = {.iov_base = &ret->frame, .iov_len = sizeof(ret->frame)};
	struct msghdr msg = {.msg_iov = &piece,
			     .msg_iovlen = 1,
			     .msg_control = &passed,
			     .msg_controllen = sizeof(passed)};
	ssize_t n = real_recvmsg()(sock, &msg, MSG_CMSG_CLOEXEC);

	*ret = (struct packet){.frame = ret->frame, .size = n > 0 ? (size_t)n : 0};
	for (struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL; c; c = CMSG_NXTHDR(&msg, c)) {
		if (c->cmsg_type != SCM_RIGHTS)
			continue;
		ret->n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(ret->fds, CMSG_DATA(c), ret->n * sizeof(int));
	}
	return n > 0;
}

static bool pass(int sock, struct packet *p)
{
	union passed passed = {0};
	struct iovec piece = {.iov_base = &p->frame, .iov_len = p->size};
	struct msghdr msg = {.msg_iov = &piece, .msg_iovlen = 1};

	if (p->n > 0) {
		msg.msg_control = &passed;
		msg.msg_controllen = CMSG_SPACE(p->n * sizeof(int));
		passed.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
					       .cmsg_type = SCM_RIGHTS,
					       .cmsg_len = CMSG_LEN(p->n * sizeof(int))};
		memcpy(CMSG_DATA(&passed.head), p->fds, p->n * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL) >= 0;
}

static void done_with(struct packet *p)
{
	for (size_t i = 0; i < p->n; i++)
		(void)close(p->fds[i]);
	p->n = 0;
}

static bool make_up(const struct liar *l, struct packet *p)
{
	(void)__atomic_add_fetch(&control->sent, 1, __ATOMIC_RELAXED);
	return pass(l->front, p);
}

/* Messages without an end, until the front hangs up. */
static void flood(const struct liar *l)
{
	struct packet p = {0};

	if (l->lie == COLDS) {
		p.frame.cold =
		    (struct proto_init_cold){.head = PROTO_HEAD(INIT_COLD, proto_init_cold)};
	} else if (l->lie == ENDS) {
		p.frame.ended =
		    (struct proto_init_ended){.head = PROTO_HEAD(INIT_ENDED, proto_init_ended),
					      .run = 1,
					      .end = PROTO_END_EXITED};
	} else if (l->lie == FILES) {
		p.frame.filed = (struct proto_init_filed){
		    .head = PROTO_HEAD(INIT_FILED, proto_init_filed), .seq = 1};
		p.fds[p.n++] = memfd_create("lie", MFD_CLOEXEC);
	} else if (l->lie == CHANGES) {
		p.frame.changed = (struct proto_init_changed){
		    .head = PROTO_HEAD(INIT_CHANGED, proto_init_changed), .watch = 1};
	} else {
		p.frame.ready =
		    (struct proto_init_ready){.head = PROTO_HEAD(INIT_READY, proto_init_ready)};
	}
	p.size = p.frame.head.size;
	while (make_up(l, &p))
		;
	done_with(&p);
}

/* Changes what init said. */
static void lie(enum lie how, struct packet *p)
{
	int pipes[2];

	switch ((int)how) {
	case LONG:
		p->size += 8;
		break;
	case SHORT:
		p->size -= 4;
		break;
	case OTHERS:
		p->frame.head.type = PROTO_MON_GONE;
		break;
	case SERIAL: /* the first field of each answer is the number of the question */
		p->frame.ended.run += 7;
		break;
	case DESCRIPTORS:
		while (p->n < PROTO_FDS_MAX)
			p->fds[p->n++] = memfd_create("lie", MFD_CLOEXEC);
		break;
	case PIPES:
		if (p->frame.head.type != PROTO_INIT_FILED || pipe2(pipes, O_CLOEXEC) < 0)
			break;
		done_with(p);
		p->fds[0] = pipes[0];
		p->fds[1] = pipes[1];
		p->n = 1; /* the other end stays open: reading would wait */
		p->frame.filed.errnum = 0;
		p->frame.filed.n = PROTO_LIST_MAX;
		break;
	case ERRNOS:
		if (p->frame.head.type == PROTO_INIT_FILED)
			p->frame.filed.errnum = -1;
		else if (p->frame.head.type == PROTO_INIT_ENDED)
			p->frame.ended.value = 1 << 30;
		break;
	case PORTS:
		if (p->frame.head.type != PROTO_INIT_CHANGED)
			break;
		p->frame.changed.n = 2;
		p->frame.changed.bytes = 2 * sizeof(struct proto_port);
		break;
	default:
		break;
	}
}

/* One message of init to the front. */
static bool speak(const struct liar *l, struct packet *p)
{
	bool is_ready = p->frame.head.type == PROTO_INIT_READY;

	if (l->lie == SILENT || (l->lie == MUTE && !is_ready))
		return true;
	if (is_ready) /* from here on the sandbox is in use */
		return pass(l->front, p);
	lie(l->lie, p);
	return make_up(l, p) && (l->lie != TWICE || make_up(l, p));
}

static void *work(void *user)
{
	struct liar *l = user;
	struct pollfd both[2] = {{.fd = l->init, .events = POLLIN},
				 {.fd = l->front, .events = POLLIN}};
	struct packet p;
	bool goes_on = true;

	while (goes_on && poll(both, 2, -1) > 0) {
		bool asked = both[1].revents != 0;

		if (!receive(asked ? l->front : l->init, &p))
			break;
		goes_on = asked ? pass(l->init, &p) : speak(l, &p);
		done_with(&p);
		if (asked && goes_on && l->lie >= COLDS && l->lie <= READIES) {
			flood(l);
			break;
		}
		if (asked &&
		    l->lie ==
			DEAF) { /* the front hangs up, and poll says so whatever it waits for */
			both[1].events = 0;
			while (poll(&both[1], 1, -1) > 0 &&
			       !(both[1].revents & (POLLHUP | POLLERR)))
				;
			break;
		}
	}
	(void)close(l->init);
	(void)close(l->front);
	free(l);
	return NULL;
}

/* Puts a liar between the front and the init at *CHANNEL. */
static void stand_between(int *channel)
{
	struct liar *l = malloc(sizeof(*l));
	sigset_t all, old;
	pthread_t thread;
	int pair[2];

	if (!l || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		abort();
	*l =
	    (struct liar){.init = *channel,
			  .front = pair[0],
			  .lie = (enum lie)__atomic_exchange_n(&control->lie, 0, __ATOMIC_RELAXED)};
	*channel = pair[1];
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&thread, NULL, work, l) != 0 || pthread_detach(thread) != 0)
		abort();
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)__atomic_add_fetch(&control->started, 1, __ATOMIC_RELAXED);
}

EXPORT ssize_t recvmsg(int sock, struct msghdr *msg, int flags)
{
	ssize_t n = real_recvmsg()(sock, msg, flags);
	const struct proto_mon_created *f = n == sizeof(*f) ? msg->msg_iov[0].iov_base : NULL;
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(msg) : NULL;
	int channel;

	if (__atomic_load_n(&control->lie, __ATOMIC_RELAXED) == HONEST || !f ||
	    f->head.type != PROTO_MON_CREATED || !c || c->cmsg_type != SCM_RIGHTS)
		return n;
	memcpy(&channel, CMSG_DATA(c), sizeof(channel));
	stand_between(&channel);
	memcpy(CMSG_DATA(c), &channel, sizeof(channel));
	return n;
}
