/* SPDX-License-Identifier: Apache-2.0 */
/* Which limits of a sandbox must be enforced: those that were set explicitly, except those that
 * SANDBOX_ALLOW_WEAKER names. The engine refuses to start if it cannot enforce one of them. Other
 * limits are best effort. */
#pragma once

#include "base/err.h"
#include "config/settings.h"

struct limits_insisted { /* enum engine_cap bits */
	uint32_t session;
	uint32_t stored; /* of stored sandboxes, including SANDBOX_TOTAL_DISK */
};

/* ERR_SETTING_INVALID if SANDBOX_ALLOW_WEAKER names something that is no limit, or a limit that was
 * not set. The latter is best effort anyway, so the operator has misunderstood something. */
int limits_insisted(const struct settings *s, struct limits_insisted *ret,
		    struct err *e) MUST_CHECK;

/* How many sessions there may be. With the profiles that are no contract, and unless it is set, as many as
 * this machine's memory holds at their limit, and at least the default of the setting. */
unsigned limits_max_sessions(const struct settings *s);
