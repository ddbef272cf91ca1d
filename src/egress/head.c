/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/head.h"

#include "base/parse.h"
#include "base/text.h"
#include "base/walls.h"

#include <strings.h>

#define HTTP_PORT         80u
#define READING_VALUE_MAX 1024u

static int refuse(enum egress_reason *ret_why, enum egress_reason why)
{
	*ret_why = why;
	return -EBADMSG;
}

int egress_head_scan(const char *buf, size_t len, enum egress_reason *ret_why)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)buf[i];

		if (i >= EGRESS_HEAD_MAX)
			return refuse(ret_why, EGRESS_REASON_HEAD_TOO_LARGE);
		if (c == '\r'   ? i + 1 < len && buf[i + 1] != '\n'
		    : c == '\n' ? i == 0 || buf[i - 1] != '\r'
				: c != '\t' && (c < 0x20 || c == 0x7f))
			return refuse(ret_why, EGRESS_REASON_BAD_REQUEST);
		if (i == 1 && c == '\n')
			return refuse(ret_why, EGRESS_REASON_BAD_REQUEST);
		if (c == '\n' && i >= 3 && buf[i - 2] == '\n')
			return (int)(i + 1);
	}
	return 0;
}

static bool is_token(const char *s, size_t len)
{
	static const char marks[] = "!#$%&'*+-.^_`|~";

	for (size_t i = 0; i < len; i++)
		if (!(s[i] >= '0' && s[i] <= '9') && !(s[i] >= 'a' && s[i] <= 'z') &&
		    !(s[i] >= 'A' && s[i] <= 'Z') && !memchr(marks, s[i], sizeof(marks) - 1))
			return false;
	return len > 0;
}

static bool is_visible(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (s[i] <= 0x20 || s[i] >= 0x7f)
			return false;
	return len > 0;
}

static bool name_is(const struct egress_field *f, const char *name)
{
	return f->name_len == strlen(name) && strncasecmp(f->name, name, f->name_len) == 0;
}

/* ---- the first line ---- */

/* http://HOST[:PORT], then nothing or a path that begins with '/'. */
static int parse_absolute(const char *s, size_t len, struct egress_head *h,
			  enum egress_reason *ret_why)
{
	static const char scheme[] = "http://";
	size_t skip = sizeof(scheme) - 1;

	if (len <= skip || memcmp(s, scheme, skip) != 0 || memchr(s, '#', len) ||
	    memchr(s, '\\', len))
		return refuse(ret_why, EGRESS_REASON_BAD_TARGET);
	s += skip;
	len -= skip;
	size_t authority = 0;
	while (authority < len && s[authority] != '/' && s[authority] != '?')
		authority++;
	if (authority < len && s[authority] == '?')
		return refuse(ret_why, EGRESS_REASON_BAD_TARGET);
	h->path = s + authority;
	h->path_len = len - authority;
	if (egress_target_parse(s, authority, HTTP_PORT, &h->target) < 0)
		return refuse(ret_why, EGRESS_REASON_BAD_HOST);
	return 0;
}

static bool is_method(const char *s)
{
	static const char *const methods[] = {"CONNECT", "GET",   "HEAD",   "POST",
					      "PUT",     "PATCH", "DELETE", "OPTIONS"};

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (streq(s, methods[i]))
			return true;
	return false;
}

static int parse_line(const char *s, size_t len, struct egress_head *h, bool *ret_one_one,
		      enum egress_reason *ret_why)
{
	static const char version[] = " HTTP/1.";
	const char *end = s + len;
	const char *blank = memchr(s, ' ', len);
	size_t tail = sizeof(version); /* sizeof counts a NUL: room for the minor digit */

