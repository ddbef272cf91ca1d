/* SPDX-License-Identifier: Apache-2.0 */
#include "connect/entry.h"

#include "base/jsonio.h"
#include "base/text.h"

#include <string.h>

/* The keys that say how to connect, of all clients; those of the second list mean nothing for a URL, and some clients refuse
 * them there. */
static const char *const owned[] = {
    "type",         "source",           "command",      "args",
    "url",          "httpUrl",          "serverUrl",    "headers",
    "http_headers", "env_http_headers", "bearer_token", "bearer_token_env_var"};
static const char *const owned_by_url[] = {"env", "environment", "env_vars", "cwd", "envFile"};

static bool is_one_of(const char *const *list, size_t n, const char *key, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(list[i]) == len && memcmp(list[i], key, len) == 0)
			return true;
	return false;
}

bool entry_owns(const char *key, size_t len, const void *target)
{
	const struct connect_target *t = target;

	return is_one_of(owned, ARRAY_SIZE(owned), key, len) ||
	       (t->url && is_one_of(owned_by_url, ARRAY_SIZE(owned_by_url), key, len));
}

int connect_check(const struct client *c, const struct connect_target *t, struct err *e)
{
	if (t->url && !c->url_key)
		return err_set(e, ERR_USAGE, 0,
			       "%s takes no server by URL in its file; connect it without --url, "
			       "or use the bridge: caisson-mcp --url URL",
			       c->title);
	if (t->key_variable && !c->before && !t->key)
		return err_set(e, ERR_USAGE, 0,
			       "%s reads no variables, so the key itself is to be written, and %s "
			       "is not set here",
			       c->title, t->key_variable);
	return 0;
}

/* The value of the header with the key; a new reference or NULL. */
static json_t *authorization(const struct client *c, const struct connect_target *t)
{
	if (!c->before)
		return json_sprintf("Bearer %s", t->key);
	return json_sprintf("Bearer %s%s%s", c->before, t->key_variable, c->after);
}

static json_t *command_list(const struct connect_target *t, bool with_command)
{
	json_t *list = json_array();

	if (with_command && json_array_append_new(list, json_string(t->command)) < 0)
		return json_decref(list), NULL;
	for (size_t i = 0; t->args[i]; i++)
		if (json_array_append_new(list, json_string(t->args[i])) < 0)
			return json_decref(list), NULL;
	return list;
}

json_t *entry_json(const struct client *c, const struct connect_target *t, const json_t *old)
{
	json_t *entry = json_object();
	const char *type = t->url ? c->http_type : c->stdio_type;
	int r = entry ? 0 : -1;
	const char *key;
	json_t *value;

	if (r == 0 && type)
		r = json_object_set_new(entry, c->type_key, json_string(type));
	if (r == 0 && t->url)
		r = json_object_set_new(entry, c->url_key, json_string(t->url));
	if (r == 0 && t->url && t->key_variable)
		r = json_object_set_new(entry, "headers",
					json_pack("{s:o}", "Authorization", authorization(c, t)));
	if (r == 0 && !t->url && c->format == CLIENT_JSON_LIST) {
		r = json_object_set_new(entry, "command", command_list(t, true));
	} else if (r == 0 && !t->url) {
		r = json_object_set_new(entry, "command", json_string(t->command));
		r = r < 0 ? r : json_object_set_new(entry, "args", command_list(t, false));
	}
	json_object_foreach((json_t *)(uintptr_t)old, key, value)
		if (r == 0 && !entry_owns(key, strlen(key), t))
			r = json_object_set(entry, key, value);
	if (r < 0) {
		json_decref(entry);
		return NULL;
	}
	return entry;
}

/* S as a basic string of TOML, which is one of JSON, too. */
static int add_string(const char *s, struct buf *out)
{
	json_auto_t *value = json_string(s);

	return value ? jsonio_add(out, value, JSON_ENCODE_ANY) : -ENOMEM;
}

static int add_line(const char *key, const char *value, struct buf *out)
{
	int r = buf_printf(out, "%s = ", key);

	r = r < 0 ? r : add_string(value, out);
	return r < 0 ? r : buf_add_char(out, '\n');
}

int entry_toml(const struct connect_target *t, struct buf *out)
{
	int r;

	if (t->url) {
		r = add_line("url", t->url, out);
		return r < 0 || !t->key_variable
			   ? r
			   : add_line("bearer_token_env_var", t->key_variable, out);
	}
	r = add_line("command", t->command, out);
	r = r < 0 ? r : buf_add_str(out, "args = [");
	for (size_t i = 0; r == 0 && t->args[i]; i++) {
		r = i > 0 ? buf_add_str(out, ", ") : 0;
		r = r < 0 ? r : add_string(t->args[i], out);
	}
	return r < 0 ? r : buf_add_str(out, "]\n");
}
