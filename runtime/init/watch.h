/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of folders (watch.c), as their three files share them: the tree of folders that inotify(7) watches for all of
 * them (watch_tree.c), and what each has to tell (watch_queue.c). */
#pragma once

#include "init.h"

#include "base/list.h"

#define WATCH_BUCKETS 1024 /* of each hash table */

struct folder;
struct change;

struct watch {
	uint32_t number; /* the front's */
	bool recursive;
	bool asked;   /* the front waits for an answer */
	bool started; /* the answer to its START was given */
	int ended;    /* errno: nothing more can come; 0 = it goes on */
	bool partial, told_partial;
	struct folder *root; /* NULL: it has gone */
	/* watch_queue.c */
	bool overflow;
	struct list changes; /* of struct change, as they are to be told */
	uint32_t n_changes;
	struct change *by_path[WATCH_BUCKETS];
	int dir; /* of its place (file_places.h) */
	const char *
	    top; /* what the front's name for that place is; each path that is told begins with it */
	char path[PROTO_PATH_MAX]; /* from DIR on; "" = DIR itself */
};

/* An answer that has nothing in it yet, until it is sent. */
struct proto_init_changed *watch_answer(uint32_t number);

struct tree {
	int dir;                      /* the place that it begins with */
	struct watch *const *watches; /* those of init, also of other places: watch_of() */
	int fd;                       /* inotify(7) */
	uint64_t due;        /* when the events that have come are to be read; 0 = none have */
	bool reading;        /* there may be more of them */
	uint32_t slices;     /* of this reading */
	bool flooded;        /* the last reading had many changes, or an overflow */
	bool anew;           /* it was built anew by the last slice */
	bool building;       /* that is under way */
	uint32_t replacing;  /* cookie: a name of init's own has gone with it; 0 = none */
	struct folder *root; /* DIR */
	uint32_t n_folders;
	struct list away;  /* of struct folder: moved, and where to is not known yet */
	struct list scans; /* of struct folder: those whose entries were not looked through yet */
	DIR *scanning;     /* of the first of these; NULL = not opened yet */
	struct folder *by_wd[WATCH_BUCKETS];
	struct folder *by_name[WATCH_BUCKETS];
};

/* The Ith watch, if it is one of T's. */
static inline struct watch *watch_of(const struct tree *t, size_t i)
{
	struct watch *w = t->watches[i];

	return w && w->dir == t->dir ? w : NULL;
}

/* watch_tree.c */
/* Watches the folder of W, which is one of those of IN. -ENOTDIR: it is no folder. */
int tree_watch(struct init *in, struct watch *w);
struct tree *tree_of(const struct init *in, const struct watch *w);
void tree_prune(struct init *in);      /* a watch has ended: forgets what nobody needs */
void tree_read(struct tree *t);        /* a slice of the events that have come */
void tree_scan(struct tree *t);        /* a slice of the folders that are new */
bool tree_scans(const struct tree *t); /* such a slice is due */

/* watch_queue.c */
void watch_note(struct watch *w, enum proto_change kind, bool folder, const char *path);
void watch_overflow(struct watch *w); /* forgets all, and says so */
bool watch_any(const struct watch *w);
void watch_take(struct watch *w, struct proto_init_changed *a); /* moves what fits into A */
/* Of N bytes, and of a number. */
uint32_t watch_hash(uint32_t seed, const char *text, size_t n);
