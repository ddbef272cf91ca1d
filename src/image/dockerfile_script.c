/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a Dockerfile as scripts, one for each sandbox of a build: what a builder with layers does is done by a shell as root of a
 * sandbox, whose changes become the image. steps.sh has the functions that are called here. */
#include "image/dockerfile_parts.h"

#include "base/parse.h"
#include "base/text.h"
#include "image_scripts.h"

#include <limits.h>
#include <string.h>

struct script {
	const struct dockerfile *d;
	const int *below; /* of each stage the one that it begins with; -1: an image */
	struct dockerfile_plan *plan;
	struct dockerfile_run *run;
	struct buf out;
	unsigned vars;                       /* of the function that sets the variables so far */
	const struct dockerfile_step *shell; /* the last SHELL; NULL = the usual one */
	struct image_words env;              /* names that ENV has set, which ARG does not change */
	struct err *e;
};

static int no_memory(struct err *e)
{
	return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a Dockerfile");
}

/* A word for the shell. What only the image knows is left to it. */
static int quote(struct buf *out, const char *s)
{
	int r = buf_add_char(out, '\'');

	for (; r >= 0 && *s; s++)
		r = *s == '\''              ? buf_add_str(out, "'\\''")
		    : *s == DOCKERFILE_OPEN ? buf_add_str(out, "'\"${")
		    : *s == DOCKERFILE_SHUT ? buf_add_str(out, "-}\"'")
					    : buf_add_char(out, *s);
	return r < 0 ? r : buf_add_char(out, '\'');
}

static int add_words(struct buf *out, const struct image_words *w, size_t from, size_t to)
{
	int r = 0;

	for (size_t i = from; r >= 0 && i < to; i++) {
		r = buf_add_char(out, ' ');
		r = r < 0 ? r : quote(out, w->v[i]);
	}
	return r;
}

/* ---- which sandboxes there are ---- */

static int find_run(const struct dockerfile_plan *p, int stage, const char *base)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->runs[i].stage == stage && (stage >= 0 || streq(p->runs[i].base, base)))
			return (int)i;
	return -1;
}

static bool copies(const struct dockerfile_step *s)
{
	return s->kind == DOCKERFILE_COPY || s->kind == DOCKERFILE_ADD;
}

/* Is STAGE the stage TOP, or one that this begins with? BELOW: of each stage the one that it begins with; -1: an image. */
static bool is_in_chain(const int *below, int stage, int top)
{
	for (; top >= 0; top = below[top])
		if (stage == top)
			return true;
	return false;
}

/* The stage of --from=; -1: it is an image. */
static int stage_of(const struct dockerfile *d, const struct dockerfile_step *s, const char *from)
{
	uint64_t n;
	const int named = dockerfile_find_stage(d, s->stage, from);

	return named >= 0 ? named : parse_u64(from, 0, d->n_stages, &n) == 0 ? (int)n : -1;
}

static int add_run(struct dockerfile_plan *p, int stage, const char *base, struct err *e)
{
	struct dockerfile_run *more;

	if (p->n >= DOCKERFILE_RUNS_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "the Dockerfile has more than %d stages and images to copy from",
			       DOCKERFILE_RUNS_MAX);
	more = realloc(p->runs, (p->n + 1) * sizeof(*more));
	if (!more)
		return no_memory(e);
	p->runs = more;
	p->runs[p->n] = (struct dockerfile_run){.stage = stage, .base = strdup(base)};
	return p->runs[p->n++].base ? 0 : no_memory(e);
}

