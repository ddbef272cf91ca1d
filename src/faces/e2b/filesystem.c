/* SPDX-License-Identifier: Apache-2.0 */
/* envd: looking at files and folders, making, moving and removing them. */
#include "faces/e2b/face.h"

#include "base/rand.h"
#include "base/text.h"
#include "sandbox/sandbox_names.h"
#include "sandbox/sandbox_path.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define TIME_SIZE 40

/* ---- an entry ---- */

static const char *type_of(mode_t mode)
{
	return S_ISREG(mode)   ? "FILE_TYPE_FILE"
	       : S_ISDIR(mode) ? "FILE_TYPE_DIRECTORY"
	       : S_ISLNK(mode) ? "FILE_TYPE_SYMLINK"
			       : "FILE_TYPE_UNSPECIFIED";
}

/* "-rw-r--r--", as Go writes it. */
static void permissions_of(mode_t mode, char ret[11])
{
	static const char letters[] = "rwxrwxrwx";

	ret[0] = S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'L' : '-';
	for (unsigned i = 0; i < 9; i++)
		ret[i + 1] = mode & (0400u >> i) ? letters[i] : '-';
	ret[10] = '\0';
}

static void time_of(int64_t ns, char ret[TIME_SIZE])
{
	const time_t s = (time_t)(ns / (int64_t)NS_PER_S);
	struct tm tm;
	size_t n = 0;

	if (gmtime_r(&s, &tm))
		n = strftime(ret, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(ret + n, TIME_SIZE - n, ".%09uZ",
		       (unsigned)(ns > 0 ? ns % (int64_t)NS_PER_S : 0));
}

static const char *name_of(uint32_t id)
{
	return id == 1000 ? "user" : "root";
}

json_t *e2b_entry_json(const char *path, const struct engine_file *f)
{
	_cleanup_(buf_done) struct buf full = BUF_INIT(2 * ENGINE_PATH_MAX);
	char permissions[11], when[TIME_SIZE], size[24];

	if (e2b_add_path(&full, path) < 0)
		return NULL;
	const char *slash = strrchr(buf_str(&full), '/');
	permissions_of(f->mode, permissions);
	time_of(f->mtime_ns, when);
	(void)snprintf(size, sizeof(size), "%ju", (uintmax_t)f->size);
	return json_pack("{s:o, s:s, s:o, s:s, s:i, s:s, s:s, s:s, s:s}", "name",
			 e2b_text_json(slash ? slash + 1 : ""), "type", type_of(f->mode), "path",
			 e2b_text_json(buf_str(&full)), "size", size, "mode",
			 (int)(f->mode & 07777), "permissions", permissions, "owner",
			 name_of(f->uid), "group", name_of(f->gid), "modifiedTime", when);
}

json_t *e2b_stat_json(const char *path, const struct engine_stat *st)
{
	struct engine_file f = st->file;
	char target[ENGINE_PATH_MAX], base[ENGINE_PATH_MAX];
	_cleanup_(buf_done) struct buf full = BUF_INIT(2 * ENGINE_PATH_MAX);
	struct err e = ERR_INIT;

	if (!S_ISLNK(f.mode) || e2b_add_path(&full, path) < 0) {
		json_t *entry = e2b_entry_json(path, &f);
		json_t *metadata = e2b_metadata_json(st->attributes, st->attributes_len);

		if (metadata)
			(void)json_object_set_new(entry, "metadata", metadata);
		return entry;
	}
	if (st->target_mode != 0) {
		f.mode = st->target_mode;
		f.size = st->target_size;
	}
	json_t *o = e2b_entry_json(path, &f);
	const char *slash = strrchr(buf_str(&full), '/');
	(void)snprintf(base, sizeof(base), "%.*s", slash ? (int)(slash - buf_str(&full)) : 0,
		       buf_str(&full));
	buf_reset(&full);
	if (sandbox_path(st->target, strlen(st->target), base[0] ? base : "/", target, &e) == 0 &&
	    e2b_add_path(&full, target) == 0)
		(void)json_object_set_new(o, "symlinkTarget", e2b_text_json(buf_str(&full)));
	return o;
}

/* ---- calls ---- */

bool e2b_need_path(struct e2b_call *c, const char *member, char *ret)
{
	const json_t *v = json_object_get(c->body, member);
	const char *path = json_string_value(v);
	struct err e = ERR_INIT;
	int r = e2b_check_user(c, &e);

	if (r == 0 && (!path || strlen(path) != json_string_length(v)))
		r = err_set(&e, ERR_INVALID_ARGUMENT, 0, "%s: a path", member);
	r = r < 0 ? r : e2b_path(c, path, ret, &e);
	if (r < 0)
		e2b_fail(c, &e);
	return r == 0;
}

/* A call about one path, while the engine works. */
struct looking {
	struct e2b_call *call;
	char path[ENGINE_PATH_MAX];
};

static struct looking *looking_new(struct e2b_call *c, const char *path)
{
	struct looking *l = calloc(1, sizeof(*l));

	if (!l) {
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return NULL;
	}
	l->call = c;
	memcpy(l->path, path, strlen(path) + 1);
	return l;
}

static void looking_fail(struct looking *l, const struct err *e)
{
	struct e2b_call *c = l->call;

	free(l);
	e2b_fail(c, e);
}

static void on_stat(const struct engine_stat *st, const struct err *e, void *user)
{
	struct looking *l = user;

	if (e) {
		looking_fail(l, e);
		return;
	}
	struct e2b_call *c = l->call;
	json_t *entry = e2b_stat_json(l->path, st);
	free(l);
	e2b_reply(c, 200, json_pack("{s:o}", "entry", entry));
}

/* The answer to a call that changed l->path is what is there now. */
static void tell_entry(struct looking *l)
{
	struct err e = ERR_INIT;
	struct e2b_sandbox *s = l->call->sandbox;

	if (!s->sandbox)
		(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox has ended");
	else if (sandbox_stat(s->sandbox, l->path, on_stat, l, &e) == 0)
		return;
	looking_fail(l, &e);
}

void e2b_stat(struct e2b_call *c)
{
	char path[ENGINE_PATH_MAX];

	if (!e2b_need_path(c, "path", path))
		return;
	struct looking *l = looking_new(c, path);
	if (l)
		tell_entry(l);
}

static void on_changed(const struct err *e, void *user)
{
	const struct looking *l = user;

	e2b_note_change(l->call->sandbox, l->path, false);
	if (e)
		looking_fail(user, e);
	else
		tell_entry(user);
}

void e2b_make_dir(struct e2b_call *c)
{
	char path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	if (!e2b_need_path(c, "path", path))
		return;
	struct looking *l = looking_new(c, path);
	if (l &&
	    sandbox_make_folder(c->sandbox->sandbox, path, e2b_file_how(c), on_changed, l, &e) < 0)
		looking_fail(l, &e);
}

void e2b_move(struct e2b_call *c)
{
	char from[ENGINE_PATH_MAX], to[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	if (!e2b_need_path(c, "source", from) || !e2b_need_path(c, "destination", to))
		return;
	struct looking *l = looking_new(c, to);
	if (l &&
	    sandbox_move(c->sandbox->sandbox, from, to, e2b_file_how(c), on_changed, l, &e) < 0)
		looking_fail(l, &e);
}

static void on_removed(const struct err *e, void *user)
{
	struct e2b_call *c = user;

	e2b_note_change(c->sandbox, "", false);
	if (e && e->code != ERR_NOT_FOUND)
		e2b_fail(c, e);
	else
		e2b_reply(c, 200, json_object());
}

void e2b_remove(struct e2b_call *c)
{
	char path[ENGINE_PATH_MAX];
	struct err e = ERR_INIT;

	if (e2b_need_path(c, "path", path) &&
	    sandbox_remove_file(c->sandbox->sandbox, path, true, on_removed, c, &e) < 0)
		on_removed(&e, c);
}
