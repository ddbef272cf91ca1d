/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson stdio` as a bridge to the `caisson serve` of the same user: what both sides say, and the
 * two sides.
 *
 * stdio connects, checks who listens, and sends one hello: its version, what every sandbox depends
 * on (engine, state folder, profile), and each setting that somebody gave it explicitly. The server
 * takes it only when all of that is what it serves anyway, so nothing is ever ignored; a refusal
 * means an engine of one's own.
 *
 * What happens after the answer depends on what standard input and output are. Pipes and sockets
 * (what clients give) go to the server with the hello: it reads and writes them itself, and the
 * connection is only there to say how things end. For terminals and files stdio carries the bytes:
 * the connection itself is the stdio transport. */
#pragma once

#include "app/app.h"
#include "base/buf.h"

#include <stdint.h>

#define BRIDGE_MAGIC     "caisson" /* with its NUL: 8 bytes */
#define BRIDGE_VERSION   1u
#define BRIDGE_BODY_MAX  (64u << 10)
#define BRIDGE_WHY_MAX   240u
#define BRIDGE_BUDGET_NS (20 * NS_PER_MS) /* from the connect to the answer */

/* Descriptors that may come with the first byte of a hello: input and output. */
#define BRIDGE_N_FDS 2u
/* What a client who passed them says to the answer. Before it, not a byte of the input is touched:
 * the client may have given up waiting. */
#define BRIDGE_GO 'g'
/* What a server says at the end of a client whose descriptors it had, when that client, not the
 * server, was at its end. */
#define BRIDGE_BYE 'b'

/* Both are of one machine: native byte order. */
struct bridge_hello {
	char magic[8];
	uint32_t version;
	uint32_t length; /* of the body: `name=value` NUL, any number of times */
};

struct bridge_answer {
	char magic[8];
	uint32_t version;
	uint32_t accepted;
	char why[BRIDGE_WHY_MAX]; /* NUL-terminated; of a refusal */
};

/* ---- words (bridge_hello.c) ---- */

/* Appends head and body of what A has to say. */
int bridge_say_hello(const struct app *a, struct buf *b) MUST_CHECK;
/* May a client that says BODY share the server A? Else WHY (of BRIDGE_WHY_MAX bytes) has the
 * reason.
 */
bool bridge_judge(const struct app *a, const char *body, size_t len, char *why);

/* ---- stdio's side (bridge_client.c) ---- */

/* The descriptor of an accepted connection, or -1 and the reason, in BRIDGE_WHY_MAX bytes: "" when
 * there is no server at all. Waits for nothing longer than the budget. *PASSED: the server has
 * standard input and output. */
int bridge_find(const struct app *a, bool *passed, char *why);
/* Until one side ends. Owns SOCK. */
int bridge_run(int sock, bool passed, struct err *e) MUST_CHECK;

/* ---- serve's side (bridge_server.c, bridge_socket.c) ---- */

/* Where to listen: bound with all privileges, used without. */
struct bridge_socket {
	int fd;   /* listening; -1 = no socket */
	int lock; /* held as long as the socket is ours */
	int dir;
	int keeper; /* pipe to the process that removes the socket, where the server may not */
	pid_t keeper_pid; /* 0 = none */
	uid_t uid;        /* whose clients are taken */
	dev_t dev;
	ino_t ino;
	char path[PATH_MAX];
	char name[NAME_MAX + 1];
};

#define BRIDGE_SOCKET_NONE ((struct bridge_socket){.fd = -1, .lock = -1, .dir = -1, .keeper = -1})

/* Before privileges are given up: the credentials of this moment are what clients will see. A
 * default place that cannot be had means no socket and a WHY (ERR_TEXT_MAX bytes); one that was
 * named fails.
 */
int bridge_socket_open(struct bridge_socket *s, const struct app *a, char *why,
		       struct err *e) MUST_CHECK;
/* Removes the file. */
void bridge_socket_close(struct bridge_socket *s);

struct bridge_server;

int bridge_server_new(struct app *a, struct bridge_socket *socket, struct bridge_server **ret,
		      struct err *e) MUST_CHECK;
/* No new clients; those that are there may finish what is in flight. */
void bridge_server_finish(struct bridge_server *b);
unsigned bridge_server_busy(const struct bridge_server *b);
struct bridge_server *bridge_server_free(struct bridge_server *b);
