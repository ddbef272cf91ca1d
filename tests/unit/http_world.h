/* SPDX-License-Identifier: Apache-2.0 */
/* A server on loopback with a handler of every kind, and what they saw. */
#pragma once

#include "base/rand.h"
#include "http/http.h"
#include "http_client.h"

/* Bytes of /big: more than the sockets of both sides hold, though each piece costs a turn of a thread. */
#define WORLD_BIG (16u << 20)

struct world {
	sd_event *loop;
	sd_event_source *jobs; /* of the pool of threads */
	struct http_server *server;
	struct http_keys *keys;
	uint16_t port;
	struct http_request *held;
	struct http_stream *stream;
	unsigned gone;
	unsigned closed;
	unsigned drained;
	uint64_t body_bytes;
	unsigned body_calls;
	bool body_end;
	bool pause_next;
	size_t untaken;    /* of the piece at which the body is paused */
	int big_fd;        /* of /big, which the server closes */
	uint32_t body_sum; /* of all bytes, in their order */
};

extern struct world w;

#define HOST "Host: 127.0.0.1\r\n"

/* cmocka's setup and teardown; the tight one has limits that a test can wait for. */
int world_setup(void **state);
int world_setup_tight(void **state);
int world_setup_with(const struct http_config *limits);
int world_teardown(void **state);

/* Sends BYTES on a fresh connection and returns the status; the answer stays in C. */
int ask_n(struct http_client *c, const char *bytes, size_t len);
int ask(struct http_client *c, const char *bytes);
int status_of(const char *bytes, size_t len);
