/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/fold.h"

/* In quarters of a character of plain text. A model's tokens are words and parts of words, of up to three digits, or of one
 * sign; a row of blanks is one. Of the letters of other scripts a token has one or two, which are two to four bytes. */
static size_t weight_of(const char *text, size_t len)
{
	size_t sum = 0;

	for (size_t i = 0; i < len; i++) {
		const uint8_t c = (uint8_t)text[i];

		if (c == ' ' && i > 0 && text[i - 1] == ' ')
			sum += 1;
		else if (c >= 0x80)
			sum += 5;
		else
			sum +=
			    (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ' ' ? 4 : 10;
	}
	return sum;
}

size_t fold_weight(const struct run_output *o, size_t room)
{
	const size_t half =
	    MIN(o->len, room) / 2; /* of the beginning, and of the end, as they are shown */
	const size_t weight =
	    half == 0 ? 0 : weight_of(o->data, half) + weight_of(o->data + o->len - half, half);
	/* prose has some signs, too */
	const size_t plain = 9 * half;

	return weight <= plain ? o->len : (size_t)((uint64_t)o->len * weight / plain);
}

size_t fold_room(const struct run_output *o, size_t room)
{
	const size_t weight = fold_weight(o, room);

	return weight <= o->len ? room : (size_t)((uint64_t)room * o->len / weight) + 1;
}
