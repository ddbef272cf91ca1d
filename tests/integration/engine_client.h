/* SPDX-License-Identifier: Apache-2.0 */
/* A blocking face of engine.h for tests: each call turns the loop until its completion came. */
#pragma once

#include "engine/engine.h"

#define TEXT_MAX 65536

struct client {
	sd_event *loop;
	struct engine *engine;
};

struct outcome { /* of one call */
	bool done;
	struct err e;
	struct engine_sandbox *sandbox;
	struct engine_policy policy;
	struct engine_run_result result;
	bool have_result;
	int fd;
	struct engine_usage usage;
	size_t n_files;
	bool more;
	struct engine_file files[64];
	char out[TEXT_MAX];
	char err[TEXT_MAX];
	char value[TEXT_MAX]; /* stateful: result */
	size_t out_len, err_len, value_len;
	uint64_t first_ns; /* when the first byte came, CLOCK_MONOTONIC */
};

extern const struct engine_limits default_limits;
extern bool want_warm; /* of the sandboxes that are made; false at first */

/* What a program of tests begins with: goes on as user AS (0: as whoever started it). False: the
 * image is not there and the output says so. */
bool begin_tests(const char *state_dir, const char *image, uint64_t as);

/* Fails the case when BUDGET_MS pass. */
void turn_until(struct client *c, const bool *done, uint64_t budget_ms);

struct engine_sandbox *make_sandbox(struct client *c, const char *image,
				    const struct engine_limits *l, struct outcome *o);
/* The same with everything that a creation may ask for; NULL: O says why. */
struct engine_sandbox *create_sandbox(struct client *c, const struct engine_create *create,
				      struct outcome *o);
void end_sandbox(struct client *c, struct engine_sandbox *s);
/* Starts; O must live until it is done. */
struct engine_run *start_run(struct engine_sandbox *s, struct engine_run_spec *spec,
			     struct outcome *o);
/* CODE as Python with a timeout of MS (0 = none). */
void run_python(struct client *c, struct engine_sandbox *s, const char *code, uint64_t timeout_ms,
		struct outcome *o);
/* The same in the sandbox's session. */
void run_cell(struct client *c, struct engine_sandbox *s, const char *code, uint64_t timeout_ms,
	      struct outcome *o);
void run_argv(struct client *c, struct engine_sandbox *s, const char *const *argv,
	      struct outcome *o);
int open_path(struct client *c, struct engine_sandbox *s, const char *path, struct outcome *o);
/* Puts TEXT at PATH; 0 or the error code. */
enum err_code put_text(struct client *c, struct engine_sandbox *s, const char *path,
		       const char *text, bool overwrite);
void list_path(struct client *c, struct engine_sandbox *s, const char *path, struct outcome *o);
enum err_code remove_path(struct client *c, struct engine_sandbox *s, const char *path,
			  bool recursive);
void usage_of(struct client *c, struct engine_sandbox *s, struct outcome *o);

/* A failed expectation ends the program with a "not ok" line. */
void expect_at(bool ok, const char *what, const char *file, int line, const struct outcome *o);
#define EXPECT(e)       expect_at((e), #e, __FILE__, __LINE__, NULL)
#define EXPECT_OF(o, e) expect_at((e), #e, __FILE__, __LINE__, (o))
