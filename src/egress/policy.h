/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection asks its policy. For the files of this folder only. */
#pragma once

#include "egress/address.h"
#include "egress/host.h"
#include "egress/reason.h"

/* Whether a connection may go to TARGET: OK, or the reason of a refusal. *RET_TRUSTED: any address that the
 * name leads to is allowed. */
enum egress_reason egress_policy_target(const struct egress_policy *p,
					const struct egress_target *target, bool *ret_trusted);
/* Whether a connection to an allowed name may go to its address A. */
bool egress_policy_address(const struct egress_policy *p, const struct egress_address *a,
			   bool trusted);
/* Whether a plain request may have METHOD. */
bool egress_policy_method(const struct egress_policy *p, const char *method);
