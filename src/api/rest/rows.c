/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rest/rows.h"

#include "base/json_text.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LIVE_MAX 100000u

static void rows_free(void *user)
{
	struct rows *r = user;

	for (size_t i = 0; i < r->n_live; i++)
		free(r->live[i]);
	free(r->live);
	free(r->text);
	free(r->sandbox);
	free(r);
}

static bool copy_query(const struct rest_call *c, const char *name, char **ret)
{
	const char *given = http_request_query(c->req, name);

	*ret = given && *given ? strdup(given) : NULL;
	return *ret || !given || !*given;
}

struct rows *rows_new(struct rest_call *c, const char *name,
		      int (*each)(struct rows *r, struct store *reading, struct err *e))
{
	struct rows *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->name = name;
	r->each = each;
	(void)snprintf(r->owner, sizeof(r->owner), "%s", c->owner);
	r->whose = rest_query_bool(c, "all") && c->who->admin ? NULL : r->owner;
	r->left = (size_t)rest_query_int(c, "limit", REST_LIMIT_DEFAULT);
	if (copy_query(c, "q", &r->text) && copy_query(c, "sandbox", &r->sandbox))
		return r;
	rows_free(r);
	return NULL;
}

/* ---- which sandboxes live ---- */

static void note_live(struct sandbox *s, void *user)
{
	struct rows *r = user;
	char **more = (r->n_live & (r->n_live - 1)) == 0
			  ? reallocarray(r->live, r->n_live ? 2 * r->n_live : 1, sizeof(*more))
			  : r->live;
	char *id = more && r->n_live < LIVE_MAX ? strdup(sandbox_id(s)) : NULL;

	r->live = more ? more : r->live;
	if (id)
		r->live[r->n_live++] = id;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void rows_note_live(struct rows *r, struct manager *m)
{
	manager_each(m, r->owner, note_live, r);
	if (r->n_live > 1)
		qsort(r->live, r->n_live, sizeof(*r->live), compare);
}

bool rows_is_live(const struct rows *r, const char *id)
{
	return r->n_live > 0 && bsearch(&id, r->live, r->n_live, sizeof(*r->live), compare);
}

/* ---- rows ---- */

bool rows_begin(struct rows *r)
{
	r->full = r->full || pieces_is_full(r->out);
	return !r->full && r->failed == 0;
}

bool rows_end(struct rows *r, int failed)
{
	r->failed = failed;
	r->n++;
	return failed == 0;
}

static int read_piece(void *user, struct store *reading, struct buf *out, struct err *e)
{
	struct rows *r = user;

	r->out = out;
	r->full = false;
	/* A row puts a comma before itself, unless it follows a bracket or nothing. */
	r->failed = r->n == 0 ? buf_printf(out, "{\"%s\":[", r->name) : buf_add_char(out, '\n');
	if (r->failed == 0 && r->each(r, reading, e) < 0)
		r->failed = -EIO;
	if (r->failed < 0 || r->full)
		return r->failed < 0 ? r->failed : PIECES_READ;
	int failed = buf_add_char(out, ']');
	if (failed == 0 && r->has_next)
		failed = r->more ? buf_printf(out, ",\"next\":%" PRIu64, r->before)
				 : buf_add_str(out, ",\"next\":null");
	failed = failed < 0 ? failed : buf_add_char(out, '}');
	return failed < 0 ? failed : PIECES_END;
}

void rows_reply(struct rest_call *c, struct rows *r)
{
	static const struct pieces_ops ops = {.read = read_piece, .free = rows_free};
	struct pieces *p = pieces_new(c, &ops, r);

	if (p)
		pieces_begin(p, PIECES_READ);
}
