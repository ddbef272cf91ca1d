/* SPDX-License-Identifier: Apache-2.0 */
#include "http/client_address.h"

#include "base/buf.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/connection.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOP_SIZE    64u
#define PROXIES_MAX 32u
#define V4_BITS     96u /* of ::ffff:0:0 */

/* ---- networks ---- */

static bool bytes_of(const union http_address *a, uint8_t ret[16])
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	if (a->any.sa_family == AF_INET6) {
		memcpy(ret, &a->in6.sin6_addr, 16);
		return true;
	}
	if (a->any.sa_family != AF_INET)
		return false;
	memcpy(ret, mapped, sizeof(mapped));
	memcpy(ret + sizeof(mapped), &a->in.sin_addr, 4);
	return true;
}

int http_network_parse(const char *text, struct http_network *ret)
{
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	union http_address a;
	socklen_t size;
	char host[HOP_SIZE];
	uint64_t bits = 0;

	if (len == 0 || len >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	if (http_address_parse(host, 0, &a, &size) < 0 || !bytes_of(&a, ret->bytes))
		return -EINVAL;
	bool v4 = a.any.sa_family == AF_INET;
	if (slash && parse_u64(slash + 1, 0, v4 ? 32 : 128, &bits) < 0)
		return -EINVAL;
	ret->bits = !slash ? 128 : (unsigned)bits + (v4 ? V4_BITS : 0);
	return 0;
}

bool http_network_has(const struct http_network *network, const union http_address *a)
{
	unsigned whole = network->bits / 8, rest = network->bits % 8;
	uint8_t bytes[16];

	if (!bytes_of(a, bytes) || memcmp(bytes, network->bytes, whole) != 0)
		return false;
	return rest == 0 || (bytes[whole] ^ network->bytes[whole]) >> (8 - rest) == 0;
}

void http_network_text(const union http_address *a, char *ret)
{
	char text[INET6_ADDRSTRLEN] = "";
	struct in6_addr v6;

	if (!bytes_of(a, v6.s6_addr)) {
		*ret = '\0';
	} else if (IN6_IS_ADDR_LOOPBACK(&v6) ||
		   (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127)) {
		(void)snprintf(ret, HTTP_NETWORK_TEXT, HTTP_NETWORK_LOOPBACK);
	} else if (IN6_IS_ADDR_V4MAPPED(&v6)) {
		(void)inet_ntop(AF_INET, v6.s6_addr + 12, ret, HTTP_NETWORK_TEXT);
	} else {
		memset(v6.s6_addr + 8, 0, 8);
		(void)inet_ntop(AF_INET6, &v6, text, sizeof(text));
		(void)snprintf(ret, HTTP_NETWORK_TEXT, "%s/64", text);
	}
}

int http_proxies_parse(const char *text, struct http_proxies *ret, struct err *e)
{
	_cleanup_free_ char *copy = strdup(text);
	char *rest = NULL;

	*ret = (struct http_proxies){.networks = calloc(PROXIES_MAX, sizeof(*ret->networks))};
	if (!copy || !ret->networks)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "proxies");
	for (char *p = strtok_r(copy, ", ", &rest); p; p = strtok_r(NULL, ", ", &rest)) {
		if (ret->n == PROXIES_MAX)
			return err_set(e, ERR_SETTING_INVALID, 0, "more than %u networks",
				       PROXIES_MAX);
		if (http_network_parse(p, &ret->networks[ret->n]) < 0)
			return err_set(e, ERR_SETTING_INVALID, 0, "'%s' is no address or network",
				       p);
		ret->n++;
	}
	return 0;
}

void http_proxies_done(struct http_proxies *proxies)
{
	free(proxies->networks);
	*proxies = (struct http_proxies){0};
}

bool http_proxies_have(const struct http_proxies *proxies, const union http_address *a)
{
	for (size_t i = 0; proxies && i < proxies->n; i++)
		if (http_network_has(&proxies->networks[i], a))
			return true;
	return false;
}

/* ---- what proxies say ---- */

