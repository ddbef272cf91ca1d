/* SPDX-License-Identifier: Apache-2.0 */
#include "config/classic_keys.h"

#include "base/attr.h"
#include "base/text.h"

#include <string.h>

static const char *const tables[] = {"docker", "logging"};

static const struct classic_key keys[] = {
    {"logging.level", "log.level", NULL, NULL},
    {"logging.log_file", "log.file", NULL, NULL},
    {"logging.format", NULL, NULL, NULL},
    {"docker.default_image", "session.image", NULL, NULL},
    {"docker.dockerfile_path", NULL, "sandbox_images/Dockerfile",
     "images are built with 'caisson image build'"},
    {"docker.check_dockerfile_changes", NULL, NULL, NULL},
    {"docker.build_info_file", NULL, NULL, NULL},
};

static const struct {
	enum setting_id id;
	const char *theirs;
	const char *ours;
} values[] = {
    /* That server refused a user who had as many sandboxes as the limit, so 0 allowed none. Here 0
     * means no limit, and -1 none. */
    {SETTING_ID_user_sandbox_limit, "0", "-1"},
};

/* Does the line at P (up to END) begin the table NAME, or a key in it? */
static bool names(const char *p, const char *end, const char *name)
{
	bool bracket = p < end && *p == '[';
	size_t len = strlen(name);

	p += bracket;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	if ((size_t)(end - p) <= len || memcmp(p, name, len) != 0)
		return false;
	return p[len] == '.' || (bracket && (p[len] == ']' || p[len] == ' ' || p[len] == '\t'));
}

bool classic_is(const char *text, size_t len)
{
	const char *p = text, *end = text + len;

	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		const char *stop = newline ? newline : end;

		while (p < stop && (*p == ' ' || *p == '\t'))
			p++;
		for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
			if (names(p, stop, tables[i]))
				return true;
		p = newline ? newline + 1 : end;
	}
	return false;
}

const struct classic_key *classic_key_find(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (streq(keys[i].key, key))
			return &keys[i];
	return NULL;
}

const char *classic_value(enum setting_id id, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		if (values[i].id == id && streq(values[i].theirs, value))
			return values[i].ours;
	return value;
}
