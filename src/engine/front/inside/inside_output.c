/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/front/inside/inside_output.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/loop.h"
#include "base/rand.h"
#include "engine/front/inside/tail_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES    65536
#define READS_PER_TURN 4           /* a flood must not starve the loop */
#define PIPE_BYTES     (256 << 10) /* a run can print so much before somebody reads it */
#define PIPE_IDLE_BYTES                                                                            \
	(16 << 10) /* between runs: the kernel bounds the pages of all pipes of a user, pipe(7) */
/* Microseconds between two reads of a stream. A run that makes one system call for each line wakes
 * nobody meanwhile; if a reader waited in epoll, each of these calls would take three times as long. */
#define LOOK_EVERY_US UINT64_C(4000)
#define FLOOD_EVERY_US                                                                             \
	UINT64_C(                                                                                  \
	    10000) /* the same for a background process whose pipe was full: it has no bound of output */
#define LOOKS_MAX     32u
#define TAIL_AFTER_US UINT64_C(20000) /* from output in the pipe to a look at the tail */
#define TAIL_AGAIN_US UINT64_C(2000)  /* to the next look if the run was changing the tail */
#define DRAIN_MAX     (4u << 20) /* bytes after the end; a pipe holds at most fs.pipe-max-size */

static void on_text(void *user, const char *data, size_t n);

static void on_record(void *user, const void *data, size_t len)
{
	struct inside_output *o = user;

	o->on_record(o->run, data, len, o->user);
}

void inside_output_init(struct inside_output *o, struct engine_run *r, sd_event *loop,
			const struct engine_run_spec *spec)
{
	*o = (struct inside_output){.run = r,
				    .loop = loop,
				    .fd = {-1, -1, -1},
				    .kill_at = spec->output_kill,
				    .endless = spec->kind == ENGINE_RUN_BACKGROUND,
				    .on_output = spec->on_output,
				    .on_record = spec->notebook ? spec->on_record : NULL,
				    .user = spec->user};
	o->records =
	    (struct records){.fd = -1, .on_text = on_text, .on_record = on_record, .user = o};
	memcpy(o->max, spec->output_max, sizeof(o->max));
}

static void deliver_text(struct inside_output *o, enum engine_stream s, const char *data, size_t n)
{
	uint64_t before = o->total[s];
	uint64_t room = o->max[s] == 0 ? UINT64_MAX : (before < o->max[s] ? o->max[s] - before : 0);

	o->total[s] += n;
	if (o->kill_at > 0 && o->total[s] > o->kill_at && !o->flooded) {
		o->flooded = true;
		(void)!engine_signal(o->run, SIGKILL);
	}
	if (room > 0 && o->on_output)
		o->on_output(o->run, s, data, n < room ? n : (size_t)room, o->user);
}

static void on_text(void *user, const char *data, size_t n)
{
	deliver_text(user, ENGINE_STDOUT, data, n);
}

static void deliver(struct inside_output *o, enum engine_stream s, const char *data, size_t n)
{
	if (s == ENGINE_STDOUT && o->on_record)
		records_take_output(&o->records, data, n);
	else
		deliver_text(o, s, data, n);
}

static void close_stream(struct inside_output *o, enum engine_stream s)
{
	if (o->kept && o->fd[s] >= 0)
		(void)fcntl(o->fd[s], F_SETPIPE_SZ, PIPE_IDLE_BYTES);
	o->source[s] = sd_event_source_disable_unref(o->source[s]);
	o->pause[s] = sd_event_source_disable_unref(o->pause[s]);
	o->fd[s] = fd_close(o->fd[s]);
}

/* Reads up to TIMES pieces; false = nothing more will come now. */
static bool read_stream(struct inside_output *o, enum engine_stream s, size_t times)
{
	static char piece[PIECE_BYTES]; /* one loop, one thread */

	for (size_t i = 0; i < times; i++) {
		ssize_t n = o->fd[s] >= 0 ? read(o->fd[s], piece, sizeof(piece)) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return false;
		if (n <= 0) {
			close_stream(o, s);
			return false;
		}
		KILL_POINT(OUTPUT_READ);
		deliver(o, s, piece, (size_t)n);
		if (o->held)
			break;
	}
	return true;
}

