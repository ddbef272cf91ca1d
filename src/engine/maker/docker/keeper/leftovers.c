/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that the daemon did not remove whole, because it did not answer, had an error, or still used a
 * volume for another container. Each is asked for again, first its container and then its volumes, until the
 * daemon has said of every part that it is gone. The front need not wait for that; what ran in them has ended,
 * because their channel has.
 *
 * If a call that makes a part had no answer, the daemon may still make it. Until that time has passed, "there is
 * no such part" is not the last word. */
#include "base/rand.h"
#include "base/text.h"
#include "engine/maker/docker/keeper/keeper.h"

#include <string.h>

#define LEFTOVERS_MUCH 256
#define AGAIN_NS       (250 * NS_PER_MS) /* doubles with each try … */
#define AGAIN_DOUBLE   5u                /* … this often: 8 s */
#define LATE_NS        (2 * CALL_S * NS_PER_S)
#define LAST_TRIES     5u /* at the end of the keeper */

static const char *const volumes[] = {"data", "venv"};

struct leftover {
	struct keeper *keeper;
	char name[KEEPER_NAME];
	bool used;
	bool left;      /* the daemon has not removed a part in this try */
	unsigned asked; /* answers that are due */
	unsigned tries;
	uint64_t at;   /* the next try */
	uint64_t late; /* until then the daemon may still make it; 0 = it does not */
};

/* Each sandbox that is there then may still come to it. */
static unsigned places(const struct keeper *k)
{
	return LEFTOVERS_MUCH + k->config->max_sandboxes;
}

bool leftovers_is_much(const struct keeper *k)
{
	return k->n_leftovers >= LEFTOVERS_MUCH;
}

static struct leftover *find(struct keeper *k, const char *name)
{
	struct leftover *unused = NULL;

	for (unsigned i = 0; i < places(k); i++) {
		struct leftover *d = &k->leftovers[i];
		if (d->used && streq(d->name, name))
			return d;
		if (!d->used && !unused)
			unused = d;
	}
	return unused;
}

void leftovers_add(struct keeper *k, const char *name, bool late)
{
	if (!k->leftovers)
		k->leftovers = calloc(places(k), sizeof(*k->leftovers));
	struct leftover *d = k->leftovers ? find(k, name) : NULL;
	if (!d)
		return;
	const uint64_t now = now_ns();
	if (!d->used) {
		*d = (struct leftover){.keeper = k, .used = true, .at = now + AGAIN_NS};
		(void)snprintf(d->name, sizeof(d->name), "%s", name);
		k->n_leftovers++;
	}
	d->late = late ? now + LATE_NS : d->late;
}

/* All parts have been asked for, or the first one could not be removed. */
static void end_try(struct leftover *d, bool answered)
{
	struct keeper *k = d->keeper;
	const uint64_t now = now_ns();
	/* At the end, a daemon that does not answer holds up nobody, and what is made later is not waited for: the
	 * next start removes it. */
	const bool again =
	    k->closing ? d->left && answered && d->tries < LAST_TRIES : d->left || now < d->late;

	if (!again) {
		d->used = false;
		k->n_leftovers--;
		return;
	}
	d->at = now + (AGAIN_NS << MIN(d->tries, AGAIN_DOUBLE));
	d->tries++;
}

static void on_volume(int status, const char *body, size_t len, void *user)
{
	struct leftover *d = user;

	(void)body, (void)len;
	d->left = d->left || !daemon_says_gone(status);
	if (--d->asked == 0)
		end_try(d, status != 0);
}

static void on_container(int status, const char *body, size_t len, void *user)
{
	struct leftover *d = user;
	char path[KEEPER_NAME + 32];

	(void)body, (void)len;
	d->left = !daemon_says_gone(status);
	if (d->left) {
		d->asked = 0;
		end_try(d, status != 0);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(volumes); i++) {
		(void)snprintf(path, sizeof(path), "/volumes/%s-%s", d->name, volumes[i]);
		if (daemon_start(d->keeper->daemon, "DELETE", path, NULL, CALL_S, on_volume, d) < 0)
			d->left = true;
		else
			d->asked++;
	}
	on_volume(204, NULL, 0, d); /* the container's own answer */
}

static void ask(struct leftover *d)
{
	char path[KEEPER_NAME + 64];

	(void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", d->name);
	d->asked = 1;
	if (daemon_start(d->keeper->daemon, "DELETE", path, NULL, CALL_S, on_container, d) < 0)
		on_container(0, NULL, 0, d);
}

void leftovers_tick(struct keeper *k, uint64_t now)
{
	for (unsigned i = 0; k->n_leftovers > 0 && i < places(k); i++) {
		struct leftover *d = &k->leftovers[i];
		if (d->used && d->asked == 0 && now >= d->at)
			ask(d);
	}
}

void leftovers_hurry(struct keeper *k)
{
	for (unsigned i = 0; k->n_leftovers > 0 && i < places(k); i++)
		k->leftovers[i].at = k->leftovers[i].tries = 0;
}
