/* SPDX-License-Identifier: Apache-2.0 */
/* Options and a sandbox: what the operator permits, and what they mean for the engine and for runs. */
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/manager.h"
#include "sandbox/options_pairs.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* ---- what the operator permits ---- */

/* A maximum is never below what a sandbox without options gets. */
static uint64_t at_least(uint64_t max, uint64_t session, uint64_t stored)
{
	return MAX(max, MAX(session, stored));
}

int64_t manager_option_max(const struct manager *m, enum sandbox_option x)
{
	const struct sandbox_maxima *max = &m->config.maxima;
	const struct engine_limits *session = &m->config.limits;
	const struct engine_limits *stored = &m->config.stored.limits;
	const int64_t most = sandbox_option_rows[x].max;
	uint64_t n = (uint64_t)most;

	if (x == SANDBOX_OPTION_MEMORY)
		n = at_least(max->memory_bytes, session->memory_bytes, stored->memory_bytes) / MIB;
	else if (x == SANDBOX_OPTION_DISK)
		n = at_least(max->workspace_bytes, session->workspace_bytes,
			     stored->workspace_bytes) /
		    MIB;
	else if (x == SANDBOX_OPTION_CPUS)
		n = at_least(max->cpu_milli, session->cpu_milli, stored->cpu_milli);
	else if (x == SANDBOX_OPTION_PROCESSES)
		n = at_least(max->pids, session->pids, stored->pids);
	else if (x == SANDBOX_OPTION_TTL)
		n = at_least(max->ttl_ns, MAX(m->config.ttl_ns, m->config.keep_ns),
			     m->config.stored.idle_ns) /
		    NS_PER_S;
	else if (x == SANDBOX_OPTION_ROOT)
		n = max->root;
	else if (x == SANDBOX_OPTION_PUBLIC)
		n = m->config.public_ports;
	else if (x == SANDBOX_OPTION_TIMEOUT && manager_run_timeout_max_ns(m) > 0)
		n = manager_run_timeout_max_ns(m) / NS_PER_S;
	return (int64_t)MIN(n, (uint64_t)most);
}

/* Whether NAME is in LIST: names separated by commas or blanks, or "*". */
static bool is_listed(const char *list, const char *name)
{
	for (const char *at = list ? list : ""; *at;) {
		const size_t len = strcspn(at, ", ");

		if ((len == 1 && *at == '*') || (len == strlen(name) && memcmp(at, name, len) == 0))
			return true;
		at += len;
		at += strspn(at, ", ");
	}
	return false;
}

bool manager_permits_image(const struct manager *m, const char *image)
{
	const bool open = strncmp(image, SANDBOX_OWN_IMAGE, strlen(SANDBOX_OWN_IMAGE)) != 0;

	return streq(image, m->config.image) || streq(image, m->config.stored.image) ||
	       (open && is_listed(m->config.maxima.images, image));
}

static int check_image(const struct manager *m, const char *image, struct err *e)
{
	if (manager_permits_image(m, image))
		return 0;
	(void)err_set(
	    e, ERR_FORBIDDEN, 0,
	    "'image' is not valid: this server does not permit the image %s. The operator "
	    "can permit it in SANDBOX_IMAGES.",
	    image);
	return err_set_member(e, sandbox_option_rows[SANDBOX_OPTION_IMAGE].member);
}

/* The texts of LIST, which are separated by commas or blanks, become members of RET. */
static void add_names(json_t *ret, const char *list)
{
	for (const char *at = list; *at;) {
		const size_t len = strcspn(at, ", ");

		if (len > 0)
			(void)json_array_append_new(ret, json_stringn(at, len));
		at += len;
		at += strspn(at, ", ");
	}
}

json_t *manager_image_names(const struct manager *m)
{
	json_t *list = json_array();

	add_names(list, m->config.image);
	if (!streq(m->config.image, m->config.stored.image))
		add_names(list, m->config.stored.image);
	if (m->config.maxima.images)
		add_names(list, m->config.maxima.images);
	return list;
}

json_t *manager_option_maxima(const struct manager *m)
{
	static const enum sandbox_option rows[] = {SANDBOX_OPTION_MEMORY,    SANDBOX_OPTION_CPUS,
						   SANDBOX_OPTION_PROCESSES, SANDBOX_OPTION_DISK,
						   SANDBOX_OPTION_TIMEOUT,   SANDBOX_OPTION_TTL};
	json_t *ret = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const int64_t max = manager_option_max(m, rows[i]);
		const bool thousandths =
		    sandbox_option_rows[rows[i]].type == SANDBOX_OPTION_TYPE_NUMBER;

		(void)json_object_set_new(ret, sandbox_option_rows[rows[i]].member,
					  thousandths ? json_real((double)max / 1000)
						      : json_integer((json_int_t)max));
	}
	return ret;
}

