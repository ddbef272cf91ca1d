/* SPDX-License-Identifier: Apache-2.0 */
/* caisson image build NAME --dockerfile DIR */
#include "cmd/image_verb.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Options without a value. False: it is none of them. */
static bool take_switch(struct image_dockerfile_options *o, const char *word)
{
	if (streq(word, "--no-network"))
		o->no_network = true;
	else if (streq(word, "--allow-inside"))
		o->allow_inside = true;
	else if (streq(word, "--check"))
		o->check_only = true;
	else
		return false;
	return true;
}

static int take_arg(struct image_dockerfile_options *o, const char *value, struct err *e)
{
	const char *equals = strchr(value, '=');
	_cleanup_free_ char *whole = NULL;

	if (equals == value || !image_is_text(value, strlen(value)))
		return err_set(e, ERR_USAGE, 0,
			       "--build-arg NAME=VALUE, or NAME for a variable of "
			       "this process");
	if (!equals) { /* as docker does: its value is the environment's */
		const char *own = getenv(value);

		if (asprintf(&whole, "%s=%s", value, own ? own : "") < 0)
			return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "--build-arg");
		value = whole;
	}
	return image_words_add(&o->args, value, strlen(value)) < 0
		   ? err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "--build-arg")
		   : 0;
}

static int take_builder(struct image_dockerfile_args *a, const char *value, struct err *e)
{
	static const char *const builders[] = {[BUILDER_AUTO] = "auto",
					       [BUILDER_BUILDAH] = "buildah",
					       [BUILDER_SANDBOXES] = "sandboxes"};

	for (unsigned i = 0; i < ARRAY_SIZE(builders); i++)
		if (streq(value, builders[i])) {
			a->builder = i;
			return 0;
		}
	return err_set(e, ERR_USAGE, 0, "--builder: auto, buildah or sandboxes");
}

static int take_value(struct image_dockerfile_args *a, const char *word, const char *value,
		      struct err *e)
{
	struct image_dockerfile_options *o = &a->o;

	if (streq(word, "--builder"))
		return take_builder(a, value, e);
	if (streq(word, "--build-arg"))
		return take_arg(o, value, e);
	if (streq(word, "--timeout"))
		return parse_u64(value, 1, IMAGE_BUILD_TIMEOUT_MAX, &o->timeout_s) < 0
			   ? err_set(e, ERR_USAGE, 0, "--timeout: 1 to %" PRIu64 " seconds",
				     IMAGE_BUILD_TIMEOUT_MAX)
			   : 0;
	if (streq(word, "--max-size"))
		return parse_size(value, 1u << 20, IMAGE_BUILD_BYTES_MAX, &o->max_bytes) < 0
			   ? err_set(e, ERR_USAGE, 0, "--max-size: 1m to 1t, such as 32g")
			   : 0;
	if (streq(word, "--file"))
		o->file = value;
	else if (streq(word, "--target"))
		o->target = value;
	else
		o->context = value;
	return 0;
}

int image_dockerfile_option(struct image_dockerfile_args *a, int argc, char **argv, struct err *e)
{
	static const char *const valued[] = {"--dockerfile", "--file",    "--target",
					     "--build-arg",  "--timeout", "--max-size",
					     "--builder"};

	if (take_switch(&a->o, argv[0])) {
		a->other = true;
		return 1;
	}
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(valued); i++) {
		if (!streq(argv[0], valued[i]))
			continue;
		int r = take_value(a, argv[0], argv[1], e);

		a->other |= i > 0;
		return r < 0 ? r : 2;
	}
	return 0;
}

void image_dockerfile_done(struct image_dockerfile_args *a)
{
	image_words_done(&a->o.args);
}

static void print_facts(const struct image_dockerfile_facts *f)
{
	(void)printf("%" PRIu64 " instruction%s in %" PRIu64 " stage%s, %" PRIu64
		     " image%s to fetch; the build context has %" PRIu64 " file%s of %" PRIu64
		     " MB.\n",
		     f->steps, text_s(f->steps), f->stages, text_s(f->stages), f->images,
		     text_s(f->images), f->files, text_s(f->files), (f->bytes + 500000) / 1000000);
}

static int with_buildah(const struct image_store *s, const char *name,
			struct image_dockerfile_args *a, struct image_dockerfile_facts *facts,
			struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	_cleanup_fd_ int cancel = image_watch_signals();
	static char tail[IMAGE_STEP_TAIL + 1];
	struct progress_line line;
	const struct image_watch w = image_watch_for(&line, cancel);

	a->o.ret_tail = tail;
	int r = image_build_dockerfile(s, name, &a->o, &w, &m, facts, e);

	progress_line_end(&line, r >= 0);
	if (r < 0 && tail[0])
		(void)fprintf(stderr, "%s", tail);
	else if (r >= 0 && !a->o.check_only)
		image_print_ready(&m, line.began);
	return r;
}

int image_dockerfile_build(const struct image_store *s, const char *name,
			   struct image_dockerfile_args *a, struct err *e)
{
	/* A plain user has no sandboxes that can build, and is told how to get buildah. */
	const bool buildah =
	    a->builder == BUILDER_BUILDAH ||
	    (a->builder == BUILDER_AUTO && (image_has_buildah() || geteuid() != 0));
	struct image_dockerfile_facts facts = {0};

	if (!a->o.timeout_s)
		a->o.timeout_s = IMAGE_BUILD_TIMEOUT_S;
	a->sized = a->o.max_bytes != 0;
	if (!a->sized)
		a->o.max_bytes = IMAGE_BUILD_BYTES;
	if (!a->o.check_only)
		(void)fprintf(stderr, "Building image '%s' from a Dockerfile in %s%s\n", name,
			      a->o.context, buildah ? "" : ", in sandboxes");
	int r = buildah ? with_buildah(s, name, a, &facts, e)
			: image_dockerfile_in_sandboxes(s, name, a, &facts, e);

	if (r >= 0 && a->o.check_only)
		print_facts(&facts);
	return r;
}
