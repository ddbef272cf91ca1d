/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls_key.h"

#include "http/gnutls.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define MODULUS_MAX 8192u /* bits: a signature is verified within a millisecond */
/* Bytes of the message, of a chain of four with RSA keys of 4096 bits. The library takes a time that grows with the square of the number
 * of elements in a certificate: 60 KB of empty ones are 0.15 s, which nothing else here gets. */
#define CHAIN_MAX    8192u
#define EXPONENT_MAX 5u /* bytes: 65537 and what else is in use; the first may be a zero */

static bool is_small_rsa(void *certificate)
{
	struct tls_datum modulus = {0}, exponent = {0};
	const bool small = tls.x509_crt_get_pk_rsa_raw(certificate, &modulus, &exponent) == 0 &&
			   modulus.size <= MODULUS_MAX / 8 + 1 && exponent.size <= EXPONENT_MAX;

	free(modulus.data); /* gnutls_free() is free() */
	free(exponent.data);
	return small;
}

/* The other kinds of keys have one size each. */
static bool is_cheap(const struct tls_datum *der)
{
	void *certificate = NULL;
	bool cheap = false;

	if (tls.x509_crt_init(&certificate) < 0)
		return false;
	if (tls.x509_crt_import(certificate, der, TLS_DER) == 0) {
		const int kind = tls.x509_crt_get_pk_algorithm(certificate, NULL);

		cheap = kind == TLS_KEY_ECDSA || kind == TLS_KEY_ED25519 || kind == TLS_KEY_ED448;
		if (kind == TLS_KEY_RSA || kind == TLS_KEY_RSA_PSS)
			cheap = is_small_rsa(certificate);
	}
	tls.x509_crt_deinit(certificate);
	return cheap;
}

static size_t read_u24(const unsigned char *at)
{
	return (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
}

/* The first certificate of the message (RFC 8446 section 4.4.2, RFC 5246 section 7.4.2) is the peer's. -1: it is damaged; 0: there is
 * none. */
static int find_first(const struct tls_datum *body, bool has_context, struct tls_datum *ret)
{
	const size_t skip = has_context ? body->size > 0 ? 1u + body->data[0] : SIZE_MAX : 0;

	if (skip > body->size || body->size - skip < 3)
		return -1;
	const unsigned char *at = body->data + skip;
	const size_t left = body->size - skip - 3;

	if (read_u24(at) > left)
		return -1;
	if (read_u24(at) == 0)
		return 0;
	if (left < 3 || read_u24(at + 3) > left - 3)
		return -1;
	*ret = (struct tls_datum){body->data + skip + 6, (unsigned)read_u24(at + 3)};
	return 1;
}

static int on_certificate(void *session, unsigned message UNUSED, unsigned when UNUSED,
			  unsigned incoming, const struct tls_datum *body)
{
	struct tls_datum der = {0};

	if (!incoming)
		return 0;
	if (body->size > CHAIN_MAX)
		return TLS_E_CERTIFICATE;
	const int r = find_first(body, tls.protocol_get_version(session) == TLS_VERSION_1_3, &der);

	return r == 0 || (r > 0 && is_cheap(&der)) ? 0 : TLS_E_CERTIFICATE;
}

void tls_key_bound(void *session)
{
	tls.handshake_set_hook_function(session, TLS_MESSAGE_CERTIFICATE, TLS_HOOK_AFTER,
					on_certificate);
}
