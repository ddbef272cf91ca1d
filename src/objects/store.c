/* SPDX-License-Identifier: Apache-2.0 */
#include "objects/store.h"

#include "base/parse.h"
#include "base/text.h"

#include <sodium.h>
#include <string.h>

#define LOWER       "abcdefghijklmnopqrstuvwxyz"
#define UPPER       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS      "0123456789"
#define BUCKET_MIN  3u
#define KEY_CHARS   LOWER UPPER DIGITS "._-/"
#define NAME_CHARS  LOWER DIGITS ".-" /* of hosts and buckets */
#define V6_CHARS    "0123456789abcdef:."
#define BLANKS      " \t\r"
#define FIRST_GRAPH '!'
#define LAST_GRAPH  '~'

bool objects_key_ok(const char *key)
{
	const size_t len = strlen(key);
	bool begins = true;

	if (len == 0 || len >= OBJECTS_KEY_SIZE || strspn(key, KEY_CHARS) != len)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (begins && (key[i] == '/' || key[i] == '.'))
			return false;
		begins = key[i] == '/';
	}
	return !begins;
}

/* Amazon's rules, which the others keep as well. */
static bool bucket_ok(const char *bucket)
{
	const size_t len = strlen(bucket);

	return len >= BUCKET_MIN && len < OBJECTS_BUCKET_SIZE &&
	       strspn(bucket, NAME_CHARS) == len && !strchr(".-", bucket[0]) &&
	       !strchr(".-", bucket[len - 1]) && !strstr(bucket, "..");
}

/* A port that the scheme means anyway stands in no header Host, so it may not be part of what is signed. */
static int take_host(struct objects_store *s, const char *text, struct err *e)
{
	char host[OBJECTS_HOST_SIZE], with_port[OBJECTS_HOST_SIZE];
	const uint16_t usual = s->tls ? 443 : 80;
	const char *after_host = text[0] == '[' ? strchr(text, ']') : text;
	const bool has_port = after_host && strchr(after_host, ':');
	uint16_t port = usual;

	if (snprintf(with_port, sizeof(with_port), "%s%s", text, has_port ? "" : ":1") >=
		(int)sizeof(with_port) ||
	    parse_host_port(with_port, host, sizeof(host), &port) < 0 || port == 0 || !host[0])
		goto bad;
	if (!has_port)
		port = usual;
	for (char *c = host; *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	const bool v6 = strchr(host, ':') != NULL;
	if (strspn(host, v6 ? V6_CHARS : NAME_CHARS) != strlen(host))
		goto bad;
	if (!s->path_style && (v6 || strspn(host, DIGITS ".") == strlen(host)))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_OBJECTS_ENDPOINT is an address, so the bucket cannot be "
			       "part of the host: set "
			       "SANDBOX_OBJECTS_PATH_STYLE=on");
	char number[8] = "";
	if (port != usual)
		(void)snprintf(number, sizeof(number), ":%u", port);
	const int n =
	    snprintf(s->host, sizeof(s->host), "%s%s%s%s%s%s", s->path_style ? "" : s->bucket,
		     s->path_style ? "" : ".", v6 ? "[" : "", host, v6 ? "]" : "", number);
	if (n > 0 && n < (int)sizeof(s->host))
		return 0;
bad:
	return err_set(
	    e, ERR_SETTING_INVALID, 0,
	    "SANDBOX_OBJECTS_ENDPOINT: give https://HOST or https://HOST:PORT, such as "
	    "https://s3.eu-central-1.amazonaws.com, without a path and without the bucket");
}

