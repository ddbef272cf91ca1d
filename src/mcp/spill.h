/* SPDX-License-Identifier: Apache-2.0 */
/* The long ("lifted") strings of one message, kept in a file instead of in memory. */
#pragma once

#include "budget/budgets.h"
#include "mcp/mcp.h"

/* One file for each message; its strings lie one after the other. Reference-counted, because calls
 * keep the strings that their arguments refer to. */
struct lifted;

/* The bytes count for PAYER, which is copied, from the first to the last message that has them. DIR NULL: anonymous memory (memfd). Returns NULL with errno set if there is no room or no
 * descriptor. */
struct lifted *lifted_new(const char *dir, struct budgets *budgets, const char *payer);
struct lifted *lifted_ref(struct lifted *l);
struct lifted *lifted_unref(struct lifted *l);

/* Begin a string, add to it, end it. -EDQUOT = the payer has as much as it may have (MESSAGE_FILES).
 * -ENOSPC = the file cannot grow. With
 * BASE64 the text that is added is base64, and the file gets the decoded bytes. */
int lifted_begin(struct lifted *l, bool base64) MUST_CHECK;
int lifted_add(struct lifted *l, const char *data, size_t len) MUST_CHECK;
/* RET has room for LIFTED_NAME_MAX bytes and gets the placeholder of the string. A placeholder has
 * a random number that clients cannot know, so no string of a client can be taken for one. */
#define LIFTED_NAME_MAX 80
int lifted_end(struct lifted *l, char *ret) MUST_CHECK;

/* True if TEXT is a placeholder of L; RET is then its string. L may be NULL. */
bool lifted_find(const struct lifted *l, const char *text, size_t len, struct mcp_text_ref *ret);
/* Is there a placeholder anywhere in VALUE? */
bool lifted_is_in(const struct lifted *l, const json_t *value);