	if (!blank || (size_t)(end - blank) < tail + 2 ||
	    memcmp(end - tail, version, tail - 1) != 0 || (end[-1] != '0' && end[-1] != '1'))
		return refuse(ret_why, EGRESS_REASON_BAD_REQUEST);
	*ret_one_one = end[-1] == '1';
	if ((size_t)(blank - s) >= sizeof(h->method) || !is_token(s, (size_t)(blank - s)))
		return refuse(ret_why, EGRESS_REASON_BAD_REQUEST);
	memcpy(h->method, s, (size_t)(blank - s));
	h->connect = streq(h->method, "CONNECT");
	if (!is_method(h->method))
		return refuse(ret_why, EGRESS_REASON_METHOD);
	const char *target = blank + 1;
	size_t target_len = (size_t)(end - tail - target);
	if (!is_visible(target, target_len))
		return refuse(ret_why, EGRESS_REASON_BAD_TARGET);
	if (!h->connect)
		return parse_absolute(target, target_len, h, ret_why);
	if (egress_target_parse(target, target_len, 0, &h->target) < 0)
		return refuse(ret_why, memchr(target, ':', target_len) ? EGRESS_REASON_BAD_HOST
								       : EGRESS_REASON_BAD_TARGET);
	return 0;
}

/* ---- fields ---- */

static int parse_field(const char *s, size_t len, struct egress_head *h)
{
	struct egress_field *f = &h->fields[h->n_fields];
	const char *colon = memchr(s, ':', len);

	/* A folded line begins with a blank, which is no token. */
	if (!colon || !is_token(s, (size_t)(colon - s)) || h->n_fields + 1 == EGRESS_FIELDS_MAX)
		return -EBADMSG;
	const char *value = colon + 1;
	const char *end = s + len;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*f = (struct egress_field){.name = s,
				   .name_len = (uint16_t)(colon - s),
				   .value = value,
				   .value_len = (uint16_t)(end - value)};
	h->n_fields++;
	return 0;
}

static bool value_is(const struct egress_field *f, const char *value)
{
	return f->value_len == strlen(value) && strncasecmp(f->value, value, f->value_len) == 0;
}

/* Other names in Connection would ask us to remove those fields. */
static bool is_connection_option(const struct egress_field *f)
{
	return value_is(f, "close") || value_is(f, "keep-alive") || f->value_len == 0;
}

static const struct {
	const char *name;
	enum egress_reason why; /* OK = the field is not passed on */
} hop_fields[] = {
    {"host", EGRESS_REASON_OK},
    {"connection", EGRESS_REASON_OK},
    {"proxy-connection", EGRESS_REASON_OK},
    {"keep-alive", EGRESS_REASON_OK},
    {"proxy-authorization", EGRESS_REASON_OK},
    {"proxy-authenticate", EGRESS_REASON_OK},
    {"te", EGRESS_REASON_OK},
    {"trailer", EGRESS_REASON_OK},
    {"transfer-encoding", EGRESS_REASON_BODY_FORM},
    {"upgrade", EGRESS_REASON_UPGRADE},
    {"http2-settings", EGRESS_REASON_UPGRADE},
};

static bool find_hop_field(const struct egress_field *f, enum egress_reason *ret_why)
{
	for (size_t i = 0; i < ARRAY_SIZE(hop_fields); i++) {
		if (!name_is(f, hop_fields[i].name))
			continue;
		*ret_why = hop_fields[i].why;
		return true;
	}
	return false;
}

static bool same_target(const struct egress_field *f, const struct egress_head *h)
{
	struct egress_target t;
	uint16_t port = h->connect ? h->target.port : HTTP_PORT;

	return egress_target_parse(f->value, f->value_len, port, &t) == 0 &&
	       streq(t.host, h->target.host) && t.port == h->target.port &&
	       t.form == h->target.form;
}

