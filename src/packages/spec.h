/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of requests (packages_check_spec() in packages.h). No I/O; fuzzed. */
#pragma once

#include "base/err.h"
#include "packages/packages.h"

#define SPEC_ITEM_MAX 400 /* bytes of one requirement in its normal form */
#define SPEC_NAME_MAX 128

struct spec_item {
	char text[SPEC_ITEM_MAX + 1]; /* NAME[EXTRA,...]OPVERSION,... ; MARKER */
	char name[SPEC_NAME_MAX + 1];
	bool bare; /* a name without version, extras or marker */
};

struct spec {
	struct spec_item items[PACKAGES_NAMES_MAX];
	size_t n; /* at least one */
};

/* INVALID_ARGUMENT says what was wrong. */
int spec_parse(const char *text, size_t len, struct spec *ret, struct err *e) MUST_CHECK;
/* Lower case, runs of [-_.] as one '-' (PEP 503). RET has SPEC_NAME_MAX + 1 bytes. */
void spec_canonical(const char *name, char *ret);
/* A name or version: [A-Za-z0-9] and [._+!-], of bounded length. */
bool spec_is_word(const char *s);
