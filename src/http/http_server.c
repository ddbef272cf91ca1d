/* SPDX-License-Identifier: Apache-2.0 */
/* The server: an epoll instance inside the event loop, accepting and freeing connections, and one
 * timer for all deadlines. */
#include "http/connection.h"

#include "base/loop.h"
#include "base/rand.h"
#include "base/walls.h"
#include "http/client_address.h"
#include "http/range.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define TIMER_ACCURACY_US (100 * 1000)

static int on_io(sd_event_source *src, int fd, uint32_t revents, void *userdata);
static int on_timer(sd_event_source *src, uint64_t usec, void *userdata);

/* ---- accept ---- */

void server_pause_accept(struct http_server *s, uint64_t retry_ns)
{
	struct epoll_event ev = {0};

	list_for_each(n, &s->listeners) {
		struct http_listener *l = list_entry(n, struct http_listener, node);

		ev.data.ptr = l;
		(void)epoll_ctl(s->epfd, EPOLL_CTL_MOD, l->fd, &ev);
	}
	s->accept_paused = true;
	s->accept_retry_ns = retry_ns;
	if (retry_ns)
		server_arm_timer(s, retry_ns);
}

void server_resume_accept(struct http_server *s)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (!s->accept_paused)
		return;
	list_for_each(n, &s->listeners) {
		struct http_listener *l = list_entry(n, struct http_listener, node);

		ev.data.ptr = l;
		(void)epoll_ctl(s->epfd, EPOLL_CTL_MOD, l->fd, &ev);
	}
	s->accept_paused = false;
	s->accept_retry_ns = 0;
}

/* The connection that has been slow for longest, and for at least HTTP_SLOW_NS: it sends a body or reads
 * an answer, a few bytes at a time. NULL: none is slow. */
static struct http_conn *slowest(const struct http_server *s)
{
	struct http_conn *c =
	    list_first(&s->timers[HTTP_TIMER_STALL], struct http_conn, timer_link);
	uint64_t since = c ? c->deadline_ns - s->timer_ns[HTTP_TIMER_STALL] : 0;

	return c && since + HTTP_SLOW_NS < now_ns() ? c : NULL;
}

/* Makes room: closes the connection that has been idle for longest, or else the one that takes
 * longest to send its head, or else the slowest one. */
static bool evict(struct http_server *s)
{
	struct http_conn *slow;

	static const enum http_timer order[] = {HTTP_TIMER_IDLE, HTTP_TIMER_LINGER,
						HTTP_TIMER_HEAD};

	for (size_t i = 0; i < ARRAY_SIZE(order) && wall_stands(WALL_EVICT); i++) {
		struct list *list = &s->timers[order[i]];

		if (list_is_empty(list))
			continue;
		conn_close(list_entry(list->next, struct http_conn, timer_link));
		return true;
	}
	slow = wall_stands(WALL_EVICT) ? slowest(s) : NULL;
	if (slow)
		conn_close(slow);
	return slow != NULL;
}

/* Writes the principal that a new connection from FROM counts for. A trusted proxy has many clients, so its connections do not count
 * for its address. So has a router, which is known when its handshake is over (input.c). */
static void payer_of(const struct http_server *s, const union http_address *from,
		     char ret[BUDGET_PRINCIPAL_SIZE])
{
	bool is_ip = from->any.sa_family == AF_INET || from->any.sa_family == AF_INET6;
	bool counted = is_ip && !http_proxies_have(s->cfg.proxies, from) &&
		       (s->cfg.count_loopback || !http_address_is_loopback(from));
	char network[HTTP_NETWORK_TEXT] = "";

	if (counted)
		http_network_text(from, network);
	(void)snprintf(ret, BUDGET_PRINCIPAL_SIZE, "%s%s", counted ? BUDGET_STRANGER : BUDGET_LOCAL,
		       network);
}

void server_note_answer(const struct http_server *s, struct http_request *req, int status,
			uint64_t bytes, uint64_t ns)
{
	if (s->cfg.log)
		s->cfg.log(req, status, bytes, ns, s->cfg.log_userdata);
}

#define REFUSAL(status)                                                                            \
	"HTTP/1.1 " status "\r\nRetry-After: 10\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

/* Accepts FD as a connection, or refuses it. False: the system has no more of something (memory, watches
 * of epoll), so that the next one would fail, too. No other connection is closed for it: a sandbox with our
 * uid could take the watch that this frees. */