static int check_fields(struct egress_head *h, bool one_one, enum egress_reason *ret_why)
{
	unsigned hosts = 0, lengths = 0;

	for (size_t i = 0; i < h->n_fields; i++) {
		const struct egress_field *f = &h->fields[i];
		enum egress_reason why = EGRESS_REASON_OK;

		if (find_hop_field(f, &why) && why != EGRESS_REASON_OK)
			return refuse(ret_why, why);
		if (name_is(f, "host")) {
			hosts++;
			if (wall_stands(WALL_AUTHORITY) && !same_target(f, h))
				return refuse(ret_why, EGRESS_REASON_HOST_MISMATCH);
		}
		if (name_is(f, "connection") && !is_connection_option(f))
			return refuse(ret_why, value_is(f, "upgrade") ? EGRESS_REASON_UPGRADE
								      : EGRESS_REASON_BAD_REQUEST);
		if (name_is(f, "content-length")) {
			lengths++;
			if (parse_u64_n(f->value, f->value_len, 0, INT64_MAX, &h->body) < 0)
				return refuse(ret_why, EGRESS_REASON_BAD_REQUEST);
		}
	}
	if (hosts > 1 || lengths > 1 || (h->connect && h->body > 0))
		return refuse(ret_why, EGRESS_REASON_BAD_REQUEST);
	if (hosts == 0 && (one_one || !h->connect))
		return refuse(ret_why, EGRESS_REASON_HOST_MISMATCH);
	return 0;
}

int egress_head_parse(const char *buf, size_t len, struct egress_head *ret,
		      enum egress_reason *ret_why)
{
	bool one_one = false;
	const char *end = memchr(buf, '\r', len);

	*ret = (struct egress_head){0};
	if (!end || len < 4)
		return refuse(ret_why, EGRESS_REASON_BAD_REQUEST);
	int r = parse_line(buf, (size_t)(end - buf), ret, &one_one, ret_why);
	if (r < 0)
		return r;
	for (const char *at = end + 2; at < buf + len - 2; at = end + 2) {
		end = memchr(at, '\r', (size_t)(buf + len - at));
		if (!end || parse_field(at, (size_t)(end - at), ret) < 0)
			return refuse(ret_why, EGRESS_REASON_BAD_REQUEST);
	}
	return check_fields(ret, one_one, ret_why);
}

/* ---- the head for the server ---- */

static int write_host(const struct egress_target *t, struct buf *out)
{
	bool v6 = t->form == EGRESS_HOST_V6;
	int r = buf_printf(out, "Host: %s%s%s", v6 ? "[" : "", t->host, v6 ? "]" : "");

	if (r == 0 && t->port != HTTP_PORT)
		r = buf_printf(out, ":%u", t->port);
	return r < 0 ? r : buf_add_str(out, "\r\n");
}

/* The fields that package installers need. A long value could carry anything. */
static bool is_for_reading(const struct egress_field *f)
{
	static const char *const names[] = {
	    "accept",   "accept-encoding", "user-agent",    "authorization",    "range",
	    "if-range", "if-none-match",   "cache-control", "if-modified-since"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (name_is(f, names[i]))
			return f->value_len <= READING_VALUE_MAX;
	return false;
}

int egress_head_write(const struct egress_head *h, bool reads, struct buf *out)
{
	int r = buf_printf(out, "%s %s", h->method, h->path_len == 0 ? "/" : "");

	r = r < 0 ? r : buf_add(out, h->path, h->path_len);
	r = r < 0 ? r : buf_add_str(out, " HTTP/1.1\r\n");
	r = r < 0 ? r : write_host(&h->target, out);
	for (size_t i = 0; i < h->n_fields && r == 0; i++) {
		const struct egress_field *f = &h->fields[i];
		enum egress_reason why;

		if (find_hop_field(f, &why) || (reads && !is_for_reading(f)))
			continue;
		r = buf_add(out, f->name, f->name_len);
		r = r < 0 ? r : buf_add_str(out, ": ");
		r = r < 0 ? r : buf_add(out, f->value, f->value_len);
		r = r < 0 ? r : buf_add_str(out, "\r\n");
	}
	return r < 0 ? r : buf_add_str(out, "Connection: close\r\n\r\n");
}
