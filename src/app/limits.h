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

/* LIMIT_NOT_ENFORCEABLE if a setting of the whole server is given that needs more than HAS (enum engine_cap bits): without
 * this it would be ignored. It says what the setting needs. */
int limits_server(const struct settings *s, uint32_t has, struct err *e) MUST_CHECK;

/* The memory that all sandboxes together may have of this machine; 0: nobody knows. */
uint64_t limits_machine_bytes(const struct settings *s);
/* With the profiles that are no contract, what is not set grows with the machine, of which sandboxes may have BYTES: the memory of a sandbox from its default
 * to 2 GiB, that of a stored one, which is no smaller, and the number of sessions, as many as memory holds at their limit
 * and at least its default. */
void limits_by_machine(struct settings *s, uint64_t bytes);
/* The largest file that may be uploaded over REST and on the page. Unless it is set, it is larger with the profiles that
 * are no contract: there the bytes go straight to the disk, while a message of MCP has them in base64. */
uint64_t limits_rest_upload(const struct settings *s);
