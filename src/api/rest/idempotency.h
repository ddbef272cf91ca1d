/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api/rest: requests with an Idempotency-Key. For a day, the same key and body of the same caller get the answer
 * of the first request, as far as BUDGET_IDEMPOTENCY_KEYS and BUDGET_KEPT_BYTES have room for it. IDEMS is the list of all,
 * newest first, and keeps them. */
#pragma once

#include "api/rest/rest.h"

/* True: C goes on. False: it has been answered. */
bool idem_begin(struct rest_call *c, struct list *idems);
/* C will be answered with STATUS and c->answer. */
void idem_keep_answer(struct rest_call *c, struct list *idems, int status);
/* Its call is over. I may be NULL. */
void idem_end(struct idem *i);
/* The user OWNER was removed. */
void idem_forget_owner(struct list *idems, const char *owner);
void idem_done(struct list *idems);
