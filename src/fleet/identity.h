/* SPDX-License-Identifier: Apache-2.0 */
/* Who a request is from, as a router tells a worker: the value of the header Caisson-Caller, base64url (no padding) of a JSON object.
 *
 *   {"v":1, "owner":"UUID, or empty for the local user", "name":"ada", "admin":false, "read_only":false, "profile":"",
 *    "key_id":"UUID or empty", "signin":"UUID or empty", "version":"", "how":"key", "until_ms":0, "expires_ms":0,
 *    "limits":{"sandboxes":-1, "cpu_s_per_day":-1, "disk_bytes":-1, "runs_per_minute":-1},
 *    "elsewhere":{"sandboxes":0, "disk_bytes":0, "day":0, "cpu_us":0, "minute":0, "runs":0}}
 *
 * All members must be there, and no others: a member that an older worker does not know may be one that narrows rights, so it is
 * refused and not ignored. Workers are upgraded before their routers, so "signin" and "version", which older routers do not send, may
 * be missing. So may "elsewhere", what the owner has at other workers (fleet/tally.h): what was said last holds then. The address of the client and the address by which it finds the
 * server are not here; they are in the X-Forwarded-* headers, as those of any proxy. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "fleet/tally.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLEET_CALLER_HEADER "caisson-caller"
#define FLEET_HEADER_PREFIX "caisson-" /* a router removes what clients send of these */

/* For APIs of other systems (src/faces), whose answers have no place for what a router needs to know. With the first one a router asks
 * for its part of a list: an object with "next" and rows that have a "seq", as the lists of our own API. With the second one a worker
 * says the code of an error. */
#define FLEET_LIST_HEADER  "caisson-list"
#define FLEET_ERROR_HEADER "caisson-error"

#define FLEET_UUID_SIZE     37u
#define FLEET_USER_SIZE     256u /* of a user's name */
#define FLEET_PROFILE_SIZE  32u
#define FLEET_VERSION_SIZE  17u
#define FLEET_CALLER_MAX    6144u                      /* characters of the header's value */
#define FLEET_CALLER_TEXT   (FLEET_CALLER_MAX / 4 * 3) /* bytes of the object in it */
#define FLEET_NUMBER_MAX    (INT64_C(1) << 53)
#define FLEET_LIMIT_DEFAULT (-1) /* the setting of the worker */

enum fleet_how {
	FLEET_HOW_LOCAL,  /* no credential, and the router requires none */
	FLEET_HOW_STATIC, /* the static key of the router */
	FLEET_HOW_KEY,
	FLEET_HOW_TOKEN,
	FLEET_HOW_SIGNIN,
	FLEET_HOW_MAX_,
};

struct fleet_identity {
	char owner
	    [FLEET_UUID_SIZE]; /* "" = the local user: with FLEET_HOW_LOCAL and _STATIC, and only with these */
	char name[FLEET_USER_SIZE];
	bool admin;
	bool read_only;
	char profile[FLEET_PROFILE_SIZE]; /* "" = all of the server's */
	char key_id[FLEET_UUID_SIZE];     /* of FLEET_HOW_KEY, and only of it */
	char signin
	    [FLEET_UUID_SIZE]; /* of a browser, with FLEET_HOW_SIGNIN, _KEY or _STATIC; no secret */
	char version
	    [FLEET_VERSION_SIZE]; /* of FLEET_HOW_TOKEN: of the password; of _STATIC: of the key; "" = not known */
	enum fleet_how how;
	uint64_t until_ms;   /* end of the credential; 0 = none */
	uint64_t expires_ms; /* of the key; 0 = never */
	/* Quotas of the user; FLEET_LIMIT_DEFAULT or 0 and more. */
	int64_t sandboxes, cpu_s_per_day, disk_bytes, runs_per_minute;
	bool says_elsewhere;
	struct fleet_use elsewhere; /* with SAYS_ELSEWHERE */
};

/* The value of the header in RET, FLEET_CALLER_MAX + 1 bytes. -EINVAL: ID is none that fleet_identity_read() takes; -ENOMEM. */
int fleet_identity_write(const struct fleet_identity *id, char *ret) MUST_CHECK;
/* Strict; IDENTITY_INVALID names the member that is wrong, never its value. */
int fleet_identity_read(const char *text, struct fleet_identity *ret, struct err *e) MUST_CHECK;

/* ---- credentials that end ----
 *
 * What names a credential, with its rights, is the part of the identity without name, times and limits:
 *   {"owner", "admin", "read_only", "profile", "key_id", "signin", "version", "how"}
 * For routers a worker has
 *   GET /fleet/credentials   {"v":1, "credentials":[those of what is open there], "next":"16 hexadecimal digits"}; with "next" there
 *                            are more, which come with ?after=NEXT
 *   POST /fleet/ended        {"v":1, "owners":[UUIDs of users who are not active], "credentials":[those that have ended]}: what these
 *                            have open ends, as where their revocation is noticed. 204 */
#define FLEET_ENDED_MAX  256u /* elements of a list */
#define FLEET_AFTER_SIZE 17u

/* NULL: no memory. */
json_t *fleet_credential_json(const struct fleet_identity *id);
/* As strict as fleet_identity_read(), with the same error. */
int fleet_credential_read(const json_t *value, struct fleet_identity *ret,
			  struct err *e) MUST_CHECK;
bool fleet_is_uuid(const char *s);
