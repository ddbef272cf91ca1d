/* SPDX-License-Identifier: Apache-2.0 */
/* What `caisson doctor` finds out about a member of a fleet. These functions wait for disks and other machines. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "config/settings.h"

#include <stddef.h>
#include <stdint.h>

/* The certificate that the role of S has: SETTING_INVALID if it cannot be read, lacks the name of the role, or does not hold now.
 * RET_UNTIL_S: its end, in seconds since 1970. */
int fleet_look_certificate(const struct settings *s, int64_t *ret_until_s,
			   struct err *e) MUST_CHECK;

struct fleet_look {
	size_t workers, asked, answered;
	char first[256]; /* that does not answer, and why; "" = none */
};

/* Asks the workers of the router S for their state. After 10 s it asks no further name or worker; a resolver that hangs holds it for as
 * long as getaddrinfo(3) lets it. SETTING_INVALID: one of its files cannot be used. */
int fleet_look_workers(const struct settings *s, struct fleet_look *ret, struct err *e) MUST_CHECK;
