/* SPDX-License-Identifier: Apache-2.0 */
/* The settings file. Property: a refusal has one line of text; a file that was taken is taken
 * again. */
#include "fuzz.h"

#include "config/config_file.h"

#include <string.h>

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	_cleanup_(settings_done) struct settings first;
	_cleanup_(settings_done) struct settings second;
	struct err e = ERR_INIT;
	const char *text = (const char *)data;

	ASSERT(settings_init(&first) == 0 && settings_init(&second) == 0);
	if (config_file_parse(&first, text, size, "fuzz.toml", &e) < 0)
		ASSERT(e.text[0] != '\0' && !strchr(e.text, '\n'));
	else
		ASSERT(config_file_parse(&second, text, size, "fuzz.toml", &e) == 0);
	return 0;
}
