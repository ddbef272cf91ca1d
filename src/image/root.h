/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares an unpacked root file system so that an engine can mount it read-only: mount points, the
 * names that sandboxes expect, the user `sandbox`. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define SANDBOX_USER "sandbox"
#define SANDBOX_UID  1000

/* TIDY: removes what package tools have left, which only a tree that is new may lose. */
int image_root_finish(int root, bool tidy, struct err *e) MUST_CHECK;

/* Whether NAME in DIR is a file of mode 0644 with just that text. Such a file is not written anew, because its time is part of what is exported:
 * an image that was exported, imported and exported again is the same. */
bool image_file_is(int dir, const char *name, const char *text, size_t len);
