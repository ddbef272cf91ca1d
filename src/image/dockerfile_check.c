/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of a Dockerfile's steps: operands, variables, stages, and which images it begins with. */
#include "image/dockerfile_parts.h"

#include "base/parse.h"
#include "base/text.h"
#include "image/ref.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

struct check {
	struct dockerfile *d;
	const struct dockerfile_options *o;
	struct dockerfile_lexer lexer;
	struct dockerfile_vars global;                        /* of ARG before the first FROM */
	struct dockerfile_vars stages[DOCKERFILE_STAGES_MAX]; /* of each stage, as it ended */
	struct err *e;
};

static int no_memory(struct err *e)
{
	return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading a Dockerfile");
}

static struct dockerfile_vars *vars_of(struct check *c)
{
	return c->d->n_stages == 0 ? &c->global : &c->stages[c->d->n_stages - 1];
}

static int set(struct check *c, struct dockerfile_vars *v, const char *name, const char *value,
	       bool env)
{
	int r = dockerfile_vars_set(v, name, value, env);

	if (r == -E2BIG)
		return dockerfile_fail(c->d, c->lexer.line, c->e, "more than %d variables",
				       DOCKERFILE_VARS_MAX);
	return r < 0 ? no_memory(c->e) : 0;
}

static int copy_vars(struct check *c, const struct dockerfile_vars *from,
		     struct dockerfile_vars *to)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < from->n; i++) {
		if (!from->v[i].env)
			continue;
		c->lexer.expanded += strlen(from->v[i].value);
		if (c->lexer.expanded > DOCKERFILE_EXPANDED_MAX)
			return dockerfile_fail(c->d, c->lexer.line, c->e,
					       "the variables of the stages need too much memory");
		r = set(c, to, from->v[i].name, from->v[i].value, true);
	}
	return r;
}

/* The operands as words: all in one, or between blanks. */
static int split(struct check *c, struct dockerfile_step *s)
{
	const unsigned traits = dockerfile_rows[s->kind].traits;
	int r;

	if (s->exec)
		return 0;
	if (traits & WHOLE)
		r = s->text[0] ? image_words_add(&s->words, s->text, strlen(s->text)) : 0;
	else
		r = dockerfile_split(s->text, c->d->escape, traits & PAIRS, &s->words);
	return r < 0 ? no_memory(c->e) : 0;
}

/* "ENV NAME VALUE with blanks" is the old form of NAME=VALUE. */
static int join_old_form(struct check *c, struct dockerfile_step *s)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(DOCKERFILE_STEP_MAX + 8);

	if (s->kind == DOCKERFILE_ARG || s->words.n < 2 || strchr(s->words.v[0], '='))
		return 0;
	const char *rest = s->text + strlen(s->words.v[0]);

	rest += strspn(rest, " \t\v\f\r");
	if (buf_printf(&b, "%s=%s", s->words.v[0], rest) < 0)
		return no_memory(c->e);
	image_words_done(&s->words);
	return image_words_add(&s->words, buf_str(&b), b.len) < 0 ? no_memory(c->e) : 0;
}

static int expand_words(struct check *c, struct dockerfile_step *s,
			const struct dockerfile_vars *vars)
{
	int r = 0;

	c->lexer.vars = vars;
	c->lexer.keeps = c->d->in_sandbox && s->kind != DOCKERFILE_FROM;
	for (size_t i = 0; r >= 0 && i < s->words.n; i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(DOCKERFILE_VALUE_MAX);

		r = dockerfile_expand(&c->lexer, s->words.v[i], &b, c->e);
		if (r < 0)
			break;
		char *text = b.len > 0 ? buf_take(&b) : strdup("");

		if (!text)
			return no_memory(c->e);
		free(s->words.v[i]);
		s->words.v[i] = text;
	}
	return r;
}

static int expand_here(struct check *c, struct dockerfile_step *s)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < s->n_here; i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(DOCKERFILE_BYTES_MAX);

		if (s->kind == DOCKERFILE_RUN || !s->here[i].expands)
			continue; /* the shell replaces its own */
		r = dockerfile_expand_here(&c->lexer, s->here[i].text, &b, c->e);
		if (r < 0)
			break;
		char *text = b.len > 0 ? buf_take(&b) : strdup("");

		if (!text)
			return no_memory(c->e);
		free(s->here[i].text);
		s->here[i].text = text;
	}
	return r;
}

static int check_form(struct check *c, const struct dockerfile_step *s)
{
	const struct dockerfile_row *row = &dockerfile_rows[s->kind];
	const size_t n = s->words.n;

	if (n >= row->least && (row->most == 0 || n <= row->most) &&
	    (!(row->traits & JSON) || s->exec) && !(row->least > 0 && !s->exec && !s->text[0]))
		return 0;
	return dockerfile_fail(c->d, s->line, c->e, "expected: %s", row->form);
}

