/* SPDX-License-Identifier: Apache-2.0 */
/* One request to an object store, with an address that somebody has signed. It blocks until its deadline at the latest, so it
 * is called on a helper thread or in a process of its own. Call libcurl_load() first.
 *
 * What may be mended by waiting is tried again: no connection, an answer that broke off, 429 and 5xx. The pauses double and
 * are random, so that many workers do not come back at the same moment. All four methods give the same result when they are
 * repeated. Redirects are not followed: the signature is for one host. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>

#define OBJECTS_TRIES_MAX 5u

struct objects_client;

/* A kept connection for requests one after the other. CA: a file of certificate authorities for the store, in PEM; NULL or "": those of
 * the machine. */
int objects_client_new(struct objects_client **ret, const char *ca, struct err *e) MUST_CHECK;
struct objects_client *objects_client_free(struct objects_client *c); /* NULL */

struct objects_request {
	const char *method;  /* GET, HEAD, PUT, DELETE */
	const char *address; /* is in no error */
	const char *what;    /* the object, for errors */
	const void *body;    /* of PUT, borrowed */
	size_t len;
	struct buf *ret;      /* of GET: empty at first; an answer beyond its maximum is an error */
	unsigned deadline_ms; /* for all tries together; not 0 */
	const atomic_bool *stop; /* NULL, or: give up when it becomes true */
};

/* 0, or
 * -ENOENT     NOT_FOUND             the store has no such object
 * -EACCES     OBJECTS_REFUSED       it refuses: credentials, an address that has ended, another size
 * -EFBIG      OBJECTS_REFUSED       the object is larger than RET may become
 * -ECANCELED  CANCELLED             STOP
 * others      OBJECTS_UNREACHABLE   no answer, or none that helps, until the deadline
 * To delete what is not there is no error. HEAD has no text, so it says NOT_FOUND also if the bucket is missing. */
int objects_send(struct objects_client *c, const struct objects_request *r,
		 struct err *e) MUST_CHECK;
