/* SPDX-License-Identifier: Apache-2.0 */
/* One connection through a gate: the request, the decision, the TLS greeting, deadlines and the end. */
#include "egress/gate.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"
#include "egress/hello.h"
#include "egress/rule.h"

#include <sys/socket.h>

#define LINGER_NS    NS_PER_S
#define LINGER_BYTES (1u << 20)
#define ACCURACY_US  1000u
#define ANSWER_MAX   1024u

/* A fatal TLS alert, access_denied (RFC 8446 §6), so that the client can report more than "connection
 * reset". */
static const char tls_denied[] = {21, 3, 3, 0, 2, 2, 49};

static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";

/* ---- deadlines ---- */

static uint64_t deadline(const struct egress_conn *c, enum egress_reason *ret_why)
{
	const struct egress_limits *l = &c->gate->limits;
	const struct {
		uint64_t at;
		enum egress_reason why;
	} ends[] = {
	    [CONN_HEAD] = {c->state_ns + l->head_ns, EGRESS_REASON_HEAD_TIMEOUT},
	    [CONN_RESOLVE] = {c->state_ns + l->connect_ns, EGRESS_REASON_RESOLVE_FAILED},
	    [CONN_CONNECT] = {c->state_ns + l->connect_ns, EGRESS_REASON_CONNECT_TIMEOUT},
	    [CONN_HELLO] = {c->state_ns + l->head_ns, EGRESS_REASON_TLS_TIMEOUT},
	    [CONN_RELAY] = {c->active_ns + l->idle_ns, EGRESS_REASON_IDLE},
	    [CONN_LINGER] = {c->state_ns + LINGER_NS, EGRESS_REASON_OK},
	};

	*ret_why = ends[c->state].why;
	if (c->state == CONN_RELAY && c->begin_ns + l->life_ns < ends[CONN_RELAY].at) {
		*ret_why = EGRESS_REASON_LIFE;
		return c->begin_ns + l->life_ns;
	}
	return ends[c->state].at;
}

static void arm(struct egress_conn *c)
{
	enum egress_reason why;

	(void)sd_event_source_set_time(c->timer, deadline(c, &why) / NS_PER_US + 1);
	(void)sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct egress_conn *c = user;
	enum egress_reason why;

	if (now_ns() < deadline(c, &why)) {
		arm(c); /* bytes have passed since the timer was set */
	} else if (c->state == CONN_LINGER) {
		egress_conn_free(c);
	} else if (c->state == CONN_RELAY) {
		egress_conn_event(c, EGRESS_ENDED, why);
		egress_conn_free(c);
	} else {
		egress_conn_refuse(c, why);
	}
	return 0;
}

void egress_conn_state(struct egress_conn *c, enum conn_state state)
{
	c->state = state;
	c->state_ns = now_ns();
	c->active_ns = c->state_ns;
	arm(c);
}

/* ---- which events are watched ---- */

static void watch(sd_event_source *source, uint32_t events)
{
	if (!source)
		return;
	(void)sd_event_source_set_io_events(source, events);
	(void)sd_event_source_set_enabled(source, events ? SD_EVENT_ON : SD_EVENT_OFF);
}

void egress_conn_watch(struct egress_conn *c)
{
	uint32_t client = 0, server = 0;

	switch (c->state) {
	case CONN_HEAD:
	case CONN_HELLO:
	case CONN_LINGER:
		client = EPOLLIN;
		break;
	case CONN_RESOLVE:
		break;
	case CONN_CONNECT:
		server = EPOLLOUT;
		break;
	case CONN_RELAY:
		if (!c->client_eof && c->to_server.len < CONN_BUFFER &&
		    (c->connect || c->body_left > 0))
			client |= EPOLLIN;
		if (!c->server_eof && c->to_client.len < CONN_BUFFER)
			server |= EPOLLIN;
		if (c->to_client.len > 0)
			client |= EPOLLOUT;
		if (c->to_server.len > 0)
			server |= EPOLLOUT;
		break;
	}
	watch(c->client_io, client);
	watch(c->server_io, server);
}

/* ---- refusal and end ---- */

static void drop_server(struct egress_conn *c)
{
	if (c->query)
		c->gate->egress->resolver->cancel(c->query);
	c->query = NULL;
	c->server_io = sd_event_source_disable_unref(c->server_io);
	c->server = fd_close(c->server);
}

