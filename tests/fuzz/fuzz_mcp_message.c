/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of a client, from the first byte to the answer. Properties: every message is finished
 * exactly once, with one line of JSON or nothing; what it says does not depend on how its bytes
 * arrived. */
#include "fuzz.h"

#include "mcp/content.h"
#include "mcp/peer.h"

#include <string.h>

struct catcher {
	struct mcp_sink sink;
	unsigned n_finished;
	char *answer; /* owned */
};

static void on_send(struct mcp_sink *sink UNUSED, enum mcp_out kind UNUSED, char *json, size_t len)
{
	ASSERT(json && strlen(json) == len && !strchr(json, '\n'));
	free(json);
}

static void on_finish(struct mcp_sink *sink, unsigned status UNUSED, char *json, size_t len)
{
	struct catcher *c = (struct catcher *)sink;

	c->n_finished++;
	ASSERT(c->n_finished == 1);
	if (json)
		ASSERT(strlen(json) == len && !strchr(json, '\n'));
	c->answer = json;
}

static void on_peer_send(struct mcp_peer *peer UNUSED, enum mcp_out kind UNUSED, char *json,
			 size_t len UNUSED)
{
	free(json);
}

static const struct mcp_sink_ops sink_ops = {.send = on_send, .finish = on_finish};
static const struct mcp_peer_ops peer_ops = {.send = on_peer_send};

static int64_t frozen_clock(void)
{
	return INT64_C(1700000000000);
}

static struct mcp_server *make_server(void)
{
	static const uint8_t key[MCP_STATE_KEY_BYTES] = {1, 2, 3};
	const struct mcp_server_config config = {
	    .name = "fuzz",
	    .version = "1",
	    .state_key = key,
	    .now_ms = frozen_clock,
	    .tick_ms = frozen_clock,
	    .offers =
		MCP_OFFER_RESOURCES | MCP_OFFER_PROMPTS | MCP_OFFER_LOGGING | MCP_OFFER_COMPLETIONS,
	};
	struct err e = ERR_INIT;

	return mcp_server_new(&config, &e);
}

/* The answer to the message, fed in pieces of STEP bytes; NULL = none. Owned by the caller. */
static char *answer(const char *text, size_t size, size_t step)
{
	const struct mcp_peer_config config = {.transport = MCP_TRANSPORT_STDIO, .ops = &peer_ops};
	struct mcp_server *server = make_server();
	struct mcp_peer *peer = mcp_peer_new(server, &config);
	struct mcp_reader *reader = mcp_reader_new(NULL);
	struct catcher c = {.sink = {.ops = &sink_ops}};

	ASSERT(server && peer && reader);
	for (size_t at = 0; at < size; at += step)
		(void)mcp_reader_feed(reader, text + at, MIN(step, size - at));
	if (!mcp_reader_is_blank(reader))
		mcp_peer_receive(peer, reader, NULL, &c.sink);
	mcp_peer_close(peer);
	(void)mcp_reader_free(reader);
	(void)mcp_server_free(server);
	return c.answer;
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *whole = answer((const char *)data, size, size ? size : 1);
	_cleanup_free_ char *pieces = answer((const char *)data, size, 1);

	ASSERT(!whole == !pieces);
	if (whole)
		ASSERT(strcmp(whole, pieces) == 0);
	return 0;
}
