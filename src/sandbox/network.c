/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a sandbox: its gate, its policy, and the hosts that a person has allowed since. */
#include "base/log.h"
#include "base/text.h"
#include "sandbox/manager.h"

#include <stdlib.h>
#include <string.h>

bool manager_has_network(const struct manager *m, const struct egress_policy *policy)
{
	return policy && (m->config.network_ask || egress_policy_kind(policy) != EGRESS_NONE);
}

bool sandbox_has_way_out(const struct sandbox *s)
{
	const struct manager_config *c = &s->manager->config;
	bool permitted = manager_has_network(s->manager, c->network);

	for (size_t k = 0; k < ARRAY_SIZE(c->network_may); k++)
		permitted = permitted || c->network_may[k];
	return manager_has_network(s->manager, s->base) || (permitted && s->options.way_out);
}

/* If the gate cannot be opened, connections to the proxy get no answer and the sandbox has no
 * network. */
void sandbox_open_gate(struct sandbox *s)
{
	const struct manager *m = s->manager;
	char label[EGRESS_LABEL_MAX + 1];
	struct err e = ERR_INIT;

	(void)snprintf(label, sizeof(label), "%s%s%s", s->owner, s->owner[0] ? "/" : "", s->id);
	int fd = sandbox_has_way_out(s) ? engine_take_egress(s->handle) : -1;

	if (fd >= 0 &&
	    egress_open_gate(m->config.egress, fd, label, s->base, NULL, &s->gate, &e) < 0)
		LOG_ERROR("egress_failed", LOG_S("session_id", s->id), LOG_S("error", e.text));
}

void sandbox_close_gate(struct sandbox *s)
{
	s->gate = egress_close_gate(s->gate);
	s->network = egress_policy_unref(s->network);
	free(s->domains);
	s->domains = NULL;
	s->n_domains = 0;
}

/* The policy in force now. */
static const struct egress_policy *policy_of(const struct sandbox *s)
{
	return s->network ? s->network : s->base;
}

/* ---- the environment of runs ---- */

#define PROXY      "http://127.0.0.1:3128"
#define NO_PROXY   "localhost,127.0.0.1,::1"
#define PYPI_HOST  "pypi.org"
#define HTTPS_PORT 443u

/* Upper and lower case, because programs differ. PIP_PROXY makes pip use the proxy even for an
 * index at a loopback address, which NO_PROXY would exclude: it means the host's loopback, not the
 * sandbox's. pip installs into the sandbox's home, which is in memory, so it must not keep a second
 * copy in a cache. */
static const char *const with_a_proxy[] = {
    "HTTP_PROXY=" PROXY,
    "HTTPS_PROXY=" PROXY,
    "http_proxy=" PROXY,
    "https_proxy=" PROXY,
    "NO_PROXY=" NO_PROXY,
    "no_proxy=" NO_PROXY,
    "PIP_PROXY=" PROXY,
    "PIP_BREAK_SYSTEM_PACKAGES=1",
    "PIP_DISABLE_PIP_VERSION_CHECK=1",
    "PIP_NO_CACHE_DIR=1",
    "PIP_RETRIES=5",
};
/* There is no index that pip could reach. With this variable the pip of the skeleton
 * (engine/maker/native/monitor/skeleton.c) tells the user to call the package tool. */
static const char *const by_the_tool[] = {"CAISSON_PACKAGES=tool", NULL};

static const char *const *index_env(const struct sandbox *s)
{
	static const char *const nothing[] = {NULL};
	const struct sandbox_index *index = &s->manager->config.index;
	const struct egress_policy *p = policy_of(s);

	if (index->host && index->host[0] && egress_policy_allows(p, index->host, index->port))
		return index->env;
	return egress_policy_allows(p, PYPI_HOST, HTTPS_PORT) ? nothing : by_the_tool;
}

