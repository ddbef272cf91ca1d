/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/serve_names.h"

#include "app/app.h"
#include "base/buf.h"
#include "base/text.h"

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

static int make(const struct settings *s, const char *listen, struct serve_names *n, struct err *e)
{
	_cleanup_(buf_done) struct buf hosts = BUF_INIT(8192);
	_cleanup_free_ char *url = strdup(s->public_url);

	/* A proxy may pass on the Host that its clients used. */
	if (!url || buf_printf(&hosts, "%s,%s", s->allowed_hosts, host_of(url)) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "SANDBOX_ALLOWED_HOSTS");
	int r = split(buf_str(&hosts), "SANDBOX_ALLOWED_HOSTS", &n->host_texts, n->hosts, e);
	r = r < 0 ? r
		  : split(s->allowed_origins, "SANDBOX_ALLOWED_ORIGINS", &n->origin_texts,
			  n->origins, e);
	r = r < 0 ? r : split_page_origins(s, listen, n, e);
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