static int on_pause_over(sd_event_source *source, uint64_t at UNUSED, void *user)
{
	struct inside_output *o = user;

	loop_work("output", "after a pause");
	for (size_t s = 0; s < ARRAY_SIZE(o->pause); s++)
		if (o->pause[s] == source && o->source[s] && !o->held)
			(void)sd_event_source_set_enabled(o->source[s], SD_EVENT_ON);
	return 0;
}

/* The echo of a key must not wait for a pause. A process may have LOOKS_MAX looks in a row without one, and one more for each
 * millisecond, so one that writes in small pieces wakes the loop no oftener. */
static bool may_look_again(struct inside_output *o)
{
	const uint64_t passed_ms = (now_ns() - o->looked_ns) / NS_PER_MS;

	o->looks = (unsigned)MIN(o->looks + passed_ms, LOOKS_MAX);
	o->looked_ns += passed_ms * NS_PER_MS;
	if (!o->endless || o->looks == 0)
		return false;
	o->looks--;
	return true;
}

/* Stops looking at the stream for a while; MORE: not all was read. If there is no memory for the timer, the stream stays
 * enabled, which costs speed only. */
static void pause_stream(struct inside_output *o, enum engine_stream s, bool more)
{
	const uint64_t every_us = more && o->endless ? FLOOD_EVERY_US : LOOK_EVERY_US;
	int q;

	if (!o->source[s] || (!more && may_look_again(o))) /* at its end */
		return;
	if (o->pause[s]) {
		q = sd_event_source_set_time_relative(o->pause[s], every_us);
		if (q >= 0)
			q = sd_event_source_set_enabled(o->pause[s], SD_EVENT_ONESHOT);
	} else {
		q = sd_event_add_time_relative(o->loop, &o->pause[s], CLOCK_MONOTONIC, every_us,
					       NS_PER_MS / NS_PER_US, on_pause_over, o);
	}
	if (q >= 0)
		(void)sd_event_source_set_enabled(o->source[s], SD_EVENT_OFF);
}

static int arm_tail(struct inside_output *o, uint64_t after_us);

/* Reads the pipe before the tail, because the bytes in the pipe are older. */
static int on_tail(sd_event_source *source UNUSED, uint64_t at UNUSED, void *user)
{
	static char bytes[OUTPUT_TAIL_ROOM]; /* one loop, one thread */
	struct inside_output *o = user;
	bool again;

	loop_work("output", "tail");
	if (o->held)
		return arm_tail(o, TAIL_AFTER_US);
	if (!tail_hold(o->tail, &again))
		return again ? arm_tail(o, TAIL_AGAIN_US) : 0;
	bool more = read_stream(o, ENGINE_STDOUT, READS_PER_TURN);
	size_t n = more ? 0 : tail_take(o->tail, bytes);
	if (n > 0)
		deliver(o, ENGINE_STDOUT, bytes, n);
	tail_release(o->tail, more || n > 0);
	return more || n > 0 ? arm_tail(o, TAIL_AFTER_US) : 0;
}

static int arm_tail(struct inside_output *o, uint64_t after_us)
{
	if (!o->tail_look)
		return sd_event_add_time_relative(o->loop, &o->tail_look, CLOCK_MONOTONIC, after_us,
						  NS_PER_MS / NS_PER_US, on_tail, o);
	int q = sd_event_source_set_time_relative(o->tail_look, after_us);
	return q < 0 ? q : sd_event_source_set_enabled(o->tail_look, SD_EVENT_ONESHOT);
}

