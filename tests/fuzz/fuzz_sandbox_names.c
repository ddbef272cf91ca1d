/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and names from clients and from sandboxes. Properties: an accepted path has no empty, '.'
 * or
 * '..' part, is accepted again as it is, and means the same below /mnt/data; a media type is one.
 */
#include "fuzz.h"

#include "sandbox/sandbox.h"

#include <string.h>

static void check_parts(const char *path)
{
	ASSERT(path[0] != '\0' && path[0] != '/' && path[strlen(path) - 1] != '/');
	for (const char *p = path; p;) {
		const char *slash = strchr(p, '/');
		size_t len = slash ? (size_t)(slash - p) : strlen(p);

		ASSERT(len > 0);
		ASSERT(!(len == 1 && p[0] == '.') && !(len == 2 && p[0] == '.' && p[1] == '.'));
		p = slash ? slash + 1 : NULL;
	}
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	static char path[ENGINE_PATH_MAX], again[ENGINE_PATH_MAX], absolute[ENGINE_PATH_MAX + 16];
	struct err e = ERR_INIT;
	char name[256];

	for (int relative = 0; relative <= 1; relative++) {
		if (workspace_path((const char *)data, size, relative == 1, path, &e) < 0)
			continue;
		check_parts(path);
		ASSERT(workspace_path(path, strlen(path), true, again, &e) == 0);
		ASSERT(strcmp(path, again) == 0);
		(void)snprintf(absolute, sizeof(absolute), "/mnt/data/%s", path);
		ASSERT(workspace_path(absolute, strlen(absolute), false, again, &e) == 0);
		ASSERT(strcmp(path, again) == 0);
	}
	size_t len = MIN(size, sizeof(name) - 1);
	memcpy(name, data, len);
	name[len] = '\0';
	const char *type = mime_type(name);
	ASSERT(strchr(type, '/') && !strpbrk(type, " \r\n\""));
	return 0;
}
