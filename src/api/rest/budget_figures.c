/* SPDX-License-Identifier: Apache-2.0 */
/* What clients see of the budgets: their own in /api/v1/me, everybody's in /api/v1/stats. */
#include "api/rest/rest.h"

static json_t *own_row(const struct api *a, const char *owner, enum budget_kind kind)
{
	const struct budgets *b = a->config.budgets;
	struct budget_bounds bounds = budget_bounds(b, kind);
	uint64_t used = budget_used_by(b, owner, kind);
	struct err ignored = ERR_INIT;

	if (kind == BUDGET_KEYS && a->config.store)
		(void)!store_key_count(a->config.store, owner, &used, &ignored);
	return json_pack("{s:I, s:I}", "used", (json_int_t)used, "max",
			 (json_int_t)MIN(bounds.each, bounds.total));
}

json_t *budget_figures_own(const struct api *a, const char *owner)
{
	json_t *all = json_object();

	for (unsigned k = 0; k < BUDGET_KINDS && a->config.budgets; k++)
		(void)json_object_set_new(all, budget_word((enum budget_kind)k),
					  own_row(a, owner, (enum budget_kind)k));
	return all;
}

/* Adds one user to the rows of those budgets of which the user has something. */
static void add_user(const char *principal, const uint64_t *used, void *user)
{
	json_t *all = user;

	for (unsigned k = 0; k < BUDGET_KINDS; k++) {
		json_t *row = json_object_get(all, budget_word((enum budget_kind)k));

		if (used[k] > 0)
			(void)json_object_set_new(json_object_get(row, "by_user"), principal,
						  json_integer((json_int_t)used[k]));
	}
}

json_t *budget_figures_all(const struct api *a)
{
	const struct budgets *b = a->config.budgets;
	json_t *all = json_object();

	for (unsigned k = 0; k < BUDGET_KINDS && b; k++) {
		enum budget_kind kind = (enum budget_kind)k;
		struct budget_bounds bounds = budget_bounds(b, kind);
		uint64_t used = budget_used(b, kind);
		struct err ignored = ERR_INIT;

		if (kind == BUDGET_KEYS && a->config.store)
			(void)!store_key_count(a->config.store, NULL, &used, &ignored);
		(void)json_object_set_new(
		    all, budget_word(kind),
		    json_pack("{s:I, s:I, s:I, s:I, s:I, s:{}}", "used", (json_int_t)used, "total",
			      (json_int_t)bounds.total, "reserve",
			      (json_int_t)budget_reserve(b, kind), "each", (json_int_t)bounds.each,
			      "refused", (json_int_t)budget_refused(b, kind), "by_user"));
	}
	if (b)
		budgets_each(b, add_user, all);
	return all;
}
