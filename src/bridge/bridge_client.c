/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "config/paths.h"
#include "transport/launcher.h"
#include "transport/pump.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* ---- finding a server ---- */

static bool say_why(char *why, const char *text)
{
	(void)snprintf(why, BRIDGE_WHY_MAX, "%s", text);
	return false;
}

/* The other end gets all code and files, so it must be root or the same user. */
static bool is_trusted(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && len == sizeof(peer) &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static int connect_to(const char *path, char *why)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || text_copy(addr.sun_path, sizeof(addr.sun_path), path) < 0)
		return -1;
	/* unix(7): with a full backlog connect(2) fails with EAGAIN instead of waiting. */
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			(void)say_why(why, errno == ECONNREFUSED ? "nobody listens on the socket"
								 : "the socket takes nobody");
		return -1;
	}
	if (!is_trusted(fd)) {
		(void)say_why(why, "another user listens on the socket");
		return -1;
	}
	return TAKE_FD(fd);
}

/* Returns a descriptor to pass to the server; -1: this kind of file cannot be passed. A pipe is opened
 * again, because the server sets O_NONBLOCK, which belongs to the open file description, and a shell
 * or parent may share ours. */
static int to_pass(int fd, int mode)
{
	char path[32];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	if (S_ISSOCK(st.st_mode)) /* MSG_DONTWAIT is enough there */
		return fd_dup(fd);
	if (!S_ISFIFO(st.st_mode))
		return -1;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, mode | O_NONBLOCK | O_CLOEXEC);
}

static bool send_hello(int fd, const struct app *a, bool *passed, char *why)
{
	_cleanup_fd_ int in = to_pass(STDIN_FILENO, O_RDONLY);
	_cleanup_fd_ int out = to_pass(STDOUT_FILENO, O_WRONLY);
	const int fds[BRIDGE_N_FDS] = {in, out};
	_cleanup_(buf_done) struct buf hello;

	buf_init(&hello, sizeof(struct bridge_hello) + BRIDGE_BODY_MAX);
	if (bridge_say_hello(a, &hello) < 0)
		return say_why(why, "the settings are too long for a hello");
	*passed = in >= 0 && out >= 0;
	const ssize_t n =
	    fd_send(fd, hello.data, hello.len, fds, *passed ? BRIDGE_N_FDS : 0, MSG_DONTWAIT);
	return (n >= 0 && (size_t)n == hello.len) || say_why(why, "the server does not listen");
}

static bool take_answer(int fd, uint64_t until_ns, struct bridge_answer *ret, char *why)
{
	size_t have = 0;

	while (have < sizeof(*ret)) {
		const ssize_t n = recv(fd, (char *)ret + have, sizeof(*ret) - have, MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return say_why(why, "the server hung up");
		if (n > 0) {
			have += (size_t)n;
			continue;
		}
		const uint64_t now = now_ns();
		struct pollfd p = {.fd = fd, .events = POLLIN};
		const struct timespec left = {.tv_nsec =
						  now < until_ns ? (long)(until_ns - now) : 0};
		if (now >= until_ns || ppoll(&p, 1, &left, NULL) == 0)
			return say_why(why, "the server is too busy to answer");
	}
	ret->why[sizeof(ret->why) - 1] = '\0';
	if (memcmp(ret->magic, BRIDGE_MAGIC, sizeof(ret->magic)) != 0 ||
	    ret->version != BRIDGE_VERSION)
		return say_why(why, "what listens on the socket is no server of this version");
	if (!ret->accepted)
		return say_why(why, ret->why);
	return true;
}

int bridge_find(const struct app *a, bool *passed, char *why)
{
	const uint64_t until_ns = now_ns() + BRIDGE_BUDGET_NS;
	struct bridge_answer answer;
	char path[PATH_MAX];
	struct err e = ERR_INIT;

	why[0] = '\0';
	if (!a->settings.bridge)
		return -1;
	if (config_socket_path(&a->settings, path, sizeof(path), &e) < 0 || !path[0])
		return -1;
	/* A key is never sent, so the server could not compare it. */
	if (settings_is_explicit(&a->settings, SETTING_ID_api_key)) {
		(void)say_why(why, "SANDBOX_API_KEY was given here");
		return -1;
	}
	_cleanup_fd_ int fd = connect_to(path, why);
	if (fd < 0 || !send_hello(fd, a, passed, why) || !take_answer(fd, until_ns, &answer, why))
		return -1;
	const char go = BRIDGE_GO;
	if (*passed && send(fd, &go, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) {
		(void)say_why(why, "the server hung up");
		return -1;
	}
	return TAKE_FD(fd);
}

/* ---- being a bridge ---- */

struct bridge {
	sd_event *loop;
	int sock;
	struct transport_pump *pump; /* NULL: the server has input and output */
	int reason;
};

static void on_end(int reason, void *userdata)
{
	struct bridge *b = userdata;

	b->reason = reason;
	(void)sd_event_exit(b->loop, 0);
}

/* The server talks to the client itself. This connection only says how that ended. */
static int on_server(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *userdata)
{
	char byte = 0;
	const ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	on_end(n == 1 && byte == BRIDGE_BYE ? 0 : -ECONNRESET, userdata);
	return 0;
}

static int on_signal(sd_event_source *source UNUSED, const struct signalfd_siginfo *si UNUSED,
		     void *userdata)
{
	struct bridge *b = userdata;

	if (b->pump)
		transport_pump_finish(b->pump);
	else
		(void)shutdown(b->sock, SHUT_WR);
	return 0;
}

static void on_launcher_gone(void *userdata)
{
	LOG_INFO("launcher_gone");
	(void)on_signal(NULL, NULL, userdata);
}

static int watch(struct bridge *b)
{
	int r =
	    sd_event_add_signal(b->loop, NULL, SIGTERM | SD_EVENT_SIGNAL_PROCMASK, on_signal, b);

	r = r < 0 ? r : launcher_watch(b->loop, on_launcher_gone, b);
	if (r < 0)
		return r;
	return sd_event_add_signal(b->loop, NULL, SIGINT | SD_EVENT_SIGNAL_PROCMASK, on_signal, b);
}

static int start(struct bridge *b, bool passed)
{
	int r = sd_event_default(&b->loop);
	struct transport_pump_config config = {
	    .loop = b->loop,
	    .in_fd = STDIN_FILENO,
	    .out_fd = STDOUT_FILENO,
	    .sock = b->sock,
	    .on_end = on_end,
	    .userdata = b,
	};

	if (r >= 0 && passed)
		r = sd_event_add_io(b->loop, NULL, b->sock, EPOLLIN, on_server, b);
	else if (r >= 0)
		r = transport_pump_new(&config, &b->pump);
	r = r < 0 ? r : watch(b);
	return r < 0 ? r : sd_event_loop(b->loop);
}

int bridge_run(int sock, bool passed, struct err *e)
{
	_cleanup_fd_ int fd = sock;
	struct bridge b = {.sock = fd};
	int r = start(&b, passed);

	b.pump = transport_pump_free(b.pump);
	b.loop = sd_event_unref(b.loop);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the event loop");
	LOG_DEBUG("bridge_ended", LOG_I("reason", b.reason));
	if (b.reason == -ECONNRESET)
		return err_set(e, ERR_SYSTEM, 0,
			       "the server that this client shared has ended; start again");
	return 0;
}
