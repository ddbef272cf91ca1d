/* SPDX-License-Identifier: Apache-2.0 */
/* A registry with tools that a test holds in its hand: `echo` answers at once, `hold` when the test
 * says so, `ask` when the client has told its roots, `blob` with a large text in N `places`. */
#pragma once

#include "mcp/content.h"
#include "mcp/mcp.h"

#define MCP_FIXTURE_BLOB 500003 /* bytes of the large text: "abc...zabc..." */

struct mcp_fixture {
	struct mcp_server *server;
	struct mcp_call *held; /* the latest `hold` that is not finished */
	unsigned held_calls;
	unsigned cancelled;
};

void mcp_fixture_init(struct mcp_fixture *f);
void mcp_fixture_done(struct mcp_fixture *f);
/* Finishes what is held with the text. */
void mcp_fixture_finish(struct mcp_fixture *f, const char *text);

#define MODERN_META                                                                                \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
	"\"io.modelcontextprotocol/clientCapabilities\":{},\"progressToken\":1}"
#define INITIALIZE(version)                                                                        \
	"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":" \
	"\"" version                                                                               \
	"\",\"capabilities\":{\"roots\":{}},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define PING(id) "{\"jsonrpc\":\"2.0\",\"id\":" #id ",\"method\":\"ping\"}"
#define CALL(id, tool)                                                                             \
	"{\"jsonrpc\":\"2.0\",\"id\":" #id                                                         \
	",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool                                  \
	"\",\"arguments\":{},\"_meta\":{\"progressToken\":1}}}"
#define MODERN_CALL(id, tool)                                                                      \
	"{\"jsonrpc\":\"2.0\",\"id\":" #id                                                         \
	",\"method\":\"tools/call\",\"params\":{\"name\":\"" tool                                  \
	"\",\"arguments\":{}," MODERN_META "}}"
