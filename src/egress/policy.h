/* SPDX-License-Identifier: Apache-2.0 */
/* The questions that a connection asks its policy. For this folder alone. */
#pragma once

#include "egress/address.h"
#include "egress/host.h"
#include "egress/reason.h"

/* May a connection go to TARGET? OK or the reason why not. *RET_TRUSTED: wherever it leads. */
enum egress_reason egress_policy_target(const struct egress_policy *p,
					const struct egress_target *target, bool *ret_trusted);
/* May one that goes to an allowed name go to this address of it? */
bool egress_policy_address(const struct egress_policy *p, const struct egress_address *a,
			   bool trusted);
/* Is METHOD of a plain request allowed? */
bool egress_policy_method(const struct egress_policy *p, const char *method);
