/* SPDX-License-Identifier: Apache-2.0 */
/* What the process that unpacks knows of a layout that another one is still fetching (fetch.h): which parts of it are complete. It
 * shows no progress as long as the other one does. */
#pragma once

#include "image/bundle.h"
#include "image/fetch.h"

struct arrival {
	int pipe; /* borrowed: the reading end of the one that fetch_registry() has */
	const struct image_watch *shown;
	bool there[FETCH_DOCUMENTS + 1];
	bool ended;    /* nobody fetches any more */
	char step[64]; /* the last one, which was not shown if it came before the end */
};

/* For bundle_unpack(); USER is the struct arrival. A part that can no longer come: ERR_IMAGE_INVALID. */
int arrival_wait(void *user, size_t part, struct err *e) MUST_CHECK;
/* What to give to whoever unpacks. A must live as long. */
struct image_watch arrival_watch(struct arrival *a);
