/* SPDX-License-Identifier: Apache-2.0 */
/* Where the programs of this folder find images: beside the folder that CAISSON_TEST_IMAGES names, as tests/run does. */
#pragma once

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static inline const char *test_state_dir(void)
{
	static char images[PATH_MAX];
	const char *given = getenv("CAISSON_TEST_IMAGES");

	(void)snprintf(images, sizeof(images), "%s", given ? given : "./images");
	return dirname(images);
}
