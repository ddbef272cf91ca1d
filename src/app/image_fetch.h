/* SPDX-License-Identifier: Apache-2.0 */
/* The server's image, where it is missing and SANDBOX_IMAGE_SOURCE says where it is: the image builder downloads it in
 * the background, and what needs it waits here. */
#pragma once

#include "app/image_builder.h"
#include "sandbox/sandbox.h"

struct image_fetch_config {
	sd_event *loop;                /* borrowed, as are the next two */
	struct image_builder *builder; /* this is its watch from now on */
	const char *image;
	const char *from; /* for people; copied */
	/* Called each second while somebody waits. PROGRESS grows, and is less than that of anything that begins
	 * when the image is there. */
	void (*tell)(void *user, double progress, const char *text);
	void *user;
};

struct image_fetch;

int image_fetch_new(const struct image_fetch_config *c, struct image_fetch **ret,
		    struct err *e) MUST_CHECK;
/* Ends all waits with CANCELLED. NULL is fine; returns NULL. */
struct image_fetch *image_fetch_free(struct image_fetch *f);
/* Downloads the image as soon as the builder is free. */
void image_fetch_begin(struct image_fetch *f);
/* CB is called once, later: E is NULL when IMAGE is there. IMAGE_MISSING: it could not be downloaded, or takes longer than
 * clients wait for an answer; then the download goes on. < 0: this one is not downloaded here. */
int image_fetch_wait(struct image_fetch *f, const char *image, sandbox_done_fn cb, void *arg,
		     struct err *e) MUST_CHECK;
