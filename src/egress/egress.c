/* SPDX-License-Identifier: Apache-2.0 */
/* Gates: listening, the limits of connections, and the events. */
#include "egress/gate.h"

#include "base/fdio.h"
#include "base/rand.h"

#include <string.h>
#include <sys/socket.h>

#define CREDIT      1000u /* one connection */
#define ACCURACY_US 1000u
#define BURST_PART  4u           /* a burst may be this part of the connections of a minute */
#define RETRY_US    (200 * 1000) /* until descriptors or memory may be there again */

const struct egress_limits egress_limits_default = {
    .connections = 64,
    .per_minute = 2400,
    .bytes = UINT64_C(8) << 30,
    .connection_bytes = UINT64_C(4) << 30,
    .head_ns = 15 * NS_PER_S,
    .connect_ns = 20 * NS_PER_S,
    .idle_ns = 120 * NS_PER_S,
    .life_ns = 3600 * NS_PER_S,
};

int egress_new(const struct egress_config *config, struct egress **ret, struct err *e)
{
	struct egress *x = calloc(1, sizeof(*x));

	if (!x)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the egress proxy");
	list_init(&x->gates);
	x->config = *config;
	x->resolver = config->resolver ? config->resolver : egress_resolver_new(config->loop);
	x->own_resolver = !config->resolver;
	x->acceptor = egress_acceptor_new(config->loop);
	if (!x->resolver || !x->acceptor) {
		(void)egress_free(x);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the egress proxy's threads");
	}
	*ret = x;
	return 0;
}

struct egress *egress_free(struct egress *x)
{
	if (!x)
		return NULL;
	while (!list_is_empty(&x->gates))
		(void)egress_close_gate(list_first(&x->gates, struct egress_gate, node));
	egress_acceptor_free(x->acceptor);
	if (x->own_resolver && x->resolver)
		x->resolver->free(x->resolver);
	free(x);
	return NULL;
}

/* ---- the rate of new connections ---- */

/* Adds the credit that has accrued. Returns the microseconds until it is enough for one connection. */
static uint64_t credit_wait_us(struct egress_gate *g)
{
	uint64_t now = now_ns();
	uint64_t per_s = MAX(1u, (uint64_t)g->limits.per_minute * CREDIT / 60);
	uint64_t full = MAX((uint64_t)CREDIT, (uint64_t)g->limits.per_minute * CREDIT / BURST_PART);
	uint64_t passed = MIN(now - g->credit_ns, 60 * NS_PER_S);
	uint64_t more = passed * per_s / NS_PER_S;

	if (more > 0) {
		g->credit = MIN(full, g->credit + more);
		g->credit_ns = now;
	}
	if (g->credit >= CREDIT)
		return 0;
	return (CREDIT - g->credit) * 1000000u / per_s + 1;
}

void egress_gate_resume(struct egress_gate *g)
{
	if (g->accept || g->ended)
		return;
	uint64_t wait = credit_wait_us(g);
	bool room = g->usage.connections < g->limits.connections;

	(void)sd_event_source_set_enabled(g->io, room && wait == 0 ? SD_EVENT_ON : SD_EVENT_OFF);
	if (room && wait > 0) {
		(void)sd_event_source_set_time_relative(g->timer, wait);
		(void)sd_event_source_set_enabled(g->timer, SD_EVENT_ONESHOT);
	}
}

static int on_credit(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	egress_gate_resume(user);
	return 0;
}

static void wait_for(struct egress_gate *g, uint64_t us)
{
	(void)sd_event_source_set_enabled(g->io, SD_EVENT_OFF);
	(void)sd_event_source_set_time_relative(g->timer, us);
	(void)sd_event_source_set_enabled(g->timer, SD_EVENT_ONESHOT);
}

/* A connection has the options of its listener, which the sandbox may have set: with SO_LINGER, close(2) would wait
 * until the sandbox has read everything. */
static void take_client(struct egress_gate *g, int client)
{
	const struct linger none = {0};

	if (setsockopt(client, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) < 0) {
		(void)fd_close(client);
		return;
	}
	g->credit -= MIN(g->credit, CREDIT);
	egress_conn_new(g, client);
}

static void on_accepted(const int *clients, size_t n, int error, void *user)
{
	struct egress_gate *g = user;

	g->accept = NULL;
	for (size_t i = 0; i < n; i++)
		take_client(g, clients[i]);
	if (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS) {
		wait_for(
		    g,
		    RETRY_US); /* the socket stays readable: without a pause the loop would spin */
	} else if (error == EINVAL || error == EBADF || error == ENOTSOCK || error == EOPNOTSUPP) {
		g->ended = true; /* it listens no more */
		(void)sd_event_source_set_enabled(g->io, SD_EVENT_OFF);
	} else {
		egress_gate_resume(g);
	}
}

