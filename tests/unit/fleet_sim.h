/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet in simulated time, with the placement of the product (fleet/router/place.h): routers that look at workers once a second,
 * workers with cores and places, claims, a worker that is cut off. The same seed gives the same result. */
#pragma once

#include <stdint.h>

struct sim_config {
	unsigned workers, routers, places; /* PLACES: sandboxes that a worker may have */
	unsigned full;                     /* so many workers have no place free at the beginning */
	unsigned claims;
	double rate;      /* claims a second, of all routers */
	double life_s;    /* of a sandbox, on average; 0: they stay */
	double service_s; /* of one core for a claim, on average */
	double cut_s;     /* when one worker is cut off; 0: none is */
	uint64_t seed;
};

struct sim_result {
	unsigned placed, refused;
	unsigned refused_with_room; /* of these, while a worker had a place free */
	unsigned lost;              /* claims that were sent to the one that was cut off */
	unsigned retries;           /* workers that said that they are full */
	double p50_ms, p99_ms;      /* from the client's request to its answer */
	double imbalance;           /* the fullest worker to the average, when most are there */
	double cut_known_s;         /* after the cut, until no router sends anything there */
};

/* The time of a hop between client, router and worker. */
#define SIM_HOP_S 0.0005

/* Ends the program without memory. */
struct sim_result sim_run(const struct sim_config *config);
