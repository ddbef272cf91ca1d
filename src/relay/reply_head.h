/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of answers that a server behind us sends: RFC 9112, read tolerantly. Everything is written anew for the client, so
 * two readers cannot understand it differently: a bare LF ends a line, too, and fields that are none are left out. What
 * decides where the answer ends is read strictly. No allocation, no I/O; fuzzed. */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELAY_HEAD_MAX   (32u << 10)
#define RELAY_FIELDS_MAX 128u

enum relay_framing {
	RELAY_NO_BODY,
	RELAY_LENGTH,
	RELAY_CHUNKED,
	RELAY_UNTIL_CLOSE,
};

struct relay_reply {
	int status; /* 100 to 999 */
	enum relay_framing framing;
	uint64_t length; /* with RELAY_LENGTH, and of an answer to HEAD that tells it */
	bool has_length;
	bool closes; /* the connection serves no further request */
	unsigned n_fields;
	struct { /* strings inside the head; no control characters */
		const char *name;
		const char *value;
	} fields
	    [RELAY_FIELDS_MAX]; /* without those that concern the connection, and Content-Length */
};

/* The length of the head at the beginning of the LEN bytes of BUF, with its empty line; 0: it has not ended yet. *SCANNED is
 * 0 at first, and what this function has left there later. */
size_t relay_reply_end(const char *buf, size_t len, size_t *scanned) MUST_CHECK;
/* BUF is a head of LEN bytes; it is cut into strings in place. HEAD: the request was one. -EBADMSG. */
int relay_reply_parse(char *buf, size_t len, bool head, struct relay_reply *ret) MUST_CHECK;
/* Is NAME a field that concerns one connection alone (RFC 9110 §7.6.1), or the framing of the body? */
bool relay_is_of_connection(const char *name);
