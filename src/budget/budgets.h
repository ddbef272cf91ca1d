/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets: how much of each thing that runs out one user may have, and all users together. The things
 * are the rows of budgets.tbl.h.
 *
 * A user never gets more than `each`. Within that:
 *   - Three quarters of the total are shared. One user gets at most half of them.
 *   - An eighth is for users who have little: at most a 1024th of the total, or one. Greedy users cannot
 *     shut out those who come later.
 *   - An eighth is the reserve: for administrators alone.
 * Of a total below 8 the reserve is one, of a total of 1 nothing; there is no part for users who have little.
 * An administrator gets at most three quarters of the total, whatever `each` is, and of a total below 8 all
 * of it. The local user "", who is everybody on a server without authentication, and BUDGET_LOCAL are bound
 * by the total alone.
 *
 * Who a client is: a user is named by the id that owns its sandboxes, a client that is not identified
 * yet by BUDGET_STRANGER and its network.
 *
 * Ownership: who has something has the struct budget_share for it, and gives it back. A share of zeros
 * is empty. Not for several threads. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum budget_kind {
#define B(name, word, unit, each, total, stranger, meaning) BUDGET_##name,
#include "budget/budgets.tbl.h"
#undef B
	BUDGET_KINDS,
};

#define BUDGET_PRINCIPAL_SIZE 72
#define BUDGET_STRANGER       "@"
#define BUDGET_LOCAL          "@local" /* strangers on this machine and behind trusted proxies */
#define BUDGET_RETRY_S        10       /* what clients over a bound are told to wait */

struct budget_bounds {
	uint64_t each, total, stranger;
};

struct budgets;
struct budget_account;

struct budget_share {
	struct budget_account *account; /* NULL: the share is empty */
	enum budget_kind kind;
	uint64_t n;
};

struct budgets_config {
	/* Is PRINCIPAL an administrator? Asked only if the bounds of others do not suffice. NULL: nobody
	 * but the local user is one. */
	bool (*is_admin)(const char *principal, void *user);
	void *user;
};

/* The bounds are those of the table. NULL: no memory. */
struct budgets *budgets_new(const struct budgets_config *config);
/* No share may be used afterwards. NULL is fine. */
struct budgets *budgets_free(struct budgets *b);
/* For totals that a setting of their own says. 0 leaves a bound as it is. */
void budgets_set(struct budgets *b, enum budget_kind kind, const struct budget_bounds *bounds);
/* TEXT is that of SANDBOX_BUDGETS: "streams=64, tasks=16/400" (each, or each and total). B may be NULL,
 * to check the text. */
int budgets_parse(struct budgets *b, const char *text, struct err *e) MUST_CHECK;

/* Makes SHARE be N of KIND for PRINCIPAL, whatever it was before. BUDGET_EXCEEDED, OUT_OF_MEMORY: SHARE is
 * unchanged. B NULL: nothing is bound, and SHARE stays empty. */
int budget_take(struct budgets *b, const char *principal, enum budget_kind kind, uint64_t n,
		struct budget_share *share, struct err *e) MUST_CHECK;
/* As budget_take(), but beyond any bound: for what exists already. */
void budget_note(struct budgets *b, const char *principal, enum budget_kind kind, uint64_t n,
		 struct budget_share *share);
/* Gives everything back. SHARE is empty then. */
void budget_give(struct budget_share *share);
/* Would budget_take() give PRINCIPAL N more? Nobody is counted as refused. B NULL: yes. */
bool budget_fits(const struct budgets *b, const char *principal, enum budget_kind kind, uint64_t n);
/* The same if others gave back as much. */
bool budget_fits_instead(const struct budgets *b, const char *principal, enum budget_kind kind,
			 uint64_t n);
/* Has PRINCIPAL as much as it may have, or more? */
bool budget_is_full(const struct budgets *b, const char *principal, enum budget_kind kind);

/* ---- for figures ---- */

const char *budget_word(enum budget_kind kind);
/* The bounds of the table. */
struct budget_bounds budget_default(enum budget_kind kind);
struct budget_bounds budget_bounds(const struct budgets *b, enum budget_kind kind);
uint64_t budget_reserve(const struct budgets *b, enum budget_kind kind);
uint64_t budget_used(const struct budgets *b, enum budget_kind kind);
uint64_t budget_used_by(const struct budgets *b, const char *principal, enum budget_kind kind);
/* How often somebody was refused. */
uint64_t budget_refused(const struct budgets *b, enum budget_kind kind);
/* Calls FN for everybody who has something; USED has BUDGET_KINDS numbers. */
void budgets_each(const struct budgets *b,
		  void (*fn)(const char *principal, const uint64_t *used, void *user), void *user);
