/* SPDX-License-Identifier: Apache-2.0 */
/* What clients give a background process: bytes for its standard input, and the size of its terminal. */
#include "sandbox/process_parts.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/rand.h"
#include "sandbox/manager.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Between two sizes that init is told: of clients that send thousands, the programs see the newest. */
#define RESIZE_NS (20 * NS_PER_MS)

/* ---- input ---- */

static void all_read(struct process *p)
{
	p->room = sd_event_source_disable_unref(p->room);
	buf_done(&p->unread);
	budget_give(&p->unread_share);
}

void process_close_input(struct process *p)
{
	all_read(p);
	p->input = fd_close(p->input);
}

/* Writes as much as there is room for. -EPIPE: it does not read any more. */
static int flush(struct process *p)
{
	while (p->unread.len > 0) {
		/* SIGPIPE is ignored in the front. */
		const ssize_t n = write(p->input, p->unread.data, p->unread.len);

		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		buf_consume(&p->unread, n < 0 ? 0 : (size_t)n);
	}
	all_read(p);
	if (p->last)
		process_close_input(p);
	return 0;
}

static int on_room(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents UNUSED,
		   void *user)
{
	struct process *p = user;

	loop_work("process", "input");
	if (flush(p) < 0)
		process_close_input(p);
	if (p->unread.len == 0)
		process_tell(p);
	return 0;
}

/* Takes DATA, all of it or nothing. */
static int add_input(struct process *p, const void *data, size_t len, struct err *e)
{
	struct manager *m = p->sandbox->manager;
	int r = budget_take(m->config.budgets, p->sandbox->owner, BUDGET_RUN_INPUT,
			    p->unread.len + len, &p->unread_share, e);

	if (r < 0)
		return r;
	r = buf_add(&p->unread, data, len);
	if (r < 0) {
		if (p->unread.len == 0)
			all_read(p);
		return err_set(e, ERR_OUT_OF_MEMORY, -r, "input of process %s", p->id);
	}
	return 0;
}

int process_write(struct process *p, const void *data, size_t len, bool close, struct err *e)
{
	int waiting = 0;

	if (p->input < 0 || p->last)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       p->handle
				   ? "The standard input of process %s is closed, or was never open"
				   : "Process %s has ended",
			       p->id);
	if (close && p->rows > 0)
		return err_set(
		    e, ERR_INVALID_ARGUMENT, 0,
		    "The input of a terminal stays open. Send the character U+0004 to end it.");
	if (ioctl(p->input, FIONREAD, &waiting) < 0)
		waiting = PROCESS_PIPE_BYTES;
	if (len > 0 && (size_t)waiting + p->unread.len + len > PROCESS_INPUT_MAX)
		return err_set(e, ERR_SERVER_BUSY, 0,
			       "Process %s has %zu bytes of input to read yet; at most %u can wait",
			       p->id, (size_t)waiting + p->unread.len, PROCESS_INPUT_MAX);
	int r = len > 0 ? add_input(p, data, len, e) : 0;
	if (r < 0)
		return r;
	p->last = close;
	r = flush(p);
	if (r < 0) {
		process_close_input(p);
		return err_set(e, ERR_INVALID_ARGUMENT, -r,
			       "Process %s does not read its standard input any more", p->id);
	}
	if (p->unread.len > 0 && !p->room)
		r = sd_event_add_io(p->sandbox->manager->config.loop, &p->room, p->input, EPOLLOUT,
				    on_room, p);
	if (r < 0) { /* a part has been written: the rest can neither be taken back nor be kept */
		process_close_input(p);
		return err_set(e, ERR_OUT_OF_MEMORY, -r, "input of process %s", p->id);
	}
	return 0;
}

/* ---- the size of its terminal ---- */

static int on_resize_time(sd_event_source *source, uint64_t usec, void *user);

/* Tells init the size, unless it knows it, or has been told another one just now. */
static int set_size(struct process *p)
{
	if (!p->handle || p->resize || (p->rows == p->set_rows && p->columns == p->set_columns))
		return 0;
	const int r = sd_event_add_time_relative(p->sandbox->manager->config.loop, &p->resize,
						 CLOCK_MONOTONIC, RESIZE_NS / NS_PER_US, 0,
						 on_resize_time, p);
	if (r < 0)
		return r;
	p->set_rows = p->rows;
	p->set_columns = p->columns;
	return engine_resize(p->handle, p->rows, p->columns);
}

static int on_resize_time(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct process *p = user;

	loop_work("timer", "size of a terminal");
	p->resize = sd_event_source_disable_unref(p->resize);
	(void)set_size(p);
	return 0;
}

int process_resize(struct process *p, int64_t rows, int64_t columns, struct err *e)
{
	if (p->rows == 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "Process %s has no terminal", p->id);
	if (rows < 1 || rows > ENGINE_TERMINAL_MAX || columns < 1 || columns > ENGINE_TERMINAL_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "A terminal has 1 to %d rows and 1 to %d columns",
			       ENGINE_TERMINAL_MAX, ENGINE_TERMINAL_MAX);
	if (p->rows == (uint32_t)rows && p->columns == (uint32_t)columns)
		return 0;
	p->rows = (uint32_t)rows;
	p->columns = (uint32_t)columns;
	const int r = set_size(p);
	process_tell(p);
	/* ESRCH: it has ended, and its end is on the way. */
	return r < 0 && r != -ESRCH ? err_set(e, ERR_SYSTEM, -r, "the size of a terminal") : 0;
}
