/* SPDX-License-Identifier: Apache-2.0 */
/* REST: sandboxes. */
#include "api/rest/rest.h"

#include "api/ports/ports.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/checkpoints.h"
#include "sandbox/keep.h"

#include <string.h>

static void add_host(const char *host, void *user)
{
	(void)json_array_append_new(user, json_string(host));
}

/* Adds `network`, and `domains` if the sandbox was made with a list of hosts. */
static json_t *add_network(json_t *object, struct manager *m, const char *network,
			   const struct sandbox_choice *choice)
{
	json_t *domains = json_array();
	const char *word = manager_network(m, choice, add_host, domains);

	(void)json_object_set_new(object, "network", json_string(network ? network : word));
	if (json_array_size(domains) > 0)
		(void)json_object_set(object, "domains", domains);
	json_decref(domains);
	return object;
}

/* The limits that hold, or will hold when it becomes active. */
static json_t *limits_json(const struct engine_limits *l, uint64_t timeout_ns, uint64_t ttl_ns)
{
	const uint64_t mib = 1u << 20;
	json_t *object = json_pack(
	    "{s:I, s:f, s:I, s:I, s:I}", "memory_mb", (json_int_t)(l->memory_bytes / mib), "cpus",
	    (double)l->cpu_milli / 1000, "processes", (json_int_t)l->pids, "disk_mb",
	    (json_int_t)(l->workspace_bytes / mib), "ttl_s", (json_int_t)(ttl_ns / NS_PER_S));

	if (timeout_ns > 0) /* 0 = a run may take any time */
		(void)json_object_set_new(object, "timeout_s",
					  json_integer((json_int_t)(timeout_ns / NS_PER_S)));
	return object;
}

/* Adds what was chosen for the sandbox; of the environment only the names. */
static void add_options(json_t *object, const struct sandbox_options *o)
{
	json_t *chosen = sandbox_options_json(o);
	json_t *env = json_object_get(chosen, "env"), *labels = json_object_get(chosen, "labels");
	json_t *workdir = json_object_get(chosen, "workdir");

	(void)json_object_set_new(object, "env", env ? json_incref(env) : json_array());
	(void)json_object_set_new(object, "labels", labels ? json_incref(labels) : json_object());
	if (o->number[SANDBOX_OPTION_ROOT])
		(void)json_object_set_new(object, "root", json_true());
	if (workdir)
		(void)json_object_set(object, "workdir", workdir);
	json_decref(chosen);
}

/* Describes an active sandbox. */
json_t *sandbox_json(struct manager *m, const struct sandbox *s)
{
	json_t *object = json_pack(
	    "{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:s, s:s, s:o}", "id", sandbox_id(s), "owner",
	    sandbox_owner(s), "kind", sandbox_is_stored(s) ? "stored" : "session", "name",
	    sandbox_name(s), "state", "active", "busy", sandbox_is_busy(s), "age_s",
	    (json_int_t)(sandbox_age_ns(s) / NS_PER_S), "idle_s",
	    (json_int_t)(sandbox_idle_ns(s) / NS_PER_S), "image", sandbox_image(s), "level",
	    sandbox_policy(s)->level.name, "limits",
	    limits_json(&sandbox_policy(s)->limits, sandbox_run_timeout_ns(s), sandbox_ttl_ns(s)));

	(void)json_object_set_new(object, "runs", json_integer((json_int_t)sandbox_runs(s)));
	(void)json_object_set_new(object, "public", json_boolean(sandbox_is_public(s)));
	if (!sandbox_is_stored(s))
		(void)json_object_set_new(object, "keepable", json_boolean(sandbox_can_keep(s)));
	if (sandbox_is_stopped(s))
		(void)json_object_set_new(object, "host_disk_full", json_true());
	if (sandbox_parent(s)[0])
		(void)json_object_set_new(object, "parent", json_string(sandbox_parent(s)));
	add_options(object, sandbox_options(s));
	return add_network(object, m, sandbox_network(s), sandbox_choice(s));
}

