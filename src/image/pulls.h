/* SPDX-License-Identifier: Apache-2.0 */
/* What builds may download: SANDBOX_PULLS. The front judges a reference by it, so that a client learns at once why it is refused. The
 * process that downloads judges again, because the front may have been taken over. */
#pragma once

#include "image/manifest.h"
#include "image/ref.h"

#define IMAGE_PULL_TEXT (REF_HOST_MAX + REF_NAME_MAX + REF_TAG_MAX + OCI_DIGEST_LEN + 8)
/* Begins the names of images that builds have downloaded: SANDBOX_PULLED_IMAGE. The rest is made of the reference and the digest, so none is ever replaced by
 * another one. */
#define IMAGE_PULL_PREFIX "pulled."
/* Begins the names of images that `caisson image build` has downloaded for a Dockerfile. The rest is made of the reference, so whoever writes
 * a FROM cannot take the name of an operator's image. */
#define IMAGE_BASE_PREFIX "from."
#define IMAGE_PULL_SOURCE "pulled" /* in their manifests */
#define IMAGE_PULL_NAME   64
/* After this time the registry is asked whether a tag has another image now. */
#define IMAGE_PULL_AGE_S INT64_C(86400)

/* The line that says that the registry has refused: with the number of seconds in which builds do not ask it for this image again. */
#define IMAGE_PULL_LATER       "the registry is asked again in "
#define IMAGE_PULL_LATER_S     60u   /* unless the registry says how long */
#define IMAGE_PULL_LATER_MAX_S 3600u /* whatever it says */

struct image_pull {
	struct image_ref ref;
	char text
	    [IMAGE_PULL_TEXT]; /* "docker.io/library/python:3.11-slim", the same for all ways to write it */
	bool inside;           /* the registry may have an address inside this network */
};

/* REFERENCE as people write it, also with docker://. ERR_INVALID_ARGUMENT: it is none of a registry. ERR_FORBIDDEN: LIST, which the
 * setting has, does not permit it. */
int image_pull_judge(const char *list, const char *reference, struct image_pull *ret,
		     struct err *e) MUST_CHECK;
/* ERR_SETTING_INVALID: a part of LIST is no pattern. */
int image_pulls_check(const char *list, struct err *e) MUST_CHECK;
/* Whether a build has downloaded it. */
bool image_is_pulled(const struct image_manifest *m);
/* The name of the image with that digest, "sha256:…". */
void image_pull_name(const struct image_pull *p, const char *digest, char ret[IMAGE_PULL_NAME]);
/* The name of an image that a Dockerfile on the command line begins with. */
void image_base_name(const struct image_ref *ref, char ret[IMAGE_PULL_NAME]);
