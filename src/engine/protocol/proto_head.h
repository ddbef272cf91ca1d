/* SPDX-License-Identifier: Apache-2.0 */
/* What all messages of proto.h have in common: bounds, types, the head, and the limits of a sandbox. */
#pragma once

#include "base/walls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTO_VERSION         1
#define PROTO_FDS_MAX         8    /* descriptors of one message */
#define PROTO_IMAGE_MAX       208  /* ENGINE_NAME_MAX */
#define PROTO_PATH_MAX        4096 /* ENGINE_PATH_MAX */
#define PROTO_NAME_MAX        256
#define PROTO_PERSIST_MAX     65         /* [a-z0-9-]{1,64} and NUL */
#define PROTO_LEVELS_MAX      8          /* ENGINE_LEVELS_MAX */
#define PROTO_RUNTIME_MAX     64         /* ENGINE_RUNTIME_SIZE */
#define PROTO_LIST_MAX        10000      /* ENGINE_FILES_MAX */
#define PROTO_ARGS_MAX        (1u << 20) /* bytes of a run's cwd, argv and environment together */
#define PROTO_ARG_MAX         512        /* strings of argv, and of the environment */
#define PROTO_PUTS_MAX        256        /* files being written at once */
#define PROTO_CHECKPOINTS_MAX 10         /* ENGINE_CHECKPOINTS_MAX */

/* Bounds of the limits; both ends check them. */
#define PROTO_MEMORY_MIN (UINT64_C(4) << 20)
#define PROTO_MEMORY_MAX (UINT64_C(1) << 44)
#define PROTO_CPU_MIN    10u /* thousandths of a core */
#define PROTO_CPU_MAX    1024000u
#define PROTO_PIDS_MIN   1u
#define PROTO_PIDS_MAX   1000000u
#define PROTO_DISK_MIN   (UINT64_C(64) << 10)
#define PROTO_DISK_MAX   (UINT64_C(1) << 44)
#define PROTO_INODES_MIN 16u
#define PROTO_INODES_MAX 100000000u
#define PROTO_NOFILE_MIN 16u
#define PROTO_NOFILE_MAX 1048576u
#define PROTO_SLOTS_MAX  60000u /* sandboxes of one monitor; also bounds the uids */

enum proto_type {
	PROTO_NONE = 0,
#define M(name, from, to, type, fds, served, what) PROTO_##name,
#include "engine/protocol/messages.tbl.h"
#undef M
	PROTO_TYPE_MAX_,
};

enum proto_step {
#define S(name, what) PROTO_STEP_##name,
#include "engine/protocol/steps.tbl.h"
#undef S
	PROTO_STEP_MAX_,
};

enum proto_cap { /* enum engine_cap, for makers */
#define C(name, bit, native, docker, needs) PROTO_CAP_##name = 1 << (bit),
#include "engine/protocol/caps.tbl.h"
#undef C
};

#define PROTO_SAID_MAX 400 /* bytes, with the NUL: the last words of a zygote */

enum proto_party { PROTO_PARTY_F = 1, PROTO_PARTY_M, PROTO_PARTY_I };

struct proto_head {
	uint32_t type; /* enum proto_type */
	uint32_t size; /* of the whole message */
};

struct proto_limits { /* the part of struct engine_limits that monitor and init enforce */
	uint64_t memory_bytes;
	uint64_t workspace_bytes;
	uint64_t tmp_bytes;
	uint32_t cpu_milli;
	uint32_t pids;
	uint32_t workspace_inodes;
	uint32_t nofile;
	uint32_t pids_most; /* the most that `pids` may be raised to later; 0 = `pids` */
	uint32_t pad;
};
