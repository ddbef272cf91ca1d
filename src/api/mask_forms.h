/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which code often prints a secret without meaning to hide it: as it is, in base64 (both alphabets, at any place
 * of a longer text that is encoded as a whole), in an address or a form, in JSON and in HTML. */
#pragma once

#include "base/attr.h"

#include <stddef.h>

#define MASK_FORMS_MAX 16u /* of one secret */
#define MASK_LONG_MIN                                                                              \
	6u /* bytes; a shorter secret is found as it is, in addresses and in JSON alone */
#define MASK_FORM_MAX 4096u /* bytes; of a longer secret there is no other form */

struct mask_forms {
	size_t n;
	char *form
	    [MASK_FORMS_MAX]; /* owned; different from each other; the first one is the secret */
};

/* -ENOMEM: there is nothing to free. */
int mask_forms_of(const char *secret, struct mask_forms *ret) MUST_CHECK;
/* Wipes what is still there: a form that was taken is NULL. */
void mask_forms_done(struct mask_forms *f);