int objects_store_place(struct objects_store *ret, const char *endpoint, const char *bucket,
			const char *region, bool path_style, struct err *e)
{
	struct objects_store s = {.path_style = path_style};
	const char *host = strstr(endpoint, "://");

	if (!bucket_ok(bucket))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "SANDBOX_OBJECTS_BUCKET: a bucket has 3 to 63 lower-case letters, "
			       "digits, '-' and '.'");
	if (!region[0] || strlen(region) >= sizeof(s.region) ||
	    strspn(region, LOWER UPPER DIGITS "-_") != strlen(region))
		return err_set(
		    e, ERR_SETTING_INVALID, 0,
		    "SANDBOX_OBJECTS_REGION: give the region of the bucket, such as eu-central-1");
	s.tls = text_starts_with(endpoint, "https://");
	if (!s.tls && !text_starts_with(endpoint, "http://"))
		host = "://";
	/* The certificate of *.HOST is for one part. */
	if (s.tls && !path_style && strchr(bucket, '.'))
		return err_set(
		    e, ERR_SETTING_INVALID, 0,
		    "SANDBOX_OBJECTS_BUCKET has a '.', so no certificate covers its host name: set "
		    "SANDBOX_OBJECTS_PATH_STYLE=on, or take another bucket");
	(void)!text_copy(s.bucket, sizeof(s.bucket), bucket);
	(void)!text_copy(s.region, sizeof(s.region), region);
	host += strlen("://");
	char bare[OBJECTS_HOST_SIZE] = "";
	const size_t len = strlen(host);
	const size_t n =
	    len > 0 && host[len - 1] == '/' ? len - 1 : len; /* a slash at the end is no path */
	if (n < sizeof(bare))
		memcpy(bare, host, n);
	const int r = take_host(&s, bare, e);
	if (r == 0)
		*ret = s;
	return r;
}

/* ---- credentials ---- */

static bool is_graph(const char *text)
{
	for (; *text; text++)
		if (*text < FIRST_GRAPH || *text > LAST_GRAPH)
			return false;
	return true;
}

static int take_value(char *place, size_t size, const char *key, const char *value, struct err *e)
{
	if (place[0])
		return err_set(e, ERR_SETTING_INVALID, 0, "%s stands there twice", key);
	if (!value[0] || !is_graph(value) || text_copy(place, size, value) < 0)
		return err_set(e, ERR_SETTING_INVALID, 0, "%s has no value that can be one", key);
	return 0;
}

/* LINE is without blanks at both ends. */
static int take_line(struct objects_store *s, char *line, unsigned number, struct err *e)
{
	char *equals = strchr(line, '=');

	if (!line[0] || line[0] == '#' || line[0] == ';' || streq(line, "[default]"))
		return 0;
	if (line[0] == '[')
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "line %u: only the section [default] is read", number);
	if (!equals)
		return err_set(e, ERR_SETTING_INVALID, 0, "line %u is not KEY = VALUE", number);
	char *value = equals + 1 + strspn(equals + 1, BLANKS);
	size_t len = (size_t)(equals - line);
	while (len > 0 && strchr(BLANKS, line[len - 1]))
		len--;
	line[len] = '\0';
	if (streq(line, "aws_access_key_id"))
		return take_value(s->access, sizeof(s->access), line, value, e);
	if (streq(line, "aws_secret_access_key"))
		return take_value(s->secret, sizeof(s->secret), line, value, e);
	if (streq(line, "aws_session_token"))
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "line %u: credentials with a session token end after hours. Give "
			       "those of an account "
			       "of its own",
			       number);
	return err_set(e, ERR_SETTING_INVALID, 0, "line %u: an unknown key", number);
}

int objects_store_credentials(struct objects_store *s, const char *text, struct err *e)
{
	char line[OBJECTS_CREDENTIALS_MAX];
	unsigned number = 0;
	int r = 0;

	s->access[0] = s->secret[0] = '\0';
	while (r == 0 && *text) {
		const size_t all = strcspn(text, "\n");
		const size_t skip = MIN(strspn(text, BLANKS), all);
		size_t len = all - skip;

		number++;
		while (len > 0 && strchr(BLANKS, text[skip + len - 1]))
			len--;
		if (len >= sizeof(line)) {
			r = err_set(e, ERR_SETTING_INVALID, 0, "line %u is too long", number);
			break;
		}
		memcpy(line, text + skip, len);
		line[len] = '\0';
		r = take_line(s, line, number, e);
		text += all + (text[all] == '\n');
	}
	sodium_memzero(line, sizeof(line));
	if (r == 0 && (!s->access[0] || !s->secret[0]))
		r = err_set(e, ERR_SETTING_INVALID, 0, "there is no line %s = …",
			    s->access[0] ? "aws_secret_access_key" : "aws_access_key_id");
	if (r < 0)
		objects_store_done(s);
	return r;
}

void objects_store_done(struct objects_store *s)
{
	sodium_memzero(s->access, sizeof(s->access));
	sodium_memzero(s->secret, sizeof(s->secret));
}