static int on_accept(sd_event_source *source UNUSED, int fd, uint32_t events UNUSED, void *user)
{
	struct egress_gate *g = user;
	const unsigned used = g->usage.connections;
	const uint64_t wait = credit_wait_us(g);

	if (used >= g->limits.connections || wait > 0) {
		egress_gate_resume(g);
		return 0;
	}
	const uint64_t most = MIN(g->credit / CREDIT, (uint64_t)(g->limits.connections - used));
	(void)sd_event_source_set_enabled(g->io, SD_EVENT_OFF);
	g->accept =
	    egress_accept_begin(g->egress->acceptor, fd,
				(unsigned)MIN(most, (uint64_t)EGRESS_ACCEPT_MAX), on_accepted, g);
	if (!g->accept)
		wait_for(g, RETRY_US);
	return 0;
}

/* ---- gates ---- */

static void cut_label(char ret[EGRESS_LABEL_MAX + 1], const char *label)
{
	size_t len = strnlen(label, EGRESS_LABEL_MAX);

	memcpy(ret, label, len);
	ret[len] = '\0';
}

int egress_open_gate(struct egress *x, int fd, const char *label, struct egress_policy *policy,
		     const struct egress_limits *limits, struct egress_gate **ret, struct err *e)
{
	struct egress_gate *g = calloc(1, sizeof(*g));

	if (!g) {
		(void)fd_close(fd);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a way out");
	}
	g->egress = x;
	g->fd = fd;
	g->limits = limits ? *limits : egress_limits_default;
	g->policy = egress_policy_ref(policy);
	cut_label(g->label, label);
	g->credit = MAX((uint64_t)CREDIT, (uint64_t)g->limits.per_minute * CREDIT / BURST_PART);
	g->credit_ns = now_ns();
	list_init(&g->conns);
	list_prepend(&x->gates, &g->node);
	int r = fd_set_nonblock(fd, true);
	r = r < 0 ? r : sd_event_add_io(x->config.loop, &g->io, fd, EPOLLIN, on_accept, g);
	r = r < 0 ? r
		  : sd_event_add_time_relative(x->config.loop, &g->timer, CLOCK_MONOTONIC, 0,
					       ACCURACY_US, on_credit, g);
	r = r < 0 ? r : sd_event_source_set_enabled(g->timer, SD_EVENT_OFF);
	if (r < 0) {
		(void)egress_close_gate(g);
		return err_set(e, ERR_SYSTEM, -r, "a way out");
	}
	*ret = g;
	return 0;
}

static void end_conn(struct egress_conn *c)
{
	if (c->allowed)
		egress_conn_event(c, EGRESS_ENDED, EGRESS_REASON_CLOSED);
	else if (c->state != CONN_LINGER)
		egress_conn_event(c, EGRESS_REFUSED, EGRESS_REASON_CLOSED);
	egress_conn_free(c);
}

struct egress_gate *egress_close_gate(struct egress_gate *g)
{
	if (!g)
		return NULL;
	list_remove(&g->node);
	if (g->accept)
		egress_accept_cancel(g->accept);
	g->ended = true; /* connections that end do not ask for others */
	list_for_each(l, &g->conns)
		end_conn(list_entry(l, struct egress_conn, node));
	(void)sd_event_source_disable_unref(g->io);
	(void)sd_event_source_disable_unref(g->timer);
	(void)fd_close(g->fd);
	(void)egress_policy_unref(g->policy);
	free(g);
	return NULL;
}

void egress_gate_set_policy(struct egress_gate *g, struct egress_policy *policy)
{
	const bool other = egress_policy_kind(policy) != egress_policy_kind(g->policy);

	(void)egress_policy_ref(policy);
	(void)egress_policy_unref(g->policy);
	g->policy = policy;
	list_for_each(l, &g->conns) {
		struct egress_conn *c = list_entry(l, struct egress_conn, node);

		/* The request of a head that is still coming is compared later. */
		if (c->state == CONN_HEAD || c->state == CONN_LINGER)
			continue;
		if (other ||
		    egress_policy_target(policy, &c->target, &c->grant) != EGRESS_REASON_OK ||
		    (c->at < c->n_addresses && !egress_conn_may_reach(c, &c->addresses[c->at])))
			end_conn(c);
	}
}

void egress_conn_event(const struct egress_conn *c, enum egress_verdict verdict,
		       enum egress_reason why)
{
	struct egress_gate *g = c->gate;
	char address[EGRESS_ADDRESS_TEXT] = "";

	if (!g->egress->config.audit)
		return;
	if (c->at < c->n_addresses)
		egress_address_text(&c->addresses[c->at], address);
	const struct egress_event event = {.label = g->label,
					   .verdict = verdict,
					   .reason = egress_reason_word(why),
					   .method = c->method,
					   .host = c->target.host,
					   .port = c->target.port,
					   .address = address,
					   .sent = c->sent,
					   .received = c->received};
	g->egress->config.audit(&event, g->egress->config.user);
}