/* What the operator gave for ARG NAME; NULL: nothing. */
static const char *given(const struct check *c, const char *name)
{
	const size_t n = strlen(name);
	const char *found = NULL;

	for (size_t i = 0; c->o->args && i < c->o->args->n; i++)
		if (strncmp(c->o->args->v[i], name, n) == 0 && c->o->args->v[i][n] == '=')
			found = c->o->args->v[i] + n + 1;
	return found;
}

/* The word of ARG, which then has the value that holds. */
static int take_arg(struct check *c, char **ret)
{
	const char *word = *ret;

	char name[DOCKERFILE_NAME_MAX + 1];
	const char *equals = strchr(word, '=');
	const size_t n = equals ? (size_t)(equals - word) : strlen(word);

	if (!dockerfile_is_name(word, n))
		return dockerfile_fail(c->d, c->lexer.line, c->e,
				       "'%.64s' is no name of a variable", word);
	(void)snprintf(name, sizeof(name), "%.*s", (int)n, word);
	const char *value = given(c, name);

	if (!value && equals)
		value = equals + 1;
	if (!value && c->d->n_stages > 0)
		value = dockerfile_vars_get(&c->global, name);
	if (!value)
		return 0;
	_cleanup_free_ char *whole = NULL;

	c->lexer.expanded += strlen(value);
	if (c->lexer.expanded > DOCKERFILE_EXPANDED_MAX)
		return dockerfile_fail(c->d, c->lexer.line, c->e,
				       "the build arguments need too much memory");
	if (asprintf(&whole, "%s=%s", name, value) < 0)
		return no_memory(c->e);
	const int r = set(c, vars_of(c), name, value, false);

	if (r >= 0) {
		free(*ret);
		*ret = TAKE_PTR(whole);
	}
	return r;
}

static int take_pairs(struct check *c, const struct dockerfile_step *s)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < s->words.n; i++) {
		const char *word = s->words.v[i];
		const char *equals = strchr(word, '=');

		if (s->kind == DOCKERFILE_ARG) {
			r = take_arg(c, &s->words.v[i]);
			continue;
		}
		if (!equals || equals == word)
			return dockerfile_fail(c->d, s->line, c->e, "expected: %s",
					       dockerfile_rows[s->kind].form);
		if (s->kind != DOCKERFILE_ENV)
			continue;
		_cleanup_free_ char *name = strndup(word, (size_t)(equals - word));

		if (!name)
			return no_memory(c->e);
		if (!dockerfile_is_name(name, strlen(name)))
			return dockerfile_fail(c->d, s->line, c->e,
					       "'%.64s' is no name of a variable", name);
		r = set(c, vars_of(c), name, equals + 1, true);
	}
	return r;
}

