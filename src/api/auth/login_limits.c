/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth/login_limits.h"

#include "base/rand.h"
#include "base/text.h"

#include <ctype.h>
#include <sodium.h>
#include <string.h>

#define SLOTS        4096u
#define KEY_SIZE     512u
#define FORGET_NS    (12 * NS_PER_S) /* time in which one wrong password is forgotten */
#define WAIT_MAX_NS  (8 * NS_PER_S)  /* a login that would wait longer is refused at once */
#define DOUBLED_MAX  2u              /* how often a step can double */
#define SECRET_BYTES crypto_shorthash_KEYBYTES

enum kind {
	KIND_NAME,    /* one name, from networks without a login of it */
	KIND_NETWORK, /* one network, for any name */
	KIND_PAIR,    /* one name, from a network with an earlier login of it */
	KIND_DEVICE,  /* one name, from a browser with an earlier login of it */
	KIND_FIRST,   /* one name from one network: when it came last; no rule */
	KIND_MAX_,
};

static const struct rule {
	unsigned free;    /* wrong passwords without a wait */
	uint64_t step_ns; /* time between two checks after that */
	bool doubles;     /* the step doubles with further wrong passwords */
} rules[KIND_FIRST] = {
    [KIND_NAME] = {5, 500 * NS_PER_MS, true},
    [KIND_NETWORK] = {30, 200 * NS_PER_MS, false},
    [KIND_PAIR] = {5, 500 * NS_PER_MS, true},
    [KIND_DEVICE] = {5, 500 * NS_PER_MS, true},
};

struct slot {
	unsigned wrong;
	uint64_t since_ns; /* FORGET_NS later the oldest one is forgotten */
	uint64_t next_ns;  /* when the next check may begin */
};

struct login_limits {
	uint8_t secret[SECRET_BYTES];
	struct slot slots[SLOTS];
	uint64_t tried[SLOTS]; /* when a login of this name came last from this network */
	uint64_t known[SLOTS]; /* full hashes of name and network of earlier logins; 0 = free */
};

struct login_limits *login_limits_new(void)
{
	struct login_limits *l = calloc(1, sizeof(*l));

	if (l)
		rand_bytes(l->secret, sizeof(l->secret));
	return l;
}

struct login_limits *login_limits_free(struct login_limits *l)
{
	free(l);
	return NULL;
}

static uint64_t hash_of(const struct login_limits *l, enum kind kind, const char *network,
			const char *name)
{
	char text[KEY_SIZE];
	uint64_t hash;
	int n = snprintf(text, sizeof(text), "%d/%s/%s", (int)kind, network, name);
	size_t len = MIN((size_t)MAX(n, 0), sizeof(text) - 1);

	_Static_assert(sizeof(hash) == crypto_shorthash_BYTES, "a hash is 64 bits");
	for (size_t i = 0; i < len; i++)
		text[i] = (char)tolower((unsigned char)text[i]);
	(void)crypto_shorthash((uint8_t *)&hash, (const uint8_t *)text, len, l->secret);
	return hash ? hash : 1;
}

static uint64_t pair_of(const struct login_limits *l, const struct login_source *who)
{
	return hash_of(l, KIND_PAIR, who->network, who->name);
}

bool login_limits_knows(struct login_limits *l, const struct login_source *who)
{
	uint64_t hash = pair_of(l, who);

	if (who->device[0])
		return true;
	return l->known[hash % SLOTS] == hash;
}

static struct slot *slot_of(struct login_limits *l, uint64_t hash, uint64_t now)
{
	struct slot *s = &l->slots[hash % SLOTS];
	uint64_t forgotten = s->wrong > 0 ? (now - s->since_ns) / FORGET_NS : 0;

	if (forgotten >= s->wrong)
		s->wrong = 0;
	else
		s->wrong -= (unsigned)forgotten;
	s->since_ns += forgotten * FORGET_NS;
	return s;
}

/* Finds the slots and rules that count for WHO; returns how many. */
static size_t slots_for(struct login_limits *l, const struct login_source *who, uint64_t now,
			struct slot *ret[2], const struct rule *ret_rules[2])
{
	size_t n = 0;
	bool known_network = who->network[0] != '\0';

