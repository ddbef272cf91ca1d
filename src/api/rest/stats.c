/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: /metrics as Prometheus text, /api/v1/stats as JSON; /readyz, the policy, and the
 * OpenAPI document. */
#include "api/rest/rest.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"

#include <stdlib.h>
#include <string.h>

#define METRICS_MAX (256u << 10)

/* The statuses with which the HTTP server refuses what is no request, or not yet one; 0: others. */
static const int refusals[API_REFUSED] = {400, 408, 417, 429, 431, 501, 503, 505, 0};

static void note_refusal(struct api_stats *s, int status)
{
	size_t i = 0;

	while (refusals[i] != 0 && refusals[i] != status)
		i++;
	s->refused[i]++;
}

void api_note_request(struct api *a, struct http_request *req, int status, uint64_t bytes,
		      uint64_t ns)
{
	if (!a)
		return;
	if (!req)
		note_refusal(&a->stats, status);
	if (status >= 100 && status < 600)
		a->stats.answers[status / 100 - 1]++;
	a->stats.sent_bytes += bytes;
	a->stats.answer_ns += ns;
}

/* ---- Prometheus ---- */

static int add_runs(struct buf *b, const struct accounting_stats *s)
{
	uint64_t sum = 0;
	int r = buf_add_str(b, "# HELP caisson_runs_total Runs that ended, by reason.\n"
			       "# TYPE caisson_runs_total counter\n");

	for (size_t i = 0; i < ACCOUNTING_REASONS && r == 0; i++)
		r = buf_printf(b, "caisson_runs_total{reason=\"%s\"} %ju\n",
			       run_reason_name((enum run_reason)i), (uintmax_t)s->runs[i]);
	if (r == 0)
		r = buf_add_str(b, "# HELP caisson_run_seconds Time of runs.\n"
				   "# TYPE caisson_run_seconds histogram\n");
	for (size_t i = 0; i < ACCOUNTING_BUCKETS && r == 0; i++) {
		sum += s->run_buckets[i];
		r = buf_printf(b, "caisson_run_seconds_bucket{le=\"%ju.%03u\"} %ju\n",
			       (uintmax_t)accounting_bounds_ms[i] / 1000,
			       (unsigned)(accounting_bounds_ms[i] % 1000), (uintmax_t)sum);
	}
	sum += s->run_buckets[ACCOUNTING_BUCKETS];
	if (r == 0)
		r = buf_printf(b,
			       "caisson_run_seconds_bucket{le=\"+Inf\"} %ju\n"
			       "caisson_run_seconds_sum %ju.%03u\ncaisson_run_seconds_count %ju\n",
			       (uintmax_t)sum, (uintmax_t)s->run_ms / 1000,
			       (unsigned)(s->run_ms % 1000), (uintmax_t)sum);
	return r;
}

static int add_turns(struct buf *b)
{
	const struct loop_stats *s = loop_stats();
	uint64_t sum = 0;
	int r = buf_add_str(
	    b, "# HELP caisson_turn_seconds Turns of the event loop: how long each kept "
	       "everybody else waiting.\n# TYPE caisson_turn_seconds histogram\n");

	for (size_t i = 0; i < LOOP_BUCKETS && r == 0; i++) {
		sum += s->turns[i];
		r = buf_printf(b, "caisson_turn_seconds_bucket{le=\"%u.%03u\"} %ju\n",
			       loop_bounds_ms[i] / 1000, loop_bounds_ms[i] % 1000, (uintmax_t)sum);
	}
	sum += s->turns[LOOP_BUCKETS];
	if (r == 0)
		r = buf_printf(
		    b,
		    "caisson_turn_seconds_bucket{le=\"+Inf\"} %ju\n"
		    "caisson_turn_seconds_sum %ju.%06ju\ncaisson_turn_seconds_count %ju\n",
		    (uintmax_t)sum, (uintmax_t)(s->sum_ns / NS_PER_S),
		    (uintmax_t)(s->sum_ns % NS_PER_S / NS_PER_US), (uintmax_t)sum);
	return r;
}

static int add_one(struct buf *b, const char *name, const char *type, const char *help, uint64_t n)
{
	return buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n%s %ju\n", name, help, name, type, name,
			  (uintmax_t)n);
}

