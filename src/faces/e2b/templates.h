/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: images that clients make, from an image of this server by steps. A build is one run of the steps; tags say which build a
 * name means. A ready build is an image of the server by a name that nobody else may ask for (SANDBOX_OWN_IMAGE), and the note of that image says
 * all that is in these structs, so that templates outlive the server. Loop only. */
#pragma once

#include "base/rand.h"
#include "build/task.h"
#include "faces/e2b/face.h"

#define TEMPLATES_MAX    32   /* of an owner */
#define BUILDS_OPEN_MAX  4    /* of an owner: those that wait for their steps, or go on */
#define TAGS_MAX         16   /* of a build */
#define STEPS_MAX        200u /* of a build */
#define TEMPLATE_NAME    128u /* bytes of an alias or tag */
#define BUILD_LINES_MAX  5000 /* of the log of a build; the rest is left out, which the log says */
#define BUILD_SECONDS    3600 /* of a build, from its first step on */
#define POINTS_MAX       32   /* cache points of an owner */
#define TAG_DEFAULT      "default"
#define E2B_POINT_MEMBER "point" /* of a note */

/* What sandboxes of a build begin with. */
struct e2b_setup {
	json_t *env; /* owned, object of texts */
	bool root;   /* its user is root */
	char workdir[ENGINE_PATH_MAX];
	char *start, *ready; /* owned commands; NULL = none */
};

enum e2b_build_state { BUILD_WAITING, BUILD_GOES_ON, BUILD_READY, BUILD_ERROR };

struct building;
struct e2b_template;

struct e2b_build {
	struct list node; /* of e2b_template.builds, oldest first */
	unsigned refs;
	struct e2b_template *template; /* NULL: the template is gone */
	char id[UUID_SIZE];
	char image[ENGINE_NAME_MAX];
	enum e2b_build_state state;
	json_t *tags; /* owned, array of texts */
	struct e2b_setup setup;
	uint32_t cpus, memory_mb; /* 0 = the server's */
	uint64_t created_ms, finished_ms;
	json_t *log; /* owned, array of entries */
	bool cut;    /* there was more */
	char reason[ERR_TEXT_MAX];
	char step[16];         /* where it failed: a number, "base" or "finalize" */
	struct building *work; /* GOES_ON */
	struct e2b_sandbox
	    *archives; /* reference: the sandbox that holds what is to be copied; NULL = none yet */
	struct list waiting; /* struct e2b_archive_wait: calls until it is there */
	bool making;
};

struct e2b_template {
	struct list node; /* of e2b.templates */
	struct e2b *face;
	struct list builds;
	char owner[SANDBOX_OWNER_MAX + 1];
	char id[E2B_ID_SIZE];
	char alias[TEMPLATE_NAME + 1];
	uint64_t created_ms;
};

/* ---- the table (templates.c) ---- */

static inline char e2b_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}
/* "[namespace/]alias[:tag]" in any case; TAG is "" if there is none. False: it is no name. */
bool e2b_read_name(const char *text, char alias[TEMPLATE_NAME + 1], char tag[TEMPLATE_NAME + 1]);
/* Small letters, digits, '-', '_', and '.' if that is in ALSO. */
bool e2b_is_word(const char *text, const char *also);
struct e2b_template *e2b_template_of(const struct e2b *f, const char *owner, const char *name);
/* NULL: no memory. */
struct e2b_template *e2b_template_new(struct e2b *f, const char *owner, const char *id,
				      const char *alias);
void e2b_template_forget(struct e2b_template *t);
struct e2b_build *e2b_build_of(const struct e2b_template *t, const char *id);
/* The ready build with that tag; NULL: none. */
struct e2b_build *e2b_tagged(const struct e2b_template *t, const char *tag);
struct e2b_build *e2b_build_new(struct e2b_template *t, const char *id);
/* Takes B out of its template. Sandboxes of it go on. */
void e2b_build_forget(struct e2b_build *b);
bool e2b_has_tag(const struct e2b_build *b, const char *tag);
void e2b_drop_tag(struct e2b_build *b, const char *tag);
/* The image of B gets its note anew. FN may be NULL. */
void e2b_image_note(struct e2b *f, struct e2b_build *b, void (*fn)(const struct err *e, void *user),
		    void *user);
/* IMAGE, which is no point or template any more, goes: at once, or with the last build that stands on it (template_images.c). */
void e2b_image_drop(struct e2b *f, const char *image);