	if (who->device[0]) {
		ret_rules[0] = &rules[KIND_DEVICE];
		ret[0] = slot_of(l, hash_of(l, KIND_DEVICE, who->device, who->name), now);
		return 1;
	}
	enum kind kind = known_network && login_limits_knows(l, who) ? KIND_PAIR : KIND_NAME;

	ret_rules[n] = &rules[kind];
	uint64_t hash = kind == KIND_PAIR ? pair_of(l, who) : hash_of(l, KIND_NAME, "", who->name);
	ret[n++] = slot_of(l, hash, now);
	if (known_network && kind != KIND_PAIR) {
		ret_rules[n] = &rules[KIND_NETWORK];
		ret[n++] = slot_of(l, hash_of(l, KIND_NETWORK, who->network, ""), now);
	}
	return n;
}

static uint64_t step_of(const struct slot *s, const struct rule *rule)
{
	return rule->doubles ? rule->step_ns << MIN(s->wrong - rule->free, DOUBLED_MAX)
			     : rule->step_ns;
}

/* Is this the first login of the name from its network for a while? Remembers it. */
static bool is_first(struct login_limits *l, const struct login_source *who, uint64_t now)
{
	uint64_t *tried = &l->tried[hash_of(l, KIND_FIRST, who->network, who->name) % SLOTS];
	bool first = who->network[0] && (*tried == 0 || now - *tried > FORGET_NS);

	*tried = now;
	return first;
}

int64_t login_limits_wait(struct login_limits *l, const struct login_source *who, uint64_t now)
{
	const struct rule *rule[2];
	struct slot *slots[2];
	size_t n = slots_for(l, who, now, slots, rule);
	bool first = is_first(l, who, now);
	uint64_t begin = now;

	for (size_t i = 0; i < n; i++) {
		if (slots[i]->wrong < rule[i]->free)
			continue;
		uint64_t soon = now + step_of(slots[i], rule[i]);
		/* Others who try this name do not take its place. */
		if (first && i == 0 && slots[i]->next_ns > now + WAIT_MAX_NS)
			begin = MAX(begin, soon);
		else
			begin = MAX(begin, MAX(slots[i]->next_ns, soon));
	}
	if (begin - now > WAIT_MAX_NS)
		return -EAGAIN;
	for (size_t i = 0; i < n; i++)
		if (slots[i]->wrong >= rule[i]->free)
			slots[i]->next_ns =
			    MAX(slots[i]->next_ns, begin + step_of(slots[i], rule[i]));
	return (int64_t)(begin - now);
}

uint64_t login_limits_from(const struct login_limits *l, const struct login_source *who, bool known)
{
	if (who->device[0])
		return hash_of(l, KIND_DEVICE, who->device, who->name);
	return known || !who->network[0] ? hash_of(l, KIND_NAME, "", who->name)
					 : hash_of(l, KIND_NETWORK, who->network, "");
}

bool login_limits_over(struct login_limits *l, const struct login_source *who, uint64_t now)
{
	const struct rule *rule[2];
	struct slot *slots[2];
	size_t n = slots_for(l, who, now, slots, rule);

	for (size_t i = 0; i < n; i++)
		if (slots[i]->wrong >= rule[i]->free)
			return true;
	return false;
}

void login_limits_note(struct login_limits *l, const struct login_source *who, bool right,
		       uint64_t now)
{
	const struct rule *rule[2];
	struct slot *slots[2];
	uint64_t pair = pair_of(l, who);

	if (right) {
		l->known[pair % SLOTS] = pair;
		return;
	}
	size_t n = slots_for(l, who, now, slots, rule);
	for (size_t i = 0; i < n; i++) {
		if (slots[i]->wrong++ == 0)
			slots[i]->since_ns = now;
		/* A higher count would not lengthen the wait, it would only be remembered longer.
		 */
		slots[i]->wrong = MIN(slots[i]->wrong, rule[i]->free + DOUBLED_MAX);
	}
}
