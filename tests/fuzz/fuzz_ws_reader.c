/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of a WebSocket client. The first byte of the input chooses the bound of a message. Properties: however the bytes
 * arrive, the same is heard and the same is refused; a message is never longer than its bound, a control frame never longer
 * than 125 bytes; texts and reasons are UTF-8; no memory is held beyond the bound; what we write we could read. */
#include "fuzz.h"

#include "base/text.h"
#include "http/ws_reader.h"

#include <stdlib.h>
#include <string.h>

#define INPUT_MAX (16u << 10)

static void note(struct buf *all, const struct ws_heard *h, size_t max)
{
	if (h->opcode == WS_CONTINUATION)
		return;
	ASSERT(h->len <= (h->opcode >= WS_CLOSE ? WS_CONTROL_MAX : max));
	if (h->opcode == WS_TEXT || h->opcode == WS_CLOSE)
		ASSERT(text_is_utf8(h->data ? h->data : "", h->len));
	ASSERT(buf_printf(all, "[%d %zu %u ", (int)h->opcode, h->len, h->code) == 0);
	ASSERT(buf_add(all, h->data ? h->data : "", h->len) == 0);
}

/* In steps of STEP bytes. */
static int feed(const uint8_t *data, size_t size, size_t step, size_t max, bool masked,
		struct buf *all)
{
	struct ws_reader r;
	int code = 0;

	ws_reader_init(&r, max, masked);
	for (size_t at = 0; code == 0 && at < size;) {
		const size_t part = MIN(step, size - at);
		struct ws_heard heard;
		size_t used;

		code = ws_read(&r, data + at, part, &used, &heard);
		ASSERT(used > 0 && used <= part && code >= 0);
		ASSERT(code != 0 || used == part || heard.opcode != WS_CONTINUATION);
		ASSERT(r.message.cap <= max + 1);
		at += used;
		if (code == 0)
			note(all, &heard, max);
		if (code == 0 && heard.opcode == WS_CLOSE)
			code = -1;
	}
	ws_reader_done(&r);
	return code;
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	static const size_t maxima[] = {0, 1, 125, 126, 1000, 16384, 65536, 100000};

	if (size == 0 || size > INPUT_MAX)
		return 0;
	const size_t max = maxima[data[0] % ARRAY_SIZE(maxima)];
	const bool masked = !(data[0] & 0x80);
	struct buf whole = BUF_INIT(64 * INPUT_MAX);
	const int want = feed(data + 1, size - 1, size, max, masked, &whole);

	for (size_t step = 1; step < 8; step += 3) {
		struct buf pieces = BUF_INIT(64 * INPUT_MAX);

		ASSERT(feed(data + 1, size - 1, step, max, masked, &pieces) == want);
		ASSERT(pieces.len == whole.len &&
		       memcmp(buf_str(&pieces), buf_str(&whole), whole.len) == 0);
		buf_done(&pieces);
	}
	buf_done(&whole);
	return 0;
}
