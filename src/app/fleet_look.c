/* SPDX-License-Identifier: Apache-2.0 */
/* What `caisson doctor` says about a member of a fleet: its certificate, and of a router the workers that answer. It waits for others, so
 * it is for the command line alone. */
#include "app/fleet_look.h"

#include "app/app.h"
#include "app/reopener.h"
#include "base/libcurl.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/router/names.h"
#include "fleet/router/router.h"
#include "fleet/router/slices.h"
#include "http/tls_facts.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ONE_NS (2 * NS_PER_S)
#define ALL_NS (10 * NS_PER_S)

int fleet_look_certificate(const struct settings *s, int64_t *ret_until_s, struct err *e)
{
	const bool router = streq(s->fleet_role, "router");
	const char *path = router ? s->fleet_certificate : s->tls_certificate;
	const char *name = router ? FLEET_ROUTER_DNS : FLEET_WORKER_NAME;
	const enum setting_id id =
	    router ? SETTING_ID_fleet_certificate : SETTING_ID_tls_certificate;
	_cleanup_(buf_done) struct buf text = BUF_INIT(REOPENER_FILE_MAX);
	struct http_tls_facts facts;
	const int r = app_read_member(path, id, &text, e);

	if (r < 0)
		return r;
	if (http_tls_look(buf_str(&text), text.len, name, &facts, e) < 0)
		return err_wrap(e, "%s", setting_rows[id].env);
	const int64_t now = (int64_t)(now_wall_ns() / NS_PER_S);
	*ret_until_s = facts.until_s;
	if (!facts.has_name)
		return err_set(e, ERR_SETTING_INVALID, EINVAL,
			       "%s: the certificate does not have the DNS name %s",
			       setting_rows[id].env, name);
	if (facts.from_s > now || facts.until_s <= now)
		return err_set(e, ERR_SETTING_INVALID, EINVAL, "%s: the certificate %s",
			       setting_rows[id].env,
			       facts.until_s <= now ? "has expired" : "does not hold yet");
	return 0;
}

/* ---- workers ---- */

/* Waits until the socket can go on; false: the time is over. */
static bool wait_for(const struct http_io *io, short events, uint64_t until_ns)
{
	const uint64_t now = now_ns();
	struct pollfd p = {.fd = io->fd, .events = events};

	return now < until_ns && poll(&p, 1, (int)((until_ns - now) / NS_PER_MS) + 1) > 0;
}

static const char *shake(struct http_io *io, struct http_tls_client *tls, uint64_t until_ns)
{
	int r = http_tls_client_begin(io, tls, NULL);

	if (r < 0)
		return "no memory";
	while ((r = http_tls_client_shake(io)) == -EAGAIN)
		if (!wait_for(io, io->wants_room ? POLLOUT : POLLIN, until_ns))
			return "it did not answer in time";
	if (r == -EKEYREJECTED)
		return "its certificate is not one of a worker of this fleet";
	return r < 0 ? "it ended the TLS handshake" : NULL;
}

/* With TLS 1.3 a worker that refuses our certificate says so when we read. */
static const char *ask(struct http_io *io, const char *host, uint64_t until_ns)
{
	char text[512];
	const int len = snprintf(text, sizeof(text),
				 "GET /fleet/state HTTP/1.1\r\nHost: %s\r\n"
				 "Connection: close\r\n\r\n",
				 host);
	struct iovec iov = {text, (size_t)len};
	ssize_t n = io->ops->send(io, &iov, 1, false);

	if (n != len) /* it fits into the buffer of a fresh socket */
		return "it ended the connection";
	while ((n = io->ops->recv(io, text, sizeof(text) - 1)) == -EAGAIN)
		if (!wait_for(io, POLLIN, until_ns))
			return "it did not answer in time";
	if (n <= 0)
		return "it ended the connection: maybe it does not take the certificate of this "
		       "router";
	text[n] = '\0';
	return text_starts_with(text, "HTTP/1.1 200 ") ? NULL : "it does not tell its state";
}

static const char *look_at(const struct fleet_address *at, struct http_tls_client *tls)
{
	struct http_io io = {.ops = &http_plain_io};
	const uint64_t until = now_ns() + ONE_NS;
	const char *why = NULL;
	int error = 0;
	socklen_t len = sizeof(error);

	io.fd = socket(at->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (io.fd < 0)
		return strerror(errno);
	if (connect(io.fd, &at->address.any, at->len) < 0 && errno != EINPROGRESS)
		error = errno;
	else if (!wait_for(&io, POLLOUT, until))
		error = ETIMEDOUT;
	else if (getsockopt(io.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error != 0)
		why = strerror(error);
	why = why ? why : shake(&io, tls, until);
	why = why ? why : ask(&io, at->text, until);
	io.ops->close(&io, false);
	return why;
}

static void note(struct fleet_look *l, const char *what, const char *why)
{
	if (!l->first[0])
		(void)snprintf(l->first, sizeof(l->first), "%.100s: %.150s", what, why);
}

static void look_at_all(const struct fleet_members *m, struct http_tls_client *tls, uint64_t until,
			struct fleet_look *ret)
{
	ret->workers += m->n;
	for (size_t i = 0; i < m->n && now_ns() < until; i++) {
		const char *why = look_at(&m->at[i], tls);

		ret->asked++;
		ret->answered += !why;
		if (why)
			note(ret, m->at[i].text, why);
	}
}

int fleet_look_workers(const struct settings *s, struct fleet_look *ret, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(FLEET_MEMBERS_FILE);
	_cleanup_free_ struct fleet_members *m = calloc(1, sizeof(*m));
	struct http_tls_client *tls = NULL;

	*ret = (struct fleet_look){0};
	if (!m)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the list of workers");
	int r = app_read_member(s->fleet_workers, SETTING_ID_fleet_workers, &text, e);
	if (r >= 0 && fleet_members_parse(buf_str(&text), text.len, m, e) < 0)
		r = err_wrap(e, "SANDBOX_FLEET_WORKERS");
	r = r < 0 ? r : app_member_tls(s, &tls, e);
	if (r < 0)
		return r;
	struct err no_curl = ERR_INIT; /* fleet_slices_ask() says so where a line needs it */
	(void)!(fleet_slices_can() && libcurl_load(&no_curl) < 0);
	const uint64_t until = now_ns() + ALL_NS;
	for (size_t i = 0; i < m->n_names; i++) {
		const char *why = now_ns() < until ? fleet_names_ask(&m->names[i], m)
						   : "other names took all the time";

		if (why)
			note(ret, m->names[i].host, why);
	}
	look_at_all(m, tls, until, ret);
	(void)http_tls_client_free(tls);
	return 0;
}
