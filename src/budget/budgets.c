/* SPDX-License-Identifier: Apache-2.0 */
#include "budget/budgets.h"

#include "base/list.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define BUCKETS     1024u /* a power of two */
#define PARTS       8     /* one of so many is for administrators, one for those who have little */
#define SMALL_SHARE 1024  /* little is the total divided by this, and at least 1 */

/* Everything that one principal has. It is freed when that is nothing. */
struct budget_account {
	struct list node; /* of its bucket */
	struct budgets *budgets;
	uint64_t used[BUDGET_KINDS];
	unsigned n_shares;
	char principal[BUDGET_PRINCIPAL_SIZE];
};

struct budgets {
	struct budgets_config config;
	struct budget_bounds bounds[BUDGET_KINDS];
	uint64_t used[BUDGET_KINDS];
	uint64_t refused[BUDGET_KINDS];
	uint8_t secret[crypto_shorthash_KEYBYTES]; /* clients cannot choose their bucket */
	struct list buckets[BUCKETS];
};

static const struct {
	const char *word, *unit;
	struct budget_bounds bounds;
} rows[BUDGET_KINDS] = {
#define B(name, word, unit, each, total, stranger, meaning)                                        \
	[BUDGET_##name] = {word, unit, {each, total, stranger}},
#include "budget/budgets.tbl.h"
#undef B
};

/* ---- accounts ---- */

static struct list *bucket_of(const struct budgets *b, const char *principal)
{
	uint64_t hash;

	_Static_assert(sizeof(hash) == crypto_shorthash_BYTES, "a hash is 64 bits");
	(void)crypto_shorthash((uint8_t *)&hash, (const uint8_t *)principal, strlen(principal),
			       b->secret);
	return (struct list *)(uintptr_t)&b->buckets[hash & (BUCKETS - 1)];
}

static struct budget_account *account_find(const struct budgets *b, const char *principal)
{
	list_for_each(node, bucket_of(b, principal)) {
		struct budget_account *a = list_entry(node, struct budget_account, node);

		if (streq(a->principal, principal))
			return a;
	}
	return NULL;
}

static struct budget_account *account_need(struct budgets *b, const char *principal)
{
	struct budget_account *a = account_find(b, principal);

	if (a || strlen(principal) >= BUDGET_PRINCIPAL_SIZE)
		return a;
	a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->budgets = b;
	(void)snprintf(a->principal, sizeof(a->principal), "%s", principal);
	list_prepend(bucket_of(b, principal), &a->node);
	return a;
}

static void account_drop(struct budget_account *a)
{
	if (a->n_shares > 0)
		return;
	list_remove(&a->node);
	free(a);
}

/* ---- bounds ---- */

static bool is_stranger(const char *principal)
{
	return text_starts_with(principal, BUDGET_STRANGER);
}

/* Not one person: nobody else could be shut out, or who it is will be known later. */
static bool is_everybody(const char *principal)
{
	return !*principal || streq(principal, BUDGET_LOCAL);
}

static bool is_privileged(const struct budgets *b, const char *principal)
{
	if (is_everybody(principal))
		return true;
	return !is_stranger(principal) && b->config.is_admin &&
	       b->config.is_admin(principal, b->config.user);
}

static uint64_t own_bound(const struct budgets *b, const char *principal, enum budget_kind kind)
{
	const struct budget_bounds *bounds = &b->bounds[kind];

	return is_stranger(principal) && bounds->stranger > 0 ? MIN(bounds->stranger, bounds->each)
							      : bounds->each;
}

/* For administrators; of a small total it is one, as long as something is left for the others. */
static uint64_t reserve_of(uint64_t total)
{
	return MAX(total / PARTS, (uint64_t)(total > 1));
}

uint64_t budget_reserve(const struct budgets *b, enum budget_kind kind)
{
	return reserve_of(b->bounds[kind].total);
}

static int refuse(struct budgets *b, const struct budget_account *a, enum budget_kind kind,
		  bool own, struct err *e)
{
	b->refused[kind]++;
	if (own)
		(void)err_set(e, ERR_BUDGET_EXCEEDED, 0,
			      "You have %ju of the %ju %s (%s) that one user may have",
			      (uintmax_t)a->used[kind], (uintmax_t)own_bound(b, a->principal, kind),
			      rows[kind].unit, rows[kind].word);
	else
		(void)err_set(
		    e, ERR_BUDGET_EXCEEDED, 0,
		    "You have %ju %s (%s); what is left of the %ju of this server is for others",
		    (uintmax_t)a->used[kind], rows[kind].unit, rows[kind].word,
		    (uintmax_t)b->bounds[kind].total);
	return -EDQUOT;
}

/* May PRINCIPAL have OWN, when all users together then have ALL? */
static bool fits_in(const struct budgets *b, const char *principal, enum budget_kind kind,
		    uint64_t own, uint64_t all)
{
	uint64_t total = b->bounds[kind].total, reserve = reserve_of(total);
	uint64_t shared = total - reserve - total / PARTS;
	bool fair = all <= shared && own <= (shared + 1) / 2;
	bool small = all <= total - reserve && own <= MAX(total / SMALL_SHARE, UINT64_C(1));

	if (own <= own_bound(b, principal, kind) && (fair || small))
		return true;
	/* One administrator leaves the reserve to the others, and its part to those who have little. */
	return all <= total && (own <= shared || total < PARTS || is_everybody(principal)) &&
	       is_privileged(b, principal);
}

/* May PRINCIPAL, who has USED, have N more? Numbers of clients never come near 2^62, so the sums cannot overflow. */
static bool fits(const struct budgets *b, const char *principal, uint64_t used,
		 enum budget_kind kind, uint64_t n)
{
	return fits_in(b, principal, kind, used + n, b->used[kind] + n);
}

static int check(struct budgets *b, const struct budget_account *a, enum budget_kind kind,
		 uint64_t n, struct err *e)
{
	if (fits(b, a->principal, a->used[kind], kind, n))
		return 0;
	return refuse(b, a, kind, a->used[kind] + n > own_bound(b, a->principal, kind), e);
}

static void add(struct budget_account *a, enum budget_kind kind, uint64_t n)
{
	a->used[kind] += n;
	a->budgets->used[kind] += n;
}

static void subtract(struct budget_account *a, enum budget_kind kind, uint64_t n)
{
	ASSERT(a->used[kind] >= n);
	a->used[kind] -= n;
	a->budgets->used[kind] -= n;
}

/* ---- shares ---- */

/* BOUND: within the bounds. */
static int set_share(struct budgets *b, const char *principal, enum budget_kind kind, uint64_t n,
		     bool bound, struct budget_share *share, struct err *e)
{
	struct budget_share old = *share;
	struct budget_account *a;
	int r = 0;

	if (!b)
		return 0;
	ASSERT(!old.account || old.kind == kind);
	a = old.account && streq(old.account->principal, principal) ? old.account
								    : account_need(b, principal);
	if (!a)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a budget");
	/* What SHARE has is given back first: it does not count twice, and the last of the pool can
	 * change hands. */
	if (old.account)
		subtract(old.account, kind, old.n);
	if (bound && (a != old.account || n > old.n))
		r = check(b, a, kind, n, e);
	if (r < 0) {
		if (old.account)
			add(old.account, kind, old.n);
		account_drop(a);
		return r;
	}
	*share = (struct budget_share){.account = a, .kind = kind, .n = n};
	a->n_shares++;
	add(a, kind, n);
	if (old.account) {
		old.account->n_shares--;
		account_drop(old.account);
	}
	return 0;
}

int budget_take(struct budgets *b, const char *principal, enum budget_kind kind, uint64_t n,
		struct budget_share *share, struct err *e)
{
	return set_share(b, principal, kind, n, true, share, e);
}

void budget_note(struct budgets *b, const char *principal, enum budget_kind kind, uint64_t n,
		 struct budget_share *share)
{
	struct err ignored = ERR_INIT;

	/* Without memory for an account it is not counted. */
	(void)!set_share(b, principal, kind, n, false, share, &ignored);
}

void budget_give(struct budget_share *share)
{
	struct budget_account *a = share->account;

	if (!a)
		return;
	subtract(a, share->kind, share->n);
	a->n_shares--;
	account_drop(a);
	*share = (struct budget_share){0};
}

bool budget_is_full(const struct budgets *b, const char *principal, enum budget_kind kind)
{
	const struct budget_account *a = b ? account_find(b, principal) : NULL;

	return a && !is_privileged(b, principal) && a->used[kind] >= own_bound(b, principal, kind);
}

bool budget_fits(const struct budgets *b, const char *principal, enum budget_kind kind, uint64_t n)
{
	return !b || fits(b, principal, budget_used_by(b, principal, kind), kind, n);
}

bool budget_fits_instead(const struct budgets *b, const char *principal, enum budget_kind kind,
			 uint64_t n)
{
	if (!b)
		return true;
	const uint64_t used = budget_used_by(b, principal, kind);
	const uint64_t others = b->used[kind] - used;

	return fits_in(b, principal, kind, used + n, used + n + others - MIN(others, n));
}

/* ---- life ---- */

struct budgets *budgets_new(const struct budgets_config *config)
{
	struct budgets *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->config = *config;
	for (size_t i = 0; i < BUDGET_KINDS; i++)
		b->bounds[i] = rows[i].bounds;
	rand_bytes(b->secret, sizeof(b->secret));
	for (size_t i = 0; i < BUCKETS; i++)
		list_init(&b->buckets[i]);
	return b;
}

struct budgets *budgets_free(struct budgets *b)
{
	if (!b)
		return NULL;
	for (size_t i = 0; i < BUCKETS; i++)
		list_for_each(node, &b->buckets[i])
			free(list_entry(node, struct budget_account, node));
	free(b);
	return NULL;
}

void budgets_set(struct budgets *b, enum budget_kind kind, const struct budget_bounds *bounds)
{
	struct budget_bounds *now = &b->bounds[kind];

	now->each = bounds->each ? bounds->each : now->each;
	now->total = bounds->total ? bounds->total : now->total;
	now->stranger = bounds->stranger ? bounds->stranger : now->stranger;
}

/* Reads "streams=64" or "streams=64/1000". */
static int parse_one(struct budgets *b, const char *text, size_t len, struct err *e)
{
	const char *equals = memchr(text, '=', len);
	const char *slash = memchr(text, '/', len), *end = text + len;
	size_t n_word = equals ? (size_t)(equals - text) : len;
	struct budget_bounds bounds = {0};
	size_t kind = 0;

	while (kind < BUDGET_KINDS &&
	       (strlen(rows[kind].word) != n_word || memcmp(rows[kind].word, text, n_word) != 0))
		kind++;
	if (kind == BUDGET_KINDS || !equals ||
	    parse_u64_n(equals + 1, (size_t)((slash ? slash : end) - equals - 1), 1, INT64_MAX / 2,
			&bounds.each) < 0 ||
	    (slash && parse_u64_n(slash + 1, (size_t)(end - slash - 1), 1, INT64_MAX / 2,
				  &bounds.total) < 0))
		return err_set(
		    e, ERR_SETTING_INVALID, 0,
		    "'%.*s' is no budget; a budget is NAME=EACH or NAME=EACH/TOTAL, with a "
		    "name of docs/budgets.md and whole numbers from 1",
		    (int)MIN(len, (size_t)100), text);
	if (b)
		budgets_set(b, (enum budget_kind)kind, &bounds);
	return 0;
}

int budgets_parse(struct budgets *b, const char *text, struct err *e)
{
	int r = 0;

	while (r == 0 && *text) {
		size_t len = strcspn(text, ", ");

		if (len > 0)
			r = parse_one(b, text, len, e);
		text += len;
		text += strspn(text, ", ");
	}
	return r;
}

/* ---- for figures ---- */

const char *budget_word(enum budget_kind kind)
{
	return rows[kind].word;
}

struct budget_bounds budget_default(enum budget_kind kind)
{
	return rows[kind].bounds;
}

struct budget_bounds budget_bounds(const struct budgets *b, enum budget_kind kind)
{
	return b->bounds[kind];
}

uint64_t budget_used(const struct budgets *b, enum budget_kind kind)
{
	return b->used[kind];
}

uint64_t budget_used_by(const struct budgets *b, const char *principal, enum budget_kind kind)
{
	const struct budget_account *a = b ? account_find(b, principal) : NULL;

	return a ? a->used[kind] : 0;
}

uint64_t budget_refused(const struct budgets *b, enum budget_kind kind)
{
	return b->refused[kind];
}

void budgets_each(const struct budgets *b,
		  void (*fn)(const char *principal, const uint64_t *used, void *user), void *user)
{
	for (size_t i = 0; i < BUCKETS; i++)
		list_for_each(node, &b->buckets[i]) {
			const struct budget_account *a =
			    list_entry(node, struct budget_account, node);

			fn(a->principal, a->used, user);
		}
}
