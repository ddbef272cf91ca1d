/* SPDX-License-Identifier: Apache-2.0 */
#include "app/reopener.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/parent.h"
#include "base/rand.h"
#include "base/reap.h"
#include "config/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHANNEL_FD  3
#define END_WAIT_NS (2 * NS_PER_S)
#define LOOK_MS     2000

#define CERTIFICATE_FILES 6
#define FILE_FACTS        8

/* What the server asks for: a byte. */
enum question { ASK_ALL, ASK_CERTIFICATES };

struct reopener {
	int fd;
	pid_t pid;
	sd_event_source *source; /* made with the first question */
	reopener_fn fn;
	void *user;
	bool asked;
	bool partly; /* for certificates alone */
	bool again;  /* ask for all when the answers are there */
};

struct answer {
	uint32_t what;  /* enum reopen */
	int32_t errnum; /* 0: a descriptor comes with it, unless it is REOPEN_DONE */
};

/* ---- the process ---- */

/* The bytes of the settings file: whoever parses them never waits for a disk. */
static int read_settings(const struct reopener_config *c)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
	_cleanup_fd_ int fd = config_file_open(c->settings, c->settings_safe);

	if (fd < 0)
		return fd;
	const int r = fd_read_file(fd, &text);
	if (r < 0)
		return r == -ENOBUFS ? -EFBIG : r;
	return fd_sealed_memfd("settings", buf_str(&text), text.len);
}

int reopener_open(const char *path)
{
	/* without waiting for the writer of a pipe */
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? TAKE_FD(fd) : -EINVAL;
}

static int read_other(const char *path)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(REOPENER_FILE_MAX);
	_cleanup_fd_ int fd = reopener_open(path);
	const int r = fd < 0 ? fd : fd_read_file(fd, &text);

	return r < 0 ? r : fd_sealed_memfd("certificate", buf_str(&text), text.len);
}

static bool say(enum reopen what, int fd, int watch)
{
	struct answer a = {.what = what, .errnum = fd < 0 ? -fd : 0};

	return parent_send(CHANNEL_FD, watch, &a, sizeof(a), &fd, fd >= 0 && what < REOPEN_DONE) ==
	       0;
}

static bool answer_member(const struct reopener_config *c, int watch)
{
	_cleanup_fd_ int authority = read_other(c->member_authority);
	_cleanup_fd_ int certificate = read_other(c->member_certificate);
	_cleanup_fd_ int key = read_other(c->member_key);

	return say(REOPEN_MEMBER_AUTHORITY, authority, watch) &&
	       say(REOPEN_MEMBER_CERTIFICATE, certificate, watch) &&
	       say(REOPEN_MEMBER_KEY, key, watch);
}

/* Which files the certificates are, as far as it shows without reading them. Secrets of Kubernetes are symbolic links that are changed. */
struct look {
	int64_t facts[CERTIFICATE_FILES][FILE_FACTS];
};

static void look(const struct reopener_config *c, struct look *ret)
{
	const char *paths[CERTIFICATE_FILES] = {c->certificate,        c->key,
						c->authority,          c->member_authority,
						c->member_certificate, c->member_key};

	memset(ret, 0, sizeof(*ret));
	for (unsigned i = 0; i < CERTIFICATE_FILES; i++) {
		struct stat st;

		if (!paths[i])
			continue;
		if (stat(paths[i], &st) < 0) {
			ret->facts[i][0] = errno;
			continue;
		}
		const int64_t facts[FILE_FACTS] = {0,
						   (int64_t)st.st_dev,
						   (int64_t)st.st_ino,
						   st.st_size,
						   st.st_mtim.tv_sec,
						   st.st_mtim.tv_nsec,
						   st.st_ctim.tv_sec,
						   st.st_ctim.tv_nsec};
		memcpy(ret->facts[i], facts, sizeof(facts));
	}
}

