/* SPDX-License-Identifier: Apache-2.0 */
#include "http/route.h"

#include <string.h>

struct entry {
	const struct http_route *row;
	void *userdata;
	unsigned scopes;
	unsigned n_segs;
	uint64_t rank; /* two bits for each segment, from the left: literal 3, parameter 2, tail 1
		        */
};

struct http_routes {
	size_t n;
	struct entry entries[];
};

enum seg_kind { SEG_TAIL = 1, SEG_PARAM = 2, SEG_LITERAL = 3 };

struct seg {
	const char *text; /* a literal, or the name of a parameter */
	size_t len;
	enum seg_kind kind;
};

/* Reads the segment at P, which is behind its slash. Returns where the next slash or the end is, or
 * NULL if the segment is bad. */
static const char *next_seg(const char *p, struct seg *ret)
{
	const size_t len = strcspn(p, "/");
	size_t name = len;

	*ret = (struct seg){.text = p, .len = len, .kind = SEG_LITERAL};
	if (*p != '{')
		return memchr(p, '{', len) || memchr(p, '}', len) ? NULL : p + len;
	if (len < 3 || p[len - 1] != '}')
		return NULL;
	name -= 2;
	ret->kind = SEG_PARAM;
	if (name > 3 && memcmp(p + 1 + name - 3, "...", 3) == 0) {
		ret->kind = SEG_TAIL;
		name -= 3;
		if (p[len] == '/')
			return NULL;
	}
	ret->text = p + 1;
	ret->len = name;
	return p + len;
}

static int entry_init(struct entry *en, const struct http_route *row, unsigned scopes,
		      void *userdata)
{
	const char *p = row->pattern;
	unsigned params = 0;

	*en = (struct entry){.row = row, .userdata = userdata, .scopes = scopes};
	if (!row->handler || row->methods == 0 || *p != '/')
		return -EINVAL;
	while (*p) {
		struct seg seg;

		if (en->n_segs == HTTP_SEGMENTS_MAX)
			return -EINVAL;
		p = next_seg(p + 1, &seg);
		if (!p)
			return -EINVAL;
		params += seg.kind != SEG_LITERAL;
		en->rank |= (uint64_t)seg.kind << (62 - 2 * en->n_segs);
		en->n_segs++;
	}
	return params > HTTP_PARAMS_MAX ? -EINVAL : 0;
}

int http_routes_add(struct http_routes **routes, const struct http_route *rows, size_t n,
		    unsigned scopes, void *userdata)
{
	const size_t old = *routes ? (*routes)->n : 0;
	struct http_routes *grown;

	grown = realloc(*routes, sizeof(*grown) + (old + n) * sizeof(grown->entries[0]));
	if (!grown)
		return -ENOMEM;
	grown->n = old;
	*routes = grown;
	for (size_t i = 0; i < n; i++) {
		const int r = entry_init(&grown->entries[old + i], &rows[i], scopes, userdata);

		if (r < 0)
			return r;
	}
	grown->n = old + n;
	return 0;
}

struct http_routes *http_routes_free(struct http_routes *routes)
{
	free(routes);
	return NULL;
}

/* Whether the parameter SEG may have the value of REST, its segment and those behind it. */
static bool may_have_slashes(const struct entry *en, const struct seg *seg, char *const *rest,
			     unsigned n_rest)
{
	const bool tail = seg->kind == SEG_TAIL;

	if (tail && (en->row->flags & (HTTP_ROUTE_CODED_SLASHES | HTTP_ROUTE_ANY_TAIL)))
		return true;
	for (unsigned i = 0; i < (tail ? n_rest : 1); i++)
		if (strchr(rest[i], '/'))
			return false;
	return true;
}

/* Does the path fit the pattern? Fills the parameters of RET meanwhile. */
static bool fits(const struct entry *en, char *const *segs, unsigned n_segs, struct http_match *ret)
{
	const char *p = en->row->pattern;

	ret->n_params = 0;
	for (unsigned i = 0; *p; i++) {
		struct seg seg;

		p = next_seg(p + 1, &seg);
		if (i == n_segs || !p)
			return false;
		if (seg.kind == SEG_LITERAL) {
			if (strlen(segs[i]) != seg.len || memcmp(segs[i], seg.text, seg.len) != 0)
				return false;
			continue;
		}
		const bool any = seg.kind == SEG_TAIL && (en->row->flags & HTTP_ROUTE_ANY_TAIL);
		if ((*segs[i] == '\0' && !any) || !may_have_slashes(en, &seg, segs + i, n_segs - i))
			return false;
		ret->params[ret->n_params].name = seg.text;
		ret->params[ret->n_params].name_len = seg.len;
		ret->params[ret->n_params].value = segs[i];
		ret->n_params++;
		if (seg.kind == SEG_TAIL)
			return true;
	}
	return true;
}

static bool has_tail(const struct entry *en)
{
	return ((en->rank >> (64 - 2 * en->n_segs)) & 3) == SEG_TAIL;
}

static bool length_fits(const struct entry *en, unsigned n_segs)
{
	return has_tail(en) ? n_segs >= en->n_segs : n_segs == en->n_segs;
}

void http_routes_match(const struct http_routes *routes, unsigned scopes, enum http_method method,
		       char *const *segs, unsigned n_segs, struct http_match *ret)
{
	const struct entry *best = NULL;
	struct http_match try;

	*ret = (struct http_match){0};
	for (size_t i = 0; routes && i < routes->n; i++) {
		const struct entry *en = &routes->entries[i];
		unsigned methods = en->row->methods;

		if (!(en->scopes & scopes) || !length_fits(en, n_segs) ||
		    !fits(en, segs, n_segs, &try))
			continue;
		if (methods & HTTP_GET)
			methods |= HTTP_HEAD;
		ret->allow |= methods;
		ret->pages |= (en->row->flags & HTTP_ROUTE_PAGES) != 0;
		if ((methods & method) && (!best || en->rank > best->rank))
			best = en;
	}
	if (!best)
		return;
	ret->row = best->row;
	ret->userdata = best->userdata;
	if (!fits(best, segs, n_segs, &try))
		return;
	ret->n_params = try.n_params;
	memcpy(ret->params, try.params, sizeof(ret->params));
	/* The decoded segments lie one behind the other in memory; their NULs become slashes. */
	for (unsigned i = best->n_segs; has_tail(best) && i < n_segs; i++)
		segs[i][-1] = '/';
}
