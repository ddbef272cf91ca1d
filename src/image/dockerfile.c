/* SPDX-License-Identifier: Apache-2.0 */
/* The syntax of Dockerfiles: directives, comments, continued lines, here-documents, flags, lists in JSON. */
#include "image/dockerfile_parts.h"

#include "base/suggest.h"
#include "base/text.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t\v\f\r"

const struct dockerfile_row dockerfile_rows[DOCKERFILE_KINDS_] = {
#define I(name, least, most, traits, form) {#name, least, most, traits, form},
#include "image/dockerfile.tbl.h"
#undef I
};

struct reader {
	struct dockerfile *d;
	const char *at, *end;
	unsigned line; /* of the line that was read last */
	struct err *e;
};

const char *dockerfile_word(enum dockerfile_kind kind)
{
	return dockerfile_rows[kind].word;
}

int dockerfile_fail(const struct dockerfile *d, unsigned line, struct err *e, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	text[text_utf8_cut(text, strlen(text), sizeof(text) - 1)] = '\0';
	for (char *s = text; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f || text_is_c1(s))
			*s = *s == (char)0xc2 ? *s : '?';
	if (!text_is_utf8(text, strlen(text)))
		for (char *s = text; *s; s++)
			*s = (unsigned char)*s > '~' ? '?' : *s;
	if (line == 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "%s: %s", d->name, text);
	return err_set(e, ERR_INVALID_ARGUMENT, 0, "%s:%u: %s", d->name, line, text);
}

static int no_memory(struct err *e)
{
	return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "reading a Dockerfile");
}

static bool next_line(struct reader *r, const char **ret, size_t *ret_len)
{
	if (r->at >= r->end)
		return false;
	const char *nl = memchr(r->at, '\n', (size_t)(r->end - r->at));
	const char *stop = nl ? nl : r->end;

	*ret = r->at;
	*ret_len = (size_t)(stop - r->at);
	if (*ret_len > 0 && stop[-1] == '\r')
		(*ret_len)--;
	r->at = nl ? nl + 1 : r->end;
	r->line++;
	return true;
}

static size_t lead(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && strchr(BLANKS, s[n]) && s[n])
		n++;
	return n;
}

static size_t trimmed(const char *s, size_t len)
{
	while (len > 0 && strchr(BLANKS, s[len - 1]) && s[len - 1])
		len--;
	return len;
}

/* "# escape=`" before everything else; a comment of another form ends them. Returns 1 for one, 0 for none. */
static int read_directive(struct reader *r, const char *s, size_t len, bool *seen)
{
	char name[16], value[8];
	size_t n = lead(s, len), i = 0;

	if (n == len || s[n] != '#')
		return 0;
	n++;
	n += lead(s + n, len - n);
	while (n < len && ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z')) &&
	       i < sizeof(name) - 1)
		name[i++] = s[n++];
	name[i] = '\0';
	n += lead(s + n, len - n);
	if (n == len || s[n] != '=')
		return 0;
	n++;
	n += lead(s + n, len - n);
	(void)snprintf(value, sizeof(value), "%.*s",
		       (int)MIN(trimmed(s + n, len - n), sizeof(value) - 1), s + n);
	if (strcasecmp(name, "syntax") == 0 || strcasecmp(name, "check") == 0)
		return 1; /* other programs of BuildKit's, which do not read the file here */
	if (strcasecmp(name, "escape") != 0)
		return 0;
	if (*seen)
		return dockerfile_fail(r->d, r->line, r->e, "the escape directive is given twice");
	if (!streq(value, "\\") && !streq(value, "`"))
		return dockerfile_fail(r->d, r->line, r->e, "escape is '\\' or '`', not '%s'",
				       value);
	*seen = true;
	r->d->escape = value[0];
	return 1;
}

static int read_directives(struct reader *r)
{
	bool seen = false;
	const char *s;
	size_t len;

	for (;;) {
		const struct reader before = *r;

		if (!next_line(r, &s, &len))
			return 0;
		const int found = read_directive(r, s, len, &seen);

		if (found > 0)
			continue;
		*r = before;
		return found;
	}
}

/* Does the line end with the escape? Then *LEN is what stands before it. */
static bool continues(const struct reader *r, const char *s, size_t *len)
{
	const size_t n = trimmed(s, *len);

	if (n == 0 || s[n - 1] != r->d->escape)
		return false;
	*len = n - 1;
	return true;
}

/* Joins the lines of the next instruction. 0: there is none. */
static int read_instruction(struct reader *r, struct buf *b, unsigned *ret_line)
{
	bool more = false;
	const char *s;
	size_t len;

	buf_reset(b);
	while (next_line(r, &s, &len)) {
		const size_t skip = lead(s, len);

		if (skip == len || s[skip] == '#')
			continue; /* also between continued lines */
		if (!more) {
			s += skip;
			len -= skip;
			*ret_line = r->line;
		}
		more = continues(r, s, &len);
		const int added = buf_add(b, s, len);

		if (added == -ENOMEM)
			return no_memory(r->e);
		if (added < 0)
			return dockerfile_fail(r->d, *ret_line, r->e,
					       "the instruction is longer than %u KiB",
					       DOCKERFILE_STEP_MAX >> 10);
		if (!more && trimmed(buf_str(b), b->len) > 0)
			return 1;
	}
	return trimmed(buf_str(b), b->len) > 0;
}

