/* SPDX-License-Identifier: Apache-2.0 */
/* init against interpreters that have run submitted code: the input is what comes on their
 * channels.
 *
 * Each step of the input: one byte that says who speaks (clean interpreter, spare, backup of
 * the session, session process), what happens around it (a run begins or ends, somebody is reaped, the channel
 * ends, another context becomes current) and whether descriptors come along; one byte of length; the frame. Whatever comes, init
 * must neither crash nor signal anybody but the processes that it knows, nor keep a descriptor that
 * it was sent. */
#include "base/fdio.h"
#include "descriptors.h"
#include "frames.h"
#include "fuzz.h"
#include "init.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STEPS_MAX 64
#define CONTEXTS  2
#define OWN_PID   getpid() /* who all frames come from, as the kernel says it */

static struct init in;
static int theirs[4]; /* the interpreters' ends: clean, spare, backup, session process */
static unsigned returned;

/* ---- what stands around the files ---- */

int fuzz_kill(pid_t pid, int signo UNUSED)
{
	ASSERT(pid == OWN_PID); /* nobody else has ever spoken; -1 and 0 would be everybody */
	return 0;
}

_Noreturn void init_die(const char *why UNUSED)
{
	abort();
}

void init_send(struct init *i UNUSED, const struct proto_head *frame UNUSED, const int *fds UNUSED,
	       size_t n UNUSED)
{
}

uint32_t run_limits(const struct init *i UNUSED, struct rt_rlimit *ret UNUSED)
{
	return 0;
}

uint64_t watch_memory(const struct init *i UNUSED)
{
	return 1;
}

bool sockets_watch(const struct init *i UNUSED)
{
	return false;
}

void processes_end_awake(struct init *i UNUSED)
{
}

uint64_t watch_resident(const struct init *i UNUSED, pid_t pid UNUSED)
{
	return 0;
}

void zygote_again(struct init *i UNUSED)
{
}

uint64_t disk_next(const struct init *i UNUSED)
{
	return 0;
}

void disk_session_begins(struct init *i UNUSED)
{
}

void disk_changed(struct init *i UNUSED)
{
}

struct disk_use disk_known(struct init *i UNUSED)
{
	return (struct disk_use){0};
}

void kill_strangers(struct init *i UNUSED)
{
}

uint32_t kill_each(struct init *i UNUSED, void (*fn)(struct init *, pid_t, int) UNUSED,
		   int signo UNUSED)
{
	return 0;
}

uint32_t kill_each_that(struct init *i UNUSED, bool (*wanted)(const struct init *, pid_t) UNUSED,
			void (*fn)(struct init *, pid_t, int) UNUSED, int signo UNUSED)
{
	return 0;
}

void processes_go_on(struct init *i UNUSED)
{
}

void processes_stop(struct init *i UNUSED)
{
}

bool checkpoints_forking(const struct init *i UNUSED)
{
	return false;
}

bool checkpoints_replace(const struct init *i UNUSED)
{
	return false;
}

bool checkpoints_keep(const struct init *i UNUSED, pid_t pid UNUSED)
{
	return false;
}

bool checkpoints_busy(const struct init *i UNUSED)
{
	return false;
}

void run_returned(struct init *i, int status, uint64_t cpu_ns UNUSED, uint64_t max_rss UNUSED)
{
	ASSERT(status >= 0 && status <= 255);
	ASSERT(i->session.state == SESSION_HELD);
	ASSERT(i->session.pid == OWN_PID && i->session.channel >= 0);
	returned++;
	i->run = (struct init_run){0};
}

/* ---- the world ---- */

static int channel_for(int who)
{
	int pair[2];

	if (warm_pair(pair) < 0)
		abort();
	theirs[who] = fd_close(theirs[who]);
	theirs[who] = pair[1];
	return pair[0];
}

