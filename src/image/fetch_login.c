/* SPDX-License-Identifier: Apache-2.0 */
/* Logins of registries: where people keep them, and what a registry asks for. */
#include "image/fetch.h"

#include "base/base64.h"
#include "base/jsonio.h"
#include "base/text.h"

#include <sodium.h>
#include <string.h>
#include <strings.h>

/* "user:password" in base64. */
static int split_login(const char *auth, char *ret_user, char *ret_password)
{
	unsigned char plain[FETCH_SECRET_MAX];
	size_t n = 0;

	if (sodium_base642bin(plain, sizeof(plain) - 1, auth, strlen(auth), NULL, &n, NULL,
			      sodium_base64_VARIANT_ORIGINAL) != 0)
		return -EBADMSG;
	plain[n] = '\0';
	char *colon = memchr(plain, ':', n);
	int r = colon && strlen((char *)plain) == n ? 0 : -EBADMSG;

	if (r >= 0) {
		*colon = '\0';
		r = text_copy(ret_user, FETCH_SECRET_MAX, (char *)plain);
	}
	if (r >= 0)
		r = text_copy(ret_password, FETCH_SECRET_MAX, colon + 1);
	sodium_memzero(plain, sizeof(plain));
	return r;
}

int fetch_find_login(const char *text, size_t len, const char *host, char *ret_user,
		     char *ret_password)
{
	json_t *json = NULL;
	int r = jsonio_read(text, len, JSON_REJECT_DUPLICATES, &json, NULL);

	if (r < 0)
		return r;
	const json_t *auths = json_object_get(json, "auths");
	const json_t *row = json_object_get(auths, host);

	/* Docker keeps its own registry under an old address. */
	if (!row && streq(host, REF_DOCKER_HUB))
		row = json_object_get(auths, "https://index.docker.io/v1/");
	const char *auth = json_string_value(json_object_get(row, "auth"));

	r = auth ? split_login(auth, ret_user, ret_password) : -ENOENT;
	json_decref(json);
	return r;
}

/* Takes NAME="value" from VALUE; quotes inside a value do not occur in what registries send. */
static void take_parameter(const char *value, const char *name, char *ret, size_t size)
{
	const size_t n = strlen(name);

	for (const char *s = value; *s; s++) {
		if (strncasecmp(s, name, n) != 0 || s[n] != '=' || s[n + 1] != '"' ||
		    (s > value && !strchr(" ,", s[-1])))
			continue;
		const char *begin = s + n + 2;
		const size_t len = strcspn(begin, "\"\\");

		if (len < size && begin[len] == '"')
			(void)snprintf(ret, size, "%.*s", (int)len, begin);
		return;
	}
}

void fetch_parse_challenge(const char *value, struct fetch_challenge *ret)
{
	*ret = (struct fetch_challenge){0};
	if (strncasecmp(value, "Basic", 5) == 0 && (!value[5] || value[5] == ' ')) {
		ret->scheme = FETCH_BASIC;
	} else if (strncasecmp(value, "Bearer ", 7) == 0) {
		take_parameter(value + 7, "realm", ret->realm, sizeof(ret->realm));
		take_parameter(value + 7, "service", ret->service, sizeof(ret->service));
		ret->scheme = ret->realm[0] ? FETCH_BEARER : FETCH_NO_SCHEME;
	}
}
