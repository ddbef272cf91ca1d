/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/host.h"

#include "base/parse.h"

#include <arpa/inet.h>
#include <string.h>

#define LABEL_MAX   63u
#define PORT_DIGITS 5u

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* 1-63 of [a-z0-9-], no '-' at either end. */
static bool is_label(const char *s, size_t len)
{
	if (len == 0 || len > LABEL_MAX || s[0] == '-' || s[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_digit(s[i]) && !(s[i] >= 'a' && s[i] <= 'z') && s[i] != '-')
			return false;
	return true;
}

/* A label that some resolver reads as a number: 127, 0x7f, 0X7F.1, 0177 ... */
static bool is_number_like(const char *s, size_t len)
{
	size_t i = len > 1 && s[0] == '0' && s[1] == 'x' ? 2 : 0;
	bool hex = i == 2;

	for (; i < len; i++)
		if (!is_digit(s[i]) && !(hex && s[i] >= 'a' && s[i] <= 'f'))
			return false;
	return true;
}

/* inet_pton(3) accepts exactly four decimal numbers and refuses leading zeros. */
static int parse_v4(const char *s, enum egress_host_form *ret)
{
	struct in_addr a;

	if (inet_pton(AF_INET, s, &a) != 1)
		return -EINVAL;
	*ret = EGRESS_HOST_V4;
	return 0;
}

static int parse_v6(const char *s, size_t len, char ret[EGRESS_HOST_MAX + 1],
		    enum egress_host_form *ret_form)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr a;

	if (len < 4 || len - 2 >= sizeof(text) || s[len - 1] != ']' || memchr(s, '\0', len))
		return -EINVAL;
	memcpy(text, s + 1, len - 2);
	text[len - 2] = '\0';
	if (inet_pton(AF_INET6, text, &a) != 1 || !inet_ntop(AF_INET6, &a, ret, EGRESS_HOST_MAX))
		return -EINVAL;
	*ret_form = EGRESS_HOST_V6;
	return 0;
}

static int parse_name(const char *s, size_t len, enum egress_host_form *ret)
{
	const char *label = s;
	size_t n = 0;

	for (const char *at = s;; at++) {
		if (at < s + len && *at != '.')
			continue;
		if (!is_label(label, (size_t)(at - label)))
			return -EINVAL;
		n++;
		if (at == s + len)
			break;
		label = at + 1;
	}
	if (is_number_like(label, (size_t)(s + len - label)))
		return parse_v4(s, ret);
	*ret = n > 1 ? EGRESS_HOST_NAME : EGRESS_HOST_SINGLE;
	return 0;
}

int egress_host_parse(const char *s, size_t len, char ret[EGRESS_HOST_MAX + 1],
		      enum egress_host_form *ret_form)
{
	char name[EGRESS_HOST_MAX + 1];

	if (len == 0 || len > EGRESS_HOST_MAX)
		return -EINVAL;
	if (s[0] == '[')
		return parse_v6(s, len, ret, ret_form);
	for (size_t i = 0; i < len; i++)
		name[i] = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] - 'A' + 'a') : s[i];
	name[len] = '\0';
	int r = parse_name(name, len, ret_form);
	if (r == 0)
		memcpy(ret, name, len + 1);
	return r;
}

int egress_port_parse(const char *s, size_t len, uint16_t *ret)
{
	uint64_t port;

	if (len == 0 || len > PORT_DIGITS || s[0] == '0' ||
	    parse_u64_n(s, len, 1, UINT16_MAX, &port) < 0)
		return -EINVAL;
	*ret = (uint16_t)port;
	return 0;
}

int egress_target_parse(const char *s, size_t len, uint16_t def_port, struct egress_target *ret)
{
	struct egress_target t = {.port = def_port};
	size_t host = len;

	if (len > 0 && s[0] == '[') {
		const char *end = memchr(s, ']', len);
		host = end ? (size_t)(end - s) + 1 : len;
	} else if (len > 0) {
		const char *colon = memchr(s, ':', len);
		host = colon ? (size_t)(colon - s) : len;
	}
	if (host < len) {
		if (s[host] != ':' || egress_port_parse(s + host + 1, len - host - 1, &t.port) < 0)
			return -EINVAL;
	}
	if (t.port == 0 || egress_host_parse(s, host, t.host, &t.form) < 0)
		return -EINVAL;
	*ret = t;
	return 0;
}
