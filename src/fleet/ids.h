/* SPDX-License-Identifier: Apache-2.0 */
/* Ids that say which worker of a fleet they belong to, so that a router can send a request on without a catalog.
 *
 * A worker has a short id: three digits of base 36, a hash of its name. It stands in every id that the worker makes, followed by a
 * tag of four digits: a MAC over short id and the random rest, with the key of the fleet. Who does not have the key cannot make an id
 * that leads to a worker of its choice; a router answers such an id itself.
 *
 *   session of the sandbox rooms   sess_WWWWTTTTrrrrrrrrrrrr                    12 random digits, as elsewhere
 *   stored sandbox (a UUID)        WWWWTTTT-rrrr-4rrr-vrrr-rrrrrrrrrrrr         90 random bits
 *   run                            run_DATETTIMEZ_wwwttttrrr                    base 36; 3 random digits, as the 4 of 16 elsewhere
 *   session, stream, task of MCP   WWWWTTTTrrrrrrrrrrrrrrrrrrrrrrrr             24 random digits
 *   sandbox of the E2B face        iwwwttttrrrrrrrrrrrr                         base 36; 12 random digits
 *   signature of an artifact link  WWWWTTTTssssssssssssssssssssssss             96 bits of the signature, in the form of a session of MCP
 *   token of an upload link        WWWWTTTTr…                                   56 random digits
 *
 * W is the short id as a hexadecimal number, w the short id itself; T and t are the tag. The form says which kind an id is, and the
 * kind is part of what the MAC covers, so a tag fits one form alone. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLEET_WORKER_SIZE 4   /* three digits and a NUL */
#define FLEET_EPOCH_SIZE  17  /* 64 random bits in hexadecimal */
#define FLEET_NAME_MAX    253 /* bytes of the name of a worker, as of a host name */
#define FLEET_KEY_MIN     32u /* bytes of the file with the key */
#define FLEET_KEY_MAX     4096u
#define FLEET_MARK_DIGITS 8u /* that an id in hexadecimal spends on worker and tag */

struct fleet_key {
	uint8_t bytes[32];
};

/* A worker, as what makes ids knows it. Everywhere NULL means: this server is of no fleet, its ids stay as they are. */
struct fleet_member {
	struct fleet_key key;
	char name[FLEET_NAME_MAX + 1];
	char worker[FLEET_WORKER_SIZE];
	char epoch[FLEET_EPOCH_SIZE]; /* other at each start */
};

/* Reads the key from the file PATH: FLEET_KEY_MIN to FLEET_KEY_MAX bytes, of any kind; all of them count, so the files of all members
 * are the same to the byte. SETTING_INVALID says what is wrong with the file. */
int fleet_key_read(const char *path, struct fleet_key *ret, struct err *e) MUST_CHECK;

/* RET gets the short id of the worker NAME; ret->key is there already. -EINVAL: the name is empty or too long. */
int fleet_member_init(struct fleet_member *ret, const char *name) MUST_CHECK;

/* Turns a fresh random id into one of M, in place and of the same length. Ids of no form above, and all where M is NULL, stay as they
 * are. */
void fleet_id_mark(const struct fleet_member *m, char *id);

/* Has ID one of the forms above, other than that of a token? Names that clients choose often have 64 hexadecimal digits. Other ids were chosen by a client, or were made by a server of no fleet. */
bool fleet_id_has_form(const char *id);
/* Reads the worker from an id. False: it has no such form, or no worker of this fleet made it. */
bool fleet_id_worker(const struct fleet_key *key, const char *id,
		     char ret[FLEET_WORKER_SIZE]) MUST_CHECK;
/* The same of the token of an upload link. */
bool fleet_token_worker(const struct fleet_key *key, const char *token,
			char ret[FLEET_WORKER_SIZE]) MUST_CHECK;
