/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_create: a session or a stored sandbox with choices of its own, a copy of a session's files,
 * or another choice for a sandbox that exists. */
#include "sandbox/checkpoints.h"
#include "tools/extras.h"

#include "base/text.h"

#include <string.h>

/* What the arguments choose. */
struct choices {
	struct sandbox_choice network;
	struct sandbox_options options;
	bool persistent;
	char id[SANDBOX_ID_MAX + 1]; /* "" = a new one */
};

/* ---- the arguments ---- */

/* Long strings of a message are not in its JSON; no name or value here may be as long. */
int extras_check_pairs(const struct mcp_call *call, const json_t *arguments, const char *name,
		       struct err *e)
{
	json_t *pairs = json_object_get(arguments, name), *value;
	struct mcp_text_ref ref;
	const char *key;

	json_object_foreach(pairs, key, value)
		if (json_is_string(value) && (mcp_call_text(call, value, &ref) < 0 || !ref.text))
			return err_set(e, ERR_INVALID_ARGUMENT, 0, "a value in %s is too long",
				       name);
	return 0;
}

static int check_texts(const struct mcp_call *call, const json_t *arguments, struct err *e)
{
	static const char *const texts[] = {"name", "image", "level", "workdir", "network"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (json_is_string(json_object_get(arguments, texts[i])) &&
		    !mcp_text_arg(call, arguments, texts[i]))
			return err_set(e, ERR_INVALID_ARGUMENT, 0,
				       "%s is too long, or has a NUL byte", texts[i]);
	int r = extras_check_pairs(call, arguments, "labels", e);
	return r < 0 ? r : extras_check_pairs(call, arguments, "env", e);
}

/* The network that ARGUMENTS choose; "" if they choose none. */
static int choose_network(struct tools *t, struct mcp_call *call, const json_t *arguments,
			  struct sandbox_choice *ret, struct err *e)
{
	const json_t *list = json_object_get(arguments, "domains");
	const char *network = mcp_text_arg(call, arguments, "network");
	const char *hosts[SANDBOX_HOSTS_MAX];
	size_t n = json_array_size(list);

	ret->text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(list, i);

		hosts[i] = json_string_value(item);
		if (!hosts[i] || strlen(hosts[i]) != json_string_length(item))
			return err_set(e, ERR_INVALID_ARGUMENT, 0, "domains[%zu] is not a text", i);
	}
	if (!network && n == 0)
		return 0;
	return manager_choose_network(t->config.manager, network ? network : "allowlist", hosts, n,
				      ret, e);
}

/* Without members that are null: leaving one out means the same. */
static json_t *given(const json_t *arguments)
{
	json_t *copy = json_copy((json_t *)(uintptr_t)arguments), *value;
	const char *key;
	void *tmp;

	json_object_foreach_safe(copy, tmp, key, value) {
		if (json_is_null(value))
			(void)json_object_del(copy, key);
	}
	/* People open ports to everybody, models do not. */
	(void)json_object_del(copy, sandbox_option_rows[SANDBOX_OPTION_PUBLIC].member);
	return copy; /* NULL without memory: then the loop has nothing to look at */
}

/* OPTIONS of RET are to be freed after success. */
static int choose(struct tools *t, struct mcp_call *call, const json_t *arguments, bool change,
		  struct choices *ret, struct err *e)
{
	int r = check_texts(call, arguments, e);

	r = r < 0 ? r : choose_network(t, call, arguments, &ret->network, e);
	if (r < 0)
		return r;
	json_t *members = given(arguments);
	r = members ? sandbox_options_read(members, change, &ret->options, e)
		    : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the arguments");
	json_decref(members);
	return r;
}

/* ---- a new sandbox, or a changed one ---- */

static json_t *describe(struct tools *t, const struct sandbox *s, const char *status)
{
	const char *name = sandbox_name(s);
	json_t *chosen = sandbox_options_json(sandbox_options(s));
	json_t *object = json_pack("{s:s, s:s, s:s}", "session_id", sandbox_id(s), "kind",
				   sandbox_is_stored(s) ? "stored" : "session", "status", status);

	if (object && *name &&
	    json_object_set_new(object, "name", tools_json_bytes(name, strlen(name))) < 0) {
		json_decref(object);
		object = NULL;
	}
	if (object && (!chosen || json_object_update_missing(object, chosen) < 0 ||
		       extras_add_network(object, t, s) < 0)) {
		json_decref(object);
		object = NULL;
	}
	json_decref(chosen);
	return object;
}

