/* SPDX-License-Identifier: Apache-2.0 */
/* GnuTLS, loaded by servers that have a certificate: others need it neither to be built nor to run.
 *
 * These are the functions of gnutls/gnutls.h that are used here, without "gnutls_". The interface of libgnutls.so.30 has only
 * grown since 2015, and the package that has the library on every Debian and Ubuntu has no headers. Once gnutls_load() has
 * returned 0 they are members of `tls`. */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

#define TLS_SERVER    (1u << 0) /* GNUTLS_SERVER */
#define TLS_CLIENT    (1u << 1) /* GNUTLS_CLIENT */
#define TLS_NONBLOCK  (1u << 3) /* GNUTLS_NONBLOCK */
#define TLS_NO_SIGNAL (1u << 6) /* GNUTLS_NO_SIGNAL */

#define TLS_CRD_CERTIFICATE 1 /* GNUTLS_CRD_CERTIFICATE */
#define TLS_CERT_REQUIRE    2 /* GNUTLS_CERT_REQUIRE */
#define TLS_DT_DNS_NAME     1 /* GNUTLS_DT_DNS_HOSTNAME */
#define TLS_DT_PURPOSE      2 /* GNUTLS_DT_KEY_PURPOSE_OID */
#define TLS_PEM             1 /* GNUTLS_X509_FMT_PEM */
#define TLS_DER             0 /* GNUTLS_X509_FMT_DER */
#define TLS_SAN_DNS_NAME    1 /* GNUTLS_SAN_DNSNAME */
#define TLS_SHUT_WR         1 /* GNUTLS_SHUT_WR */
#define TLS_NAME_DNS        1 /* GNUTLS_NAME_DNS */
#define TLS_VERSION_1_3     5 /* GNUTLS_TLS1_3 */

#define TLS_MESSAGE_CERTIFICATE 11 /* GNUTLS_HANDSHAKE_CERTIFICATE_PKT */
#define TLS_HOOK_AFTER          1  /* GNUTLS_HOOK_POST */

#define TLS_KEY_RSA     1  /* GNUTLS_PK_RSA */
#define TLS_KEY_ECDSA   4  /* GNUTLS_PK_ECDSA */
#define TLS_KEY_RSA_PSS 6  /* GNUTLS_PK_RSA_PSS */
#define TLS_KEY_ED25519 7  /* GNUTLS_PK_EDDSA_ED25519 */
#define TLS_KEY_ED448   12 /* GNUTLS_PK_EDDSA_ED448 */

#define TLS_NO_WILDCARDS   (1u << 12)          /* GNUTLS_VERIFY_DO_NOT_ALLOW_WILDCARDS */
#define TLS_PURPOSE_SERVER "1.3.6.1.5.5.7.3.1" /* RFC 5280 §4.2.1.12; GNUTLS_KP_TLS_WWW_SERVER */
#define TLS_PURPOSE_CLIENT "1.3.6.1.5.5.7.3.2" /* RFC 5280 §4.2.1.12; GNUTLS_KP_TLS_WWW_CLIENT */

/* Why a certificate of a peer is refused (gnutls_certificate_status_t). */
#define TLS_CERT_NO_SIGNER     (1u << 6)
#define TLS_CERT_NOT_CA        (1u << 7)
#define TLS_CERT_NOT_YET       (1u << 9)
#define TLS_CERT_EXPIRED       (1u << 10)
#define TLS_CERT_OTHER_OWNER   (1u << 14)
#define TLS_CERT_OTHER_PURPOSE (1u << 18)

#define TLS_E_AGAIN       (-28)  /* GNUTLS_E_AGAIN */
#define TLS_E_INTERRUPTED (-52)  /* GNUTLS_E_INTERRUPTED */
#define TLS_E_INVALID     (-50)  /* GNUTLS_E_INVALID_REQUEST */
#define TLS_E_REHANDSHAKE (-37)  /* GNUTLS_E_REHANDSHAKE */
#define TLS_E_UNVERIFIED  (-348) /* GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR */
#define TLS_E_CERTIFICATE (-43)  /* GNUTLS_E_CERTIFICATE_ERROR */
#define TLS_E_NO_DATA     (-56)  /* GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE */
#define TLS_E_CUT         (-110) /* GNUTLS_E_PREMATURE_TERMINATION: the end without an alert */