json_t *manager_level_names(const struct manager *m)
{
	const struct engine_levels *l = m->config.maxima.levels;
	json_t *list = json_array();

	for (unsigned i = 0; l && i < l->n; i++)
		if (l->possible >> i & 1)
			(void)json_array_append_new(list, json_string(l->at[i].name));
	return list;
}

const char *manager_level_name(const struct manager *m, const struct sandbox_options *o)
{
	const struct engine_levels *l = m->config.maxima.levels;

	return sandbox_option_given(o, SANDBOX_OPTION_LEVEL) ? o->level : l->at[l->usual].name;
}

int manager_check_options(const struct manager *m, const struct sandbox_options *o, struct err *e)
{
	if (o->number[SANDBOX_OPTION_ROOT] && !m->config.maxima.root) {
		(void)err_set(
		    e, ERR_FORBIDDEN, 0,
		    "'root' is not valid: this server permits no root user in sandboxes. The "
		    "operator can permit it by SANDBOX_ROOT=on.");
		return err_set_member(e, sandbox_option_rows[SANDBOX_OPTION_ROOT].member);
	}
	if (sandbox_check_public(m, o, e) < 0)
		return -EPERM;
	for (unsigned x = 0; x < SANDBOX_OPTION_MAX_; x++) {
		const struct sandbox_option_row *row = &sandbox_option_rows[x];
		const double scale = row->type == SANDBOX_OPTION_TYPE_NUMBER ? 1000 : 1;
		const int64_t max = manager_option_max(m, x);

		if (!sandbox_option_given(o, x) || o->number[x] <= max)
			continue;
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
			      "'%s' is %.10g, this server allows at most %.10g. The operator can "
			      "allow more in %s.",
			      row->member, (double)o->number[x] / scale, (double)max / scale,
			      row->setting);
		return err_set_member(e, row->member);
	}
	unsigned ignored;
	if (sandbox_option_given(o, SANDBOX_OPTION_LEVEL) &&
	    engine_levels_find(m->config.maxima.levels, o->level, &ignored, e) < 0)
		return -EINVAL;
	return sandbox_option_given(o, SANDBOX_OPTION_IMAGE) && !o->own_image
		   ? check_image(m, o->image, e)
		   : 0;
}

/* ---- what they mean ---- */

/* The value of X in O; OTHERWISE if it was not given. A record may be older than the maxima. */
static uint64_t number_of(const struct manager *m, const struct sandbox_options *o,
			  enum sandbox_option x, uint64_t unit, uint64_t otherwise)
{
	if (!sandbox_option_given(o, x))
		return otherwise;
	return (uint64_t)MIN(o->number[x], manager_option_max(m, x)) * unit;
}

void manager_apply_options(const struct manager *m, const struct sandbox_options *o,
			   struct engine_create *c)
{
	struct engine_limits *l = &c->limits;
	const struct engine_create before = *c;

	l->memory_bytes = number_of(m, o, SANDBOX_OPTION_MEMORY, MIB, l->memory_bytes);
	l->workspace_bytes = number_of(m, o, SANDBOX_OPTION_DISK, MIB, l->workspace_bytes);
	l->cpu_milli = (uint32_t)number_of(m, o, SANDBOX_OPTION_CPUS, 1, l->cpu_milli);
	l->pids = (uint32_t)number_of(m, o, SANDBOX_OPTION_PROCESSES, 1, l->pids);
	if (sandbox_option_given(o, SANDBOX_OPTION_IMAGE))
		memcpy(c->image, o->image, sizeof(c->image));
	if (sandbox_option_given(o, SANDBOX_OPTION_LEVEL))
		memcpy(c->level, o->level, sizeof(c->level));
	c->root = o->number[SANDBOX_OPTION_ROOT] != 0;
	c->single = l->memory_bytes != before.limits.memory_bytes ||
		    l->workspace_bytes != before.limits.workspace_bytes ||
		    l->cpu_milli != before.limits.cpu_milli || l->pids != before.limits.pids ||
		    c->root || !streq(c->image, before.image);
}

int sandbox_check_root(const struct sandbox *s, bool root, struct err *e)
{
	if (!root || (s->policy.enforced & ENGINE_CAP_ROOT))
		return 0;
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0,
		      "The sandbox has no root user. Make one with the option root: true%s.",
		      s->manager->config.maxima.root
			  ? ""
			  : ", which the operator permits by SANDBOX_ROOT=on");
	return err_set_member(e, "user");
}

