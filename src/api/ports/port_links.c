/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of servers in sandboxes for browsers: "http://8000-ID.localhost:8181/". Each has an origin of its own, so pages
 * there may be whatever they like and reach nothing of this server or of another sandbox. A browser has no key for such a name;
 * it gets a pass, first in the address and then as a cookie of that name alone. A pass is for one port of one sandbox of one
 * owner, and for some hours; all end with this process. */
#include "api/ports/ports.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <ctype.h>
#include <sodium.h>
#include <string.h>
#include <strings.h>

#define MAC_LEN     16
#define LIFE_S      UINT64_C(43200) /* 12 hours */
#define PASS_SIZE   (20 + 1 + STORE_OWNER_SIZE + 1 + MAC_LEN * 2 + 1)
#define PASS_NAME   RELAY_PASS_NAME
#define HOSTED_NAME RELAY_HOSTED_PASS_NAME

static void sign(const struct api *a, uint64_t until, const char *owner, const struct port_name *n,
		 char ret[MAC_LEN * 2 + 1])
{
	crypto_generichash_state state;
	uint8_t mac[MAC_LEN];

	(void)crypto_generichash_init(&state, a->port_key, sizeof(a->port_key), sizeof(mac));
	(void)crypto_generichash_update(&state, (const uint8_t *)&until, sizeof(until));
	(void)crypto_generichash_update(&state, (const uint8_t *)&n->port, sizeof(n->port));
	/* With their NUL, so no two pairs give the same bytes. */
	(void)crypto_generichash_update(&state, (const uint8_t *)owner, strlen(owner) + 1);
	(void)crypto_generichash_update(&state, (const uint8_t *)n->id, strlen(n->id) + 1);
	(void)crypto_generichash_final(&state, mac, sizeof(mac));
	text_hex(mac, sizeof(mac), ret);
}

/* "UNTIL.OWNER.MAC" */
static void make_pass(const struct api *a, uint64_t until, const char *owner,
		      const struct port_name *n, char ret[PASS_SIZE])
{
	char mac[MAC_LEN * 2 + 1];

	sign(a, until, owner, n, mac);
	(void)snprintf(ret, PASS_SIZE, "%ju.%s.%s", (uintmax_t)until, owner, mac);
}

/* PASS has LEN bytes, of anybody. The caller of REQ is whoever got it. */
static bool check_pass(struct api *a, struct http_request *req, const char *pass, size_t len,
		       const struct port_name *n)
{
	char text[PASS_SIZE], right[PASS_SIZE], owner[STORE_OWNER_SIZE];
	uint64_t until;

	if (len >= sizeof(text))
		return false;
	memcpy(text, pass, len);
	text[len] = '\0';
	const size_t digits = strcspn(text, ".");
	const char *mac = strrchr(text, '.');
	if (!mac || mac <= text + digits || (size_t)(mac - text) - digits > STORE_OWNER_SIZE ||
	    parse_u64_n(text, digits, 0, UINT64_MAX, &until) < 0 ||
	    until < now_wall_ns() / NS_PER_S)
		return false;
	(void)snprintf(owner, STORE_OWNER_SIZE, "%.*s", (int)(mac - text - (ptrdiff_t)digits - 1),
		       text + digits + 1);
	make_pass(a, until, owner, n, right);
	if (strlen(right) != len || sodium_memcmp(right, text, len) != 0)
		return false;
	/* Identity is judged at each request, and while something is open. */
	return auth_by_pass(a->config.auth, req, owner, until * 1000) != NULL;
}

/* ---- names ---- */

bool port_name_of(const struct http_request *req, struct port_name *ret)
{
	const char *host = http_request_header(req, "host");
	const size_t digits = host ? strspn(host, "0123456789") : 0;
	uint64_t port;

	if (digits == 0 || host[digits] != '-' || parse_u64_n(host, digits, 1, 65535, &port) < 0)
		return false;
	const size_t len = strcspn(host + digits + 1, ".");
	if (len > SANDBOX_ID_MAX)
		return false;
	ret->port = (uint16_t)port;
	/* Names are the same in any case; ids that we make have small letters. */
	for (size_t i = 0; i < len; i++)
		ret->id[i] = (char)tolower((unsigned char)host[digits + 1 + i]);
	ret->id[len] = '\0';
	return true;
}

/* Can ID be a part of such a name? */
static bool has_name(const char *id, uint16_t port)
{
	char label[80];

	if (snprintf(label, sizeof(label), "%u-%s", port, id) > 63) /* RFC 1035 §2.3.4 */
		return false;
	for (; *id; id++)
		if (isupper((unsigned char)*id))
			return false;
	return true;
}

/* ":8181" of "http://[::1]:8181/path", or "". */
static size_t port_part(const char *base, const char **ret)
{
	const char *host = strstr(base, "://");

	host = host ? host + strlen("://") : base;
	host += *host == '[' ? strcspn(host, "]") : 0;
	*ret = host + strcspn(host, ":/");
	return **ret == ':' ? strcspn(*ret, "/") : 0;
}

