/* SPDX-License-Identifier: Apache-2.0 */
#include "connect/connect.h"
#include "connect/entry.h"
#include "connect/jsonc.h"
#include "connect/toml.h"

#include "base/text.h"

#include <string.h>

#define OUR_WORD "caisson"

int connect_snippet(const struct client *c, const struct connect_target *target, struct buf *out)
{
	return connect_text_set(c, target, "", 0, out);
}

/* ---- JSON ---- */

struct path {
	const char *keys[4];
};

/* Where the entry is. Newer releases of opencode have their servers one level deeper. */
static struct path path_of(const struct client *c, const json_t *root, const char *name)
{
	const json_t *servers = json_object_get(root, c->servers);

	if (c->format == CLIENT_JSON_LIST && json_is_object(json_object_get(servers, "servers")))
		return (struct path){{c->servers, "servers", name, NULL}};
	return (struct path){{c->servers, name, NULL}};
}

static json_t *value_at(json_t *root, const struct path *p)
{
	for (size_t i = 0; root && p->keys[i]; i++)
		root = json_object_get(root, p->keys[i]);
	return root;
}

/* Does a word of the command name Caisson? */
static bool names_us(const json_t *value)
{
	size_t i;
	const json_t *item;

	if (json_is_string(value))
		return strstr(json_string_value(value), OUR_WORD) != NULL;
	json_array_foreach(value, i, item)
		if (names_us(item))
			return true;
	return false;
}

static enum entry_state json_state(const struct client *c, const struct connect_target *t,
				   const json_t *entry)
{
	const char *url = c->url_key ? json_string_value(json_object_get(entry, c->url_key)) : NULL;

	if (!entry)
		return ENTRY_NONE;
	return names_us(json_object_get(entry, "command")) ||
		       names_us(json_object_get(entry, "args")) ||
		       (url && t->url && streq(url, t->url))
		   ? ENTRY_OURS
		   : ENTRY_OTHER;
}

/* Takes the value at P out of ROOT, and the object of all servers if nothing else is in it. */
static void forget(json_t *root, const struct path *p)
{
	json_t *holder = root;
	size_t i = 0;

	for (; p->keys[i + 1]; i++)
		holder = json_object_get(holder, p->keys[i]);
	(void)json_object_del(holder, p->keys[i]);
	if (json_object_size(json_object_get(root, p->keys[0])) == 0)
		(void)json_object_del(root, p->keys[0]);
}

/* Is all but the value at P the same? An object of servers that is missing counts as empty. */
static bool rest_is_same(const json_t *before, const json_t *after, const struct path *p)
{
	json_auto_t *a = before ? json_deep_copy(before) : json_object();
	json_auto_t *b = json_deep_copy(after);

	forget(a, p);
	forget(b, p);
	return a && b && json_equal(a, b);
}

static int json_set(const struct client *c, const struct connect_target *t, const char *text,
		    size_t len, struct buf *out)
{
	json_auto_t *root = NULL, *after = NULL;
	int r = jsonc_read(text, len, &root);

	if (r < 0)
		return r;
	const struct path p = path_of(c, root, t->name);
	const json_t *old = value_at(root, &p);
	json_auto_t *entry = entry_json(c, t, json_is_object(old) ? old : NULL);
	if (!entry)
		return -ENOMEM;
	if (old && json_equal(old, entry))
		return buf_add(out, text, len);
	const size_t begin = out->len;
	r = jsonc_set(text, len, p.keys, entry, out);
	r = r < 0 ? r : jsonc_read(out->data + begin, out->len - begin, &after);
	if (r < 0)
		return r;
	/* A mistake of the editor must never reach the file of a user. */
	return json_equal(value_at(after, &p), entry) && rest_is_same(root, after, &p) ? 0
										       : -EBADMSG;
}

/* ---- both formats ---- */

static int toml_state(const struct client *c, const struct connect_target *t, const char *text,
		      size_t len, enum entry_state *ret)
{
	_cleanup_(buf_done) struct buf table = BUF_INIT(CONNECT_FILE_MAX);
	int r = toml_get(text, len, c->servers, t->name, &table);

	if (r < 0 && r != -ENOENT)
		return r;
	/* The header has the name, so it does not count. */
	const char *body = strchr(buf_str(&table), '\n');
	const bool ours =
	    body && (strstr(body, OUR_WORD) || (t->url && strstr(body, t->url) != NULL));
	*ret = r == -ENOENT ? ENTRY_NONE : ours ? ENTRY_OURS : ENTRY_OTHER;
	return 0;
}

