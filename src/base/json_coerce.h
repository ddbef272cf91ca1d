/* SPDX-License-Identifier: Apache-2.0 */
/* Values as clients send them. JSON Schema calls 30.0 an integer, and models and workflow programs write numbers,
 * booleans and lists as text: "30", "true", "[\"a\"]". Each function returns 0
 * and sets *RET to what V stands for, a new reference. -EINVAL: V stands for nothing of that type. -ENOMEM: it may, but memory
 * is short, so a caller must not say that V is wrong. A failure leaves *RET as it is. The loop's thread alone. */
#pragma once

#include "base/attr.h"

#include <jansson.h>
#include <stdint.h>

/* A longer text, or one with more values, stands for nothing: reading it would hold the loop for milliseconds. */
#define JSON_COERCE_TEXT_MAX   (128u << 10)
#define JSON_COERCE_VALUES_MAX 4096u

/* 30, 30.0, 3e1, "30" */
int json_coerce_integer(const json_t *v, json_t **ret) MUST_CHECK;
/* also 0.5 and "0.5" */
int json_coerce_number(const json_t *v, json_t **ret) MUST_CHECK;
/* true, "true", "yes", "on", "1" and their opposites */
int json_coerce_boolean(const json_t *v, json_t **ret) MUST_CHECK;
/* a number, as its text */
int json_coerce_text(const json_t *v, json_t **ret) MUST_CHECK;
/* an object or a list, as its JSON text with two blanks for each level */
int json_coerce_document(const json_t *v, json_t **ret) MUST_CHECK;
/* a list, or its JSON text */
int json_coerce_list(const json_t *v, json_t **ret) MUST_CHECK;
/* an object, its JSON text, or the [] that PHP makes of {} */
int json_coerce_object(const json_t *v, json_t **ret) MUST_CHECK;
