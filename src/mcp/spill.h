/* SPDX-License-Identifier: Apache-2.0 */
/* The long ("spilled") strings of one message, kept in a memory file: it grows without copies, and threads read it while the
 * call goes on. */
#pragma once

#include "budget/budgets.h"
#include "mcp/mcp.h"

/* One file for each message; its strings lie one after the other. Reference-counted, because calls
 * keep the strings that their arguments refer to. */
struct spill;

/* The bytes count for PAYER, which is copied, from the first to the last message that has them. Returns NULL with errno set if there is no memory or no
 * descriptor. */
struct spill *spill_new(struct budgets *budgets, const char *payer);
struct spill *spill_ref(struct spill *l);
struct spill *spill_unref(struct spill *l);

/* Begin a string, add to it, end it. -EDQUOT = the payer has as much as it may have (MESSAGE_FILES).
 * -ENOSPC = the file cannot grow. With
 * BASE64 the text that is added is base64, and the file gets the decoded bytes. */
int spill_begin(struct spill *l, bool base64) MUST_CHECK;
int spill_add(struct spill *l, const char *data, size_t len) MUST_CHECK;
/* RET has room for SPILL_NAME_MAX bytes and gets the placeholder of the string. A placeholder has
 * a random number that clients cannot know, so no string of a client can be taken for one. */
#define SPILL_NAME_MAX 80
int spill_end(struct spill *l, char *ret) MUST_CHECK;

/* True if TEXT is a placeholder of L; RET is then its string. L may be NULL. */
bool spill_find(const struct spill *l, const char *text, size_t len, struct mcp_text_ref *ret);
/* Is there a placeholder anywhere in VALUE? */
bool spill_is_in(const struct spill *l, const json_t *value);
