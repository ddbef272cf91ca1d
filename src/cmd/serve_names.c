/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/serve_names.h"

#include "app/app.h"
#include "base/buf.h"
#include "base/text.h"
#include "http/host_header.h"

#include <string.h>

/* Splits TEXT, a list of names, into RET. The names point into *RET_COPY. */
static int split(const char *text, const char *setting, char **ret_copy,
		 const char *ret[SERVE_NAMES_MAX + 1], struct err *e)
{
	size_t n = 0;
	char *rest = NULL;

	*ret_copy = strdup(text);
	if (!*ret_copy)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "%s", setting);
	for (char *p = strtok_r(*ret_copy, ", ", &rest); p; p = strtok_r(NULL, ", ", &rest)) {
		if (n == SERVE_NAMES_MAX)
			return err_set(e, ERR_SETTING_INVALID, 0, "%s: more than %d names", setting,
				       SERVE_NAMES_MAX);
		ret[n++] = p;
	}
	return 0;
}

/* Cuts URL, a copy of server.public_url, to its host: "https://box.example.org:8443/x" becomes
 * "box.example.org". "" if it has none. */
static char *host_of(char *url)
{
	char *host = strstr(url, "://");

	host = host ? host + strlen("://") : url;
	host[strcspn(host, "/?#")] = '\0';
	char *user = strrchr(host, '@');
	host = user ? user + 1 : host;
	char *end = *host == '[' ? strchr(host, ']') : strchr(host, ':');
	if (end)
		end[*host == '[' ? 1 : 0] = '\0';
	return host;
}

/* Splits server.public_url, which may be "". */
static void split_url(const char *url, struct serve_names *n)
{
	const char *host = strstr(url, "://");
	const char *path = host ? host + strlen("://") : url;

	path += strcspn(path, "/");
	http_prefix_of(path, n->prefix);
	if (host && (size_t)(path - url) < sizeof(n->public_origin))
		memcpy(n->public_origin, url, (size_t)(path - url));
}

/* What is wrong with the entry NAME of allowed_hosts; NULL: a Host header can have it. */
static const char *host_fault(const char *name)
{
	struct http_host host;

	if (streq(name, "*"))
		return NULL;
	if (strstr(name, "://"))
		return "give the host alone, without http:// or https://";
	if (strchr(name, '/'))
		return "give the host alone, without a path";
	if (strchr(name, '*'))
		return "* stands alone and means every host; name each host";
	if (name[0] != '[' && strchr(name, ':') != strrchr(name, ':'))
		return "an IPv6 address stands in brackets, such as [2001:db8::7]";
	if (http_host_parse(name, strlen(name), &host) < 0)
		return "this is no host name or address";
	return host.port ? "leave out the port: every port is allowed" : NULL;
}

/* The same for an origin. Browsers have schemes of their own for extensions. */
static const char *origin_fault(const char *origin)
{
	const char *host = strstr(origin, "://");

	if (streq(origin, "*") || streq(origin, "null"))
		return NULL;
	if (!host)
		return "an origin begins with its scheme, such as https://app.example.org";
	if (strchr(host + strlen("://"), '/'))
		return "an origin has no path and no slash at its end";
	return strchr(origin, '*') ? "* stands alone and means every origin" : NULL;
}

/* A name that never matches anything is a mistake, which clients would see as a refusal. */
static int check(const char *const *names, const char *setting, const char *(*fault)(const char *),
		 struct err *e)
{
	for (; *names; names++)
		if (fault(*names))
			return err_set(e, ERR_SETTING_INVALID, 0, "%s: '%s' can never match: %s",
				       setting, *names, fault(*names));
	return 0;
}

/* The second family's page has a server of its own, on one of these ports of this machine. */
#define PAGE_ORIGINS                                                                               \
	"http://localhost:5173,http://127.0.0.1:5173,http://localhost:4173,http://127.0.0.1:4173"

static int split_page_origins(const struct settings *s, const char *listen, struct serve_names *n,
			      struct err *e)
{
	const char *names = s->page_origins;

	if (streq(names, "auto"))
		names = app_is_loopback(listen) && !s->public_url[0] &&
				(streq(s->profile, "classic") || streq(s->profile, "both"))
			    ? PAGE_ORIGINS
			    : "";
	return split(names, "SANDBOX_PAGE_ORIGINS", &n->page_texts, n->page_origins, e);
}

static int set_port_domain(const struct settings *s, const char *listen, struct serve_names *n,
			   struct err *e)
{
	const char *domain = s->port_domain;
	struct http_host host;

	if (streq(domain, "auto"))
		domain = app_is_loopback(listen) && !s->public_url[0] ? "localhost" : "off";
	if (streq(domain, "off"))
		return s->public_ports
			   ? err_set(e, ERR_SETTING_INVALID, 0,
				     "SANDBOX_PUBLIC_PORTS: ports are public at names of their own "
				     "alone; give the domain of these names in SANDBOX_PORT_DOMAIN")
			   : 0;
	if (http_host_parse(domain, strlen(domain), &host) < 0 || host.port || domain[0] == '[' ||
	    host.len != strlen(domain))
		return err_set(
		    e, ERR_SETTING_INVALID, 0,
		    "SANDBOX_PORT_DOMAIN: '%s' is no domain; give its name alone, such as "
		    "ports.example.org",
		    domain);
	return text_copy(n->port_domain, sizeof(n->port_domain), domain);
}

static int make(const struct settings *s, const char *listen, struct serve_names *n, struct err *e)
{
	_cleanup_(buf_done) struct buf hosts = BUF_INIT(8192);
	_cleanup_free_ char *url = strdup(s->public_url);

	/* A proxy may pass on the Host that its clients used. */
	if (!url || buf_printf(&hosts, "%s,%s", s->allowed_hosts, host_of(url)) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "SANDBOX_ALLOWED_HOSTS");
	split_url(s->public_url, n);
	int r = split(buf_str(&hosts), "SANDBOX_ALLOWED_HOSTS", &n->host_texts, n->hosts, e);
	r = r < 0 ? r : check(n->hosts, "SANDBOX_ALLOWED_HOSTS", host_fault, e);
	r = r < 0 ? r
		  : split(s->allowed_origins, "SANDBOX_ALLOWED_ORIGINS", &n->origin_texts,
			  n->origins, e);
	r = r < 0 ? r : check(n->origins, "SANDBOX_ALLOWED_ORIGINS", origin_fault, e);
	r = r < 0 ? r : split_page_origins(s, listen, n, e);
	r = r < 0 ? r : set_port_domain(s, listen, n, e);
	if (r < 0)
		return r;
	r = http_proxies_parse(s->trusted_proxies, &n->proxies, e);
	return r < 0 ? err_wrap(e, "SANDBOX_TRUSTED_PROXIES") : 0;
}

int serve_names_make(const struct settings *s, const char *listen, struct serve_names *ret,
		     struct err *e)
{
	struct serve_names n = {0};
	int r = make(s, listen, &n, e);

	if (r < 0)
		serve_names_done(&n);
	else
		*ret = n;
	return r;
}

void serve_names_done(struct serve_names *n)
{
	free(n->host_texts);
	free(n->origin_texts);
	free(n->page_texts);
	http_proxies_done(&n->proxies);
	*n = (struct serve_names){0};
}
