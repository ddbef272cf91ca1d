/* SPDX-License-Identifier: Apache-2.0 */
/* Users who are being removed. A request that was let in before may still ask for a sandbox, or a sandbox may be
 * half made when those of its owner are deleted. Nobody could end it later, so none is made or kept.
 *
 * The owners are remembered until the server ends: ids of users are never used again, and only an
 * administrator removes them. */
#include "base/text.h"
#include "sandbox/manager.h"

#include <string.h>

struct removed_owner {
	struct list node; /* of manager.removed */
	char owner[SANDBOX_OWNER_MAX + 1];
};

static struct removed_owner *find(const struct manager *m, const char *owner)
{
	list_for_each(l, &m->removed) {
		struct removed_owner *o = list_entry(l, struct removed_owner, node);

		if (streq(o->owner, owner))
			return o;
	}
	return NULL;
}

static void forget(struct removed_owner *o)
{
	list_remove(&o->node);
	free(o);
}

int manager_check_owner(const struct manager *m, const char *owner, struct err *e)
{
	return find(m, owner) ? err_set(e, ERR_UNAUTHORIZED, EPERM, "the user has been removed")
			      : 0;
}

int manager_close_owner(struct manager *m, const char *owner, struct err *e)
{
	if (find(m, owner))
		return 0;
	struct removed_owner *o = calloc(1, sizeof(*o));
	if (!o)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "removing a user");
	(void)snprintf(o->owner, sizeof(o->owner), "%s", owner);
	list_append(&m->removed, &o->node);
	/* manager_each() shows no lost ones. Those that are being made go in sandbox_open.c. */
	for (size_t i = 0; i < MANAGER_BUCKETS; i++)
		list_for_each(l, &m->buckets[i]) {
			struct sandbox *s = list_entry(l, struct sandbox, node);
			struct err ignored = ERR_INIT;

			if (s->state == SANDBOX_LOST && streq(s->owner, owner))
				(void)!sandbox_drop(s, NULL, NULL, &ignored);
		}
	return 0;
}

void manager_reopen_owner(struct manager *m, const char *owner)
{
	struct removed_owner *o = find(m, owner);

	if (o)
		forget(o);
}

void manager_forget_owners(struct manager *m)
{
	list_for_each(l, &m->removed)
		forget(list_entry(l, struct removed_owner, node));
}
