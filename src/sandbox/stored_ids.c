/* SPDX-License-Identifier: Apache-2.0 */
/* Which ids stored sandboxes have, and what their keys say of them. */
#include "base/parse.h"
#include "base/text.h"
#include "fleet/ids.h"
#include "sandbox/manager.h"

#include <string.h>

#define UUID_LEN 36

bool stored_is_uuid(const char *id)
{
	for (size_t i = 0; i < UUID_LEN; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		if (dash ? id[i] != '-' : !strchr("0123456789abcdef", id[i]) || !id[i])
			return false;
	}
	return id[UUID_LEN] == '\0';
}

bool stored_key_is_of_own_id(const struct sandbox_record *r)
{
	const size_t len = strlen(r->key), end = strlen(STORED_KEY_OF_OWN_ID);

	/* The store gives a new sandbox the name of its files as its id. */
	return streq(r->id, r->key) ||
	       (len > end && streq(r->key + len - end, STORED_KEY_OF_OWN_ID));
}

bool stored_has_own_id(const struct sandbox_record *r, const struct sandbox_options *o)
{
	return stored_key_is_of_own_id(r) || o->number[SANDBOX_OPTION_PUBLIC] > 0;
}

static bool is_made_here(const char *id)
{
	const size_t prefix = strlen(SANDBOX_ID_PREFIX);
	const size_t digits = strlen(id) - MIN(prefix, strlen(id));

	return strncmp(id, SANDBOX_ID_PREFIX, prefix) == 0 &&
	       (digits == SANDBOX_ID_DIGITS || digits == SANDBOX_ID_DIGITS + FLEET_MARK_DIGITS) &&
	       strspn(id + prefix, "0123456789abcdef") == digits;
}

bool stored_may_be(const char *owner, const char *id)
{
	return stored_is_uuid(id) || is_made_here(id) ||
	       ((!owner || !*owner) && parse_is_session_id(id, strlen(id)));
}
