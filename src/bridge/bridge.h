/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson stdio` as a bridge to the `caisson serve` of the same user: the messages of both sides, and
 * the functions of each side.
 *
 * stdio connects, checks who listens, and sends one hello: its version, what every sandbox depends
 * on (engine, state folder, profile), and each setting that was given explicitly. The server accepts
 * only if its own settings are the same, so no setting is ever ignored. If it refuses, stdio opens an
 * engine of its own.
 *
 * What follows the answer depends on standard input and output. Clients usually give pipes or
 * sockets: those go to the server with the hello, the server reads and writes them itself, and the
 * connection only says how things end. For terminals and files, stdio carries the bytes, and the
 * connection is the stdio transport. */
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
/* A client that passed descriptors confirms the answer with this byte. Until then the server reads
 * nothing of the input, because the client may have given up waiting. */
#define BRIDGE_GO 'g'
/* The server sends this when the client ended, not the server. Only to a client that passed
 * descriptors. */
#define BRIDGE_BYE 'b'

/* Both sides run on one machine: native byte order. */
struct bridge_hello {
	char magic[8];
	uint32_t version;
	uint32_t length; /* of the body: `name=value` NUL, any number of times */
};

struct bridge_answer {
	char magic[8];
	uint32_t version;
	uint32_t accepted;
	char why[BRIDGE_WHY_MAX]; /* why it was refused; NUL-terminated */
};

/* ---- words (bridge_hello.c) ---- */

/* Appends head and body of the hello of A. */
int bridge_say_hello(const struct app *a, struct buf *b) MUST_CHECK;
/* May a client with the hello BODY share the server A? If not, WHY (BRIDGE_WHY_MAX bytes) gets the
 * reason. */
bool bridge_judge(const struct app *a, const char *body, size_t len, char *why);

/* ---- stdio's side (bridge_client.c) ---- */

/* The descriptor of an accepted connection, or -1 with the reason in WHY (BRIDGE_WHY_MAX bytes; "" if
 * there is no server). Waits BRIDGE_BUDGET_NS at most. *PASSED: the server has standard input and
 * output. */
int bridge_find(const struct app *a, bool *passed, char *why);
/* Returns when one side ends. Owns SOCK. */
int bridge_run(int sock, bool passed, struct err *e) MUST_CHECK;

/* ---- serve's side (bridge_server.c, bridge_socket.c) ---- */

/* The listening socket: bound with all privileges, used without. */
struct bridge_socket {
	int fd;   /* listening; -1 = no socket */
	int lock; /* held as long as the socket is ours */
	int dir;
	int remover;       /* pipe to the process that removes the socket, if the server may not */
	pid_t remover_pid; /* 0 = none */
	uid_t uid;         /* clients of this user are accepted */
	dev_t dev;
	ino_t ino;
	char path[PATH_MAX];
	char name[NAME_MAX + 1];
};

#define BRIDGE_SOCKET_NONE ((struct bridge_socket){.fd = -1, .lock = -1, .dir = -1, .remover = -1})

/* Must be called before privileges are given up, because clients see the credentials of this moment.
 * If a default path cannot be used, there is no socket, and WHY (ERR_TEXT_MAX bytes) says why. If the
 * path was set explicitly, that is an error. */
int bridge_socket_open(struct bridge_socket *s, const struct app *a, char *why,
		       struct err *e) MUST_CHECK;
/* Removes the file. */
void bridge_socket_close(struct bridge_socket *s);

struct bridge_server;

int bridge_server_new(struct app *a, struct bridge_socket *socket, struct bridge_server **ret,
		      struct err *e) MUST_CHECK;
/* Accepts no more clients. Calls in flight may finish. */
void bridge_server_finish(struct bridge_server *b);
unsigned bridge_server_busy(const struct bridge_server *b);
struct bridge_server *bridge_server_free(struct bridge_server *b);
