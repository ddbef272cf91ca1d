/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <pthread.h>
#include <string.h>

#define BAD 0xFF

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The table of values by character; BAD for a character that is not in the alphabet. */
static const uint8_t *values(void)
{
	static uint8_t table[256];
	static bool ready;

	if (!ready) {
		for (size_t i = 0; i < sizeof(table); i++)
			table[i] = BAD;
		for (uint8_t i = 0; i < 64; i++)
			table[(uint8_t)alphabet[i]] = i;
		ready = true;
	}
	return table;
}

/* The last group: "xx==" or "xxx=". Its unused bits are ignored. */
static int decode_pad(struct base64_decoder *d, uint8_t *ret, size_t *n)
{
	if (d->n_chars < 2 || d->n_chars + ++d->n_pad > 4)
		return -EINVAL;
	if (d->n_chars + d->n_pad < 4)
		return 0;
	uint32_t bytes = d->bits >> (d->n_chars == 2 ? 4 : 2);
	for (unsigned i = d->n_chars - 1; i-- > 0;) {
		if (ret)
			ret[*n] = (uint8_t)(bytes >> (8 * i));
		(*n)++;
	}
	return 0;
}

/* Decodes whole groups of four from the beginning of TEXT and stops before the first wrong one.
 * Returns the number of characters used. RET may be NULL. */
static size_t decode_groups(const uint8_t *value, const char *text, size_t len, uint8_t *ret)
{
	const uint8_t *t = (const uint8_t *)text;
	size_t i = 0;

	for (; len - i >= 4; i += 4) {
		const uint8_t a = value[t[i]], b = value[t[i + 1]];
		const uint8_t c = value[t[i + 2]], e = value[t[i + 3]];

		if ((a | b | c | e) & 0x80) /* one of them is BAD; values have six bits */
			break;
		if (!ret)
			continue;
		*ret++ = (uint8_t)(a << 2 | b >> 4);
		*ret++ = (uint8_t)(b << 4 | c >> 2);
		*ret++ = (uint8_t)(c << 6 | e);
	}
	return i;
}

/* One character of a group. False: it does not belong there. */
static bool decode_one(struct base64_decoder *d, const uint8_t *value, char c, uint8_t *ret,
		       size_t *n)
{
	if (c == '=')
		return decode_pad(d, ret, n) == 0;
	const uint8_t v = value[(uint8_t)c];
	if (v == BAD || d->n_pad > 0)
		return false;
	d->bits = (d->bits << 6 | v) & 0xFFFFFF;
	if (++d->n_chars < 4)
		return true;
	d->n_chars = 0;
	if (ret) {
		ret[*n] = (uint8_t)(d->bits >> 16);
		ret[*n + 1] = (uint8_t)(d->bits >> 8);
		ret[*n + 2] = (uint8_t)d->bits;
	}
	*n += 3;
	return true;
}

/* ---- what a lax decoder takes ---- */

static const char head_word[] = "data:", tail_word[] = ";base64";
#define HEAD_WORD                                                                                  \
	(sizeof(head_word) - 1) /* d->head below it: so many characters of it were there */
#define HEAD_INSIDE HEAD_WORD   /* between "data:" and the comma */
#define HEAD_DONE   (HEAD_WORD + 1)
#define HEAD_MAX    256U /* characters of a head */

/* The beginning of a text. True: C is no part of the head, and the text begins with it or with what was held back. */
static bool is_after_head(struct base64_decoder *d, char c, bool *ret_good)
{
	*ret_good = true;
	if (d->head < HEAD_WORD) {
		if (d->head == 0 && (c == ' ' || c == '\r' || c == '\n' || c == '\t'))
			return true;
		if (c != head_word[d->head])
			return true;
		d->head++;
		return false;
	}
	d->irregular = true;
	if (c == ',') {
		*ret_good = d->n_tail == sizeof(tail_word) - 1;
		d->head = HEAD_DONE;
		return false;
	}
	d->n_tail = c == tail_word[d->n_tail] ? d->n_tail + 1 : c == tail_word[0] ? 1 : 0;
	*ret_good = d->n_seen < HEAD_MAX && (uint8_t)c > ' ' && (uint8_t)c < 0x7F;
	return false;
}

/* Blanks inside a line were pluses. */
static bool add_blanks(struct base64_decoder *d, const uint8_t *value, uint8_t *ret, size_t *n)
{
	bool good = d->n_blank == 0 || d->n_pad == 0;

	for (; good && d->n_blank > 0; d->n_blank--)
		good = decode_one(d, value, '+', ret, n);
	return good;
}

