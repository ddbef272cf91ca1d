/* SPDX-License-Identifier: Apache-2.0 */
/* Containers that the daemon did not remove, because it did not answer or had an error: they are asked
 * for again every few seconds. The front need not wait for that; what ran in them has ended, because
 * their channel has. */
#include "base/rand.h"
#include "engine/docker/keeper/keeper.h"

#include <string.h>

#define DEBRIS_MAX 256 /* more are left to the next start */
#define AGAIN_NS   (5 * NS_PER_S)

struct debris {
	struct keeper *keeper;
	char name[KEEPER_NAME];
	bool used;
	bool asked; /* an answer is due */
};

void debris_add(struct keeper *k, const char *name)
{
	if (!k->debris)
		k->debris = calloc(DEBRIS_MAX, sizeof(*k->debris));
	for (unsigned i = 0; k->debris && i < DEBRIS_MAX; i++) {
		struct debris *d = &k->debris[i];
		if (d->used)
			continue;
		*d = (struct debris){.keeper = k, .used = true};
		(void)snprintf(d->name, sizeof(d->name), "%s", name);
		k->debris_n++;
		if (k->debris_at == 0)
			k->debris_at = now_ns() + AGAIN_NS;
		return;
	}
}

static void on_volume(int status, const char *body, size_t len, void *user)
{
	(void)status, (void)body, (void)len, (void)user; /* the next start looks again */
}

static void on_removed(int status, const char *body, size_t len, void *user)
{
	struct debris *d = user;
	struct keeper *k = d->keeper;
	char path[KEEPER_NAME + 32];
	static const char *const volumes[] = {"data", "venv"};

	(void)body, (void)len;
	d->asked = false;
	if (status == 0 || (status >= 400 && status != 404))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(volumes); i++) {
		(void)snprintf(path, sizeof(path), "/volumes/%s-%s", d->name, volumes[i]);
		(void)!daemon_start(k->daemon, "DELETE", path, NULL, CALL_S, on_volume, k);
	}
	d->used = false;
	k->debris_n--;
}

void debris_tick(struct keeper *k, uint64_t now)
{
	char path[KEEPER_NAME + 64];

	if (k->debris_at == 0 || now < k->debris_at)
		return;
	k->debris_at = 0;
	for (unsigned i = 0; i < DEBRIS_MAX && k->debris_n > 0; i++) {
		struct debris *d = &k->debris[i];
		if (!d->used || d->asked)
			continue;
		(void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", d->name);
		d->asked =
		    daemon_start(k->daemon, "DELETE", path, NULL, CALL_S, on_removed, d) == 0;
	}
	if (k->debris_n > 0)
		k->debris_at = now + AGAIN_NS;
}