int port_url(struct api *a, const char *base, const char *owner, const struct port_name *n,
	     struct buf *ret, uint64_t *ret_until)
{
	const bool https = strncasecmp(base, "https://", 8) == 0;
	char pass[PASS_SIZE];
	const char *port;

	*ret_until = 0;
	if (!a->config.port_domain[0] || !has_name(n->id, n->port))
		return buf_printf(ret, "%s/p/%s/%u/", base, n->id, n->port);
	const size_t len = port_part(base, &port);
	*ret_until = now_wall_ns() / NS_PER_S + LIFE_S;
	make_pass(a, *ret_until, owner, n, pass);
	return buf_printf(ret, "http%s://%u-%s.%s%.*s/?" PASS_NAME "=%s", https ? "s" : "", n->port,
			  n->id, a->config.port_domain, (int)len, port, pass);
}

int port_address(struct api *a, struct http_request *req, const char *owner,
		 const struct port_name *n, struct buf *ret, uint64_t *ret_until)
{
	const char *host = http_request_header(req, "host");
	char base[HTTP_BASE_SIZE], prefix[HTTP_PREFIX_MAX + 1];

	http_request_prefix(req, prefix);
	if (!http_request_base(req, base) &&
	    snprintf(base, sizeof(base), "http%s://%s%s",
		     strncasecmp(a->config.base, "https://", 8) == 0 ||
			     http_request_came_by_https(req)
			 ? "s"
			 : "",
		     host ? host : "", prefix) >= (int)sizeof(base))
		return -E2BIG;
	return port_url(a, base, owner, n, ret, ret_until);
}

/* ---- passes in requests ---- */

static const char *cookie_name(const struct api *a, const struct http_request *req)
{
	return strncasecmp(a->config.base, "https://", 8) == 0 || http_request_came_by_https(req)
		   ? HOSTED_NAME
		   : PASS_NAME;
}

static bool has_cookie(struct api *a, struct http_request *req, const struct port_name *n)
{
	const char *name = cookie_name(a, req), *p = http_request_header(req, "cookie");
	const size_t name_len = strlen(name);

	for (; p && *p; p += strcspn(p, ";")) {
		p += strspn(p, "; ");
		const size_t len = strcspn(p, ";");

		if (len > name_len && memcmp(p, name, name_len) == 0 && p[name_len] == '=' &&
		    check_pass(a, req, p + name_len + 1, len - name_len - 1, n))
			return true;
	}
	return false;
}

bool port_drop_pass(struct api *a, struct http_request *req, bool keep)
{
	static const char parameter[] = PASS_NAME "=";
	const size_t skip = sizeof(parameter) - 1;
	const char *query = http_request_raw_query(req), *name = cookie_name(a, req);
	_cleanup_(buf_done) struct buf to = BUF_INIT(RELAY_HEAD_MAX), cookie = BUF_INIT(1024);

	if (!query || strncmp(query, parameter, skip) != 0 || http_request_method(req) != HTTP_GET)
		return false;
	const size_t len = strcspn(query + skip, "&");
	const char *rest = query + skip + len;
	if (buf_printf(&to, "%s%s%s", http_request_path(req), *rest == '&' ? "?" : "",
		       *rest == '&' ? rest + 1 : "") < 0 ||
	    (keep && buf_printf(&cookie, "%s=%.*s; Path=/; Max-Age=%ju; HttpOnly; SameSite=Lax%s",
				name, (int)len, query + skip, (uintmax_t)LIFE_S,
				name[0] == '_' ? "; Secure" : "") < 0) ||
	    http_add_header(req, "Location", buf_str(&to)) < 0 ||
	    (keep && http_add_header(req, "Set-Cookie", buf_str(&cookie)) < 0) ||
	    http_add_header(req, "Referrer-Policy", "no-referrer") < 0 ||
	    http_add_header(req, "Cache-Control", "no-store") < 0)
		http_respond_problem(req, ERR_BAD_REQUEST, "the address is too long", NULL);
	else
		http_respond(req, 303, NULL, NULL, 0);
	return true;
}

const struct caller *port_identify(struct api *a, struct http_request *req,
				   const struct port_name *n, bool *ret_answered)
{
	static const char parameter[] = PASS_NAME "=";
	const char *query = http_request_raw_query(req);
	const size_t skip = sizeof(parameter) - 1;

	*ret_answered = false;
	/* A pass in the address becomes a cookie, and goes from the address, which is shown and kept. */
	if (query && strncmp(query, parameter, skip) == 0 && http_request_method(req) == HTTP_GET &&
	    check_pass(a, req, query + skip, strcspn(query + skip, "&"), n)) {
		*ret_answered = port_drop_pass(a, req, true);
		return NULL;
	}
	return has_cookie(a, req, n) ? auth_caller(req) : auth_identify(a->config.auth, req);
}
