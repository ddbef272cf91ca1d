/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/secrets.h"

#include "budget/budgets.h"
#include "sandbox/manager.h"

#include <string.h>

#define PARTS 2 /* the environment, and earlier lines of it */

_Static_assert(PARTS *SANDBOX_ENV_BYTES_MAX <= MASK_BYTES_MAX, "all values are masked");
_Static_assert(PARTS *SANDBOX_ENV_MAX <= MASK_SECRETS_MAX, "all values are masked");
_Static_assert(SANDBOX_ENV_VALUE_MAX <= MASK_SECRET_MAX, "all values are masked");

struct secrets {
	unsigned refs;        /* the sandbox has one */
	struct mask_set *set; /* owned; NULL: there is nothing to mask */
	struct budget_share share;
};

struct secrets *secrets_unref(struct secrets *x)
{
	if (!x || --x->refs > 0)
		return NULL;
	(void)mask_set_free(x->set);
	budget_give(&x->share);
	free(x);
	return NULL;
}

const struct mask_set *secrets_set(const struct secrets *x)
{
	return x ? x->set : NULL;
}

void sandbox_forget_secrets(struct sandbox *s)
{
	s->secrets = secrets_unref(s->secrets);
}

static void forget_unused(struct sandbox *s, void *user UNUSED)
{
	if (s->secrets && s->secrets->refs == 1)
		sandbox_forget_secrets(s);
}

/* Whoever pays for a set that is being made. */
struct payer {
	struct sandbox *sandbox;
	struct budget_share *share;
	struct err *e;
};

static int charge(size_t bytes, void *user)
{
	const struct payer *p = user;
	struct sandbox *s = p->sandbox;
	struct manager *m = s->manager;
	struct budgets *b = m->config.budgets;
	struct err ignored = ERR_INIT;

	if (budget_take(b, s->owner, BUDGET_SECRET_MEMORY, bytes, p->share, &ignored) == 0)
		return 0;
	manager_each(m, s->owner, forget_unused, NULL);
	return budget_take(b, s->owner, BUDGET_SECRET_MEMORY, bytes, p->share, p->e);
}

static int make_set(struct sandbox *s, struct secrets *x, struct err *e)
{
	const struct sandbox_pairs *const parts[PARTS] = {&s->options.env, &s->former};
	const char *values[PARTS * SANDBOX_ENV_MAX];
	struct payer payer = {s, &x->share, e};
	size_t n = 0;

	for (size_t k = 0; k < PARTS; k++)
		for (size_t i = 0; i < parts[k]->n && n < ARRAY_SIZE(values); i++) {
			const char *equals = strchr(parts[k]->list[i], '=');

			if (equals)
				values[n++] = equals + 1;
		}
	int r = mask_set_new(values, n, charge, &payer, &x->set);
	if (r == 0 && x->set) /* less than the most that it could be */
		budget_note(s->manager->config.budgets, s->owner, BUDGET_SECRET_MEMORY,
			    mask_set_memory(x->set), &x->share);
	if (r == 0 || e->code != ERR_NONE)
		return r;
	return err_set(e, ERR_OUT_OF_MEMORY, -r, "the secrets of sandbox %s", s->id);
}

int sandbox_secrets(struct sandbox *s, struct secrets **ret, struct err *e)
{
	*ret = NULL;
	if (!s->secrets) {
		struct secrets *x = calloc(1, sizeof(*x));

		if (!x)
			return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the secrets of sandbox %s",
				       s->id);
		x->refs = 1;
		const int r = make_set(s, x, e);
		if (r < 0) {
			(void)secrets_unref(x);
			return r;
		}
		s->secrets = x;
	}
	s->secrets->refs += s->secrets->set != NULL;
	*ret = s->secrets->set ? s->secrets : NULL;
	return 0;
}