static bool are_same(const struct look *a, const struct look *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static bool answer_certificates(const struct reopener_config *c, int watch)
{
	if (c->certificate && c->authority) {
		_cleanup_fd_ int authority = read_other(c->authority);

		if (!say(REOPEN_AUTHORITY, authority, watch))
			return false;
	}
	if (c->certificate) {
		_cleanup_fd_ int certificate = read_other(c->certificate);
		_cleanup_fd_ int key = read_other(c->key);

		if (!say(REOPEN_CERTIFICATE, certificate, watch) || !say(REOPEN_KEY, key, watch))
			return false;
	}
	return !c->member_key || answer_member(c, watch);
}

/* The log first: a settings file on a disk that hangs must not be in its way. */
static bool answer(const struct reopener_config *c, enum question question, int watch)
{
	if (question == ASK_CERTIFICATES)
		return answer_certificates(c, watch) && say(REOPEN_DONE, 0, watch);
	if (c->log) {
		_cleanup_fd_ int fd = log_open_file(c->log);

		if (!say(REOPEN_LOG, fd, watch))
			return false;
	}
	if (!answer_certificates(c, watch))
		return false;
	if (c->settings) {
		_cleanup_fd_ int fd = read_settings(c);

		if (!say(REOPEN_SETTINGS, fd, watch))
			return false;
	}
	if (c->workers) {
		_cleanup_fd_ int fd = read_other(c->workers);

		if (!say(REOPEN_WORKERS, fd, watch))
			return false;
	}
	return say(REOPEN_DONE, 0, watch);
}

static bool take_question(const struct reopener_config *c, int watch)
{
	int fds[FDIO_PASS_MAX];
	uint8_t question;
	size_t n_fds = 0;
	const ssize_t n = fd_recv(CHANNEL_FD, &question, sizeof(question), fds, &n_fds, 0);

	fd_close_many(fds, n_fds);
	return n == (ssize_t)sizeof(question) && question <= ASK_CERTIFICATES &&
	       answer(c, question, watch);
}

/* A file that is being written is another one at each look: the pair is told when it has stayed. What changes while it is read differs from
 * what was looked at before. */
static void work(const struct reopener_config *c, int watch)
{
	const int ms = c->certificate || c->member_key ? LOOK_MS : -1;
	struct look read, last, now;
	int r;

	look(c, &read);
	last = read;
	while ((r = parent_wait_ms(CHANNEL_FD, watch, ms)) == 0 || r == -ETIMEDOUT) {
		look(c, &now);
		const bool told = r < 0 && are_same(&now, &last) && !are_same(&now, &read);
		if (r == 0 || told)
			read = now;
		last = now;
		if (r == 0 ? !take_question(c, watch) : told && !say(REOPEN_CHANGED, 0, watch))
			return;
	}
}

NORETURN static void serve(int channel, const struct reopener_config *c)
{
	(void)prctl(PR_SET_NAME, "caisson-reopen", 0, 0, 0);
	if (setsid() < 0 ||
	    (channel == CHANNEL_FD ? 0 : dup3(channel, CHANNEL_FD, O_CLOEXEC)) < 0 ||
	    syscall(SYS_close_range, CHANNEL_FD + 1, ~0U, 0) < 0)
		_exit(1);
	work(c, parent_watch());
	_exit(0);
}

/* ---- the server's side ---- */

int reopener_start(const struct reopener_config *c, struct reopener **ret, struct err *e)
{
	int pair[2];

	*ret = NULL;
	if (!c->log && !c->settings && !c->certificate && !c->workers && !c->member_key)
		return 0;
	struct reopener *r = calloc(1, sizeof(*r));
	if (!r || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		free(r);
		return err_set(e, ERR_SYSTEM, errno, "the process that opens the log again");
	}
	r->pid = fork();
	if (r->pid == 0)
		serve(pair[1], c);
	(void)close(pair[1]);
	r->fd = pair[0];
	if (r->pid < 0) {
		int errnum = errno;

		(void)close(pair[0]);
		free(r);
		return err_set(e, ERR_SYSTEM, errnum, "the process that opens the log again");
	}
	*ret = r;
	return 0;
}

static bool ask(struct reopener *r, enum question what)
{
	const uint8_t question = (uint8_t)what;

	r->asked =
	    r->fd >= 0 && fd_send(r->fd, &question, sizeof(question), NULL, 0, MSG_DONTWAIT) >= 0;
	r->partly = what == ASK_CERTIFICATES;
	r->again = false;
	return r->asked;
}

/* The process is gone, or talks nonsense. */
static void lose(struct reopener *r, int error)
{
	const bool asked = r->asked && (!r->partly || r->again);

	r->source = sd_event_source_disable_unref(r->source);
	r->fd = fd_close(r->fd);
	r->asked = r->again = false;
	LOG_ERROR(
	    "reopener_lost",
	    LOG_S("remedy", "restart the server before log, settings or certificates change"));
	if (asked)
		r->fn(REOPEN_DONE, error, r->user);
}

static void take(struct reopener *r, const struct answer *a, int fd)
{
	const bool has_fd = fd >= 0;

	if (a->what == REOPEN_CHANGED && !has_fd) {
		/* Who has asked gets what the files are now. */
		if (!r->asked && !ask(r, ASK_CERTIFICATES))
			lose(r, -EPIPE);
		return;
	}
	if (!r->asked || a->what < REOPEN_LOG || a->what > REOPEN_DONE || a->errnum < 0 ||
	    has_fd != (a->what != REOPEN_DONE && a->errnum == 0)) {
		(void)fd_close(fd);
		lose(r, -EPROTO);
	} else if (a->what != REOPEN_DONE) {
		r->fn(a->what, has_fd ? fd : -a->errnum, r->user);
	} else {
		r->asked = false;
		if (!r->partly)
			r->fn(REOPEN_DONE, 0, r->user);
		if (r->again && !ask(r, ASK_ALL)) {
			r->asked = true; /* somebody waits */
			r->partly = false;
			lose(r, -EPIPE);
		}
	}
}

static int on_answer(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *user)
{
	struct reopener *r = user;
	int fds[FDIO_PASS_MAX];
	struct answer a;
	size_t n_fds = 0;

	loop_work("reopener", "");
	const ssize_t n = fd_recv(fd, &a, sizeof(a), fds, &n_fds, MSG_DONTWAIT);

	if (n == -EAGAIN || n == -EINTR)
		return 0;
	if (n != (ssize_t)sizeof(a) || n_fds > 1) {
		fd_close_many(fds, n_fds);
		lose(r, n < 0 ? (int)n : -EPIPE);
		return 0;
	}
	take(r, &a, n_fds == 1 ? fds[0] : -1);
	return 0;
}

int reopener_follow(struct reopener *r, sd_event *loop, reopener_fn fn, void *user)
{
	r->fn = fn;
	r->user = user;
	return r->source || r->fd < 0
		   ? 0
		   : sd_event_add_io(loop, &r->source, r->fd, EPOLLIN, on_answer, r);
}

int reopener_ask(struct reopener *r, sd_event *loop, reopener_fn fn, void *user)
{
	r->fn = fn;
	r->user = user;
	if (r->asked) {
		if (r->again)
			return 0;
		r->again = true;
		return 1;
	}
	if (r->fd < 0)
		return -EPIPE;
	const int e = reopener_follow(r, loop, fn, user);
	if (e < 0)
		return e;
	return ask(r, ASK_ALL) ? 0 : -EPIPE;
}

struct reopener *reopener_free(struct reopener *r)
{
	if (!r)
		return NULL;
	r->source = sd_event_source_disable_unref(r->source);
	r->fd = fd_close(r->fd);
	reap_child(r->pid, END_WAIT_NS);
	free(r);
	return NULL;
}
