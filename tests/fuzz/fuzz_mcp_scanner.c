/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming JSON scanner. Properties: how the text is cut makes no difference; it accepts what
 * a full parser accepts (limits and number ranges apart); what it leaves is JSON. */
#include "fuzz.h"

#include "mcp/scanner.h"

#include <jansson.h>
#include <string.h>

#define FLAGS (JSON_DECODE_ANY | JSON_ALLOW_NUL)

static const struct scan_limits limits = {
    .max_message = 1 << 20,
    .max_rest = 1 << 16,
    .spill_min = 32,
    .max_values = 1000,
    .max_depth = 16,
};

static enum scan_fault scan(struct scanner *s, const uint8_t *data, size_t size, size_t piece)
{
	scanner_init(s, &limits);
	for (size_t at = 0; at < size; at += piece)
		(void)scanner_feed(s, (const char *)data + at, MIN(piece, size - at));
	return scanner_end(s);
}

/* Placeholders differ, because each message has its own random number, but not in length. */
static void check_same(const struct scanner *a, const struct scanner *b)
{
	ASSERT(a->rest.len == b->rest.len);
	if (!a->spill)
		ASSERT(!b->spill && memcmp(buf_str(&a->rest), buf_str(&b->rest), a->rest.len) == 0);
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	struct scanner whole, bytes;
	enum scan_fault fault = scan(&whole, data, size, size ? size : 1);
	enum scan_fault again = scan(&bytes, data, size, 1);
	json_error_t e;
	json_t *parsed = json_loadb((const char *)data, size, FLAGS, &e);

	ASSERT((fault == SCAN_OK) == (again == SCAN_OK));
	if (fault == SCAN_OK) {
		json_t *rest = json_loadb(buf_str(&whole.rest), whole.rest.len, FLAGS, NULL);

		check_same(&whole, &bytes);
		ASSERT(!rest == !parsed);
		if (!parsed)
			ASSERT(json_error_code(&e) == json_error_numeric_overflow ||
			       json_error_code(&e) == json_error_null_byte_in_key);
		json_decref(rest);
	} else if (fault == SCAN_SYNTAX || fault == SCAN_UTF8) {
		/* jansson takes a NUL after the text for the end of input. */
		ASSERT(!parsed || memchr(data, '\0', size));
	}
	json_decref(parsed);
	scanner_done(&whole);
	scanner_done(&bytes);
	return 0;
}
