/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

enum egress_reason {
#define R(name, word, status, text) EGRESS_REASON_##name,
#include "egress/reason.tbl.h"
#undef R
	EGRESS_REASON_MAX_,
};

const char *egress_reason_word(enum egress_reason reason);
int egress_reason_status(enum egress_reason reason);
const char *egress_reason_text(enum egress_reason reason);
