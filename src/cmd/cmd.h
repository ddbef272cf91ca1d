/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the command line: one file per verb, one row per verb in the table of verbs.c.
 *
 * A verb gets its own name as argv[0] and returns the exit status of the process: one of sysexits.h,
 * or for `run` the status of the script. It reports a failure as one line on stderr with cmd_fail().
 * Verbs that use sandboxes or the store read their settings with app_settings() (app/app.h), the
 * others with read_settings() (app/read_settings.h).
 * main.c answers `--help` before "--", so no verb sees it. */
#pragma once

#include "base/err.h"

#include <stdio.h>

int cmd_stdio(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_backup(int argc, char **argv);
int cmd_restore(int argc, char **argv);
int cmd_move_users(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_user(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_connect(int argc, char **argv);
int cmd_upgrade(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_help(int argc, char **argv);

/* image.c: the folder of the image definitions: SANDBOX_IMAGE_DEFS, else share/caisson/images beside the program or
 * beside the folder that it is in, if that belongs to root or to the program's owner, so that both can be moved
 * together; else where `make install` puts it. Valid until the next call. */
const char *cmd_image_defs(void);

/* The usage line of each command of a verb, for the table of verbs. NULL after the last one. */
const char *cmd_image_command(size_t i);
const char *cmd_user_command(size_t i);
const char *cmd_key_command(size_t i);

/* The privileged process of the native engine. Only native_monitor_start() starts it; the help does
 * not show it. */
int cmd_monitor(int argc, char **argv);
int cmd_keeper(int argc, char **argv);

/* Writes "caisson VERB: message" and the hint of the error code to stderr. Returns the exit status of
 * the code, for `return cmd_fail("run", &e)`. */
int cmd_fail(const char *verb, const struct err *e);

/* Reports a wrong command line: the message, and where to find help. Returns exit status 64. */
int cmd_usage(const char *verb, const char *fmt, ...) PRINTF(2, 3);

/* Says that WORD, an option or argument of VERB, is unknown, and what was probably meant. */
int cmd_unknown(const char *verb, const char *word, struct err *e);
/* Says the same of WORD (NULL: there was none) as a command of VERB, and shows its commands. Returns
 * exit status 64. */
int cmd_no_command(const char *verb, const char *word);