static json_t *stored_json(struct manager *m, const struct sandbox_record *b)
{
	uint64_t now = now_wall_ns() / NS_PER_MS;
	json_int_t age = now > b->created_ms ? (json_int_t)((now - b->created_ms) / 1000) : 0;
	struct sandbox_options o = {0};
	struct sandbox_limits l;
	struct err ignored = ERR_INIT;

	/* An environment that cannot be read now is not shown; everything else is. */
	if (manager_stored_options(m, b, &o, &ignored) < 0)
		o = (struct sandbox_options){0};
	manager_stored_limits(m, &o, &l);
	json_t *object = json_pack(
	    "{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:s, s:s, s:o}", "id", b->id, "owner",
	    b->owner, "kind", "stored", "name", b->name, "state", "stored", "busy", false, "age_s",
	    age, "runs", (json_int_t)b->runs, "image", b->image, "level", manager_level_name(m, &o),
	    "limits", limits_json(&l.engine, l.timeout_ns, l.ttl_ns));
	add_options(object, &o);
	(void)json_object_set_new(object, "public", json_boolean(manager_options_public(m, &o)));
	sandbox_options_done(&o);
	return add_network(object, m, NULL, &b->network);
}

/* ---- list ---- */

struct listing {
	struct manager *manager;
	json_t *list;
	struct usage_list *usage; /* NULL: it is not wanted */
};

static void add_active(struct listing *l, struct sandbox *s)
{
	json_t *row = sandbox_json(l->manager, s);

	(void)json_array_append_new(l->list, row);
	if (l->usage)
		usage_list_add(l->usage, s, row);
}

static void add_session(struct sandbox *s, void *user)
{
	if (!sandbox_is_stored(s))
		add_active(user, s);
}

static void add_stored(const struct sandbox_record *b, void *user)
{
	struct listing *l = user;
	struct sandbox *s = manager_find(l->manager, b->owner, b->id);

	if (s)
		add_active(l, s);
	else
		(void)json_array_append_new(l->list, stored_json(l->manager, b));
}

void rest_list_sandboxes(struct rest_call *c)
{
	bool all = rest_query_bool(c, "all") && c->who->admin;
	const char *owner = all ? NULL : c->owner;
	struct listing l = {.manager = c->api->config.manager, .list = json_array()};
	struct err e = ERR_INIT;

	if (rest_query_bool(c, "usage"))
		l.usage = usage_list_new(c);
	manager_each(l.manager, owner, add_session, &l);
	int r = manager_each_stored(l.manager, owner, add_stored, &l, &e);
	if (r == 0 && l.usage) {
		usage_list_reply(l.usage, l.list);
		return;
	}
	usage_list_free(l.usage);
	if (r < 0) {
		json_decref(l.list);
		rest_fail(c, &e);
		return;
	}
	rest_reply(c, 200, json_pack("{s:o}", "sandboxes", l.list));
}

/* ---- create, get, delete ---- */

static void add_own_session(struct sandbox *s, void *user)
{
	if (!sandbox_is_stored(s))
		(void)json_array_append_new(
		    user, json_pack("{s:s, s:b, s:I, s:I}", "id", sandbox_id(s), "busy",
				    sandbox_is_busy(s), "age_s",
				    (json_int_t)(sandbox_age_ns(s) / NS_PER_S), "idle_s",
				    (json_int_t)(sandbox_idle_ns(s) / NS_PER_S)));
}

void rest_fail_open(struct rest_call *c, const struct err *e)
{
	struct err told = *e;

	if (e->code != ERR_MAX_SESSIONS) {
		rest_fail(c, e);
		return;
	}
	json_t *list = json_array();
	manager_each(c->api->config.manager, c->owner, add_own_session, list);
	(void)err_set(&told, e->code, 0, "%s %s", e->text,
		      json_array_size(list) > 0
			  ? "`sessions` lists yours: go on in one of them, or delete one."
			  : "You have none: wait until another user's session ends.");
	c->done = json_pack("{s:o}", "sessions", list);
	rest_fail(c, &told);
}

