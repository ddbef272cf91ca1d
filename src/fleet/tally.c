/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/tally.h"

#include "base/list.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/identity.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKET_USERS 4u /* of a full table */
#define MINUTE_MS    60000u
#define DAY_MS       UINT64_C(86400000)
#define ROW_NUMBERS  6u

enum kind { NOTHING, NO_SANDBOXES, SANDBOXES, KINDS };

struct entry {
	struct list node; /* of tally.all */
	struct list like; /* of tally.kinds */
	struct entry *next;
	uint64_t version;
	struct fleet_use use;
	char owner[FLEET_UUID_SIZE];
};

struct fleet_tally {
	struct list all;          /* struct entry, owned, by version */
	struct list kinds[KINDS]; /* the same entries, each list by version */
	struct entry **buckets;
	size_t n_buckets; /* a power of two: chains are short however large MAX is */
	uint8_t key[crypto_shorthash_KEYBYTES]; /* owners come from outside */
	size_t n, n_nothing, max;
	uint64_t version;
	uint64_t forgotten; /* the newest version of those that were taken out */
	bool
	    forgets; /* those who have nothing stay: others are to hear that they have nothing any more */
};

/* ---- sums ---- */

uint64_t fleet_use_day(uint64_t wall_ms)
{
	return wall_ms / DAY_MS;
}

uint64_t fleet_use_minute(uint64_t wall_ms)
{
	return wall_ms / MINUTE_MS;
}

static void add_window(uint64_t *when, uint64_t *sum, uint64_t when_more, uint64_t more)
{
	if (when_more < *when)
		return;
	*sum = when_more > *when ? more : *sum + more;
	*when = when_more;
}

static uint64_t less(uint64_t sum, uint64_t n)
{
	return sum > n ? sum - n : 0;
}

void fleet_use_add(struct fleet_use *sum, const struct fleet_use *more)
{
	sum->sandboxes += more->sandboxes;
	sum->disk_bytes += more->disk_bytes;
	add_window(&sum->day, &sum->cpu_us, more->day, more->cpu_us);
	add_window(&sum->minute, &sum->runs, more->minute, more->runs);
}

void fleet_use_subtract(struct fleet_use *sum, const struct fleet_use *n)
{
	sum->sandboxes = less(sum->sandboxes, n->sandboxes);
	sum->disk_bytes = less(sum->disk_bytes, n->disk_bytes);
	sum->cpu_us = sum->day == n->day ? less(sum->cpu_us, n->cpu_us) : sum->cpu_us;
	sum->runs = sum->minute == n->minute ? less(sum->runs, n->runs) : sum->runs;
}

/* ---- the table ---- */

static size_t bucket_of(const struct fleet_tally *t, const char *owner)
{
	uint8_t hash[crypto_shorthash_BYTES];
	uint32_t index;

	(void)crypto_shorthash(hash, (const uint8_t *)owner, strlen(owner), t->key);
	memcpy(&index, hash, sizeof(index));
	return index % t->n_buckets;
}

static struct entry *find(const struct fleet_tally *t, const char *owner)
{
	struct entry *x = t->n > 0 ? t->buckets[bucket_of(t, owner)] : NULL;

	while (x && !streq(x->owner, owner))
		x = x->next;
	return x;
}

static enum kind kind_of(const struct fleet_use *u)
{
	if (u->sandboxes > 0 || u->disk_bytes > 0)
		return SANDBOXES;
	return u->cpu_us > 0 || u->runs > 0 ? NO_SANDBOXES : NOTHING;
}

static void put(struct fleet_tally *t, struct entry *x, const struct fleet_use *use)
{
	x->use = *use;
	x->version = ++t->version;
	list_append(&t->all, &x->node);
	list_append(&t->kinds[kind_of(use)], &x->like);
	t->n_nothing += kind_of(use) == NOTHING;
}

