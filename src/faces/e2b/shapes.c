/* SPDX-License-Identifier: Apache-2.0 */
#include "faces/e2b/shapes.h"

#include "api/json_reply.h"
#include "base/rand.h"
#include "base/text.h"

#include <string.h>
#include <strings.h>

#define CLIENT_ID "caisson"
#define MIB       (1u << 20)

/* ":8181" of "http://[::1]:8181/path", or "". */
static void add_port(struct buf *b, const char *base)
{
	const char *host = strstr(base, "://");

	host = host ? host + strlen("://") : base;
	host += *host == '[' ? strcspn(host, "]") : 0;
	const char *port = host + strcspn(host, ":/");
	if (*port == ':')
		(void)!buf_add(b, port, strcspn(port, "/"));
}

/* The domain below which ports of sandboxes have names, with the port where the client of REQ finds this server; null: they have
 * none. */
static json_t *domain_json(const struct e2b *f, const struct http_request *req)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(1024);
	const char *host = req ? http_request_header(req, "host") : NULL;
	char base[HTTP_BASE_SIZE];

	if (!f->config.port_domain[0] || buf_add_str(&b, f->config.port_domain) < 0)
		return json_null();
	/* What stands behind the first label of a name of ours, is it. */
	const char *dot = host ? strchr(host, '.') : NULL;
	const size_t len = strlen(f->config.port_domain);
	if (dot && strncasecmp(dot + 1, f->config.port_domain, len) == 0 &&
	    (dot[1 + len] == '\0' || dot[1 + len] == ':'))
		(void)!buf_add_str(&b, dot + 1 + len);
	else
		add_port(&b, req && http_request_base(req, base) ? base : f->config.base);
	return json_string(buf_str(&b));
}

static json_t *when_json(uint64_t ms)
{
	char text[API_TIME_SIZE];

	return json_string(api_time(ms, text));
}

static json_t *names_json(const struct e2b_sandbox *s)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s}", "templateID", s->template_id, "alias",
			 s->template_id, "sandboxID", s->id, "clientID", CLIENT_ID, "envdVersion",
			 E2B_ENVD_VERSION);
}

json_t *e2b_sandbox_json(const struct e2b_sandbox *s, const struct http_request *req)
{
	json_t *o = names_json(s);

	(void)json_object_update_new(o, json_pack("{s:s, s:s, s:o}", "envdAccessToken", s->token,
						  "trafficAccessToken", s->traffic, "domain",
						  domain_json(s->face, req)));
	return o;
}

json_t *e2b_row_json(const struct e2b_sandbox *s)
{
	const struct engine_limits *l = &sandbox_policy(s->sandbox)->limits;
	json_t *o = names_json(s);

	(void)json_object_update_new(o, json_pack("{s:o, s:o, s:s, s:i, s:I, s:I, s:O, s:[]}",
						  "startedAt", when_json(s->started_ms), "endAt",
						  when_json(s->end_ms), "state",
						  s->paused ? "paused" : "running", "cpuCount",
						  (int)(l->cpu_milli + 999) / 1000, "memoryMB",
						  (json_int_t)(l->memory_bytes / MIB), "diskSizeMB",
						  (json_int_t)(l->workspace_bytes / MIB),
						  "metadata", s->metadata, "volumeMounts"));
	return o;
}

struct rules {
	json_t *allow, *deny;
};

static void add_rule(const char *entry, void *user)
{
	struct rules *rules = user;
	const bool denied = entry[0] == '!';

	(void)json_array_append_new(denied ? rules->deny : rules->allow,
				    json_string(entry + denied));
}

/* What was chosen for it; without a choice the operator's policy holds, which is not told. */
static json_t *network_json(const struct e2b_sandbox *s)
{
	json_t *o = json_pack("{s:b}", "allowPublicTraffic", sandbox_is_public(s->sandbox));
	const struct sandbox_choice *choice = sandbox_choice(s->sandbox);
	struct rules rules = {json_array(), json_array()};

	if (sandbox_choice_is_closed(choice))
		(void)json_array_append_new(rules.deny, json_string(E2B_EVERYTHING));
	(void)manager_network(s->face->config.manager, choice, add_rule, &rules);
	if (s->host[0])
		(void)json_object_set_new(o, "maskRequestHost", json_string(s->host));
	if (s->n_https > 0) {
		json_t *ports = json_array();

		for (unsigned i = 0; i < s->n_https; i++)
			(void)json_array_append_new(ports, json_integer(s->https[i]));
		(void)json_object_set_new(o, "httpsPorts", ports);
	}
	if (json_array_size(rules.deny) > 0)
		(void)json_object_set(o, "denyOut", rules.deny);
	if (json_array_size(rules.allow) > 0)
		(void)json_object_set(o, "allowOut", rules.allow);
	json_decref(rules.deny);
	json_decref(rules.allow);
	return o;
}

json_t *e2b_detail_json(const struct e2b_sandbox *s, const struct http_request *req, bool token)
{
	json_t *o = e2b_row_json(s);

	(void)json_object_update_new(
	    o, json_pack("{s:o, s:o, s:b, s:{s:b, s:s}}", "network", network_json(s), "domain",
			 domain_json(s->face, req), "allowInternetAccess",
			 !streq(sandbox_network(s->sandbox), "none"), "lifecycle", "autoResume",
			 s->auto_resume, "onTimeout", s->auto_pause ? "pause" : "kill"));
	if (token)
		(void)json_object_set_new(o, "envdAccessToken", json_string(s->token));
	return o;
}
