/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of the tree of watch_tree.c, which uses this alone. */
#pragma once

#include "watch.h"

struct folder {
	struct folder *next_wd, *next_name; /* in a bucket */
	struct folder *parent;              /* NULL: the root */
	struct list children;               /* of struct folder */
	struct list sibling;                /* of its parent, or of tree.away */
	struct list scan;                   /* of tree.scans */
	uint32_t wd;
	uint32_t cookie; /* it was moved away, and where to is not known yet; 0 = no */
	bool quiet;      /* what is found in it was there before the watch */
	char name[];     /* of the root: "" */
};

struct folder *folder_of(const struct tree *t, uint32_t wd); /* NULL: there is none */
struct folder *folder_child(struct tree *t, const struct folder *parent, const char *name);
/* PARENT NULL: the root. NULL: no memory. */
struct folder *folder_new(struct tree *t, struct folder *parent, const char *name, uint32_t wd);
/* F and what is below it. WATCHED: the kernel still watches them. */
void folder_forget(struct tree *t, struct folder *f, bool watched);
void folder_stop_scan(struct tree *t, struct folder *f);
bool folder_is_below(const struct folder *f, const struct folder *top); /* or is it */
/* The path of NAME in F; of F itself if NAME is "". -ENAMETOOLONG. */
int folder_path(const struct folder *f, const char *name, char ret[PROTO_PATH_MAX]);
/* F leaves its parent, and has a new one soon, or is forgotten. */
void folder_move_away(struct tree *t, struct folder *f, uint32_t cookie);
/* F, which is away, is NAME in PARENT now. F is another object then. False: no memory. */
bool folder_come_back(struct tree *t, struct folder *f, struct folder *parent, const char *name);
/* Is there a recursive watch of F, or of a folder above it? */
bool folder_is_wanted_below(const struct tree *t, const struct folder *f);
/* Is F the folder of a watch, above it, or below a recursive one? */
bool folder_is_wanted(const struct tree *t, const struct folder *f);
