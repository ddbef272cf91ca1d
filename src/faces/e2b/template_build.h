/* SPDX-License-Identifier: Apache-2.0 */
/* Private to template_build.c, which has the beginning and the end of a build, template_steps.c, template_images.c and template_points.c. What a step means is E2B's:
 * docs/e2b.md. */
#pragma once

#include "build/download.h"
#include "faces/e2b/templates.h"

/* Variables of a template: a command of a build has these and TASK_OWN_ENV_MAX of ours. */
#define BUILD_ENV_MAX (SANDBOX_ENV_MAX - TASK_OWN_ENV_MAX)
#define BUILD_ARCHIVE ".caisson-archive"
#define BUILD_HOME_TAR                                                                             \
	"/opt/caisson/home.tar" /* the workspace is no part of an image, so its files go into one */
#define BUILD_UNPACK_HOME "[ ! -e " BUILD_HOME_TAR " ] || tar -xpf " BUILD_HOME_TAR " -C " E2B_HOME

/* Until the ready command is content. The SDKs' wait_for_port() asks ss(8), which images may lack and which sees no sockets here: so the
 * port is tried. */
#define BUILD_READY_LOOP(pause)                                                                    \
	"ss() { local p=${!#} h; p=${p##*:}; for h in 127.0.0.1 ::1; do (exec "                    \
	"3<>\"/dev/tcp/$h/$p\") "                                                                  \
	"2>/dev/null && echo \"$p\" && return; done; }\n"                                          \
	"until (eval \"$1\"); do sleep " pause "; done"

struct building {
	struct list node;        /* of e2b.buildings */
	struct e2b_build *build; /* reference */
	struct e2b *face;
	struct caller *who;      /* reference */
	struct sandbox *sandbox; /* reference; NULL = it is being made */
	struct sandbox_hold hold;
	json_t *body;  /* reference: the request */
	json_t *steps; /* owned, array */
	size_t at;     /* the step that is being done */
	char step[16]; /* how it is called */
	struct build_task *task;
	struct build_order *order;       /* borrowed, while it is there */
	struct build_download *download; /* of what it begins with; borrowed, while it is there */
	unsigned downloads;              /* that there were */
	unsigned losses;                 /* of what was downloaded, before its sandbox began */
	bool pulled;                     /* IMAGE is of one */
	sd_event_source *deadline;
	void (*then)(struct building *w);
	void (*otherwise)(struct building *w); /* NULL: the build fails */
	char image[ENGINE_NAME_MAX];           /* that its sandbox begins with; "" = the server's */
	bool own_image;                        /* nobody may ask for it by name */
	bool drop_image; /* IMAGE is no point or template any more, and goes when W leaves it */
	char identity[E2B_KEY_SIZE]; /* of an image that may be replaced; "" = it is not */
	char (*keys)[E2B_KEY_SIZE];  /* owned: after each step; NULL = nothing is kept */
	struct e2b_point *point;     /* owned: that is being made; NULL = none */
	bool has_image;              /* POINT has: it goes with it */
	bool at_point;               /* IMAGE is one */
	bool cached;                 /* of an earlier build */
	bool anew;                   /* takes none */
	uint64_t below;              /* its files */
	size_t kept;                 /* steps that IMAGE has */
	uint64_t began_ns;           /* the first step that it does not have */
	char path[ENGINE_PATH_MAX];  /* COPY: of the archive */
	int fd;                      /* COPY: the archive, owned */
	bool opening;                /* a callback that cannot be cancelled will come */
	bool lost;                   /* the sandbox has ended, and let go of HOLD */
	bool stopped;                /* and W is freed then */
};

struct building_command {
	bool root;
	const char *cwd;
	const char *const *argv;
	uint64_t timeout_ns;
	bool quiet;                            /* what it says is not for the log */
	void (*otherwise)(struct building *w); /* it failed; NULL: so does the build */
};

/* W and all that it has go. */
void building_stop(struct building *w);
void building_free(struct building *w);
/* The build ends in state ERROR, and W is gone. */
void building_fail(struct building *w, const struct err *e);
void building_fail_with(struct building *w, enum err_code code, const char *text);
/* Runs a command; THEN is called when it has exited with 0, else the build fails. */
void building_run(struct building *w, const struct building_command *c,
		  void (*then)(struct building *w));
/* A script of ours, as root, with up to four arguments. */
void building_run_script(struct building *w, const char *script, const char *const args[4],
			 void (*then)(struct building *w));
void building_next_step(struct building *w);
void building_log_step(struct building *w, size_t i, const char *front);
/* Its sandbox begins, with IMAGE. */
void building_open(struct building *w);

/* ---- template_base.c ---- */

/* Looks for the image that W begins with, and downloads it if that is missing and permitted. Then W begins. */
void building_find_base(struct building *w);
/* The image of W is gone. Whether looking for it once more may help; counts. */
bool building_lost_base(struct building *w);

/* ---- template_images.c ---- */

/* W has no image any more. The one it had goes, if that was left to W. */
void building_leave_image(struct building *w);

/* ---- template_points.c ---- */

/* In the image of a cache point: folders that are no part of an image, and modes. The build that begins with it removes this. */
#define BUILD_POINT_TOP "/opt/caisson/point"

/* The identity (build/builds.h) of the image that W begins with, borrowed for this turn of the loop; "" = unknown. */
const char *building_identity(const struct building *w);
/* Computes the keys from BASE, the identity of the image or template that W is made of, "" = unknown. Then W begins with the latest cache
 * point, if there is one. */
void building_look_for_point(struct building *w, const char *base);
/* The image of its point is gone: sets W back to its first step, without a cache. */
void building_begin_without(struct building *w);
void building_drop_point(struct building *w); /* that is being made */
/* True: a point is made, and then the next step is done. */
bool building_make_point(struct building *w);
/* The new sandbox of W gets the folders and modes that are no part of an image. */
void building_restore_point(struct building *w, void (*then)(struct building *w));
void building_finalize(struct building *w); /* after the last step */
/* The start command begins, and stays. */
int building_start_command(struct sandbox *sandbox, const struct e2b_setup *s,
			   const struct caller *who, struct err *e) MUST_CHECK;
