/* SPDX-License-Identifier: Apache-2.0 */
/* What http/gnutls.h says of the library, against the library's own header where that is installed. */
#include "http/gnutls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if __has_include(<gnutls/gnutls.h>)
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

_Static_assert(TLS_SERVER == GNUTLS_SERVER, "");
_Static_assert(TLS_CLIENT == GNUTLS_CLIENT, "");
_Static_assert(TLS_NONBLOCK == GNUTLS_NONBLOCK, "");
_Static_assert(TLS_NO_SIGNAL == GNUTLS_NO_SIGNAL, "");
_Static_assert(TLS_CRD_CERTIFICATE == (int)GNUTLS_CRD_CERTIFICATE, "");
_Static_assert(TLS_PEM == (int)GNUTLS_X509_FMT_PEM, "");
_Static_assert(TLS_DER == (int)GNUTLS_X509_FMT_DER, "");
_Static_assert(TLS_SAN_DNS_NAME == (int)GNUTLS_SAN_DNSNAME, "");
_Static_assert(TLS_E_NO_DATA == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE, "");
_Static_assert(TLS_NAME_DNS == (int)GNUTLS_NAME_DNS, "");
_Static_assert(TLS_VERSION_1_3 == (int)GNUTLS_TLS1_3, "");
_Static_assert(TLS_MESSAGE_CERTIFICATE == (int)GNUTLS_HANDSHAKE_CERTIFICATE_PKT, "");
_Static_assert(TLS_HOOK_AFTER == GNUTLS_HOOK_POST, "");
_Static_assert(TLS_KEY_RSA == (int)GNUTLS_PK_RSA, "");
_Static_assert(TLS_KEY_ECDSA == (int)GNUTLS_PK_ECDSA, "");
_Static_assert(TLS_KEY_RSA_PSS == (int)GNUTLS_PK_RSA_PSS, "");
_Static_assert(TLS_KEY_ED25519 == (int)GNUTLS_PK_EDDSA_ED25519, "");
_Static_assert(TLS_KEY_ED448 == (int)GNUTLS_PK_EDDSA_ED448, "");
_Static_assert(TLS_E_CERTIFICATE == GNUTLS_E_CERTIFICATE_ERROR, "");
_Static_assert(TLS_SHUT_WR == (int)GNUTLS_SHUT_WR, "");
_Static_assert(TLS_E_AGAIN == GNUTLS_E_AGAIN, "");
_Static_assert(TLS_E_INTERRUPTED == GNUTLS_E_INTERRUPTED, "");
_Static_assert(TLS_E_REHANDSHAKE == GNUTLS_E_REHANDSHAKE, "");
_Static_assert(TLS_E_INVALID == GNUTLS_E_INVALID_REQUEST, "");
_Static_assert(TLS_E_UNVERIFIED == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR, "");
_Static_assert(TLS_E_CUT == GNUTLS_E_PREMATURE_TERMINATION, "");
_Static_assert(sizeof(struct tls_datum) == sizeof(gnutls_datum_t), "");
_Static_assert(offsetof(struct tls_datum, size) == offsetof(gnutls_datum_t, size), "");
_Static_assert(TLS_CERT_REQUIRE == (int)GNUTLS_CERT_REQUIRE, "");
_Static_assert(TLS_DT_DNS_NAME == (int)GNUTLS_DT_DNS_HOSTNAME, "");
_Static_assert(TLS_DT_PURPOSE == (int)GNUTLS_DT_KEY_PURPOSE_OID, "");
_Static_assert(TLS_NO_WILDCARDS == (unsigned)GNUTLS_VERIFY_DO_NOT_ALLOW_WILDCARDS, "");
_Static_assert(TLS_CERT_NO_SIGNER == (unsigned)GNUTLS_CERT_SIGNER_NOT_FOUND, "");
_Static_assert(TLS_CERT_NOT_CA == (unsigned)GNUTLS_CERT_SIGNER_NOT_CA, "");
_Static_assert(TLS_CERT_NOT_YET == (unsigned)GNUTLS_CERT_NOT_ACTIVATED, "");
_Static_assert(TLS_CERT_EXPIRED == (unsigned)GNUTLS_CERT_EXPIRED, "");
_Static_assert(TLS_CERT_OTHER_OWNER == (unsigned)GNUTLS_CERT_UNEXPECTED_OWNER, "");
_Static_assert(TLS_CERT_OTHER_PURPOSE == (unsigned)GNUTLS_CERT_PURPOSE_MISMATCH, "");
_Static_assert(sizeof(struct tls_typed) == sizeof(gnutls_typed_vdata_st), "");
_Static_assert(offsetof(struct tls_typed, data) == offsetof(gnutls_typed_vdata_st, data), "");
_Static_assert(offsetof(struct tls_typed, size) == offsetof(gnutls_typed_vdata_st, size), "");
#endif

/* Every function is there, and one of them does what it should. */
static void test_loads(void **state UNUSED)
{
	struct err e = ERR_INIT;

	if (gnutls_load(&e) < 0) {
		print_message("skipped: %s\n", e.text);
		skip();
	}
	assert_int_equal(gnutls_load(&e), 0);
	assert_non_null(tls.strerror(TLS_E_AGAIN));
	assert_int_equal(tls.error_is_fatal(TLS_E_AGAIN), 0);
	assert_int_not_equal(tls.error_is_fatal(TLS_E_CUT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_loads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
