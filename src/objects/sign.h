/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses with a signature in their query (AWS Signature Version 4, "presigned"). Such an address is a credential for one
 * request: it belongs in no log and no error. The store judges the method, the object, the time and, if it is given, the
 * length of the body.
 *
 * It does not judge the bytes. Whoever reads an object checks it. */
#pragma once

#include "base/buf.h"
#include "objects/store.h"

#include <stdint.h>

#define OBJECTS_ADDRESS_MAX 2048u
#define OBJECTS_SECONDS_MAX 604800u             /* 7 days, the most that the protocol allows */
#define OBJECTS_CLOCK_S     900u                /* by how much stores let clocks differ */
#define OBJECTS_LENGTH_MAX  (UINT64_C(5) << 30) /* of one PUT, the most that the protocol allows */
#define OBJECTS_LENGTH_ANY  UINT64_MAX

struct objects_order {
	const char *method; /* GET, HEAD, PUT, DELETE */
	const char *key;
	uint64_t
	    length; /* of the body of a PUT, which must have exactly this header; OBJECTS_LENGTH_ANY for the others */
	unsigned
	    seconds; /* how long it is good, from AT. With less than OBJECTS_CLOCK_S it has ended at once for a store whose clock is
		      * ahead */
	uint64_t at; /* seconds since 1970 */
};

/* Appends the address to RET, which should have a maximum of OBJECTS_ADDRESS_MAX. INVALID_ARGUMENT: the order is wrong. */
int objects_sign(const struct objects_store *s, const struct objects_order *o, struct buf *ret,
		 struct err *e) MUST_CHECK;
