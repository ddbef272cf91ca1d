/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and names from clients and from sandboxes. Properties: an accepted path has no empty, '.'
 * or
 * '..' part, is accepted again as it is, and means the same below /mnt/data; one that may be outside is accepted by init,
 * too, and names no file of the workspace in another way; a media type is one.
 */
#include "fuzz.h"

#include "engine/protocol/proto.h"
#include "sandbox/sandbox_path.h"

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

static void check_anywhere(const char *data, size_t size)
{
	static const char *const bases[] = {"/home/user", "/", "/tmp/a"};
	static const char *const tops[] = {"/mnt/data", "/app/results", "/home/user"};
	static char path[ENGINE_PATH_MAX], again[ENGINE_PATH_MAX], full[ENGINE_PATH_MAX + 16];
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(bases); i++) {
		if (sandbox_path(data, size, bases[i], path, &e) < 0)
			continue;
		ASSERT(proto_path_ok(path, true));
		for (size_t k = 0; k < ARRAY_SIZE(tops); k++) {
			const size_t len = strlen(tops[k]);

			ASSERT(strncmp(path, tops[k], len) != 0 ||
			       (path[len] != '/' && path[len] != '\0'));
			(void)snprintf(full, sizeof(full), "%s/%s", tops[k], path);
			if (path[0] == '/' || strlen(full) >= ENGINE_PATH_MAX)
				continue;
			ASSERT(sandbox_path(full, strlen(full), "/", again, &e) == 0);
			ASSERT(strcmp(path, again) == 0);
		}
		if (path[0] == '/')
			ASSERT(sandbox_path(path, strlen(path), "/", again, &e) == 0 &&
			       strcmp(path, again) == 0);
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
	check_anywhere((const char *)data, size);
	size_t len = MIN(size, sizeof(name) - 1);
	memcpy(name, data, len);
	name[len] = '\0';
	const char *type = mime_type(name);
	ASSERT(strchr(type, '/') && !strpbrk(type, " \r\n\""));
	return 0;
}
