/* SPDX-License-Identifier: Apache-2.0 */
/* Parser of request heads (RFC 9112). It is strict: a head that two parsers could understand in two ways
 * is refused. No I/O; only the new head for the server allocates. Fuzzed. */
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
	const char *path; /* slice, for the server; "" means "/"; unused with CONNECT */
	size_t path_len;
	uint64_t body; /* bytes that follow the head */
	struct egress_field fields[EGRESS_FIELDS_MAX];
	size_t n_fields;
};

/* Returns the length of the head with its empty line, 0 when more bytes are needed, or -EBADMSG with
 * *RET_WHY. */
int egress_head_scan(const char *buf, size_t len, enum egress_reason *ret_why) MUST_CHECK;
/* BUF is one complete head; the slices of RET point into it. -EBADMSG with *RET_WHY; method and target are
 * set even then, if they could be read. */
int egress_head_parse(const char *buf, size_t len, struct egress_head *ret,
		      enum egress_reason *ret_why) MUST_CHECK;
/* Writes the head for the server: the path, one Host, no hop-by-hop fields, Connection: close. */
/* READS: for a package index, with the fields alone that reading it takes. */
int egress_head_write(const struct egress_head *h, bool reads, struct buf *out) MUST_CHECK;
