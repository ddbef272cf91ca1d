/* SPDX-License-Identifier: Apache-2.0 */
/* One request to an object store, with an address that somebody has signed. It blocks until its deadline at the latest, so it
 * is called on a helper thread or in a process of its own. libcurl before 7.87 also waits for an answer of the name server,
 * beyond the deadline and STOP. Call libcurl_load() first.
 *
 * What may be mended by waiting is tried again: no connection, an answer that broke off, 429, 5xx, and an upload that was too
 * slow for the store. The pauses double and are random, so that many workers do not come back at the same moment. A request
 * whose answer was lost may take effect twice, and the second time late: use no name again after its DELETE. Redirects are not
 * followed: the signature is for one host. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdatomic.h>
#include <stddef.h>

#define OBJECTS_TRIES_MAX 5u

struct objects_client;

/* A kept connection for requests one after the other. CA: a file of certificate authorities for the store, in PEM, which alone
 * count then; NULL or "": those of the machine. */
int objects_client_new(struct objects_client **ret, const char *ca, struct err *e) MUST_CHECK;
struct objects_client *objects_client_free(struct objects_client *c); /* NULL */

struct objects_request {
	const char *method;  /* GET, HEAD, PUT, DELETE */
	const char *address; /* is in no error */
	const char *what;    /* the object, for errors */
	const void *body;    /* of PUT, borrowed */
	size_t len;
	const char *header;   /* NULL, or one more, "NAME: VALUE", which nobody signed */
	struct buf *ret;      /* of GET: empty at first; an answer beyond its maximum is an error */
	unsigned deadline_ms; /* for all tries together; not 0 */
	const atomic_bool *stop; /* NULL, or: give up when it becomes true */
};

/* 0, or
 * -ENOENT     NOT_FOUND             the store has no such object
 * -ETIME      OBJECTS_REFUSED       by its clock the address has ended: a new one may help
 * -EACCES     OBJECTS_REFUSED       it refuses: credentials, bucket, another size; or it is no object store
 * -EFBIG      OBJECTS_REFUSED       the object is larger than RET may become
 * -ECANCELED  CANCELLED             STOP
 * others      OBJECTS_UNREACHABLE   no answer, or none that helps, until the deadline
 * To delete what is not there is no error, if the store says that just the object is missing. HEAD has no text: it says
 * NOT_FOUND also if the bucket is missing or a proxy answers, so nothing may be decided by it. Without the right to list the
 * bucket (s3:ListBucket), Amazon answers 403 for a missing object, which is -EACCES here. */
int objects_send(struct objects_client *c, const struct objects_request *r,
		 struct err *e) MUST_CHECK;