int connect_text_state(const struct client *c, const struct connect_target *t, const char *text,
		       size_t len, enum entry_state *ret)
{
	json_auto_t *root = NULL;

	if (c->format == CLIENT_TOML)
		return toml_state(c, t, text, len, ret);
	int r = jsonc_read(text, len, &root);
	if (r < 0)
		return r;
	const struct path p = path_of(c, root, t->name);
	*ret = json_state(c, t, value_at(root, &p));
	return 0;
}

int connect_text_set(const struct client *c, const struct connect_target *t, const char *text,
		     size_t len, struct buf *out)
{
	if (c->format != CLIENT_TOML)
		return json_set(c, t, text, len, out);
	_cleanup_(buf_done) struct buf lines = BUF_INIT(CONNECT_FILE_MAX);
	int r = entry_toml(t, &lines);
	return r < 0
		   ? r
		   : toml_set(text, len, c->servers, t->name, buf_str(&lines), entry_owns, t, out);
}

/* ---- undo ---- */

static bool same(const struct buf *a, const char *text, size_t len)
{
	return a->len == len && memcmp(buf_str(a), text, len) == 0;
}

/* TEXT without the entry, or with the one that BACKUP has. */
static int json_undo(const struct client *c, const char *name, const char *text, size_t len,
		     const struct buf *backup, struct buf *out, bool *ret_whole)
{
	_cleanup_(buf_done) struct buf again = BUF_INIT(out->max);
	json_auto_t *root = NULL, *before = NULL;
	int r = jsonc_read(text, len, &root);

	if (r < 0)
		return r;
	const struct path p = path_of(c, root, name);
	const json_t *entry = value_at(root, &p);
	if (!entry)
		return -ENOENT;
	if (!backup || jsonc_read(buf_str(backup), backup->len, &before) < 0)
		return jsonc_remove(text, len, p.keys, out);
	/* The way is repeated: does the backup with this entry give this text? */
	r = jsonc_set(buf_str(backup), backup->len, p.keys, entry, &again);
	if (r == 0 && same(&again, text, len)) {
		*ret_whole = true;
		return buf_add(out, buf_str(backup), backup->len);
	}
	const struct path q = path_of(c, before, name);
	const json_t *old = value_at(before, &q);
	return old ? jsonc_set(text, len, p.keys, old, out) : jsonc_remove(text, len, p.keys, out);
}

static bool owns_all(const char *key UNUSED, size_t len UNUSED, const void *user UNUSED)
{
	return true;
}

/* The lines of a table behind its header. */
static const char *body_of(const struct buf *table)
{
	const char *nl = strchr(buf_str(table), '\n');

	return nl ? nl + 1 : "";
}

/* Is TEXT what connect_text_set() makes of BACKUP? The way is repeated with the lines that it wrote. */
static int toml_is_backup_with_entry(const struct client *c, const char *name, const char *text,
				     size_t len, const struct buf *backup, bool *ret)
{
	_cleanup_(buf_done) struct buf lines = BUF_INIT(CONNECT_FILE_MAX);
	_cleanup_(buf_done) struct buf again = BUF_INIT(CONNECT_FILE_MAX);
	struct connect_target t = {.name = name};
	int r = toml_first(text, len, c->servers, name, entry_owns, &t, &lines);

	if (text_starts_with(buf_str(&lines), "url"))
		t.url = "";
	r = r < 0 ? r
		  : toml_set(buf_str(backup), backup->len, c->servers, name, buf_str(&lines),
			     entry_owns, &t, &again);
	if (r < 0 && r != -EBADMSG)
		return r;
	*ret = r == 0 && same(&again, text, len);
	return 0;
}

static int toml_undo(const struct client *c, const char *name, const char *text, size_t len,
		     const struct buf *backup, struct buf *out, bool *ret_whole)
{
	_cleanup_(buf_done) struct buf now = BUF_INIT(out->max), old = BUF_INIT(out->max);
	int r = toml_get(text, len, c->servers, name, &now);

	if (r == 0 && backup)
		r = toml_is_backup_with_entry(c, name, text, len, backup, ret_whole);
	if (r < 0)
		return r;
	if (*ret_whole)
		return buf_add(out, buf_str(backup), backup->len);
	if (backup && toml_get(buf_str(backup), backup->len, c->servers, name, &old) == 0)
		return toml_set(text, len, c->servers, name, body_of(&old), owns_all, NULL, out);
	return toml_remove(text, len, c->servers, name, out);
}

int connect_text_undo(const struct client *c, const char *name, const char *text, size_t len,
		      const struct buf *backup, struct buf *out, bool *ret_whole)
{
	*ret_whole = backup && same(backup, text, len);
	if (*ret_whole)
		return buf_add(out, text, len);
	return c->format == CLIENT_TOML ? toml_undo(c, name, text, len, backup, out, ret_whole)
					: json_undo(c, name, text, len, backup, out, ret_whole);
}
