/* SPDX-License-Identifier: Apache-2.0 */
/* Which wheels a request needs, as a resolver has said, and the memory of it. */
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
	char url[PLAN_URL_MAX + 1]; /* where the index has it */
	char sha256[SHA256_HEX];    /* "" = the index does not say; else it is checked */
	bool requested;             /* by name, not for another's sake */
	int fd;                     /* owned; the whole wheel, or -1 */
};

struct plan {
	struct wheel *wheels; /* owned */
	size_t n;             /* 0: everything is there already */
};

void plan_done(struct plan *p); /* closes and frees */
/* From the array that resolve.py has left. Everything in it is checked. -EINVAL, -ENOMEM. With
 * SOURCES an address may be anything but needs no wheel's name yet. */
int plan_parse(const json_t *rows, bool sources, struct plan *ret) MUST_CHECK;
int plan_copy(const struct plan *from, struct plan *ret) MUST_CHECK; /* without descriptors */

/* ---- memory ---- */

struct plans;

struct plans *plans_new(uint64_t ttl_ns); /* NULL: no memory */
struct plans *plans_free(struct plans *p);
/* KEY: hex of a hash over everything that the answer depends on. -ENOENT. */
int plans_find(struct plans *p, const char *key, struct plan *ret) MUST_CHECK;
void plans_keep(struct plans *p, const char *key, const struct plan *plan);
void plans_forget(struct plans *p, const char *key);
