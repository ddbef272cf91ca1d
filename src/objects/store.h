/* SPDX-License-Identifier: Apache-2.0 */
/* Which object store, and who may use it. Who holds a struct objects_store can read and delete everything in its bucket: only
 * routers do. Texts have bounds, and objects_store_done() wipes the secret. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

/* Sizes of texts, with the NUL. */
#define OBJECTS_HOST_SIZE       320 /* host and port, with the bucket where that is part of the host */
#define OBJECTS_BUCKET_SIZE     64
#define OBJECTS_REGION_SIZE     64
#define OBJECTS_KEY_SIZE        512 /* the name of an object */
#define OBJECTS_ACCESS_SIZE     129
#define OBJECTS_SECRET_SIZE     257
#define OBJECTS_CREDENTIALS_MAX 8192u /* bytes of a file of credentials */

struct objects_store {
	bool tls;
	bool path_style;
	char host[OBJECTS_HOST_SIZE]; /* as it stands in the header Host */
	char bucket[OBJECTS_BUCKET_SIZE];
	char region[OBJECTS_REGION_SIZE];
	char access[OBJECTS_ACCESS_SIZE];
	char secret[OBJECTS_SECRET_SIZE];
};

/* Takes where the store is. ENDPOINT is https://HOST[:PORT], or http:// for a store that has no TLS. Without PATH_STYLE the
 * bucket becomes the first part of the host name. SETTING_INVALID says what is wrong. */
int objects_store_place(struct objects_store *ret, const char *endpoint, const char *bucket,
			const char *region, bool path_style, struct err *e) MUST_CHECK;

/* Takes the credentials from TEXT: lines "aws_access_key_id = …" and "aws_secret_access_key = …", as in the
 * credentials file of AWS's tools; comments and the line [default] may stand there, too. Another section, another key or a missing one
 * is an error. No message shows a value. */
int objects_store_credentials(struct objects_store *s, const char *text, struct err *e) MUST_CHECK;

void objects_store_done(struct objects_store *s);

/* Names of objects: parts of [A-Za-z0-9_-][A-Za-z0-9._-]*, with '/' between them. Nothing needs escapes, and no part
 * is "." or "..". */
bool objects_key_ok(const char *key);