static int add_http(struct buf *b, const struct api_stats *s)
{
	int r = buf_add_str(b, "# HELP caisson_http_answers_total Answers, by class of status.\n"
			       "# TYPE caisson_http_answers_total counter\n");

	for (unsigned i = 0; i < ARRAY_SIZE(s->answers) && r == 0; i++)
		r = buf_printf(b, "caisson_http_answers_total{class=\"%uxx\"} %ju\n", i + 1,
			       (uintmax_t)s->answers[i]);
	r = r < 0 ? r
		  : buf_add_str(
			b,
			"# HELP caisson_http_refused_total Answers to what never reached a route.\n"
			"# TYPE caisson_http_refused_total counter\n");
	for (size_t i = 0; i < API_REFUSED && r == 0; i++)
		r = refusals[i]
			? buf_printf(
			      b, "caisson_http_refused_total{route=\"none\",status=\"%d\"} %ju\n",
			      refusals[i], (uintmax_t)s->refused[i])
			: buf_printf(
			      b,
			      "caisson_http_refused_total{route=\"none\",status=\"other\"} %ju\n",
			      (uintmax_t)s->refused[i]);
	r = r < 0 ? r
		  : add_one(b, "caisson_http_answer_seconds_total", "counter",
			    "Time that answers took, streams included.", s->answer_ns / NS_PER_S);
	return r < 0 ? r
		     : add_one(b, "caisson_http_sent_bytes_total", "counter",
			       "Bytes of answers' bodies.", s->sent_bytes);
}

struct row {
	const char *name, *type, *help;
	uint64_t n;
};

static int add_rows(struct buf *b, const struct row *rows, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = add_one(b, rows[i].name, rows[i].type, rows[i].help, rows[i].n);
	return r;
}

static int add_pool(struct buf *b, const struct manager *m)
{
	struct engine_pool p;

	manager_pool(m, &p);
	const struct row rows[] = {
	    {"caisson_pool_ready", "gauge", "Sandboxes made ahead of need that wait.", p.ready},
	    {"caisson_pool_claimed_total", "counter", "Creations that took one of them.",
	     p.claimed},
	    {"caisson_pool_cold_total", "counter", "Creations for which none was there.", p.cold},
	    {"caisson_pool_fill_failures_total", "counter",
	     "Of the pool's own: could not be made, or ended soon.", p.fill_failed},
	};

	return add_rows(b, rows, ARRAY_SIZE(rows));
}

static int add_space(struct buf *b, const struct manager *m)
{
	struct engine_space s;

	manager_space(m, &s);
	const struct row rows[] = {
	    {"caisson_host_disk_free_bytes", "gauge", "Free on the disk of the state folder.",
	     s.free_bytes},
	    {"caisson_host_disk_reserve_bytes", "gauge",
	     "Kept free there: with less, no sandbox can write.", s.reserve_bytes},
	    {"caisson_host_disk_promised_bytes", "gauge",
	     "What the disks of active sandboxes may still take there.", s.promised_bytes},
	    {"caisson_host_disk_state", "gauge",
	     "0: enough; 1: short, no new sandboxes; 2: full, no sandbox can write.",
	     (uint64_t)s.state},
	};

	return s.known ? add_rows(b, rows, ARRAY_SIZE(rows)) : 0;
}

/* Nothing of a store that is a file. */
static int add_link(struct buf *b, struct store *store)
{
	struct store_link l;

	if (!store_look_at_link(store, &l))
		return 0;
	const struct row rows[] = {
	    {"caisson_store_connected", "gauge", "1: the database answers; 0: it does not.", l.up},
	    {"caisson_store_changes_waiting", "gauge",
	     "Changes of users, keys and sign-ins that wait for the database.", l.changes},
	    {"caisson_store_copy_age_seconds", "gauge",
	     "Time since the copy of users and keys was last known to be current.",
	     l.age_ms / 1000},
	};
	return add_rows(b, rows, ARRAY_SIZE(rows));
}

static int add_store(struct buf *b, struct store *store)
{
	struct store_counts n;
	struct err e = ERR_INIT;
	uint64_t bytes = 0;

	if (!store)
		return 0;
	store_count(store, &n);
	(void)!store_sandbox_bytes(store, &bytes, &e); /* stays 0 if the store cannot be read */
	const struct row rows[] = {
	    {"caisson_stored_bytes", "gauge", "Bytes that the stored sandboxes may hold.", bytes},
	    {"caisson_store_rows_queued", "gauge", "Rows that wait to be written.", n.queued},
	    {"caisson_store_rows_written_total", "counter", "Rows of history and audit.",
	     n.written},
	    {"caisson_store_rows_lost_total", "counter", "Rows that found the queue full.", n.lost},
	    {"caisson_store_failures_total", "counter", "Batches that failed and are tried again.",
	     n.failed},
	    {"caisson_store_rows_set_aside_total", "counter",
	     "Rows that the database refuses for good.", n.aside},
	    {"caisson_requests_refused_total", "counter",
	     "Requests that failed, as the audit log counts them.", n.refused},
	    {"caisson_log_lines_lost_total", "counter", "Lines that the log did not take.",
	     log_lost()},
	    {"caisson_passwords_hashed_total", "counter", "Logins and new passwords.", n.hashes},
	};
	const int r = add_rows(b, rows, ARRAY_SIZE(rows));

	return r < 0 ? r : add_link(b, store);
}