static bool admit(struct http_listener *l, int fd, const union http_address *from)
{
	static const char over[] = REFUSAL("429 Too Many Requests");
	static const char busy[] = REFUSAL("503 Service Unavailable");
	char who[BUDGET_PRINCIPAL_SIZE];

	payer_of(l->server, from, who);
	int r = conn_new(l->server, l, fd, who);
	if (r == 0)
		return true;
	/* A client that has sent something already sees a reset: close(2) with unread bytes sends one. */
	(void)!send(fd, r == -EDQUOT ? over : busy,
		    r == -EDQUOT ? sizeof(over) - 1 : sizeof(busy) - 1,
		    MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(fd, SHUT_WR);
	(void)fd_close(fd);
	server_note_answer(l->server, NULL, r == -EDQUOT ? 429 : 503, 0, 0);
	return r == -EDQUOT;
}

/* False: accept no more connections for now. */
static bool accept_one(struct http_listener *l)
{
	struct http_server *s = l->server;
	union http_address from = {0};
	socklen_t len = sizeof(from);
	int fd;

	if (s->n_conns >= s->cfg.max_connections && !evict(s)) {
		server_pause_accept(s, 0);
		return false;
	}
	fd = accept4(l->fd, &from.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0) {
		if (errno == ECONNABORTED || errno == EINTR)
			return true;
		/* Out of descriptors or memory. Without a pause the loop would spin, because the
		 * backlog stays readable. Only our own descriptors (EMFILE) are ours to free: who has
		 * used up those of the machine, or its memory, would take what we give back. */
		if (errno != EAGAIN && (errno != EMFILE || !evict(s)))
			server_pause_accept(s, now_ns() + HTTP_ACCEPT_RETRY_NS);
		return false;
	}
	if (admit(l, fd, &from))
		return true;
	server_pause_accept(s, now_ns() + HTTP_ACCEPT_RETRY_NS);
	return false;
}

/* ---- dispatch ---- */

static void on_wake(struct http_server *s)
{
	uint64_t n;

	(void)!read(s->wake_fd, &n, sizeof(n));
	s->awake = false;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) < 0
		   ? 0
		   : (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Runs connections for the time of a turn. The payer that a connection has afterwards pays for the run: its
 * CPU time, because that is what somebody can cause. */
static void run_turns(struct http_server *s)
{
	const uint64_t begin = now_ns();
	uint64_t used = 0;
	struct http_conn *c;

	turns_age(&s->turns, begin);
	if (turns_waiting(&s->turns))
		used = cpu_ns();
	/* Each connection's run is a turn of the loop of its own. */
	while (loop_next_turn() - begin < HTTP_TURN_NS && (c = turns_next(&s->turns))) {
		const uint64_t before = used;

		conn_run(c);
		used = cpu_ns();
		turns_charge(&s->turns, c->turn_slot, used - before);
	}
	if (turns_waiting(&s->turns))
		server_schedule(s);
}

static void free_dead(struct http_server *s)
{
	struct http_conn *c;
	struct http_listener *l;

	while ((c = list_pop_first(&s->dead, struct http_conn, ready_link)))
		free(c);
	while ((l = list_pop_first(&s->dead_listeners, struct http_listener, node)))
		free(l);
}

static void dispatch(struct http_server *s, const struct epoll_event *ev)
{
	const enum http_what *what = ev->data.ptr;
	struct http_listener *l = ev->data.ptr;

	switch (*what) {
	case HTTP_IS_CONN:
		conn_on_event(ev->data.ptr, ev->events);
		break;
	case HTTP_IS_LISTENER:
		for (int k = 0; l->fd >= 0 && k < HTTP_ACCEPT_BATCH && accept_one(l); k++)
			;
		break;
	case HTTP_IS_WAKE:
		on_wake(s);
		break;
	}
}

/* One turn of the epoll instance. */
static int on_io(sd_event_source *src, int fd, uint32_t revents, void *userdata)
{
	struct http_server *s = userdata;
	struct epoll_event events[HTTP_EVENT_BATCH];
	int n = HTTP_EVENT_BATCH;

	(void)src;
	(void)fd;
	(void)revents;
	/* All events, because the next one may be of somebody whose turn it is. */
	for (unsigned k = 0; k < HTTP_EVENT_BATCHES && n == HTTP_EVENT_BATCH; k++) {
		n = epoll_wait(s->epfd, events, HTTP_EVENT_BATCH, 0);
		for (int i = 0; i < n; i++)
			dispatch(s, &events[i]);
	}
	run_turns(s);
	free_dead(s);
	return 0;
}

void server_schedule(struct http_server *s)
{
	const uint64_t one = 1;

	if (s->awake)
		return;
	s->awake = write(s->wake_fd, &one, sizeof(one)) == sizeof(one);
}

/* ---- time ---- */

void server_arm_timer(struct http_server *s, uint64_t deadline_ns)
{
	if (deadline_ns >= s->timer_armed_ns || !s->timer)
		return;
	s->timer_armed_ns = deadline_ns;
	(void)sd_event_source_set_time(s->timer, deadline_ns / NS_PER_US);
	(void)sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *src, uint64_t usec, void *userdata)
{
	struct http_server *s = userdata;
	const uint64_t now = now_ns();
	uint64_t next = UINT64_MAX;

	(void)src;
	(void)usec;
	s->timer_armed_ns = UINT64_MAX;
	loop_work("timer", "of connections");
	if (s->accept_retry_ns && s->accept_retry_ns <= now)
		server_resume_accept(s);
	else if (s->accept_retry_ns)
		next = s->accept_retry_ns;
	if (s->unread_next_ns && s->unread_next_ns <= now) {
		s->unread_next_ns = 0;
		server_count_unread(s);
		if (!list_is_empty(&s->unread)) /* it may have been too early to look */
			server_arm_unread(s);
	}
	if (s->unread_next_ns)
		next = MIN(next, s->unread_next_ns);
	for (int t = HTTP_TIMER_NONE + 1; t < HTTP_TIMER_MAX_; t++) {
		struct list *list = &s->timers[t];

		while (!list_is_empty(list)) {
			struct http_conn *c = list_entry(list->next, struct http_conn, timer_link);

			if (c->deadline_ns > now) {
				next = MIN(next, c->deadline_ns);
				break;
			}
			c->moved = true; /* a deadline fires once */
			conn_on_timeout(c);
		}
	}
	if (next != UINT64_MAX)
		server_arm_timer(s, next);
	return 0;
}

void server_arm_unread(struct http_server *s)
{
	if (s->unread_next_ns)
		return;
	s->unread_next_ns = now_ns() + HTTP_UNREAD_NS;
	server_arm_timer(s, s->unread_next_ns);
}

void server_count_unread(struct http_server *s)
{
	struct list all = LIST_INIT(all);
	const uint64_t now = now_ns();
	struct http_conn *c;

	if (now < s->unread_last_ns + HTTP_UNREAD_MIN_NS)
		return;
	s->unread_last_ns = now;
	list_splice(&all, &s->unread);
	while ((c = list_pop_first(&all, struct http_conn, unread_link)))
		conn_count_answer(c); /* adds it again if there is something */
}

const char *server_date_line(struct http_server *s)
{
	const int64_t now = (int64_t)time(NULL);
	char date[HTTP_DATE_SIZE];

	if (now != s->date_s) {
		http_date_format(now, date);
		(void)snprintf(s->date, sizeof(s->date), "Date: %s\r\n", date);
		s->date_s = now;
	}
	return s->date;
}

/* ---- life ---- */

/* A connection may need a second descriptor: the file that is being sent or written, or the one that
 * holds the long strings of a message. If clients could take all descriptors of the program, no
 * sandbox could be made or reached any more. */
static unsigned default_max_connections(void)
{
	struct rlimit lim;
	rlim_t n;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return 256;
	n = lim.rlim_cur > 2 * HTTP_FDS_RESERVED ? lim.rlim_cur - HTTP_FDS_RESERVED
						 : lim.rlim_cur / 2;
	n /= 2;
	return n < HTTP_CONNECTIONS_MAX ? (unsigned)n : HTTP_CONNECTIONS_MAX;
}

static void apply_defaults(struct http_server *s)
{
	struct http_config *c = &s->cfg;

	if (c->max_connections == 0)
		c->max_connections = default_max_connections();
	if (c->budgets)
		budgets_set(c->budgets, BUDGET_CONNECTIONS,
			    &(struct budget_bounds){.total = c->max_connections});
	if (c->head_max == 0)
		c->head_max = HTTP_HEAD_DEFAULT;
	c->head_max = MIN(c->head_max, (size_t)HTTP_HEAD_LIMIT);
	if (c->stream_queue_max == 0)
		c->stream_queue_max = HTTP_STREAM_QUEUE;
	s->timer_ns[HTTP_TIMER_HEAD] = c->head_timeout_ns ? c->head_timeout_ns : 15 * NS_PER_S;
	s->timer_ns[HTTP_TIMER_IDLE] = c->idle_timeout_ns ? c->idle_timeout_ns : 75 * NS_PER_S;
	s->timer_ns[HTTP_TIMER_STALL] = c->stall_timeout_ns ? c->stall_timeout_ns : 60 * NS_PER_S;
	s->timer_ns[HTTP_TIMER_LINGER] = HTTP_LINGER_NS;
	s->timer_ns[HTTP_TIMER_PROBE] = HTTP_PROBE_NS;
	s->stall_bytes =
	    (size_t)(s->timer_ns[HTTP_TIMER_STALL] / NS_PER_MS * HTTP_BODY_RATE_MIN / 1000);
}

static int add_sources(struct http_server *s)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &s->wake};
	int r;

	s->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (s->epfd < 0)
		return -errno;
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->wake_fd < 0 || epoll_ctl(s->epfd, EPOLL_CTL_ADD, s->wake_fd, &ev) < 0)
		return -errno;
	r = sd_event_add_io(s->loop, &s->io, s->epfd, EPOLLIN, on_io, s);
	if (r >= 0)
		r = sd_event_add_time(s->loop, &s->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_US,
				      on_timer, s);
	if (r >= 0)
		r = sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
	return r < 0 ? r : 0;
}

