/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/policy.h"

#include "base/text.h"
#include "base/walls.h"
#include "egress/rule.h"

#define HTTP_PORT  80u
#define HTTPS_PORT 443u

struct guard {
	struct egress_block block;
	bool denied; /* false: an exception from those that are */
};

struct egress_policy {
	enum egress_kind kind;
	unsigned refs;
	bool special;
	struct egress_rule *rules; /* owned */
	size_t n;
	char *index_path;     /* owned; of a package index, without the last slash; NULL = none */
	size_t n_more;        /* the last so many rules were added for this sandbox: no index */
	struct guard *guards; /* owned */
	size_t n_guards;
	struct egress_policy
	    *widest; /* reference: the rules are chosen from it; NULL: they are not */
};

static const char *const kind_names[EGRESS_KINDS] = {
    [EGRESS_NONE] = "none",
    [EGRESS_PACKAGES] = "packages",
    [EGRESS_ALLOWLIST] = "allowlist",
    [EGRESS_OPEN] = "open",
};

const char *egress_kind_name(enum egress_kind kind)
{
	return kind_names[kind];
}

bool egress_kind_parse(const char *word, enum egress_kind *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(kind_names); i++) {
		if (!streq(word, kind_names[i]))
			continue;
		*ret = (enum egress_kind)i;
		return true;
	}
	return false;
}

struct egress_policy *egress_policy_new(enum egress_kind kind)
{
	struct egress_policy *p = calloc(1, sizeof(*p));

	if (p) {
		p->kind = kind;
		p->refs = 1;
	}
	return p;
}

struct egress_policy *egress_policy_ref(struct egress_policy *p)
{
	p->refs++;
	return p;
}

struct egress_policy *egress_policy_unref(struct egress_policy *p)
{
	if (!p || --p->refs > 0)
		return NULL;
	(void)egress_policy_unref(p->widest);
	free(p->rules);
	free(p->guards);
	free(p->index_path);
	free(p);
	return NULL;
}

enum egress_kind egress_policy_kind(const struct egress_policy *p)
{
	return p->kind == EGRESS_OPEN || p->n > 0 ? p->kind : EGRESS_NONE;
}

size_t egress_policy_count(const struct egress_policy *p)
{
	return p->n;
}

void egress_policy_allow_special(struct egress_policy *p)
{
	p->special = true;
}

static int add_rule(struct egress_policy *p, const struct egress_rule *rule)
{
	if (p->n == EGRESS_RULES_MAX)
		return -ENOBUFS;
	struct egress_rule *more = reallocarray(p->rules, p->n + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	p->rules = more;
	p->rules[p->n++] = *rule;
	return 0;
}

static int bad_entry(struct err *e, int r, const char *s, size_t len)
{
	if (r == -ENOMEM)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a list of hosts");
	if (r == -ENOBUFS)
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "more than %u hosts", EGRESS_RULES_MAX);
	else if (r == -EADDRNOTAVAIL)
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
			      "'%.*s' has no public address, and no other can be reached",
			      (int)MIN(len, (size_t)100), s);
	else
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
			      "'%.*s' is not host, host:port or *.host with a name of at least two "
			      "parts, and no address or block of them (8.8.8.8, 8.8.8.0/24)",
			      (int)MIN(len, (size_t)100), s);
	return -EINVAL;
}

static const char between[] = " \t\r\n,";

int egress_policy_add(struct egress_policy *p, const char *list, struct err *e)
{
	size_t before = p->n;

	for (const char *s = list + strspn(list, between); *s != '\0'; s += strspn(s, between)) {
		struct egress_rule rule;
		size_t len = strcspn(s, between);
		int r = egress_rule_parse(s, len, &rule);

		r = r < 0 ? r : add_rule(p, &rule);
		if (r < 0) {
			p->n = before;
			return bad_entry(e, r, s, len);
		}
		s += len;
	}
	return 0;
}

int egress_entry_parse(const char *entry, char *ret, struct err *e)
{
	struct egress_rule rule;
	size_t len = strlen(entry);

	if (egress_rule_parse(entry, len, &rule) < 0 || rule.below || rule.is_block)
		return bad_entry(e, -EINVAL, entry, len);
	(void)snprintf(ret, EGRESS_ENTRY_SIZE, rule.port ? "%s:%u" : "%s", rule.host, rule.port);
	return 0;
}

