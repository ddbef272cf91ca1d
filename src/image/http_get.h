/* SPDX-License-Identifier: Apache-2.0 */
/* GETs over libcurl with limits on everything. They follow no redirect: who asks decides about
 * the next address. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "image/image.h"

#include <stdint.h>

/* For addresses that a stranger has chosen: nothing inside this network is asked, judged by the address that is connected to. Where the
 * environment names a proxy, that one connects; then the name is judged, and what it stands for here. */
struct http_wall {
	char origin
	    [300]; /* http_origin() of what may be inside all the same, and is asked without a proxy; "" = none */
	char proxy[512]; /* "" = none */
};
/* ORIGIN: a URL, or NULL. */
int http_wall_init(struct http_wall *w, const char *origin, struct err *e) MUST_CHECK;

struct http_get {
	/* Set by the caller; all borrowed. */
	const char *url;
	const char *accept;           /* NULL: anything */
	const char *bearer;           /* token; NULL = none */
	const char *user;             /* for Basic; NULL = none */
	const char *password;         /* with USER */
	const char *ca_file;          /* NULL: the system's certificates */
	const struct http_wall *wall; /* NULL: any address may be asked */
	const char *socket; /* path of a unix socket instead of the URL's host; NULL = none */
	bool direct;        /* without the proxy that the environment names */
	uint64_t max;       /* bytes of the body, those before OFFSET with it */
	uint64_t offset;    /* the caller has this much of the body; asks for the rest */
	int (*sink)(void *user, const void *data, size_t len); /* gets bodies of 200 and 206 only */
	int (*restart)(void *user); /* the whole body comes despite OFFSET; NULL if OFFSET is 0 */
	void *sink_user;
	const struct image_watch *watch;
	/* The answer. */
	long status;
	char location[2048];            /* absolute, of a redirect; "" = none */
	char challenge[2048];           /* WWW-Authenticate */
	char retry_after[32];           /* Retry-After */
	char problem[256];              /* body of an answer that is not 200, its beginning */
	struct http_transfer *transfer; /* while it is under way */
};

/* ERR_SOURCE_UNREACHABLE: no answer, or half of one. ERR_IMAGE_INVALID: one that breaks a limit. ERR_FORBIDDEN: the wall. Any
 * status is a success. */
int http_get(struct http_get *g, struct err *e) MUST_CHECK;

/* The scheme, host and port of a URL as one text, for comparing; "" = no URL for us. */
void http_origin(const char *url, char *ret, size_t size);
/* Whether URL is asked without a proxy: proxies are for other machines. */
bool http_is_direct(const char *url);

/* Several at once. */
struct http_set {
	void *multi; /* owned: CURLM */
};
int http_set_init(struct http_set *s, struct err *e) MUST_CHECK;
void http_set_done(struct http_set *s); /* all GETs have ended */
int http_set_add(struct http_set *s, struct http_get *g, struct err *e) MUST_CHECK;
/* Waits for the first that ends, RET; the rest as http_get(). At least one must be under way. RET NULL:
 * waiting itself failed. */
int http_set_wait(struct http_set *s, struct http_get **ret, struct err *e) MUST_CHECK;
/* Gives up one that may be under way. */
void http_set_drop(struct http_set *s, struct http_get *g);
