/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: /metrics as Prometheus text, /api/v1/stats as JSON; /readyz, the policy, and the
 * OpenAPI document. */
#include "api/rest.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define METRICS_MAX (256u << 10)

void api_note_request(struct api *a, struct http_request *req UNUSED, int status, uint64_t bytes,
		      uint64_t ns)
{
	if (!a)
		return;
	if (status >= 100 && status < 600)
		a->stats.answers[status / 100 - 1]++;
	a->stats.sent_bytes += bytes;
	a->stats.answer_ns += ns;
}

/* ---- Prometheus ---- */

static int add_runs(struct buf *b, const struct ledger_stats *s)
{
	uint64_t sum = 0;
	int r = buf_add_str(b, "# HELP caisson_runs_total Runs that ended, by reason.\n"
			       "# TYPE caisson_runs_total counter\n");

	for (size_t i = 0; i < LEDGER_REASONS && r == 0; i++)
		r = buf_printf(b, "caisson_runs_total{reason=\"%s\"} %ju\n",
			       run_reason_name((enum run_reason)i), (uintmax_t)s->runs[i]);
	if (r == 0)
		r = buf_add_str(b, "# HELP caisson_run_seconds Time of runs.\n"
				   "# TYPE caisson_run_seconds histogram\n");
	for (size_t i = 0; i < LEDGER_BUCKETS && r == 0; i++) {
		sum += s->run_buckets[i];
		r = buf_printf(b, "caisson_run_seconds_bucket{le=\"%ju.%03u\"} %ju\n",
			       (uintmax_t)ledger_bounds_ms[i] / 1000,
			       (unsigned)(ledger_bounds_ms[i] % 1000), (uintmax_t)sum);
	}
	sum += s->run_buckets[LEDGER_BUCKETS];
	if (r == 0)
		r = buf_printf(b,
			       "caisson_run_seconds_bucket{le=\"+Inf\"} %ju\n"
			       "caisson_run_seconds_sum %ju.%03u\ncaisson_run_seconds_count %ju\n",
			       (uintmax_t)sum, (uintmax_t)s->run_ms / 1000,
			       (unsigned)(s->run_ms % 1000), (uintmax_t)sum);
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
	    {"caisson_log_lines_lost_total", "counter", "Lines that the log file did not take.",
	     log_lost()},
	    {"caisson_passwords_hashed_total", "counter", "Logins and new passwords.", n.hashes},
	};
	return add_rows(b, rows, ARRAY_SIZE(rows));
}

static int add_all(struct api *a, struct buf *b)
{
	const struct ledger_stats *s = ledger_stats(a->config.ledger);
	int r = add_runs(b, s);

	r = r < 0 ? r
		  : add_one(b, "caisson_run_cpu_seconds_total", "counter", "CPU time of runs.",
			    s->run_cpu_ns / NS_PER_S);
	r = r < 0 ? r
		  : add_one(b, "caisson_run_output_bytes_total", "counter", "Output of runs.",
			    s->output_bytes);
	r = r < 0 ? r
		  : add_one(b, "caisson_sandboxes", "gauge", "Sandboxes that are active.",
			    manager_count(a->config.manager));
	r = r < 0 ? r
		  : add_one(b, "caisson_archives", "gauge", "Folders that are being sent.",
			    a->archives);
	r = r < 0 ? r : add_pool(b, a->config.manager);
	r = r < 0 ? r : add_http(b, &a->stats);
	r = r < 0 ? r : add_store(b, a->config.store);
	return r < 0 || !a->config.metrics ? r : a->config.metrics(b, a->config.user);
}

static void get_metrics(struct http_request *req, void *user)
{
	struct api *a = user;
	struct buf b = BUF_INIT(METRICS_MAX);
	const struct caller *who = auth_caller(req);

	if (who && !who->admin) {
		http_respond_problem(req, ERR_FORBIDDEN, "only administrators may see this", NULL);
		return;
	}
	if (add_all(a, &b) < 0) {
		buf_done(&b);
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
		return;
	}
	size_t len = b.len;
	http_respond_take(req, 200, "text/plain; version=0.0.4; charset=utf-8", buf_take(&b), len);
}

/* Ready means that the engine is open or can be opened. */
static void get_ready(struct http_request *req, void *user)
{
	struct api *a = user;
	struct err e = ERR_INIT;

	if (manager_start(a->config.manager, &e) < 0)
		http_respond_text(req, 503, "application/json", "{\"status\":\"not ready\"}");
	else
		http_respond_text(req, 200, "application/json", "{\"status\":\"ready\"}");
}

static const struct http_route routes[] = {
    {HTTP_GET, "/metrics", get_metrics, HTTP_ROUTE_AUTH, 0},
    {HTTP_GET, "/readyz", get_ready, HTTP_ROUTE_ANY_HOST, 0},
};

int stats_add_routes(struct api *a, struct http_server *http, unsigned scopes)
{
	return http_server_add_routes(http, routes, ARRAY_SIZE(routes), scopes, a);
}

/* ---- REST ---- */

void rest_stats(struct rest_call *c)
{
	const struct ledger_stats *s = ledger_stats(c->api->config.ledger);
	const struct api_stats *http = &c->api->stats;
	json_t *runs = json_object();
	uint64_t answers = 0;

	for (size_t i = 0; i < LEDGER_REASONS; i++)
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
	char *text =
	    a->openapi ? strdup(a->openapi) : openapi_make(a->config.version, a->config.manager);

	if (!text) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	if (!a->openapi)
		a->openapi = strdup(text);
	struct http_request *req = rest_give(c);
	if (req)
		http_respond_take(req, 200, "application/json", text, strlen(text));
	else
		free(text);
}