/* Stage TOP, and before it what it copies from. Each of these has a smaller number, so this ends. */
static int plan_stage(const struct dockerfile *d, const int *below, struct dockerfile_plan *p,
		      int top, struct err *e)
{
	unsigned needs[DOCKERFILE_RUNS_MAX];
	size_t n_needs = 0;
	int bottom = top, r = 0;

	while (below[bottom] >= 0)
		bottom = below[bottom];
	if (streq(d->stages[bottom].base, "scratch"))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "%s: FROM scratch has no shell to do the steps with; begin with an "
			       "image, or build where buildah is installed",
			       d->name);
	for (size_t i = 0; r >= 0 && i < d->n; i++) {
		const struct dockerfile_step *s = &d->steps[i];
		const char *from = copies(s) ? dockerfile_flag(s, "from") : NULL;

		if (!from || s->stage == DOCKERFILE_GLOBAL ||
		    !is_in_chain(below, (int)s->stage, top))
			continue;
		const int stage = stage_of(d, s, from);

		if (find_run(p, stage, from) < 0)
			r = stage >= 0 ? plan_stage(d, below, p, stage, e)
				       : add_run(p, -1, from, e);
		if (r < 0)
			return r;
		const int need = find_run(p, stage, from);
		bool known = false;

		if (need < 0 || !p->runs) /* it was added above */
			return no_memory(e);
		for (size_t k = 0; k < n_needs; k++)
			known |= needs[k] == (unsigned)need;
		p->runs[need].leaves = true;
		if (!known)
			needs[n_needs++] = (unsigned)need;
	}
	r = r < 0 ? r : add_run(p, top, d->stages[bottom].base, e);
	if (r < 0 || !p->runs)
		return r;
	memcpy(p->runs[p->n - 1].from, needs, n_needs * sizeof(needs[0]));
	p->runs[p->n - 1].n_from = n_needs;
	return 0;
}

/* ---- steps ---- */

/* "( in the folder and with the variables of the steps, ". */
static int open_step(struct script *s)
{
	return buf_printf(&s->out, "( cd -- \"$c_dir\" && c_vars_%u && ", s->vars);
}

/* The sentence is that of a build with buildah. */
static int close_step(struct script *s, const struct dockerfile_step *step)
{
	const size_t len = strlen(step->text), shown = text_utf8_cut(step->text, len, 100);
	char line[256];
	int r = buf_printf(&s->out, ") || c_fail %u ", step->line);

	(void)snprintf(line, sizeof(line), "%s %.*s%s", dockerfile_word(step->kind), (int)shown,
		       step->text, shown < len ? "…" : "");
	line[strcspn(line, "\r\n")] = '\0';
	r = r < 0 ? r : quote(&s->out, line);
	return r < 0 ? r : buf_add_str(&s->out, "\": exit status $?\"\n");
}

static int print_run(struct script *s, const struct dockerfile_step *step)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(2 * DOCKERFILE_BYTES_MAX);
	const char *mount = dockerfile_flag(step, "mount");
	int r =
	    step->n_here > 0 ? dockerfile_run_script(step, &text) : buf_add_str(&text, step->text);
	const char *target = mount ? strstr(mount, "target=") : NULL;
	_cleanup_free_ char *folder = NULL;

	if (!target && mount)
		target = strstr(mount, "dst=");
	if (target) {
		target = strchr(target, '=') + 1;
		folder = strndup(target, strcspn(target, ","));
		r = r < 0 || !folder ? -ENOMEM : buf_add_str(&s->out, "[ -e ");
		r = r < 0 ? r : quote(&s->out, folder);
		r = r < 0 ? r : buf_add_str(&s->out, " ] && c_cache= || { c_cache=");
		r = r < 0 ? r : quote(&s->out, folder);
		r = r < 0 ? r : buf_add_str(&s->out, "; mkdir -p -- \"$c_cache\"; }\n");
	}
	r = r < 0 ? r : open_step(s);
	r = r < 0 ? r : buf_add_str(&s->out, "c_exec");
	if (r >= 0 && step->exec)
		r = add_words(&s->out, &step->words, 0, step->words.n);
	else if (r >= 0 && s->shell)
		r = add_words(&s->out, &s->shell->words, 0, s->shell->words.n);
	else if (r >= 0)
		r = buf_add_str(&s->out, " /bin/sh -c");
	if (r >= 0 && !step->exec) {
		r = buf_add_char(&s->out, ' ');
		r = r < 0 ? r : quote(&s->out, buf_str(&text));
	}
	r = r < 0 ? r : close_step(s, step);
	return r < 0 || !folder
		   ? r
		   : buf_add_str(&s->out, "[ -z \"$c_cache\" ] || rm -rf -- \"$c_cache\"\n");
}

