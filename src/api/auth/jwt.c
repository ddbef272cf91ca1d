/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth/jwt.h"

#include "base/buf.h"
#include "base/jsonio.h"

#include <sodium.h>
#include <string.h>

#define VARIANT   sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define MAC_BYTES crypto_auth_hmacsha256_BYTES
#define MAC_CHARS 43 /* base64 characters without padding */
#define PARSE     (JSON_REJECT_DUPLICATES)

_Static_assert(crypto_auth_hmacsha256_KEYBYTES == JWT_KEY_BYTES, "the size of the key");

/* {"alg":"HS256","typ":"JWT"}: the only header that is written or accepted. */
static const char header[] = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

static void mac_of(const uint8_t *key, const char *text, size_t len, char ret[MAC_CHARS + 1])
{
	uint8_t mac[MAC_BYTES];

	(void)crypto_auth_hmacsha256(mac, (const uint8_t *)text, len, key);
	(void)sodium_bin2base64(ret, MAC_CHARS + 1, mac, sizeof(mac), VARIANT);
}

int jwt_sign(const uint8_t key[JWT_KEY_BYTES], const json_t *claims, char *ret, size_t size)
{
	char encoded[JWT_MAX], mac[MAC_CHARS + 1];
	size_t len;
	_cleanup_free_ char *text = jsonio_text(claims, JSON_COMPACT, &len);

	if (!text)
		return -ENOMEM;
	if (sodium_base64_encoded_len(len, VARIANT) > sizeof(encoded))
		return -ENOBUFS;
	(void)sodium_bin2base64(encoded, sizeof(encoded), (const uint8_t *)text, len, VARIANT);
	int n = snprintf(ret, size, "%s.%s", header, encoded);
	if (n < 0 || (size_t)n + 1 + MAC_CHARS >= size)
		return -ENOBUFS;
	mac_of(key, ret, (size_t)n, mac);
	(void)snprintf(ret + n, size - (size_t)n, ".%s", mac);
	return 0;
}

json_t *jwt_open(const uint8_t key[JWT_KEY_BYTES], const char *token)
{
	const char *claims = token + strlen(header) + 1;
	char mac[MAC_CHARS + 1], text[JWT_MAX];
	size_t len = strnlen(token, JWT_MAX), n = 0;

	if (len >= JWT_MAX || len <= strlen(header) + 1 + 1 + MAC_CHARS ||
	    strncmp(token, header, strlen(header)) != 0 || claims[-1] != '.')
		return NULL;
	const char *dot = token + len - MAC_CHARS - 1;
	if (*dot != '.')
		return NULL;
	mac_of(key, token, (size_t)(dot - token), mac);
	if (sodium_memcmp(mac, dot + 1, MAC_CHARS) != 0)
		return NULL;
	if (sodium_base642bin((uint8_t *)text, sizeof(text), claims, (size_t)(dot - claims), NULL,
			      &n, NULL, VARIANT) < 0)
		return NULL;
	json_t *root;
	if (jsonio_read(text, n, PARSE, &root, NULL) == 0 && json_is_object(root))
		return root;
	json_decref(root);
	return NULL;
}
