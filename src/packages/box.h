/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox of our own for one piece of work, with one operation at a time. Every operation ends
 * with its callback, which is never called after box_free(). */
#pragma once

#include "base/buf.h"
#include "egress/egress.h"
#include "engine/engine.h"
#include "packages/copy.h"

#include <jansson.h>

struct box;

#define BOX_OUTPUT_MAX 16384u /* the end of what a script writes */

typedef void (*box_fn)(struct box *b, const struct err *e, void *user); /* E NULL = success */

struct box_config {
	sd_event *loop;
	struct engine *engine;
	const struct engine_create *create;
	/* NULL, or what may be reached: CREATE then says `egress`. */
	struct egress *egress;
	struct egress_policy *policy;
	const char *label;
};

/* Makes the sandbox. NULL: nothing will be called, E says why. */
struct box *box_new(const struct box_config *config, box_fn cb, void *user, struct err *e);
/* Kills what runs and removes the sandbox, in its own time. NULL is fine; returns NULL. */
struct box *box_free(struct box *b);

/* Runs SCRIPT with `JOB = ...` in front, made of JOB (owned). Success means that it has ended with
 * status 0; box_output() is what it wrote. */
void box_run(struct box *b, json_t *job, const char *script, uint64_t timeout_ns, box_fn cb,
	     void *user);
const struct buf *box_output(const struct box *b);
/* The object in result.json, at most MAX bytes of it: to box_result() (borrowed until the next
 * operation). What is there is hostile. */
void box_read_result(struct box *b, uint64_t max, box_fn cb, void *user);
const json_t *box_result(const struct box *b);
/* Writes the whole of FD (borrowed) to PATH. With SHA256 the bytes must have it, else nothing is
 * left there. */
void box_put(struct box *b, const char *path, int fd, const char *sha256, box_fn cb, void *user);
/* Copies PATH to FD (borrowed), at most MAX bytes: box_sha256() and box_bytes() tell of them. */
void box_get(struct box *b, const char *path, int fd, uint64_t max, box_fn cb, void *user);
const char *box_sha256(const struct box *b);
uint64_t box_bytes(const struct box *b);