static int add_workers(struct buf *b)
{
	struct workers_counts n;

	workers_count(&n);
	const struct row rows[] = {
	    {"caisson_workers_threads", "gauge",
	     "Threads that wait for disks on behalf of the loop.", n.threads},
	    {"caisson_workers_running", "gauge", "Jobs that they work on.", n.running},
	    {"caisson_workers_waiting", "gauge", "Jobs that wait for a thread.", n.waiting},
	    {"caisson_workers_jobs_total", "counter", "Jobs that have ended.", n.done},
	};
	return add_rows(b, rows, ARRAY_SIZE(rows));
}

static void add_limit(struct sandbox *s, void *user)
{
	*(uint64_t *)user += sandbox_policy(s)->limits.memory_bytes;
}

/* USED: 0 where nobody counts it. */
static int add_sandboxes(struct buf *b, struct manager *m, uint64_t used)
{
	uint64_t memory = 0;

	manager_each(m, NULL, add_limit, &memory);
	const struct row rows[] = {
	    {"caisson_sandboxes", "gauge", "Sandboxes that are active.", manager_count(m)},
	    {"caisson_sandboxes_memory_limit_bytes", "gauge",
	     "Memory that they may use by their limits, all together.", memory},
	    {"caisson_sandboxes_memory_bytes", "gauge", "Memory that they use, all together.",
	     used},
	};

	return add_rows(b, rows, used > 0 ? ARRAY_SIZE(rows) : ARRAY_SIZE(rows) - 1);
}

/* What autoscalers follow. A router has no places, and a sum over all members must be that of the workers. */
static int add_places(struct buf *b, const struct api *a)
{
	unsigned max;
	const unsigned claimed = manager_places(a->config.manager, &max);
	const struct row rows[] = {
	    {"caisson_sandboxes_max", "gauge",
	     "Places for sandboxes that are not stored ones (SANDBOX_MAX_SESSIONS).", max},
	    {"caisson_sandboxes_claimed", "gauge", "Of these places, those that are taken.",
	     claimed},
	};

	return a->config.fleet ? 0 : add_rows(b, rows, ARRAY_SIZE(rows));
}

static int add_all(struct api *a, struct buf *b, uint64_t memory)
{
	const struct accounting_stats *s = accounting_stats(a->config.accounting);
	int r = add_runs(b, s);

	r = r < 0 ? r
		  : add_one(b, "caisson_run_cpu_seconds_total", "counter", "CPU time of runs.",
			    s->run_cpu_ns / NS_PER_S);
	r = r < 0 ? r
		  : add_one(b, "caisson_run_output_bytes_total", "counter", "Output of runs.",
			    s->output_bytes);
	r = r < 0 ? r : add_sandboxes(b, a->config.manager, memory);
	r = r < 0 ? r : add_places(b, a);
	r = r < 0 ? r
		  : add_one(b, "caisson_archives", "gauge", "Folders that are being sent.",
			    a->archives);
	r = r < 0 ? r : add_turns(b);
	r = r < 0 ? r : add_pool(b, a->config.manager);
	r = r < 0 ? r : add_space(b, a->config.manager);
	r = r < 0 ? r : add_http(b, &a->stats);
	r = r < 0 ? r : add_store(b, a->config.store);
	r = r < 0 ? r : add_workers(b);
	return r < 0 || !a->config.metrics ? r : a->config.metrics(b, a->config.user);
}

struct metrics {
	struct api *api;
	struct http_request *req; /* NULL: the client has left */
};

static void on_metrics_gone(void *user)
{
	struct metrics *m = user;

	m->req = NULL;
}

static void answer_metrics(uint64_t memory, void *user)
{
	struct metrics *m = user;
	struct buf b = BUF_INIT(METRICS_MAX);
	const int r = m->req ? add_all(m->api, &b, memory) : 0;

	if (m->req)
		http_request_on_gone(m->req, NULL, NULL);
	if (!m->req || r < 0) {
		buf_done(&b);
		if (m->req)
			http_respond_problem(m->req, ERR_OUT_OF_MEMORY, "no memory", NULL);
	} else {
		const size_t len = b.len;
		http_respond_take(m->req, 200, "text/plain; version=0.0.4; charset=utf-8",
				  buf_take(&b), len);
	}
	free(m);
}

