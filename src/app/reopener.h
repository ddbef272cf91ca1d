/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the log and reads the certificate, the settings file and the list of workers again for a server that gave up its privileges.
 *
 * It is a small process that is forked before that, and keeps the rights and the working folder of
 * whoever started the server. It is told no path. What waits for a disk waits there: the server gets
 * the settings as a file in memory, and is told when they come.
 *
 * It also looks every two seconds whether the files of certificates are other ones. Once they have stayed the same for two looks, the server
 * reads them as on SIGHUP, and nothing else. If their disk hangs, it hangs with it, and no question is answered meanwhile: the server goes on
 * with what it has. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <systemd/sd-event.h>

enum reopen {
	REOPEN_LOG = 1, /* the log, open for writing */
	REOPEN_AUTHORITY, /* a memory file with the authority whose certificates clients must have; before the other two */
	REOPEN_CERTIFICATE, /* a memory file with the certificate of the listener with TLS */
	REOPEN_KEY,         /* and one with its key */
	REOPEN_MEMBER_AUTHORITY, /* the same three of the connections that a router makes, in this order */
	REOPEN_MEMBER_CERTIFICATE,
	REOPEN_MEMBER_KEY,
	REOPEN_SETTINGS, /* a memory file with what the settings file holds */
	REOPEN_WORKERS,  /* and one with the workers of a router */
	REOPEN_DONE,     /* nothing more comes; an error: the process has ended */
	REOPEN_CHANGED,  /* of the process alone: certificates are to be asked for */
};

struct reopener_config {
	const char *log;               /* NULL: there is no log file */
	const char *settings;          /* NULL: no file was read */
	const char *certificate, *key; /* NULL: there is no listener with TLS */
	const char *workers;           /* NULL: this is no router */
	const char *authority;         /* NULL: clients need no certificate */
	const char *member_authority, *member_certificate,
	    *member_key;    /* NULL: this is no router */
	bool settings_safe; /* open it only if nobody else can write it (config_file_open()) */
};

struct reopener;

#define REOPENER_FILE_MAX (256u << 10) /* bytes of a certificate or key */
/* A regular file for reading, or -errno. */
int reopener_open(const char *path);

/* Called from the loop: FD is the callee's, or a negative errno. The last call has REOPEN_DONE and 0. */
typedef void (*reopener_fn)(enum reopen what, int fd, void *user);

/* Must be called before there are threads. *RET is NULL if there is nothing to open. */
int reopener_start(const struct reopener_config *c, struct reopener **ret,
		   struct err *e) MUST_CHECK;
/* Asks for all files and returns at once. FN hears of those that the process was started with. While an
 * earlier question has no answer, any number of further ones are one, which is asked after it (1 is returned for the first):
 * it sees what the files are after the last of them. -EPIPE: the process has ended. */
int reopener_ask(struct reopener *r, sd_event *loop, reopener_fn fn, void *user) MUST_CHECK;
/* FN hears of certificates whose files have changed, also without a question: the same as to a question, but without REOPEN_DONE. Later
 * questions need the same FN and USER. */
int reopener_follow(struct reopener *r, sd_event *loop, reopener_fn fn, void *user) MUST_CHECK;
struct reopener *reopener_free(struct reopener *r); /* NULL is fine; FN is not called any more */