/* One more function for the variables so far. */
static int print_vars(struct script *s, const struct dockerfile_step *step)
{
	int r = buf_printf(&s->out, "c_vars_%u() {\nc_vars_%u\n", s->vars + 1, s->vars);

	for (size_t i = 0; r >= 0 && i < step->words.n; i++) {
		const char *word = step->words.v[i], *equals = strchr(word, '=');
		const size_t len = equals ? (size_t)(equals - word) : 0;
		bool known = false;

		for (size_t k = 0; k < s->env.n; k++)
			known |= strlen(s->env.v[k]) == len && strncmp(s->env.v[k], word, len) == 0;
		if (!equals || (known && step->kind == DOCKERFILE_ARG))
			continue;
		if (!known && step->kind == DOCKERFILE_ENV)
			r = image_words_add(&s->env, word, len);
		r = r < 0 ? r : buf_printf(&s->out, "export %.*s=", (int)len, word);
		r = r < 0 ? r : quote(&s->out, equals + 1);
		r = r < 0 ? r : buf_add_char(&s->out, '\n');
	}
	s->vars++;
	return r < 0 ? r : buf_add_str(&s->out, "}\n");
}

static int call_put(struct script *s, const struct dockerfile_step *step, const char *from,
		    const char *const *sources, size_t n)
{
	const char *owner = dockerfile_flag(step, "chown"), *mode = dockerfile_flag(step, "chmod");
	int r = buf_add_str(&s->out, "c_put ");

	r = r < 0 ? r : quote(&s->out, from);
	r = r < 0 ? r : buf_add_char(&s->out, ' ');
	r = r < 0 ? r : quote(&s->out, owner ? owner : "0:0");
	r = r < 0 ? r : buf_add_char(&s->out, ' ');
	r = r < 0 ? r : quote(&s->out, mode ? mode : "");
	r = r < 0 ? r
		  : buf_printf(&s->out, " %s '%s' ", step->words.n > 2 ? "many" : "one",
			       step->kind == DOCKERFILE_ADD ? "tar" : "");
	r = r < 0 ? r : quote(&s->out, step->words.v[step->words.n - 1]);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		r = buf_add_char(&s->out, ' ');
		r = r < 0 ? r : quote(&s->out, sources[i]);
	}
	return r;
}

/* A here-document as a file of its own name. */
static int put_here(struct script *s, const struct dockerfile_step *step,
		    const struct dockerfile_here *h)
{
	const char *name = h->name;
	int r =
	    buf_add_str(&s->out, "rm -rf \"$c_top/here\" && mkdir \"$c_top/here\" && printf %s ");

	r = r < 0 ? r : quote(&s->out, h->text);
	r = r < 0 ? r : buf_add_str(&s->out, " >\"$c_top/here/\"");
	r = r < 0 ? r : quote(&s->out, name);
	r = r < 0 ? r : buf_add_str(&s->out, " && ");
	return r < 0 ? r : call_put(s, step, "/.caisson-build/here", &name, 1);
}

static int put_address(struct script *s, const struct dockerfile_step *step, const char *url)
{
	const char *owner = dockerfile_flag(step, "chown"), *mode = dockerfile_flag(step, "chmod");
	const char *sum = dockerfile_flag(step, "checksum");
	const char *const words[] = {owner ? owner : "0:0", mode ? mode : "", sum ? sum : "",
				     step->words.v[step->words.n - 1], url};
	int r = buf_add_str(&s->out, "c_add");

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(words); i++) {
		r = buf_add_char(&s->out, ' ');
		r = r < 0 ? r : quote(&s->out, words[i]);
	}
	return r;
}

