/* SPDX-License-Identifier: Apache-2.0 */
#include "image/ref.h"

#include "base/parse.h"
#include "base/text.h"
#include "image/def.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define DAEMON   "docker-daemon:"
#define SPEC_MAX (REF_HOST_MAX + REF_NAME_MAX + REF_TAG_MAX + OCI_DIGEST_LEN + 8)
#define LETTERS  "abcdefghijklmnopqrstuvwxyz0123456789"
#define TAG_SET  LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ._-"

/* Docker's own registry: it answers under another host, and names without a '/' are in `library`. */
#define HUB "docker.io"

static int refuse(const char *s, struct err *e)
{
	return err_set(e, ERR_INVALID_ARGUMENT, 0,
		       "'%.200s' is no image: docker://HOST/NAME[:TAG] is one of a registry, "
		       "docker-daemon:NAME[:TAG] one of this machine's Docker",
		       image_is_text(s, strlen(s)) ? s : "?");
}

/* Parts between slashes: small letters and digits, with a '.', one or two '_' or any number of '-' between
 * them (OCI distribution spec 1.1, "Pulling manifests"). So none is "..", or has it in it. */
static bool is_name(const char *s)
{
	for (;;) {
		const size_t n = strspn(s, LETTERS);

		s += n;
		if (n == 0 || !*s)
			return n > 0;
		if (*s == '-')
			s += strspn(s, "-");
		else if (*s == '_')
			s += s[1] == '_' ? 2 : 1;
		else if (*s == '.' || *s == '/')
			s++;
		else
			return false;
	}
}

static bool is_tag(const char *s)
{
	return strspn(s, TAG_SET) == strlen(s) && s[0] && s[0] != '.' && s[0] != '-' &&
	       strlen(s) <= REF_TAG_MAX;
}

static bool is_host(const char *s)
{
	char host[REF_HOST_MAX + 1];
	uint16_t port;
	const char *colon = strrchr(s, ':');

	if (strspn(s, TAG_SET ":[]") != strlen(s) || !s[0])
		return false;
	if (!colon || strchr(colon, ']'))
		return s[0] != '-' && s[0] != '.';
	return parse_host_port(s, host, sizeof(host), &port) == 0 && host[0] && port > 0;
}

bool ref_is_loopback(const char *host)
{
	char name[REF_HOST_MAX + 1];
	struct in_addr v4;

	if (text_starts_with(host, "[::1]"))
		return !host[5] || host[5] == ':';
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(host, ":"), host);
	return streq(name, "localhost") ||
	       (inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127);
}

/* Splits "NAME[:TAG][@DIGEST]" in S, which is changed. */
static int take_name(char *s, struct image_ref *ret)
{
	char *at = strchr(s, '@');

	if (at) {
		*at = '\0';
		if (!oci_is_digest(at + 1) ||
		    text_copy(ret->digest, sizeof(ret->digest), at + 1) < 0)
			return -EINVAL;
	}
	char *colon = strrchr(s, ':');

	if (colon && strchr(colon, '/'))
		colon = NULL;
	if (colon)
		*colon = '\0';
	if ((colon && !is_tag(colon + 1)) || !is_name(s))
		return -EINVAL;
	(void)snprintf(ret->tag, sizeof(ret->tag), "%s", colon ? colon + 1 : "latest");
	return text_copy(ret->name, sizeof(ret->name), s);
}

static int take_registry(char *s, struct image_ref *ret)
{
	char *slash = strchr(s, '/');
	const char *host = HUB;
	char library[SPEC_MAX + 16];

	/* The first part is a host if it could not be part of a name: Docker's rule. */
	if (slash) {
		*slash = '\0';
		if (strpbrk(s, ".:[") || streq(s, "localhost")) {
			host = s;
			s = slash + 1;
		} else {
			*slash = '/';
		}
	}
	if (streq(host, HUB)) {
		if (!strchr(s, '/')) {
			(void)snprintf(library, sizeof(library), "library/%s", s);
			s = library;
		}
		host = REF_DOCKER_HUB;
	}
	if (!is_host(host) || text_copy(ret->host, sizeof(ret->host), host) < 0)
		return -EINVAL;
	return take_name(s, ret);
}

static int take_daemon(char *s, struct image_ref *ret)
{
	char whole[SPEC_MAX];
	char *slash = strchr(s, '/');
	char *name = s;

	(void)snprintf(whole, sizeof(whole), "%s", s);
	if (slash) {
		*slash = '\0';
		const bool host = strpbrk(s, ".:") || streq(s, "localhost");
		const bool good = !host || is_host(s);

		*slash = '/';
		if (!good)
			return -EINVAL;
		name = host ? slash + 1 : s;
	}
	/* An id, whole or its beginning, is a name for this grammar, too. */
	int r = take_name(name, ret);

	return r < 0 ? r : text_copy(ret->name, sizeof(ret->name), whole);
}

bool image_ref_is_tagged(const char *s)
{
	char copy[SPEC_MAX];
	struct image_ref ref = {0};

	return text_copy(copy, sizeof(copy), s) >= 0 && take_daemon(copy, &ref) >= 0 &&
	       !ref.digest[0] && text_ends_with(s, ref.tag);
}

/* The Docker of this machine has the same names for what a registry has. */
bool image_ref_is_origin(const struct image_ref *ref, const char *origin)
{
	char source[sizeof(REF_REGISTRY_PREFIX) + SPEC_MAX];
	struct image_ref own;
	struct err ignored = ERR_INIT;
	const char *rest = text_starts_with(origin, REF_REGISTRY_PREFIX)
			       ? origin + strlen(REF_REGISTRY_PREFIX)
			   : text_starts_with(origin, DAEMON) ? origin + strlen(DAEMON)
							      : NULL;

	if (!rest || ref->kind != REF_REGISTRY ||
	    (size_t)snprintf(source, sizeof(source), REF_REGISTRY_PREFIX "%s", rest) >=
		sizeof(source) ||
	    image_ref_parse(source, &own, &ignored) < 0)
		return false;
	/* With a digest, the tag says nothing. */
	return strcasecmp(own.host, ref->host) == 0 && streq(own.name, ref->name) &&
	       streq(own.digest, ref->digest) && (ref->digest[0] || streq(own.tag, ref->tag));
}

int image_ref_parse(const char *s, struct image_ref *ret, struct err *e)
{
	char copy[SPEC_MAX];
	struct image_ref ref = {.kind = text_starts_with(s, REF_REGISTRY_PREFIX) ? REF_REGISTRY
					: text_starts_with(s, DAEMON)            ? REF_DAEMON
										 : REF_PATH};
	int r = 0;

	if (ref.kind == REF_PATH) {
		*ret = ref;
		return 0;
	}
	const char *rest = s + strlen(ref.kind == REF_REGISTRY ? REF_REGISTRY_PREFIX : DAEMON);

	r = text_copy(copy, sizeof(copy), rest);
	if (r >= 0)
		r = ref.kind == REF_REGISTRY ? take_registry(copy, &ref) : take_daemon(copy, &ref);
	if (r < 0)
		return refuse(s, e);
	*ret = ref;
	return 0;
}
