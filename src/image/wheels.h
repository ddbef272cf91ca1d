/* SPDX-License-Identifier: Apache-2.0 */
/* Wheels of the package index that an image gets beside its Debian packages.
 *
 * A definition names a list of wheels with their hashes (`wheels`) and packages without (`index`).
 * wheels_prepare() puts the scripts that are part of this program, and what they need, into the
 * folder of the build. mmdebstrap then runs wheels.sh before the definition's own hook. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "image/def.h"
#include "image/image.h"

#define WHEELS_HOOK "wheels/wheels.sh" /* in the folder of the build */

/* Does DEF ask for anything of the package index? */
bool wheels_wanted(const struct image_def *def);
/* SCRATCH: the folder of the build, where the files of the definition are already. */
int wheels_prepare(const struct image_def *def, const struct image_index *index,
		   const char *scratch, struct err *e) MUST_CHECK;
/* The variables that wheels.sh reads. */
int wheels_environment(const struct image_index *index, struct image_words *env) MUST_CHECK;
