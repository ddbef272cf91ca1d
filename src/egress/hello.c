/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/hello.h"

#include "egress/host.h"

#include <string.h>

#define RECORD_HEAD      5u
#define RECORD_HANDSHAKE 22u
#define RECORD_MAX       16384u
#define HANDSHAKE_HEAD   4u
#define CLIENT_HELLO     1u
#define RANDOM_BYTES     32u
#define SESSION_MAX      32u
#define EXTENSIONS_MAX   128u
#define EXT_SERVER_NAME  0x0000u
#define EXT_ECH          0xfe0du
#define EXT_ESNI         0xffceu
#define NAME_TYPE_HOST   0u

/* The bytes that are left to read. A read beyond the end fails, and so do all reads after it. */
struct reader {
	const uint8_t *at;
	size_t left;
	bool bad;
};

static const uint8_t *take(struct reader *r, size_t n)
{
	const uint8_t *at = r->at;

	if (r->bad || n > r->left) {
		r->bad = true;
		return NULL;
	}
	r->at += n;
	r->left -= n;
	return at;
}

static size_t take_number(struct reader *r, unsigned bytes)
{
	const uint8_t *p = take(r, bytes);
	size_t v = 0;

	for (unsigned i = 0; p && i < bytes; i++)
		v = v << 8 | p[i];
	return v;
}

/* Reads a vector, which begins with its length in LENGTH_BYTES bytes. */
static struct reader take_vector(struct reader *r, unsigned length_bytes)
{
	size_t n = take_number(r, length_bytes);
	const uint8_t *p = take(r, n);

	return (struct reader){.at = p, .left = p ? n : 0, .bad = !p};
}

static int refuse(enum egress_reason *ret_why, enum egress_reason why)
{
	*ret_why = why;
	return -EBADMSG;
}

/* The list must have exactly one name, of the type host_name, which is the only one. */
static int read_server_name(struct reader ext, char ret[EGRESS_HOST_MAX + 1],
			    enum egress_reason *ret_why)
{
	struct reader list = take_vector(&ext, 2);
	size_t type = take_number(&list, 1);
	struct reader name = take_vector(&list, 2);
	enum egress_host_form form;

	if (ext.bad || list.bad || name.bad || ext.left > 0 || list.left > 0 ||
	    type != NAME_TYPE_HOST)
		return refuse(ret_why, EGRESS_REASON_SERVER_NAME);
	if (egress_host_parse((const char *)name.at, name.left, ret, &form) < 0 ||
	    (form != EGRESS_HOST_NAME && form != EGRESS_HOST_SINGLE))
		return refuse(ret_why, EGRESS_REASON_SERVER_NAME);
	return 0;
}

static int read_extensions(struct reader all, char ret[EGRESS_HOST_MAX + 1],
			   enum egress_reason *ret_why)
{
	uint16_t seen[EXTENSIONS_MAX];
	unsigned n = 0;
	bool named = false;

	while (all.left > 0) {
		uint16_t type = (uint16_t)take_number(&all, 2);
		struct reader ext = take_vector(&all, 2);

		if (ext.bad || n == EXTENSIONS_MAX)
			return refuse(ret_why, EGRESS_REASON_NOT_TLS);
		for (unsigned i = 0; i < n; i++)
			if (seen[i] == type)
				return refuse(ret_why, EGRESS_REASON_NOT_TLS);
		seen[n++] = type;
		if (type == EXT_ECH || type == EXT_ESNI)
			return refuse(ret_why, EGRESS_REASON_HIDDEN_NAME);
		if (type != EXT_SERVER_NAME)
			continue;
		if (read_server_name(ext, ret, ret_why) < 0)
			return -EBADMSG;
		named = true;
	}
	return named ? 0 : refuse(ret_why, EGRESS_REASON_NO_SERVER_NAME);
}

static int read_hello(struct reader r, char ret[EGRESS_HOST_MAX + 1], enum egress_reason *ret_why)
{
	size_t version = take_number(&r, 2);
	(void)take(&r, RANDOM_BYTES);
	struct reader session = take_vector(&r, 1);
	struct reader suites = take_vector(&r, 2);
	struct reader compression = take_vector(&r, 1);

	if (r.bad || version < 0x0301 || version > 0x0303 || session.left > SESSION_MAX ||
	    suites.left < 2 || suites.left % 2 != 0 || compression.left < 1)
		return refuse(ret_why, EGRESS_REASON_NOT_TLS);
	if (r.left == 0)
		return refuse(ret_why, EGRESS_REASON_NO_SERVER_NAME);
	struct reader extensions = take_vector(&r, 2);
	if (extensions.bad || r.left > 0)
		return refuse(ret_why, EGRESS_REASON_NOT_TLS);
	return read_extensions(extensions, ret, ret_why);
}

int egress_hello_parse(const uint8_t *buf, size_t len, char ret_name[EGRESS_HOST_MAX + 1],
		       enum egress_reason *ret_why)
{
	static const uint8_t begin[] = {RECORD_HANDSHAKE, 3};
	size_t record, message;

	if (len > 0 && memcmp(buf, begin, MIN(len, sizeof(begin))) != 0)
		return refuse(ret_why, EGRESS_REASON_NOT_TLS);
	if (len < RECORD_HEAD)
		return 0;
	record = (size_t)buf[3] << 8 | buf[4];
	if (buf[2] < 1 || buf[2] > 3 || record < HANDSHAKE_HEAD || record > RECORD_MAX)
		return refuse(ret_why, record > 0 && record < HANDSHAKE_HEAD
					   ? EGRESS_REASON_TLS_FRAGMENTED
					   : EGRESS_REASON_NOT_TLS);
	if (len < RECORD_HEAD + HANDSHAKE_HEAD)
		return 0;
	if (buf[5] != CLIENT_HELLO)
		return refuse(ret_why, EGRESS_REASON_NOT_TLS);
	message = (size_t)buf[6] << 16 | (size_t)buf[7] << 8 | buf[8];
	if (message + HANDSHAKE_HEAD > record)
		return refuse(ret_why, EGRESS_REASON_TLS_FRAGMENTED);
	if (message + HANDSHAKE_HEAD < record)
		return refuse(ret_why, EGRESS_REASON_NOT_TLS);
	if (len < RECORD_HEAD + record)
		return 0;
	struct reader r = {.at = buf + RECORD_HEAD + HANDSHAKE_HEAD, .left = message};
	int x = read_hello(r, ret_name, ret_why);
	return x < 0 ? x : (int)(RECORD_HEAD + record);
}
