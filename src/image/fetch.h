/* SPDX-License-Identifier: Apache-2.0 */
/* Images from elsewhere: a registry (OCI distribution specification 1.1) or the Docker or Podman of
 * this machine (Engine API). What is fetched goes into a folder that bundle.h reads afterwards.
 *
 * A process without rights fetches (worker.h). Answers have limits on their size, their headers and
 * the number of redirects; certificates are checked. Plain http is for loopback addresses, and for
 * others only if the caller permits it. */
#pragma once

#include "image/image.h"
#include "image/ref.h"
#include "image/signature.h"
#include "image/worker.h"

#define FETCH_REDIRECTS_MAX 5
#define FETCH_SECRET_MAX    4096 /* bytes of a user, a password or a token */

/* Of an image that a client has named. Then there are no logins, and nothing inside this network is asked. */
struct fetch_rules {
	bool inside;        /* but the registry itself may be inside */
	uint64_t max_bytes; /* of the blobs, and of the files in them */
	const char *known;  /* a digest that ends it, because the image is there; NULL = none */
};

struct fetch_options {
	const struct fetch_rules *rules; /* NULL: the operator has named it */
	bool plain_http;                 /* http for every registry */
	const char *ca_file;             /* certificates to trust, PEM; NULL = the system's */
	struct signature_keys keys;
};

/* Starts to write an OCI layout into FOLDER, in which blobs of an earlier attempt may be, whole or in part. Returns when it is known
 * what the name stands for, RET_DIGEST: a manifest or an index. If there are keys, one of them has signed that digest; whoever
 * reads the layout must insist that it begins with it (bundle.h).
 *
 * READY: a pipe, borrowed, which RET, the process that fetches, keeps. It gets a byte for each part that is complete: FETCH_DOCUMENTS for
 * all documents of the layout, I for layer I, the lowest being 0. Its end is that of the process, whose last worker_next() says how
 * it went. The reader of the layout believes neither: bytes in the pipe say when to look, not what is there. */
int fetch_registry(const struct image_ref *ref, const struct fetch_options *o, int folder,
		   int ready, const struct image_watch *w, struct worker_process *ret,
		   char ret_digest[OCI_DIGEST_LEN + 1], struct err *e) MUST_CHECK;
#define FETCH_DOCUMENTS 255
_Static_assert(OCI_LAYERS_MAX < FETCH_DOCUMENTS, "a layer is a byte");

/* Writes FOLDER/archive.tar, a Docker archive. The daemon is that of DOCKER_HOST, if set. */
int fetch_daemon(const struct image_ref *ref, int folder, const struct image_watch *w,
		 struct err *e) MUST_CHECK;
#define FETCH_ARCHIVE "archive.tar"

/* User and password for HOST in a configuration file of Docker's or Podman's (`auths`). -ENOENT: it
 * has none. RET have FETCH_SECRET_MAX bytes. */
int fetch_find_login(const char *text, size_t len, const char *host, char *ret_user,
		     char *ret_password) MUST_CHECK;
/* The challenge of a WWW-Authenticate header. */
enum fetch_scheme { FETCH_NO_SCHEME, FETCH_BASIC, FETCH_BEARER };
struct fetch_challenge {
	enum fetch_scheme scheme;
	char realm[1024];
	char service[256];
};
void fetch_parse_challenge(const char *value, struct fetch_challenge *ret);
