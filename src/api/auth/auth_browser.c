/* SPDX-License-Identifier: Apache-2.0 */
/* Browsers that have signed in: the cookie, and when it counts (auth.h). */
#include "api/auth/auth_parts.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <ctype.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define COOKIE_MAX    512
#define COOKIE_SIGNIN ""
#define COOKIE_DEVICE "-device"
#define DEVICE_DAYS   180
#define DEVICE_ID     12 /* bytes; AUTH_DEVICE_SIZE has room for their digits */
#define DAY_MS        UINT64_C(86400000)

static bool is_https(const struct auth *a, const struct http_request *req)
{
	return a->config.secure || http_request_came_by_https(req);
}

/* Cookies do not tell ports apart, so the name does. With https the prefix keeps other hosts of the domain from setting
 * it. RET has COOKIE_NAME_SIZE bytes. */
#define COOKIE_NAME_SIZE 32
static void cookie_name(const struct auth *a, const struct http_request *req, const char *what,
			char *ret)
{
	const char *host = http_request_header(req, "host");
	const char *port = host ? strrchr(host, ':') : NULL;
	int64_t n = 0;

	if (is_https(a, req))
		(void)snprintf(ret, COOKIE_NAME_SIZE, "__Host-caisson%s", what);
	else if (port && parse_i64(port + 1, 1, UINT16_MAX, &n) == 0)
		(void)snprintf(ret, COOKIE_NAME_SIZE, "caisson%s-%jd", what, (intmax_t)n);
	else
		(void)snprintf(ret, COOKIE_NAME_SIZE, "caisson%s", what);
}

/* The value of our cookie WHAT in a header "a=b; c=d". */
static bool read_cookie(const struct auth *a, const struct http_request *req, const char *what,
			char ret[STORE_KEY_SIZE])
{
	const char *p = http_request_header(req, "cookie");
	char name[COOKIE_NAME_SIZE];

	cookie_name(a, req, what, name);
	const size_t name_len = strlen(name);
	while (p && *p) {
		p += strspn(p, "; ");
		const size_t len = strcspn(p, ";");

		if (len > name_len && strncmp(p, name, name_len) == 0 && p[name_len] == '=') {
			const size_t n = len - name_len - 1;

			if (n == 0 || n >= STORE_KEY_SIZE)
				return false;
			memcpy(ret, p + name_len + 1, n);
			ret[n] = '\0';
			return true;
		}
		p += len;
	}
	return false;
}

/* May a request with the cookie do what it is about? Another site can make a browser send it. */
static bool is_from_page(const struct http_request *req)
{
	const char *site = http_request_header(req, "sec-fetch-site");
	const bool reads = http_request_method(req) & (HTTP_GET | HTTP_HEAD);

	if (reads)
		return !site || strcasecmp(site, "same-origin") == 0 ||
		       strcasecmp(site, "none") == 0;
	return http_request_is_same_origin(req) && http_request_header(req, "x-caisson-page");
}

static struct caller *caller_of_signin(struct auth *a, const struct store_signin *i)
{
	struct caller *w = NULL;
	struct store_user u;
	struct store_key k;

	if (!i->user[0]) { /* the key of the server, if it still has that key */
		if (a->static_digest[0] && streq(i->key, a->static_digest))
			w = caller_new(a, CALLER_STATIC_KEY);
		if (w) /* a worker's routers tell by it whose this sign-in is */
			memcpy(w->version, a->static_digest, sizeof(w->version) - 1);
	} else if (i->key[0]) {
		if (store_key_get(a->config.store, i->key, &k, &u, &a->failed) == 1)
			w = caller_new(a, CALLER_KEY);
		if (w) {
			caller_take_user(w, &u);
			caller_take_key(w, &k);
			w->until_ms = k.expires_ms;
		}
	} else if (store_user_get(a->config.store, i->user, &u, &a->failed) == 1 && u.active) {
		w = caller_new(a, CALLER_SIGNIN);
		if (w)
			caller_take_user(w, &u);
	}
	if (!w)
		return NULL;
	memcpy(w->signin, i->id, sizeof(w->signin));
	if (w->until_ms == 0 || i->expires_ms < w->until_ms)
		w->until_ms = i->expires_ms;
	auth_watch(a, w);
	return w;
}

struct caller *auth_by_cookie(struct auth *a, const struct http_request *req)
{
	struct store_signin i;
	char text[STORE_KEY_SIZE];

	if (!(http_request_route_flags(req) & HTTP_ROUTE_COOKIE) || !a->config.store ||
	    !read_cookie(a, req, COOKIE_SIGNIN, text))
		return NULL;
	int r = store_signin_find(a->config.store, text, &i, &a->failed);
	sodium_memzero(text, sizeof(text));
	if (r <= 0)
		return NULL;
	if (!is_from_page(req)) {
		(void)err_set(&a->failed, ERR_FORBIDDEN, 0,
			      "this request does not come from the page of this server");
		return NULL;
	}
	return caller_of_signin(a, &i);
}

static void set_cookie(const struct auth *a, struct http_request *req, const char *what,
		       const char *value, uint64_t life_s)
{
	char name[COOKIE_NAME_SIZE], text[COOKIE_MAX];

	cookie_name(a, req, what, name);
	(void)snprintf(text, sizeof(text),
		       "%s=%s; Path=/; Max-Age=%ju; HttpOnly; SameSite=Strict%s", name, value,
		       (uintmax_t)life_s, is_https(a, req) ? "; Secure" : "");
	(void)http_add_header(req, "Set-Cookie", text);
	sodium_memzero(text, sizeof(text));
}