static int print_copy(struct script *s, const struct dockerfile_step *step)
{
	const char *from = dockerfile_flag(step, "from");
	char root[64] = "/.caisson-build/context";
	size_t here = 0;
	int r = open_step(s);

	if (from)
		(void)snprintf(root, sizeof(root), "/.caisson-build/from-%d",
			       find_run(s->plan, stage_of(s->d, step, from), from));
	for (size_t i = 0; r >= 0 && i + 1 < step->words.n; i++) {
		const char *source = step->words.v[i];

		if (i > 0)
			r = buf_add_str(&s->out, " && ");
		if (r < 0)
			break;
		if (here < step->n_here && text_starts_with(source, "<<")) {
			r = put_here(s, step, &step->here[here++]);
		} else if (strstr(source, "://")) {
			r = put_address(s, step, source);
		} else {
			s->run->context |= !from;
			r = call_put(s, step, root, &source, 1);
		}
	}
	return r < 0 ? r : close_step(s, step);
}

static int print_step(struct script *s, const struct dockerfile_step *step, size_t at, size_t n)
{
	char line[256];
	int r;

	(void)snprintf(line, sizeof(line), "[%zu/%zu] %s %.200s", at, n,
		       dockerfile_word(step->kind), step->text);
	line[strcspn(line, "\r\n")] = '\0';
	r = buf_add_str(&s->out, "c_say ");
	r = r < 0 ? r : quote(&s->out, line);
	r = r < 0 ? r : buf_add_char(&s->out, '\n');
	if (r < 0)
		return r;
	/* NOLINTNEXTLINE(clang-diagnostic-switch-enum): what has no meaning for a sandbox is left out */
	switch ((int)step->kind) {
	case DOCKERFILE_RUN:
		return print_run(s, step);
	case DOCKERFILE_ENV:
	case DOCKERFILE_ARG:
		return print_vars(s, step);
	case DOCKERFILE_COPY:
	case DOCKERFILE_ADD:
		return print_copy(s, step);
	case DOCKERFILE_SHELL:
		s->shell = step;
		return 0;
	case DOCKERFILE_USER:
		r = buf_printf(&s->out, "c_vars_%u() { c_vars_%u; }\nc_user=", s->vars + 1,
			       s->vars);
		s->vars++;
		r = r < 0 ? r : quote(&s->out, step->words.v[0]);
		return r < 0 ? r : buf_add_char(&s->out, '\n');
	case DOCKERFILE_WORKDIR:
		r = buf_printf(&s->out, "c_path=$(c_vars_%u; printf '%%s.' ", s->vars);
		r = r < 0 ? r : quote(&s->out, step->words.v[0]);
		return r < 0 ? r
			     : buf_printf(&s->out,
					  ") && c_workdir \"${c_path%%.}\" || c_fail %u WORKDIR\n",
					  step->line);
	default:
		return 0;
	}
}

/* What later runs copy from this one. */
static int print_leave(struct script *s, unsigned self)
{
	int r = buf_printf(&s->out, "c_leave \"$c_home/" DOCKERFILE_FROM_TAR "\"", self);

	for (size_t i = 0; r >= 0 && i < s->d->n; i++) {
		const struct dockerfile_step *step = &s->d->steps[i];
		const char *from = copies(step) ? dockerfile_flag(step, "from") : NULL;

		if (!from || find_run(s->plan, stage_of(s->d, step, from), from) != (int)self)
			continue;
		for (size_t k = 0; k + 1 < step->words.n; k++)
			if (strchr(step->words.v[k], DOCKERFILE_OPEN))
				return dockerfile_fail(s->d, step->line, s->e,
						       "COPY --from with a variable that this file "
						       "does not set");
		r = add_words(&s->out, &step->words, 0, step->words.n - 1);
	}
	return r < 0 ? r : buf_add_str(&s->out, " || exit 1\n");
}

static int print_ignore(struct script *s, const struct ignore *ignore)
{
	_cleanup_(buf_done) struct buf rules = BUF_INIT(4 * IGNORE_BYTES_MAX);
	int r = ignore_print_awk(ignore, &rules);

	r = r < 0 ? r : buf_add_str(&s->out, "c_ignore ");
	r = r < 0 ? r : quote(&s->out, buf_str(&rules));
	return r < 0 ? r : buf_add_str(&s->out, " || exit 1\n");
}

