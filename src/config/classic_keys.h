/* SPDX-License-Identifier: Apache-2.0 */
/* The config.toml of the second tool family: its own keys, and what its values meant there. */
#pragma once

#include "config/settings.h"

struct classic_key {
	const char *key;
	const char *ours;    /* our key for the same thing, or NULL: the key has no effect here */
	const char *usual;   /* without `ours`: the value that it is shipped with; NULL: any */
	const char *instead; /* what to do if it has another value */
};

/* Is TEXT such a file? It has a table [docker] or [logging], which ours never has. */
bool classic_is(const char *text, size_t len);
/* NULL: it is no key of theirs, or one that we have under the same name. */
const struct classic_key *classic_key_find(const char *key);
/* What VALUE of the setting ID meant there, as a value of ours. */
const char *classic_value(enum setting_id id, const char *value);
