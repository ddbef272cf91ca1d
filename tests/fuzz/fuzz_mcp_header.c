/* SPDX-License-Identifier: Apache-2.0 */
/* Values of Mcp-* headers. Properties: what is decoded is UTF-8 where it was encoded, never longer
 * than the value, and equal to itself when it is plain. */
#include "fuzz.h"

#include "mcp/objects.h"

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *value = strndup((const char *)data, size);
	_cleanup_free_ char *decoded = NULL;
	size_t len = 0;

	if (!value)
		return 0;
	(void)mcp_version_is_modern(value);
	if (header_decode(value, &decoded, &len) < 0)
		return 0;
	ASSERT(len <= strlen(value) && decoded[len] == '\0');
	if (strlen(decoded) == len)
		ASSERT(header_equals(value, decoded));
	return 0;
}
