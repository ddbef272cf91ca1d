/* SPDX-License-Identifier: Apache-2.0 */
/* The header Forwarded (RFC 7239). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct http_request;

/* The value of the parameter NAME in TEXT, one line of the header, without quotes. Of several elements the first one that has
 * it counts: each proxy appends its own, so that is the one that the client used. False if there is none, if the line is
 * malformed before it, or if RET is too small. */
bool http_forwarded_find(const char *text, const char *name, char *ret, size_t size);
/* The same of all lines of a request. Says nothing about trust. */
bool http_forwarded_value(const struct http_request *req, const char *name, char *ret, size_t size);
