/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/cors.h"

#include "base/buf.h"

#include <string.h>
#include <strings.h>

void cors_add(struct http_request *req)
{
	const char *origin = http_request_origin(req);

	if (!origin)
		return;
	/* If these fail, the browser hides the answer from its page. Nothing else depends on them. */
	(void)http_add_header(req, "Access-Control-Allow-Origin", origin);
	(void)http_add_header(req, "Access-Control-Expose-Headers",
			      "Mcp-Session-Id, WWW-Authenticate");
	(void)http_add_header(req, "Vary", "Origin");
}

static bool is_param(const char *name, size_t len)
{
	return len > 10 && strncasecmp(name, "mcp-param-", 10) == 0;
}

static void add_allowed_headers(struct http_request *req)
{
	static const char fixed[] =
	    "content-type, accept, authorization, x-api-key, mcp-session-id, last-event-id, "
	    "mcp-protocol-version, mcp-method, mcp-name";
	const char *p = http_request_header(req, "access-control-request-headers");
	_cleanup_(buf_done) struct buf value = BUF_INIT(2048);
	int r = buf_add_str(&value, fixed);

	for (p = p ? p : ""; r == 0 && *p; p += strspn(p, ", \t")) {
		const size_t len = strcspn(p, ", \t");

		if (is_param(p, len)) {
			r = buf_add_str(&value, ", ");
			if (r == 0)
				r = buf_add(&value, p, len);
		}
		p += len;
	}
	(void)http_add_header(req, "Access-Control-Allow-Headers",
			      r == 0 ? buf_str(&value) : fixed);
}

void cors_options(struct http_request *req, void *unused UNUSED)
{
	cors_add(req);
	if (http_request_origin(req)) {
		(void)http_add_header(req, "Access-Control-Allow-Methods",
				      "GET, POST, DELETE, OPTIONS");
		add_allowed_headers(req);
		(void)http_add_header(req, "Access-Control-Max-Age", "86400");
	}
	(void)http_add_header(req, "Allow", MCP_ALLOW);
	http_respond(req, 204, NULL, NULL, 0);
}
