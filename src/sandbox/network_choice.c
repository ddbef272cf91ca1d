/* SPDX-License-Identifier: Apache-2.0 */
/* The network that the creator of a sandbox chooses. It never permits more than the operator does:
 * this is checked at creation and again at each activation. */
#include "base/buf.h"
#include "base/text.h"
#include "sandbox/manager.h"

#include <string.h>

/* Hosts in a list are separated by these characters, so a host may not contain one. */
#define BETWEEN " \t\r\n,"

static int not_permitted(struct err *e, enum egress_kind kind)
{
	return err_set(e, ERR_NETWORK_NOT_PERMITTED, 0,
		       "The network '%s' is wider than this server permits (sandbox.network_max, "
		       "SANDBOX_NETWORK_MAX)",
		       egress_kind_name(kind));
}

static int host_not_permitted(struct err *e, const char *host)
{
	return err_set(e, ERR_NETWORK_NOT_PERMITTED, 0,
		       "The host '%.*s' is not among those that this server permits "
		       "(sandbox.network_allow, SANDBOX_NETWORK_ALLOW)",
		       EGRESS_HOST_MAX, host);
}

static int add_host(struct egress_policy *p, const struct egress_policy *widest, const char *host,
		    struct err *e)
{
	if (*host == '\0' || host[strcspn(host, BETWEEN)] != '\0')
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "'%.*s' is not one host",
			       EGRESS_HOST_MAX, host);
	int r = egress_policy_add_within(p, widest, host, false, e);
	return r == -EPERM ? host_not_permitted(e, host) : r;
}

static int write_choice(struct sandbox_choice *ret, enum egress_kind kind,
			const struct egress_policy *p)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(sizeof(ret->text));
	char host[EGRESS_RULE_SIZE];
	int r = buf_add_str(&b, egress_kind_name(kind));

	for (size_t i = 0; r == 0 && p && i < egress_policy_count(p); i++) {
		egress_policy_entry(p, i, host);
		r = buf_printf(&b, " %s", host);
	}
	return r < 0 ? r : text_copy(ret->text, sizeof(ret->text), buf_str(&b));
}

/* The hosts, each checked against the widest list. */
static int choose_hosts(const struct manager *m, const char *const *hosts, size_t n,
			struct sandbox_choice *ret, struct err *e)
{
	const struct egress_policy *widest = m->config.network_may[EGRESS_ALLOWLIST];

	if (n > SANDBOX_HOSTS_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "more than %u hosts", SANDBOX_HOSTS_MAX);
	if (!widest && n > 0)
		return not_permitted(e, EGRESS_ALLOWLIST);
	struct egress_policy *p = egress_policy_new(EGRESS_ALLOWLIST);
	int r = p ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_host(p, widest, hosts[i], e);
	if (r == 0)
		r = write_choice(ret, EGRESS_ALLOWLIST, p);
	if (r < 0 && e->code == ERR_NONE)
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a list of hosts");
	(void)egress_policy_unref(p);
	return r;
}

int manager_choose_network(const struct manager *m, const char *kind, const char *const *hosts,
			   size_t n, struct sandbox_choice *ret, struct err *e)
{
	enum egress_kind k;

	if (!egress_kind_parse(kind, &k))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "'%.20s' is not none, packages, allowlist or open", kind);
	if (k == EGRESS_ALLOWLIST)
		return choose_hosts(m, hosts, n, ret, e);
	if (n > 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "hosts are of the network 'allowlist' alone");
	if (k != EGRESS_NONE && !m->config.network_may[k])
		return not_permitted(e, k);
	return write_choice(ret, k, NULL);
}

/* ---- the policy of a choice ---- */

static struct egress_policy *list_of(const struct manager *m, const char *hosts)
{
	const struct egress_policy *widest = m->config.network_may[EGRESS_ALLOWLIST];
	struct egress_policy *p = egress_policy_new(EGRESS_ALLOWLIST);
	struct err ignored = ERR_INIT;

	/* A damaged record may contain anything; rules that are not permitted are left out. */
	if (p && widest)
		(void)!egress_policy_add_within(p, widest, hosts, true, &ignored);
	return p;
}

int manager_network_policy(const struct manager *m, const struct sandbox_choice *network,
			   struct egress_policy **ret)
{
	char word[sizeof("allowlist")] = "";
	enum egress_kind kind = EGRESS_NONE;

	*ret = NULL;
	if (!network || network->text[0] == '\0') {
		*ret = m->config.network ? egress_policy_ref(m->config.network) : NULL;
		return 0;
	}
	size_t len = strcspn(network->text, " ");
	if (len < sizeof(word))
		memcpy(word, network->text, len);
	if (!egress_kind_parse(word, &kind))
		kind = EGRESS_NONE;
	if (kind == EGRESS_ALLOWLIST)
		*ret = list_of(m, network->text + len);
	else if (kind != EGRESS_NONE && m->config.network_may[kind])
		*ret = egress_policy_ref(m->config.network_may[kind]);
	else
		*ret = egress_policy_new(EGRESS_NONE);
	return *ret ? 0 : -ENOMEM;
}

const char *manager_network(const struct manager *m, const struct sandbox_choice *network,
			    sandbox_host_fn fn, void *user)
{
	struct egress_policy *p = NULL;
	char host[EGRESS_RULE_SIZE];
	enum egress_kind kind = EGRESS_NONE;
	/* Clients may see the hosts that they chose, but not the operator's own list. */
	bool chosen = network && network->text[0] != '\0';

	if (manager_network_policy(m, network, &p) == 0 && p)
		kind = egress_policy_kind(p);
	for (size_t i = 0; fn && chosen && kind == EGRESS_ALLOWLIST && i < egress_policy_count(p);
	     i++) {
		egress_policy_entry(p, i, host);
		fn(host, user);
	}
	(void)egress_policy_unref(p);
	return egress_kind_name(kind);
}

/* ---- the choice of a sandbox ---- */

int sandbox_set_choice(struct sandbox *s, const struct sandbox_choice *network, struct err *e)
{
	const struct manager *m = s->manager;

	if (manager_network_policy(m, network, &s->base) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a new session");
	if (!network || network->text[0] == '\0')
		return 0;
	s->choice = malloc(sizeof(*s->choice));
	if (!s->choice)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a new session");
	*s->choice = *network;
	return 0;
}

const struct sandbox_choice *sandbox_choice(const struct sandbox *s)
{
	static const struct sandbox_choice none = {""};

	return s->choice ? s->choice : &none;
}
