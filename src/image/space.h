/* SPDX-License-Identifier: Apache-2.0 */
/* Where a builder runs steps of a stranger: namespaces of its own for users, processes, mounts, IPC and the host's name, and for the network if
 * it is to have none. Its root is an account that owns nothing on the host: of root's range below, or the user who builds, with the
 * user's range of /etc/subuid. Whatever steps start ends with the first process of the space. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "image/child.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Behind the ranges of monitors (engine/maker/native/monitor/ids.c), in what systemd's page UIDS-GIDS assigns to nobody. */
#define SPACE_IDS_FIRST UINT32_C(2141192192)
#define SPACE_IDS       65536u

struct space_options {
	const char *const *env; /* all variables, NULL-terminated */
	const char *cwd;
	bool no_network;
	uint64_t file_max;      /* bytes of one file; 0 = any */
	unsigned processes_max; /* 0 = any */
};

/* The account of the host that is root in a space; it owns what the builder is to change. (uid_t)-1: the caller itself. */
uid_t space_owner(void);
/* A plain user without a range of sub-uids cannot have one. */
int space_check(struct err *e) MUST_CHECK;
/* Starts ARGV. Its standard output and error come as one, in RET->out. -ENOENT: it is not installed. */
int space_start(const char *const *argv, const struct space_options *o, struct child *ret,
		struct err *e) MUST_CHECK;
