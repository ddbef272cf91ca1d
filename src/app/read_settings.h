/* SPDX-License-Identifier: Apache-2.0 */
/* How every verb reads its settings. */
#pragma once

#include "config/settings.h"
#include "engine/levels.h"

#define READ_HOST_SIZE 256

/* Fills in S from defaults, then the file, the environment and the flags in ARGV. Other arguments
 * stay in ARGV for the verb. The caller calls settings_done() also after a failure.
 *
 * The file is the one of `--config FILE`. Without that flag and if FILE_IN_CWD, it is ./config.toml
 * if nobody else can write it. `stdio` and `run` do not look for it: they are started in folders of
 * projects that may have a config.toml of their own. */
int read_settings(struct settings *s, bool file_in_cwd, int *argc, char **argv,
		  struct err *e) MUST_CHECK;

/* Where `serve` listens: `server.listen`, or the second tool family's two settings if only those were
 * set. */
int read_server_address(const struct settings *s, char ret_host[READ_HOST_SIZE], uint16_t *ret_port,
			struct err *e) MUST_CHECK;

/* The levels of isolation that S names for ENGINE, which is an engine and not "auto". SETTING_INVALID: a setting has
 * a fault, or this engine has one level only. */
int read_levels(const struct settings *s, const char *engine, struct engine_levels *ret,
		struct err *e) MUST_CHECK;
