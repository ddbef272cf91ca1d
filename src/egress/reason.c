/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/reason.h"

static const struct {
	const char *word;
	int status;
	const char *text;
} reasons[] = {
#define R(name, word, status, text) [EGRESS_REASON_##name] = {word, status, text},
#include "egress/reason.tbl.h"
#undef R
};

const char *egress_reason_word(enum egress_reason reason)
{
	return reasons[reason].word;
}

int egress_reason_status(enum egress_reason reason)
{
	return reasons[reason].status;
}

const char *egress_reason_text(enum egress_reason reason)
{
	return reasons[reason].text;
}
