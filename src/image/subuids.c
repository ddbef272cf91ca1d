/* SPDX-License-Identifier: Apache-2.0 */
#include "image/subuids.h"

#include "base/attr.h"
#include "base/parse.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FIRST   100000u /* as useradd(8) gives them, by its default SUB_UID_MIN */
#define LENGTH  65536u
#define HIGHEST 600100000u /* SUB_UID_MAX */

/* Whether an entry of the file touches the range from FIRST on. If one does, the next range begins behind it. */
static bool touches(const char *path, uint64_t *first)
{
	_cleanup_file_ FILE *f = fopen(path, "re");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		uint64_t start, length;
		char *at = strchr(line, ':'), *colon = at ? strchr(at + 1, ':') : NULL;

		if (!colon)
			continue;
		colon[0] = '\0';
		colon[1 + strcspn(colon + 1, "\n")] = '\0';
		if (parse_u64(at + 1, 0, UINT32_MAX, &start) < 0 ||
		    parse_u64(colon + 1, 0, UINT32_MAX, &length) < 0)
			continue;
		if (start < *first + LENGTH && start + length > *first) {
			*first = start + length;
			return true;
		}
	}
	return false;
}

void subuids_command(const char *etc, const char *user, char ret[SUBUIDS_COMMAND_MAX])
{
	char subuid[PATH_MAX], subgid[PATH_MAX];
	uint64_t first = FIRST;

	(void)snprintf(subuid, sizeof(subuid), "%s/subuid", etc);
	(void)snprintf(subgid, sizeof(subgid), "%s/subgid", etc);
	while (first < HIGHEST && (touches(subuid, &first) || touches(subgid, &first)))
		;
	const uint64_t last = first + LENGTH - 1;
	(void)snprintf(ret, SUBUIDS_COMMAND_MAX,
		       "usermod --add-subuids %" PRIu64 "-%" PRIu64 " --add-subgids %" PRIu64
		       "-%" PRIu64 " %s",
		       first, last, first, last, user);
}

int subuids_find(const char *file, const char *user, uint32_t uid, uint32_t *ret_first,
		 uint32_t *ret_count)
{
	_cleanup_file_ FILE *f = fopen(file, "re");
	char line[512], own[16];

	(void)snprintf(own, sizeof(own), "%u", uid);
	while (f && fgets(line, sizeof(line), f)) {
		uint64_t start, length;
		char *at = strchr(line, ':'), *colon = at ? strchr(at + 1, ':') : NULL;

		if (!colon)
			continue;
		*at = *colon = '\0';
		colon[1 + strcspn(colon + 1, "\n")] = '\0';
		if ((strcmp(line, user) != 0 && strcmp(line, own) != 0) ||
		    parse_u64(at + 1, 1, UINT32_MAX, &start) < 0 ||
		    parse_u64(colon + 1, 1, UINT32_MAX - start, &length) < 0)
			continue;
		*ret_first = (uint32_t)start;
		*ret_count = (uint32_t)length;
		return 0;
	}
	return -ENOENT;
}
