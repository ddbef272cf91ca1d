/* SPDX-License-Identifier: Apache-2.0 */
/* The secrets of a sandbox: the values of its environment, and those that it had since it became active. What finds them in
 * streams is made once, and again after the environment has changed. It counts as `secret_memory` of the owner; if there is
 * no room, what the owner's other sandboxes need only later is given up.  Process: front. */
#pragma once

#include "base/err.h"
#include "sandbox/mask.h"

struct sandbox;
struct secrets;

/* *RET is a reference; NULL: there is nothing to mask. BUDGET_EXCEEDED, OUT_OF_MEMORY. */
int sandbox_secrets(struct sandbox *s, struct secrets **ret, struct err *e) MUST_CHECK;
/* The environment of S has changed, or S ends. */
void sandbox_forget_secrets(struct sandbox *s);
struct secrets *secrets_unref(struct secrets *x);            /* NULL is fine */
const struct mask_set *secrets_set(const struct secrets *x); /* NULL if X is */
