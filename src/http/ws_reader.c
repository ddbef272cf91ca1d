/* SPDX-License-Identifier: Apache-2.0 */
#include "http/ws_reader.h"

#include "base/text.h"
#include "base/walls.h"

#include <errno.h>
#include <string.h>

#define FIN       0x80u
#define RESERVED  0x70u
#define OPCODE    0x0fu
#define MASKED    0x80u
#define LENGTH    0x7fu
#define LENGTH_16 126u
#define LENGTH_64 127u
#define CONTROL   0x08u /* bit of the opcodes of control frames */
/* Larger buffers are given back after each message: a client that sends now and then holds none. */
#define KEPT_BYTES 1024u

void ws_reader_init(struct ws_reader *r, size_t message_max, bool masked)
{
	*r = (struct ws_reader){.masked = masked};
	buf_init(&r->message, message_max);
}

void ws_reader_done(struct ws_reader *r)
{
	buf_done(&r->message);
}

/* ---- heads ---- */

/* Bytes of the length behind the first two bytes of a head. */
static unsigned length_bytes(const uint8_t *head)
{
	const unsigned length = head[1] & LENGTH;

	return length == LENGTH_64 ? 8 : length == LENGTH_16 ? 2 : 0;
}

static unsigned head_bytes(const struct ws_reader *r)
{
	return r->n_head < 2 ? 2 : 2 + length_bytes(r->head) + (r->masked ? WS_MASK_BYTES : 0);
}

static bool is_control(enum ws_opcode opcode)
{
	return ((unsigned)opcode & CONTROL) != 0;
}

/* The first two bytes. */
static int check_begin(const struct ws_reader *r)
{
	const uint8_t *h = r->head;
	const unsigned opcode = h[0] & OPCODE;
	const bool control = opcode & CONTROL;
	const bool begun = r->kind != WS_CONTINUATION;

	if (!wall_stands(WALL_FRAMES)) /* what would not fit is refused all the same */
		return control && (h[1] & LENGTH) > WS_CONTROL_MAX ? WS_CODE_PROTOCOL : 0;
	if ((h[0] & RESERVED) || ((h[1] & MASKED) != 0) != r->masked)
		return WS_CODE_PROTOCOL;
	if (opcode > WS_PONG || (opcode > WS_BINARY && opcode < WS_CLOSE))
		return WS_CODE_PROTOCOL;
	if (control && (!(h[0] & FIN) || (h[1] & LENGTH) > WS_CONTROL_MAX))
		return WS_CODE_PROTOCOL;
	/* A message goes on, or another one begins when the last has ended. */
	if (!control && begun != (opcode == WS_CONTINUATION))
		return WS_CODE_PROTOCOL;
	return 0;
}

/* The whole head. */
static int take_head(struct ws_reader *r)
{
	const unsigned n = length_bytes(r->head);
	uint64_t length = r->head[1] & LENGTH;

	if (n > 0)
		length = 0;
	for (unsigned i = 0; i < n; i++)
		length = length << 8 | r->head[2 + i];
	if (((n == 2 && length < LENGTH_16) ||
	     (n == 8 && (length <= UINT16_MAX || length > INT64_MAX))) &&
	    wall_stands(WALL_FRAMES))
		return WS_CODE_PROTOCOL;
	r->opcode = (enum ws_opcode)(r->head[0] & OPCODE);
	r->fin = r->head[0] & FIN;
	if (r->masked) /* otherwise it stays zero, which changes nothing */
		memcpy(r->mask, r->head + 2 + n, WS_MASK_BYTES);
	r->mask_at = 0;
	r->left = length;
	r->in_data = true;
	r->n_control = 0;
	if (is_control(r->opcode))
		return 0;
	/* the buffer has the bound, too */
	if (length > r->message.max - r->message.len && wall_stands(WALL_FRAMES))
		return WS_CODE_TOO_LARGE;
	if (r->opcode != WS_CONTINUATION)
		r->kind = r->opcode;
	return 0;
}

/* ---- data ---- */

static void unmask(struct ws_reader *r, uint8_t *to, const uint8_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = from[i] ^ r->mask[(r->mask_at + i) % WS_MASK_BYTES];
	r->mask_at = (unsigned)((r->mask_at + n) % WS_MASK_BYTES);
}

/* Checks what has come of a text, so that one that is none ends before all of it has come. */
static int check_text(struct ws_reader *r, bool whole)
{
	const char *text = buf_str(&r->message);
	const size_t open = whole ? 0 : text_utf8_open(text, r->message.len);
	const size_t end = MAX(r->message.len - open, r->checked);

	if (!text_is_utf8(text + r->checked, end - r->checked) && wall_stands(WALL_FRAMES))
		return WS_CODE_TEXT;
	r->checked = end;
	return 0;
}

