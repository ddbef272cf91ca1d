/* SPDX-License-Identifier: Apache-2.0 */
/* The network that the creator of a sandbox chooses. It never permits more than the operator does:
 * this is checked at creation and again at each activation. */
#include "base/buf.h"
#include "base/text.h"
#include "sandbox/manager.h"

#include <string.h>

/* Hosts in a list are separated by these characters, so a host may not contain one. */
#define BETWEEN " \t\r\n,"

/* The word of a choice that is the operator's policy with exceptions. */
static const char by_default[] = "default";

static bool is_denial(const char *entry)
{
	return entry[0] == '!';
}

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

static int write_choice(struct sandbox_choice *ret, const char *word, const struct egress_policy *p,
			bool rules)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(sizeof(ret->text));
	char entry[EGRESS_RULE_SIZE];
	int r = buf_add_str(&b, word);

	for (size_t i = 0; r == 0 && rules && i < egress_policy_count(p); i++) {
		egress_policy_entry(p, i, entry);
		r = buf_printf(&b, " %s", entry);
	}
	for (size_t i = 0; r == 0 && p && i < egress_policy_n_guards(p); i++) {
		egress_policy_guard_text(p, i, entry);
		r = buf_printf(&b, " %s", entry);
	}
	return r < 0 ? r : text_copy(ret->text, sizeof(ret->text), buf_str(&b));
}

static int check_entries(const char *const *entries, size_t n, struct err *e)
{
	size_t denied = 0;

	for (size_t i = 0; i < n; i++) {
		if (entries[i][0] == '\0' || entries[i][strcspn(entries[i], BETWEEN)] != '\0')
			return err_set(e, ERR_INVALID_ARGUMENT, 0, "'%.*s' is not one host",
				       EGRESS_HOST_MAX, entries[i]);
		denied += is_denial(entries[i]);
	}
	if (denied > SANDBOX_DENIED_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "more than %u blocks that are denied",
			       SANDBOX_DENIED_MAX);
	if (n - denied > SANDBOX_HOSTS_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "more than %u hosts", SANDBOX_HOSTS_MAX);
	return 0;
}

/* A block that is denied, or an exception from those. */
static int add_exception(struct egress_policy *p, const char *entry, struct err *e)
{
	char block[EGRESS_BLOCK_SIZE];

	if (egress_block_entry(is_denial(entry) ? entry + 1 : entry, block, e) == 0)
		return egress_policy_guard(p, entry, e);
	if (is_denial(entry))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "'%.*s': only addresses and blocks of them can be denied",
			       EGRESS_HOST_MAX, entry);
	return err_set(e, ERR_INVALID_ARGUMENT, 0,
		       "'%.*s': hosts are of the network 'allowlist' alone; another one takes "
		       "addresses and blocks of them, and !BLOCK to deny one",
		       EGRESS_HOST_MAX, entry);
}

/* An entry of a list is checked against the widest list. */
static int add_entry(struct egress_policy *p, struct egress_policy *widest, const char *entry,
		     struct err *e)
{
	if (is_denial(entry))
		return add_exception(p, entry, e);
	if (!widest)
		return not_permitted(e, EGRESS_ALLOWLIST);
	int r = egress_policy_add_within(p, widest, entry, false, e);
	return r == -EPERM ? host_not_permitted(e, entry) : r;
}

static int choose_entries(const char *word, bool list, struct egress_policy *widest,
			  const char *const *entries, size_t n, struct sandbox_choice *ret,
			  struct err *e)
{
	struct egress_policy *p = egress_policy_new(EGRESS_ALLOWLIST);
	int r = p ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = list ? add_entry(p, widest, entries[i], e) : add_exception(p, entries[i], e);
	if (r == 0)
		r = write_choice(ret, word, p, list);
	if (r < 0 && e->code == ERR_NONE)
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a list of hosts");
	(void)egress_policy_unref(p);
	return r;
}

int manager_choose_network(const struct manager *m, const char *kind, const char *const *entries,
			   size_t n, struct sandbox_choice *ret, struct err *e)
{
	enum egress_kind k = EGRESS_NONE;

	if (kind && !egress_kind_parse(kind, &k))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "'%.20s' is not none, packages, allowlist or open", kind);
	if (n > 0 && kind && k == EGRESS_NONE)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "hosts are of the network 'allowlist' alone");
	if (kind && k != EGRESS_NONE && k != EGRESS_ALLOWLIST && !m->config.network_may[k])
		return not_permitted(e, k);
	if (check_entries(entries, n, e) < 0)
		return -EINVAL;
	return choose_entries(kind ? kind : by_default, k == EGRESS_ALLOWLIST,
			      m->config.network_may[EGRESS_ALLOWLIST], entries, n, ret, e);
}