static bool is_stage_name(const char *s)
{
	static const char allowed[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	const char c = (char)(s[0] | 0x20);

	return c >= 'a' && c <= 'z' && strspn(s, allowed) == strlen(s) &&
	       strlen(s) <= DOCKERFILE_NAME_MAX;
}

int dockerfile_find_stage(const struct dockerfile *d, size_t before, const char *name)
{
	for (size_t i = before; i-- > 0;)
		if (d->stages[i].name && strcasecmp(d->stages[i].name, name) == 0)
			return (int)i;
	return -1;
}

/* An image of a registry, by its whole name: a builder takes "oci:x" or "dir:x" for a folder of this machine. */
static int whole_name(struct check *c, const char *given_name, char *ret, size_t size)
{
	static const char *const transports[] = {
	    "containers-storage", "dir",    "docker", "docker-archive", "docker-daemon", "oci",
	    "oci-archive",        "ostree", "sif",    "tarball"};
	char source[REF_HOST_MAX + REF_NAME_MAX + 16];
	struct image_ref ref = {0};
	struct err why = ERR_INIT;
	const bool prefixed = text_starts_with(given_name, REF_REGISTRY_PREFIX);

	if ((size_t)snprintf(source, sizeof(source), "%s%s", prefixed ? "" : REF_REGISTRY_PREFIX,
			     given_name) >= sizeof(source) ||
	    image_ref_parse(source, &ref, &why) < 0 || ref.kind != REF_REGISTRY)
		return dockerfile_fail(c->d, c->lexer.line, c->e, "'%.100s' is no image%s%.150s",
				       given_name, why.text[0] ? ": " : "", why.text);
	for (size_t i = 0; i < ARRAY_SIZE(transports); i++) {
		const size_t n = strlen(transports[i]);

		if (strncmp(ref.host, transports[i], n) == 0 &&
		    (!ref.host[n] || ref.host[n] == ':'))
			return dockerfile_fail(c->d, c->lexer.line, c->e,
					       "'%.100s' is no image of a registry", given_name);
	}
	const char *host =
	    streq(ref.host, REF_DOCKER_HUB) ? "docker.io" : ref.host; /* as logins name it */

	if (ref.digest[0])
		(void)snprintf(ret, size, "%s/%s@%s", host, ref.name, ref.digest);
	else
		(void)snprintf(ret, size, "%s/%s:%s", host, ref.name, ref.tag);
	for (size_t i = 0; i < c->d->images.n; i++)
		if (streq(c->d->images.v[i], ret))
			return 0;
	return image_words_add(&c->d->images, ret, strlen(ret)) < 0 ? no_memory(c->e) : 0;
}

static int name_stage(struct check *c, struct dockerfile_stage *stage, const char *name)
{
	if (!is_stage_name(name))
		return dockerfile_fail(c->d, c->lexer.line, c->e, "'%.64s' is no name of a stage",
				       name);
	if (dockerfile_find_stage(c->d, c->d->n_stages, name) >= 0)
		return dockerfile_fail(c->d, c->lexer.line, c->e, "two stages are named '%.64s'",
				       name);
	stage->name = strdup(name);
	return stage->name ? 0 : no_memory(c->e);
}

static int take_from(struct check *c, struct dockerfile_step *s)
{
	struct dockerfile *d = c->d;
	char name[REF_HOST_MAX + REF_NAME_MAX + REF_TAG_MAX + OCI_DIGEST_LEN];
	struct dockerfile_stage stage = {0};

	if (s->words.n == 2 || (s->words.n == 3 && strcasecmp(s->words.v[1], "AS") != 0))
		return dockerfile_fail(d, s->line, c->e, "expected: %s",
				       dockerfile_rows[s->kind].form);
	if (!s->words.v[0][0])
		return dockerfile_fail(
		    d, s->line, c->e,
		    "the name of the image is empty: '%.64s' with variables that "
		    "no ARG before it sets",
		    s->text);
	if (d->n_stages >= DOCKERFILE_STAGES_MAX)
		return dockerfile_fail(d, s->line, c->e, "more than %d stages",
				       DOCKERFILE_STAGES_MAX);
	const int earlier = dockerfile_find_stage(d, d->n_stages, s->words.v[0]);
	int r = 0;

	(void)snprintf(name, sizeof(name), "%s",
		       earlier >= 0 ? d->stages[earlier].name : "scratch");
	if (earlier < 0 && !streq(s->words.v[0], "scratch"))
		r = whole_name(c, s->words.v[0], name, sizeof(name));
	if (r >= 0 && s->words.n == 3)
		r = name_stage(c, &stage, s->words.v[2]);
	if (r < 0)
		return r;
	stage.base = strdup(name);
	d->stages[d->n_stages++] = stage;
	s->stage = (unsigned)d->n_stages - 1;
	if (!stage.base)
		return no_memory(c->e);
	return earlier < 0 ? 0 : copy_vars(c, &c->stages[earlier], vars_of(c));
}

/* COPY --from=: an earlier stage by name or number, or an image. What it is for the builder stands in the flag. */
static int take_copy_from(struct check *c, struct dockerfile_step *s)
{
	char name[REF_HOST_MAX + REF_NAME_MAX + REF_TAG_MAX + OCI_DIGEST_LEN];
	const char *from = dockerfile_flag(s, "from");
	_cleanup_(buf_done) struct buf b = BUF_INIT(sizeof(name) + 16);
	uint64_t n;

	if (!from || dockerfile_find_stage(c->d, c->d->n_stages - 1, from) >= 0)
		return 0;
	if (parse_u64(from, 0, UINT32_MAX, &n) == 0)
		return n + 1 < c->d->n_stages ? 0
					      : dockerfile_fail(c->d, s->line, c->e,
								"--from=%.16s: there is no such "
								"stage before this one",
								from);
	if (c->d->stages[c->d->n_stages - 1].name &&
	    strcasecmp(c->d->stages[c->d->n_stages - 1].name, from) == 0)
		return dockerfile_fail(c->d, s->line, c->e, "a stage cannot copy from itself");
	int r = whole_name(c, from, name, sizeof(name));

	for (size_t i = 0; r >= 0 && i < s->flags.n; i++) {
		if (!text_starts_with(s->flags.v[i], "--from="))
			continue;
		char *flag = NULL;

		if (buf_printf(&b, "--from=%s", name) >= 0)
			flag = buf_take(&b);
		if (!flag)
			return no_memory(c->e);
		free(s->flags.v[i]);
		s->flags.v[i] = flag;
	}
	return r;
}

static int take_copy(struct check *c, struct dockerfile_step *s)
{
	int r = expand_here(c, s);

	if (r >= 0)
		r = take_copy_from(c, s);
	return r < 0 ? r : dockerfile_check_sources(c->d, s, c->o, c->lexer.unknown, c->e);
}

static int check_step(struct check *c, struct dockerfile_step *s)
{
	const unsigned traits = dockerfile_rows[s->kind].traits;
	struct dockerfile *d = c->d;

	c->lexer.line = s->line;
	c->lexer.unknown[0] = '\0';
	s->stage = d->n_stages > 0 ? (unsigned)d->n_stages - 1 : DOCKERFILE_GLOBAL;
	if (d->n_stages == 0 && s->kind != DOCKERFILE_FROM && s->kind != DOCKERFILE_ARG)
		return dockerfile_fail(d, s->line, c->e, "%s stands before the first FROM",
				       dockerfile_word(s->kind));
	const size_t len = strlen(s->text);

	if (len > 0 && s->text[len - 1] == d->escape)
		return dockerfile_fail(d, s->line, c->e, "the file ends within a continued line");
	int r = dockerfile_check_flags(d, s, c->e);

	if (r >= 0)
		r = split(c, s);
	if (r >= 0)
		r = check_form(c, s);
	if (r >= 0 && (traits & PAIRS))
		r = join_old_form(c, s);
	if (r >= 0 && (traits & EXPANDS))
		r = expand_words(c, s, s->kind == DOCKERFILE_FROM ? &c->global : vars_of(c));
	if (r < 0)
		return r;
	if (s->kind == DOCKERFILE_FROM)
		return take_from(c, s);
	if (s->kind == DOCKERFILE_COPY || s->kind == DOCKERFILE_ADD)
		return take_copy(c, s);
	return traits & PAIRS ? take_pairs(c, s) : 0;
}

/* What a builder sets by itself, for FROM and for ARG without a value. */
static int set_platform(struct check *c)
{
	static const char *const sides[] = {"TARGET", "BUILD"};
	char name[32], platform[64];
	int r = 0;

	(void)snprintf(platform, sizeof(platform), "linux/%s", oci_architecture());
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(sides); i++) {
		const struct {
			const char *what, *value;
		} rows[] = {{"PLATFORM", platform},
			    {"OS", "linux"},
			    {"ARCH", oci_architecture()},
			    {"VARIANT", ""}};

		for (size_t k = 0; r >= 0 && k < ARRAY_SIZE(rows); k++) {
			(void)snprintf(name, sizeof(name), "%s%s", sides[i], rows[k].what);
			r = set(c, &c->global, name, rows[k].value, false);
		}
	}
	return r;
}

