/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which code often prints a secret without meaning to hide it: as it is, in base64 (both alphabets, at any place
 * of a longer text that is encoded as a whole), in an address or a form, in JSON and in HTML. */
#pragma once

#include "base/attr.h"

#include <stddef.h>

#define MASK_FORMS_MAX 16u /* of one secret */
#define MASK_LONG_MIN                                                                              \
	6u /* bytes; a shorter secret is found as it is, in addresses and in JSON alone */
#define MASK_FORM_MAX  4096u /* bytes; a longer secret has no forms */
#define MASK_FORMS_CUT 1

struct mask_forms {
	size_t room; /* bytes that all of them may still have */
	const char *secret;
	size_t n;
	char *form[MASK_FORMS_MAX]; /* owned; different from each other and from the secret */
	size_t len[MASK_FORMS_MAX];
};

/* The forms of SECRET, at most ROOM bytes; SECRET is borrowed. MASK_FORMS_CUT: there was no room for all. mask_forms_done()
 * follows in any case. -ENOMEM. */
int mask_forms_of(const char *secret, size_t room, struct mask_forms *ret) MUST_CHECK;
/* Wipes what is still there: a form that was taken is NULL. */
void mask_forms_done(struct mask_forms *f);
