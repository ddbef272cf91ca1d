/* SPDX-License-Identifier: Apache-2.0 */
/* A question to init about a file, for the files of this folder that ask one. inside_files.c has all but what its neighbours
 * say of themselves. */
#pragma once

#include "engine/front/inside/inside.h"

struct inside_file_op {
	struct list node; /* of the sandbox */
	uint32_t seq;
	enum proto_file_op op;
	uint16_t port; /* CONNECT */
	union {
		engine_fd_fn fd;
		engine_done_fn done;
		engine_list_fn list;
		engine_ports_fn ports;
		engine_stat_fn stat;
	} cb;
	void *user;
	int carried; /* the file that init fills; -1 = init sends one */
	/* An answer in a file, while a thread reads or cuts it: init decides what file it is, and how large. */
	struct engine_sandbox *reads; /* NULL: it has ended, and whoever asked was told */
	int fd;                       /* that init has sent, or -1 */
	struct proto_init_filed answer;
	struct engine_file *files; /* read; owned */
	struct engine_stat *stat;  /* the same */
	int r;                     /* 0, or -errno; -EPROTO: the answer is a lie */
	char path[];               /* for error texts */
};

/* Asks init. NUMBER: of the put for COMMIT and DROP, the port for CONNECT. *RET is there until its answer; the caller sets
 * who is told. */
int inside_file_ask(struct engine_sandbox *s, enum proto_file_op op, uint32_t flags,
		    uint32_t number, const char *path, struct inside_file_op **ret,
		    struct err *e) MUST_CHECK;

/* The same with the message M of number SEQ; TEXT names its files in errors. */
int inside_file_send(struct engine_sandbox *s, enum proto_file_op op, uint32_t seq, uint32_t number,
		     const char *text, const struct proto_head *m, struct inside_file_op **ret,
		     struct err *e) MUST_CHECK;
/* The bits of the protocol for bits ENGINE_FILE_*. */
static inline uint32_t inside_file_flags(unsigned how)
{
	return (how & ENGINE_FILE_OVERWRITE ? PROTO_FILE_OVERWRITE : 0u) |
	       (how & ENGINE_FILE_USERS ? PROTO_FILE_USERS : 0u);
}
int inside_file_bad_path(struct err *e); /* INVALID_PATH */

/* inside_names.c: reads the answer to STAT from FD, which is small and in memory. -ENOMEM; -EPROTO: a lie. */
int inside_read_stat(int fd, const char *path, struct engine_stat **ret) MUST_CHECK;
/* What the answers to STAT, MAKE and MOVE say with ERRNUM where other questions mean something else. False: nothing. */
bool inside_names_error(const struct inside_file_op *o, int errnum, struct err *e);

/* inside_ports.c: 0, or -EPROTO: it is no socket of TCP. */
int inside_check_socket(int fd) MUST_CHECK;
/* The answer to PORTS. -EPROTO: a lie. */
int inside_finish_ports(struct inside_file_op *o, const struct proto_init_filed *m,
			const struct err *e, const int *fds, size_t n) MUST_CHECK;
