/* SPDX-License-Identifier: Apache-2.0 */
#include "image/source.h"

#include "base/buf.h"
#include "base/text.h"
#include "image/child.h"

#include <string.h>

#define OUTPUT_MAX (256u << 10)

bool source_is_url(const char *s)
{
	if (!text_starts_with(s, "http://") && !text_starts_with(s, "https://") &&
	    !text_starts_with(s, "file:/") && !text_starts_with(s, "copy:/"))
		return false;
	for (; *s; s++)
		if (*s <= ' ' || *s > '~' || strchr("'\"\\`$;|<>[]", *s))
			return false;
	return true;
}

int source_pick(const char *lines, char ret[SOURCE_URL_MAX])
{
	while (*lines) {
		size_t n = strcspn(lines, "\n");
		size_t url = strcspn(lines, " ");
		static const char wanted[] = " Debian Packages";

		/* The label must be exactly "Debian": not security, not backports, not another
		 * vendor. */
		if (url < n && url < SOURCE_URL_MAX && n - url == strlen(wanted) &&
		    memcmp(lines + url, wanted, strlen(wanted)) == 0) {
			memcpy(ret, lines, url);
			ret[url] = '\0';
			if (source_is_url(ret))
				return 0;
		}
		lines += n;
		lines += *lines == '\n' ? 1 : 0;
	}
	return -ENOENT;
}

/* The archive in one line of --print-uris that matches PART. The URL ends before /dists/. */
static int pick_line(const char *line, size_t len, const char *part, char ret[SOURCE_URL_MAX])
{
	char text[SOURCE_URL_MAX];

	if (len < 2 || len >= sizeof(text) || line[0] != '\'')
		return -ENOENT;
	memcpy(text, line + 1, len - 1);
	text[len - 1] = '\0';
	char *dists = strstr(text, "/dists/");

	if (!dists || !strstr(text, part))
		return -ENOENT;
	*dists = '\0';
	return source_is_url(text) ? text_copy(ret, SOURCE_URL_MAX, text) : -ENOENT;
}

int source_pick_uri(const char *lines, char ret[SOURCE_URL_MAX])
{
	static const char *const parts[] = {"-updates/InRelease'", "/debian/dists/"};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		for (const char *line = lines; *line;) {
			size_t n = strcspn(line, "\n");

			if (pick_line(line, n, parts[i], ret) == 0)
				return 0;
			line += n;
			line += *line == '\n' ? 1 : 0;
		}
	}
	return -ENOENT;
}

int source_find_mirror(char ret[SOURCE_URL_MAX], struct err *e)
{
	static const char *const targets[] = {"apt-get", "indextargets", "--format",
					      "$(REPO_URI) $(LABEL) $(CREATED_BY)", NULL};
	static const char *const uris[] = {"apt-get", "update", "--print-uris", NULL};
	_cleanup_(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);

	if (child_output(targets, &out) >= 0 && source_pick(buf_str(&out), ret) == 0)
		return 0;
	buf_reset(&out);
	if (child_output(uris, &out) >= 0 && source_pick_uri(buf_str(&out), ret) == 0)
		return 0;
	return err_set(e, ERR_SOURCE_UNREACHABLE, 0,
		       "apt knows no Debian archive on this machine; name one with --mirror URL");
}

void source_find_proxy(const char *scheme, char ret[SOURCE_URL_MAX])
{
	char key[64];
	char format[] = "%v";
	_cleanup_(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);

	(void)snprintf(key, sizeof(key), "Acquire::%s::Proxy", scheme);
	const char *const argv[] = {"apt-config", "dump", "--no-empty", "--format",
				    format,       key,    NULL};

	ret[0] = '\0';
	if (child_output(argv, &out) < 0 || out.len >= SOURCE_URL_MAX ||
	    !source_is_url(buf_str(&out)))
		return;
	(void)snprintf(ret, SOURCE_URL_MAX, "%s", buf_str(&out));
}
