/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of the tables of tools: schemas and hints as text. For this folder
 * alone. */
#pragma once

#define STR_    "{\"type\":\"string\"}"
#define STRNULL "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}],\"default\":null}"
#define INT_    "{\"type\":\"integer\"}"
#define INTNULL "{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"default\":null}"
#define FALSE_  "{\"type\":\"boolean\",\"default\":false}"
#define TRUE_   "{\"type\":\"boolean\",\"default\":true}"
#define OBJ(props, required)                                                                       \
	"{\"type\":\"object\",\"properties\":{" props "},\"required\":[" required                  \
	"],\"additionalProperties\":false}"
#define HINTS_OPEN(title, read_only, destructive, idempotent, open)                                \
	"{\"title\":\"" title "\",\"readOnlyHint\":" read_only ",\"destructiveHint\":" destructive \
	",\"idempotentHint\":" idempotent ",\"openWorldHint\":" open "}"
/* Nothing outside of the server is touched. */
#define HINTS(title, read_only, destructive, idempotent)                                           \
	HINTS_OPEN(title, read_only, destructive, idempotent, "false")
