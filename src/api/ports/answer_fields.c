/* SPDX-License-Identifier: Apache-2.0 */
/* Which fields of the server's answer the client gets. */
#include "api/ports/ports.h"
#include "base/text.h"
#include "base/walls.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* A page below /p/ has the address of this server. It runs as one of an origin of its own, which no other page shares, so it
 * reaches neither the API nor what a browser keeps for it. CSP Level 3, `sandbox`. */
#define POLICY "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"

/* What would act on more than the pages of this server: on all names of the host, on a proxy before us, which would give out
 * its own files or ask us in the name of the client, or, below a path, on the page of ours. */
static bool is_for_others(const struct exchange *x, const char *name)
{
	static const char *const always[] = {
	    "strict-transport-security", "alt-svc", "date", "nel", "report-to", "x-sendfile",
	};
	static const char accel[] = "x-accel-"; /* nginx acts on all of them */
	static const char *const names[] = {"set-cookie", "clear-site-data",
					    "service-worker-allowed", "www-authenticate"};

	if (!wall_stands(WALL_CROSSING))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		if (strcasecmp(name, always[i]) == 0)
			return true;
	if (strncasecmp(name, accel, sizeof(accel) - 1) == 0)
		return true;
	if (x->own_name)
		return false;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

static int add_location(struct exchange *x, const char *name, const char *value)
{
	_cleanup_(buf_done) struct buf to = BUF_INIT(RELAY_HEAD_MAX);
	const int r = port_location(x, value, &to);

	if (r == -EACCES) /* the client gets the status, and no place to go */
		return 0;
	return r < 0 ? r : http_add_header(x->relay.req, name, buf_str(&to));
}

static int add_cookie(struct exchange *x, const char *name, const char *value)
{
	if (!wall_stands(WALL_CROSSING))
		return http_add_header(x->relay.req, name, value);
	/* Browsers send "=NAME=VALUE" back as "NAME=VALUE" (RFC 6265bis §5.6). */
	const char *pair = value + strspn(value, "= \t");
	return relay_is_our_cookie(pair, strcspn(pair, ";"))
		   ? 0
		   : relay_add_cookie(x->relay.req, value);
}

int port_add_fields(struct relay *relay)
{
	struct exchange *x = CONTAINER_OF(relay, struct exchange, relay);
	const struct relay_reply *h = &relay->reply;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < h->n_fields; i++) {
		const char *name = h->fields[i].name, *value = h->fields[i].value;

		if (is_for_others(x, name))
			continue;
		if (strcasecmp(name, "location") == 0 || strcasecmp(name, "content-location") == 0)
			r = add_location(x, name, value);
		else if (strcasecmp(name, "set-cookie") == 0)
			r = add_cookie(x, name, value);
		else
			r = http_add_header(x->relay.req, name, value);
	}
	return r < 0 || x->own_name
		   ? r
		   : http_add_header(x->relay.req, "Content-Security-Policy", POLICY);
}