const char *const *sandbox_network_env(const struct sandbox *s,
				       const char *ret[SANDBOX_NETWORK_ENV_MAX])
{
	size_t n = ARRAY_SIZE(with_a_proxy);

	/* Without a host to reach, a proxy would only make errors harder to understand, unless one may be asked for. */
	if (!s->gate ||
	    (!s->manager->config.network_ask && egress_policy_kind(policy_of(s)) == EGRESS_NONE))
		return NULL;
	memcpy(ret, with_a_proxy, sizeof(with_a_proxy));
	for (const char *const *more = index_env(s); *more && n < SANDBOX_NETWORK_ENV_MAX - 1;
	     more++)
		ret[n++] = *more;
	ret[n] = NULL;
	return ret;
}

const char *sandbox_network(const struct sandbox *s)
{
	return egress_kind_name(s->gate ? egress_policy_kind(policy_of(s)) : EGRESS_NONE);
}

size_t sandbox_n_domains(const struct sandbox *s)
{
	return s->n_domains;
}

const char *sandbox_domain(const struct sandbox *s, size_t i)
{
	return s->domains[i];
}

int sandbox_check_domain(const struct sandbox *s, const char *domain, struct err *e)
{
	if (!s->manager->config.network_ask || !s->gate) {
		(void)err_set(e, ERR_FORBIDDEN, 0, "Sandbox %s has no way out", s->id);
		return -EPERM;
	}
	if (egress_policy_kind(s->base) == EGRESS_OPEN && egress_policy_n_guards(s->base) == 0) {
		(void)err_set(e, ERR_ALREADY_EXISTS, 0,
			      "Every public host can be reached already, at ports 80 and 443");
		return -ENOTSUP;
	}
	for (size_t i = 0; i < s->n_domains; i++)
		if (streq(s->domains[i], domain)) {
			(void)err_set(e, ERR_ALREADY_EXISTS, 0, "%s is allowed already", domain);
			return -EEXIST;
		}
	if (s->n_domains < SANDBOX_DOMAINS_MAX)
		return 0;
	(void)err_set(e, ERR_QUOTA_EXCEEDED, 0,
		      "Sandbox %s has been allowed %u hosts, the most there may be", s->id,
		      SANDBOX_DOMAINS_MAX);
	return -EDQUOT;
}

int sandbox_allow_domain(struct sandbox *s, const char *domain, struct err *e)
{
	struct egress_policy *more = NULL;
	int r = sandbox_check_domain(s, domain, e);

	if (r < 0)
		return r;
	char(*domains)[EGRESS_ENTRY_SIZE] =
	    reallocarray(s->domains, s->n_domains + 1, sizeof(*domains));
	if (!domains)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "allowing a host");
	s->domains = domains;
	r = egress_policy_extend(policy_of(s), domain, &more, e);
	if (r < 0)
		return r;
	(void)snprintf(domains[s->n_domains++], EGRESS_ENTRY_SIZE, "%s", domain);
	egress_gate_set_policy(s->gate, more);
	(void)egress_policy_unref(s->network);
	s->network = more;
	return 0;
}

int sandbox_change_network(struct sandbox *s, const struct sandbox_choice *choice, struct err *e)
{
	struct egress_policy *policy = NULL;
	struct sandbox_choice *copy = malloc(sizeof(*copy));

	if (!copy || manager_network_policy(s->manager, choice, &policy) < 0 ||
	    (!policy && !(policy = egress_policy_new(EGRESS_NONE)))) {
		free(copy);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a network");
	}
	if (!s->gate && egress_policy_kind(policy) != EGRESS_NONE) {
		free(copy);
		(void)egress_policy_unref(policy);
		return err_set(e, ERR_FORBIDDEN, 0,
			       "Sandbox %s was made without a way out: make another one", s->id);
	}
	*copy = *choice;
	free(s->choice);
	s->choice = copy;
	s->network = egress_policy_unref(s->network);
	free(s->domains);
	s->domains = NULL;
	s->n_domains = 0;
	(void)egress_policy_unref(s->base);
	s->base = policy;
	if (s->gate)
		egress_gate_set_policy(s->gate, policy);
	return 0;
}
