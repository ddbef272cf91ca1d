/* SPDX-License-Identifier: Apache-2.0 */
/* Where definitions of images are. */
#include "cmd/cmd.h"

#include "base/fdio.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFS_BESIDE "share/caisson/images"

/* Whether the definitions in FOLDER belong to root or to the owner of the program: what they say runs as the
 * user who builds the image. */
static bool defs_are_trusted(const char *folder)
{
	struct stat defs, program;

	return stat(folder, &defs) == 0 && S_ISDIR(defs.st_mode) &&
	       (defs.st_uid == 0 ||
		(stat("/proc/self/exe", &program) == 0 && defs.st_uid == program.st_uid));
}

const char *cmd_image_defs(void)
{
	static char found[PATH_MAX];
	const char *given = getenv("SANDBOX_IMAGE_DEFS");
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (given && given[0])
		return given;
	self[n > 0 ? n : 0] = '\0';
	/* Beside the program, then beside its folder: PREFIX/bin/caisson has PREFIX/share. */
	for (int up = 0; up < 2; up++) {
		char *slash = strrchr(self, '/');

		if (!slash)
			break;
		*slash = '\0';
		if ((size_t)snprintf(found, sizeof(found), "%s/%s", self, DEFS_BESIDE) <
			sizeof(found) &&
		    defs_are_trusted(found))
			return found;
	}
	return IMAGE_DEFS_INSTALLED;
}
