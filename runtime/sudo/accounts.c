/* SPDX-License-Identifier: Apache-2.0 */
#include "accounts.h"

#include "base/parse.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 8192
#define FIELDS         7

/* Splits LINE at its colons. Returns the number of fields. */
static size_t split(char *line, char *ret[FIELDS])
{
	size_t n = 0;

	line[strcspn(line, "\n")] = '\0';
	while (n < FIELDS && line) {
		ret[n++] = line;
		line = strchr(line, ':');
		if (line)
			*line++ = '\0';
	}
	return n;
}

static void copy(char to[ACCOUNT_TEXT], const char *from)
{
	(void)snprintf(to, ACCOUNT_TEXT, "%s", from);
}

/* What is none is the id that nobody has, -1. */
static unsigned number(const char *text)
{
	uint64_t n;

	return parse_u64_n(text, strlen(text), 0, UINT32_MAX - 1, &n) < 0 ? UINT32_MAX
									  : (unsigned)n;
}

/* The root user of an image may have no shell, such as /usr/sbin/nologin. */
static const char *usable(const char *shell)
{
	const char *name = strrchr(shell, '/');

	if (name && strcmp(name, "/nologin") != 0 && strcmp(name, "/false") != 0 &&
	    access(shell, X_OK) == 0)
		return shell;
	return access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

const struct account *account_of(const char *name, uid_t uid)
{
	const bool by_number = !name || name[0] == '#';
	const uid_t wanted = name && name[0] == '#' ? number(name + 1) : uid;
	char line[LINE_MAX_BYTES];
	char *at[FIELDS];
	FILE *f = fopen("/etc/passwd", "re");
	struct account *a = calloc(1, sizeof(*a));
	bool found = false;

	while (a && f && !found && fgets(line, sizeof(line), f)) {
		if (split(line, at) != FIELDS ||
		    (by_number ? number(at[2]) != wanted : strcmp(at[0], name) != 0))
			continue;
		found = true;
		a->uid = number(at[2]);
		a->gid = number(at[3]);
		if (a->uid == UINT32_MAX || a->gid == UINT32_MAX)
			found = false; /* setresuid(2) would take it for "no change" */
		copy(a->name, at[0]);
		copy(a->home, at[5]);
		copy(a->shell, usable(at[6]));
	}
	if (f)
		(void)fclose(f);
	if (by_number && wanted == UINT32_MAX)
		return NULL;
	if (found || !a || (!by_number && strcmp(name, "root") != 0))
		return found ? a : NULL;
	a->uid = by_number ? wanted : 0; /* an image without accounts */
	a->gid = a->uid;
	(void)snprintf(a->name, sizeof(a->name), by_number ? "#%u" : "root", a->uid);
	copy(a->home, a->uid == 0 ? "/root" : "/");
	copy(a->shell, usable(""));
	return a;
}

static bool has_member(char *members, const char *name)
{
	char *rest = NULL;

	for (char *m = strtok_r(members, ",", &rest); m; m = strtok_r(NULL, ",", &rest))
		if (strcmp(m, name) == 0)
			return true;
	return false;
}

size_t account_groups(const struct account *a, gid_t ret[ACCOUNT_GROUPS])
{
	char line[LINE_MAX_BYTES];
	char *at[FIELDS];
	FILE *f = fopen("/etc/group", "re");
	size_t n = 0;

	ret[n++] = a->gid;
	while (f && n < ACCOUNT_GROUPS && fgets(line, sizeof(line), f))
		if (split(line, at) == 4 && number(at[2]) != a->gid && has_member(at[3], a->name))
			ret[n++] = number(at[2]);
	if (f)
		(void)fclose(f);
	return n;
}
