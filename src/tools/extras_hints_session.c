/* SPDX-License-Identifier: Apache-2.0 */
/* Hints about the variables of a session: which are gone, and why. */
#include "tools/extras.h"

#include "base/text.h"

#include <string.h>

static size_t count_names(const char *names)
{
	size_t n = 1;

	for (const char *at = strchr(names, ','); at; at = strchr(at + 1, ','))
		n++;
	return n;
}

static int add_names_gone(struct buf *b, const struct engine_left *l)
{
	return l->names[0] ? buf_printf(b, " Gone: %s%s.", l->names,
					l->names_gone > count_names(l->names) ? " and others" : "")
			   : buf_printf(b, " %ju could not be kept.", (uintmax_t)l->names_gone);
}

/* A library of the session cannot go on in a copy of its process. */
static int add_carried(struct buf *b, const struct engine_left *l, const char *has,
		       const char *when)
{
	int r = buf_printf(
	    b, "%sA new interpreter %s %ju variable%s of the session, as they were before %s.",
	    b->len > 0 ? " " : "", has, (uintmax_t)l->names_kept, text_s(l->names_kept), when);

	return r < 0 || l->names_gone == 0 ? r : add_names_gone(b, l);
}

/* The sandbox has rested, and its variables were on its disk meanwhile. If all were, nothing is said. */
static int add_rested(struct buf *b, const struct run_result *result)
{
	const struct engine_left *l =
	    result->left.names_gone > 0 ? &result->left : &result->undone.left;

	if (!result->left.rested || result->left.carried || result->state_lost ||
	    l->names_gone == 0)
		return 0;
	const int r = buf_printf(b,
				 "%sThe sandbox has rested since the last run, and not all of the "
				 "session's variables could be kept.",
				 b->len > 0 ? " " : "");
	return r < 0 ? r : add_names_gone(b, l);
}

/* What the session has lost although its variables are as before. */
static int add_gone(struct buf *b, const struct run_result *result)
{
	if (result->state_lost)
		return 0;
	if (result->left.carried)
		return add_carried(b, &result->left, "has", "this run");
	if (result->left.gone == 0)
		return 0;
	int r =
	    buf_printf(b, "%sThe variables are as before this run; the ", b->len > 0 ? " " : "");
	r = r < 0 ? r : extras_add_kinds(b, result->left.gone);
	return r < 0 ? r : buf_add_str(b, " of earlier runs are gone.");
}

/* Who cancels a call reads no answer to it, so the next answer says what that has cost. */
static int add_undone(struct buf *b, const struct run_result *result)
{
	const struct run_undone *u = &result->undone;

	if (result->state_lost || !(u->back || (u->lost && u->late)))
		return 0;
	if (u->lost)
		return buf_printf(
		    b,
		    "%sAn earlier run was cancelled and ended, and the variables that "
		    "the session had before were lost.",
		    b->len > 0 ? " " : "");
	int r = buf_printf(b, "%s%s, and what it did to the variables was undone.",
			   b->len > 0 ? " " : "",
			   u->late ? "An earlier run was cancelled and ended"
				   : "The cancelled run before this one was ended");
	if (r == 0 && u->left.carried)
		return add_carried(b, &u->left, "had", "it");
	if (r < 0 || u->left.gone == 0)
		return r;
	r = buf_add_str(b, " The ");
	r = r < 0 ? r : extras_add_kinds(b, u->left.gone);
	return r < 0 ? r : buf_add_str(b, " of earlier runs were gone, too.");
}

static int add_behind(struct buf *b, const struct run_result *result)
{
	if (!result->left.behind)
		return 0;
	return buf_printf(b,
			  "%sBefore this run the process of the session had ended by itself: its "
			  "variables were again those from before the last run.",
			  b->len > 0 ? " " : "");
}

int extras_add_session(struct buf *b, const struct run_result *result)
{
	int r = add_undone(b, result);

	r = r < 0 ? r : add_gone(b, result);
	r = r < 0 ? r : add_behind(b, result);
	return r < 0 ? r : add_rested(b, result);
}
