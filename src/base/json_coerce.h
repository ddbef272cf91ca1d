/* SPDX-License-Identifier: Apache-2.0 */
/* Values as clients send them. JSON Schema calls 30.0 an integer, and models and workflow programs write numbers,
 * booleans and lists as text: "30", "true", "[\"a\"]". Each function returns what V stands for as a new reference, or
 * NULL if it stands for nothing of that type or memory is short. The loop's thread alone. */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* A longer text, or one with more values, stands for nothing: reading it would hold the loop for milliseconds. */
#define JSON_COERCE_TEXT_MAX   (128u << 10)
#define JSON_COERCE_VALUES_MAX 4096u

json_t *json_coerce_integer(const json_t *v); /* 30, 30.0, 3e1, "30" */
json_t *json_coerce_number(const json_t *v);  /* also 0.5 and "0.5" */
json_t *
json_coerce_boolean(const json_t *v);      /* true, "true", "yes", "on", "1" and their opposites */
json_t *json_coerce_list(const json_t *v); /* a list, or its JSON text */
json_t *
json_coerce_object(const json_t *v); /* an object, its JSON text, or the [] that PHP makes of {} */
