/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane: lists of sandboxes, in pages, and what one used. */
#include "faces/e2b/shapes.h"

#include "api/json_reply.h"
#include "base/jsonio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/identity.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE_MAX 100u
#define WORD_MAX 512u
#define PART_MAX (1u << 20) /* bytes of a page for a router, which takes no more than twice that */

/* ---- what is asked for ---- */

/* TEXT of a form, encoded by the SDKs once more. RET has WORD_MAX + 1 bytes. */
static int decode_twice(const char *text, size_t len, char *ret)
{
	char once[WORD_MAX + 1];
	size_t n;

	if (len > WORD_MAX || text_percent_decode(text, len, once, &n) < 0)
		return -EINVAL;
	return text_percent_decode(once, n, ret, &n);
}

/* PAIRS: "a=b&c=d". */
static bool has_pairs(const json_t *metadata, const char *pairs)
{
	char key[WORD_MAX + 1], value[WORD_MAX + 1];

	for (const char *p = pairs; *p; p += *p == '&') {
		const size_t len = strcspn(p, "&"), eq = MIN(strcspn(p, "="), len);
		const size_t from = MIN(eq + 1, len);

		if (decode_twice(p, eq, key) < 0 || decode_twice(p + from, len - from, value) < 0)
			return false;
		const char *has = json_string_value(json_object_get(metadata, key));
		if (!has || !streq(has, value))
			return false;
		p += len;
	}
	return true;
}

/* `state` may be there several times, and may have several words. */
static bool wants(const struct http_request *req, const char *state)
{
	const char *p = http_request_raw_query(req);
	bool asked = false;

	for (; p && *p; p += *p == '&') {
		const size_t len = strcspn(p, "&");

		if (strncmp(p, "state=", strlen("state=")) == 0) {
			const char *word = strstr(p, state);

			asked = true;
			if (word && word < p + len)
				return true;
		}
		p += len;
	}
	return !asked;
}

/* "2026-01-31T12:00:00.123Z" in ms since 1970; 0: it is none. */
static uint64_t read_time(const char *text)
{
	struct tm tm = {0};
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	uint64_t ms = 0;

	if (!rest)
		return 0;
	if (*rest == '.')
		for (unsigned i = 1, unit = 100; rest[i] >= '0' && rest[i] <= '9'; i++, unit /= 10)
			ms += (uint64_t)(rest[i] - '0') * unit;
	const time_t s = timegm(&tm);
	return s < 0 ? 0 : (uint64_t)s * 1000 + ms;
}

struct asked {
	const char *owner, *metadata, *template;
	uint64_t after_ms; /* started then, or later */
	uint64_t next;     /* seq of the last one of the page before; 0 = none */
	uint64_t limit;
	bool oldest_first;
	bool running, paused;
	bool by_router;
};

static int read_asked(struct e2b_call *c, struct asked *ret, struct err *e)
{
	const char *limit = http_request_query(c->req, "limit");
	const char *next = http_request_query(c->req, "nextToken");
	const char *after = http_request_query(c->req, "startedAfter");
	const char *order = http_request_query(c->req, "order");

	*ret = (struct asked){.owner = c->who->owner,
			      .metadata = http_request_query(c->req, "metadata"),
			      .template = http_request_query(c->req, "template"),
			      .limit = PAGE_MAX,
			      .running = wants(c->req, "running"),
			      .paused = wants(c->req, "paused"),
			      .by_router = e2b_is_for_list(c->req),
			      .oldest_first = order && streq(order, "asc"),
			      .after_ms = after ? read_time(after) : 0};
	if (limit && parse_u64(limit, 1, PAGE_MAX, &ret->limit) < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "limit: 1 to %u", PAGE_MAX);
	if (next && *next && parse_u64(next, 1, UINT64_MAX, &ret->next) < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "nextToken: one of an earlier answer");
	return 0;
}

static bool is_wanted(const struct e2b_sandbox *s, const struct asked *q)
{
	if (q->next > 0 && (q->oldest_first ? s->seq <= q->next : s->seq >= q->next))
		return false;
	if (s->hidden || (s->paused ? !q->paused : !q->running))
		return false;
	return streq(s->who->owner, q->owner) && s->started_ms >= q->after_ms &&
	       (!q->template || streq(s->template_id, q->template)) &&
	       (!q->metadata || has_pairs(s->metadata, q->metadata));
}

