/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a client. The first byte chooses the client. Properties: a text that was changed has our entry, a
 * second change changes nothing, and undo gives the first text. */
#include "fuzz.h"

#include "connect/connect.h"

#include <string.h>

#define N_CLIENTS 11

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	static const struct connect_target target = {
	    .name = "caisson", .command = "/bin/caisson", .args = {"stdio"}};
	_cleanup_(buf_done) struct buf before = BUF_INIT(CONNECT_FILE_MAX);
	_cleanup_(buf_done) struct buf after = BUF_INIT(CONNECT_FILE_MAX);
	_cleanup_(buf_done) struct buf again = BUF_INIT(CONNECT_FILE_MAX);
	_cleanup_(buf_done) struct buf back = BUF_INIT(CONNECT_FILE_MAX);
	enum entry_state state = ENTRY_NONE;
	bool whole = false;

	if (size == 0)
		return 0;
	const struct client *c = &clients[data[0] % N_CLIENTS];
	ASSERT(c->name && buf_add(&before, data + 1, size - 1) == 0);
	int r = connect_text_set(c, &target, buf_str(&before), before.len, &after);
	if (r < 0) {
		ASSERT(r == -EBADMSG);
		return 0;
	}
	ASSERT(connect_text_state(c, &target, buf_str(&after), after.len, &state) == 0);
	ASSERT(state == ENTRY_OURS);
	ASSERT(connect_text_set(c, &target, buf_str(&after), after.len, &again) == 0);
	ASSERT(again.len == after.len && memcmp(buf_str(&again), buf_str(&after), after.len) == 0);
	ASSERT(connect_text_undo(c, "caisson", buf_str(&after), after.len, &before, &back,
				 &whole) == 0);
	ASSERT(whole && back.len == before.len &&
	       memcmp(buf_str(&back), buf_str(&before), before.len) == 0);
	return 0;
}
