/* SPDX-License-Identifier: Apache-2.0 */
/* The folder in which mmdebstrap works: a copy of the definition's scripts, and room for the tree.
 *
 * For root it is inside the draft, so what a failed build leaves is removed with the draft. The
 * build of a plain user runs in a user namespace whose uids must be able to reach the folder, which
 * the modes of a home directory may forbid. So then it is in $TMPDIR or /var/tmp. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "image/image_store.h"

#include <limits.h>
#include <stdint.h>

struct scratch {
	char path[PATH_MAX]; /* "" = none */
};

int scratch_make(const struct image_store *s, const struct image_draft *d, const char *scripts,
		 struct scratch *ret, struct err *e) MUST_CHECK;
void scratch_remove(struct scratch *t);
/* ERR_IMAGE_BUILD_FAILED: the file system of PATH has less than BYTES free. */
int scratch_check_space(const char *path, uint64_t bytes, struct err *e) MUST_CHECK;