void manager_stored_limits(const struct manager *m, const struct sandbox_options *o,
			   struct sandbox_limits *ret)
{
	const struct manager_stored *c = &m->config.stored;
	struct engine_create create = {.limits = c->limits};

	manager_apply_options(m, o, &create);
	*ret = (struct sandbox_limits){
	    .engine = create.limits,
	    .timeout_ns = number_of(m, o, SANDBOX_OPTION_TIMEOUT, NS_PER_S, c->run_timeout_ns),
	    .ttl_ns = number_of(m, o, SANDBOX_OPTION_TTL, NS_PER_S, c->idle_ns),
	};
}

const struct sandbox_options *sandbox_options(const struct sandbox *s)
{
	return &s->options;
}

uint64_t sandbox_ttl_ns(const struct sandbox *s)
{
	const struct manager_config *c = &s->manager->config;
	const uint64_t session = session_holds(s) ? MAX(c->ttl_ns, c->keep_ns) : c->ttl_ns;
	/* Variables are not lost earlier for being kept. */
	const uint64_t stored =
	    s->was_session ? MAX(c->stored.idle_ns, session) : c->stored.idle_ns;

	return number_of(s->manager, &s->options, SANDBOX_OPTION_TTL, NS_PER_S,
			 s->stored ? stored : session);
}

uint64_t sandbox_run_timeout_ns(const struct sandbox *s)
{
	const struct manager_config *c = &s->manager->config;

	return number_of(s->manager, &s->options, SANDBOX_OPTION_TIMEOUT, NS_PER_S,
			 s->stored ? c->stored.run_timeout_ns : c->run_timeout_ns);
}

const char *sandbox_workdir(const struct sandbox *s)
{
	return sandbox_option_given(&s->options, SANDBOX_OPTION_WORKDIR) ? s->options.workdir
									 : NULL;
}

static bool is_set(const struct sandbox_pairs *env, const char *line)
{
	const size_t len = strcspn(line, "=") + 1;

	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->list[i], line, len) == 0)
			return true;
	return false;
}

const char *const *sandbox_run_env(const struct sandbox *s, const char *ret[SANDBOX_RUN_ENV_MAX])
{
	const char *network[SANDBOX_NETWORK_ENV_MAX];
	const char *const *ours = sandbox_network_env(s, network);
	const struct sandbox_pairs *env = &s->options.env;
	size_t n = 0;

	for (; ours && *ours; ours++)
		if (!is_set(env, *ours))
			ret[n++] = *ours;
	for (size_t i = 0; i < env->n && n < SANDBOX_RUN_ENV_MAX - 1; i++)
		ret[n++] = env->list[i];
	ret[n] = NULL;
	return n > 0 ? ret : NULL;
}

const char *const *sandbox_env_with(const struct sandbox *s, const char *const *more,
				    const char *ret[SANDBOX_ENV_WITH_MAX])
{
	const char *own[SANDBOX_RUN_ENV_MAX];
	const char *const *env = sandbox_run_env(s, own);
	size_t n = 0, n_more = 0;

	while (more && more[n_more] && n_more < SANDBOX_ENV_MAX)
		n_more++;
	for (size_t i = 0; env && env[i]; i++) {
		const size_t len = strcspn(env[i], "=") + 1;
		bool other = false;

		for (size_t k = 0; k < n_more; k++)
			other = other || strncmp(more[k], env[i], len) == 0;
		if (!other)
			ret[n++] = env[i];
	}
	for (size_t k = 0; k < n_more; k++)
		ret[n++] = more[k];
	ret[n] = NULL;
	return n > 0 ? ret : NULL;
}

/* ---- of a stored sandbox ---- */

int manager_stored_options(struct manager *m, const struct sandbox_record *record,
			   struct sandbox_options *ret, struct err *e)
{
	const struct sandbox_records *records = m->config.stored.records;
	_cleanup_(buf_done) struct buf env = BUF_INIT(SANDBOX_ENV_TEXT_MAX);
	int r = records->env ? records->env(records->user, record->id, &env, e) : 0;

	if (r < 0)
		return r;
	r = sandbox_options_parse(record->options, buf_str(&env), ret);
	if (env.data)
		explicit_bzero(env.data, env.len);
	return r < 0 ? err_set(e, ERR_STORE_FAILED, -r, "the options of sandbox %s", record->id)
		     : 0;
}
