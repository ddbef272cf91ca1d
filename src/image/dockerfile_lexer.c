/* SPDX-License-Identifier: Apache-2.0 */
/* Words of a Dockerfile: quotes, the escape, and variables as ${NAME}, ${NAME:-WORD}, ${NAME:+WORD} and ${NAME:?WORD}, each also
 * without the colon. */
#include "image/dockerfile_parts.h"

#include "base/text.h"

#include <string.h>

#define BLANKS " \t\v\f\r"

bool dockerfile_is_name(const char *s, size_t len)
{
	static const char allowed[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

	if (len == 0 || len > DOCKERFILE_NAME_MAX || (s[0] >= '0' && s[0] <= '9'))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!s[i] || !strchr(allowed, s[i]))
			return false;
	return true;
}

const char *dockerfile_vars_get(const struct dockerfile_vars *v, const char *name)
{
	for (size_t i = 0; i < v->n; i++)
		if (streq(v->v[i].name, name))
			return v->v[i].value;
	return NULL;
}

int dockerfile_vars_set(struct dockerfile_vars *v, const char *name, const char *value, bool env)
{
	size_t i = 0;

	while (i < v->n && !streq(v->v[i].name, name))
		i++;
	if (i < v->n && v->v[i].env && !env)
		return 0;
	if (i == DOCKERFILE_VARS_MAX)
		return -E2BIG;
	_cleanup_free_ char *own_name = i == v->n ? strdup(name) : NULL;
	char *own_value = strdup(value);

	if ((i == v->n && !own_name) || !own_value) {
		free(own_value);
		return -ENOMEM;
	}
	if (i == v->n) {
		v->v[i].name = TAKE_PTR(own_name);
		v->v[i].value = NULL;
		v->n++;
	}
	free(v->v[i].value);
	v->v[i].value = own_value;
	v->v[i].env = env;
	return 0;
}

void dockerfile_vars_clear(struct dockerfile_vars *v)
{
	for (size_t i = 0; i < v->n; i++) {
		free(v->v[i].name);
		free(v->v[i].value);
	}
	v->n = 0;
}

int dockerfile_split(const char *s, char escape, bool quotes, struct image_words *ret)
{
	for (;;) {
		size_t n = 0;
		char quote = '\0';

		s += strspn(s, BLANKS);
		if (!*s)
			return 0;
		for (; s[n] && (quote || !strchr(BLANKS, s[n])); n++) {
			if (!quotes)
				continue;
			if (s[n] == escape && quote != '\'' && s[n + 1])
				n++;
			else if (quote ? s[n] == quote : (s[n] == '"' || s[n] == '\''))
				quote = quote ? '\0' : s[n];
		}
		int r = image_words_add(ret, s, n);

		if (r < 0)
			return r;
		s += n;
	}
}

/* One pass over a word. */
struct pass {
	struct dockerfile_lexer *l;
	struct buf *out;
	struct err *e;
	bool plain; /* quotes mean nothing */
	const char *s;
};

static int expand(struct pass *p, char stop, unsigned depth);

static int put(struct pass *p, const char *s, size_t n)
{
	p->l->expanded += n;
	if (p->l->expanded > DOCKERFILE_EXPANDED_MAX)
		return dockerfile_fail(p->l->d, p->l->line, p->e,
				       "the variables of this file become more than %u MiB of text",
				       DOCKERFILE_EXPANDED_MAX >> 20);
	int r = buf_add(p->out, s, n);

	if (r == -ENOMEM)
		return err_set(p->e, ERR_OUT_OF_MEMORY, ENOMEM, "reading a Dockerfile");
	return r < 0 ? dockerfile_fail(p->l->d, p->l->line, p->e,
				       "a word becomes longer than %zu KiB by its variables",
				       p->out->max >> 10)
		     : 0;
}

static int put_variable(struct pass *p, const char *name)
{
	const char *value = dockerfile_vars_get(p->l->vars, name);

	if (value)
		return put(p, value, strlen(value));
	(void)snprintf(p->l->unknown, sizeof(p->l->unknown), "%s", name);
	if (!p->l->keeps || !dockerfile_is_name(name, strlen(name)))
		return 0;
	char kept[DOCKERFILE_NAME_MAX + 3];

	const int n =
	    snprintf(kept, sizeof(kept), "%c%s%c", DOCKERFILE_OPEN, name, DOCKERFILE_SHUT);

	return put(p, kept, (size_t)n);
}

/* Of S, a name: its length. Digits and signs are names of their own, which no Dockerfile can set. */
static size_t name_length(const char *s)
{
	size_t n = 0;

	while (dockerfile_is_name(s, n + 1))
		n++;
	return n > 0 ? n : *s && strchr("0123456789@*#?!$-", *s) ? 1 : 0;
}

