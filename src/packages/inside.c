/* SPDX-License-Identifier: Apache-2.0 */
/* What the pip of a sandbox is told of the index. */
#include "packages/packages.h"
#include "packages/url.h"

#include "base/text.h"

#include <string.h>

static bool has_credentials(const char *url)
{
	const char *host = strstr(url, "://");
	size_t n = host ? strcspn(host + 3, "/?") : 0;

	return !host || memchr(host + 3, '@', n) || strchr(url, '?');
}

static void add(struct packages_inside *ret, size_t *n, size_t i, const char *name,
		const char *value)
{
	int len = snprintf(ret->lines[i], sizeof(ret->lines[i]), "%s=%s", name, value);

	if (len > 0 && (size_t)len < sizeof(ret->lines[i]))
		ret->env[(*n)++] = ret->lines[i];
}

void packages_inside(const struct packages_config *config, struct packages_inside *ret)
{
	struct err ignored = ERR_INIT;
	struct url url;
	char authority[sizeof(url.host) + 16];
	size_t n = 0;

	*ret = (struct packages_inside){0};
	if (config->wheel_fd >= 0 || has_credentials(config->index_url) ||
	    url_parse(config->index_url, &url, &ignored) < 0 ||
	    (url.https && config->index_has_own_ca) ||
	    text_copy(ret->host, sizeof(ret->host), url.host) < 0)
		return;
	ret->port = url.port;
	add(ret, &n, 0, "PIP_INDEX_URL", config->index_url);
	add(ret, &n, 1, "UV_DEFAULT_INDEX", config->index_url);
	if (url.https)
		return;
	bool v6 = strchr(url.host, ':') != NULL;
	(void)snprintf(authority, sizeof(authority), "%s%s%s:%u", v6 ? "[" : "", url.host,
		       v6 ? "]" : "", url.port);
	add(ret, &n, 2, "PIP_TRUSTED_HOST", authority);
}
