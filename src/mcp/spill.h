/* SPDX-License-Identifier: Apache-2.0 */
/* Long strings of one message, kept in a file instead of in memory. */
#pragma once

#include "mcp/mcp.h"

/* One file per message; its strings lie one after the other. Reference-counted, because calls keep
 * what their arguments point to. */
struct lifted;

/* DIR NULL: anonymous memory. NULL with errno set when there is no room or no descriptor. */
struct lifted *lifted_new(const char *dir);
struct lifted *lifted_ref(struct lifted *l);
struct lifted *lifted_unref(struct lifted *l);

/* Begins a string, adds to it, ends it. BASE64: what is added is base64 text; the file gets what it
 * decodes to. */
int lifted_begin(struct lifted *l, bool base64) MUST_CHECK;
int lifted_add(struct lifted *l, const char *data, size_t len) MUST_CHECK;
/* RET: room for LIFTED_NAME_MAX bytes: the placeholder that stands for the string. It holds a
 * random number that a client cannot know, so that no string of a client can be taken for one. */
#define LIFTED_NAME_MAX 80
int lifted_end(struct lifted *l, char *ret) MUST_CHECK;

/* True and RET when TEXT is a placeholder of L, which may be NULL. */
bool lifted_find(const struct lifted *l, const char *text, size_t len, struct mcp_text_ref *ret);
/* Is there a placeholder anywhere in VALUE? */
bool lifted_is_in(const struct lifted *l, const json_t *value);
