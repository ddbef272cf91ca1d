/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables of a run in a sandbox that has its own packages: those of an activated
 * virtual environment. Used for warm and cold runs and for commands. The interpreter finds the
 * packages itself: a cold one is started through PATH, a warm one uses runtime/python/places.py. */
#include "init.h"

#include <string.h>
#include <unistd.h>

#define VENV        "/app/.venv"
#define VENV_BIN    VENV "/bin:"
#define VENV_NAMED  "VIRTUAL_ENV=" VENV
#define VENV_PYTHON VENV "/bin/python3"

/* The folder always exists, but may be empty. It is a virtual environment if it has an interpreter. */
bool venv_is_there(void)
{
	return access(VENV_PYTHON, X_OK) == 0;
}

static size_t insert(char *text, size_t len, size_t at, const char *what, size_t n)
{
	memmove(text + at + n, text + at, len - at);
	memcpy(text + at, what, n);
	return len + n;
}

/* A helper may write to the folder, because it installs packages there. For a helper they are only files: with the
 * environment in force, a .pth file of a package would run in the place that lists, replaces and removes packages.
 * (Not asked of statvfs(3): gVisor does not tell that a mount is read-only.) */
static bool is_in_force(void)
{
	return venv_is_there() && access(VENV, W_OK) < 0;
}

size_t venv_extend(char *env, size_t len, size_t room, uint32_t *count)
{
	static const char path[] = "PATH=";
	bool named = false, done = false;

	if (room < VENV_ROOM || !is_in_force())
		return len;
	for (size_t at = 0; at < len; at += strlen(env + at) + 1) {
		named = named || strncmp(env + at, VENV_NAMED, sizeof("VIRTUAL_ENV=") - 1) == 0;
		if (done || strncmp(env + at, path, sizeof(path) - 1) != 0)
			continue;
		len = insert(env, len, at + sizeof(path) - 1, VENV_BIN, sizeof(VENV_BIN) - 1);
		done = true;
	}
	if (named)
		return len;
	++*count;
	return insert(env, len, len, VENV_NAMED, sizeof(VENV_NAMED));
}
