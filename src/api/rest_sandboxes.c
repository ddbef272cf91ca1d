/* SPDX-License-Identifier: Apache-2.0 */
/* REST: sandboxes. */
#include "api/rest.h"

#include "base/rand.h"
#include "base/text.h"

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

/* Describes an active sandbox. */
static json_t *active_json(struct manager *m, const struct sandbox *s)
{
	json_t *object =
	    json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:I}", "id", sandbox_id(s), "owner",
		      sandbox_owner(s), "kind", sandbox_is_stored(s) ? "stored" : "session", "name",
		      sandbox_name(s), "state", "active", "busy", sandbox_is_busy(s), "age_s",
		      (json_int_t)(sandbox_age_ns(s) / NS_PER_S), "idle_s",
		      (json_int_t)(sandbox_idle_ns(s) / NS_PER_S));

	return add_network(object, m, sandbox_network(s), sandbox_choice(s));
}

static json_t *stored_json(struct manager *m, const struct sandbox_record *b)
{
	uint64_t now = now_wall_ns() / NS_PER_MS;
	json_int_t age = now > b->created_ms ? (json_int_t)((now - b->created_ms) / 1000) : 0;
	json_t *object =
	    json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:I}", "id", b->id, "owner", b->owner, "kind",
		      "stored", "name", b->name, "state", "stored", "busy", false, "age_s", age);

	return add_network(object, m, NULL, &b->network);
}

/* ---- list ---- */

struct listing {
	struct manager *manager;
	json_t *list;
};

static void add_session(struct sandbox *s, void *user)
{
	struct listing *l = user;

	if (!sandbox_is_stored(s))
		(void)json_array_append_new(l->list, active_json(l->manager, s));
}

static void add_stored(const struct sandbox_record *b, void *user)
{
	struct listing *l = user;
	struct sandbox *s = manager_find(l->manager, b->owner, b->id);

	(void)json_array_append_new(l->list,
				    s ? active_json(l->manager, s) : stored_json(l->manager, b));
}

void rest_list_sandboxes(struct rest_call *c)
{
	bool all = rest_query_bool(c, "all") && c->who->admin;
	const char *owner = all ? NULL : c->owner;
	struct listing l = {.manager = c->api->config.manager, .list = json_array()};
	struct err e = ERR_INIT;

	manager_each(l.manager, owner, add_session, &l);
	if (manager_each_stored(l.manager, owner, add_stored, &l, &e) < 0) {
		json_decref(l.list);
		rest_fail(c, &e);
		return;
	}
	rest_reply(c, 200, json_pack("{s:o}", "sandboxes", l.list));
}

/* ---- create, get, delete ---- */

static void on_created(struct sandbox *s, const struct err *e, void *user)
{
	struct rest_call *c = user;

	if (e) {
		rest_fail(c, e);
		return;
	}
	(void)snprintf(c->object, sizeof(c->object), "%s", sandbox_id(s));
	if (sandbox_choice(s)->text[0] != '\0')
		(void)snprintf(c->object, sizeof(c->object), "%s network %s", sandbox_id(s),
			       sandbox_network(s));
	rest_reply(c, 201, active_json(c->api->config.manager, s));
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

void rest_create_sandbox(struct rest_call *c)
{
	struct manager *m = c->api->config.manager;
	struct sandbox_choice network;
	struct err e = ERR_INIT;

	c->action = "sandbox.create";
	if (choose_network(c, &network, &e) < 0)
		rest_fail(c, &e);
	else if (streq(rest_text(c, "kind", "session"), "stored"))
		manager_create(m, c->owner, rest_text(c, "name", ""), &network, on_created, c);
	else
		manager_open_new(m, c->owner, NULL, &network, on_created, c);
}

void rest_get_sandbox(struct rest_call *c)
{
	struct manager *m = c->api->config.manager;
	const char *id = http_request_param(c->req, "id");
	struct sandbox *s = manager_find(m, c->owner, id);
	struct sandbox_record record;
	struct err e = ERR_INIT;

	if (s) {
		rest_reply(c, 200, active_json(m, s));
		return;
	}
	int r = manager_get_stored(m, c->owner, id, &record, &e);
	if (r > 0)
		rest_reply(c, 200, stored_json(m, &record));
	else if (r == 0)
		rest_refuse(c, ERR_SESSION_NOT_FOUND, "There is no such sandbox");
	else
		rest_fail(c, &e);
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
	if (manager_delete(m, c->owner, id, rest_query_bool(c, "force"), on_deleted, c, &e) < 0)
		rest_fail(c, &e);
}
