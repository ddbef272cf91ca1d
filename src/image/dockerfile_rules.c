/* SPDX-License-Identifier: Apache-2.0 */
/* The flags that instructions have, and what COPY and ADD may name. */
#include "image/dockerfile_parts.h"

#include "base/text.h"
#include "base/walls.h"
#include "image/inside.h"
#include "image/oci.h"

#include <string.h>

enum rule { TAKEN, IGNORED, REFUSED };

static const struct {
	enum dockerfile_kind kind;
	const char *name;
	enum rule rule;
	const char *why; /* of REFUSED */
} rules[] = {
    {DOCKERFILE_FROM, "platform", IGNORED, NULL},
    {DOCKERFILE_RUN, "mount", TAKEN, NULL},
    {DOCKERFILE_RUN, "network", IGNORED, NULL},
    {DOCKERFILE_RUN, "security", REFUSED, "a step has no further rights"},
    {DOCKERFILE_RUN, "device", REFUSED, "a step has no devices"},
    {DOCKERFILE_COPY, "from", TAKEN, NULL},
    {DOCKERFILE_COPY, "chown", TAKEN, NULL},
    {DOCKERFILE_COPY, "chmod", TAKEN, NULL},
    {DOCKERFILE_COPY, "link", IGNORED, NULL},
    {DOCKERFILE_COPY, "parents", REFUSED, "name each folder in a COPY of its own"},
    {DOCKERFILE_COPY, "exclude", REFUSED, "a .dockerignore leaves files out"},
    {DOCKERFILE_ADD, "chown", TAKEN, NULL},
    {DOCKERFILE_ADD, "chmod", TAKEN, NULL},
    {DOCKERFILE_ADD, "checksum", TAKEN, NULL},
    {DOCKERFILE_ADD, "link", IGNORED, NULL},
    {DOCKERFILE_ADD, "keep-git-dir", REFUSED, "clone the repository with RUN"},
    {DOCKERFILE_ADD, "exclude", REFUSED, "a .dockerignore leaves files out"},
    {DOCKERFILE_HEALTHCHECK, "interval", IGNORED, NULL},
    {DOCKERFILE_HEALTHCHECK, "timeout", IGNORED, NULL},
    {DOCKERFILE_HEALTHCHECK, "start-period", IGNORED, NULL},
    {DOCKERFILE_HEALTHCHECK, "start-interval", IGNORED, NULL},
    {DOCKERFILE_HEALTHCHECK, "retries", IGNORED, NULL},
};

/* "--from=x" is NAME from? Then its value; "" for one without. */
static const char *value_of(const char *flag, const char *name)
{
	const size_t n = strlen(name);

	if (strncmp(flag + 2, name, n) != 0 || (flag[2 + n] && flag[2 + n] != '='))
		return NULL;
	return flag[2 + n] ? flag + 3 + n : "";
}

const char *dockerfile_flag(const struct dockerfile_step *s, const char *name)
{
	for (size_t i = 0; i < s->flags.n; i++)
		if (value_of(s->flags.v[i], name))
			return value_of(s->flags.v[i], name);
	return NULL;
}

static bool mount_key(const char *item, size_t len, const char *key)
{
	const size_t n = strlen(key);

	return len >= n && strncmp(item, key, n) == 0 && (len == n || item[n] == '=');
}

/* Of RUN --mount: a cache, which ends with the build, or a tmpfs. The others reach files of the machine, where older builders can be led astray,
 * or secrets, which a build has none of. */
static int check_mount(const struct dockerfile *d, const struct dockerfile_step *s,
		       const char *value, struct err *e)
{
	static const char *const keys[] = {
	    "type", "target", "dst",      "destination", "id",   "sharing",   "mode",
	    "uid",  "gid",    "readonly", "ro",          "size", "tmpfs-size"};
	bool good = false;

	for (const char *p = value; *p;) {
		const size_t n = strcspn(p, ",");
		bool known = false;

		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			known |= mount_key(p, n, keys[i]);
		if (mount_key(p, n, "type"))
			good = (n == 10 && strncmp(p + 5, "cache", 5) == 0) ||
			       (n == 10 && strncmp(p + 5, "tmpfs", 5) == 0);
		if (!known || memmem(p, n, "..", 2) || memchr(p, '$', n))
			return dockerfile_fail(d, s->line, e,
					       "--mount=%.100s: '%.*s' is not known here", value,
					       (int)MIN(n, (size_t)100), p);
		p += n;
		p += *p == ',';
	}
	if (!good)
		return dockerfile_fail(d, s->line, e,
				       "--mount=%.100s: only type=cache and type=tmpfs are known "
				       "here; use COPY for files, and no secrets",
				       value);
	return 0;
}

