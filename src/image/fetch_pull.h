/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the process that fetches from a registry share. */
#pragma once

#include "base/buf.h"
#include "image/fetch.h"
#include "image/http_get.h"

#include <sodium.h>

#define FETCH_URL_MAX 4096
#define FETCH_CA_SIZE 64
#define INDEX_DEPTH   3 /* indexes within indexes */

struct pull {
	const struct image_ref *ref;
	const struct image_watch *watch;
	int folder;                      /* borrowed */
	int blobs;                       /* owned: FOLDER/blobs/sha256 */
	int ready;                       /* borrowed: gets a byte for each part that is complete */
	bool plain;                      /* http is permitted */
	const struct fetch_rules *rules; /* borrowed; NULL = the operator has named the image */
	struct http_wall wall;           /* with RULES */
	char base[16 + REF_HOST_MAX];    /* "https://HOST" */
	char ca_file[FETCH_CA_SIZE];     /* "" = the system's */
	bool has_login;
	char user[FETCH_SECRET_MAX];
	char password[FETCH_SECRET_MAX];
	enum fetch_scheme scheme; /* what the registry asked for */
	char token[4 * FETCH_SECRET_MAX];
	unsigned tokens; /* how many there were: they expire */
	struct signature_keys keys;
	struct oci_blob chain[INDEX_DEPTH + 1]; /* from what the name stands for to the manifest */
	size_t n_chain;
	const struct buf *manifest; /* borrowed: the last one of the chain */
};

/* Before a worker speaks to another machine: libcurl, and the certificates to trust as a file that the worker can open, RET; "" = the
 * system's. CA_FILE: NULL = those of the system. RET_FD is the caller's to close after the worker has ended. PLAIN: nobody is asked
 * over TLS, so there need not be any. */
int fetch_prepare(bool plain, const char *ca_file, char ret[FETCH_CA_SIZE], int *ret_fd,
		  struct err *e) MUST_CHECK;

/* Where a body goes: a document into memory, a blob into a file; hashed either way. */
struct sink {
	struct buf *text;
	int fd;
	uint64_t size;
	crypto_hash_sha256_state hash;
};

/* Empties it. */
int sink_restart(void *sink) MUST_CHECK;
int sink_take(void *sink, const void *data, size_t len) MUST_CHECK;
/* ERR_IMAGE_INVALID: the sink has something else. */
int sink_check(const struct sink *s, const char *digest, uint64_t size, struct err *e) MUST_CHECK;

/* One GET of the registry's API, with what it takes: a login, redirects. Credentials go to the
 * registry itself and to nobody that it redirects to. */
struct asking {
	struct http_get get; /* first: what http_set_wait() returns */
	struct sink *sink;
	const char *accept;
	uint64_t max;
	char url[FETCH_URL_MAX];
	int redirects;
	bool ours; /* URL is the registry's own */
	bool logged_in;
	unsigned token; /* number of the one in use */
};

/* PATH is beneath /v2/NAME/. A sink of a file that has a part of the body gets the rest. */
void asking_begin(const struct pull *p, struct asking *ask, const char *path);
/* Makes ask->get, for a first or another round. */
void asking_prepare(struct pull *p, struct asking *ask);
/* After an answer. 1: the sink has the body. 0: another round. */
int asking_judge(struct pull *p, struct asking *ask, struct err *e) MUST_CHECK;

/* The blobs of a manifest into p->blobs, FETCH_AT_ONCE at once, the lowest layers first; p->ready is told of each. What is there already, whole or in
 * part, is checked and not fetched again. */
#define FETCH_AT_ONCE 3
/* Writes the files that make a folder with blobs an OCI layout, once the configuration is there. */
int fetch_write_layout(const struct pull *p, struct err *e) MUST_CHECK;
int fetch_blobs(struct pull *p, const struct oci_manifest *m, struct err *e) MUST_CHECK;
