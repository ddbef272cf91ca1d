/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: JSON in and out, and the two forms of errors. */
#pragma once

#include "base/err.h"
#include "http/http.h"

#include <jansson.h>

#define API_BODY_MAX (256u << 10) /* bytes of a JSON body, unless a row says more */

/* Answers with BODY, which is taken; NULL (no memory) is 503. */
void api_json(struct http_request *req, int status, json_t *body);
/* A problem (http.h) with the members of MORE (an object, borrowed; may be NULL). */
void api_problem(struct http_request *req, const struct err *e, const json_t *more);
/* The second family's form: {"detail": TEXT}. */
void api_detail(struct http_request *req, int status, const char *text);

/* The body as a JSON object (owned), or NULL with E set: not JSON, too deep, not an object. An
 * empty body is {}. */
json_t *api_body(struct http_request *req, struct err *e);
/* One value of an application/x-www-form-urlencoded body, decoded; -ENOENT: it is not there,
 * -EINVAL: it does not decode or fit. */
int api_form_value(struct http_request *req, const char *name, char *ret, size_t size) MUST_CHECK;
/* "2026-01-31T12:00:00.123Z". RET has API_TIME_SIZE bytes. */
#define API_TIME_SIZE 32
const char *api_time(uint64_t ms, char *ret);