static void begin(void)
{
	memset(&in, 0, sizeof(in));
	in.channel = in.landlock = in.kill = -1;
	for (int i = 0; i < 4; i++)
		theirs[i] = -1;
	session_start(&in);
	warm_start(&in, channel_for(0), true);
}

static void end(void)
{
	for (uint32_t i = 0; i < CONTEXTS; i++)
		if (i != in.contexts.current)
			contexts_end(&in, i);
	for (int i = 0; i < 4; i++)
		(void)fd_close(theirs[i]);
	(void)fd_close(in.warm.channel);
	(void)fd_close(in.warm.spare_channel);
	(void)fd_close(in.session.channel);
	(void)fd_close(in.session.backup_channel);
}

/* The sender's end of what init has made itself, where it has: the pair of a fork goes down the
 * channel. */
static void take_pairs(int from, int to)
{
	union {
		struct rt_fork fork;
		unsigned char bytes[512];
	} frame;
	int fds[FDIO_PASS_MAX];
	size_t n = 0;

	while (theirs[from] >= 0 &&
	       fd_recv(theirs[from], &frame, sizeof(frame), fds, &n, MSG_DONTWAIT) > 0) {
		if (n > 0) {
			theirs[to] = fd_close(theirs[to]);
			theirs[to] = fds[0];
			fds[0] = -1;
		}
		for (size_t i = 0; i < n; i++)
			(void)fd_close(fds[i]);
		n = 0;
	}
}

static void say(int who, const uint8_t *data, size_t len, bool with_fds)
{
	int fds[2] = {0, 0};

	if (theirs[who] >= 0)
		(void)!fd_send(theirs[who], data, len, fds, with_fds ? 2 : 0,
			       MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A stateful run as session_take() leaves it. */
static void start_run(void)
{
	if (run_is_on(&in) ||
	    (in.session.state != SESSION_NONE && in.session.state != SESSION_READY))
		return;
	deferral_end(&in);
	in.run =
	    (struct init_run){.state = RUN_RUNNING, .id = 1, .pid = OWN_PID, .form = RUN_STATEFUL};
	if (in.session.state == SESSION_NONE) {
		in.session.pid = OWN_PID;
		in.session.channel = channel_for(3);
	}
	in.session.state = SESSION_RUNNING;
}

static void happen(unsigned what)
{
	if (what == 0) {
		deferral_end(&in);
		if (warm_is_spent(&in))
			warm_arrived(&in, channel_for(0), true);
	} else if (what == 1)
		start_run();
	else if (what == 2 && run_is_on(&in)) {
		in.run = (struct init_run){0};
		session_run_ended(&in);
		deferral_begin(&in);
	} else if (what == 3)
		(void)(warm_reaped(&in, OWN_PID) || session_reaped(&in, OWN_PID) ||
		       contexts_reaped(&in, OWN_PID) || end_reaped(&in, OWN_PID));
}

static void turn(void)
{
	warm_events(&in, POLLIN, POLLIN);
	session_events(&in, POLLIN, POLLIN);
	session_prepare(&in);
	warm_prepare(&in);
	take_pairs(0, 1);
	take_pairs(3, 2);
}

int fuzz_init_frames(const uint8_t *data, size_t size)
{
	size_t before = fuzz_count_descriptors();
	size_t at = 0;

	begin();
	for (unsigned i = 0; i < STEPS_MAX && at + 2 <= size; i++) {
		unsigned head = data[at];
		size_t len = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
		int who = (int)(head & 3U);
		at += 2;
		happen(head >> 2 & 3U);
		if (head & 64U)
			(void)contexts_choose(&in, head >> 7 & (CONTEXTS - 1U));
		if (head & 32U)
			theirs[who] = fd_close(theirs[who]);
		else if (len > 0)
			say(who, data + at, len, head & 16U);
		at += len;
		turn();
	}
	end();
	ASSERT(fuzz_count_descriptors() == before);
	return 0;
}
