/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of answers of servers in sandboxes. The first byte: was the request HEAD? Properties: however the bytes arrive, the
 * head ends at the same place; fields are tokens, their values have no control characters, and none of them is about the
 * connection or the length. */
#include "fuzz.h"

#include "http/request_head.h"
#include "relay/reply_head.h"

#include <stdlib.h>
#include <string.h>

static size_t end_in_steps(const char *buf, size_t size, size_t step)
{
	size_t scanned = 0, end = 0;

	for (size_t len = 0; end == 0 && len < size;) {
		len = MIN(len + step, size);
		end = relay_reply_end(buf, len, &scanned);
		ASSERT(scanned <= len && end <= len);
	}
	return end;
}

static void check_value(const char *s)
{
	for (; *s; s++)
		ASSERT(((unsigned char)*s >= 0x20 || *s == '\t') && *s != 0x7f);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	static struct relay_reply h;
	size_t scanned = 0;

	if (size < 2 || size > RELAY_HEAD_MAX)
		return 0;
	const bool head = data[0] & 1;
	char *buf = malloc(size - 1);
	ASSERT(buf);
	memcpy(buf, data + 1, size - 1);
	const size_t end = relay_reply_end(buf, size - 1, &scanned);
	ASSERT(end == end_in_steps(buf, size - 1, 1) && end == end_in_steps(buf, size - 1, 7));
	if (end > 0 && relay_reply_parse(buf, end, head, &h) == 0) {
		ASSERT(h.status >= 100 && h.status <= 999 && h.n_fields <= RELAY_FIELDS_MAX);
		ASSERT(h.framing == RELAY_NO_BODY || (!head && h.status >= 200));
		ASSERT(h.framing != RELAY_LENGTH || h.has_length);
		for (unsigned i = 0; i < h.n_fields; i++) {
			ASSERT(http_is_token(h.fields[i].name, strlen(h.fields[i].name)));
			ASSERT(!relay_is_of_connection(h.fields[i].name));
			check_value(h.fields[i].value);
		}
	}
	free(buf);
	return 0;
}
