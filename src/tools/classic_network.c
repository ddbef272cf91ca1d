/* SPDX-License-Identifier: Apache-2.0 */
/* create_sandbox of the profile `full`: the caller may choose the network, as far as the
 * operator permits. */
#include "tools/classic.h"
#include "tools/extras.h"

#include <string.h>

static void on_created(struct sandbox *s, const struct err *e, void *user)
{
	struct classic_call *c = user;
	json_t *object = e ? NULL : classic_created(c->tools, s);

	if (e)
		classic_finish_error(c->call, "%s", e->text);
	else if (object && (sandbox_choice(s)->text[0] == '\0' ||
			    extras_add_network(object, c->tools, s) == 0))
		classic_finish(c->call, object);
	else
		classic_finish(c->call, NULL);
	classic_call_free(c);
}

/* Gets the strings of LIST. -EINVAL if an item is not a string or holds a NUL byte. */
static int get_hosts(const json_t *list, const char **ret, size_t *ret_n, struct err *e)
{
	size_t n = json_array_size(list);

	if (n > SANDBOX_HOSTS_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "more than %u domains",
			       SANDBOX_HOSTS_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(list, i);

		ret[i] = json_string_value(item);
		if (!ret[i] || strlen(ret[i]) != json_string_length(item))
			return err_set(e, ERR_INVALID_ARGUMENT, 0, "a domain is not a text");
	}
	*ret_n = n;
	return 0;
}

static int choose(struct tools *t, struct mcp_call *call, const json_t *arguments,
		  struct sandbox_choice *ret, struct err *e)
{
	const char *hosts[SANDBOX_HOSTS_MAX];
	const char *network = classic_arg(call, arguments, "network");
	size_t n = 0;

	ret->text[0] = '\0';
	int r = get_hosts(json_object_get(arguments, "domains"), hosts, &n, e);
	if (r < 0 || (!network && n == 0 && !json_is_string(json_object_get(arguments, "network"))))
		return r;
	return manager_choose_network(t->config.manager, network ? network : "", hosts, n, ret, e);
}

/* Shape (b) with a code that programs can act on. */
static void finish_refused(struct mcp_call *call, const struct err *e)
{
	classic_finish(call, json_pack("{s:b, s:o, s:s, s:s}", "error", true, "message",
				       tools_json_bytes(e->text, strlen(e->text)), "code",
				       err_code_name(e->code), "hint", err_code_hint(e->code)));
}

void classic_create_chosen(struct mcp_call *call, json_t *arguments, void *user)
{
	struct tools *t = user;
	struct sandbox_choice network;
	struct err e = ERR_INIT;
	const char *name;

	if (!classic_get_name(call, arguments, &name))
		return;
	if (choose(t, call, arguments, &network, &e) < 0) {
		finish_refused(call, &e);
		return;
	}
	struct classic_call *c = classic_call_new(call, t, sizeof(*c));
	if (c)
		manager_create(t->config.manager, mcp_call_principal(call), name, &network, NULL,
			       on_created, c);
}
