/* SPDX-License-Identifier: Apache-2.0 */
/* Names of workers: asked for their addresses every FLEET_NAMES_S seconds, by the resolver of the machine, on threads of base/workers.h.
 * Services of Kubernetes (slices.h) are asked when the API server says that they have changed.
 *
 * An answer replaces the one before, also if the name has no address any more. If the resolver fails, the last answer holds, and it is
 * asked less often, at least each FLEET_NAMES_SLOW_S seconds. */
#pragma once

#include "fleet/router/members.h"

#include <systemd/sd-event.h>

#define FLEET_NAMES_S      2u
#define FLEET_NAMES_SLOW_S 60u
#define FLEET_OF_NAME_MAX  64u /* addresses of one DNS name; an answer with more is a failure */

struct fleet_names;

/* M: the addresses of the list and those of its names, without any name; FLEET_MEMBERS_MAX at most. */
typedef void (*fleet_names_fn)(const struct fleet_members *m, void *user);

/* FN is called from the loop, when the addresses may have changed. */
int fleet_names_new(sd_event *loop, fleet_names_fn fn, void *user, struct fleet_names **ret,
		    struct err *e) MUST_CHECK;
/* From now on M is the list. FN is called before this returns, with what is known by then. */
void fleet_names_set(struct fleet_names *n, const struct fleet_members *m);
/* NULL is fine; FN is not called any more. */
struct fleet_names *fleet_names_free(struct fleet_names *n);

/* Waits for the addresses of NAME and adds them to M. Returns why there are none, or NULL. */
const char *fleet_names_ask(const struct fleet_name *name, struct fleet_members *m);
