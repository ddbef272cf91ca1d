/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection asks its policy. For the files of this folder only. */
#pragma once

#include "egress/address.h"
#include "egress/head.h"
#include "egress/host.h"
#include "egress/reason.h"

/* Whether a connection may go to TARGET: OK, or the reason of a refusal. *RET_TRUSTED: any address that the
 * name leads to is allowed. */
enum egress_reason egress_policy_target(const struct egress_policy *p,
					const struct egress_target *target, bool *ret_trusted);
/* Whether a connection to an allowed name may go to its address A. */
bool egress_policy_address(const struct egress_policy *p, const struct egress_address *a,
			   bool trusted);
/* Whether the plain request H may pass. With EGRESS_PACKAGES a request reads a page of the index or a
 * package file: method, path and body are checked. */
enum egress_reason egress_policy_request(const struct egress_policy *p,
					 const struct egress_head *h);
/* Whether SENT bytes to servers are too many for RECEIVED ones from them: a tunnel to a package index reads,
 * and what is inside cannot be seen. */
bool egress_policy_uploads(const struct egress_policy *p, uint64_t sent, uint64_t received);
