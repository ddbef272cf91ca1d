/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane: what a sandbox may reach. */
#include "faces/e2b/face.h"

#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define ENTRY_SHOWN 100 /* bytes of an entry that is refused */

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
	static const struct {
		const char *member, *why;
	} refused[] = {
	    {"egressProxy",
	     "this server connects to hosts itself, through no proxy of a client; leave "
	     "egress_proxy out, or use your proxy in the sandbox as a host of allow_out"},
	    {"dnsServers",
	     "this server resolves the names of allow_out itself, and a sandbox reaches no "
	     "DNS server; leave dns_servers out, or give an empty list"},
	    {"rules",
	     "this server does not see what TLS encrypts, so it changes no headers; leave rules "
	     "out and send the headers from the sandbox, with envs for what they need"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (!e2b_is_empty(json_object_get(network, refused[i].member)))
			return e2b_refuse_member(e, refused[i].member, refused[i].why);
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

int e2b_read_https(const struct e2b *f, const json_t *network, struct e2b_sandbox *s, struct err *e)
{
	static const char member[] = "httpsPorts";
	const json_t *list = json_object_get(network, member), *v;
	size_t i;

	s->n_https = 0;
	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list) || json_array_size(list) > E2B_HTTPS_MAX)
		return e2b_refuse_member(e, member, "a list of at most 32 ports");
	if (json_array_size(list) > 0 && !f->config.port_tls)
		return e2b_refuse_member(
		    e, member,
		    "this server has no GnuTLS, by which it would speak TLS to "
		    "servers in a sandbox; its operator can install libgnutls30 "
		    "and restart it");
	json_array_foreach(list, i, v) {
		const json_int_t port = json_is_integer(v) ? json_integer_value(v) : 0;

		if (port < 1 || port > 65535)
			return e2b_refuse_member(e, member, "a port is a number from 1 to 65535");
		if (port == E2B_ENVD_PORT || port == E2B_CODE_PORT)
			return e2b_refuse_member(e, member,
						 "this server itself is at 49983 and 49999");
		s->https[s->n_https++] = (uint16_t)port;
	}
	return 0;
}

/* The rules of a body, as manager_choose_network() takes them. */
struct rules {
	const char *entries[SANDBOX_HOSTS_MAX + SANDBOX_DENIED_MAX];
	char denied[SANDBOX_DENIED_MAX][EGRESS_GUARD_SIZE];
	size_t n, n_denied;
	bool closed; /* everything is denied */
};

static int refuse_entry(struct err *e, const char *member, const json_t *v, const char *why)
{
	const char *s = json_string_value(v);
	char text[ENTRY_SHOWN + 100];

	(void)snprintf(text, sizeof(text), "'%.*s' %s", ENTRY_SHOWN, s ? s : "", why);
	return e2b_refuse_member(e, member, text);
}

static int read_denied(const json_t *list, struct rules *ret, struct err *e)
{
	struct err ignored = ERR_INIT;
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v) {
		const char *s = json_string_value(v);
		char block[EGRESS_BLOCK_SIZE];

		if (!s || strlen(s) != json_string_length(v) ||
		    egress_block_entry(s, block, &ignored) < 0)
			return refuse_entry(e, "denyOut", v,
					    "is no address and no block of addresses, such as "
					    "8.8.8.8 or 8.8.8.0/24; names cannot be denied");
		if (streq(block, E2B_EVERYTHING)) {
			ret->closed = true;
			continue;
		}
		if (ret->n_denied == ARRAY_SIZE(ret->denied))
			return e2b_refuse_member(e, "denyOut", "at most 32 blocks of addresses");
		(void)snprintf(ret->denied[ret->n_denied++], EGRESS_GUARD_SIZE, "!%s", block);
	}
	return 0;
}

/* E2B knows names only where everything else is denied. */
static int read_allowed(const json_t *list, struct rules *ret, struct err *e)
{
	struct err ignored = ERR_INIT;
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v) {
		const char *s = json_string_value(v);
		char block[EGRESS_BLOCK_SIZE];

		if (!s || strlen(s) != json_string_length(v) || s[0] == '!')
			return refuse_entry(e, "allowOut", v,
					    "is no host, no address and no block of addresses");
		if (!ret->closed && egress_block_entry(s, block, &ignored) < 0)
			return refuse_entry(
			    e, "allowOut", v,
			    "is a name, and that needs denyOut with " E2B_EVERYTHING);
		if (i == SANDBOX_HOSTS_MAX)
			return e2b_refuse_member(e, "allowOut",
						 "at most 32 hosts, addresses and blocks of them");
		ret->entries[ret->n++] = s;
	}
	return 0;
}

int e2b_choose_network(const struct e2b *f, const json_t *network, const json_t *internet,
		       struct sandbox_choice *ret, struct err *e)
{
	struct rules rules = {.closed = json_is_false(internet)};

	ret->text[0] = '\0';
	if (check_types(network, internet, e) < 0 || check_offer(network, e) < 0 ||
	    read_denied(json_object_get(network, "denyOut"), &rules, e) < 0 ||
	    read_allowed(json_object_get(network, "allowOut"), &rules, e) < 0)
		return -EINVAL;
	const char *kind = !rules.closed ? NULL : rules.n > 0 ? "allowlist" : "none";
	for (size_t i = 0; i < rules.n_denied && (!kind || rules.n > 0); i++)
		rules.entries[rules.n++] = rules.denied[i];
	if (!kind && rules.n == 0)
		return 0;
	return manager_choose_network(f->config.manager, kind, rules.entries, rules.n, ret, e);
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
	static const char *const fixed[] = {"allowPublicTraffic", "maskRequestHost", "httpsPorts"};
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++) {
		const json_t *v = json_object_get(c->body, fixed[i]);

		if (!v || (json_is_array(v) && json_array_size(v) == 0))
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
