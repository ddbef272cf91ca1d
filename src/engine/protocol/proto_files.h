/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between front and init about files. */
#pragma once

#include "engine/protocol/proto_head.h"

enum proto_file_op {
	PROTO_FILE_OPEN = 1, /* answer: a descriptor to read */
	PROTO_FILE_PUT,      /* answer: a descriptor to write */
	PROTO_FILE_COMMIT,
	PROTO_FILE_DROP, /* forget a put */
	PROTO_FILE_REMOVE,
	PROTO_FILE_LIST,    /* answer: a memfd of struct proto_entry */
	PROTO_FILE_MEASURE, /* answer: bytes and inodes of the workspace */
	PROTO_FILE_CONNECT, /* no file: answer: a socket that is, or is being, connected to `port` of loopback */
	PROTO_FILE_PORTS, /* no file: answer: a memfd of struct proto_port */
	PROTO_FILE_STAT,  /* answer: a memfd of one struct proto_stat */
	PROTO_FILE_MAKE,  /* a folder, with those above it; EEXIST: something has the name */
	PROTO_FILE_MOVE,  /* the front's own word for INIT_MOVE */
	PROTO_FILE_SET,   /* the same for INIT_SET */
	PROTO_FILE_OP_MAX_,
};
enum {
	PROTO_FILE_OVERWRITE = 1,
	PROTO_FILE_RECURSIVE = 2,
	PROTO_FILE_USERS = 8, /* of what makes: it is the user's, also in a folder of the image */
	PROTO_FILE_ATTRIBUTES = 4, /* LIST: say which files have any; it costs an open(2) of each */
};
/* Descriptor, if `inward`: OPEN, LIST, STAT: an empty file, which init fills instead of sending one; COMMIT: the
 * content. */
struct proto_init_file {
	struct proto_head head;
	uint32_t seq;
	uint32_t op;
	uint32_t flags;
	uint32_t put;  /* COMMIT, DROP: `seq` of the PUT */
	uint32_t port; /* CONNECT: 1 to 65535; else 0 */
	uint32_t pad;
	char path[PROTO_PATH_MAX]; /* proto_path_ok(); "" = the workspace, "/" = the root */
};

enum {
	PROTO_MEASURED_PACKAGES = 1, /* it has packages of its own */
	PROTO_MEASURED_CLOSED = 2,   /* it takes no more data, for want of space on the host */
};
struct proto_init_filed {
	struct proto_head head;
	uint32_t seq;
	int32_t errnum; /* 0 = done */
	uint32_t n;     /* LIST, PORTS, STAT: entries in the memfd */
	uint32_t more;  /* LIST: there were more; MEASURE: bits PROTO_MEASURED_* */
	uint64_t bytes; /* MEASURE; OPEN, if `inward` */
	uint64_t inodes;
	int64_t mtime_ns; /* OPEN, if `inward` */
};

#define PROTO_ATTRIBUTES_MAX 4096

struct proto_entry {
	uint64_t size;
	int64_t mtime_ns;
	int64_t ctime_ns;
	uint64_t inode;
	uint32_t mode;
	uint32_t nlink;
	uint32_t uid, gid; /* as the sandbox counts them */
	uint32_t
	    attributes; /* LIST with PROTO_FILE_ATTRIBUTES: 1 = it has some; STAT: their bytes */
	uint32_t pad;
	char name[PROTO_NAME_MAX];
};

struct proto_stat {
	struct proto_entry entry; /* its name is "" */
	uint64_t target_size;
	uint32_t target_mode; /* of a link: of what it leads to in the end; 0 = nothing */
	uint32_t pad;
	char target[PROTO_PATH_MAX]; /* the text of a link; else "" */
	char
	    attributes[PROTO_ATTRIBUTES_MAX]; /* of a file or folder, as in struct proto_init_set */
};

/* Sets extended attributes of a file: names that begin with `user.`, and values, in turn, each with a NUL at its end. Others that
 * it has stay. Answer: INIT_FILED. ENOTSUP: the file system has none. */
struct proto_init_set {
	struct proto_head head;
	uint32_t seq;
	uint32_t bytes; /* of `attributes` */
	char path[PROTO_PATH_MAX];
	char attributes[PROTO_ATTRIBUTES_MAX];
};

/* Gives a file or folder another name; makes the folders above it. Answer: INIT_FILED. EEXIST: the name is taken, EXDEV: FROM
 * and TO are in different places (runtime/init/file_places.h), EINVAL: a folder would be in itself. */
struct proto_init_move {
	struct proto_head head;
	uint32_t seq;
	uint32_t
	    flags; /* OVERWRITE: replaces a file, or an empty folder by a folder; USERS: of folders above TO */
	char from[PROTO_PATH_MAX], to[PROTO_PATH_MAX];
};

#define PROTO_PORTS_MAX 256 /* those with the smallest numbers */
struct proto_port {
	uint32_t port; /* that something listens on, at an address that loopback reaches */
	uint32_t pid; /* one of the processes that do, as the sandbox numbers them; 0 = not known */
	char name[16]; /* of that process: proc(5), comm; any bytes, ends with NUL */
};

/* Whether a path may be "" or "/". */
static inline bool proto_file_may_be_empty(uint32_t op)
{
	return op >= PROTO_FILE_LIST;
}
