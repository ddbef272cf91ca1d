/* SPDX-License-Identifier: Apache-2.0 */
/* Where an image comes from, as people write it:
 *
 *   docker://[HOST[:PORT]/]NAME[:TAG][@sha256:HEX]   a registry
 *   docker-daemon:NAME[:TAG]                         the Docker or Podman of this machine
 *   anything else                                    a file or folder
 *
 * A name without a host means what it means to Docker. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "image/oci.h"

#include <stdbool.h>

#define REF_REGISTRY_PREFIX "docker://"
#define REF_DOCKER_HUB      "registry-1.docker.io" /* what docker.io is called there */

#define REF_HOST_MAX 255
#define REF_NAME_MAX 255
#define REF_TAG_MAX  128

enum ref_kind { REF_PATH, REF_REGISTRY, REF_DAEMON };

struct image_ref {
	enum ref_kind kind;
	char host[REF_HOST_MAX + 1]; /* "registry.example:5000"; of a registry */
	char name[REF_NAME_MAX + 1]; /* of a daemon: with its tag */
	char tag[REF_TAG_MAX + 1];
	char digest[OCI_DIGEST_LEN + 1]; /* "" = the tag decides */
};

int image_ref_parse(const char *s, struct image_ref *ret, struct err *e) MUST_CHECK;
/* True if HOST (with or without a port) is this machine: localhost, 127.0.0.0/8, [::1]. */
bool ref_is_loopback(const char *host);
/* True if an image that came from ORIGIN, which a manifest has, is what REF names: the same host, repository, and tag or digest. The end of
 * a name is not enough: docker.io/somebody/python is not python. */
bool image_ref_is_origin(const struct image_ref *ref, const char *origin);
/* True for NAME:TAG without a digest, what an image may be called. */
bool image_ref_is_tagged(const char *s);
