/* SPDX-License-Identifier: Apache-2.0 */
/* The opener: a small process that keeps the privileges of the user who started the program, while
 * the rest of the program gives them up. It has one purpose: to open files of this machine below the
 * folders that `upload.local_roots` names. It parses nothing but a path, resolves the path with
 * openat2(2) below a folder that it opened at the start, and hands out regular files for reading, or the
 * names of the files in a folder. It
 * ends with the program. */
#pragma once

#include "base/err.h"
#include "tools/tools.h"

#include <systemd/sd-event.h>

struct opener;

/* ROOTS: folders separated by ':', relative to the working directory. "*" alone means any path, ""
 * means no opener (*RET is NULL). Must be called with privileges and before there are threads. */
int opener_start(const char *roots, struct opener **ret, struct err *e) MUST_CHECK;
int opener_attach(struct opener *o, sd_event *loop) MUST_CHECK; /* NULL is fine */
/* Requests without an answer get CANCELLED. NULL is fine; returns NULL. */
struct opener *opener_free(struct opener *o);

/* For tools_config.open_local and list_local. */
int opener_open(void *opener, const char *path, tools_local_fn cb, void *user,
		struct err *e) MUST_CHECK;
int opener_list(void *opener, const char *path, tools_local_fn cb, void *user,
		struct err *e) MUST_CHECK;
