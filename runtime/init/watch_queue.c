/* SPDX-License-Identifier: Apache-2.0 */
/* What a watch has to tell. Each path is there once for each kind of change, at the place of the last one: so many writes
 * are one, and a name that comes and goes ends with what it is. Beyond a bound all is forgotten, and one flag says so. */
#include "watch.h"

#include <stdlib.h>
#include <string.h>

#define CHANGES_MAX 8192U

struct change {
	struct list node; /* of the watch */
	struct change *next;
	uint32_t hash;
	uint8_t kind;
	bool folder;
	size_t size; /* of the path, with its NUL */
	char path[];
};

uint32_t watch_hash(uint32_t seed, const char *text, size_t n)
{
	uint32_t h = seed ^ 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < n; i++)
		h = (h ^ (uint8_t)text[i]) * 16777619u;
	return h;
}

static void forget(struct watch *w, struct change *c)
{
	struct change **at = &w->by_path[c->hash % WATCH_BUCKETS];

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	list_remove(&c->node);
	w->n_changes--;
	free(c);
}

void watch_overflow(struct watch *w)
{
	list_for_each(l, &w->changes)
		forget(w, list_entry(l, struct change, node));
	w->overflow = true;
}

void watch_note(struct watch *w, enum proto_change kind, bool folder, const char *path)
{
	const size_t size = strlen(path) + 1;
	const uint32_t hash = watch_hash(kind, path, size);

	if (w->overflow || !w->started) /* who is told of either lists the folder then */
		return;
	for (struct change *c = w->by_path[hash % WATCH_BUCKETS]; c; c = c->next)
		if (c->hash == hash && c->kind == kind && strcmp(c->path, path) == 0) {
			c->folder = folder;
			list_remove(&c->node);
			list_append(&w->changes, &c->node);
			return;
		}
	struct change *c = w->n_changes < CHANGES_MAX ? malloc(sizeof(*c) + size) : NULL;
	if (!c) {
		watch_overflow(w);
		return;
	}
	*c = (struct change){.next = w->by_path[hash % WATCH_BUCKETS],
			     .hash = hash,
			     .kind = (uint8_t)kind,
			     .folder = folder,
			     .size = size};
	memcpy(c->path, path, size);
	w->by_path[hash % WATCH_BUCKETS] = c;
	list_append(&w->changes, &c->node);
	w->n_changes++;
}

bool watch_any(const struct watch *w)
{
	return w->overflow || w->n_changes > 0;
}

void watch_take(struct watch *w, struct proto_init_changed *a)
{
	if (w->overflow)
		a->flags |= PROTO_CHANGED_OVERFLOW;
	w->overflow = false;
	list_for_each(l, &w->changes) {
		struct change *c = list_entry(l, struct change, node);

		if (a->n == PROTO_CHANGES_MAX || sizeof(a->data) - a->bytes < c->size + 1)
			return;
		a->data[a->bytes++] = (char)(c->kind | (c->folder ? PROTO_CHANGE_FOLDER : 0));
		memcpy(a->data + a->bytes, c->path, c->size);
		a->bytes += (uint32_t)c->size;
		a->n++;
		forget(w, c);
	}
}
