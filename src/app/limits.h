/* SPDX-License-Identifier: Apache-2.0 */
/* Which limits of a sandbox somebody insists on: those that were set by name, less those that
 * SANDBOX_ALLOW_WEAKER names. The engine refuses to start where it cannot enforce one of them. */
#pragma once

#include "base/err.h"
#include "config/settings.h"

struct limits_insisted { /* enum engine_cap bits */
	uint32_t session;
	uint32_t stored; /* of stored sandboxes, SANDBOX_TOTAL_DISK with them */
};

/* ERR_SETTING_INVALID when allow_weaker names something else than a
 * limit, or one that was not set: what is not insisted on is best effort anyway, so the operator
 * believes something that is not so. */
int limits_insisted(const struct settings *s, struct limits_insisted *ret,
		    struct err *e) MUST_CHECK;
