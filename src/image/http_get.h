/* SPDX-License-Identifier: Apache-2.0 */
/* One GET over libcurl with limits on everything. It follows no redirect: who asks decides about
 * the next address. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "image/image.h"

#include <stdint.h>

struct http_get {
	/* Set by the caller; all borrowed. */
	const char *url;
	const char *accept;   /* NULL: anything */
	const char *bearer;   /* token; NULL = none */
	const char *user;     /* for Basic; NULL = none */
	const char *password; /* with USER */
	const char *ca_file;  /* NULL: the system's certificates */
	const char *socket;   /* path of a unix socket instead of the URL's host; NULL = none */
	uint64_t max;         /* bytes of the body */
	int (*sink)(void *user, const void *data, size_t len); /* gets bodies of 200 only */
	void *sink_user;
	const struct image_watch *watch;
	/* The answer. */
	long status;
	char location[2048];  /* absolute, of a redirect; "" = none */
	char challenge[2048]; /* WWW-Authenticate */
	char problem[256];    /* body of an answer that is not 200, its beginning */
};

/* ERR_SOURCE_UNREACHABLE: no answer. ERR_IMAGE_INVALID: one that breaks a limit. Any status is a
 * success. */
int http_get(struct http_get *g, struct err *e) MUST_CHECK;