/* ---- lists ---- */

bool e2b_is_for_list(const struct http_request *req)
{
	return http_request_is_by_member(req) && http_request_header(req, FLEET_LIST_HEADER);
}

void e2b_reply_list(struct e2b_call *c, json_t *rows, uint64_t next)
{
	char token[24];

	if (e2b_is_for_list(c->req)) {
		json_t *o = json_pack("{s:o}", "rows", rows);

		(void)json_object_set_new(o, "next",
					  next > 0 ? json_integer((json_int_t)next) : json_null());
		e2b_reply(c, 200, o);
		return;
	}
	(void)snprintf(token, sizeof(token), "%ju", (uintmax_t)next);
	if (next > 0)
		(void)http_add_header(c->req, "X-Next-Token", token);
	e2b_reply(c, 200, rows);
}

/* *RET_NEXT: the last one of a full page behind which there are more; else 0. */
static json_t *page(const struct e2b *f, const struct asked *q, uint64_t *ret_next)
{
	json_t *rows = json_array();
	uint64_t last = 0;
	size_t bytes = 0;

	*ret_next = 0;
	for (const struct list *l = q->oldest_first ? f->sandboxes.next : f->sandboxes.prev;
	     l != &f->sandboxes; l = q->oldest_first ? l->next : l->prev) {
		const struct e2b_sandbox *s =
		    CONTAINER_OF((struct list *)(uintptr_t)l, struct e2b_sandbox, node);

		if (!is_wanted(s, q))
			continue;
		if (json_array_size(rows) == q->limit || bytes > PART_MAX) {
			*ret_next = last;
			break;
		}
		last = s->seq;
		json_t *row = e2b_row_json(s);
		if (q->by_router) {
			bytes += jsonio_size(row, PART_MAX);
			(void)json_object_set_new(row, "seq", json_integer((json_int_t)last));
		}
		(void)json_array_append_new(rows, row);
	}
	return rows;
}

static void list(struct e2b_call *c, bool paged)
{
	struct err e = ERR_INIT;
	struct asked q;
	uint64_t next = 0;

	if (read_asked(c, &q, &e) < 0) {
		e2b_fail(c, &e);
		return;
	}
	json_t *rows = page(c->face, &q, &next);
	e2b_reply_list(c, rows, paged || q.by_router ? next : 0);
}

void e2b_list_v1(struct e2b_call *c)
{
	list(c, false);
}

void e2b_list_v2(struct e2b_call *c)
{
	list(c, true);
}

/* ---- what it used ---- */

static json_t *sample_json(const struct sandbox *s, const struct sandbox_sample *x,
			   const struct sandbox_sample *before)
{
	const struct engine_limits *l = &sandbox_policy(s)->limits;
	const uint64_t ms = before && x->at_ms > before->at_ms ? x->at_ms - before->at_ms : 0;
	const uint64_t cpu_ns =
	    ms > 0 && x->cpu_ns > before->cpu_ns ? x->cpu_ns - before->cpu_ns : 0;
	char when[API_TIME_SIZE];

	return json_pack("{s:s, s:I, s:i, s:f, s:I, s:I, s:i, s:I, s:I}", "timestamp",
			 api_time(x->at_ms, when), "timestampUnix", (json_int_t)(x->at_ms / 1000),
			 "cpuCount", (int)(l->cpu_milli + 999) / 1000, "cpuUsedPct",
			 ms > 0 ? (double)cpu_ns / (double)NS_PER_MS / (double)ms * 100 : 0.0,
			 "memUsed", (json_int_t)x->memory_bytes, "memTotal",
			 (json_int_t)l->memory_bytes, "memCache", 0, "diskUsed",
			 (json_int_t)x->disk_bytes, "diskTotal", (json_int_t)l->workspace_bytes);
}

static uint64_t query_seconds(const struct e2b_call *c, const char *name, uint64_t otherwise)
{
	const char *text = http_request_query(c->req, name);
	uint64_t n = otherwise;

	return text && parse_u64(text, 0, UINT64_MAX / 1000, &n) < 0 ? otherwise : n;
}