/* At the end of the run: its state does not matter, because nobody changes it any more. */
static void deliver_tail(struct inside_output *o)
{
	static char bytes[OUTPUT_TAIL_ROOM];
	size_t n = o->tail ? tail_take(o->tail, bytes) : 0;

	if (n > 0)
		deliver(o, ENGINE_STDOUT, bytes, n);
}

static int on_stdout(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents UNUSED,
		     void *user)
{
	struct inside_output *o = user;

	loop_work("output", "stdout");
	const bool more = read_stream(o, ENGINE_STDOUT, READS_PER_TURN);
	pause_stream(o, ENGINE_STDOUT, more);
	return o->tail ? arm_tail(o, TAIL_AFTER_US) : 0;
}

static int on_stderr(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents UNUSED,
		     void *user)
{
	loop_work("output", "stderr");
	const bool more = read_stream(user, ENGINE_STDERR, READS_PER_TURN);
	pause_stream(user, ENGINE_STDERR, more);
	return 0;
}

static int make_pipe(struct inside_pipe *ret)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	*ret = (struct inside_pipe){.read = p[0], .write = p[1]};
	/* The front owns the pipe. With this mode the run can open /dev/stdout by name, as shell
	 * scripts do. */
	int q = fchmod(p[1], 0622) < 0 ? -errno : fd_set_nonblock(p[0], true);
	if (q < 0)
		inside_pipe_close(ret);
	return q;
}

void inside_pipe_close(struct inside_pipe *p)
{
	p->read = fd_close(p->read);
	p->write = fd_close(p->write);
}

static int copy_pipe(struct inside_pipe *kept, struct inside_pipe *ret)
{
	int q = kept->read < 0 ? make_pipe(kept) : 0;

	if (q == 0)
		q = ret->read = fd_dup(kept->read);
	if (q >= 0)
		q = ret->write = fd_dup(kept->write);
	return q < 0
		   ? q
		   : fd_set_nonblock(ret->write, false); /* a cell may have changed that for all */
}

int inside_output_pipe(struct inside_output *o, enum engine_stream s, struct inside_pipe *kept,
		       int *ret_write)
{
	struct inside_pipe p = {-1, -1};
	int waiting = 0;
	int q = kept ? copy_pipe(kept, &p) : make_pipe(&p);
	_cleanup_fd_ int writer = p.write;

	o->fd[s] = p.read;
	o->kept = kept;
	if (q == 0) {
		if (!o->endless) /* there may be hundreds of background processes */
			(void)fcntl(writer, F_SETPIPE_SZ,
				    PIPE_BYTES); /* best effort: pipe(7) has limits */
		if (kept && ioctl(p.read, FIONREAD, &waiting) == 0)
			o->late[s] = (uint64_t)waiting;
		q = sd_event_add_io(o->loop, &o->source[s], p.read, EPOLLIN,
				    s == ENGINE_STDOUT ? on_stdout : on_stderr, o);
	}
	if (q < 0)
		return q;
	*ret_write = TAKE_FD(writer);
	return 0;
}

void inside_output_hold(struct inside_output *o, bool hold)
{
	o->held = hold && !o->ended;
	for (size_t s = 0; s < ARRAY_SIZE(o->source); s++)
		if (o->source[s])
			(void)sd_event_source_set_enabled(o->source[s],
							  o->held ? SD_EVENT_OFF : SD_EVENT_ON);
}

void inside_output_drain(struct inside_output *o)
{
	o->ended = true;
	o->held = false;
	(void)read_stream(o, ENGINE_STDOUT, DRAIN_MAX / PIECE_BYTES);
	deliver_tail(o);
	records_end_output(&o->records);
	(void)read_stream(o, ENGINE_STDERR, DRAIN_MAX / PIECE_BYTES);
}

void inside_output_done(struct inside_output *o)
{
	close_stream(o, ENGINE_STDOUT);
	close_stream(o, ENGINE_STDERR);
	o->tail_look = sd_event_source_disable_unref(o->tail_look);
	tail_unmap(o->tail);
}
