/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection asks its policy. For the files of this folder only. */
#pragma once

#include "egress/address.h"
#include "egress/head.h"
#include "egress/host.h"
#include "egress/reason.h"

struct egress_grant {
	bool trusted; /* any address that the name leads to is allowed */
};

/* Whether a connection may go to TARGET as far as that can be said without an address: OK, or the reason of a
 * refusal. */
enum egress_reason egress_policy_target(const struct egress_policy *p,
					const struct egress_target *target,
					struct egress_grant *ret);
/* Whether a connection to an allowed target may go to A: is it public? */
bool egress_policy_address(const struct egress_policy *p, const struct egress_address *a,
			   bool trusted);
/* Whether the rules for blocks allow address A of TARGET, which is allowed. */
bool egress_policy_reaches(const struct egress_policy *p, const struct egress_target *target,
			   const struct egress_address *a);
/* Whether the plain request H may pass. With EGRESS_PACKAGES a request reads a page of the index or a
 * package file: method, path and body are checked. */
enum egress_reason egress_policy_request(const struct egress_policy *p,
					 const struct egress_head *h);
/* Whether SENT bytes to servers are too many for RECEIVED ones from them: a tunnel to a package index reads,
 * and what is inside cannot be seen. */
bool egress_policy_uploads(const struct egress_policy *p, uint64_t sent, uint64_t received);
