/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/signs.h"

#include "base/rand.h"

#include <stdio.h>
#include <string.h>

static const struct {
	enum sign sign;
	const char *text;
} rows[] = {
    {SIGN_NO_NETWORK, "Temporary failure in name resolution"},
    {SIGN_NO_NETWORK, "Name or service not known"},
    {SIGN_NO_NETWORK, "Network is unreachable"},
    {SIGN_NO_NETWORK, "Could not resolve host"},
    {SIGN_NO_NETWORK, "Failed to resolve"},
    {SIGN_NO_MEMORY, "MemoryError"},
    {SIGN_NO_MEMORY, "std::bad_alloc"},
    {SIGN_OPEN_FILES, "Too many open files"},
    {SIGN_PROCESSES, "can't start new thread"},
    {SIGN_PROCESSES, "Resource temporarily unavailable"},
    {SIGN_PROCESSES, "Cannot fork"},
    {SIGN_NO_FILE, "No such file or directory"},
    {SIGN_NO_NAME, "NameError: name '"},
    {SIGN_NO_INPUT, "EOFError: EOF when reading a line"},
    {SIGN_NO_INPUT, "GetPassWarning"},
    {SIGN_NO_SPACE, "No space left on device"},
    {SIGN_NO_SPACE, "no space is left"},
    {SIGN_NO_SPACE, "SANDBOX_WORKSPACE_LIMIT"},
    {SIGN_TOO_LARGE, "SANDBOX_INSTALL_MAX_BYTES"},
    {SIGN_NO_INDEX, "The package index cannot be reached"},
};

void signs_tail(const struct run_output *output, char ret[SIGNS_TAIL + 1])
{
	const size_t len = MIN(output->len, (size_t)SIGNS_TAIL);

	if (len > 0)
		memcpy(ret, output->data + output->len - len, len);
	for (size_t i = 0; i < len; i++)
		ret[i] = ret[i] >= ' ' && ret[i] < 0x7F ? ret[i] : '\n';
	ret[len] = '\0';
}

bool signs_in(const char *text, enum sign sign)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].sign == sign && strstr(text, rows[i].text))
			return true;
	return false;
}

bool signs_limit(const char *text, const struct sandbox *s, char *ret, size_t size)
{
	const struct engine_limits *l = &sandbox_policy(s)->limits;

	if (signs_in(text, SIGN_OPEN_FILES))
		(void)snprintf(ret, size,
			       "A process of a sandbox may have %u open files "
			       "(SANDBOX_NOFILE_LIMIT).",
			       l->nofile);
	else if (signs_in(text, SIGN_PROCESSES))
		(void)snprintf(ret, size,
			       "A sandbox may have %u processes and threads (SANDBOX_PIDS_LIMIT).",
			       l->pids);
	else
		return false;
	return true;
}
