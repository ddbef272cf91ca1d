/* SPDX-License-Identifier: Apache-2.0 */
/* The one way in which every verb reads its settings. */
#pragma once

#include "config/settings.h"

#define CMD_HOST_SIZE 256

/* Fills in S, which settings_done() frees in any case: defaults, then the file, the environment and
 * the flags of ARGV; what is left in ARGV is the verb's. The file is that of `--config FILE`;
 * without it, where FILE_IN_CWD, ./config.toml if it is there and nobody else can write it. `stdio`
 * and `run` leave that out: they are started in folders whose config.toml is somebody else's. */
int cmd_settings(struct settings *s, bool file_in_cwd, int *argc, char **argv,
		 struct err *e) MUST_CHECK;

/* Where `serve` listens: `server.listen`, or the second family's two settings when only they were
 * given. */
int cmd_server_address(const struct settings *s, char ret_host[CMD_HOST_SIZE], uint16_t *ret_port,
		       struct err *e) MUST_CHECK;