static void get_metrics(struct http_request *req, void *user)
{
	struct api *a = user;
	const struct caller *who = auth_caller(req);
	struct engine *engine = manager_engine(a->config.manager);

	if (who && !who->admin) {
		http_respond_problem(req, ERR_FORBIDDEN, "only administrators may see this", NULL);
		return;
	}
	struct metrics *m = calloc(1, sizeof(*m));
	if (!m) {
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	*m = (struct metrics){a, req};
	http_request_on_gone(req, on_metrics_gone, m);
	if (engine)
		engine_memory(engine, answer_metrics, m);
	else
		answer_metrics(0, m);
}

/* Ready means that the engine is open or can be opened. A server that cannot write its history, or whose disk has no room
 * for more, serves all the same, and says so: balancers look at the status, people and monitors at the text. */
static void get_ready(struct http_request *req, void *user)
{
	struct api *a = user;
	struct engine_space space;
	struct err e = ERR_INIT;
	char text[128];

	if (manager_start(a->config.manager, &e) < 0) {
		json_t *why = json_pack("{s:s, s:s, s:s}", "status", "not ready", "code",
					err_code_name(e.code), "reason", e.text);
		char *body = json_dumps(why, JSON_COMPACT);

		json_decref(why);
		http_respond_text(req, 503, "application/json",
				  body ? body : "{\"status\":\"not ready\"}");
		free(body);
		return;
	}
	manager_space(a->config.manager, &space);
	const bool trouble = a->config.store && store_in_trouble(a->config.store, NULL);
	const char *disk = space.state == ENGINE_SPACE_FULL    ? "\"host_disk_full\""
			   : space.state == ENGINE_SPACE_SHORT ? "\"host_disk_short\""
							       : "";
	if (!trouble && !disk[0])
		(void)snprintf(text, sizeof(text), "{\"status\":\"ready\"}");
	else
		(void)snprintf(text, sizeof(text), "{\"status\":\"degraded\",\"reasons\":[%s%s%s]}",
			       trouble ? "\"history_not_written\"" : "",
			       trouble && disk[0] ? "," : "", disk);
	http_respond_text(req, 200, "application/json", text);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/metrics", get_metrics, HTTP_ROUTE_AUTH, 0},
    {HTTP_GET, "/readyz", get_ready, HTTP_ROUTE_ANY_HOST, 0},
};

/* The figures name no user, and whoever scrapes them has no credential of a fleet. */
static const struct http_route probes[] = {
    {HTTP_GET, "/metrics", get_metrics, HTTP_ROUTE_ANY_HOST, 0},
    {HTTP_GET, "/readyz", get_ready, HTTP_ROUTE_ANY_HOST, 0},
};

int stats_add_probes(struct api *a, struct http_server *http, unsigned scopes)
{
	return http_server_add_routes(http, probes, ARRAY_SIZE(probes), scopes, a);
}

int stats_add_routes(struct api *a, struct http_server *http, unsigned scopes)
{
	return http_server_add_routes(http, routes, ARRAY_SIZE(routes), scopes, a);
}

/* ---- REST ---- */

void rest_stats(struct rest_call *c)
{
	const struct accounting_stats *s = accounting_stats(c->api->config.accounting);
	const struct api_stats *http = &c->api->stats;
	json_t *runs = json_object();
	uint64_t answers = 0;

	for (size_t i = 0; i < ACCOUNTING_REASONS; i++)
		(void)json_object_set_new(runs, run_reason_name((enum run_reason)i),
					  json_integer((json_int_t)s->runs[i]));
	for (size_t i = 0; i < ARRAY_SIZE(http->answers); i++)
		answers += http->answers[i];
	rest_reply(c, 200,
		   json_pack("{s:I, s:o, s:o, s:I, s:I}", "sandboxes",
			     (json_int_t)manager_count(c->api->config.manager), "runs", runs,
			     "budgets", budget_figures_all(c->api), "http_answers",
			     (json_int_t)answers, "output_bytes", (json_int_t)s->output_bytes));
}

void rest_policy(struct rest_call *c)
{
	char *text = c->api->config.policy ? c->api->config.policy(c->api->config.user) : NULL;
	json_t *policy = NULL;
	int r = text ? jsonio_read(text, strlen(text), 0, &policy, NULL) : -ENOMEM;

	free(text);
	if (r == 0)
		rest_reply(c, 200, policy);
	else
		rest_refuse(c, ERR_ENGINE_UNAVAILABLE, "the policy is not known");
}

void rest_openapi(struct rest_call *c)
{
	struct api *a = c->api;

	if (!a->openapi)
		a->openapi = openapi_make(a->config.version, a->config.manager);
	struct http_request *req = rest_give(c);
	if (req)
		openapi_send(req, a->openapi);
}
