/* SPDX-License-Identifier: Apache-2.0 */
/* What a certificate says. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_tls_facts {
	int64_t from_s, until_s; /* when it holds, in seconds since 1970 */
	bool has_name;
};

/* Of the first certificate of a text in PEM: does it have NAME as a DNS name? SETTING_INVALID: it is none. */
int http_tls_look(const char *pem, size_t len, const char *name, struct http_tls_facts *ret,
		  struct err *e) MUST_CHECK;
/* When the first of the certificates in a text in PEM ends, in seconds since 1970. SETTING_INVALID: there is none. */
int http_tls_look_end(const char *pem, size_t len, int64_t *ret_s, struct err *e) MUST_CHECK;
/* Is NAME one of the DNS names of CERTIFICATE (of the library), written out? Once the library is loaded. */
bool http_tls_has_name(void *certificate, const char *name);
