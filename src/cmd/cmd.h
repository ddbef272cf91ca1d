/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the command line: one file per verb, one row per verb in main.c's table.
 *
 * A verb gets its own name as argv[0] and returns the exit status of the process (sysexits.h, or
 * the status of the script for `run`). It writes failures as one line on stderr with cmd_fail().
 * All verbs read settings in one way: read_settings() (settings.h), and app_settings() (app.h) where
 * sandboxes or the store are behind it.
 * `--help` anywhere before "--" is answered by main.c: no verb sees it. */
#pragma once

#include "base/err.h"

#include <stdio.h>

int cmd_stdio(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_user(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_help(int argc, char **argv);

/* Verbs with verbs of their own write one line each. */
void cmd_image_usage(FILE *f);
void cmd_user_usage(FILE *f);
void cmd_key_usage(FILE *f);
/* "usage: caisson VERB REST"; lines after the FIRST have blanks in the place of "usage:". */
void cmd_usage_line(FILE *f, bool first, const char *verb, const char *rest);

/* The privileged process of the native engine; started by native_monitor_start() alone and not
 * shown in the help. */
int cmd_monitor(int argc, char **argv);

/* "caisson VERB: message" and the hint of the code, on stderr; returns the code's exit status, so
 * that `return cmd_fail("run", &e)` reads well. */
int cmd_fail(const char *verb, const struct err *e);

/* A wrong command line: the message, where help is, exit status 64. */
int cmd_usage(const char *verb, const char *fmt, ...) PRINTF(2, 3);
