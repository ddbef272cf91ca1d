/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of a Service of Kubernetes, which has them in EndpointSlices: for a pod, whose account may list and watch them. All
 * functions may wait for the API server, so they are for a thread, and write no log.
 *
 * A watch is a bell here: its first byte, or FLEET_SLICES_S without one, ends it, and the list is read anew. So there is one parser, and
 * what a watch says cannot be lost, out of order or too old. */
#pragma once

#include "fleet/router/members.h"

#include <stdatomic.h>

#define FLEET_SLICES_S       20u          /* the longest watch */
#define FLEET_SLICES_VERSION 64u          /* bytes of a resourceVersion, with the NUL */
#define FLEET_SLICES_BYTES   (2u << 20)   /* of a list */
#define FLEET_SLICES_VALUES  (128u << 10) /* JSON values of a list */

/* The folder with the pod's account, which the questions below open each time. */
#define FLEET_SLICES_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

struct fleet_slices {
	size_t n;
	struct fleet_address at[FLEET_MEMBERS_MAX]; /* in the order of their texts */
	char version[FLEET_SLICES_VERSION];         /* of the list */
};

/* Puts A at its place, unless it is there already. False: there are MOST others. No I/O. */
bool fleet_slices_put(struct fleet_slices *s, const struct fleet_address *a, size_t most);

/* TEXT: an EndpointSliceList. All endpoints count, ready or not: routers judge that themselves. If there are addresses of both families,
 * those of IPv6 do not count, since a pod has one of each then. Returns what is wrong, or NULL. */
const char *fleet_slices_read(const char *text, size_t len, uint16_t port,
			      struct fleet_slices *ret);

/* Waits until the EndpointSlices of SERVICE ("NAMESPACE/NAME") may have changed since VERSION of an earlier answer (NULL: not at all),
 * then asks for them. *STOP true (STOP may be NULL) ends it within about a second. *RET_QUICK: the API server did not let it wait, so the
 * next question should not follow at once. Returns what failed, or NULL; the text stays valid. After libcurl_load(), whose failure it tells. */
const char *fleet_slices_ask(const char *service, uint16_t port, const char *version,
			     const atomic_bool *stop, struct fleet_slices *ret, bool *ret_quick);

/* Is this process in a pod? */
bool fleet_slices_can(void);