/* Behind "${NAME": ":-WORD}" and its kind. */
static int expand_operator(struct pass *p, const char *name, unsigned depth)
{
	const struct dockerfile_lexer *l = p->l;
	const char *value = dockerfile_vars_get(l->vars, name);
	const bool colon = *p->s == ':';
	const bool set = value && (!colon || value[0]);
	const char op = p->s[colon];

	if (!op)
		return dockerfile_fail(l->d, l->line, p->e, "'${%s' without its '}'", name);
	if (!strchr("-+?", op))
		return dockerfile_fail(
		    l->d, l->line, p->e,
		    "${%s%c...}: of the forms of a variable, ':-', ':+' and ':?' "
		    "are known here",
		    name, op);
	if (depth >= DOCKERFILE_DEPTH_MAX)
		return dockerfile_fail(l->d, l->line, p->e,
				       "variables are nested more than %d deep",
				       DOCKERFILE_DEPTH_MAX);
	p->s += colon + 1;
	_cleanup_(buf_done) struct buf word = BUF_INIT(DOCKERFILE_VALUE_MAX);
	struct pass inner = {.l = p->l, .out = &word, .e = p->e, .plain = p->plain, .s = p->s};
	int r = expand(&inner, '}', depth + 1);

	p->s = inner.s;
	if (r < 0)
		return r;
	if (op == '?' && !set)
		return dockerfile_fail(l->d, l->line, p->e, "%s: %.200s", name,
				       word.len > 0 ? buf_str(&word) : "is not set");
	if (op == '+')
		return set ? put(p, buf_str(&word), word.len) : 0;
	return set ? put_variable(p, name) : put(p, buf_str(&word), word.len);
}

static int expand_variable(struct pass *p, unsigned depth)
{
	char name[DOCKERFILE_NAME_MAX + 1];
	const bool braces = p->s[1] == '{';
	const char *s = p->s + 1 + braces;
	const size_t n = name_length(s);

	if (n == 0 && !braces) {
		p->s++;
		return put(p, "$", 1);
	}
	if (n == 0)
		return dockerfile_fail(p->l->d, p->l->line, p->e, "'${' without a name");
	(void)snprintf(name, sizeof(name), "%.*s", (int)n, s);
	p->s = s + n;
	if (!braces)
		return put_variable(p, name);
	if (*p->s != '}') {
		int r = expand_operator(p, name, depth);

		if (r < 0)
			return r;
		if (*p->s != '}')
			return dockerfile_fail(p->l->d, p->l->line, p->e, "'${%s' without its '}'",
					       name);
		p->s++;
		return 0;
	}
	p->s++;
	return put_variable(p, name);
}

/* Behind the quote. */
static int expand_quoted(struct pass *p, char quote, unsigned depth)
{
	const char escape = p->l->d->escape;
	int r = 0;

	while (r >= 0 && *p->s && *p->s != quote) {
		if (quote == '"' && *p->s == '$') {
			r = expand_variable(p, depth);
			continue;
		}
		if (quote == '"' && *p->s == escape &&
		    (p->s[1] == '"' || p->s[1] == '$' || p->s[1] == escape))
			p->s++;
		r = put(p, p->s, 1);
		p->s++;
	}
	if (r < 0)
		return r;
	if (!*p->s)
		return dockerfile_fail(p->l->d, p->l->line, p->e, "a quote (%c) is not closed",
				       quote);
	p->s++;
	return 0;
}

static int expand(struct pass *p, char stop, unsigned depth)
{
	const char escape = p->l->d->escape;
	int r = 0;

	while (r >= 0 && *p->s && (!stop || *p->s != stop)) {
		if (*p->s == '$') {
			r = expand_variable(p, depth);
		} else if (!p->plain && (*p->s == '"' || *p->s == '\'')) {
			const char quote = *p->s++;

			r = expand_quoted(p, quote, depth);
		} else {
			if (*p->s == escape && p->s[1] &&
			    (!p->plain || p->s[1] == '$' || p->s[1] == escape))
				p->s++;
			else if (*p->s == escape && !p->s[1] && !p->plain)
				return 0;
			r = put(p, p->s, 1);
			p->s++;
		}
	}
	return r;
}

int dockerfile_expand(struct dockerfile_lexer *l, const char *s, struct buf *out, struct err *e)
{
	struct pass p = {.l = l, .out = out, .e = e, .s = s};

	return expand(&p, '\0', 0);
}

int dockerfile_expand_here(struct dockerfile_lexer *l, const char *s, struct buf *out,
			   struct err *e)
{
	struct pass p = {.l = l, .out = out, .e = e, .plain = true, .s = s};

	return expand(&p, '\0', 0);
}
