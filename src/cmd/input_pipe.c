/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/input_pipe.h"

#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BLOCK_BYTES 65536

struct input_pipe {
	sd_event_source *input;
	sd_event_source *output; /* waits for room in the pipe */
	int fd;                  /* the end to write to; -1 = everything was passed on */
	size_t at, len;          /* of data[]: not written yet */
	char data[BLOCK_BYTES];
};

/* The run reads the end of its input next. */
static void end(struct input_pipe *p)
{
	p->input = sd_event_source_disable_unref(p->input);
	p->output = sd_event_source_disable_unref(p->output);
	p->fd = fd_close(p->fd);
}

/* Reads and writes in turn: there is never more than one block in our hands. */
static void go_on(struct input_pipe *p)
{
	if (p->fd < 0)
		return;
	(void)sd_event_source_set_enabled(p->input, p->len == 0 ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
	(void)sd_event_source_set_enabled(p->output, p->len > 0 ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
}

static int on_output(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents UNUSED,
		     void *user)
{
	struct input_pipe *p = user;
	ssize_t n = write(p->fd, p->data + p->at, p->len);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		end(p); /* nobody reads it any more */
		return 0;
	}
	p->at += n > 0 ? (size_t)n : 0;
	p->len -= n > 0 ? (size_t)n : 0;
	go_on(p);
	return 0;
}

static int on_input(struct input_pipe *p)
{
	ssize_t n = read(STDIN_FILENO, p->data, sizeof(p->data));

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		go_on(p);
		return 0;
	}
	if (n <= 0) {
		end(p);
		return 0;
	}
	p->at = 0;
	p->len = (size_t)n;
	return on_output(NULL, -1, 0, p);
}

static int on_io(sd_event_source *source UNUSED, int fd UNUSED, uint32_t revents UNUSED, void *user)
{
	return on_input(user);
}

/* epoll cannot wait for regular files; they are always readable. */
static int on_turn(sd_event_source *source UNUSED, void *user)
{
	return on_input(user);
}

int input_pipe_new(sd_event *loop, struct input_pipe **ret, int *ret_fd, struct err *e)
{
	struct input_pipe *p = calloc(1, sizeof(*p));
	int ends[2];

	if (!p || pipe2(ends, O_CLOEXEC) < 0) {
		free(p);
		return err_set(e, ERR_SYSTEM, errno, "standard input");
	}
	p->fd = ends[1];
	/* In the background a read from the terminal shall fail instead of stopping us. */
	(void)signal(SIGTTIN, SIG_IGN);
	int r = fcntl(p->fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
	if (r == 0)
		r = sd_event_add_io(loop, &p->output, p->fd, EPOLLOUT, on_output, p);
	if (r >= 0)
		r = sd_event_add_io(loop, &p->input, STDIN_FILENO, EPOLLIN, on_io, p);
	if (r == -EPERM)
		r = sd_event_add_defer(loop, &p->input, on_turn, p);
	if (r < 0) {
		(void)close(ends[0]);
		(void)input_pipe_free(p);
		return err_set(e, ERR_SYSTEM, -r, "standard input");
	}
	go_on(p);
	*ret = p;
	*ret_fd = ends[0];
	return 0;
}

struct input_pipe *input_pipe_free(struct input_pipe *p)
{
	if (!p)
		return NULL;
	end(p);
	free(p);
	return NULL;
}
