/* SPDX-License-Identifier: Apache-2.0 */
/* Images that builds begin with and that this server does not have: SANDBOX_PULLS permits which may be downloaded. One is downloaded at a
 * time, by a process of its own; others wait, and users take turns. Builds that want the same one wait for the same download. Loop
 * only. */
#pragma once

#include "build/builds.h"
#include "image/pulls.h"

#define DOWNLOADS_MAX       32u /* that wait or go on */
#define DOWNLOADS_OWNER_MAX 8u  /* of one user */

_Static_assert(IMAGE_PULL_TEXT <= BUILD_REFERENCE_MAX, "each reference is kept");

struct build_download {
	struct list node; /* of builds.downloads */
	struct builds *builds;
	char owner[SANDBOX_OWNER_MAX + 1];
	char text[BUILD_REFERENCE_MAX];
	/* A line for the log of the build. */
	void (*line)(const char *text, size_t len, void *user);
	void (*end)(const struct err *e, void *user);
	void *user;
};

struct build_download_spec {
	const char *owner;
	const char *reference; /* as the client wrote it */
	void (*line)(const char *text, size_t len, void *user);
	/* Called once unless it is dropped, and the download is gone. E NULL: what build_images.shared() tells after another look has the
	 * image. */
	void (*end)(const struct err *e, void *user);
	void *user;
};

/* END is not called before it has returned. ERR_FORBIDDEN: it is not permitted. ERR_IMAGE_MISSING: the registry has refused it a moment
 * ago, and is not asked again yet. */
int build_download_start(struct builds *b, const struct build_download_spec *spec,
			 struct build_download **ret, struct err *e) MUST_CHECK;
/* Nobody waits any more; what is downloaded for nobody else is stopped. NULL is fine; returns NULL. */
struct build_download *build_download_drop(struct build_download *d);

/* The image that was downloaded as REFERENCE and need not be looked up again. RET has ENGINE_NAME_MAX bytes. False: there is none, or
 * builds may not download it. */
bool build_download_find(const struct builds *b, const char *reference, char *ret);
/* Whether builds may download REFERENCE: SANDBOX_PULLS. */
bool build_download_may(const struct builds *b, const char *reference);

/* For builds_new() and builds_free(). */
void build_downloads_init(struct builds *b);
void build_downloads_done(struct builds *b);
