/* SPDX-License-Identifier: Apache-2.0 */
/* The opener: a small process that keeps the rights of whoever started the program, when the rest
 * gives them up, for one purpose: to open files of this machine beneath the folders that
 * `upload.local_roots` names. It parses nothing but a path, resolves it with openat2(2) beneath a
 * folder that it opened at the start, hands out regular files for reading, and ends with the
 * program. */
#pragma once

#include "base/err.h"
#include "tools/tools.h"

#include <systemd/sd-event.h>

struct opener;

/* ROOTS: folders separated by ':', relative ones to the working folder; "*" alone = any path; "" =
 * no opener (*RET is NULL). Call it while the rights are there, single-threaded. */
int opener_start(const char *roots, struct opener **ret, struct err *e) MUST_CHECK;
int opener_attach(struct opener *o, sd_event *loop) MUST_CHECK; /* NULL is fine */
/* Open questions are answered with CANCELLED. NULL is fine; returns NULL. */
struct opener *opener_free(struct opener *o);

/* For tools_config.open_local. */
int opener_open(void *opener, const char *path, tools_local_fn cb, void *user,
		struct err *e) MUST_CHECK;
