/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/escape.h"

#include "base/attr.h"
#include "base/text.h"

static const struct {
	char escape;
	char value;
} escapes[] = {
    {'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'b', '\b'},
    {'f', '\f'}, {'n', '\n'},  {'r', '\r'}, {'t', '\t'},
};

char escape_value(unsigned char c)
{
	for (size_t i = 0; i < ARRAY_SIZE(escapes); i++) {
		if (escapes[i].escape == (char)c)
			return escapes[i].value;
	}
	return 0;
}

size_t escape_encode_utf8(unsigned cp, char ret[4])
{
	if (cp < 0x80) {
		ret[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		ret[0] = (char)(0xc0 | cp >> 6);
		ret[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		ret[0] = (char)(0xe0 | cp >> 12);
		ret[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		ret[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	ret[0] = (char)(0xf0 | cp >> 18);
	ret[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	ret[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	ret[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

unsigned escape_hex4(const char *s)
{
	unsigned v = 0;

	for (unsigned i = 0; i < 4; i++)
		v = v << 4 | (unsigned)text_hex_digit(s[i]);
	return v;
}

bool escape_is_high(unsigned cp)
{
	return cp >= 0xd800 && cp <= 0xdbff;
}

unsigned escape_join(unsigned high, unsigned low)
{
	return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}