static int add_guard(struct egress_policy *p, const struct guard *guard)
{
	if (p->n_guards == EGRESS_RULES_MAX)
		return -ENOBUFS;
	struct guard *more = reallocarray(p->guards, p->n_guards + 1, sizeof(*more));
	if (!more)
		return -ENOMEM;
	p->guards = more;
	p->guards[p->n_guards++] = *guard;
	return 0;
}

/* RET has nothing but its kind. */
static int copy_into(struct egress_policy *ret, const struct egress_policy *p)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->n; i++)
		r = add_rule(ret, &p->rules[i]);
	for (size_t i = 0; r == 0 && i < p->n_guards; i++)
		r = add_guard(ret, &p->guards[i]);
	if (r == 0 && p->index_path)
		r = egress_policy_index(ret, p->index_path);
	ret->special = p->special;
	ret->n_more = p->n_more;
	ret->widest = p->widest ? egress_policy_ref(p->widest) : NULL;
	return r;
}

struct egress_policy *egress_policy_copy(const struct egress_policy *p)
{
	struct egress_policy *copy = egress_policy_new(p->kind);

	return copy && copy_into(copy, p) < 0 ? egress_policy_unref(copy) : copy;
}

int egress_policy_extend(const struct egress_policy *p, const char *entry,
			 struct egress_policy **ret, struct err *e)
{
	enum egress_kind kind = egress_policy_kind(p);
	struct egress_policy *more =
	    egress_policy_new(kind == EGRESS_NONE ? EGRESS_ALLOWLIST : kind);
	int r = more ? 0 : -ENOMEM;

	r = r < 0 ? r : copy_into(more, p);
	if (r < 0) {
		(void)egress_policy_unref(more);
		return bad_entry(e, r, entry, strlen(entry));
	}
	r = egress_policy_add(more, entry, e);
	more->n_more = p->n_more + more->n - p->n;
	if (r < 0)
		(void)egress_policy_unref(more);
	else
		*ret = more;
	return r;
}

/* ---- lists that must stay within another policy ---- */

static bool port_within(const struct egress_policy *widest, const struct egress_rule *a,
			uint16_t port)
{
	if (widest->kind == EGRESS_OPEN && egress_port_is_usual(port))
		return true;
	for (size_t i = 0; i < widest->n; i++) {
		const struct egress_rule *wide = &widest->rules[i];

		if (egress_rule_has_port(wide, port) && egress_rule_is_within(a, wide))
			return true;
	}
	return false;
}

static bool is_within(const struct egress_policy *widest, const struct egress_rule *a)
{
	if (a->port != 0)
		return port_within(widest, a, a->port);
	return port_within(widest, a, HTTP_PORT) && port_within(widest, a, HTTPS_PORT);
}

static bool has_rule(const struct egress_policy *p, const struct egress_rule *a)
{
	for (size_t i = 0; i < p->n; i++)
		if (egress_rule_is_same(&p->rules[i], a))
			return true;
	return false;
}

int egress_policy_add_within(struct egress_policy *p, struct egress_policy *widest,
			     const char *list, bool lax, struct err *e)
{
	size_t before = p->n, len;
	int r = 0;

	(void)egress_policy_ref(widest);
	(void)egress_policy_unref(p->widest);
	p->widest = widest;
	for (const char *s = list + strspn(list, between); r == 0 && *s != '\0';
	     s += len + strspn(s + len, between)) {
		struct egress_rule rule;

		len = strcspn(s, between);
		r = egress_rule_parse(s, len, &rule);
		if (r == 0 && !is_within(widest, &rule))
			r = lax ? 1 : -EPERM;
		if (r == 0 && !has_rule(p, &rule))
			r = add_rule(p, &rule);
		if (r == -EPERM)
			(void)err_set(e, ERR_FORBIDDEN, 0, "'%.*s' is not within what is allowed",
				      (int)MIN(len, (size_t)EGRESS_HOST_MAX), s);
		else if (r < 0)
			r = bad_entry(e, r, s, len);
		r = MIN(r, 0);
	}
	if (r < 0)
		p->n = before;
	return r;
}

void egress_policy_entry(const struct egress_policy *p, size_t i, char *ret)
{
	egress_rule_text(&p->rules[i], ret);
}

