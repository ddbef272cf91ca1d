/* SPDX-License-Identifier: Apache-2.0 */
/* Images: root file systems with a Python, built from signed packages or imported from an archive.
 *
 * Everything here is for the command line: it blocks, starts programs and may take minutes. An
 * engine needs none of it. It opens <state-dir>/images/NAME/root; image_store.h says how to hold
 * that. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "image/def.h"
#include "image/dockerfile.h"
#include "image/image_store.h"
#include "image/manifest.h"

#include <stdbool.h>
#include <stdint.h>

/* Free space that a build needs: for the tree, the copy that it is unpacked from, and the package
 * archives. */
#define IMAGE_BUILD_SPACE (UINT64_C(3) << 30)

/* Progress of the work: `done` of `total` (0 = unknown) within the step. */
struct image_watch {
	void (*step)(void *user, const char *text);
	void (*tick)(void *user, const char *text, uint64_t done, uint64_t total);
	void (*warn)(void *user, const char *text);
	void *user;
	int cancel_fd; /* when it becomes readable, the work stops and cleans up; -1 = cannot be
		        * cancelled */
};

/* Where the wheels of a definition come from. */
struct image_index {
	const char *url;       /* the simple page of a package index */
	const char *wheel_dir; /* a folder of wheels that is used instead; "" = none */
	int ca_fd;             /* certificates for the index, PEM; borrowed; -1 = the image's own */
};

struct image_build_options {
	const char *mirror; /* NULL: the mirror that this machine's apt uses */
	/* "arm64": for another machine, whose programs have to run here (an emulator in binfmt_misc). NULL = this one. */
	const char *architecture;
	struct image_index index;
};

/* Builds DEF and installs it under its name. If it fails, the store is unchanged, and the log of
 * the package tools is at <images>/.NAME.log. */
int image_build(const struct image_store *s, const struct image_def *def,
		const struct image_build_options *o, const struct image_watch *w,
		struct image_manifest *ret, struct err *e) MUST_CHECK;

/* For an image that a client has named (pulls.h): there are no logins of the operator, and nothing inside this network is asked. Nothing
 * stays of an import that failed. */
struct image_import_rules {
	bool inside;        /* but the registry itself may be inside */
	uint64_t max_bytes; /* of its layers, and of the image */
	const char *known;  /* digest of which nothing is fetched; NULL = none */
	/* The digest is known, and nothing of the image is there. RET gets its name. 1: that image is there, and the import ends with 1. */
	int (*name)(void *user, const char *digest, char ret[IMAGE_NAME_MAX + 1]);
	void *user;
};

struct image_import_options {
	const struct image_import_rules *rules; /* NULL: the operator has named it */
	const char *tag;                        /* which image of an archive; NULL = the only one */
	const char *ca_file; /* certificates to trust for a registry, PEM; NULL = the system's */
	bool plain_http;     /* asks a registry that is not on loopback without TLS */
	const char
	    *keys; /* signature.h: one of them must have signed the image of a registry; "" or
			      * NULL = nothing is checked */
	const char
	    *source_name; /* what the manifest says that the image is from; NULL = what was read */
};

/* SOURCE: an image of a registry or of this machine's Docker (ref.h), an OCI layout (folder or tar),
 * an archive of `docker save`, a tar of a root file system, each tar also compressed with gzip, zstd
 * or xz, or a folder with a root file system. Nothing in it can do harm (unpack.h), and a process
 * without rights reads it (worker.h).
 * ERR_IMAGE_INVALID: it is damaged, or tries something. ERR_IMAGE_UNSUITABLE: it is made for another
 * machine. */
int image_import(const struct image_store *s, const char *name, const char *source,
		 const struct image_import_options *o, const struct image_watch *w,
		 struct image_manifest *ret, struct err *e) MUST_CHECK;

/* Makes the image NAME of the image BASE and of LAYER, a tar that a sandbox has written (runtime/init/layer.c). Files that both images have
 * share their disk space. What the layer says of owners is kept if root calls. Nothing in it can do harm, as with an import.
 * ERR_ALREADY_EXISTS: NAME is there and was not made in this way. ERR_IMAGE_INVALID: the layer is not complete. */
