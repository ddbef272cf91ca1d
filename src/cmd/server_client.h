/* SPDX-License-Identifier: Apache-2.0 */
/* What verbs need that talk to a running server: the one that the settings name (`server.listen`, `auth.api_key`), over its
 * REST API. */
#pragma once

#include "base/buf.h"
#include "config/settings.h"

#include <jansson.h>

/* BODY is borrowed, NULL = none. *RET_STATUS is that of the answer, *RET its JSON (owned), NULL if it has none. */
int server_call(const struct settings *s, const char *method, const char *path, const json_t *body,
		unsigned *ret_status, json_t **ret, struct err *e) MUST_CHECK;
/* The same, where any status but 2xx is an error, with the words of the server. */
int server_ask(const struct settings *s, const char *method, const char *path, const json_t *body,
	       json_t **ret, struct err *e) MUST_CHECK;

/* Opens the WebSocket of PATH. Returns its connection (owned), which does not block; RET_FIRST gets what the server sent after its
 * answer. What another answer says becomes E. */
int server_open_socket(const struct settings *s, const char *path, struct buf *ret_first,
		       struct err *e) MUST_CHECK;

/* Prints TEXT and the end of the line. Users choose names and commands, so control characters in them must not reach the
 * terminal. */
void server_print_line(const char *text);
int server_print_json(const json_t *doc); /* 0 or -EIO */