int egress_policy_guard(struct egress_policy *p, const char *list, struct err *e)
{
	size_t before = p->n_guards, len;
	int r = 0;

	for (const char *s = list + strspn(list, between); r == 0 && *s != '\0';
	     s += len + strspn(s + len, between)) {
		struct guard guard = {.denied = *s == '!'};

		len = strcspn(s, between);
		if (egress_block_parse(s + guard.denied, len - guard.denied, &guard.block) < 0)
			r = err_set(e, ERR_INVALID_ARGUMENT, 0,
				    "'%.*s' is no address and no block of addresses, such as "
				    "8.8.8.8 or 8.8.8.0/24",
				    (int)MIN(len, (size_t)100), s);
		else if ((r = add_guard(p, &guard)) < 0)
			r = bad_entry(e, r, s, len);
	}
	if (r < 0)
		p->n_guards = before;
	return r;
}

size_t egress_policy_n_guards(const struct egress_policy *p)
{
	return p->n_guards;
}

void egress_policy_guard_text(const struct egress_policy *p, size_t i, char *ret)
{
	ret[0] = '!';
	egress_block_text(&p->guards[i].block, ret + p->guards[i].denied);
}

/* HOST is written as in a URL: IPv6 addresses in brackets. */
static int write_host(const char *host, char ret[EGRESS_HOST_MAX + 3])
{
	bool v6 = strchr(host, ':') && host[0] != '[';

	if (strlen(host) > EGRESS_HOST_MAX)
		return -EINVAL;
	(void)snprintf(ret, EGRESS_HOST_MAX + 3, v6 ? "[%s]" : "%s", host);
	return 0;
}

int egress_policy_trust(struct egress_policy *p, const char *host, uint16_t port, struct err *e)
{
	struct egress_rule rule = {.trusted = true, .port = port};
	enum egress_host_form form;
	char written[EGRESS_HOST_MAX + 3];

	int r = port == 0 || write_host(host, written) < 0
		    ? -EINVAL
		    : egress_host_parse(written, strlen(written), rule.host, &form);
	r = r < 0 ? r : add_rule(p, &rule);
	return r < 0 ? bad_entry(e, r, host, strlen(host)) : 0;
}

/* ---- questions ---- */

/* What a literal address gets that no rule allows. */
static enum egress_reason judge_literal(const struct egress_policy *p, uint16_t port)
{
	if (p->kind == EGRESS_OPEN && p->n_guards > 0)
		return egress_port_is_usual(port) ? EGRESS_REASON_OK
						  : EGRESS_REASON_PORT_NOT_ALLOWED;
	for (size_t i = 0; i < p->n; i++)
		if (p->rules[i].is_block)
			return EGRESS_REASON_ADDRESS_NOT_ALLOWED;
	return EGRESS_REASON_ADDRESS_LITERAL;
}

enum egress_reason egress_policy_target(const struct egress_policy *p,
					const struct egress_target *target,
					struct egress_grant *ret)
{
	bool host = false;
	bool allowed = false;

	*ret = (struct egress_grant){.trusted = false};
	for (size_t i = 0; i < p->n; i++) {
		const struct egress_rule *rule = &p->rules[i];

		/* A trusted target must be equal to the rule, and may be an address. Other rules match names only. */
		if (!egress_rule_has_host(rule, target))
			continue;
		host = true;
		if (!egress_rule_has_port(rule, target->port))
			continue;
		allowed = true;
		ret->trusted = ret->trusted || rule->trusted;
	}
	if (allowed)
		return EGRESS_REASON_OK;
	if (!wall_stands(WALL_HOSTS)) {
		ret->trusted = true;
		return EGRESS_REASON_OK;
	}
	if (host)
		return EGRESS_REASON_PORT_NOT_ALLOWED;
	if (egress_policy_kind(p) == EGRESS_NONE)
		return EGRESS_REASON_NO_POLICY;
	if (egress_target_is_literal(target))
		return judge_literal(p, target->port);
	if (p->kind != EGRESS_OPEN || target->form != EGRESS_HOST_NAME)
		return EGRESS_REASON_HOST_NOT_ALLOWED;
	return egress_port_is_usual(target->port) ? EGRESS_REASON_OK
						  : EGRESS_REASON_PORT_NOT_ALLOWED;
}

bool egress_policy_allows(const struct egress_policy *p, const char *host, uint16_t port)
{
	struct egress_target target = {.port = port};
	char written[EGRESS_HOST_MAX + 3];
	struct egress_grant grant;

	return write_host(host, written) == 0 &&
	       egress_host_parse(written, strlen(written), target.host, &target.form) == 0 &&
	       egress_policy_target(p, &target, &grant) == EGRESS_REASON_OK;
}

