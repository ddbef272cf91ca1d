/* SPDX-License-Identifier: Apache-2.0 */
/* One client of the MCP library in a test: says messages, keeps what came back. */
#pragma once

#include "mcp/content.h"
#include "mcp/mcp.h"
#include "mcp/peer.h"

#define TALK_HELD_MAX 8
#define TALK_OPEN_MAX 16

struct talk {
	struct mcp_server *server;
	struct budgets *budgets;
	struct mcp_peer *peer;
	struct mcp_reader *reader;
	json_t *sent;        /* array: notifications and requests, in order, of all sinks */
	json_t *answer;      /* of the last finish; NULL = none */
	unsigned status;     /* of the last finish */
	unsigned n_finished; /* since the last talk_say() */
	struct mcp_sink *open[TALK_OPEN_MAX]; /* sinks that wait for their finish, oldest first */
	unsigned n_open;
	bool congested;                       /* what sinks say when asked */
	struct mcp_call *held[TALK_HELD_MAX]; /* calls of the tool "hold", unfinished */
	unsigned n_held;
	unsigned n_cancelled; /* of the tool "hold" */
};

/* Milliseconds on the library's clock. */
extern int64_t talk_now_ms;  /* of dates */
extern int64_t talk_tick_ms; /* of deadlines */

/* While a message is handled, the Nth allocation of a JSON value from now on fails (0: the next
 * one); negative: none. Counts down, so that it tells afterwards whether it came to pass. */
extern long talk_fail_at;

/* A server with a few tools, resources and prompts, and a first peer. */
void talk_open(struct talk *t, enum mcp_transport transport, unsigned offers);
/* Another peer in place of the first, which is closed. PRINCIPAL may be NULL. */
void talk_reconnect(struct talk *t, enum mcp_transport transport, const char *principal);
void talk_close(struct talk *t);
/* The client closes the stream of the newest message without an answer. */
void talk_gone(struct talk *t);

/* One message; FACTS for HTTP, else NULL. */
void talk_say_n(struct talk *t, const struct mcp_http_facts *facts, const char *text, size_t len);
void talk_say(struct talk *t, const char *text);
/* A modern request: METHOD and the members of params (JSON text without braces, may be ""). */
void talk_modern(struct talk *t, const char *method, const char *params, const char *caps);
/* initialize with REVISION and CAPS, then notifications/initialized; asserts success. */
void talk_handshake(struct talk *t, const char *revision, const char *caps);

/* Is every member of the JSON text WANT in ACTUAL, with the same value? Arrays must have the same
 * length; the string "*" stands for anything. */
bool talk_has(const json_t *actual, const char *want);
#define assert_has(actual, want)                                                                   \
	do {                                                                                       \
		const json_t *has_ = (actual);                                                     \
		if (!talk_has(has_, want)) {                                                       \
			char *text_ = json_dumps(has_, JSON_ENCODE_ANY);                           \
			print_error("got  %s\nwant %s\n", text_ ? text_ : "nothing", want);        \
			free(text_);                                                               \
			fail();                                                                    \
		}                                                                                  \
	} while (0)