int http_server_new(sd_event *loop, const struct http_config *cfg, struct http_server **ret)
{
	struct http_server *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->loop = sd_event_ref(loop);
	s->epfd = s->wake_fd = -1;
	s->wake = HTTP_IS_WAKE;
	s->cfg = *cfg;
	s->timer_armed_ns = UINT64_MAX;
	apply_defaults(s);
	for (int t = 0; t < HTTP_TIMER_MAX_; t++)
		list_init(&s->timers[t]);
	turns_init(&s->turns);
	list_init(&s->dead);
	list_init(&s->unread);
	list_init(&s->listeners);
	list_init(&s->dead_listeners);
	s->scratch = malloc(HTTP_SCRATCH_BYTES);
	r = s->scratch ? add_sources(s) : -ENOMEM;
	if (r < 0) {
		http_server_free(s);
		return r;
	}
	/* sendfile(2) has no MSG_NOSIGNAL, so SIGPIPE is ignored. */
	(void)signal(SIGPIPE, SIG_IGN);
	*ret = s;
	return 0;
}

struct http_server *http_server_free(struct http_server *s)
{
	if (!s)
		return NULL;
	list_for_each(l, &s->listeners)
		http_listener_close(list_entry(l, struct http_listener, node));
	for (int t = 0; t < HTTP_TIMER_MAX_; t++)
		while (!list_is_empty(&s->timers[t]))
			conn_close(list_entry(s->timers[t].next, struct http_conn, timer_link));
	free_dead(s);
	sd_event_source_disable_unref(s->io);
	sd_event_source_disable_unref(s->timer);
	(void)fd_close(s->epfd);
	(void)fd_close(s->wake_fd);
	sd_event_unref(s->loop);
	http_routes_free(s->routes);
	free(s->scratch);
	free(s);
	return NULL;
}