bool egress_policy_address(const struct egress_policy *p, const struct egress_address *a,
			   bool trusted)
{
	enum egress_class class = egress_address_class(a, NULL);

	if (trusted)
		return true;
	if (class != EGRESS_PUBLIC && !(class == EGRESS_SPECIAL && p->special))
		return false;
	return !egress_address_is_own(a);
}

static bool is_added(const struct egress_policy *p, const struct egress_target *target)
{
	for (size_t i = p->n - p->n_more; i < p->n; i++)
		if (egress_rule_has_host(&p->rules[i], target))
			return true;
	return false;
}

bool egress_policy_reaches(const struct egress_policy *p, const struct egress_target *target,
			   const struct egress_address *a)
{
	bool denied = false;

	if (p->widest || is_added(p, target)) /* a list has it, and that wins */
		return true;
	for (size_t i = 0; i < p->n_guards; i++) {
		if (!egress_block_has(&p->guards[i].block, a))
			continue;
		if (!p->guards[i].denied)
			return true;
		denied = true;
	}
	return !denied;
}

/* ---- requests to a package index ---- */

#define PATH_MAX_BYTES 1024u
#define UPLOAD_FREE    (UINT64_C(1) << 20) /* bytes that may be sent before anything has come back */
#define UPLOAD_SHARE   8u                  /* and one more for so many that came */

/* Visible ASCII without escapes that hide a dot or a slash, and without `.`, `..` and empty segments. */
static bool is_plain_path(const char *path, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		size_t n = 0;

		if (path[i] == '?' || path[i] == '\\' || path[i] == '%')
			return false;
		if (path[i] != '/')
			continue;
		while (i + 1 + n < len && path[i + 1 + n] != '/')
			n++;
		if ((n == 0 && i + 1 < len) || (n == 1 && path[i + 1] == '.') ||
		    (n == 2 && path[i + 1] == '.' && path[i + 2] == '.'))
			return false;
	}
	return len > 0 && len <= PATH_MAX_BYTES && path[0] == '/';
}

/* The list of all projects, or the page of one: PREFIX/, PREFIX/NAME or PREFIX/NAME/. */
static bool is_index_page(const char *prefix, const char *path, size_t len)
{
	size_t n = strlen(prefix);

	if (len <= n || memcmp(path, prefix, n) != 0 || path[n] != '/')
		return len == n && memcmp(path, prefix, n) == 0;
	const char *name = path + n + 1, *end = path + len;
	const char *slash = memchr(name, '/', (size_t)(end - name));
	return !slash || slash + 1 == end;
}

static bool is_package_file(const char *path, size_t len)
{
	static const char *const ends[] = {".whl", ".tar.gz", ".zip", ".tar.bz2"};
	static const char metadata[] = ".metadata";
	size_t n = sizeof(metadata) - 1;

	if (len > n && memcmp(path + len - n, metadata, n) == 0)
		len -= n;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (len > strlen(ends[i]) &&
		    memcmp(path + len - strlen(ends[i]), ends[i], strlen(ends[i])) == 0)
			return true;
	return false;
}

enum egress_reason egress_policy_request(const struct egress_policy *p, const struct egress_head *h)
{
	if (p->kind != EGRESS_PACKAGES)
		return EGRESS_REASON_OK;
	if (!streq(h->method, "GET") && !streq(h->method, "HEAD"))
		return EGRESS_REASON_METHOD;
	if (h->body > 0 && !is_added(p, &h->target))
		return EGRESS_REASON_BODY;
	if (!wall_stands(WALL_INDEX_PATH) || is_added(p, &h->target))
		return EGRESS_REASON_OK;
	if (!is_plain_path(h->path, h->path_len) ||
	    (!is_package_file(h->path, h->path_len) &&
	     (!p->index_path || !is_index_page(p->index_path, h->path, h->path_len))))
		return EGRESS_REASON_PATH;
	return EGRESS_REASON_OK;
}

bool egress_policy_uploads(const struct egress_policy *p, uint64_t sent, uint64_t received)
{
	return p->kind == EGRESS_PACKAGES && p->n_more == 0 && wall_stands(WALL_UPLOADS) &&
	       sent > UPLOAD_FREE + received / UPLOAD_SHARE;
}

int egress_policy_index(struct egress_policy *p, const char *path)
{
	size_t len = strcspn(path, "?#");

	while (len > 0 && path[len - 1] == '/')
		len--;
	free(p->index_path);
	p->index_path = strndup(path, len);
	return p->index_path ? 0 : -ENOMEM;
}
