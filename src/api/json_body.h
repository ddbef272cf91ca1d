/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: reads the JSON bodies of requests. A value needs about 100 bytes of memory and 100 ns, however short
 * its text is, so their number has a bound, and a long text is read by a thread (decision 0020). Loop only. */
#pragma once

#include "base/err.h"
#include "budget/budgets.h"
#include "http/http.h"

#include <jansson.h>

#define API_BODY_MAX          (256u << 10) /* bytes, without code and standard input */
#define API_STRANGER_BODY_MAX (16u << 10)  /* bytes, of a route without a credential */
#define API_BODY_VALUES_MAX   4096u        /* values and members */
#define API_BODY_DEPTH_MAX    32u          /* jansson permits 2,048, and each level needs stack */

/* Returns the body of REQ as a JSON object (owned), {} if it is empty. NULL with E set: INVALID_ARGUMENT (not JSON, too
 * many values, too deep, not an object), OUT_OF_MEMORY. For bodies of at most API_STRANGER_BODY_MAX bytes. */
json_t *api_body(struct http_request *req, struct err *e);

/* The same for any body. CB is called once, maybe before this returns: BODY is owned by it, or NULL and E says why, also
 * BUDGET_EXCEEDED (BUDGET_MESSAGE_MEMORY of OWNER) and SERVER_BUSY. REQ may go away meanwhile. */
typedef void (*api_body_fn)(json_t *body, const struct err *e, void *user);
void api_read_body(struct http_request *req, struct budgets *budgets, const char *owner,
		   api_body_fn cb, void *user);
