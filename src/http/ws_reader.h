/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a WebSocket (RFC 6455 §5) made into messages: those of a client, which have masks, or of a server, which have none. No extension is spoken, so whatever two readers could
 * understand differently is refused: reserved bits, unknown opcodes, frames without their mask, lengths in a longer form than they need,
 * control frames that are long or in fragments. No I/O; fuzzed (tests/fuzz/fuzz_ws_reader.c). */
#pragma once

#include "base/attr.h"
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WS_HEAD_MAX    14u
#define WS_CONTROL_MAX 125u
#define WS_MASK_BYTES  4u

/* Close codes that this server sends, RFC 6455 §7.4.1. */
enum ws_code {
	WS_CODE_NORMAL = 1000,
	WS_CODE_LEAVING = 1001, /* the server ends */
	WS_CODE_PROTOCOL = 1002,
	WS_CODE_NONE = 1005, /* never sent: the client gave none */
	WS_CODE_TEXT = 1007, /* a text that is not UTF-8 */
	WS_CODE_POLICY = 1008,
	WS_CODE_TOO_LARGE = 1009,
	WS_CODE_BUSY = 1013,
};

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

struct ws_reader {
	bool masked;         /* frames of a client */
	struct buf message;  /* data so far; its maximum is that of a message */
	enum ws_opcode kind; /* of the message: TEXT, BINARY; CONTINUATION: none has begun */
	size_t checked;      /* TEXT: bytes of MESSAGE that are known to be UTF-8 */
	/* the frame that is being read */
	uint8_t head[WS_HEAD_MAX];
	unsigned n_head; /* bytes of it */
	bool in_data;    /* the head is complete */
	enum ws_opcode opcode;
	bool fin;
	uint8_t mask[4];
	unsigned mask_at;
	uint64_t left; /* bytes of data that follow */
	uint8_t control[WS_CONTROL_MAX];
	unsigned n_control;
	bool clear; /* MESSAGE was told, and the next data begins another one */
};

/* What has been read completely. DATA is borrowed until the next call. */
struct ws_heard {
	enum ws_opcode opcode; /* TEXT and BINARY: a whole message. CONTINUATION: nothing yet */
	const void *data;      /* CLOSE: the reason */
	size_t len;
	unsigned code; /* CLOSE */
};

/* MASKED: it reads what a client sends, otherwise what a server sends. */
void ws_reader_init(struct ws_reader *r, size_t message_max, bool masked);
void ws_reader_done(struct ws_reader *r);
/* Reads from DATA up to the end of one message or control frame, or all of it; *RET_USED bytes were read. Returns 0, or the code
 * to close with; then nothing more can be read. -ENOMEM. */
int ws_read(struct ws_reader *r, const uint8_t *data, size_t len, size_t *ret_used,
	    struct ws_heard *ret) MUST_CHECK;

/* Writes the head of a frame that is a whole message of LEN bytes. MASK: WS_MASK_BYTES of a client's frame; NULL: of a
 * server's. Returns its bytes. */
size_t ws_write_head(enum ws_opcode opcode, uint64_t len, const uint8_t *mask,
		     uint8_t ret[WS_HEAD_MAX]);
/* DATA of a client's frame, in place. */
void ws_mask(uint8_t *data, size_t len, const uint8_t mask[WS_MASK_BYTES]);