void egress_conn_free(struct egress_conn *c)
{
	struct egress_gate *g = c->gate;

	drop_server(c);
	(void)sd_event_source_disable_unref(c->client_io);
	(void)sd_event_source_disable_unref(c->timer);
	(void)fd_close(c->client);
	buf_done(&c->to_server);
	buf_done(&c->to_client);
	list_remove(&c->node);
	free(c);
	g->usage.connections--;
	if (g->io)
		egress_gate_resume(g);
}

static void say_why(struct egress_conn *c, enum egress_reason why)
{
	char answer[ANSWER_MAX];
	const char *text = egress_reason_text(why);
	int status = egress_reason_status(why);

	if (c->state == CONN_HELLO) {
		(void)send(c->client, tls_denied, sizeof(tls_denied), MSG_DONTWAIT | MSG_NOSIGNAL);
		return;
	}
	if (status == 0)
		return;
	int n = snprintf(answer, sizeof(answer),
			 "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nX-Egress-Reason: %s\r\n"
			 "Content-Length: %zu\r\nConnection: close\r\n\r\n%s.\n",
			 status, egress_reason_word(why), egress_reason_word(why), strlen(text) + 2,
			 text);
	(void)send(c->client, answer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void egress_conn_refuse(struct egress_conn *c, enum egress_reason why)
{
	egress_conn_event(c, EGRESS_REFUSED, why);
	say_why(c, why);
	drop_server(c);
	buf_done(&c->to_server);
	/* close(2) with unread bytes sends a reset, and the client could not read the answer. */
	(void)shutdown(c->client, SHUT_WR);
	egress_conn_state(c, CONN_LINGER);
	egress_conn_watch(c);
}

static int linger(struct egress_conn *c)
{
	char scrap[4096];
	ssize_t n = recv(c->client, scrap, sizeof(scrap), MSG_DONTWAIT);

	if (n > 0 && (c->lingered += (size_t)n) > LINGER_BYTES)
		n = 0;
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		egress_conn_free(c);
	return 0;
}

/* ---- request ---- */

static enum egress_reason decide(struct egress_conn *c, const struct egress_head *h)
{
	struct egress_gate *g = c->gate;
	enum egress_reason why = egress_policy_target(g->policy, &h->target, &c->grant);

	if (why != EGRESS_REASON_OK)
		return why;
	if (!h->connect)
		why = egress_policy_request(g->policy, h);
	if (why != EGRESS_REASON_OK)
		return why;
	if (g->limits.bytes > 0 && g->usage.bytes >= g->limits.bytes)
		return EGRESS_REASON_BYTES;
	return EGRESS_REASON_OK;
}

/* The head is complete. Bytes behind it are the beginning of the body, or they came too early. */
static enum egress_reason take_head(struct egress_conn *c, size_t len)
{
	struct egress_head h;
	enum egress_reason why = EGRESS_REASON_OK;
	_cleanup_(buf_done) struct buf head = BUF_INIT(2 * EGRESS_HEAD_MAX + CONN_BUFFER);
	int r = egress_head_parse(c->to_server.data, len, &h, &why);

	memcpy(c->method, h.method, sizeof(c->method));
	c->target = h.target;
	c->connect = h.connect;
	if (r < 0)
		return why;
	why = decide(c, &h);
	if (why != EGRESS_REASON_OK)
		return why;
	size_t rest = c->to_server.len - len;
	if (h.connect) {
		buf_consume(&c->to_server, len);
		return EGRESS_REASON_OK;
	}
	rest = (size_t)MIN((uint64_t)rest, h.body);
	c->body_left = h.body - rest;
	if (egress_head_write(&h, egress_policy_kind(c->gate->policy) == EGRESS_PACKAGES, &head) <
		0 ||
	    buf_add(&head, c->to_server.data + len, rest) < 0)
		return EGRESS_REASON_NO_MEMORY;
	buf_done(&c->to_server);
	c->to_server = head;
	head = BUF_INIT(0);
	return EGRESS_REASON_OK;
}

/* Reads what is there. Returns false when the connection has ended. */
static bool read_client(struct egress_conn *c, size_t max)
{
	if (buf_reserve(&c->to_server, max - c->to_server.len) < 0) {
		egress_conn_refuse(c, EGRESS_REASON_NO_MEMORY);
		return false;
	}
	ssize_t n = recv(c->client, c->to_server.data + c->to_server.len, max - c->to_server.len,
			 MSG_DONTWAIT);
	if (n > 0) {
		c->to_server.len += (size_t)n;
		return true;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	/* A client that sent no byte has requested nothing: no event. */
	if (c->state != CONN_HEAD || c->to_server.len > 0)
		egress_conn_event(c, EGRESS_REFUSED, EGRESS_REASON_BROKEN);
	egress_conn_free(c);
	return false;
}

static void read_head(struct egress_conn *c)
{
	enum egress_reason why = EGRESS_REASON_OK;

	if (!read_client(c, EGRESS_HEAD_MAX + 1))
		return;
	int len = egress_head_scan(c->to_server.data, c->to_server.len, &why);
	if (len == 0)
		return;
	if (len > 0)
		why = take_head(c, (size_t)len);
	if (why != EGRESS_REASON_OK)
		egress_conn_refuse(c, why);
	else
		egress_connect_begin(c);
}

/* ---- TLS greeting ---- */

/* A tunnel to an address may greet its server by any name that the policy allows, or by none. */
static bool may_greet(const struct egress_conn *c, const char *name)
{
	struct egress_target named = {.port = c->target.port};
	struct egress_grant grant;

	if (!egress_target_is_literal(&c->target))
		return streq(name, c->target.host);
	return egress_host_parse(name, strlen(name), named.host, &named.form) == 0 &&
	       egress_policy_target(c->gate->policy, &named, &grant) == EGRESS_REASON_OK;
}

static void look_at_hello(struct egress_conn *c)
{
	char name[EGRESS_HOST_MAX + 1];
	enum egress_reason why = EGRESS_REASON_OK;
	int len = egress_hello_parse((const uint8_t *)buf_str(&c->to_server), c->to_server.len,
				     name, &why);

	if (len == 0) {
		egress_conn_watch(c);
		return;
	}
	if (len > 0 && !may_greet(c, name))
		why = EGRESS_REASON_SERVER_NAME;
	if (why == EGRESS_REASON_NO_SERVER_NAME && egress_target_is_literal(&c->target))
		why = EGRESS_REASON_OK;
	if (why != EGRESS_REASON_OK)
		egress_conn_refuse(c, why);
	else
		egress_relay_begin(c);
}

static void read_hello(struct egress_conn *c)
{
	if (read_client(c, EGRESS_HELLO_MAX))
		look_at_hello(c);
}

void egress_conn_connected(struct egress_conn *c)
{
	if (!c->connect) {
		egress_relay_begin(c);
		return;
	}
	if (send(c->client, established, sizeof(established) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) !=
	    (ssize_t)sizeof(established) - 1) {
		egress_conn_refuse(c, EGRESS_REASON_BROKEN);
		return;
	}
	/* An address that the operator wrote into a setting need not speak TLS. */
	if ((egress_target_is_literal(&c->target) && c->grant.trusted) ||
	    !wall_stands(WALL_GREETING)) {
		egress_relay_begin(c);
		return;
	}
	egress_conn_state(c, CONN_HELLO);
	look_at_hello(c);
}

/* ---- events ---- */

static int on_client(sd_event_source *source UNUSED, int fd UNUSED, uint32_t events UNUSED,
		     void *user)
{
	struct egress_conn *c = user;

	loop_work("proxy", "connection");
	switch (c->state) {
	case CONN_HEAD:
		read_head(c);
		break;
	case CONN_HELLO:
		read_hello(c);
		break;
	case CONN_LINGER:
		return linger(c);
	case CONN_RELAY:
		return egress_relay_io(c);
	case CONN_RESOLVE:
	case CONN_CONNECT:
		break; /* no event of the client is watched in this state */
	}
	return 0;
}

int egress_conn_on_server(sd_event_source *source UNUSED, int fd UNUSED, uint32_t events UNUSED,
			  void *user)
{
	struct egress_conn *c = user;

	if (c->state == CONN_CONNECT)
		return egress_connect_io(c);
	return c->state == CONN_RELAY ? egress_relay_io(c) : 0;
}

void egress_conn_new(struct egress_gate *g, int client)
{
	struct egress_conn *c = calloc(1, sizeof(*c));
	sd_event *loop = g->egress->config.loop;

	if (!c) {
		(void)fd_close(client);
		return;
	}
	c->gate = g;
	c->client = client;
	c->server = -1;
	buf_init(&c->to_server, CONN_BUFFER);
	buf_init(&c->to_client, CONN_BUFFER);
	list_prepend(&g->conns, &c->node);
	g->usage.connections++;
	c->begin_ns = now_ns();
	if (sd_event_add_io(loop, &c->client_io, client, EPOLLIN, on_client, c) < 0 ||
	    sd_event_add_time(loop, &c->timer, CLOCK_MONOTONIC, 0, ACCURACY_US, on_timer, c) < 0) {
		egress_conn_free(c);
		return;
	}
	egress_conn_state(c, CONN_HEAD);
}
