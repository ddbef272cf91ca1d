/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals of background processes. The reaper of such a process (background.c) is also its relay:
 *
 *   front ──► pipe ──► relay ──► master ═ slave ──► program     what is typed
 *   front ◄── pipe ◄── relay ◄── master ═ slave ◄── program     what is shown
 *
 * So the front reads and writes pipes, as for every run, and never has a descriptor of a terminal of the sandbox. The relay
 * holds one block of bytes in each direction. If the front does not read, the relay does not either, and the program waits
 * in write(2) as it would for a slow terminal. It sleeps in poll(2) while nothing moves.
 *
 * The terminal is one of the sandbox's own devpts. init opens it by /dev/ptmx, of a folder that runs cannot change, and the
 * slave by TIOCGPTPEER (ioctl_tty(2)), without a name. The relay keeps the slave open, so that a program which closes all its
 * descriptors does not end the terminal. init keeps the master, to set its size. */
#include "terminal.h"
#include "root_user.h"

#include "base/walls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <unistd.h>

#define BLOCK       4096
#define PTMX        makedev(5, 2)        /* Documentation/admin-guide/devices.txt of the kernel */
#define REST_BYTES  (256 * 1024)         /* that are passed on when all processes have ended */
#define REST_NS     UINT64_C(2000000000) /* in which the front must take them */
#define NO_INTEREST (-1)                 /* poll(2) tells of no descriptor below 0 */

bool terminal_is_size(uint32_t rows, uint32_t columns)
{
	return rows >= 1 && rows <= PROTO_TERMINAL_MAX && columns >= 1 &&
	       columns <= PROTO_TERMINAL_MAX;
}

void terminal_resize(int master, uint32_t rows, uint32_t columns)
{
	const struct winsize size = {.ws_row = (unsigned short)rows,
				     .ws_col = (unsigned short)columns};

	(void)ioctl(master, TIOCSWINSZ, &size);
}

/* Backspace takes a whole character of UTF-8, as in every terminal of today. termios(3): IUTF8. */
static void erase_characters(int master)
{
	struct termios t;

	if (tcgetattr(master, &t) < 0)
		return; /* as an older kernel has it */
	t.c_iflag |= IUTF8;
	(void)tcsetattr(master, TCSANOW, &t);
}

int terminal_open(uint32_t rows, uint32_t columns)
{
	const int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	const int unlocked = 0;
	struct stat st;
	int r;

	if (master < 0)
		return -errno;
	if (fstat(master, &st) < 0)
		r = -errno;
	else if (!S_ISCHR(st.st_mode) || st.st_rdev != PTMX)
		r = -ENOTTY;
	else
		r = ioctl(master, TIOCSPTLCK, &unlocked) < 0 ? -errno : 0;
	if (r < 0) {
		(void)close(master);
		return r;
	}
	terminal_resize(master, rows, columns);
	erase_characters(master);
	return master;
}

int terminal_slave(int master, bool root)
{
	const int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (slave < 0)
		return -errno;
	if (!root || !wall_stands(WALL_ROOT_OWN) || fchown(slave, ROOT_USER_ID, ROOT_USER_ID) == 0)
		return slave;
	const int r = -errno;
	(void)close(slave);
	return r;
}

/* ---- the relay ---- */

struct way {
	int from, to;
	char data[BLOCK];
	size_t at, len; /* AT..LEN waits */
	bool over;      /* nothing more will come, or nobody takes it */
};

static bool is_temporary(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void way_read(struct way *w)
{
	const ssize_t n = read(w->from, w->data, BLOCK);

	w->at = 0;
	w->len = n > 0 ? (size_t)n : 0;
	w->over = n <= 0 && !is_temporary(n);
}

static void way_write(struct way *w)
{
	const ssize_t n = write(w->to, w->data + w->at, w->len - w->at);

	if (n > 0)
		w->at += (size_t)n;
	else if (!is_temporary(n))
		w->over = true;
	if (w->over || w->at == w->len)
		w->at = w->len = 0;
}

static bool has_some(const struct way *w)
{
	return w->len > w->at;
}

static struct pollfd wants(int fd, bool wanted, short events)
{
	return (struct pollfd){.fd = wanted ? fd : NO_INTEREST, .events = events};
}

/* What has come, and as much of it as there is room for. */
static void move(struct way *w, const struct pollfd *from, const struct pollfd *to)
{
	if (from->revents)
		way_read(w);
	if (has_some(w) && (from->revents || to->revents))
		way_write(w);
}

/* The last output. A process of a run may have the slave open and go on writing, so bytes and time have a bound. */
static void pass_rest(struct way *out)
{
	const uint64_t until = init_now() + REST_NS;

	for (size_t sum = 0; !out->over && sum < REST_BYTES && init_now() < until;) {
		struct pollfd p = {.fd = out->to, .events = POLLOUT};

		if (!has_some(out)) {
			way_read(out);
			if (!has_some(out)) /* EAGAIN, or EIO: no slave is open any more */
				return;
			sum += out->len;
		}
		if (poll(&p, 1, (int)(REST_NS / 1000000)) > 0)
			way_write(out);
	}
}

void terminal_relay(const struct terminal_ends *t, bool (*reap)(void *user), void *user)
{
	struct way in = {.from = t->input, .to = t->master, .over = t->input < 0};
	struct way out = {.from = t->master, .to = t->output};
	sigset_t child;

	(void)sigemptyset(&child);
	(void)sigaddset(&child, SIGCHLD);
	const int children = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	(void)fcntl(t->input, F_SETFL, O_NONBLOCK);
	(void)fcntl(t->output, F_SETFL, O_NONBLOCK);
	while (reap(user)) {
		struct pollfd p[] = {
		    {.fd = children, .events = POLLIN},
		    wants(t->input, !in.over && !has_some(&in), POLLIN),
		    wants(t->master, !in.over && has_some(&in), POLLOUT),
		    wants(t->master, !out.over && !has_some(&out), POLLIN),
		    wants(t->output, !out.over && has_some(&out), POLLOUT),
		};
		struct signalfd_siginfo si;

		if (poll(p, sizeof(p) / sizeof(p[0]), -1) < 0)
			continue;
		if (p[0].revents)
			(void)!read(children, &si, sizeof(si));
		move(&in, &p[1], &p[2]);
		move(&out, &p[3], &p[4]);
	}
	(void)close(t->slave);
	pass_rest(&out);
}
