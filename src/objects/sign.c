/* SPDX-License-Identifier: Apache-2.0 */
/* https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html */
#include "objects/sign.h"

#include "base/text.h"

#include <sodium.h>
#include <string.h>
#include <time.h>

#define ALGORITHM "AWS4-HMAC-SHA256"
#define STAMP_LEN 16u /* 20130524T000000Z */
#define DAY_LEN   8u
#define HEX_SIZE  (2 * crypto_hash_sha256_BYTES + 1)
#define TEXT_MAX  4096u
#define FAR       UINT64_C(253402300799) /* the last second of the year 9999 */

static const char *const methods[] = {"GET", "HEAD", "PUT", "DELETE"};

static int check(const struct objects_order *o, struct err *e)
{
	bool known = false;

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		known = known || streq(methods[i], o->method);
	if (!known || !objects_key_ok(o->key))
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "the name of an object");
	if (streq(o->method, "PUT") ? o->length > OBJECTS_LENGTH_MAX
				    : o->length != OBJECTS_LENGTH_ANY)
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "the length of an object");
	if (o->seconds == 0 || o->seconds > OBJECTS_SECONDS_MAX || o->at > FAR)
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "the time of an address");
	return 0;
}

static void hmac(const void *key, size_t key_len, const char *text, size_t len,
		 uint8_t ret[crypto_auth_hmacsha256_BYTES])
{
	crypto_auth_hmacsha256_state state;

	(void)crypto_auth_hmacsha256_init(&state, key, key_len);
	(void)crypto_auth_hmacsha256_update(&state, (const uint8_t *)text, len);
	(void)crypto_auth_hmacsha256_final(&state, ret);
	sodium_memzero(&state, sizeof(state));
}

static void next_key(uint8_t key[crypto_auth_hmacsha256_BYTES], const char *text)
{
	uint8_t made[crypto_auth_hmacsha256_BYTES];

	hmac(key, crypto_auth_hmacsha256_BYTES, text, strlen(text), made);
	memcpy(key, made, sizeof(made));
	sodium_memzero(made, sizeof(made));
}

/* The signature of TEXT, a "string to sign". */
static void sign(const struct objects_store *s, const char *day, const struct buf *text,
		 char ret[HEX_SIZE])
{
	char first[sizeof("AWS4") + OBJECTS_SECRET_SIZE];
	uint8_t key[crypto_auth_hmacsha256_BYTES], made[crypto_auth_hmacsha256_BYTES];

	(void)snprintf(first, sizeof(first), "AWS4%s", s->secret);
	hmac(first, strlen(first), day, DAY_LEN, key);
	next_key(key, s->region);
	next_key(key, "s3");
	next_key(key, "aws4_request");
	hmac(key, sizeof(key), buf_str(text), text->len, made);
	text_hex(made, sizeof(made), ret);
	sodium_memzero(first, sizeof(first));
	sodium_memzero(key, sizeof(key));
}

/* Everything of the query but the signature, in the order of the alphabet, as the signature needs it. */
static int add_query(const struct objects_store *s, const struct objects_order *o,
		     const char *stamp, struct buf *ret)
{
	char credential[OBJECTS_ACCESS_SIZE + OBJECTS_REGION_SIZE + 64];

	(void)snprintf(credential, sizeof(credential), "%s/%.8s/%s/s3/aws4_request", s->access,
		       stamp, s->region);
	int r = buf_add_str(ret, "X-Amz-Algorithm=" ALGORITHM "&X-Amz-Credential=");
	r = r < 0 ? r : text_add_percent(ret, credential, strlen(credential), false);
	return r < 0
		   ? r
		   : buf_printf(ret, "&X-Amz-Date=%s&X-Amz-Expires=%u&X-Amz-SignedHeaders=%s",
				stamp, o->seconds,
				o->length == OBJECTS_LENGTH_ANY ? "host" : "content-length%3Bhost");
}

/* The "canonical request". */
static int describe(const struct objects_store *s, const struct objects_order *o, const char *path,
		    const char *query, struct buf *ret)
{
	int r = buf_printf(ret, "%s\n%s\n%s\n", o->method, path, query);

	if (r >= 0 && o->length != OBJECTS_LENGTH_ANY)
		r = buf_printf(ret, "content-length:%ju\n", (uintmax_t)o->length);
	return r < 0 ? r
		     : buf_printf(ret, "host:%s\n\n%s\nUNSIGNED-PAYLOAD", s->host,
				  o->length == OBJECTS_LENGTH_ANY ? "host" : "content-length;host");
}

static int make(const struct objects_store *s, const struct objects_order *o, const char *stamp,
		struct buf *ret)
{
	_cleanup_(buf_done) struct buf query = BUF_INIT(TEXT_MAX), request = BUF_INIT(TEXT_MAX),
				       text = BUF_INIT(TEXT_MAX);
	char path[OBJECTS_BUCKET_SIZE + OBJECTS_KEY_SIZE + 2], hex[HEX_SIZE];
	uint8_t hash[crypto_hash_sha256_BYTES];

	(void)snprintf(path, sizeof(path), "/%s%s%s", s->path_style ? s->bucket : "",
		       s->path_style ? "/" : "", o->key);
	int r = add_query(s, o, stamp, &query);
	r = r < 0 ? r : describe(s, o, path, buf_str(&query), &request);
	if (r < 0)
		return r;
	(void)crypto_hash_sha256(hash, (const uint8_t *)buf_str(&request), request.len);
	text_hex(hash, sizeof(hash), hex);
	r = buf_printf(&text, ALGORITHM "\n%s\n%.8s/%s/s3/aws4_request\n%s", stamp, stamp,
		       s->region, hex);
	if (r < 0)
		return r;
	sign(s, stamp, &text, hex);
	return buf_printf(ret, "%s://%s%s?%s&X-Amz-Signature=%s", s->tls ? "https" : "http",
			  s->host, path, buf_str(&query), hex);
}

int objects_sign(const struct objects_store *s, const struct objects_order *o, struct buf *ret,
		 struct err *e)
{
	const time_t at = (time_t)o->at;
	char stamp[STAMP_LEN + 1];
	struct tm tm;
	int r = check(o, e);

	if (r < 0)
		return r;
	if (!gmtime_r(&at, &tm) ||
	    strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm) != STAMP_LEN)
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "the time of an address");
	r = make(s, o, stamp, ret);
	return r < 0 ? err_set(e, r == -ENOMEM ? ERR_OUT_OF_MEMORY : ERR_INVALID_ARGUMENT, -r,
			       "the address of an object")
		     : 0;
}