struct image_commit_options {
	const json_t *note; /* a JSON object that the manifest keeps; NULL = none */
	/* It is the operator's, from a Dockerfile: it takes the place of any image, and does not count as one of a sandbox. */
	bool own;
};
int image_commit(const struct image_store *s, const char *name, const char *base, int layer,
		 const struct image_commit_options *o, const struct image_watch *w,
		 struct image_manifest *ret, struct err *e) MUST_CHECK;
/* Gives such an image another note. ERR_FORBIDDEN: it was made in another way. */
int image_set_note(const struct image_store *s, const char *name, const json_t *note,
		   struct err *e) MUST_CHECK;
bool image_is_of_sandbox(const struct image_manifest *m);
/* ERR_FORBIDDEN: it was not made of a sandbox. */
int image_check_of_sandbox(const struct image_store *s, const char *name, struct err *e) MUST_CHECK;
#define IMAGE_STEP_TAIL         8192 /* bytes of a step's output that are kept for the person */
#define IMAGE_BUILD_TIMEOUT_S   UINT64_C(3600)
#define IMAGE_BUILD_TIMEOUT_MAX UINT64_C(604800)
#define IMAGE_BUILD_BYTES       (UINT64_C(32) << 30)
#define IMAGE_BUILD_BYTES_MAX   (UINT64_C(1) << 40)

struct image_dockerfile_options {
	const char *context;     /* the folder */
	const char *file;        /* NULL: Dockerfile in it */
	const char *target;      /* the stage; NULL: the last */
	struct image_words args; /* NAME=VALUE for ARG */
	uint64_t timeout_s;
	uint64_t max_bytes; /* of the build context, and of all that the build writes to the disk */
	bool no_network;    /* for the steps; images are fetched all the same */
	bool allow_inside;  /* ADD may name addresses of this machine */
	bool plain_http;    /* as for an import */
	bool check_only;    /* nothing is built */
	char *ret_tail; /* IMAGE_STEP_TAIL + 1 bytes: what the step that failed had written last */
};

struct image_dockerfile_facts {
	uint64_t steps, stages, images;
	uint64_t files, bytes; /* of the build context; of `check_only` alone */
};

/* Builds an image from a Dockerfile. Steps run in namespaces of their own (space.h). *RET is set unless `check_only`. */
int image_build_dockerfile(const struct image_store *s, const char *name,
			   const struct image_dockerfile_options *o, const struct image_watch *w,
			   struct image_manifest *ret, struct image_dockerfile_facts *facts,
			   struct err *e) MUST_CHECK;

/* What a build in sandboxes begins with. */
struct image_dockerfile_plan {
	struct dockerfile_plan plan;
	int context; /* owned: the build context, a tar; -1 = no step copies from it */
	uint64_t context_len;
};

/* Reads and judges the Dockerfile, makes the plan, and packs the build context, unless `check_only`. On failure, too, *RET is for
 * image_dockerfile_plan_done(). */
int image_plan_dockerfile(const char *name, const struct image_dockerfile_options *o,
			  const struct image_watch *w, struct image_dockerfile_plan *ret,
			  struct image_dockerfile_facts *facts, struct err *e) MUST_CHECK;
void image_dockerfile_plan_done(struct image_dockerfile_plan *p);
/* Is buildah installed, which image_build_dockerfile() needs? */
bool image_has_buildah(void);

struct image_export_options {
	const char *format;      /* "tar", "docker", "oci"; NULL = "tar" */
	const char *compression; /* of the layers of "oci": "gzip", "zstd"; NULL = "gzip" */
	const char *tag; /* NAME:TAG of the container image; NULL = the image's name, latest */
	const char
	    *start; /* file that says how its containers start (start.h); NULL = as sandboxes */
};

/* A tar of the root file system, whose compression the end of FILE's name decides; a Docker archive
 * (which is an OCI layout, too), or an OCI layout, both in FILE.tar. Never leaves half a file. */
int image_export(const struct image_store *s, const char *name, const char *file,
		 const struct image_export_options *o, const struct image_watch *w,
		 struct err *e) MUST_CHECK;

bool image_cancelled(const struct image_watch *w);