static int unknown_instruction(struct reader *r, unsigned line, const char *word, size_t len)
{
	char name[SUGGEST_NAME_MAX];

	(void)snprintf(name, sizeof(name), "%.*s", (int)MIN(len, sizeof(name) - 1), word);
	struct suggest s = suggest_for(name);

	for (size_t i = 0; i < ARRAY_SIZE(dockerfile_rows); i++)
		suggest_offer(&s, dockerfile_rows[i].word);
	return dockerfile_fail(r->d, line, r->e, "unknown instruction '%s'%s", name,
			       suggest_text(&s));
}

static int find_kind(struct reader *r, unsigned line, const char *word, size_t len,
		     enum dockerfile_kind *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(dockerfile_rows); i++)
		if (strlen(dockerfile_rows[i].word) == len &&
		    strncasecmp(dockerfile_rows[i].word, word, len) == 0) {
			*ret = (enum dockerfile_kind)i;
			return 0;
		}
	return unknown_instruction(r, line, word, len);
}

/* Takes the words that begin with "--" from the front of *S. */
static int read_flags(struct reader *r, struct dockerfile_step *step, const char **s)
{
	while (text_starts_with(*s, "--")) {
		size_t n = 0;
		char quote = '\0';

		for (; (*s)[n] && (quote || !strchr(BLANKS, (*s)[n])); n++) {
			if (quote ? (*s)[n] == quote : ((*s)[n] == '"' || (*s)[n] == '\''))
				quote = quote ? '\0' : (*s)[n];
		}
		const bool last = n == 2;

		if (!last && step->flags.n >= DOCKERFILE_FLAGS_MAX)
			return dockerfile_fail(r->d, step->line, r->e, "more than %d flags",
					       DOCKERFILE_FLAGS_MAX);
		if (!last && image_words_add(&step->flags, *s, n) < 0)
			return no_memory(r->e);
		*s += n;
		*s += lead(*s, strlen(*s));
		if (last)
			break;
	}
	return 0;
}

/* ["a", "b"]. 0: it is none, so it is for the shell. */
static int read_list(struct reader *r, struct dockerfile_step *step)
{
	const json_t *item;
	size_t i;

	if (step->text[0] != '[')
		return 0;
	json_t *list = json_loads(step->text, 0, NULL);
	bool good = json_is_array(list);
	int n = 0;

	json_array_foreach(list, i, item)
		good = good && json_is_string(item);
	json_array_foreach(list, i, item)
		if (good && n >= 0)
			n = image_words_add(&step->words, json_string_value(item),
					    json_string_length(item));
	json_decref(list);
	if (n < 0)
		return no_memory(r->e);
	step->exec = good;
	return 0;
}

/* A word of a command that begins a here-document: [0-9]*<<[-]NAME, NAME perhaps quoted. Returns its length; 0: it is none. */
static size_t here_at(const char *s, const char **name, size_t *len, bool *tabs, bool *quoted)
{
	static const char allowed[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
	const char *p = s + strspn(s, "0123456789");

	if (p[0] != '<' || p[1] != '<')
		return 0;
	p += 2;
	*tabs = *p == '-';
	p += *tabs;
	const char quote = *p == '"' || *p == '\'' ? *p : '\0';

	*quoted = quote != '\0';
	p += *quoted;
	*name = p;
	*len = strspn(p, allowed);
	p += *len;
	if (*len == 0 || *len > DOCKERFILE_NAME_MAX || (quote && *p++ != quote) ||
	    (*p && !strchr(BLANKS, *p)))
		return 0;
	return (size_t)(p - s);
}

static int read_here_lines(struct reader *r, struct dockerfile_step *step,
			   struct dockerfile_here *here, bool tabs)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(DOCKERFILE_BYTES_MAX);
	const size_t n = strlen(here->name);
	const char *s;
	size_t len;

	while (next_line(r, &s, &len)) {
		while (tabs && len > 0 && *s == '\t') {
			s++;
			len--;
		}
		if (len == n && memcmp(s, here->name, n) == 0) {
			here->text = text.len > 0 ? buf_take(&text) : strdup("");
			return here->text ? 0 : no_memory(r->e);
		}
		if (buf_add(&text, s, len) < 0 || buf_add_char(&text, '\n') < 0)
			return no_memory(r->e);
	}
	return dockerfile_fail(r->d, step->line, r->e, "no line ends the here-document '%s'",
			       here->name);
}

