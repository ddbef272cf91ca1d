/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/serve_address.h"

#include "app/app.h"
#include "base/parse.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static int find_tls(const struct settings *s, struct serve_address *ret, struct err *e)
{
	if (!s->tls_listen[0])
		return 0;
	const int r =
	    parse_host_port(s->tls_listen, ret->tls_host, sizeof(ret->tls_host), &ret->tls_port);

	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, -r, "SANDBOX_TLS_LISTEN: '%s'",
			       s->tls_listen);
	if (!s->tls_certificate[0] || !s->tls_key[0])
		return err_set(
		    e, ERR_SETTING_INVALID, 0,
		    "SANDBOX_TLS_LISTEN needs SANDBOX_TLS_CERTIFICATE and SANDBOX_TLS_KEY");
	if (ret->tls_host[0] == '\0')
		(void)snprintf(ret->tls_host, sizeof(ret->tls_host), "0.0.0.0");
	return 0;
}

/* The settings file of the second tool family is shipped with `host = "0.0.0.0"` and without
 * authentication. It must start, but not as a server that anybody on the network can use. */
static void close_classic(struct settings *s, struct serve_address *a)
{
	s->require_auth = true;
	a->no_registration = true;
	(void)fprintf(stderr,
		      "caisson: server.host '%s' can be reached from other machines. Therefore "
		      "clients must authenticate, and nobody can register.\n"
		      "caisson: Make an account with 'caisson user add NAME' and a key with "
		      "'caisson key new NAME', or set host to 127.0.0.1.\n",
		      a->host);
}

int serve_address_find(struct settings *s, struct serve_address *ret, struct err *e)
{
	int r = read_server_address(s, ret->host, &ret->port, e);

	r = r < 0 ? r : find_tls(s, ret, e);
	if (r < 0)
		return r;
	const bool plain = app_is_loopback(ret->host);
	const bool tls = !ret->tls_host[0] || app_is_loopback(ret->tls_host);
	ret->reach = plain && !tls ? ret->tls_host : ret->host;
	ret->worker = streq(s->fleet_role, "worker");
	ret->loopback = plain && tls && !ret->worker; /* its clients come through a router */
	if (ret->worker)
		return 0; /* it serves nobody without a certificate */
	if (ret->loopback || s->api_key[0] || s->require_auth)
		return 0;
	if (tls && !settings_is_explicit(s, SETTING_ID_listen) &&
	    s->source[SETTING_ID_app_host] == SETTING_FROM_FILE) {
		close_classic(s, ret);
		return 0;
	}
	(void)err_set(e, ERR_SETTING_INVALID, 0,
		      "%s: '%s' can be reached from other machines; set SANDBOX_API_KEY or "
		      "SANDBOX_REQUIRE_AUTH, or listen on 127.0.0.1",
		      plain ? "SANDBOX_TLS_LISTEN" : "SANDBOX_LISTEN", ret->reach);
	return -EINVAL;
}

int serve_address_listen(struct serve_address *a, struct http_server *http, struct err *e)
{
	struct http_listener *listener;
	const unsigned plain = a->worker ? HTTP_SCOPE_PROBES : HTTP_SCOPE_MAIN;
	const unsigned tls =
	    HTTP_SCOPE_MAIN | HTTP_SCOPE_TLS | (a->worker ? (unsigned)HTTP_SCOPE_MEMBERS : 0);
	int r = http_server_listen(http, a->host, a->port, plain, &a->port, &listener, e);

	if (r == 0 && a->tls_host[0])
		r = http_server_listen(http, a->tls_host, a->tls_port, tls, &a->tls_port, &listener,
				       e);
	return r;
}

void serve_address_base(const struct serve_address *a, const char *public_url,
			char ret[SERVE_BASE_SIZE])
{
	const char *host =
	    streq(a->host, "0.0.0.0") || streq(a->host, "::") ? "127.0.0.1" : a->host;
	const bool v6 = strchr(host, ':') != NULL;
	size_t len = strlen(public_url);

	while (len > 0 && public_url[len - 1] == '/')
		len--;
	if (len > 0)
		(void)snprintf(ret, SERVE_BASE_SIZE, "%.*s",
			       (int)MIN(len, (size_t)SERVE_BASE_SIZE - 1), public_url);
	else
		(void)snprintf(ret, SERVE_BASE_SIZE, "http://%s%s%s:%u", v6 ? "[" : "", host,
			       v6 ? "]" : "", a->port);
}
