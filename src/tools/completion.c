/* SPDX-License-Identifier: Apache-2.0 */
/* Completion of the arguments of prompts and of resource URIs: sessions, files, packages. */
#include "tools/common.h"

#include "base/rand.h"
#include "base/text.h"

#include <string.h>
#include <sys/stat.h>

#define VALUES_MAX   100 /* values in one answer; the protocol's limit */
#define NAMES_TTL_NS (10 * NS_PER_S)

/* The packages of the sandbox that was asked about last. A client asks with every key that is
 * pressed, and each look into a sandbox costs a process there. */
struct package_names {
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[SANDBOX_ID_MAX + 1];
	uint64_t taken_ns;
	json_t *list; /* owned, of strings; NULL = nothing is known */
	bool asking;  /* one look at a time, for all callers together */
};

void tools_free_names(struct tools *t)
{
	if (t->names)
		json_decref(t->names->list);
	free(t->names);
	t->names = NULL;
}

struct completion {
	struct tools *tools;
	struct mcp_call *call;
	struct sandbox *sandbox; /* reference, while its files are listed */
	char prefix[256];
	json_t *values;
	long long total;
};

static void offer(struct completion *c, const char *value)
{
	if (!text_starts_with(value, c->prefix) || !text_is_utf8(value, strlen(value)))
		return;
	c->total++;
	if (json_array_size(c->values) < VALUES_MAX)
		(void)json_array_append_new(c->values, json_string(value));
}

static void offer_sandbox(struct sandbox *s, void *user)
{
	offer(user, sandbox_id(s));
}

static void completion_end(struct completion *c)
{
	mcp_call_finish(c->call, mcp_completion_result(c->values, c->total, c->total > VALUES_MAX));
	(void)sandbox_unref(c->sandbox);
	free(c);
}

static void on_files(const struct engine_file *files, size_t n, bool more UNUSED,
		     const struct err *e, void *user)
{
	struct completion *c = user;

	for (size_t i = 0; !e && i < n; i++)
		if (S_ISREG(files[i].mode))
			offer(c, files[i].name);
	completion_end(c);
}

/* ---- packages ---- */

/* A name completes the last word of the text. */
static void offer_packages(struct completion *c)
{
	size_t at = strlen(c->prefix);
	char value[sizeof(c->prefix) + 128];
	size_t i;
	json_t *name;

	while (at > 0 && !strchr(" ,\n", c->prefix[at - 1]))
		at--;
	json_array_foreach(c->tools->names->list, i, name) {
		(void)snprintf(value, sizeof(value), "%.*s%.127s", (int)at, c->prefix,
			       json_string_value(name));
		offer(c, value);
	}
}

static void on_names(const struct package_row *rows, size_t n, const struct err *e, void *user)
{
	struct completion *c = user;
	struct package_names *names = c->tools->names;
	json_t *list = json_array();

	names->asking = false;
	for (size_t i = 0; !e && i < n; i++)
		(void)json_array_append_new(list, json_string(rows[i].name));
	json_decref(names->list);
	names->list = list;
	names->taken_ns = now_ns();
	(void)snprintf(names->owner, sizeof(names->owner), "%s", sandbox_owner(c->sandbox));
	(void)snprintf(names->id, sizeof(names->id), "%s", sandbox_id(c->sandbox));
	offer_packages(c);
	completion_end(c);
}

/* True: the answer comes later. */
static bool complete_packages(struct completion *c)
{
	struct tools *t = c->tools;
	struct err e = ERR_INIT;

	if (!t->names)
		t->names = calloc(1, sizeof(*t->names));
	if (!c->sandbox || !t->names || !t->config.packages)
		return false;
	struct package_names *names = t->names;
	if (names->list && streq(names->id, sandbox_id(c->sandbox)) &&
	    streq(names->owner, sandbox_owner(c->sandbox)) &&
	    (names->asking || now_ns() - names->taken_ns < NAMES_TTL_NS)) {
		offer_packages(c);
		return false;
	}
	if (names->asking)
		return false;
	names->asking = packages_list(t->config.packages, c->sandbox, true, on_names, c, &e) == 0;
	return names->asking;
}

static void any_sandbox(struct sandbox *s, void *user)
{
	struct sandbox **found = user;

	if (!*found || sandbox_idle_ns(s) < sandbox_idle_ns(*found))
		*found = s;
}

/* The session that the other arguments name, otherwise the one used last. */
static struct sandbox *session_of(struct tools *t, struct mcp_call *call, const json_t *context)
{
	const char *owner = mcp_call_principal(call);
	const char *id = json_string_value(json_object_get(context, "session_id"));
	struct sandbox *found = NULL;

	if (!id)
		id = json_string_value(json_object_get(context, "id"));
	if (id)
		return manager_find(t->config.manager, owner, id);
	manager_each(t->config.manager, owner, any_sandbox, &found);
	return found;
}

void tools_complete(struct mcp_call *call, const struct mcp_completion *what, void *user)
{
	static const char *const formats[] = {"md", "pdf", "xlsx"};
	struct tools *t = user;
	struct err e = ERR_INIT;
	struct completion *c = calloc(1, sizeof(*c));

	if (!c || text_copy(c->prefix, sizeof(c->prefix), what->value) < 0) {
		free(c);
		mcp_call_finish(call, mcp_completion_result(json_array(), 0, false));
		return;
	}
	c->tools = t;
	c->call = call;
	c->values = json_array();
	if (streq(what->argument, "session_id") || streq(what->argument, "id")) {
		manager_each(t->config.manager, mcp_call_principal(call), offer_sandbox, c);
	} else if (streq(what->argument, "format")) {
		for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
			offer(c, formats[i]);
	} else if (streq(what->argument, "file") || streq(what->argument, "path")) {
		struct sandbox *s = session_of(t, call, what->context);
		c->sandbox = s ? sandbox_ref(s) : NULL;
		if (s && sandbox_peek(s, "", on_files, c, &e) == 0)
			return;
	} else if (streq(what->argument, "packages")) {
		struct sandbox *s = session_of(t, call, what->context);
		c->sandbox = s ? sandbox_ref(s) : NULL;
		if (complete_packages(c))
			return;
	}
	completion_end(c);
}