static void take_out(struct fleet_tally *t, struct entry *x)
{
	list_remove(&x->node);
	list_remove(&x->like);
	t->n_nothing -= kind_of(&x->use) == NOTHING;
}

static void entry_free(struct fleet_tally *t, struct entry *x)
{
	struct entry **at = &t->buckets[bucket_of(t, x->owner)];

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	take_out(t, x);
	t->n--;
	free(x);
}

/* The user stays with nothing: routers have heard of more, and would count that without end. */
static void forget_one(struct fleet_tally *t)
{
	const enum kind kind = list_is_empty(&t->kinds[NO_SANDBOXES]) ? SANDBOXES : NO_SANDBOXES;
	struct entry *x = list_first(&t->kinds[kind], struct entry, like);

	if (!x)
		return;
	take_out(t, x);
	put(t, x, &(struct fleet_use){0});
}

/* As many as may have something may have nothing. */
static void drop_oldest(struct fleet_tally *t)
{
	struct entry *x = list_first(&t->kinds[NOTHING], struct entry, like);

	if (!x || t->n_nothing <= t->max)
		return;
	t->forgotten = x->version;
	entry_free(t, x);
}

static struct entry *entry_new(struct fleet_tally *t, const char *owner)
{
	struct entry *x = calloc(1, sizeof(*x));

	if (!x || text_copy(x->owner, sizeof(x->owner), owner) < 0) {
		free(x);
		return NULL;
	}
	struct entry **at = &t->buckets[bucket_of(t, owner)];
	x->next = *at;
	*at = x;
	list_init(&x->node);
	list_init(&x->like);
	t->n++;
	return x;
}

struct fleet_tally *fleet_tally_new(size_t max, bool forgets)
{
	struct fleet_tally *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	for (t->n_buckets = 1; t->n_buckets < max / BUCKET_USERS; t->n_buckets *= 2)
		;
	t->buckets = calloc(t->n_buckets, sizeof(struct entry *));
	if (!t->buckets) {
		free(t);
		return NULL;
	}
	list_init(&t->all);
	for (size_t i = 0; i < KINDS; i++)
		list_init(&t->kinds[i]);
	t->max = max;
	t->forgets = forgets;
	rand_bytes(t->key, sizeof(t->key));
	return t;
}

struct fleet_tally *fleet_tally_free(struct fleet_tally *t)
{
	if (!t)
		return NULL;
	list_for_each(node, &t->all) {
		list_remove(node);
		free(list_entry(node, struct entry, node));
	}
	free(t->buckets);
	free(t);
	return NULL;
}

struct fleet_use fleet_tally_get(const struct fleet_tally *t, const char *owner)
{
	const struct entry *x = find(t, owner);

	return x ? x->use : (struct fleet_use){0};
}

static bool same(const struct fleet_use *a, const struct fleet_use *b)
{
	return a->sandboxes == b->sandboxes && a->disk_bytes == b->disk_bytes && a->day == b->day &&
	       a->cpu_us == b->cpu_us && a->minute == b->minute && a->runs == b->runs;
}

bool fleet_tally_set(struct fleet_tally *t, const char *owner, const struct fleet_use *use)
{
	struct entry *x = find(t, owner);
	const bool nothing = kind_of(use) == NOTHING;
	const bool had_nothing = !x || kind_of(&x->use) == NOTHING;

	if (nothing ? had_nothing : x && same(use, &x->use))
		return true;
	if (nothing && !t->forgets) {
		entry_free(t, x);
		return true;
	}
	if (had_nothing && t->n - t->n_nothing >= t->max) {
		if (!t->forgets)
			return false;
		forget_one(t);
	}
	if (!x)
		x = entry_new(t, owner);
	else
		take_out(t, x);
	if (!x)
		return false;
	put(t, x, use);
	drop_oldest(t);
	return true;
}

bool fleet_tally_pop(struct fleet_tally *t, char ret_owner[FLEET_UUID_SIZE], struct fleet_use *ret)
{
	struct entry *x = list_first(&t->all, struct entry, node);

	if (!x)
		return false;
	memcpy(ret_owner, x->owner, sizeof(x->owner));
	*ret = x->use;
	entry_free(t, x);
	return true;
}

