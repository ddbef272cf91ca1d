/* SPDX-License-Identifier: Apache-2.0 */
/* The folders of the tree: by the number of their watch, by name in their parent, and where they move to. */
#include "watch_folders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

/* ---- tables ---- */

static struct folder **bucket_of_name(struct tree *t, const struct folder *parent, const char *name)
{
	return &t->by_name[watch_hash(parent->wd, name, strlen(name)) % WATCH_BUCKETS];
}

struct folder *folder_of(const struct tree *t, uint32_t wd)
{
	struct folder *f = t->by_wd[wd % WATCH_BUCKETS];

	while (f && f->wd != wd)
		f = f->next_wd;
	return f;
}

struct folder *folder_child(struct tree *t, const struct folder *parent, const char *name)
{
	struct folder *f = *bucket_of_name(t, parent, name);

	while (f && (f->parent != parent || strcmp(f->name, name) != 0))
		f = f->next_name;
	return f;
}

/* Takes F from its parent; its name stays. */
static void leave(struct tree *t, struct folder *f)
{
	struct folder **at = bucket_of_name(t, f->parent, f->name);

	while (*at != f)
		at = &(*at)->next_name;
	*at = f->next_name;
	list_remove(&f->sibling);
}

static void join(struct tree *t, struct folder *f, struct folder *parent)
{
	struct folder **at = bucket_of_name(t, parent, f->name);

	f->parent = parent;
	f->next_name = *at;
	*at = f;
	list_append(&parent->children, &f->sibling);
}

void folder_stop_scan(struct tree *t, struct folder *f)
{
	if (t->scanning && t->scans.next == &f->scan) {
		(void)closedir(t->scanning);
		t->scanning = NULL;
	}
	list_remove(&f->scan);
}

/* F alone, which has no children any more. */
static void free_folder(struct tree *t, struct folder *f)
{
	struct folder **at = &t->by_wd[f->wd % WATCH_BUCKETS];

	while (*at != f)
		at = &(*at)->next_wd;
	*at = f->next_wd;
	folder_stop_scan(t, f);
	if (f->parent)
		leave(t, f);
	list_remove(&f->sibling);
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		if (watch_of(t, i) && watch_of(t, i)->root == f)
			watch_of(t, i)->root = NULL;
	if (t->root == f)
		t->root = NULL;
	t->n_folders--;
	free(f);
}

/* F and what is below it, without recursion: whoever makes folders decides how deep they are. */
void folder_forget(struct tree *t, struct folder *f, bool watched)
{
	struct folder *at = f;

	for (;;) {
		for (struct folder *c; (c = list_first(&at->children, struct folder, sibling));)
			at = c;
		struct folder *parent = at->parent;
		const bool last = at == f;

		if (watched)
			(void)inotify_rm_watch(t->fd, (int)at->wd);
		free_folder(t, at);
		if (last)
			return;
		at = parent;
	}
}

/* ---- paths ---- */

/* The path of NAME in F; of F itself if NAME is "". */
int folder_path(const struct folder *f, const char *name, char ret[PROTO_PATH_MAX])
{
	size_t at = PROTO_PATH_MAX - 1;
	const char *part = name;

	ret[at] = '\0';
	for (;;) {
		const size_t n = strlen(part);

		if (n > 0) {
			if (n + 1 > at)
				return -ENAMETOOLONG;
			if (ret[at] != '\0')
				ret[--at] = '/';
			at -= n;
			memcpy(ret + at, part, n);
		}
		if (!f->parent)
			break;
		part = f->name;
		f = f->parent;
	}
	memmove(ret, ret + at, PROTO_PATH_MAX - at);
	return 0;
}

/* ---- life and moves ---- */

struct folder *folder_new(struct tree *t, struct folder *parent, const char *name, uint32_t wd)
{
	struct folder *f = calloc(1, sizeof(*f) + strlen(name) + 1);

	if (!f)
		return NULL;
	memcpy(f->name, name, strlen(name) + 1);
	f->wd = wd;
	list_init(&f->children);
	list_init(&f->sibling);
	list_init(&f->scan);
	f->next_wd = t->by_wd[wd % WATCH_BUCKETS];
	t->by_wd[wd % WATCH_BUCKETS] = f;
	if (parent)
		join(t, f, parent);
	else
		t->root = f;
	t->n_folders++;
	return f;
}

bool folder_is_below(const struct folder *f, const struct folder *top)
{
	while (f && f != top)
		f = f->parent;
	return f != NULL;
}

/* F leaves its parent, and has a new one soon, or is forgotten. */
void folder_move_away(struct tree *t, struct folder *f, uint32_t cookie)
{
	leave(t, f);
	f->parent = NULL;
	f->cookie = cookie;
	list_append(&t->away, &f->sibling);
}

/* F, which is away, is NAME in PARENT now. */
bool folder_come_back(struct tree *t, struct folder *f, struct folder *parent, const char *name)
{
	const size_t size = strlen(name) + 1;
	struct folder *n = calloc(1, sizeof(*n) + size);

	if (!n)
		return false;
	struct folder **at = &t->by_wd[f->wd % WATCH_BUCKETS];
	while (*at != f)
		at = &(*at)->next_wd;
	list_remove(&f->sibling);
	*n = *f;
	memcpy(n->name, name, size);
	*at = n;
	list_init(&n->children);
	list_init(&n->sibling);
	list_init(&n->scan);
	list_splice(&n->children, &f->children);
	list_for_each(l, &n->children)
		list_entry(l, struct folder, sibling)->parent = n;
	if (!list_is_empty(&f->scan)) {
		folder_stop_scan(t, f);
		list_append(&t->scans, &n->scan);
	}
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		if (watch_of(t, i) && watch_of(t, i)->root == f)
			watch_of(t, i)->root = n;
	n->cookie = 0;
	join(t, n, parent);
	free(f);
	return true;
}

/* Is there a recursive watch of F, or of a folder above it? */
bool folder_is_wanted_below(const struct tree *t, const struct folder *f)
{
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++) {
		const struct watch *w = watch_of(t, i);

		if (w && w->recursive && w->root && folder_is_below(f, w->root))
			return true;
	}
	return false;
}

/* Is F the folder of a watch, above it, or below a recursive one? */
bool folder_is_wanted(const struct tree *t, const struct folder *f)
{
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		if (watch_of(t, i) && watch_of(t, i)->root &&
		    folder_is_below(watch_of(t, i)->root, f))
			return true;
	return folder_is_wanted_below(t, f);
}
