/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: writes JSON, and the two forms of errors. */
#pragma once

#include "base/err.h"
#include "http/http.h"

#include <jansson.h>

/* Answers with BODY, which it takes. A BODY of NULL (no memory) gives 503. */
void api_json(struct http_request *req, int status, json_t *body);
/* Answers with a problem document (http.h) plus the members of MORE (an object, borrowed; may be
 * NULL). */
void api_problem(struct http_request *req, const struct err *e, const json_t *more);
/* Answers in the second family's form: {"detail": TEXT}. */
void api_detail(struct http_request *req, int status, const char *text);

/* Decodes one value of an application/x-www-form-urlencoded body. Returns -ENOENT if it is missing,
 * -EINVAL if it cannot be decoded or does not fit. */
int api_form_value(struct http_request *req, const char *name, char *ret, size_t size) MUST_CHECK;
/* Writes "2026-01-31T12:00:00.123Z" to RET, which has API_TIME_SIZE bytes. */
#define API_TIME_SIZE 32
const char *api_time(uint64_t ms, char *ret);
