/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/api: figures of the server over the last day, one sample every ten seconds, for the plots
 * of the page. They are kept in memory and begin anew with the server. */
#pragma once

#include "base/err.h"

#include <jansson.h>

struct api;
struct figures;

#define FIGURES_STEP_S  10
#define FIGURES_MINUTES 1440 /* how far they reach back */

/* Begins to take samples in the loop of A, which it reads and which outlives it. */
int figures_new(struct api *a, struct figures **ret, struct err *e) MUST_CHECK;
struct figures *figures_free(struct figures *f); /* NULL is fine */

/* The last MINUTES as {"step_s","at":[unix seconds…],"series":{NAME:[numbers or null…]}}, with at most 361
 * points: of a longer time each point is the mean of several samples. New reference; NULL: no memory. */
json_t *figures_json(const struct figures *f, unsigned minutes);
