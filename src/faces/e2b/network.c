/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane: what a sandbox may reach. The server knows hosts, not blocks of addresses. */
#include "faces/e2b/face.h"

#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

int e2b_refuse_member(struct err *e, const char *member, const char *why)
{
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "%s: %s", member, why);
	return err_set_member(e, member);
}

bool e2b_is_empty(const json_t *v)
{
	return !v || json_is_null(v) || json_is_false(v) ||
	       (json_is_array(v) && json_array_size(v) == 0) ||
	       (json_is_object(v) && json_object_size(v) == 0);
}

/* Nothing that was asked for is left out silently. */
static int check_offer(const json_t *network, struct err *e)
{
	static const char *const members[] = {"egressProxy", "dnsServers", "httpsPorts", "rules"};

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (!e2b_is_empty(json_object_get(network, members[i])))
			return e2b_refuse_member(e, members[i], E2B_NOT_OFFERED);
	return 0;
}

/* A wish for a closed network that is not understood must not become an open one. */
static int check_types(const json_t *network, const json_t *internet, struct err *e)
{
	static const char *const lists[] = {"allowOut", "denyOut"};

	if (internet && !json_is_null(internet) && !json_is_boolean(internet))
		return e2b_refuse_member(e, "allow_internet_access", "true or false");
	if (network && !json_is_null(network) && !json_is_object(network))
		return e2b_refuse_member(e, "network", "an object");
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const json_t *v = json_object_get(network, lists[i]);

		if (v && !json_is_null(v) && !json_is_array(v))
			return e2b_refuse_member(e, lists[i], "a list of texts");
	}
	return 0;
}

int e2b_read_private(const struct e2b *f, const json_t *network, bool *ret, struct err *e)
{
	static const char member[] = "allowPublicTraffic";
	const json_t *v = json_object_get(network, member);

	*ret = json_is_false(v);
	if (v && !json_is_null(v) && !json_is_boolean(v))
		return e2b_refuse_member(e, member, "true or false");
	if (json_is_true(v) && manager_option_max(f->config.manager, SANDBOX_OPTION_PUBLIC) == 0)
		return e2b_refuse_member(e, member,
					 "this server has no public ports; the operator can permit "
					 "them with SANDBOX_PUBLIC_PORTS");
	return 0;
}

/* It becomes a line of a request's head. */
int e2b_read_host(const json_t *network, char *ret, struct err *e)
{
	static const char member[] = "maskRequestHost";
	const json_t *v = json_object_get(network, member);
	const char *s = json_string_value(v);

	ret[0] = '\0';
	if (!v || json_is_null(v))
		return 0;
	if (!s || text_copy(ret, E2B_HOST_SIZE, s) < 0 || strlen(s) != json_string_length(v))
		return e2b_refuse_member(e, member, "a name of a host, at most 255 bytes");
	while (*s) {
		const bool port = strncmp(s, E2B_PORT_WORD, strlen(E2B_PORT_WORD)) == 0;

		if (!port && !isalnum((unsigned char)*s) && !strchr("-._:[]", *s))
			return e2b_refuse_member(e, member,
						 "a host with letters, digits and - . _ : alone, "
						 "and " E2B_PORT_WORD " for the port");
		s += port ? strlen(E2B_PORT_WORD) : 1;
	}
	return 0;
}

int e2b_choose_network(const struct e2b *f, const json_t *network, const json_t *internet,
		       struct sandbox_choice *ret, struct err *e)
{
	const json_t *allow = json_object_get(network, "allowOut"), *v;
	const json_t *deny = json_object_get(network, "denyOut");
	const char *hosts[SANDBOX_HOSTS_MAX];
	size_t i, n = 0;
	bool none = json_is_false(internet);

	ret->text[0] = '\0';
	if (check_types(network, internet, e) < 0 || check_offer(network, e) < 0)
		return -EINVAL;
	json_array_foreach(deny, i, v) {
		const char *what = json_string_value(v);

		if (!what || !streq(what, E2B_EVERYTHING))
			return e2b_refuse_member(e, "denyOut",
						 "this server can deny " E2B_EVERYTHING " only");
		none = true;
	}
	if (json_array_size(allow) > 0 && !none)
		return e2b_refuse_member(e, "allowOut", "it needs denyOut with " E2B_EVERYTHING);
	if (!none)
		return 0;
	json_array_foreach(allow, i, v) {
		if (n == ARRAY_SIZE(hosts) || !json_is_string(v))
			return e2b_refuse_member(e, "allowOut", "at most 32 names of hosts");
		hosts[n++] = json_string_value(v);
	}
	return manager_choose_network(f->config.manager, n > 0 ? "allowlist" : "none", hosts, n,
				      ret, e);
}

/* The body is the network as a whole: what it leaves out is chosen no longer. */
void e2b_update_network(struct e2b_call *c)
{
	struct e2b_sandbox *s = e2b_need(c);
	struct sandbox_choice choice;
	struct err e = ERR_INIT;

	if (!s)
		return;
	if (!s->sandbox) {
		e2b_refuse(c, ERR_SANDBOX_LOST, "the sandbox does not run");
		return;
	}
	static const char *const fixed[] = {"allowPublicTraffic", "maskRequestHost"};
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++) {
		if (!json_object_get(c->body, fixed[i]))
			continue;
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "%s: it is chosen when a sandbox is made",
			   fixed[i]);
		return;
	}
	if (e2b_choose_network(c->face, c->body, json_object_get(c->body, "allow_internet_access"),
			       &choice, &e) < 0 ||
	    sandbox_change_network(s->sandbox, &choice, &e) < 0)
		e2b_fail(c, &e);
	else
		e2b_reply(c, 204, NULL);
}
