/* SPDX-License-Identifier: Apache-2.0 */
#include "http/chunk.h"

#include "base/text.h"
#include "base/walls.h"

#define CHUNK_DIGITS_MAX 15 /* 60 bits */

enum {
	CHUNK_SIZE,  /* digits of the size */
	CHUNK_BLANK, /* blanks between the size and an extension */
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF, /* LF after the size */
	CHUNK_DATA,
	CHUNK_DATA_CR, /* CRLF after the data */
	CHUNK_DATA_LF,
	CHUNK_END_CR, /* CRLF after the last chunk, or the beginning of a trailer */
	CHUNK_TRAILER,
	CHUNK_TRAILER_LF,
	CHUNK_END_LF,
	CHUNK_DONE,
};

static int size_char(struct http_chunk *c, char ch)
{
	const int digit = text_hex_digit(ch);

	if (digit >= 0) {
		if (c->digits++ == CHUNK_DIGITS_MAX)
			return -EBADMSG;
		c->left = c->left * 16 + (uint64_t)digit;
		return 0;
	}
	if (ch != '\r' && !wall_stands(WALL_CHUNK))
		return 0;
	if (c->digits == 0)
		return -EBADMSG;
	if (ch == '\r')
		c->state = CHUNK_SIZE_LF;
	else if (ch == ';')
		c->state = CHUNK_EXTENSION;
	else if (ch == ' ' || ch == '\t')
		c->state = CHUNK_BLANK;
	else
		return -EBADMSG;
	return 0;
}

/* A character of a line that is skipped; CR leads to the state END. */
static int skipped_char(struct http_chunk *c, char ch, unsigned end)
{
	if (ch == '\r') {
		c->state = end;
		return 0;
	}
	if (((unsigned char)ch < 0x20 && ch != '\t') || ch == 0x7F ||
	    c->extra++ == HTTP_CHUNK_EXTRA_MAX)
		return -EBADMSG;
	return 0;
}

static int blank_char(struct http_chunk *c, char ch)
{
	if (ch == ';')
		c->state = CHUNK_EXTENSION;
	return ch == ';' || ((ch == ' ' || ch == '\t') && c->extra++ < HTTP_CHUNK_EXTRA_MAX)
		   ? 0
		   : -EBADMSG;
}

/* States in which exactly one character is allowed, and the state after it. */
static int fixed_char(struct http_chunk *c, char ch)
{
	static const struct {
		char want;
		unsigned next;
	} steps[] = {
	    [CHUNK_SIZE_LF] = {'\n', CHUNK_DATA},      [CHUNK_DATA_CR] = {'\r', CHUNK_DATA_LF},
	    [CHUNK_DATA_LF] = {'\n', CHUNK_SIZE},      [CHUNK_END_CR] = {'\r', CHUNK_END_LF},
	    [CHUNK_TRAILER_LF] = {'\n', CHUNK_END_CR}, [CHUNK_END_LF] = {'\n', CHUNK_DONE},
	};

	if (ch != steps[c->state].want)
		return -EBADMSG;
	if (c->state == CHUNK_SIZE_LF && c->left == 0)
		c->state = CHUNK_END_CR;
	else
		c->state = steps[c->state].next;
	if (c->state == CHUNK_SIZE) {
		c->left = 0;
		c->digits = 0;
	}
	return 0;
}

static int framing_char(struct http_chunk *c, char ch)
{
	switch (c->state) {
	case CHUNK_SIZE:
		return size_char(c, ch);
	case CHUNK_BLANK:
		return blank_char(c, ch);
	case CHUNK_EXTENSION:
		return skipped_char(c, ch, CHUNK_SIZE_LF);
	case CHUNK_TRAILER:
		return skipped_char(c, ch, CHUNK_TRAILER_LF);
	case CHUNK_END_CR:
		if (ch == '\r' || ch == ' ' ||
		    ch == '\t') /* a blank would continue the line before */
			return fixed_char(c, ch);
		c->state = CHUNK_TRAILER;
		return skipped_char(c, ch, CHUNK_TRAILER_LF);
	default:
		return fixed_char(c, ch);
	}
}

int64_t http_chunk_next(struct http_chunk *c, const char *buf, size_t len, const char **ret_data,
			size_t *ret_n)
{
	size_t i = 0;

	*ret_data = NULL;
	*ret_n = 0;
	if (c->state == CHUNK_DATA && len > 0) {
		const size_t n = c->left < len ? (size_t)c->left : len;

		c->left -= n;
		if (c->left == 0)
			c->state = CHUNK_DATA_CR;
		*ret_data = buf;
		*ret_n = n;
		return (int64_t)n;
	}
	while (i < len && c->state != CHUNK_DATA && c->state != CHUNK_DONE) {
		const int r = framing_char(c, buf[i]);

		if (r < 0)
			return r;
		i++;
	}
	return (int64_t)i;
}

uint64_t http_chunk_announced(const struct http_chunk *c)
{
	return c->state == CHUNK_DATA ? c->left : 0;
}

void http_chunk_untake(struct http_chunk *c, size_t n)
{
	if (n > 0)
		c->state = CHUNK_DATA;
	c->left += n;
}

bool http_chunk_done(const struct http_chunk *c)
{
	return c->state == CHUNK_DONE;
}