static int print_steps(struct script *s)
{
	size_t n = 0, at = 0;
	int r = 0;

	for (unsigned count = 0; count < 2; count++)
		for (size_t i = 0; r >= 0 && i < s->d->n; i++) {
			const struct dockerfile_step *step = &s->d->steps[i];

			if (step->stage == DOCKERFILE_GLOBAL || step->kind == DOCKERFILE_FROM ||
			    !is_in_chain(s->below, (int)step->stage, s->run->stage))
				continue;
			if (count == 0)
				n++;
			else
				r = print_step(s, step, ++at, n);
		}
	return r;
}

static int print_script(struct script *s, unsigned self, const struct ignore *ignore)
{
	struct dockerfile_run *run = &s->plan->runs[self];
	/* The steps say whether the context is needed, and come behind it. */
	struct buf steps = BUF_INIT(DOCKERFILE_SCRIPT_MAX);
	int r;

	s->run = run;
	r = buf_add_str(&s->out, "c_vars_0() { :; }\n");
	r = r < 0 ? r : print_steps(s);
	if (r >= 0 && run->leaves)
		r = print_leave(s, self);
	steps = s->out;
	s->out = (struct buf)BUF_INIT(DOCKERFILE_SCRIPT_MAX);
	r = r < 0 ? r : buf_add_str(&s->out, image_steps_sh);
	r = r < 0 ? r : buf_add_str(&s->out, "c_name=");
	r = r < 0 ? r : quote(&s->out, s->d->name);
	r = r < 0 ? r : buf_add_char(&s->out, '\n');
	if (r >= 0 && run->context)
		r = buf_add_str(&s->out, "c_take context || exit 1\n");
	if (r >= 0 && run->context && ignore->n > 0)
		r = print_ignore(s, ignore);
	for (size_t i = 0; r >= 0 && i < run->n_from; i++)
		r = buf_printf(&s->out, "c_take from-%u || exit 1\n", run->from[i]);
	r = r < 0 ? r : buf_add(&s->out, steps.data, steps.len);
	buf_done(&steps);
	if (r >= 0)
		run->script = buf_take(&s->out);
	return r;
}

int dockerfile_plan_make(const struct dockerfile *d, const char *target,
			 const struct ignore *ignore, struct dockerfile_plan *ret, struct err *e)
{
	struct dockerfile_plan p = {0};
	int below[DOCKERFILE_STAGES_MAX];
	size_t bytes = 0;

	for (size_t i = 0; i < ARRAY_SIZE(below); i++)
		below[i] = i < d->n_stages ? dockerfile_find_stage(d, i, d->stages[i].base) : -1;
	int r = plan_stage(d, below, &p, dockerfile_target(d, target), e);

	for (size_t i = 0; r >= 0 && i < p.n; i++) {
		struct script s = {.d = d,
				   .below = below,
				   .plan = &p,
				   .out = BUF_INIT(DOCKERFILE_SCRIPT_MAX),
				   .e = e};

		r = print_script(&s, (unsigned)i, ignore);
		bytes += r < 0 ? 0 : strlen(p.runs[i].script);
		if (bytes > DOCKERFILE_SCRIPT_MAX)
			r = -ENOBUFS;
		buf_done(&s.out);
		image_words_done(&s.env);
		if (r < 0 && e->code == ERR_NONE)
			r = r == -ENOBUFS || r == -E2BIG
				? err_set(e, ERR_INVALID_ARGUMENT, 0, "%s: the steps are too long",
					  d->name)
				: no_memory(e);
	}
	if (r < 0)
		dockerfile_plan_done(&p);
	*ret = p;
	return r;
}

void dockerfile_plan_done(struct dockerfile_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->runs[i].base);
		free(p->runs[i].script);
	}
	free(p->runs);
	*p = (struct dockerfile_plan){0};
}
