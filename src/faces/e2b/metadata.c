/* SPDX-License-Identifier: Apache-2.0 */
/* envd: what clients note about a file. It comes with the upload, in headers X-Metadata-KEY, and is kept as extended
 * attributes of the file, so programs in the sandbox see it, and may change it. */
#include "faces/e2b/face.h"

#include "base/text.h"
#include "sandbox/sandbox_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEADER  "x-metadata-"
#define KIND    "user.e2b."
#define KEY_MAX (255u - (sizeof(KIND) - 1)) /* Linux: bytes of a name */

/* ---- of an entry ---- */

json_t *e2b_metadata_json(const char *attributes, size_t len)
{
	json_t *o = NULL;

	for (size_t at = 0; at < len;) {
		const char *name = attributes + at;
		const size_t name_len = strnlen(name, len - at);

		if (name_len == len - at)
			break;
		const char *value = name + name_len + 1;
		const size_t value_len = strnlen(value, len - at - name_len - 1);
		at += name_len + 1 + value_len + 1;
		if (!text_starts_with(name, KIND) || !text_is_utf8(name, name_len))
			continue;
		o = o ? o : json_object();
		(void)json_object_set_new(o, name + sizeof(KIND) - 1, e2b_text_json(value));
	}
	return o;
}

/* ---- of an upload ---- */

int e2b_read_metadata(const struct http_request *req, struct buf *ret, struct err *e)
{
	const char *name, *value;
	int r = 0;

	for (unsigned i = 0; r == 0 && http_request_field(req, i, &name, &value); i++) {
		const size_t len = strlen(name);
		char key[KEY_MAX + 1];

		if (strncasecmp(name, HEADER, sizeof(HEADER) - 1) != 0)
			continue;
		name += sizeof(HEADER) - 1;
		if (!*name || len - (sizeof(HEADER) - 1) > KEY_MAX)
			return err_set(e, ERR_INVALID_ARGUMENT, 0,
				       "X-Metadata-: a key has 1 to %zu letters", KEY_MAX);
		for (size_t k = 0; k <= strlen(name); k++)
			key[k] = (char)tolower((unsigned char)name[k]);
		r = buf_printf(ret, KIND "%s%c%s%c", key, '\0', value, '\0');
	}
	return r < 0 ? err_set(e, ERR_INVALID_ARGUMENT, -r,
			       "X-Metadata-: a file has at most %u bytes of them",
			       ENGINE_ATTRIBUTES_MAX)
		     : 0;
}

/* Files that have their names already get what the client notes about them, one after the other. */
struct noting {
	struct e2b_call *call;
	struct sandbox *sandbox; /* reference */
	struct buf attributes;
	json_t *rows; /* owned: the answer */
	unsigned n, next;
	char *paths[]; /* owned; of the engine */
};

static void noting_free(struct noting *g)
{
	for (unsigned i = 0; i < g->n; i++)
		free(g->paths[i]);
	buf_done(&g->attributes);
	json_decref(g->rows);
	(void)sandbox_unref(g->sandbox);
	free(g);
}

static void note_next(struct noting *g);

static void on_noted(const struct err *e, void *user)
{
	struct noting *g = user;
	struct e2b_call *c = g->call;

	if (e) {
		noting_free(g);
		e2b_fail(c, e);
		return;
	}
	json_t *row = json_array_get(g->rows, g->next++);
	(void)json_object_set_new(row, "metadata",
				  e2b_metadata_json(g->attributes.data, g->attributes.len));
	note_next(g);
}

static void note_next(struct noting *g)
{
	struct e2b_call *c = g->call;
	struct err e = ERR_INIT;

	if (g->next == g->n) {
		json_t *rows = json_incref(g->rows);

		noting_free(g);
		e2b_reply(c, 200, rows);
	} else if (sandbox_set_attributes(g->sandbox, g->paths[g->next], g->attributes.data,
					  g->attributes.len, on_noted, g, &e) < 0) {
		noting_free(g);
		e2b_fail(c, &e);
	}
}

static json_t *row_json(const char *path)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(ENGINE_PATH_MAX + sizeof(E2B_HOME) + 1);
	const char *slash = strrchr(path, '/');

	if (e2b_add_path(&b, path) < 0)
		return json_object();
	return json_pack("{s:o, s:s, s:o}", "name", e2b_text_json(slash ? slash + 1 : path), "type",
			 "file", "path", e2b_text_json(buf_str(&b)));
}

void e2b_uploaded(struct e2b_call *c, const struct form_written *files, unsigned n,
		  struct buf *attributes)
{
	/* It may have been killed while the last file got its name. */
	struct sandbox *sandbox = c->sandbox->sandbox;
	if (!sandbox) {
		e2b_refuse(c, ERR_SANDBOX_LOST, "the sandbox has ended");
		return;
	}
	struct noting *g = calloc(1, sizeof(*g) + n * sizeof(g->paths[0]));
	bool whole = g;

	if (g) {
		*g = (struct noting){.call = c,
				     .sandbox = sandbox_ref(sandbox),
				     .attributes = *attributes,
				     .rows = json_array(),
				     .n = n};
		buf_init(attributes, 0);
	}
	for (unsigned i = 0; g && i < n; i++) {
		g->paths[i] = strdup(files[i].path);
		whole = whole && g->paths[i];
		(void)json_array_append_new(g->rows, row_json(files[i].path));
		e2b_note_change(c->sandbox, files[i].path, true);
	}
	if (!whole) {
		if (g)
			noting_free(g);
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	g->next = g->attributes.len > 0 ? 0 : n;
	note_next(g);
}
