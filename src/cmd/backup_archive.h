/* SPDX-License-Identifier: Apache-2.0 */
/* The file of `caisson backup`: a compressed tar with these entries, in this order.
 *
 *   caisson-backup     the version of this form
 *   caisson.db         the database as it was at one moment
 *   workspaces/KEY.img of root: the disk of a stored sandbox, sparse
 *   workspaces/KEY/…   of a plain user: its folder, with the ids that the files have in its user namespace
 *   containers/KEY/…   of an engine on containers: its folder
 *   left-out/KEY       the files of this sandbox are not in the backup, whatever came before
 *   end                digest of all names and data before; a file without it was cut off
 *
 * A workspace that changed while it was read is written again, and the last one counts. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <archive.h>
#include <archive_entry.h>
#include <sodium.h>
#include <stdbool.h>

#define BACKUP_FIRST    "caisson-backup"
#define BACKUP_FORM     "1\n"
#define BACKUP_DB       "caisson.db"
#define BACKUP_DISK     ".img"
#define BACKUP_LEFT_OUT "left-out/"
#define BACKUP_END      "end"
#define BACKUP_BLOCK    (256u << 10)
#define BACKUP_SUM_SIZE (2 * crypto_hash_sha256_BYTES + 1)

/* A run may make any tree. What is deeper is not in a backup. */
#define BACKUP_DEPTH_MAX 128u

/* Where a kind of server keeps the files of stored sandboxes. One kind cannot use those of another. */
struct backup_place {
	const char *name;   /* of the folder in the backup */
	const char *folder; /* in the state folder */
	unsigned mode;      /* of that folder */
	bool disks;
	const char *server;
};
/* That of this server, who runs as this process does. */
const struct backup_place *backup_place(const char *engine);
/* The one that another setting of the engine would have. */
const struct backup_place *backup_other_place(const char *engine);
/* That of the entry NAME; NULL: it is no file of a sandbox. REGULAR: it is a file, no folder and no link. */
const struct backup_place *backup_place_of(const char *name, bool regular);

struct backup_out {
	struct archive *archive;
	struct archive_entry *entry; /* the one that is being made */
	crypto_hash_sha256_state sum;
	char *block; /* BACKUP_BLOCK bytes */
};

int backup_out_open(struct backup_out *o, int fd, struct err *e) MUST_CHECK;
/* Clears o->entry and gives it a name, a type and the rights MODE. */
void backup_out_name(struct backup_out *o, const char *name, unsigned type, unsigned mode);
/* Writes the head of o->entry. */
int backup_out_head(struct backup_out *o, struct err *e) MUST_CHECK;
/* The data of o->entry from FD, whose holes it knows as well. */
int backup_out_file(struct backup_out *o, int fd, struct err *e) MUST_CHECK;
int backup_out_text(struct backup_out *o, const char *name, const char *text,
		    struct err *e) MUST_CHECK;
/* The last entry, and everything that was not written yet. */
int backup_out_end(struct backup_out *o, struct err *e) MUST_CHECK;
void backup_out_done(struct backup_out *o);

/* What the digest has of each entry: its name, then its data. */
void backup_sum_name(crypto_hash_sha256_state *sum, const char *name);
void backup_sum_text(const crypto_hash_sha256_state *sum, char ret[BACKUP_SUM_SIZE]);

/* backup_workspace.c: writes the workspace KEY in DIR, the folder of PLACE, if it has one. 1: it changed all the time, and is left out. */
int backup_workspace(struct backup_out *o, const struct backup_place *place, int dir,
		     const char *key, struct err *e) MUST_CHECK;
/* Lets this process read and make what the sandboxes of a plain user own. For root nothing. */
void backup_become_owner(void);