static bool decode_lax(struct base64_decoder *d, const uint8_t *value, char c, uint8_t *ret,
		       size_t *n)
{
	bool good;

	if (d->head != HEAD_DONE) {
		if (!is_after_head(d, c, &good))
			return good;
		const unsigned held = d->head;

		if (held > 0 || (c != ' ' && c != '\r' && c != '\n' && c != '\t'))
			d->head = HEAD_DONE;
		for (unsigned i = 0; i < held; i++)
			(void)decode_one(d, value, head_word[i], ret, n); /* letters all of them */
		d->in_line = held > 0;
	}
	switch (c) {
	case '\r':
	case '\n':
	case '\t':
		d->n_blank = 0;
		d->in_line = false;
		d->irregular = true;
		return true;
	case ' ':
		d->irregular = true;
		if (!d->in_line)
			return true;
		if (d->n_pad == 0)
			d->n_blank++;
		return d->n_blank < BASE64_HELD_MAX;
	case '-':
	case '_':
		d->irregular = true;
		c = c == '-' ? '+' : '/';
		break;
	default:
		break;
	}
	d->in_line = true;
	return add_blanks(d, value, ret, n) && decode_one(d, value, c, ret, n);
}

int base64_decode(struct base64_decoder *d, const char *text, size_t len, uint8_t *ret,
		  size_t *ret_len)
{
	const uint8_t *value = values();
	size_t n = 0;

	for (size_t i = 0; i < len;) {
		const bool aligned = d->n_chars == 0 && d->n_pad == 0 && d->n_blank == 0 &&
				     (!d->lax || d->head == HEAD_DONE);
		const size_t whole =
		    aligned ? decode_groups(value, text + i, len - i, ret ? ret + n : NULL) : 0;

		n += whole / 4 * 3;
		i += whole;
		d->n_seen += whole;
		d->in_line = d->in_line || whole > 0;
		if (i == len)
			break;
		d->n_seen++;
		if (!(d->lax ? decode_lax(d, value, text[i], ret, &n)
			     : decode_one(d, value, text[i], ret, &n)))
			return -EINVAL;
		i++;
	}
	if (ret_len)
		*ret_len = n;
	return 0;
}

int base64_decode_end(struct base64_decoder *d, uint8_t *ret, size_t *ret_len)
{
	const uint8_t *value = values();
	size_t n = 0;

	*ret_len = 0;
	if (d->lax && d->head < HEAD_WORD)
		for (unsigned i = 0; i < d->head; i++)
			(void)decode_one(d, value, head_word[i], ret, &n);
	/* Blanks at the end are pluses if they complete the last group. */
	if (d->n_blank > 0 && (d->n_chars + d->n_blank != 4 || !add_blanks(d, value, ret, &n)))
		d->n_blank = 0;
	if (d->lax && d->n_chars >= 2 && d->n_chars + d->n_pad < 4) {
		d->irregular = true;
		while (d->n_chars + d->n_pad < 4)
			if (decode_pad(d, ret, &n) < 0)
				return -EINVAL;
	}
	*ret_len = n;
	if (d->lax && d->head == HEAD_INSIDE)
		return -EINVAL;
	if (d->n_pad > 0)
		return d->n_chars + d->n_pad == 4 ? 0 : -EINVAL;
	return d->n_chars == 0 ? 0 : -EINVAL;
}

/* Two characters for each 12 bits: half as many look-ups, 8 KiB that stay in the cache. */
static char pair_table[4096][2];

static void fill_pairs(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(pair_table); i++) {
		pair_table[i][0] = alphabet[i >> 6];
		pair_table[i][1] = alphabet[i & 63];
	}
}

/* Threads encode, too. */
static const char (*pairs(void))[2]
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, fill_pairs);
	return pair_table;
}

void base64_encode(const uint8_t *data, size_t len, char *ret)
{
	const char(*pair)[2] = pairs();

	for (; len >= 3; len -= 3, data += 3, ret += 4) {
		memcpy(ret, pair[data[0] << 4 | data[1] >> 4], 2);
		memcpy(ret + 2, pair[(data[1] & 15) << 8 | data[2]], 2);
	}
	if (len == 0)
		return;
	uint8_t second = len == 2 ? data[1] : 0;
	ret[0] = alphabet[data[0] >> 2];
	ret[1] = alphabet[(data[0] & 3) << 4 | second >> 4];
	ret[2] = len == 2 ? alphabet[(second & 15) << 2] : '=';
	ret[3] = '=';
}
