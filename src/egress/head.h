/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests to the proxy, RFC 9112 read strictly: what two readers could understand in two
 * ways is refused. No allocation, no I/O but the rewritten head; fuzzed. */
#pragma once

#include "base/buf.h"
#include "egress/host.h"
#include "egress/reason.h"

#define EGRESS_HEAD_MAX   16384u
#define EGRESS_FIELDS_MAX 100u
#define EGRESS_METHOD_MAX 16u

struct egress_field { /* slices of the head */
	const char *name;
	const char *value;
	uint16_t name_len;
	uint16_t value_len;
};

struct egress_head {
	char method[EGRESS_METHOD_MAX]; /* "CONNECT", "GET" ... */
	bool connect;
	struct egress_target target;
	const char *path; /* slice: what goes to the server; "" means "/"; not of CONNECT */
	size_t path_len;
	uint64_t body; /* bytes that follow the head */
	struct egress_field fields[EGRESS_FIELDS_MAX];
	size_t n_fields;
};

/* Length of the head with its empty line, 0 when more is needed, -EBADMSG with *RET_WHY. */
int egress_head_scan(const char *buf, size_t len, enum egress_reason *ret_why) MUST_CHECK;
/* BUF is one whole head. RET's slices point into it. -EBADMSG with *RET_WHY; of what could be read
 * by then method and target are filled in. */
int egress_head_parse(const char *buf, size_t len, struct egress_head *ret,
		      enum egress_reason *ret_why) MUST_CHECK;
/* The head for the server: path, one Host, no field of the hop, Connection: close. */
int egress_head_write(const struct egress_head *h, struct buf *out) MUST_CHECK;