static void on_created(struct sandbox *s, const struct err *e, void *user)
{
	struct rest_call *c = user;

	if (e) {
		rest_fail_open(c, e);
		return;
	}
	(void)snprintf(c->object, sizeof(c->object), "%s", sandbox_id(s));
	if (sandbox_choice(s)->text[0] != '\0')
		(void)snprintf(c->object, sizeof(c->object), "%s network %s", sandbox_id(s),
			       sandbox_network(s));
	if (sandbox_is_public(s)) {
		const size_t len = strlen(c->object);

		(void)snprintf(c->object + len, sizeof(c->object) - len, " public true");
	}
	rest_reply(c, 201, sandbox_json(c->api->config.manager, s));
}

/* Reads the network that the body chooses; RET is empty if it chooses none. */
static int choose_network(struct rest_call *c, struct sandbox_choice *ret, struct err *e)
{
	const char *hosts[SANDBOX_HOSTS_MAX];
	const json_t *list = json_object_get(c->body, "domains");
	size_t n = json_array_size(list);

	ret->text[0] = '\0';
	if (!rest_has(c, "network") && n == 0)
		return 0;
	for (size_t i = 0; i < n && i < ARRAY_SIZE(hosts); i++)
		hosts[i] = json_string_value(json_array_get(list, i));
	return manager_choose_network(c->api->config.manager, rest_text(c, "network", "none"),
				      hosts, n, ret, e);
}

static bool is_stored_wanted(const struct rest_call *c)
{
	return streq(rest_text(c, "kind", "session"), "stored");
}

/* Options are more than the tools of an exact profile can do, except the name of a stored sandbox. */
static int check_profile(const struct rest_call *c, const struct sandbox_options *o, struct err *e)
{
	if (auth_has_all_tools(c->who) || (o->given & ~(1u << SANDBOX_OPTION_NAME)) == 0)
		return 0;
	return err_set(e, ERR_FORBIDDEN, 0, "this key is for the tools of one profile");
}

void rest_create_sandbox(struct rest_call *c)
{
	struct manager *m = c->api->config.manager;
	struct sandbox_options options = {0};
	struct sandbox_choice network;
	struct err e = ERR_INIT;
	int r = sandbox_options_read(c->body, false, &options, &e);

	c->action = "sandbox.create";
	r = r < 0 ? r : check_profile(c, &options, &e);
	r = r < 0 ? r : choose_network(c, &network, &e);
	if (r < 0)
		rest_fail(c, &e);
	else if (is_stored_wanted(c))
		manager_create(m, c->owner, NULL, &network, &options, on_created, c);
	else
		manager_open_new(m, c->owner, NULL, &network, &options, on_created, c);
	sandbox_options_done(&options);
}

/* Answers with the sandbox {id} as it is now. */
static void reply_sandbox(struct rest_call *c, const char *id)
{
	struct manager *m = c->api->config.manager;
	struct sandbox *s = manager_find(m, c->owner, id);
	struct sandbox_record record;
	struct err e = ERR_INIT;

	if (s) {
		rest_reply(c, 200, sandbox_json(m, s));
		return;
	}
	int r = manager_get_stored(m, c->owner, id, &record, &e);
	if (r > 0)
		rest_reply(c, 200, stored_json(m, &record));
	else if (r == 0)
		rest_no_sandbox(c, id);
	else
		rest_fail(c, &e);
}

void rest_get_sandbox(struct rest_call *c)
{
	reply_sandbox(c, http_request_param(c->req, "id"));
}

static void fail_change(struct rest_call *c, const struct err *e)
{
	if (e->code == ERR_SESSION_NOT_FOUND)
		rest_no_sandbox(c, c->object);
	else
		rest_fail(c, e);
}

