/* SPDX-License-Identifier: Apache-2.0 */
/* A manager on the fake engine, with records in memory, for tests of stored sandboxes that leave a server and come to one
 * (sandbox/moving.h). */
#pragma once

#include "manager_world.h"
#include "sandbox/manager.h"
#include "sandbox/moving.h"

#define RECORDS_MAX 4

struct row {
	struct sandbox_record record;
	char env[256];
	char incarnation[MOVING_INCARNATION_SIZE];
	uint32_t epoch;
};

struct world {
	struct manager_world m;
	struct row rows[RECORDS_MAX];
	unsigned n, serial;
	unsigned n_opened, n_removed, n_left;
	struct sandbox_records records;
	struct moving_records moving;
	enum err_code fail_check, fail_arrive, fail_opened;
	/* of the disk, which is slow: a change that is not on it yet */
	bool slow;
	sandbox_done_fn settled;
	void *settled_for;
	char news[32]; /* of the observer: a letter each */
};

int moving_setup(void **state);
int moving_teardown(void **state);
#define MOVING_CASE(name) cmocka_unit_test_setup_teardown(name, moving_setup, moving_teardown)
/* The server ends: everything that is under way is told so. */
void moving_end_manager(struct world *w);
/* What waits for the disk is on it, or E. */
void moving_settle_one(struct world *w, const struct err *e);

struct opened {
	unsigned n;
	struct sandbox *sandbox;
	char id[SANDBOX_ID_MAX + 1];
	enum err_code code;
};

void moving_on_open(struct sandbox *s, const struct err *e, void *user);

struct done {
	unsigned n;
	enum err_code code;
};

void moving_on_done(const struct err *e, void *user);

/* All stored sandboxes come to rest. */
void moving_rest_all(struct world *w);
struct opened moving_create(struct world *w, const char *owner,
			    const struct sandbox_options *options);
/* A stored sandbox of ann that is at rest. */
struct opened moving_resting(struct world *w);