struct tls_datum { /* gnutls_datum_t */
	unsigned char *data;
	unsigned size;
};

struct tls_typed { /* gnutls_typed_vdata_st */
	int type;
	unsigned char *data;
	unsigned size; /* 0: a text */
};

#define GNUTLS_FUNCTIONS(F)                                                                        \
	F(int, alert_send_appropriate, (void *session, int error))                                 \
	F(int, alpn_set_protocols,                                                                 \
	  (void *session, const struct tls_datum *names, unsigned n, unsigned flags))              \
	F(int, bye, (void *session, int how))                                                      \
	F(int, certificate_allocate_credentials, (void **ret))                                     \
	F(void, certificate_free_credentials, (void *certificate))                                 \
	F(const struct tls_datum *, certificate_get_peers, (void *session, unsigned *ret_n))       \
	F(int, certificate_set_x509_key_mem,                                                       \
	  (void *certificate, const struct tls_datum *chain, const struct tls_datum *key,          \
	   int format))                                                                            \
	F(void, certificate_server_set_request, (void *session, int request))                      \
	F(int, certificate_set_x509_trust_mem,                                                     \
	  (void *certificate, const struct tls_datum *authorities, int format))                    \
	F(int, credentials_set, (void *session, int type, void *certificate))                      \
	F(void, deinit, (void *session))                                                           \
	F(int, error_is_fatal, (int error))                                                        \
	F(int, handshake, (void *session))                                                         \
	F(void, handshake_set_hook_function,                                                       \
	  (void *session, unsigned message, int when,                                              \
	   int (*hook)(void *session, unsigned message, unsigned when, unsigned incoming,          \
		       const struct tls_datum *body)))                                             \
	F(int, init, (void **ret, unsigned flags))                                                 \
	F(void, priority_deinit, (void *priority))                                                 \
	F(int, priority_init, (void **ret, const char *text, const char **ret_error))              \
	F(int, priority_set, (void *session, void *priority))                                      \
	F(int, protocol_get_version, (void *session))                                              \
	F(size_t, record_check_pending, (void *session))                                           \
	F(int, record_get_direction, (void *session))                                              \
	F(ssize_t, record_recv, (void *session, void *to, size_t max))                             \
	F(ssize_t, record_send, (void *session, const void *data, size_t len))                     \
	F(int, server_name_set, (void *session, int type, const void *name, size_t len))           \
	F(unsigned, session_get_verify_cert_status, (void *session))                               \
	F(void, session_set_verify_cert2,                                                          \
	  (void *session, struct tls_typed *data, unsigned n, unsigned flags))                     \
	F(const char *, strerror, (int error))                                                     \
	F(void, transport_set_ptr2, (void *session, void *from, void *to))                         \
	F(void, transport_set_pull_function,                                                       \
	  (void *session, ssize_t (*pull)(void *from, void *to, size_t max)))                      \
	F(void, x509_crt_deinit, (void *certificate))                                              \
	F(time_t, x509_crt_get_activation_time, (void *certificate))                               \
	F(time_t, x509_crt_get_expiration_time, (void *certificate))                               \
	F(int, x509_crt_get_pk_algorithm, (void *certificate, unsigned *ret_bits))                 \
	F(int, x509_crt_get_pk_rsa_raw,                                                            \
	  (void *certificate, struct tls_datum *ret_modulus, struct tls_datum *ret_exponent))      \
	F(int, x509_crt_get_subject_alt_name,                                                      \
	  (void *certificate, unsigned i, void *ret, size_t *ret_size, unsigned *ret_critical))    \
	F(int, x509_crt_import, (void *certificate, const struct tls_datum *text, int format))     \
	F(int, x509_crt_init, (void **ret))                                                        \
	F(int, x509_crt_list_import2,                                                              \
	  (void ***ret, unsigned *ret_n, const struct tls_datum *text, int format,                 \
	   unsigned flags))

#define GNUTLS_MEMBER(type, name, parameters) type(*name) parameters;
struct gnutls {
	GNUTLS_FUNCTIONS(GNUTLS_MEMBER)
};
#undef GNUTLS_MEMBER

extern struct gnutls tls;

/* Further calls do nothing. Before the process gives up the right to open files. NOT_SUPPORTED: it is not installed. */
int gnutls_load(struct err *e) MUST_CHECK;