/* The audit log tells which limits were given, and who is let in. */
static void note_limits(struct rest_call *c)
{
	const json_t *open = json_object_get(c->body, "public");
	static const enum sandbox_option limits[] = {SANDBOX_OPTION_MEMORY, SANDBOX_OPTION_CPUS,
						     SANDBOX_OPTION_PROCESSES};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const char *member = sandbox_option_rows[limits[i]].member;
		const json_t *v = json_object_get(c->body, member);
		const size_t len = strlen(c->object);

		if (v)
			(void)snprintf(c->object + len, sizeof(c->object) - len, " %s %.10g",
				       member, json_number_value(v));
	}
	if (open) {
		const size_t len = strlen(c->object);

		(void)snprintf(c->object + len, sizeof(c->object) - len, " public %s",
			       json_is_true(open) ? "true" : "false");
		ports_end_strangers(c->api);
	}
}

static void on_changed(const struct err *e, void *user)
{
	struct rest_call *c = user;
	char id[sizeof(c->object)];

	memcpy(id, c->object, sizeof(id));
	if (e) {
		fail_change(c, e);
		return;
	}
	note_limits(c);
	reply_sandbox(c, id);
}

void rest_change_sandbox(struct rest_call *c)
{
	struct manager *m = c->api->config.manager;
	const char *id = http_request_param(c->req, "id");
	struct sandbox_options change = {0};
	struct err e = ERR_INIT;

	if (!text_is_utf8(id, strlen(id))) {
		rest_refuse(c, ERR_SESSION_NOT_FOUND, "There is no such sandbox");
		return;
	}
	c->action = "sandbox.change";
	(void)snprintf(c->object, sizeof(c->object), "%s", id);
	int r = sandbox_options_read(c->body, true, &change, &e);
	r = r < 0 ? r : manager_change(m, c->owner, id, &change, on_changed, c, &e);
	sandbox_options_done(&change);
	if (r < 0)
		fail_change(c, &e);
	else if (r == 0)
		on_changed(NULL, c);
}

static void on_kept(const struct err *e, void *user)
{
	struct rest_call *c = user;
	char id[sizeof(c->object)];

	memcpy(id, c->object, sizeof(id));
	if (e)
		fail_change(c, e);
	else
		reply_sandbox(c, id);
}

void rest_keep_sandbox(struct rest_call *c)
{
	struct sandbox *s = NULL;
	const char *id = http_request_param(c->req, "id");
	struct sandbox_options options = {0};
	struct err e = ERR_INIT;

	if (!text_is_utf8(id, strlen(id))) {
		rest_refuse(c, ERR_SESSION_NOT_FOUND, "There is no such sandbox");
		return;
	}
	c->action = "sandbox.keep";
	(void)snprintf(c->object, sizeof(c->object), "%s", id);
	int r = sandbox_options_read(c->body, false, &options, &e);
	if (r == 0)
		s = manager_find(c->api->config.manager, c->owner, id);
	if (s)
		r = sandbox_keep(s, options.name, on_kept, c, &e);
	sandbox_options_done(&options);
	if (r < 0)
		fail_change(c, &e);
	else if (r == 0) /* it is stored already, or there is none */
		reply_sandbox(c, id);
}

static void on_deleted(const struct err *e, void *user)
{
	if (e && e->code != ERR_CANCELLED)
		rest_fail(user, e);
	else
		rest_reply(user, 204, NULL);
}

void rest_delete_sandbox(struct rest_call *c)
{
	struct manager *m = c->api->config.manager;
	const char *id = http_request_param(c->req, "id");
	struct err e = ERR_INIT;

	if (!text_is_utf8(id, strlen(id))) {
		rest_refuse(c, ERR_SESSION_NOT_FOUND, "There is no such sandbox");
		return;
	}
	c->action = "sandbox.delete";
	(void)snprintf(c->object, sizeof(c->object), "%s", id);
	if (manager_delete(m, c->owner, id, rest_query_bool(c, "force"), on_deleted, c, &e) == 0)
		return;
	if (e.code == ERR_SESSION_NOT_FOUND)
		rest_no_sandbox(c, id);
	else
		rest_fail(c, &e);
}