/* "192.0.2.7", "192.0.2.7:80", "2001:db8::1", "[2001:db8::1]:80", in quotes or not. */
static bool parse_hop(const char *s, size_t len, union http_address *ret)
{
	char host[HOP_SIZE], *p = host;
	socklen_t size;

	if (len >= 2 && s[0] == '"' && s[len - 1] == '"') {
		s++;
		len -= 2;
	}
	if (len == 0 || len >= sizeof(host))
		return false;
	memcpy(host, s, len);
	host[len] = '\0';
	if (host[0] == '[') {
		p++;
		p[strcspn(p, "]")] = '\0';
	} else if (strchr(host, ':') && strchr(host, ':') == strrchr(host, ':')) {
		*strchr(host, ':') = '\0';
	}
	return !streq(p, "localhost") && http_address_parse(p, 0, ret, &size) == 0;
}

/* Reads the value of `for` in one element of Forwarded (RFC 7239), or the whole element. */
static bool parse_element(const char *s, size_t len, bool forwarded, union http_address *ret)
{
	while (len > 0 && strchr(" \t", s[len - 1]))
		len--;
	while (len > 0 && strchr(" \t", *s)) {
		s++;
		len--;
	}
	if (!forwarded)
		return parse_hop(s, len, ret);
	while (len > 0) {
		const char *semi = memchr(s, ';', len);
		size_t n = semi ? (size_t)(semi - s) : len;

		if (n > 4 && strncasecmp(s, "for=", 4) == 0)
			return parse_hop(s + 4, n - 4, ret);
		s += n + (semi ? 1 : 0);
		len -= n + (semi ? 1 : 0);
		while (len > 0 && *s == ' ') {
			s++;
			len--;
		}
	}
	return false;
}

/* All lines of the header NAME as one list. */
static int join_lines(const struct http_request *req, const char *name, struct buf *ret)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < req->head.n_fields; i++)
		if (strcasecmp(req->text + req->head.fields[i].name, name) == 0)
			r = buf_printf(ret, "%s%s", ret->len ? "," : "",
				       req->text + req->head.fields[i].value);
	return r;
}

/* Reads the addresses from the right, because each proxy appends the address that it was called
 * from. False: there is no header, or its last element is not an address. */
static bool read_hops(const struct http_request *req, const char *name, bool forwarded,
		      const struct http_proxies *proxies, union http_address *ret)
{
	_cleanup_(buf_done) struct buf list = BUF_INIT(HTTP_HEAD_LIMIT);
	bool found = false;

	if (join_lines(req, name, &list) < 0)
		return false;
	const char *text = buf_str(&list), *end = text + list.len;
	while (end > text) {
		const char *start = end;
		union http_address hop;

		while (start > text && start[-1] != ',')
			start--;
		if (!parse_element(start, (size_t)(end - start), forwarded, &hop))
			break;
		*ret = hop;
		found = true;
		if (!http_proxies_have(proxies, &hop))
			break;
		end = start > text ? start - 1 : text;
	}
	return found;
}

bool http_peer_is_trusted(const struct http_request *req, const union http_address *from,
			  const struct http_proxies *proxies)
{
	return http_request_is_by_member(req) || http_proxies_have(proxies, from);
}

bool http_client_address(const struct http_request *req, const union http_address *from,
			 const struct http_proxies *proxies, union http_address *ret)
{
	union http_address a, b;
	char text_a[HTTP_ADDRESS_TEXT], text_b[HTTP_ADDRESS_TEXT];

	*ret = *from;
	if (!http_peer_is_trusted(req, from, proxies))
		return true;
	bool by_x = read_hops(req, "x-forwarded-for", false, proxies, &a);
	bool by_forwarded = read_hops(req, "forwarded", true, proxies, &b);
	if (by_x && by_forwarded) {
		http_address_text(&a, text_a);
		http_address_text(&b, text_b);
		if (streq(text_a, text_b))
			*ret = a;
	} else if (by_x || by_forwarded) {
		*ret = by_x ? a : b;
	}
	return by_x || by_forwarded;
}

bool http_client_is_disputed(const struct http_request *req, const union http_address *from,
			     const struct http_proxies *proxies)
{
	union http_address a, b;
	char text_a[HTTP_ADDRESS_TEXT], text_b[HTTP_ADDRESS_TEXT];

	if (!http_peer_is_trusted(req, from, proxies) ||
	    !read_hops(req, "x-forwarded-for", false, proxies, &a) ||
	    !read_hops(req, "forwarded", true, proxies, &b))
		return false;
	http_address_text(&a, text_a);
	http_address_text(&b, text_b);
	return !streq(text_a, text_b);
}