static bool is_taken(const struct dockerfile *d, const char *name, size_t len)
{
	for (size_t i = 0; i < d->n; i++)
		for (size_t w = 0; d->steps[i].kind == DOCKERFILE_ARG && w < d->steps[i].words.n;
		     w++)
			if (strncmp(d->steps[i].words.v[w], name, len) == 0 &&
			    (!d->steps[i].words.v[w][len] || d->steps[i].words.v[w][len] == '='))
				return true;
	return false;
}

int dockerfile_target(const struct dockerfile *d, const char *target)
{
	uint64_t n = d->n_stages - 1;
	const int named = target ? dockerfile_find_stage(d, d->n_stages, target) : (int)n;

	if (named >= 0)
		return named;
	return parse_u64(target, 0, d->n_stages - 1, &n) < 0 ? -1 : (int)n;
}

static int check_end(struct check *c)
{
	struct dockerfile *d = c->d;
	const char *target = c->o->target;
	int r = 0;

	if (d->n_stages == 0)
		return dockerfile_fail(d, 0, c->e, "there is no FROM in it");
	if (dockerfile_target(d, target) < 0)
		return dockerfile_fail(d, 0, c->e, "no stage is named '%.64s' (--target)", target);
	for (size_t i = 0; r >= 0 && c->o->args && i < c->o->args->n; i++) {
		const char *arg = c->o->args->v[i];
		const size_t len = strcspn(arg, "=");

		if (!is_taken(d, arg, len))
			r = image_words_add(&d->unused, arg, len);
	}
	return r < 0 ? no_memory(c->e) : 0;
}

int dockerfile_check(struct dockerfile *d, const struct dockerfile_options *o, struct err *e)
{
	_cleanup_free_ struct check *c = calloc(1, sizeof(*c)); /* large */

	if (!c)
		return no_memory(e);
	c->d = d;
	c->o = o;
	c->e = e;
	c->lexer.d = d;
	int r = set_platform(c);

	for (size_t i = 0; r >= 0 && i < d->n; i++)
		r = check_step(c, &d->steps[i]);
	if (r >= 0)
		r = check_end(c);
	dockerfile_vars_clear(&c->global);
	for (size_t i = 0; i < DOCKERFILE_STAGES_MAX; i++)
		dockerfile_vars_clear(&c->stages[i]);
	return r;
}
