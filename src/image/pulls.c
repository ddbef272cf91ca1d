/* SPDX-License-Identifier: Apache-2.0 */
#include "image/pulls.h"

#include "base/text.h"
#include "egress/address.h"
#include "image/inside.h"

#include <sodium.h>
#include <string.h>

#define SETTING    "SANDBOX_PULLS"
#define INSIDE     "inside:"
#define ALL        "/*"
#define SEPARATORS ", \t"
#define READABLE   36 /* letters of the reference in a name */

struct pattern {
	char host[REF_HOST_MAX + 1];
	char name[REF_NAME_MAX +
		  1]; /* a repository, or what stands before ALL; "" = all of the registry */
	bool all;
	bool inside;
};

static void lower(char *s)
{
	for (; *s; s++)
		if (*s >= 'A' && *s <= 'Z')
			*s = (char)(*s - 'A' + 'a');
}

/* Names of hosts have no case, and "docker.io" has several names. */
static int parse(const char *text, struct image_ref *ret, struct err *e)
{
	char whole[IMAGE_PULL_TEXT + sizeof(REF_REGISTRY_PREFIX)];
	const bool prefixed = text_starts_with(text, REF_REGISTRY_PREFIX);

	if ((size_t)snprintf(whole, sizeof(whole), "%s%s", prefixed ? "" : REF_REGISTRY_PREFIX,
			     text) >= sizeof(whole))
		return err_set(e, ERR_INVALID_ARGUMENT, ENAMETOOLONG, "the name of an image");
	const int r = image_ref_parse(whole, ret, e);

	if (r >= 0)
		lower(ret->host);
	return r;
}

static bool is_inside(const char *host)
{
	char url[REF_HOST_MAX + 16], name[INSIDE_HOST_MAX];

	(void)snprintf(url, sizeof(url), "https://%s/", host);
	if (inside_host(url, name) < 0 || inside_is_host(name))
		return true;
	struct egress_address a;

	return egress_address_parse(name, &a) == 0 &&
	       egress_address_class(&a, NULL) != EGRESS_PUBLIC;
}

static int refuse_pattern(const char *s, size_t len, struct err *e)
{
	return err_set(e, ERR_SETTING_INVALID, 0,
		       SETTING
		       ": '%.*s' is not allowed; name repositories, such as "
		       "docker.io/library/python, docker.io/library/* or registry.example/*",
		       (int)MIN(len, (size_t)200), s);
}

/* Two parts in the place of '*' keep a short name from becoming "library/...". */
static int parse_pattern(const char *s, size_t len, struct pattern *ret, struct err *e)
{
	static const char below[] = "/x/x";
	char text[IMAGE_PULL_TEXT];
	struct image_ref ref;
	struct err ignored = ERR_INIT;
	const char *whole = s;
	const size_t whole_len = len;

	*ret = (struct pattern){0};
	if (len > strlen(INSIDE) && strncmp(s, INSIDE, strlen(INSIDE)) == 0) {
		ret->inside = true;
		s += strlen(INSIDE);
		len -= strlen(INSIDE);
	}
	ret->all = len > strlen(ALL) && strncmp(s + len - strlen(ALL), ALL, strlen(ALL)) == 0;
	len -= ret->all ? strlen(ALL) : 0;
	if ((size_t)snprintf(text, sizeof(text), "%.*s%s", (int)len, s, ret->all ? below : "") >=
	    sizeof(text))
		return refuse_pattern(whole, whole_len, e);
	const char *last = strrchr(text, '/');

	if (strchr(text, '@') || strchr(last ? last : text, ':') || parse(text, &ref, &ignored) < 0)
		return refuse_pattern(whole, whole_len, e);
	const size_t n = strlen(ref.name) - (ret->all ? strlen(below) - 1 : 0);

	memcpy(ret->host, ref.host, sizeof(ret->host));
	memcpy(ret->name, ref.name, n);
	ret->inside = ret->inside || is_inside(ref.host);
	return 0;
}

static bool has(const struct pattern *p, const struct image_ref *ref)
{
	return streq(p->host, ref->host) &&
	       (p->all ? text_starts_with(ref->name, p->name) : streq(ref->name, p->name));
}

/* 1: a part of the list permits REF. RET_INSIDE: some part that does lets its registry be inside. */
static int look_up(const char *list, const struct image_ref *ref, bool *ret_inside, struct err *e)
{
	int found = 0;

	for (size_t n; *(list += strspn(list, SEPARATORS)); list += n) {
		struct pattern p;

		n = strcspn(list, SEPARATORS);
		const int r = parse_pattern(list, n, &p, e);

		if (r < 0)
			return r;
		if (has(&p, ref)) {
			found = 1;
			*ret_inside = *ret_inside || p.inside;
		}
	}
	return found;
}

int image_pulls_check(const char *list, struct err *e)
{
	const struct image_ref none = {0};
	bool inside = false;

	return look_up(list, &none, &inside, e);
}

static void write_text(const struct image_ref *ref, char ret[IMAGE_PULL_TEXT])
{
	(void)snprintf(ret, IMAGE_PULL_TEXT, "%s/%s%c%s",
		       streq(ref->host, REF_DOCKER_HUB) ? "docker.io" : ref->host, ref->name,
		       ref->digest[0] ? '@' : ':', ref->digest[0] ? ref->digest : ref->tag);
}

int image_pull_judge(const char *list, const char *reference, struct image_pull *ret, struct err *e)
{
	struct image_pull p = {0};
	int r = parse(reference, &p.ref, e);

	if (r < 0)
		return r;
	write_text(&p.ref, p.text);
	r = look_up(list, &p.ref, &p.inside, e);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(e, ERR_FORBIDDEN, 0,
			       "builds may not download %.300s; the operator of this server can "
			       "permit it in " SETTING,
			       p.text);
	*ret = p;
	return 0;
}

bool image_is_pulled(const struct image_manifest *m)
{
	return streq(image_manifest_str(m, "source"), IMAGE_PULL_SOURCE) &&
	       text_starts_with(image_manifest_str(m, "name"), IMAGE_PULL_PREFIX);
}

/* PREFIX, what people recognize of REF, and a hash of TEXT. */
static void make_name(const char *prefix, const struct image_ref *ref, const char *text,
		      char ret[IMAGE_PULL_NAME])
{
	unsigned char sum[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(sum) + 1];
	char readable[REF_NAME_MAX + REF_TAG_MAX + 16];
	const char *slash = strrchr(ref->name, '/');

	(void)crypto_hash_sha256(sum, (const unsigned char *)text, strlen(text));
	text_hex(sum, sizeof(sum), hex);
	(void)snprintf(readable, sizeof(readable), "%s-%s", slash ? slash + 1 : ref->name,
		       ref->digest[0] ? "digest" : ref->tag);
	lower(readable);
	(void)snprintf(ret, IMAGE_PULL_NAME, "%s%.*s.%.16s", prefix, READABLE, readable, hex);
}

void image_pull_name(const struct image_pull *p, const char *digest, char ret[IMAGE_PULL_NAME])
{
	char both[IMAGE_PULL_TEXT + OCI_DIGEST_LEN + 2];

	(void)snprintf(both, sizeof(both), "%s %s", p->text, digest);
	make_name(IMAGE_PULL_PREFIX, &p->ref, both, ret);
}

void image_base_name(const struct image_ref *ref, char ret[IMAGE_PULL_NAME])
{
	struct image_ref own = *ref;
	char text[IMAGE_PULL_TEXT];

	lower(own.host);
	write_text(&own, text);
	make_name(IMAGE_BASE_PREFIX, &own, text, ret);
}
