/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of MCP clients on this machine: which are here, what their file is to say, and how it is changed
 * without losing anything of it.
 *
 *   connect_find()      where the file of a client is, and whether the client is here
 *   connect_file_read()  its text
 *   connect_text_set()   the text with our entry; or connect_text_undo()
 *   connect_file_write() replaces the file */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#define CONNECT_FILE_MAX (16u << 20) /* bytes of a configuration file */
#define CONNECT_ARGS_MAX 4

enum client_base { CLIENT_HOME, CLIENT_CONFIG };
enum client_format {
	CLIENT_JSON,
	CLIENT_JSON_LIST, /* JSON, and the command is one list */
	CLIENT_TOML,
};

/* The columns are explained in clients.tbl.h. */
struct client {
	const char *name, *title;
	enum client_base base;
	const char *variable, *folder, *file, *other_file, *servers;
	enum client_format format;
	const char *type_key, *stdio_type, *http_type, *url_key, *before, *after;
};

extern const struct client clients[]; /* the last one has no name */

const struct client *client_by_name(const char *name); /* NULL: there is none */

struct client_place {
	char path[PATH_MAX]; /* of the file */
	bool is_here;        /* the file or the folder of the client exists */
};

/* Looks at HOME, XDG_CONFIG_HOME and the client's own variable. */
int connect_find(const struct client *c, struct client_place *ret, struct err *e) MUST_CHECK;

/* ---- what is written ---- */

/* The server to connect to: URL, or a command. All are borrowed. */
struct connect_target {
	const char *name;                       /* of the entry */
	const char *command;                    /* NULL: by URL */
	const char *args[CONNECT_ARGS_MAX + 1]; /* then NULL */
	const char *url;                        /* NULL: by command */
	const char *key_variable;               /* the variable that holds the key; NULL: no key */
	const char *key; /* its value: written for a client that reads no variable */
};

/* Can C take TARGET? ERR_USAGE says why not. */
int connect_check(const struct client *c, const struct connect_target *target,
		  struct err *e) MUST_CHECK;
/* What a person would paste into the file. */
int connect_snippet(const struct client *c, const struct connect_target *target,
		    struct buf *out) MUST_CHECK;

/* ---- the text ---- */

enum entry_state {
	ENTRY_NONE,
	ENTRY_OURS,  /* it starts Caisson, or leads to the same URL */
	ENTRY_OTHER, /* another server has the name */
};

/* Is there an entry of this name in TEXT? TARGET may have neither command nor URL. -EBADMSG: the text cannot be understood. */
int connect_text_state(const struct client *c, const struct connect_target *target,
		       const char *text, size_t len, enum entry_state *ret) MUST_CHECK;
/* Appends TEXT with the entry to OUT. What else the user wrote into the entry stays. -EBADMSG, -ENOMEM, -ENOBUFS. */
int connect_text_set(const struct client *c, const struct connect_target *target, const char *text,
		     size_t len, struct buf *out) MUST_CHECK;
/* Appends TEXT as it was before the entry. BACKUP is the text before the entry was first written; NULL: there is none.
 * *RET_WHOLE: nothing else was changed since, so OUT is BACKUP. -ENOENT: there is no entry. */
int connect_text_undo(const struct client *c, const char *name, const char *text, size_t len,
		      const struct buf *backup, struct buf *out, bool *ret_whole) MUST_CHECK;

/* ---- the file ---- */

struct connect_file {
	char path[PATH_MAX]; /* symbolic links are followed */
	struct buf text;     /* owned */
	struct stat st;      /* of the file that was read, or of the nearest folder there is */
	bool exists;
};

void connect_file_done(struct connect_file *f);
/* A file that does not exist has no text. Refuses what belongs to another user. */
int connect_file_read(struct connect_file *ret, const char *path, struct err *e) MUST_CHECK;
/* Replaces the file by one with TEXT, mode and owner of the old one; its folder is made if it is missing. Refuses if
 * the file was changed since it was read. With BACKUP the old text is beside it afterwards; an empty backup stands for no file. */
int connect_file_write(const struct connect_file *f, const struct buf *text, bool backup,
		       struct err *e) MUST_CHECK;
/* 1: *RET is the backup beside F; 0: there is none. */
int connect_file_backup(const struct connect_file *f, struct buf *ret, struct err *e) MUST_CHECK;
/* Puts TEXT in place of the file and removes the backup. An empty text removes the file. */
int connect_file_restore(const struct connect_file *f, const struct buf *text,
			 struct err *e) MUST_CHECK;
