/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls_client.h"

#include "http/gnutls.h"
#include "http/tls_io.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct http_tls_client {
	void *credentials;
	void *priority;
	const char *name;
	unsigned refs; /* of the owner and of each connection */
};

static int fill(struct http_tls_client *t, const struct http_tls_client_config *c, struct err *e)
{
	/* The library only reads them. */
	const struct tls_datum chain = {(unsigned char *)(uintptr_t)c->chain,
					(unsigned)c->chain_len};
	const struct tls_datum key = {(unsigned char *)(uintptr_t)c->key, (unsigned)c->key_len};
	const struct tls_datum ca = {(unsigned char *)(uintptr_t)c->ca, (unsigned)c->ca_len};
	int r = tls.certificate_set_x509_key_mem(t->credentials, &chain, &key, TLS_PEM);

	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, EINVAL,
			       "the certificate or its key cannot be used: %s", tls.strerror(r));
	r = tls.certificate_set_x509_trust_mem(t->credentials, &ca, TLS_PEM);
	if (r <= 0) /* the number of certificates in it */
		return err_set(e, ERR_SETTING_INVALID, EINVAL,
			       "the certificate of the authority cannot be used: %s",
			       r < 0 ? tls.strerror(r) : "there is none in the file");
	return 0;
}

/* Without the exchanges of keys in which the peer chooses how large the numbers are. */
#define PRIORITY "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-DHE-RSA:-GROUP-DH-ALL"

static int create(struct http_tls_client **ret, struct err *e)
{
	int r = gnutls_load(e);

	if (r < 0)
		return r;
	struct http_tls_client *t = calloc(1, sizeof(*t));
	if (!t || tls.certificate_allocate_credentials(&t->credentials) < 0) {
		free(t);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "TLS");
	}
	if (tls.priority_init(&t->priority, PRIORITY, NULL) < 0) {
		tls.certificate_free_credentials(t->credentials);
		free(t);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "TLS");
	}
	t->refs = 1;
	*ret = t;
	return 0;
}

int http_tls_client_new(const struct http_tls_client_config *config, struct http_tls_client **ret,
			struct err *e)
{
	struct http_tls_client *t = NULL;
	int r = create(&t, e);

	if (r < 0 || !t)
		return r;
	t->name = config->name;
	r = fill(t, config, e);
	*ret = r < 0 ? http_tls_client_free(t) : t;
	return r;
}

int http_tls_client_new_unverified(struct http_tls_client **ret, struct err *e)
{
	return create(ret, e);
}

struct http_tls_client *http_tls_client_free(struct http_tls_client *t)
{
	if (!t || --t->refs > 0)
		return NULL;
	tls.certificate_free_credentials(t->credentials);
	tls.priority_deinit(t->priority);
	free(t);
	return NULL;
}

/* RFC 6066 section 3: addresses are no names. What the library refuses is not sent. */
static void name_server(void *session, const char *host)
{
	const size_t len = strcspn(host, ":");
	const bool address = host[0] == '[' || strspn(host, "0123456789.") >= len;

	if (!address && len <= NAME_MAX)
		(void)tls.server_name_set(session, TLS_NAME_DNS, host, len);
}

int http_tls_client_begin(struct http_io *io, struct http_tls_client *t, const char *host)
{
	static unsigned char http[] = "http/1.1";
	static const struct tls_datum alpn = {http, sizeof(http) - 1};
	void *session = NULL;

	if (tls.init(&session, TLS_CLIENT | TLS_NONBLOCK | TLS_NO_SIGNAL) < 0)
		return -ENOMEM;
	if (host)
		name_server(session, host);
	if (tls.priority_set(session, t->priority) < 0 ||
	    tls.alpn_set_protocols(session, &alpn, 1, 0) < 0 ||
	    tls.credentials_set(session, TLS_CRD_CERTIFICATE, t->credentials) < 0 ||
	    http_tls_adopt(io, session, t->name, t) < 0) {
		tls.deinit(session);
		return -ENOMEM;
	}
	t->refs++;
	return 0;
}

int http_tls_client_shake(struct http_io *io)
{
	return http_tls_handshake(io);
}