/* Fills in for whom a sign-in with KEY is. */
static int read_key(struct auth *a, const char *key, struct store_signin *i, struct err *e)
{
	struct store_user u;
	struct store_key k;

	if (http_keys_find(a->config.static_keys, key)) {
		memcpy(i->key, a->static_digest, sizeof(i->key));
		return 0;
	}
	int r = store_key_check(a->config.store, key, &k, &u, e);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(e, ERR_UNAUTHORIZED, 0, "The API key is not valid");
	memcpy(i->user, u.id, sizeof(i->user));
	(void)snprintf(i->key, sizeof(i->key), "%s", k.id);
	return 0;
}

int auth_sign_in(struct auth *a, struct http_request *req, const char *id, const char *key,
		 uint64_t life_ns, struct err *e)
{
	struct store_signin i = {.expires_ms = store_now_ms() + life_ns / NS_PER_MS};
	char text[STORE_KEY_SIZE];

	if (!a->config.store)
		return err_set(e, ERR_STORE_FAILED, 0, "this server has no database");
	if (id)
		(void)snprintf(i.user, sizeof(i.user), "%s", id);
	int r = key ? read_key(a, key, &i, e) : 0;
	r = r < 0 ? r : store_signin_add(a->config.store, &i, text, e);
	if (r < 0)
		return r;
	set_cookie(a, req, COOKIE_SIGNIN, text, life_ns / NS_PER_S);
	sodium_memzero(text, sizeof(text));
	http_request_set_caller(req, NULL, NULL);
	struct caller *w = caller_of_signin(a, &i);
	if (!w)
		return err_set(e, ERR_UNAUTHORIZED, 0, "This account cannot sign in");
	http_request_set_principal(req, w->owner);
	http_request_set_caller(req, w, caller_unref);
	return 0;
}

int auth_sign_out(struct auth *a, struct http_request *req, const struct caller *who, bool all,
		  struct err *e)
{
	struct store_signin i = {0};
	int r = 0;

	memcpy(i.id, who->signin, sizeof(i.id));
	(void)snprintf(i.user, sizeof(i.user), "%.36s", who->owner);
	if (who->signin[0] || all)
		r = store_signin_remove(a->config.store, &i, all, e);
	set_cookie(a, req, COOKIE_SIGNIN, "", 0);
	return r;
}

/* ---- devices ---- */

struct device {
	uint8_t id[DEVICE_ID];
	uint8_t until_day[4]; /* days since 1970, big end first */
	uint8_t mac[16];
};

static void device_mac(const struct auth *a, const struct device *d, const char *name,
		       uint8_t ret[sizeof(d->mac)])
{
	static const char what[] = "device";
	crypto_generichash_state state;

	(void)crypto_generichash_init(&state, a->token_key, sizeof(a->token_key), sizeof(d->mac));
	(void)crypto_generichash_update(&state, (const uint8_t *)what, sizeof(what));
	(void)crypto_generichash_update(&state, d->id, sizeof(d->id));
	(void)crypto_generichash_update(&state, d->until_day, sizeof(d->until_day));
	for (const char *p = name; *p; p++) {
		const uint8_t c = (uint8_t)tolower((unsigned char)*p);

		(void)crypto_generichash_update(&state, &c, 1);
	}
	(void)crypto_generichash_final(&state, ret, sizeof(d->mac));
}

void auth_set_device(const struct auth *a, struct http_request *req, const char *name)
{
	const uint32_t day = (uint32_t)(store_now_ms() / DAY_MS) + DEVICE_DAYS;
	char text[STORE_KEY_SIZE];
	struct device d;

	_Static_assert(sizeof(text) > sodium_base64_ENCODED_LEN(
					  sizeof(d), sodium_base64_VARIANT_URLSAFE_NO_PADDING),
		       "a token is no longer than a key");
	rand_bytes(d.id, sizeof(d.id));
	for (size_t i = 0; i < sizeof(d.until_day); i++)
		d.until_day[i] = (uint8_t)(day >> (24 - 8 * i));
	device_mac(a, &d, name, d.mac);
	(void)sodium_bin2base64(text, sizeof(text), (const uint8_t *)&d, sizeof(d),
				sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	set_cookie(a, req, COOKIE_DEVICE, text, DEVICE_DAYS * DAY_MS / 1000);
}

void auth_device(const struct auth *a, const struct http_request *req, const char *name,
		 char ret[AUTH_DEVICE_SIZE])
{
	char text[STORE_KEY_SIZE];
	uint8_t mac[sizeof(((struct device *)0)->mac)];
	struct device d;
	uint32_t until = 0;
	size_t n = 0;

	ret[0] = '\0';
	if (!read_cookie(a, req, COOKIE_DEVICE, text) ||
	    sodium_base642bin((uint8_t *)&d, sizeof(d), text, strlen(text), NULL, &n, NULL,
			      sodium_base64_VARIANT_URLSAFE_NO_PADDING) < 0 ||
	    n != sizeof(d))
		return;
	device_mac(a, &d, name, mac);
	for (size_t i = 0; i < sizeof(d.until_day); i++)
		until = until << 8 | d.until_day[i];
	if (sodium_memcmp(mac, d.mac, sizeof(mac)) == 0 && store_now_ms() / DAY_MS < until)
		text_hex(d.id, sizeof(d.id), ret);
}
