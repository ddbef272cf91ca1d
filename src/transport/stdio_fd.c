/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/stdio_fd.h"
#include "base/fdio.h"
#include "base/loop.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define PIPE_BYTES (512 << 10) /* the 64 KiB of a new pipe cost a large answer hundreds of turns */

static int on_io(sd_event_source *src, int fd, uint32_t revents, void *userdata)
{
	struct stdio_watch *w = userdata;

	loop_work("stdio", "ready");
	(void)src;
	(void)fd;
	w->ready(revents, w->userdata);
	return 0;
}

static int on_defer(sd_event_source *src, void *userdata)
{
	struct stdio_watch *w = userdata;

	loop_work("stdio", "file");
	(void)src;
	w->ready(w->direction, w->userdata);
	return 0;
}

/* O_NONBLOCK belongs to the open file description, which a shell or a parent may share with us.
 * Opening the pipe or terminal again through /proc gives us a description of our own. Sockets use
 * MSG_DONTWAIT. Where a pipe cannot be opened again (it belongs to another user: root's server has given up its
 * rights), somebody else has the same description and may clear the flag at any time. So each call on such a pipe
 * says itself that it must not wait (call_now()). */
static int open_again(struct stdio_fd *f, int fd, uint32_t direction)
{
	const int mode = direction == EPOLLIN ? O_RDONLY : O_WRONLY;
	char path[32];
	struct stat st;
	int flags;

	if (fstat(fd, &st) < 0)
		return -errno;
	f->fd = fd;
	f->is_socket = S_ISSOCK(st.st_mode);
	if (S_ISREG(st.st_mode))
		return 0;
	if (f->is_socket) { /* one socket may serve both directions, and epoll takes a
			      * descriptor only once */
		f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		f->own = f->fd >= 0;
		return f->own ? 0 : -errno;
	}
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	f->fd = open(path, mode | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	f->own = f->fd >= 0;
	if (f->own)
		return 0;
	f->fd = fd;
	f->is_shared = S_ISFIFO(st.st_mode);
	flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return -errno;
	if (flags & O_NONBLOCK)
		return 0;
	if (fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	f->changed_flags = true;
	return 0;
}

int stdio_watch_init(struct stdio_watch *w, sd_event *loop, int fd, uint32_t direction,
		     stdio_ready_fn ready, void *userdata)
{
	int r;

	*w = (struct stdio_watch){.direction = direction, .ready = ready, .userdata = userdata};
	r = open_again(&w->f, fd, direction);
	if (r < 0)
		return r;
	r = sd_event_add_io(loop, &w->f.io, w->f.fd, direction == EPOLLIN ? direction : 0, on_io,
			    w);
	if (r >= 0 && direction == EPOLLIN)
		r = sd_event_source_set_enabled(w->f.io, SD_EVENT_OFF);
	if (r == -EPERM) { /* epoll_ctl(2): regular files and directories are always ready */
		w->f.always_ready = true;
		r = sd_event_add_defer(loop, &w->f.defer, on_defer, w);
		/* It is always ready, so other sources must come first. */
		if (r >= 0)
			r = sd_event_source_set_priority(w->f.defer, SD_EVENT_PRIORITY_NORMAL + 1);
		if (r >= 0)
			r = sd_event_source_set_enabled(w->f.defer, SD_EVENT_OFF);
	}
	if (r < 0)
		stdio_watch_done(w);
	return r < 0 ? r : 0;
}

void stdio_watch_done(struct stdio_watch *w)
{
	struct stdio_fd *f = &w->f;

	f->io = sd_event_source_disable_unref(f->io);
	f->defer = sd_event_source_disable_unref(f->defer);
	if (f->changed_flags) {
		const int flags = fcntl(f->fd, F_GETFL);

		if (flags >= 0)
			(void)fcntl(f->fd, F_SETFL, flags & ~O_NONBLOCK);
	}
	if (f->own)
		(void)fd_close(f->fd);
	*f = (struct stdio_fd){.fd = -1};
}

void stdio_watch_enable(struct stdio_watch *w, bool on)
{
	struct stdio_fd *f = &w->f;

	if (f->watched == on)
		return;
	f->watched = on;
	if (f->always_ready)
		(void)sd_event_source_set_enabled(f->defer, on ? SD_EVENT_ON : SD_EVENT_OFF);
	else if (w->direction == EPOLLIN) /* epoll reports a hang-up even if nothing is asked for */
		(void)sd_event_source_set_enabled(f->io, on ? SD_EVENT_ON : SD_EVENT_OFF);
	else
		(void)sd_event_source_set_io_events(f->io, on ? w->direction : 0);
}

void stdio_watch_enlarge(struct stdio_watch *w)
{
	struct stdio_fd *f = &w->f;

	if (!f->large && !f->is_socket)
		(void)fcntl(f->fd, F_SETPIPE_SZ, PIPE_BYTES);
	f->large = true;
}

void stdio_watch_stop(struct stdio_watch *w)
{
	if (w->f.io)
		(void)sd_event_source_set_enabled(w->f.io, SD_EVENT_OFF);
	if (w->f.defer)
		(void)sd_event_source_set_enabled(w->f.defer, SD_EVENT_OFF);
}

/* Like readv(2) or writev(2). Kernels before 6.4 have no RWF_NOWAIT for pipes: there the flag is looked at just before. */
static ssize_t call_now(struct stdio_fd *f, bool out, const struct iovec *iov, int n_iov)
{
	ssize_t n = -1;

	if (f->is_shared && !f->no_nowait) {
		n = out ? pwritev2(f->fd, iov, n_iov, -1, RWF_NOWAIT)
			: preadv2(f->fd, iov, n_iov, -1, RWF_NOWAIT);
		if (n >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS))
			return n;
		f->no_nowait = true;
	}
	if (f->is_shared && !(fcntl(f->fd, F_GETFL) & O_NONBLOCK) &&
	    fd_set_nonblock(f->fd, true) < 0)
		return -1;
	return out ? writev(f->fd, iov, n_iov) : readv(f->fd, iov, n_iov);
}

ssize_t stdio_watch_read(struct stdio_watch *w, void *buf, size_t len)
{
	const struct iovec iov = {.iov_base = buf, .iov_len = len};
	ssize_t n;

	do
		n = w->f.is_socket ? recv(w->f.fd, buf, len, MSG_DONTWAIT)
				   : call_now(&w->f, false, &iov, 1);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t stdio_watch_writev(struct stdio_watch *w, const struct iovec *iov, unsigned n_iov)
{
	/* sendmsg(2) only reads what the vectors point to; the type has no const. */
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = n_iov};
	ssize_t n;

	do
		n = w->f.is_socket ? sendmsg(w->f.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL)
				   : call_now(&w->f, true, iov, (int)n_iov);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}
