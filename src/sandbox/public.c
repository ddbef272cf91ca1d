/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes whose ports are open to everybody: which may be, how they are found, and how many requests they get. */
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"
#include "sandbox/manager.h"

#include <sodium.h>
#include <string.h>

static int refuse_public(struct err *e, const char *why)
{
	(void)err_set(e, ERR_FORBIDDEN, 0, "'public': %s", why);
	return err_set_member(e, sandbox_option_rows[SANDBOX_OPTION_PUBLIC].member);
}

int sandbox_check_public(const struct manager *m, const struct sandbox_options *o, struct err *e)
{
	if (m->config.public_ports || !sandbox_option_given(o, SANDBOX_OPTION_PUBLIC) ||
	    !o->number[SANDBOX_OPTION_PUBLIC])
		return 0;
	return refuse_public(e, "this server has no public ports. The operator can permit them "
				"with SANDBOX_PUBLIC_PORTS.");
}

bool manager_options_public(const struct manager *m, const struct sandbox_options *o)
{
	return m->config.public_ports && sandbox_option_given(o, SANDBOX_OPTION_PUBLIC) &&
	       o->number[SANDBOX_OPTION_PUBLIC] > 0;
}

bool sandbox_is_public(const struct sandbox *s)
{
	return manager_options_public(s->manager, &s->options);
}

/* Nobody may find a public sandbox by trying names, or take over the name of one that has ended. */
int sandbox_refuse_guessable(struct err *e)
{
	return refuse_public(e, "a client chose the id of this sandbox, so its address could be "
				"guessed. Make another sandbox, without an id.");
}

/* A stranger does not know the owner, so every bucket is looked through. Ids that were made here are never the same. */
struct sandbox *manager_find_public(struct manager *m, const char *id)
{
	for (size_t i = 0; m->config.public_ports && i < MANAGER_BUCKETS; i++)
		list_for_each(l, &m->buckets[i]) {
			struct sandbox *s = list_entry(l, struct sandbox, node);

			if (s->state == SANDBOX_READY && streq(s->id, id) &&
			    (sandbox_is_public(s) || !wall_stands(WALL_MARKED)))
				return s;
		}
	return NULL;
}

void sandbox_note_own_id(struct sandbox *s)
{
	s->own_id = true;
}

/* Two networks that share a counter for a second may get too little then. Which ones do, nobody can choose: the key is secret, and new
 * in each second. */
static uint8_t *counter_of(struct sandbox_strangers *t, const char *network)
{
	uint8_t hash[crypto_shorthash_BYTES];

	crypto_shorthash(hash, (const unsigned char *)network, strlen(network), t->key);
	return &t->by_network[hash[0] % ARRAY_SIZE(t->by_network)];
}

int sandbox_admit_stranger(struct sandbox *s, const char *network, struct err *e)
{
	struct sandbox_strangers *t = &s->strangers;
	const uint64_t now = manager_now(s->manager);

	if (now - t->since_ns >= NS_PER_S) {
		*t = (struct sandbox_strangers){.since_ns = now};
		rand_bytes(t->key, sizeof(t->key));
	}
	uint8_t *own = counter_of(t, network);
	if (t->n >= SANDBOX_STRANGERS_PER_S)
		return err_set(e, ERR_RATE_LIMITED, 0,
			       "this server has got more than %u requests of the public within a "
			       "second",
			       SANDBOX_STRANGERS_PER_S);
	if (*network && *own >= SANDBOX_STRANGER_PER_S)
		return err_set(e, ERR_RATE_LIMITED, 0,
			       "this server has got more than %u requests of your address within a "
			       "second",
			       SANDBOX_STRANGER_PER_S);
	t->n++;
	if (*network)
		++*own;
	return 0;
}