static void on_sample(const struct sandbox_sample *newest UNUSED, const struct err *e UNUSED,
		      void *user)
{
	struct e2b_call *c = user;
	const struct e2b_sandbox *s =
	    c->req ? e2b_find(c->face, http_request_param(c->req, "id")) : NULL;
	json_t *rows = json_array();

	if (!s || !s->sandbox) {
		e2b_reply(c, 200, rows);
		return;
	}
	const uint64_t from = query_seconds(c, "start", 0);
	const uint64_t to = query_seconds(c, "end", UINT64_MAX / 1000);
	const struct sandbox_sample *before = NULL, *x;
	for (size_t i = 0; (x = sandbox_sample(s->sandbox, i)); i++) {
		if (x->at_ms / 1000 >= from && x->at_ms / 1000 <= to)
			(void)json_array_append_new(rows, sample_json(s->sandbox, x, before));
		before = x;
	}
	e2b_reply(c, 200, rows);
}

void e2b_metrics(struct e2b_call *c)
{
	const struct e2b_sandbox *s = e2b_find(c->face, http_request_param(c->req, "id"));

	if (!s || !streq(s->who->owner, c->who->owner))
		e2b_refuse(c, ERR_NOT_FOUND, "the sandbox was not found");
	else
		sandbox_watch_usage(s->sandbox, on_sample, c);
}

/* ---- of many sandboxes ---- */

struct gathering {
	struct e2b_call *call;
	json_t *found; /* owned: by their ids */
	size_t left;   /* that have not answered, and one of e2b_metrics_of_many() */
};

struct gathered {
	struct gathering *of;
	struct e2b_sandbox *sandbox; /* reference */
};

/* FOUND is taken. */
static json_t *rows_of(json_t *found)
{
	json_t *rows = json_array(), *sample;
	const char *id;

	json_object_foreach(found, id, sample) {
		(void)json_object_set_new(sample, "sandboxID", json_string(id));
		(void)json_array_append(rows, sample);
	}
	json_decref(found);
	return rows;
}

static void gathering_done(struct gathering *g)
{
	if (--g->left > 0)
		return;
	if (g->call->req && e2b_is_for_list(g->call->req))
		e2b_reply_list(g->call, rows_of(g->found), 0);
	else
		e2b_reply(g->call, 200, json_pack("{s:o}", "sandboxes", g->found));
	free(g);
}

static void on_one(const struct sandbox_sample *newest, const struct err *e UNUSED, void *user)
{
	struct gathered *one = user;
	struct e2b_sandbox *s = one->sandbox;

	if (newest && s->sandbox)
		(void)json_object_set_new(one->of->found, s->id,
					  sample_json(s->sandbox, newest, NULL));
	gathering_done(one->of);
	(void)e2b_sandbox_unref(s);
	free(one);
}

static void gather(struct gathering *g, const char *id)
{
	struct e2b_sandbox *s = e2b_find(g->call->face, id);
	const bool own = s && s->sandbox && streq(s->who->owner, g->call->who->owner);
	struct gathered *one = own ? calloc(1, sizeof(*one)) : NULL;

	if (!one)
		return;
	*one = (struct gathered){.of = g, .sandbox = e2b_sandbox_ref(s)};
	g->left++;
	sandbox_watch_usage(s->sandbox, on_one, one);
}

/* Those that are not there, or not the caller's, are left out. */
void e2b_metrics_of_many(struct e2b_call *c)
{
	const char *p = http_request_query(c->req, "sandbox_ids");
	struct gathering *g = p ? calloc(1, sizeof(*g)) : NULL;
	char id[E2B_ID_SIZE];
	size_t n = 0;

	if (!g) {
		e2b_refuse(c, p ? ERR_OUT_OF_MEMORY : ERR_INVALID_ARGUMENT,
			   "sandbox_ids: the ids of sandboxes, separated by commas");
		return;
	}
	*g = (struct gathering){.call = c, .found = json_object(), .left = 1};
	for (; *p && n < PAGE_MAX; p += strspn(p, ","), n++) {
		const size_t len = strcspn(p, ",");

		if (len > 0 && len < sizeof(id)) {
			memcpy(id, p, len);
			id[len] = '\0';
			gather(g, id);
		}
		p += len;
	}
	gathering_done(g);
}