static void on_created(struct sandbox *s, const struct err *e, void *user)
{
	struct tool_call *c = user;

	if (e)
		extras_fail_open(c->tools, c->call, e);
	else
		extras_finish(c->call, describe(c->tools, s, "created"));
	tool_call_free(c);
}

static void on_changed(const struct err *e, void *user)
{
	struct tool_call *c = user;

	if (e)
		extras_fail_err(c->call, e);
	else
		extras_finish(c->call, describe(c->tools, c->sandbox, "changed"));
	tool_call_free(c);
}

static void change(struct tools *t, struct mcp_call *call, const json_t *arguments,
		   struct sandbox *s)
{
	static const char *const fixed[] = {"network", "domains"};
	struct choices c = {0};
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		if (json_object_get(arguments, fixed[i]) &&
		    !json_is_null(json_object_get(arguments, fixed[i]))) {
			extras_fail(call, "invalid_argument",
				    "Make a new one: leave session_id out, or give another name.",
				    "%s of the sandbox %s cannot be changed", fixed[i],
				    sandbox_id(s));
			return;
		}
	if (choose(t, call, arguments, true, &c, &e) < 0) {
		extras_fail_err(call, &e);
		return;
	}
	struct tool_call *later = tool_call_new(t, call, s, sizeof(*later));
	if (later) {
		const int r = sandbox_change(s, &c.options, on_changed, later, &e);
		if (r <= 0)
			on_changed(r < 0 ? &e : NULL, later);
	}
	sandbox_options_done(&c.options);
}

static void create(struct tools *t, struct mcp_call *call, const json_t *arguments, const char *id)
{
	struct manager *m = t->config.manager;
	const char *owner = mcp_call_principal(call);
	struct choices chosen = {.persistent = args_bool(arguments, "persistent", false)};
	struct err e = ERR_INIT;

	if (chosen.persistent && *id) {
		extras_fail(call, "invalid_argument",
			    "Leave session_id out: the answer has the id of the new one. `name` is "
			    "for people.",
			    "A stored sandbox gets its id from the server");
		return;
	}
	if (choose(t, call, arguments, false, &chosen, &e) < 0) {
		extras_fail_err(call, &e);
		return;
	}
	struct tool_call *c = tool_call_new(t, call, NULL, sizeof(*c));
	if (c && chosen.persistent)
		manager_create(m, owner, NULL, &chosen.network, &chosen.options, on_created, c);
	else if (c)
		manager_open_new(m, owner, *id ? id : NULL, &chosen.network, &chosen.options,
				 on_created, c);
	sandbox_options_done(&chosen.options);
}

/* ---- a copy ---- */

static void on_copied(const struct fork_result *f, const struct err *e, void *user)
{
	struct tool_call *c = user;

	if (e)
		extras_fail_open(c->tools, c->call, e);
	else
		extras_finish(c->call,
			      json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "session_id",
					sandbox_id(f->sandbox), "kind", "session", "copy_of",
					sandbox_id(c->sandbox), "files", (json_int_t)f->files,
					"bytes", (json_int_t)f->bytes, "skipped",
					(json_int_t)f->skipped));
	tool_call_free(c);
}

static void copy(struct tools *t, struct mcp_call *call, const json_t *arguments, const char *id)
{
	struct err e = ERR_INIT;
	json_t *members = given(arguments);
	const size_t n = json_object_size(members);

	json_decref(members);
	if (n > (*id ? 2u : 1u)) {
		extras_fail(call, "invalid_argument",
			    "Give copy_of and nothing else but session_id: the copy has the limits "
			    "and the network of its original.",
			    "copy_of cannot be combined with other choices");
		return;
	}
	struct sandbox *s = extras_named_session(t, call, arguments, "copy_of");
	struct tool_call *c = s ? tool_call_new(t, call, s, sizeof(*c)) : NULL;
	if (!c || sandbox_fork(s, *id ? id : NULL, on_copied, c, &e) == 0)
		return;
	extras_fail_err(call, &e);
	tool_call_free(c);
}

static void fail_activation(struct mcp_call *call, const char *id UNUSED, const struct err *e)
{
	extras_fail_err(call, e);
}

void extras_create(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	char id[SANDBOX_ID_MAX + 1];

	if (!extras_session_id(call, arguments, true, id))
		return;
	if (json_is_string(json_object_get(arguments, "copy_of"))) {
		copy(t, call, arguments, id);
		return;
	}
	struct sandbox *s =
	    *id ? manager_find(t->config.manager, mcp_call_principal(call), id) : NULL;
	if (s)
		change(t, call, arguments, s);
	else if (!*id || !tools_activate(t, call, id, fail_activation))
		create(t, call, arguments, id);
}
