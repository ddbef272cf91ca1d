/* SPDX-License-Identifier: Apache-2.0 */
#include "http/tls_facts.h"

#include "http/gnutls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAMES_MAX      64u /* of a certificate, that are looked at */
#define NAME_MAX_BYTES 256u

/* A name that does not fit is another one. */
bool http_tls_has_name(void *certificate, const char *name)
{
	char text[NAME_MAX_BYTES];
	int r = 0;

	for (unsigned i = 0; r != TLS_E_NO_DATA && i < NAMES_MAX; i++) {
		size_t size = sizeof(text);

		r = tls.x509_crt_get_subject_alt_name(certificate, i, text, &size, NULL);
		if (r == TLS_SAN_DNS_NAME && size == strlen(name) &&
		    strncasecmp(text, name, size) == 0)
			return true;
	}
	return false;
}

int http_tls_look(const char *pem, size_t len, const char *name, struct http_tls_facts *ret,
		  struct err *e)
{
	const struct tls_datum text = {(unsigned char *)(uintptr_t)pem, (unsigned)len};
	void *certificate = NULL;
	int r = gnutls_load(e);

	if (r < 0)
		return r;
	if (tls.x509_crt_init(&certificate) < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a certificate");
	r = tls.x509_crt_import(certificate, &text, TLS_PEM);
	if (r < 0) {
		tls.x509_crt_deinit(certificate);
		return err_set(e, ERR_SETTING_INVALID, EINVAL, "it is no certificate: %s",
			       tls.strerror(r));
	}
	ret->from_s = tls.x509_crt_get_activation_time(certificate);
	ret->until_s = tls.x509_crt_get_expiration_time(certificate);
	ret->has_name = http_tls_has_name(certificate, name);
	tls.x509_crt_deinit(certificate);
	return 0;
}

int http_tls_look_end(const char *pem, size_t len, int64_t *ret_s, struct err *e)
{
	const struct tls_datum text = {(unsigned char *)(uintptr_t)pem, (unsigned)len};
	void **all = NULL;
	unsigned n = 0;
	int r = gnutls_load(e);

	if (r < 0)
		return r;
	r = tls.x509_crt_list_import2(&all, &n, &text, TLS_PEM, 0);
	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, EINVAL, "there is no certificate: %s",
			       tls.strerror(r));
	*ret_s = n > 0 ? INT64_MAX : 0;
	for (unsigned i = 0; i < n; i++) {
		*ret_s = MIN(*ret_s, (int64_t)tls.x509_crt_get_expiration_time(all[i]));
		tls.x509_crt_deinit(all[i]);
	}
	free(all); /* gnutls_free() is free() */
	return 0;
}
