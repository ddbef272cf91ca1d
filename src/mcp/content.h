/* SPDX-License-Identifier: Apache-2.0 */
/* Builders of result documents. Each returns a new reference, or NULL if memory is short or a text
 * is not UTF-8. mcp_call_finish() accepts NULL, so calls can be nested without checks. Parameters
 * marked "owned" are always taken, also on failure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Content blocks. LEN bytes of UTF-8. */
json_t *mcp_text(const char *text, size_t len);
json_t *mcp_textf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* BASE64: standard alphabet with padding. */
json_t *mcp_image(const char *base64, size_t len, const char *mime_type);
json_t *mcp_audio(const char *base64, size_t len, const char *mime_type);
/* SIZE < 0: not known. Everything except URI and NAME may be NULL. */
/* RESOURCE: owned, from mcp_resource_text() or mcp_resource_blob(). */
json_t *mcp_embedded(json_t *resource);

/* Contents of a resource; also the inside of an embedded one. */
json_t *mcp_resource_text(const char *uri, const char *mime_type, const char *text, size_t len);
json_t *mcp_resource_blob(const char *uri, const char *mime_type, const char *base64, size_t len);

/* An array of the N blocks, each owned. NULL if one of them is NULL. */
json_t *mcp_blocks(size_t n, ...);

/* Result of tools/call. CONTENT: owned array; STRUCTURED: owned or NULL. */
json_t *mcp_tool_result(json_t *content, json_t *structured, bool is_error);
/* An isError result with one text: for everything that a model should see or could correct. */
json_t *mcp_tool_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Result of resources/read; CONTENTS: owned array. */
json_t *mcp_resource_result(json_t *contents);
/* One message of a prompt; CONTENT: owned single block. ROLE: "user" or "assistant". */
json_t *mcp_prompt_message(const char *role, json_t *content);
/* Result of prompts/get; MESSAGES: owned array. */
json_t *mcp_prompt_result(const char *description, json_t *messages);
/* Result of completion/complete. VALUES: owned array of strings, cut to 100. TOTAL < 0: not known.
 */
json_t *mcp_completion_result(json_t *values, long long total, bool has_more);