/* ---- the answer ---- */

static void write_version(uint64_t version, char ret[FLEET_VERSION_BUFFER])
{
	(void)snprintf(ret, FLEET_VERSION_BUFFER, "%016jx", (uintmax_t)version);
}

static uint64_t read_version(const char *digits)
{
	uint64_t version = 0;

	for (; *digits; digits++)
		version = version << 4 | (uint64_t)text_hex_digit(*digits);
	return version;
}

void fleet_tally_version(const struct fleet_tally *t, char ret[FLEET_VERSION_BUFFER])
{
	write_version(t->version, ret);
}

bool fleet_is_version(const char *text)
{
	return strlen(text) == FLEET_VERSION_DIGITS &&
	       strspn(text, "0123456789abcdef") == FLEET_VERSION_DIGITS;
}

/* The oldest change after VERSION; the head: there is none. */
static struct list *first_after(const struct fleet_tally *t, uint64_t version)
{
	struct list *at = t->all.prev;

	while (at != &t->all && list_entry(at, struct entry, node)->version > version)
		at = at->prev;
	return at->next;
}

static json_t *row_of(const struct entry *x)
{
	const struct fleet_use *u = &x->use;

	return json_pack("[s, I, I, I, I, I, I]", x->owner, (json_int_t)u->sandboxes,
			 (json_int_t)u->disk_bytes, (json_int_t)u->day, (json_int_t)u->cpu_us,
			 (json_int_t)u->minute, (json_int_t)u->runs);
}

json_t *fleet_tally_answer(const struct fleet_tally *t, const char *after)
{
	uint64_t version = after ? read_version(after) : 0;
	struct list *at = first_after(t, version);
	char text[FLEET_VERSION_BUFFER], forgotten[FLEET_VERSION_BUFFER];
	json_t *uses = json_array();
	int r = uses ? 0 : -1;

	for (unsigned i = 0; r == 0 && at != &t->all && i < FLEET_TALLY_PAGE; i++, at = at->next) {
		const struct entry *x = list_entry(at, struct entry, node);

		r = json_array_append_new(uses, row_of(x));
		version = x->version;
	}
	if (r < 0) {
		json_decref(uses);
		return NULL;
	}
	const bool more = at != &t->all;
	write_version(more ? version : t->version, text);
	write_version(t->forgotten, forgotten);
	return json_pack("{s:i, s:s, s:s, s:b, s:o}", "v", 1, "version", text, "forgotten",
			 forgotten, "more", more, "uses", uses);
}

bool fleet_use_read(const json_t *row, uint64_t now_ms, const char **ret_owner,
		    struct fleet_use *ret)
{
	const char *owner = json_string_value(json_array_get(row, 0));
	uint64_t n[ROW_NUMBERS];

	if (json_array_size(row) != ROW_NUMBERS + 1 || !owner || (*owner && !fleet_is_uuid(owner)))
		return false;
	for (size_t i = 0; i < ROW_NUMBERS; i++) {
		const json_t *value = json_array_get(row, i + 1);
		const json_int_t number = json_integer_value(value);

		if (!json_is_integer(value) || number < 0 || (uint64_t)number > FLEET_USE_MAX)
			return false;
		n[i] = (uint64_t)number;
	}
	if (n[0] > FLEET_USE_SANDBOXES)
		return false;
	*ret_owner = owner;
	*ret = (struct fleet_use){n[0], n[1], n[2], n[3], n[4], n[5]};
	/* A clock that is fast, or a lie: a later window would hide what other workers say of this one. */
	if (ret->day > fleet_use_day(now_ms))
		ret->day = ret->cpu_us = 0;
	if (ret->minute > fleet_use_minute(now_ms))
		ret->minute = ret->runs = 0;
	return true;
}
