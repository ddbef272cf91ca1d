/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves an allowed name, checks the addresses, and connects to one of them. */
#include "egress/gate.h"

#include "base/fdio.h"
#include "egress/rule.h"

#include <string.h>
#include <sys/socket.h>

static void try_next(struct egress_conn *c);

static void refuse_address(struct egress_conn *c, const struct egress_address *a,
			   enum egress_reason why)
{
	c->addresses[0] = *a; /* for the event */
	c->n_addresses = 1;
	egress_conn_refuse(c, why);
}

/* One address that is not public makes the whole answer unusable. A name with both kinds is either
 * misconfigured, or an attacker hopes that the private one slips through. */
static void judge(struct egress_conn *c, const struct egress_address *addresses, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (egress_policy_address(c->gate->policy, &addresses[i], c->grant.trusted))
			continue;
		refuse_address(c, &addresses[i], EGRESS_REASON_ADDRESS_REFUSED);
		return;
	}
	for (size_t i = 0; i < n && c->n_addresses < CONN_TRIES_MAX; i++)
		if (egress_policy_reaches(c->gate->policy, &c->target, &addresses[i]))
			c->addresses[c->n_addresses++] = addresses[i];
	if (c->n_addresses == 0)
		refuse_address(c, &addresses[0], EGRESS_REASON_ADDRESS_NOT_ALLOWED);
	else
		try_next(c);
}

bool egress_conn_may_reach(const struct egress_conn *c, const struct egress_address *a)
{
	const struct egress_policy *p = c->gate->policy;

	return egress_policy_address(p, a, c->grant.trusted) &&
	       egress_policy_reaches(p, &c->target, a);
}

static void on_answer(const struct egress_address *addresses, size_t n, void *user)
{
	struct egress_conn *c = user;

	c->query = NULL;
	if (n == 0)
		egress_conn_refuse(c, EGRESS_REASON_RESOLVE_FAILED);
	else
		judge(c, addresses, n);
}

static int start(struct egress_conn *c)
{
	struct sockaddr_storage sa;
	const struct egress_address *a = &c->addresses[c->at];
	socklen_t len = egress_address_socket(a, c->target.port, &sa);

	c->server = socket(a->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->server < 0)
		return -errno;
	if (connect(c->server, (struct sockaddr *)&sa, len) < 0 && errno != EINPROGRESS)
		return -errno;
	return sd_event_add_io(c->gate->egress->config.loop, &c->server_io, c->server, EPOLLOUT,
			       egress_conn_on_server, c);
}

/* Starts to connect to addresses[at], or to the next one where that works. */
static void try_next(struct egress_conn *c)
{
	egress_conn_state(c, CONN_CONNECT);
	for (; c->at < c->n_addresses; c->at++) {
		/* The policy may have changed since the answer came. */
		if (egress_conn_may_reach(c, &c->addresses[c->at]) && start(c) == 0) {
			egress_conn_watch(c);
			return;
		}
		c->server_io = sd_event_source_disable_unref(c->server_io);
		c->server = fd_close(c->server);
	}
	c->at = 0;
	egress_conn_refuse(c, EGRESS_REASON_CONNECT_FAILED);
}

int egress_connect_io(struct egress_conn *c)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (getsockopt(c->server, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error == 0) {
		egress_conn_connected(c);
		return 0;
	}
	c->server_io = sd_event_source_disable_unref(c->server_io);
	c->server = fd_close(c->server);
	c->at++;
	try_next(c);
	return 0;
}

void egress_connect_begin(struct egress_conn *c)
{
	struct egress_resolver *resolver = c->gate->egress->resolver;

	egress_conn_state(c, CONN_RESOLVE);
	if (egress_target_is_literal(&c->target)) {
		struct egress_address a;

		if (egress_address_parse(c->target.host, &a) < 0)
			egress_conn_refuse(c, EGRESS_REASON_BAD_HOST);
		else
			judge(c, &a, 1);
		return;
	}
	egress_conn_watch(c);
	c->query = resolver->ask(resolver, c->target.host, on_answer, c);
	if (!c->query)
		egress_conn_refuse(c, EGRESS_REASON_RESOLVE_FAILED);
}
