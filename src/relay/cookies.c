/* SPDX-License-Identifier: Apache-2.0 */
/* Cookies on their way between a client and a server behind us. */
#include "relay/relay.h"

#include "base/attr.h"

#include <string.h>
#include <strings.h>

bool relay_is_our_cookie(const char *pair, size_t len)
{
	/* Behind the names of the page's cookies a "-" and more may follow: src/api/auth/auth_browser.c. */
	static const char *const names[] = {"caisson", "__Host-caisson"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const size_t n = strlen(names[i]);

		/* Browsers drop blanks before the "=". */
		if (len >= n && memcmp(pair, names[i], n) == 0 &&
		    (len == n || strchr("-= \t", pair[n])))
			return true;
	}
	return false;
}

bool relay_is_pass(const char *pair, size_t len)
{
	static const char *const names[] = {RELAY_PASS_NAME "=", RELAY_HOSTED_PASS_NAME "="};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (len > strlen(names[i]) && memcmp(pair, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

int relay_add_cookie(struct http_request *req, const char *value)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(RELAY_HEAD_MAX);
	int r = 0;

	for (const char *p = value; r == 0 && *p;) {
		const char *part = p + strspn(p, "; \t");
		const size_t len = strcspn(part, ";");

		if (b.len == 0 || strncasecmp(part, "domain", 6) != 0 || !strchr("=; \t", part[6]))
			r = buf_printf(&b, "%s%.*s", b.len > 0 ? "; " : "", (int)len, part);
		p = part + len;
	}
	return r < 0 ? r : http_add_header(req, "Set-Cookie", buf_str(&b));
}
