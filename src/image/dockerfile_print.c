/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a Dockerfile for the builder: one line for each step, images by their whole names, addresses of ADD as they were judged, and
 * no here-documents, which older builders do not know. */
#include "image/dockerfile_parts.h"

#include "base/text.h"

#include <jansson.h>
#include <string.h>

struct printer {
	const struct dockerfile *d;
	struct buf *out;
	const struct dockerfile_step
	    *shells[DOCKERFILE_STAGES_MAX]; /* the last SHELL of a stage; NULL = the usual one */
};

bool dockerfile_is_printed(const struct dockerfile *d, size_t i)
{
	return !(dockerfile_rows[d->steps[i].kind].traits & DROPPED);
}

void dockerfile_here_path(const struct dockerfile *d, size_t i, size_t here, char *ret, size_t size)
{
	(void)snprintf(ret, size, DOCKERFILE_HERE_FOLDER "/%zu/%zu/%s", i, here,
		       d->steps[i].here[here].name);
}

/* Has N as one more text; takes nothing over. */
static int append(json_t *list, const char *text)
{
	return json_array_append_new(list, json_string(text)) < 0 ? -ENOMEM : 0;
}

static int print_list(const struct printer *p, json_t *list)
{
	char *text = json_dumps(list, JSON_ENSURE_ASCII | JSON_COMPACT);
	int r = text ? buf_add_str(p->out, text) : -ENOMEM;

	free(text);
	return r;
}

static int print_flags(const struct printer *p, const struct dockerfile_step *s)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < s->flags.n; i++)
		if (dockerfile_flag_is_printed(s, s->flags.v[i]))
			r = buf_printf(p->out, "%s ", s->flags.v[i]);
	return r;
}

/* The script of RUN with here-documents: the command with them behind it. One that is nothing but a here-document is the script itself; if that
 * names its own interpreter, the shell executes it as a file. */
int dockerfile_run_script(const struct dockerfile_step *s, struct buf *b)
{
	const struct dockerfile_here *first = &s->here[0];
	int r;

	if (s->n_here == 1 && strcspn(s->text, " \t") == strlen(s->text)) {
		if (!text_starts_with(first->text, "#!"))
			return buf_add_str(b, first->text);
		return buf_printf(b,
				  "f=$(mktemp) && cat >\"$f\" <<'%s'\n%s%s\nchmod 700 \"$f\" && "
				  "\"$f\"\nr=$?; rm -f \"$f\"; exit $r\n",
				  first->name, first->text, first->name);
	}
	r = buf_printf(b, "%s\n", s->text);
	for (size_t i = 0; r >= 0 && i < s->n_here; i++)
		r = buf_printf(b, "%s%s\n", s->here[i].text, s->here[i].name);
	return r;
}

static int print_script(const struct printer *p, const struct dockerfile_step *s)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(2 * DOCKERFILE_BYTES_MAX);
	const struct dockerfile_step *shell = p->shells[s->stage];
	json_t *list = json_array();
	int r = dockerfile_run_script(s, &b);

	for (size_t i = 0; r >= 0 && shell && i < shell->words.n; i++)
		r = append(list, shell->words.v[i]);
	if (r >= 0 && !shell)
		r = append(list, "/bin/sh");
	if (r >= 0 && !shell)
		r = append(list, "-c");
	if (r >= 0)
		r = append(list, buf_str(&b));
	if (r >= 0)
		r = print_list(p, list);
	json_decref(list);
	return r;
}

/* A word that means itself: its quotes and dollars are escaped. */
static int append_literal(const struct printer *p, json_t *list, const char *word)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(2 * DOCKERFILE_VALUE_MAX);
	int r = 0;

	for (; r >= 0 && *word; word++) {
		if (*word == '$' || *word == '"' || *word == '\'' || *word == p->d->escape)
			r = buf_add_char(&b, p->d->escape);
		if (r >= 0)
			r = buf_add_char(&b, *word);
	}
	return r < 0 ? r : append(list, buf_str(&b));
}

static int print_words(const struct printer *p, size_t i)
{
	const struct dockerfile_step *s = &p->d->steps[i];
	char path[DOCKERFILE_NAME_MAX + 64];
	json_t *list = json_array();
	size_t here = 0;
	int r = 0;

	for (size_t w = 0; r >= 0 && w < s->words.n; w++) {
		if (here < s->n_here && w + 1 < s->words.n &&
		    text_starts_with(s->words.v[w], "<<")) {
			dockerfile_here_path(p->d, i, here++, path, sizeof(path));
			r = append_literal(p, list, path);
		} else {
			r = append_literal(p, list, s->words.v[w]);
		}
	}
	if (r >= 0)
		r = print_list(p, list);
	json_decref(list);
	return r;
}

static int print_step(struct printer *p, size_t i)
{
	const struct dockerfile *d = p->d;
	const struct dockerfile_step *s = &d->steps[i];
	const bool copies = s->kind == DOCKERFILE_COPY || s->kind == DOCKERFILE_ADD;
	int r = buf_printf(p->out, "%s ", dockerfile_word(s->kind));

	if (r >= 0)
		r = print_flags(p, s);
	if (r < 0)
		return r;
	if (s->kind == DOCKERFILE_SHELL)
		p->shells[s->stage] = s;
	if (s->kind == DOCKERFILE_FROM) {
		const struct dockerfile_stage *stage = &d->stages[s->stage];

		for (size_t k = 0; k < s->stage; k++)
			if (d->stages[k].name && streq(d->stages[k].name, stage->base))
				p->shells[s->stage] = p->shells[k];
		r = buf_add_str(p->out, stage->base);
		if (r >= 0 && stage->name)
			r = buf_printf(p->out, " AS %s", stage->name);
	} else if (s->kind == DOCKERFILE_RUN && s->n_here > 0) {
		r = print_script(p, s);
	} else if (copies && (s->n_here > 0 || s->kind == DOCKERFILE_ADD)) {
		r = print_words(p, i);
	} else {
		r = buf_add_str(p->out, s->text);
	}
	return r < 0 ? r : buf_add_char(p->out, '\n');
}

int dockerfile_print(const struct dockerfile *d, struct buf *out)
{
	struct printer p = {.d = d, .out = out};
	int r = d->escape == '\\' ? 0 : buf_printf(out, "# escape=%c\n", d->escape);

	for (size_t i = 0; r >= 0 && i < d->n; i++)
		if (dockerfile_is_printed(d, i))
			r = print_step(&p, i);
	return r;
}
