/* SPDX-License-Identifier: Apache-2.0 */
/* Tells pip inside a sandbox where the package index is. */
#include "packages/packages.h"
#include "packages/url.h"

#include "base/text.h"

#include <string.h>

/* Does the index's address hold a secret that sandboxes must not see? */
static bool is_secret(const struct packages_config *config)
{
	return url_has_credentials(config->index_url) ||
	       (config->tell != PACKAGES_TELL_ON && url_may_hold_token(config->index_url));
}

/* No sandbox is told of the second index, but builds would see it. */
static bool is_extra_secret(const struct packages_config *config)
{
	const char *extra = config->extra_index_url ? config->extra_index_url : "";

	return extra[0] != '\0' &&
	       (url_has_credentials(extra) ||
		(config->tell != PACKAGES_TELL_ON && url_may_hold_token(extra)));
}

int packages_check_secrets(const struct packages_config *config, struct err *e)
{
	if (config->wheel_fd >= 0)
		return 0;
	if (config->tell == PACKAGES_TELL_ON && url_has_credentials(config->index_url))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_PIP_TELL_INDEX: the address of the index has credentials "
			       "in it, which no sandbox may see");
	if (config->allow_sources && (is_secret(config) || is_extra_secret(config)))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_PIP_SOURCE_BUILDS: code of packages would see the address "
			       "of the index, which has credentials in it, or a part that may be a "
			       "token (if it is none: SANDBOX_PIP_TELL_INDEX=on)");
	return 0;
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
	if (config->wheel_fd >= 0 || config->tell == PACKAGES_TELL_OFF || is_secret(config) ||
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
