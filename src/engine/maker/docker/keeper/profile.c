/* SPDX-License-Identifier: Apache-2.0 */
/* The table of system calls of runs (walls/run_calls.tbl.h) as a profile for the container engine.
 *
 * Inside, init loads the exact filter for every run. This one holds for everything in the container,
 * init included, so it also allows what init needs to confine runs. It may allow a little more than
 * the table where a row's conditions cannot be said here; it never allows a call that the table
 * refuses, except those of `of_init`. */
#include "base/jsonio.h"
#include "base/text.h"
#include "engine/maker/docker/keeper/keeper.h"
#include "walls/filter.h"

#include <string.h>

#define LOW_HALF  UINT64_C(0xffffffff)
#define RULES_MAX 64u /* of one row; more conditions than that are left out */

/* Calls of init, and of the container engine between loading this profile and starting init. */
static const char *const of_init[] = {
    "seccomp",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "prctl",
    "execve",
    "capget",
};

static bool is_init_call(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(of_init); i++)
		if (streq(of_init[i], name))
			return true;
	return false;
}

/* NAME with VERDICT if ARGS (taken; NULL = always) hold. */
static int add_rule(json_t *list, const char *name, int verdict, json_t *args)
{
	json_t *rule = json_pack("{s:[s], s:s}", "names", name, "action",
				 verdict == 0 ? "SCMP_ACT_ALLOW" : "SCMP_ACT_ERRNO");
	int r = rule ? 0 : -1;

	if (verdict != 0)
		r |= json_object_set_new(rule, "errnoRet",
					 json_integer(verdict == FILTER_PRETEND ? 0 : verdict));
	if (args)
		r |= json_object_set_new(rule, "args", args);
	r |= json_array_append_new(list, rule);
	return r;
}

/* "argument AND MASK is VALUE". The kernel uses the lower half of such an argument only. */
static json_t *condition(const struct filter_cond *c, uint32_t value)
{
	return json_pack("{s:i, s:I, s:I, s:s}", "index", c->arg, "value",
			 (json_int_t)(c->mask & LOW_HALF), "valueTwo", (json_int_t)value, "op",
			 "SCMP_CMP_MASKED_EQ");
}

/* A clause with one condition becomes a rule for each value. Others would need rules that the container
 * engine cannot take for one argument, or too many of them. */
static bool is_plain(const struct filter_clause *w)
{
	return w->verdict == 0 && w->n == 1 && !w->conds[0].negate &&
	       !(w->conds[0].arg & FILTER_ARG_HIGH) && w->conds[0].n <= RULES_MAX;
}

static int add_when(json_t *list, const struct filter_row *row)
{
	int r = 0;

	for (size_t i = 0; i < row->n_when; i++)
		if (!is_plain(&row->when[i]))
			return add_rule(list, row->name, 0, NULL);
	for (size_t i = 0; i < row->n_when; i++)
		for (size_t v = 0; v < row->when[i].conds[0].n; v++) {
			const struct filter_cond *c = &row->when[i].conds[0];
			if (c->values[v] == FILTER_SELF)
				return add_rule(list, row->name, 0, NULL);
			json_t *args = json_array();
			r |= json_array_append_new(args, condition(c, c->values[v]));
			r |= add_rule(list, row->name, 0, args);
		}
	return r;
}

static int add_row(json_t *list, const struct filter_row *row)
{
	if (is_init_call(row->name))
		return 0;
	if (row->n_when > 0)
		return add_when(list, row);
	if (row->verdict == FILTER_KILL) /* what is not listed is refused */
		return 0;
	return add_rule(list, row->name, row->verdict, NULL);
}

/* FILTER_ARCH by the name that the container engine knows it by. */
#if FILTER_ARCH == AUDIT_ARCH_X86_64
#define ARCHITECTURE "SCMP_ARCH_X86_64"
#else
#define ARCHITECTURE "SCMP_ARCH_AARCH64"
#endif

char *profile_json(void)
{
	json_t *list = json_array();
	int r = 0;
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(of_init); i++)
		r |= add_rule(list, of_init[i], 0, NULL);
	for (size_t i = 0; i < filter_run.n; i++)
		r |= add_row(list, &filter_run.rows[i]);
	json_t *doc = r == 0 ? json_pack("{s:s, s:i, s:[s], s:O}", "defaultAction",
					 "SCMP_ACT_ERRNO", "defaultErrnoRet", ENOSYS,
					 "architectures", ARCHITECTURE, "syscalls", list)
			     : NULL;
	char *text = jsonio_text(doc, JSON_COMPACT, &len);

	json_decref(doc);
	json_decref(list);
	return text;
}