void http_server_drain(struct http_server *s)
{
	static const enum http_timer idle[] = {HTTP_TIMER_IDLE, HTTP_TIMER_HEAD};

	s->draining = true;
	list_for_each(l, &s->listeners)
		http_listener_close(list_entry(l, struct http_listener, node));
	for (size_t i = 0; i < ARRAY_SIZE(idle); i++)
		while (!list_is_empty(&s->timers[idle[i]]))
			conn_close(
			    list_entry(s->timers[idle[i]].next, struct http_conn, timer_link));
	for (int t = 0; t < HTTP_TIMER_MAX_; t++)
		list_for_each(node, &s->timers[t]) {
			struct http_conn *c = list_entry(node, struct http_conn, timer_link);
			if (c->state == HTTP_CONN_SOCKET)
				conn_schedule(c); /* it ends itself */
		}
}

unsigned http_server_busy(const struct http_server *s)
{
	static const enum http_timer busy[] = {HTTP_TIMER_NONE, HTTP_TIMER_STALL, HTTP_TIMER_PROBE};
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(busy); i++)
		for (const struct list *l = s->timers[busy[i]].next; l != &s->timers[busy[i]];
		     l = l->next)
			n++;
	return n;
}

int http_server_add_routes(struct http_server *s, const struct http_route *rows, size_t n,
			   unsigned scopes, void *userdata)
{
	const struct http_config *c = &s->cfg;
	int r = 0;

	if (!c->reroute)
		return http_routes_add(&s->routes, rows, n, scopes, userdata);
	for (size_t i = 0; r == 0 && i < n; i++) {
		void *data = userdata;
		const struct http_route *row = c->reroute(&rows[i], &data, c->reroute_userdata);

		r = row ? http_routes_add(&s->routes, row, 1, scopes, data) : -ENOENT;
	}
	return r;
}

void http_server_end_callers(struct http_server *s, bool (*ended)(const void *caller))
{
	for (int t = 0; t < HTTP_TIMER_MAX_; t++)
		list_for_each(node, &s->timers[t])
			conn_end_caller(list_entry(node, struct http_conn, timer_link), ended);
}