static int add_data(struct ws_reader *r, const uint8_t *data, size_t n)
{
	const size_t at = r->message.len;
	/* Memory is taken for what has come, not for what a head announces. */
	const int q = buf_add(&r->message, data, n);

	if (q < 0)
		return q;
	unmask(r, (uint8_t *)r->message.data + at, data, n);
	return r->kind == WS_TEXT ? check_text(r, false) : 0;
}

/* ---- ends of frames ---- */

/* Codes that a client may send, RFC 6455 §7.4 and the registry of IANA. */
static bool is_close_code(unsigned code)
{
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	       (code >= 3000 && code <= 4999);
}

static int hear_close(struct ws_reader *r, struct ws_heard *ret)
{
	ret->code = WS_CODE_NONE;
	if (r->n_control == 0)
		return 0;
	if (r->n_control == 1)
		return WS_CODE_PROTOCOL;
	ret->code = (unsigned)r->control[0] << 8 | r->control[1];
	if (!is_close_code(ret->code) && wall_stands(WALL_FRAMES))
		return WS_CODE_PROTOCOL;
	ret->data = r->control + 2;
	ret->len = r->n_control - 2;
	return text_is_utf8(ret->data, ret->len) ? 0 : WS_CODE_TEXT;
}

static int end_frame(struct ws_reader *r, struct ws_heard *ret)
{
	r->in_data = false;
	r->n_head = 0;
	if (is_control(r->opcode)) {
		*ret =
		    (struct ws_heard){.opcode = r->opcode, .data = r->control, .len = r->n_control};
		return r->opcode == WS_CLOSE ? hear_close(r, ret) : 0;
	}
	if (!r->fin)
		return 0;
	const int code = r->kind == WS_TEXT ? check_text(r, true) : 0;
	*ret = (struct ws_heard){
	    .opcode = r->kind, .data = buf_str(&r->message), .len = r->message.len};
	r->kind = WS_CONTINUATION;
	r->checked = 0;
	r->clear = true;
	return code;
}

/* ---- reading ---- */

static int take_data(struct ws_reader *r, const uint8_t *data, size_t n)
{
	int q = 0;

	if (is_control(r->opcode)) {
		unmask(r, r->control + r->n_control, data, n);
		r->n_control += (unsigned)n;
	} else {
		q = add_data(r, data, n);
	}
	r->left -= n;
	return q;
}

static void forget_told(struct ws_reader *r)
{
	if (!r->clear)
		return;
	r->clear = false;
	if (r->message.cap > KEPT_BYTES)
		buf_done(&r->message);
	else
		buf_reset(&r->message);
}

static int add_to_head(struct ws_reader *r, uint8_t byte)
{
	r->head[r->n_head++] = byte;
	if (r->n_head == 2) {
		const int code = check_begin(r);
		if (code)
			return code;
	}
	return r->n_head >= 2 && r->n_head == head_bytes(r) ? take_head(r) : 0;
}

int ws_read(struct ws_reader *r, const uint8_t *data, size_t len, size_t *ret_used,
	    struct ws_heard *ret)
{
	size_t at = 0;
	int q = 0;

	forget_told(r);
	*ret = (struct ws_heard){.opcode = WS_CONTINUATION};
	while (q == 0 && at < len && ret->opcode == WS_CONTINUATION) {
		if (!r->in_data) {
			q = add_to_head(r, data[at++]);
		} else if (r->left > 0) {
			const size_t n = (size_t)MIN(r->left, (uint64_t)(len - at));
			q = take_data(r, data + at, n);
			at += n;
		}
		if (q == 0 && r->in_data && r->left == 0)
			q = end_frame(r, ret);
	}
	*ret_used = at;
	return q;
}

size_t ws_write_head(enum ws_opcode opcode, uint64_t len, const uint8_t *mask,
		     uint8_t ret[WS_HEAD_MAX])
{
	const unsigned n = len < LENGTH_16 ? 0 : len <= UINT16_MAX ? 2 : 8;

	ret[0] = (uint8_t)(FIN | (unsigned)opcode);
	ret[1] = n == 0 ? (uint8_t)len : n == 2 ? LENGTH_16 : LENGTH_64;
	for (unsigned i = 0; i < n; i++)
		ret[2 + i] = (uint8_t)(len >> (8 * (n - 1 - i)));
	if (!mask)
		return 2 + n;
	ret[1] |= MASKED;
	memcpy(ret + 2 + n, mask, WS_MASK_BYTES);
	return 2 + n + WS_MASK_BYTES;
}

void ws_mask(uint8_t *data, size_t len, const uint8_t mask[WS_MASK_BYTES])
{
	for (size_t i = 0; i < len; i++)
		data[i] ^= mask[i % WS_MASK_BYTES];
}
