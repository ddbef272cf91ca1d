/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of answers that servers in sandboxes send: RFC 9112, read tolerantly. Everything is written anew for the client, so
 * two readers cannot understand it differently: a bare LF ends a line, too, and fields that are none are left out. What
 * decides where the answer ends is read strictly. No allocation, no I/O; fuzzed. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PORT_HEAD_MAX   (32u << 10)
#define PORT_FIELDS_MAX 128u

enum port_framing {
	PORT_NO_BODY,
	PORT_LENGTH,
	PORT_CHUNKED,
	PORT_UNTIL_CLOSE,
};

struct port_reply {
	int status; /* 100 to 999 */
	enum port_framing framing;
	uint64_t length; /* with PORT_LENGTH, and of an answer to HEAD that tells it */
	bool has_length;
	unsigned n_fields;
	struct { /* strings inside the head; no control characters */
		const char *name;
		const char *value;
	} fields
	    [PORT_FIELDS_MAX]; /* without those that concern the connection, and Content-Length */
};

/* The length of the head at the beginning of the LEN bytes of BUF, with its empty line; 0: it has not ended yet. *SCANNED is
 * 0 at first, and what this function has left there later. */
size_t port_reply_end(const char *buf, size_t len, size_t *scanned) MUST_CHECK;
/* BUF is a head of LEN bytes; it is cut into strings in place. HEAD: the request was one. -EBADMSG. */
int port_reply_parse(char *buf, size_t len, bool head, struct port_reply *ret) MUST_CHECK;
/* Is NAME a field that concerns one connection alone (RFC 9110 §7.6.1), or the framing of the body? */
bool port_is_of_connection(const char *name);