/* ---- the policy of a choice ---- */

/* A damaged record may contain anything; rules that are not permitted are left out. */
static struct egress_policy *list_of(const struct manager *m, const char *entries)
{
	struct egress_policy *p = egress_policy_new(EGRESS_ALLOWLIST);
	struct egress_policy *widest = m->config.network_may[EGRESS_ALLOWLIST];
	const size_t rules = strcspn(entries, "!"); /* they come first */
	_cleanup_free_ char *hosts = strndup(entries, rules);
	struct err ignored = ERR_INIT;

	if (!hosts || !p)
		return egress_policy_unref(p);
	if (widest)
		(void)!egress_policy_add_within(p, widest, hosts, true, &ignored);
	(void)!egress_policy_guard(p, entries + rules, &ignored);
	return p;
}

/* A record with a denial that cannot be read permits nothing. */
static struct egress_policy *guarded(struct egress_policy *of, const char *entries)
{
	struct err ignored = ERR_INIT;

	if (!of)
		return egress_policy_new(EGRESS_NONE);
	if (*entries == '\0')
		return egress_policy_ref(of);
	struct egress_policy *p = egress_policy_copy(of);
	if (!p || egress_policy_guard(p, entries, &ignored) == 0)
		return p;
	(void)egress_policy_unref(p);
	return egress_policy_new(EGRESS_NONE);
}

/* The length of the word of a choice; *RET and *RET_DEFAULT say which it is. */
static size_t word_of(const struct sandbox_choice *network, enum egress_kind *ret,
		      bool *ret_default)
{
	char word[sizeof("allowlist")] = "";
	size_t len = strcspn(network->text, " ");

	if (len < sizeof(word))
		memcpy(word, network->text, len);
	*ret_default = streq(word, by_default);
	if (!egress_kind_parse(word, ret))
		*ret = EGRESS_NONE;
	return len;
}

bool sandbox_choice_is_closed(const struct sandbox_choice *network)
{
	enum egress_kind kind;
	bool is_default;

	if (network->text[0] == '\0')
		return false;
	(void)word_of(network, &kind, &is_default);
	return !is_default && (kind == EGRESS_NONE || kind == EGRESS_ALLOWLIST);
}

int manager_network_policy(const struct manager *m, const struct sandbox_choice *network,
			   struct egress_policy **ret)
{
	enum egress_kind kind;
	bool is_default;

	*ret = NULL;
	if (!network || network->text[0] == '\0') {
		*ret = m->config.network ? egress_policy_ref(m->config.network) : NULL;
		return 0;
	}
	const char *entries = network->text + word_of(network, &kind, &is_default);
	if (is_default)
		*ret = guarded(m->config.network, entries);
	else if (kind == EGRESS_ALLOWLIST)
		*ret = list_of(m, entries);
	else if (kind != EGRESS_NONE && m->config.network_may[kind])
		*ret = guarded(m->config.network_may[kind], entries);
	else
		*ret = egress_policy_new(EGRESS_NONE);
	return *ret ? 0 : -ENOMEM;
}

/* Clients may see what they chose, but not the operator's own list. */
static void tell_entries(const struct egress_policy *p, bool rules, sandbox_host_fn fn, void *user)
{
	char entry[EGRESS_RULE_SIZE];

	for (size_t i = 0; rules && i < egress_policy_count(p); i++) {
		egress_policy_entry(p, i, entry);
		fn(entry, user);
	}
	for (size_t i = 0; i < egress_policy_n_guards(p); i++) {
		egress_policy_guard_text(p, i, entry);
		fn(entry, user);
	}
}

const char *manager_network(const struct manager *m, const struct sandbox_choice *network,
			    sandbox_host_fn fn, void *user)
{
	struct egress_policy *p = NULL;
	enum egress_kind kind = EGRESS_NONE, chosen = EGRESS_NONE;
	bool is_default;

	if (manager_network_policy(m, network, &p) == 0 && p)
		kind = egress_policy_kind(p);
	if (fn && p && network && network->text[0] != '\0') {
		(void)word_of(network, &chosen, &is_default);
		tell_entries(p, chosen == EGRESS_ALLOWLIST, fn, user);
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
