/* SPDX-License-Identifier: Apache-2.0 */
/* Images: root file systems with a Python, built from signed packages or imported from an archive.
 *
 * Everything here is for the command line: it blocks, starts programs and may take minutes. An
 * engine needs none of it. It opens <state-dir>/images/NAME/root; image_store.h says how to hold
 * that. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "image/def.h"
#include "image/image_store.h"
#include "image/manifest.h"

#include <stdbool.h>
#include <stdint.h>

/* Free space that a build needs: for the tree, the copy that it is unpacked from, and the package
 * archives. */
#define IMAGE_BUILD_SPACE (UINT64_C(3) << 30)

/* Progress of the work: `done` of `total` (0 = unknown) within the step. */
struct image_watch {
	void (*step)(void *user, const char *text);
	void (*tick)(void *user, const char *text, uint64_t done, uint64_t total);
	void (*warn)(void *user, const char *text);
	void *user;
	int cancel_fd; /* when it becomes readable, the work stops and cleans up; -1 = cannot be
		        * cancelled */
};

struct image_build_options {
	const char *mirror; /* NULL: the mirror that this machine's apt uses */
};

/* Builds DEF and installs it under its name. If it fails, the store is unchanged, and the log of
 * the package tools is at <images>/.NAME.log. */
int image_build(const struct image_store *s, const struct image_def *def,
		const struct image_build_options *o, const struct image_watch *w,
		struct image_manifest *ret, struct err *e) MUST_CHECK;

/* FILE: a tar, tar.gz, tar.zst or tar.xz of a root file system. Links, `..`, devices and set-uid
 * bits in it can do no harm. */
int image_import(const struct image_store *s, const char *name, const char *file,
		 const struct image_watch *w, struct image_manifest *ret, struct err *e) MUST_CHECK;
/* The end of FILE's name decides the compression. Never leaves half a file. */
int image_export(const struct image_store *s, const char *name, const char *file,
		 const struct image_watch *w, struct err *e) MUST_CHECK;

bool image_cancelled(const struct image_watch *w);