static int check_platform(const struct dockerfile *d, const struct dockerfile_step *s,
			  const char *value, struct err *e)
{
	char ours[64];

	(void)snprintf(ours, sizeof(ours), "linux/%s", oci_architecture());
	if (streq(value, ours) || streq(value, "$BUILDPLATFORM") ||
	    streq(value, "${BUILDPLATFORM}") || streq(value, "$TARGETPLATFORM") ||
	    streq(value, "${TARGETPLATFORM}"))
		return 0;
	return dockerfile_fail(d, s->line, e,
			       "--platform=%.64s: images are built for this machine, %s, alone",
			       value, ours);
}

static int check_value(const struct dockerfile *d, const struct dockerfile_step *s,
		       const char *name, const char *value, struct err *e)
{
	if (streq(name, "mount"))
		return check_mount(d, s, value, e);
	if (streq(name, "platform"))
		return check_platform(d, s, value, e);
	if (streq(name, "network") && !streq(value, "default"))
		return dockerfile_fail(
		    d, s->line, e,
		    "--network=%.32s: the network is one for all steps; 'caisson "
		    "image build --no-network' closes it",
		    value);
	if (!value[0] && !streq(name, "link"))
		return dockerfile_fail(d, s->line, e, "--%s needs a value", name);
	return 0;
}

static int check_flag(const struct dockerfile *d, const struct dockerfile_step *s, const char *flag,
		      struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
		const char *value = rules[i].kind == s->kind ? value_of(flag, rules[i].name) : NULL;

		if (!value)
			continue;
		if (rules[i].rule == REFUSED)
			return dockerfile_fail(d, s->line, e, "%s --%s is not supported: %s",
					       dockerfile_word(s->kind), rules[i].name,
					       rules[i].why);
		return check_value(d, s, rules[i].name, value, e);
	}
	return dockerfile_fail(d, s->line, e, "%s has no flag '%.64s'", dockerfile_word(s->kind),
			       flag);
}

int dockerfile_check_flags(const struct dockerfile *d, const struct dockerfile_step *s,
			   struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < s->flags.n; i++)
		r = check_flag(d, s, s->flags.v[i], e);
	return r;
}

bool dockerfile_flag_is_printed(const struct dockerfile_step *s, const char *flag)
{
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (rules[i].kind == s->kind && value_of(flag, rules[i].name))
			return rules[i].rule == TAKEN;
	return false;
}

/* Whether the path, seen from the top of the build context, climbs above it. */
static bool leads_out(const char *path)
{
	int depth = 0;

	while (*path && wall_stands(WALL_DOCKERFILE)) {
		const size_t n = strcspn(path, "/");

		if (n == 2 && strncmp(path, "..", 2) == 0)
			depth--;
		else if (n > 0 && !(n == 1 && *path == '.'))
			depth++;
		if (depth < 0)
			return true;
		path += n;
		path += *path == '/';
	}
	return false;
}

static bool is_remote(const char *source)
{
	return strstr(source, "://") || text_starts_with(source, "git@");
}

static int check_remote(struct dockerfile *d, const struct dockerfile_step *s, const char *url,
			const struct dockerfile_options *o, struct err *e)
{
	char host[INSIDE_HOST_MAX];

	if (s->kind != DOCKERFILE_ADD ||
	    (!text_starts_with(url, "https://") && !text_starts_with(url, "http://")))
		return dockerfile_fail(d, s->line, e,
				       "'%.100s': only ADD takes addresses, and those of http and "
				       "https",
				       url);
	if (o->no_network)
		return dockerfile_fail(d, s->line, e,
				       "ADD of an address needs the network, and --no-network "
				       "closes it");
	if (inside_host(url, host) < 0)
		return dockerfile_fail(d, s->line, e, "'%.100s' names no host", url);
	if (!o->allow_inside && wall_stands(WALL_DOCKERFILE) && inside_is_host(host))
		return dockerfile_fail(d, s->line, e,
				       "ADD '%.100s': %.64s is an address of this machine or its "
				       "cloud; --allow-inside permits that",
				       url, host);
	return image_words_add(&d->remote, url, strlen(url)) < 0
		   ? err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading a Dockerfile")
		   : 0;
}

int dockerfile_check_sources(struct dockerfile *d, const struct dockerfile_step *s,
			     const struct dockerfile_options *o, const char *unknown, struct err *e)
{
	int r = 0;

	if (s->kind == DOCKERFILE_ADD && unknown[0] && !o->allow_inside &&
	    wall_stands(WALL_DOCKERFILE))
		return dockerfile_fail(
		    d, s->line, e,
		    "ADD with $%.64s, which this file does not set: what it adds "
		    "cannot be judged",
		    unknown);
	for (size_t i = 0; r >= 0 && i + 1 < s->words.n; i++) {
		const char *source = s->words.v[i];

		if (is_remote(source))
			r = check_remote(d, s, source, o, e);
		else if (!dockerfile_flag(s, "from") && leads_out(source))
			r = dockerfile_fail(d, s->line, e,
					    "'%.100s' leads out of the build context", source);
	}
	return r;
}