/* The template and the ready build that NAME ("alias", "alias:tag", "id", "id:tag") means to OWNER. NULL: none. Borrowed. */
struct e2b_build *e2b_build_named(const struct e2b *f, const char *owner, const char *name);
struct e2b_build *e2b_build_ref(struct e2b_build *b);
struct e2b_build *e2b_build_unref(struct e2b_build *b); /* NULL is fine; returns NULL */
/* B is ready: its tags are its own from now on, and builds without one go. */
void e2b_build_done(struct e2b_build *b);
/* Reads the templates of earlier lives of the server. */
void e2b_templates_load(struct e2b *f);
void e2b_templates_done(struct e2b *f);
/* A text of the note of an image; "" if it is not there. Borrowed from NOTE. */
static inline const char *e2b_note_word(const json_t *note, const char *member)
{
	const char *s = json_string_value(json_object_get(note, member));

	return s ? s : "";
}
/* What the image of B is to keep; owned text, NULL: no memory. */
char *e2b_build_note(const struct e2b_build *b);
void e2b_build_log(struct e2b_build *b, const char *level, const char *step, const char *text,
		   size_t len);

/* How many of the builds of OWNER wait or go on, without those that a new build of the template NAMED replaces; NULL: all. RET_TEMPLATES
 * may be NULL. */
unsigned e2b_builds_open(const struct e2b *f, const char *owner, const struct e2b_template *named,
			 unsigned *ret_templates);
/* Tells a router what the caller keeps here under the name {alias} (fleet/kept.h). */
void e2b_tell_kept(struct e2b_call *c);

/* The template {template} of the caller goes, and the call is answered. False: there is none. */
bool e2b_drop_template(struct e2b_call *c);

/* ---- steps that are known (template_chain.c, template_cache.c) ---- */

#define E2B_KEY_SIZE 65

/* A key for each state of a build: [0] before its first step, which depends on BASE alone, [N] after step N. Two builds with the same
 * key have done the same steps, as their clients wrote them, on the same image. Files of COPY count by the client's hash. The result
 * is owned by the caller. NULL: no memory. */
char (*e2b_chain(const char *base, const json_t *steps))[E2B_KEY_SIZE];
/* Number of steps before the first one with `force`. */
size_t e2b_unforced(const json_t *steps);

/* A cache point: an image of a build after some of its steps, with which later builds of the owner begin. */
struct e2b_point {
	struct list node; /* of e2b.points */
	char owner[SANDBOX_OWNER_MAX + 1];
	char key[E2B_KEY_SIZE];
	char image[ENGINE_NAME_MAX];
	struct e2b_setup setup; /* of it variables, user and folder */
	/* Disk space of the files that its steps have made. Points of one build share files, which count for each. */
	uint64_t files;
	uint64_t bytes; /* of these, and of all its folders, which it shares with nobody */
	uint64_t made_ms;
};

/* The one of OWNER with that KEY; NULL: none. */
struct e2b_point *e2b_point_of(const struct e2b *f, const char *owner, const char *key);
void e2b_point_touch(struct e2b *f, struct e2b_point *p); /* it is used */
/* Takes P, which was allocated. Removes an older point with the same key, and points beyond the owner's limits: maybe P itself. */
void e2b_point_add(struct e2b *f, struct e2b_point *p);
/* Its image goes, too. */
void e2b_point_forget(struct e2b *f, struct e2b_point *p);
/* Removes the points of OWNER if there is no template left. */
void e2b_points_tidy_owner(struct e2b *f, const char *owner);
/* Removes points of owners without templates, and points beyond the limits. Takes long if there are many: for the start alone. */
void e2b_points_tidy(struct e2b *f);
void e2b_points_done(struct e2b *f);
/* The note for the image of P before it is made, when its FILES are still those of the point below it; owned text, NULL: no
 * memory. */
char *e2b_point_note(const struct e2b_point *p);
/* NOTE as e2b_point_note() made it, of an image of that SIZE. */
void e2b_point_load(struct e2b *f, const char *image, const json_t *note,
		    const struct build_image_size *size);
/* P has its image. */
void e2b_point_measured(struct e2b_point *p, const struct build_image_size *size);

/* ---- what is to be copied (template_files.c) ---- */

#define E2B_ARCHIVE_END ".tar"
bool e2b_is_hash(const char *text); /* 64 hexadecimal digits */
/* Answers the calls that wait for the sandbox of archives of B. */
void e2b_archives_done(struct e2b_build *b);

/* ---- the build (template_build.c) ---- */

/* BODY as in a request. Begins; it ends by e2b_build_done() or in state ERROR. */
int e2b_build_begin(struct e2b_build *b, const struct caller *who, json_t *body,
		    struct err *e) MUST_CHECK;
void e2b_build_stop(struct e2b_build *b);
void e2b_setup_done(struct e2b_setup *s);

/* A sandbox of a build was made: its files and its command. FN is called when it is ready. */
void e2b_setup_begin(struct e2b_sandbox *s, struct e2b_build *b,
		     void (*fn)(const struct err *e, void *user), void *user);
