/* SPDX-License-Identifier: Apache-2.0 */
/* Install plans: which wheels a request needs, according to a resolver. Plans are remembered. */
#pragma once

#include "packages/copy.h"
#include "packages/spec.h"

#include <jansson.h>

#define PLAN_WHEELS_MAX 300u
#define PLAN_URL_MAX    2000u

struct wheel {
	char name[SPEC_NAME_MAX + 1];
	char version[SPEC_NAME_MAX + 1];
	char file[256];             /* NAME-VERSION-...whl */
	char url[PLAN_URL_MAX + 1]; /* address at the index */
	char sha256[SHA256_HEX];    /* checked after the download; "" = the index gave none */
	bool requested;             /* the request named it; other wheels are dependencies */
	int fd;                     /* owned; the whole wheel, or -1 */
};

struct plan {
	struct wheel *wheels; /* owned */
	size_t n;             /* 0: the sandbox has everything already */
};

void plan_done(struct plan *p); /* closes the descriptors, frees the memory */
/* Reads and checks the array that resolve.py has written. -EINVAL, -ENOMEM. With SOURCES an
 * address need not end in the name of a wheel, because the wheel is built later. */
int plan_parse(const json_t *rows, bool sources, struct plan *ret) MUST_CHECK;
int plan_copy(const struct plan *from, struct plan *ret) MUST_CHECK; /* without descriptors */

/* ---- memory ---- */

struct plans;

struct plans *plans_new(uint64_t ttl_ns); /* NULL: no memory */
struct plans *plans_free(struct plans *p);
/* KEY: hex of a hash over everything that the answer depends on. -ENOENT: not remembered. */
int plans_find(struct plans *p, const char *key, struct plan *ret) MUST_CHECK;
void plans_keep(struct plans *p, const char *key, const struct plan *plan);
void plans_forget(struct plans *p, const char *key);