static int read_here(struct reader *r, struct dockerfile_step *step)
{
	const char *name;
	char quote = '\0';
	bool word = true;
	bool tabs, quoted;
	size_t len;

	if (!(dockerfile_rows[step->kind].traits & HERE) || step->exec)
		return 0;
	for (const char *s = step->text; *s; s++) {
		const size_t n = word && !quote ? here_at(s, &name, &len, &tabs, &quoted) : 0;

		if (n > 0) {
			if (step->n_here >= DOCKERFILE_HERE_MAX)
				return dockerfile_fail(r->d, step->line, r->e,
						       "more than %d here-documents",
						       DOCKERFILE_HERE_MAX);
			struct dockerfile_here *here = &step->here[step->n_here++];

			here->name = strndup(name, len);
			here->expands = !quoted;
			if (!here->name)
				return no_memory(r->e);
			const int got = read_here_lines(r, step, here, tabs);

			if (got < 0)
				return got;
			s += n - 1;
			word = false;
			continue;
		}
		word = strchr(BLANKS, *s) != NULL;
		if (*s == r->d->escape && quote != '\'' && s[1])
			s++;
		else if (quote ? *s == quote : (*s == '"' || *s == '\''))
			quote = quote ? '\0' : *s;
	}
	return 0;
}

static int add_step(struct reader *r, const struct buf *b, unsigned line)
{
	struct dockerfile *d = r->d;
	const char *s = buf_str(b);
	const size_t n = strcspn(s, BLANKS);
	enum dockerfile_kind kind = 0; /* gcc 14 does not see that find_kind() sets it */

	if (d->n >= DOCKERFILE_STEPS_MAX)
		return dockerfile_fail(d, line, r->e, "more than %d instructions",
				       DOCKERFILE_STEPS_MAX);
	int got = find_kind(r, line, s, n, &kind);

	if (got < 0)
		return got;
	struct dockerfile_step *more = realloc(d->steps, (d->n + 1) * sizeof(*more));

	if (!more)
		return no_memory(r->e);
	d->steps = more;
	struct dockerfile_step *step = &more[d->n++];

	*step = (struct dockerfile_step){.kind = kind, .line = line};
	s += n;
	s += lead(s, strlen(s));
	got = read_flags(r, step, &s);
	if (got < 0)
		return got;
	step->text = strndup(s, trimmed(s, strlen(s)));
	if (!step->text)
		return no_memory(r->e);
	if (dockerfile_rows[kind].traits & EXEC)
		got = read_list(r, step);
	return got < 0 ? got : read_here(r, step);
}

static int read_all(struct reader *r)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(DOCKERFILE_STEP_MAX);
	unsigned line = 0;
	int got = read_directives(r);

	while (got >= 0) {
		got = read_instruction(r, &b, &line);
		if (got <= 0)
			break;
		got = add_step(r, &b, line);
	}
	return got;
}

int dockerfile_parse(const char *text, size_t len, const struct dockerfile_options *o,
		     struct dockerfile *ret, struct err *e)
{
	struct dockerfile d = {.escape = '\\', .in_sandbox = o->in_sandbox};

	(void)snprintf(d.name, sizeof(d.name), "%.64s", o->name);
	if (!image_is_text(d.name, strlen(d.name)))
		(void)snprintf(d.name, sizeof(d.name), "Dockerfile");
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
		text += 3;
		len -= 3;
	}
	struct reader r = {.d = &d, .at = text, .end = text + len, .e = e};
	int got = 0;

	if (len > DOCKERFILE_BYTES_MAX)
		got = dockerfile_fail(&d, 0, e, "the file is larger than %u KiB",
				      DOCKERFILE_BYTES_MAX >> 10);
	else if (memchr(text, '\0', len) || !text_is_utf8(text, len) ||
		 (o->in_sandbox &&
		  (memchr(text, DOCKERFILE_OPEN, len) || memchr(text, DOCKERFILE_SHUT, len))))
		got = dockerfile_fail(&d, 0, e, "the file is no text in UTF-8");
	if (got >= 0)
		got = read_all(&r);
	if (got >= 0)
		got = dockerfile_check(&d, o, e);
	if (got < 0) {
		dockerfile_done(&d);
		*ret = (struct dockerfile){0};
		return got;
	}
	*ret = d;
	return 0;
}

void dockerfile_done(struct dockerfile *d)
{
	for (size_t i = 0; i < d->n; i++) {
		struct dockerfile_step *s = &d->steps[i];

		image_words_done(&s->flags);
		image_words_done(&s->words);
		free(s->text);
		for (size_t h = 0; h < s->n_here; h++) {
			free(s->here[h].name);
			free(s->here[h].text);
		}
	}
	free(d->steps);
	for (size_t i = 0; i < d->n_stages; i++) {
		free(d->stages[i].base);
		free(d->stages[i].name);
	}
	image_words_done(&d->images);
	image_words_done(&d->remote);
	image_words_done(&d->unused);
	*d = (struct dockerfile){0};
}
