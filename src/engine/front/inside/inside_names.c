/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about names: what one is, a new folder, another name. */
#include "engine/front/inside/inside_files.h"

#include "base/tenant_fd.h"
#include "base/text.h"
#include "engine/engine_names.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* ---- asking ---- */

int engine_stat_file(struct engine_sandbox *s, const char *path, engine_stat_fn cb, void *user,
		     struct err *e)
{
	struct inside_file_op *o = NULL;
	int r = inside_file_ask(s, PROTO_FILE_STAT, 0, 0, path, &o, e);

	if (r < 0 || !o)
		return r;
	o->cb.stat = cb;
	o->user = user;
	return 0;
}

int engine_make_folder(struct engine_sandbox *s, const char *path, unsigned how, engine_done_fn cb,
		       void *user, struct err *e)
{
	struct inside_file_op *o = NULL;
	int r = inside_file_ask(s, PROTO_FILE_MAKE, inside_file_flags(how), 0, path, &o, e);

	if (r < 0 || !o)
		return r;
	o->cb.done = cb;
	o->user = user;
	return 0;
}

int engine_move_file(struct engine_sandbox *s, const char *from, const char *to, unsigned how,
		     engine_done_fn cb, void *user, struct err *e)
{
	struct proto_init_move m = {.head = PROTO_HEAD(INIT_MOVE, proto_init_move),
				    .flags = inside_file_flags(how),
				    .seq = ++s->next_seq};
	struct inside_file_op *o = NULL;
	char text[sizeof(m.from) + sizeof(m.to) + 8];
	int r = inside_check_ready(s, e);

	if (r < 0)
		return r;
	if (text_copy(m.from, sizeof(m.from), from) < 0 || !proto_path_ok(m.from, true) ||
	    text_copy(m.to, sizeof(m.to), to) < 0 || !proto_path_ok(m.to, true))
		return inside_file_bad_path(e);
	(void)snprintf(text, sizeof(text), "%s' to '%s", from, to); /* errors put it into quotes */
	r = inside_file_send(s, PROTO_FILE_MOVE, m.seq, 0, text, &m.head, &o, e);
	if (r < 0 || !o)
		return r;
	o->cb.done = cb;
	o->user = user;
	return 0;
}

int engine_set_attributes(struct engine_sandbox *s, const char *path, const char *attributes,
			  size_t len, engine_done_fn cb, void *user, struct err *e)
{
	struct proto_init_set m = {.head = PROTO_HEAD(INIT_SET, proto_init_set),
				   .seq = ++s->next_seq,
				   .bytes = (uint32_t)len};
	struct inside_file_op *o = NULL;
	int r = inside_check_ready(s, e);

	ASSERT(len > 0 && attributes[len - 1] == '\0');
	if (r < 0)
		return r;
	if (len > sizeof(m.attributes))
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "a file has at most %zu bytes of attributes", sizeof(m.attributes));
	if (text_copy(m.path, sizeof(m.path), path) < 0 || !proto_path_ok(m.path, false))
		return inside_file_bad_path(e);
	memcpy(m.attributes, attributes, len);
	r = inside_file_send(s, PROTO_FILE_SET, m.seq, 0, path, &m.head, &o, e);
	if (r < 0 || !o)
		return r;
	o->cb.done = cb;
	o->user = user;
	return 0;
}

/* ---- answers ---- */

bool inside_names_error(const struct inside_file_op *o, int errnum, struct err *e)
{
	static const struct {
		int errnum;
		bool makes; /* also of MAKE */
		enum err_code code;
		const char *text;
	} rows[] = {
	    {EEXIST, true, ERR_ALREADY_EXISTS, "something has the name already"},
	    {ENOTEMPTY, true, ERR_ALREADY_EXISTS, "something has the name already"},
	    {EISDIR, true, ERR_ALREADY_EXISTS, "a folder has the name already"},
	    {ENOTDIR, true, ERR_INVALID_ARGUMENT, "a part of the path is no folder"},
	    {EINVAL, false, ERR_INVALID_ARGUMENT, "a folder cannot be moved into itself"},
	    {EXDEV, false, ERR_NOT_IMPLEMENTED,
	     "files are not moved between the workspace, /tmp and /home/sandbox: copy it, then "
	     "remove the old one"},
	};

	if (o->op == PROTO_FILE_SET && errnum == ENOTSUP) {
		(void)err_set(e, ERR_NOT_IMPLEMENTED, 0,
			      "'%s': the file system of this sandbox keeps no attributes of files",
			      o->path);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].errnum == errnum &&
		    (o->op == PROTO_FILE_MOVE || (o->op == PROTO_FILE_MAKE && rows[i].makes))) {
			(void)err_set(e, rows[i].code, 0, "'%s': %s", o->path, rows[i].text);
			return true;
		}
	return false;
}

static bool is_stat(const struct proto_stat *st)
{
	const size_t len = strnlen(st->target, sizeof(st->target));

	return st->entry.name[0] == '\0' && len < sizeof(st->target) &&
	       st->entry.attributes <= sizeof(st->attributes) &&
	       (st->entry.attributes == 0 || st->attributes[st->entry.attributes - 1] == '\0') &&
	       (S_ISLNK(st->entry.mode) || (len == 0 && st->target_mode == 0)) &&
	       !S_ISLNK(st->target_mode);
}

int inside_read_stat(int fd, const char *path, struct engine_stat **ret)
{
	const char *slash = strrchr(path, '/');
	struct proto_stat found;
	struct stat st;

	/* A memfd has seals; any other file could be on a disk, and reading it could wait. */
	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EPROTO;
	tenant_fd_allow(fd);
	if (pread(fd, &found, sizeof(found), 0) != (ssize_t)sizeof(found) || !is_stat(&found))
		return -EPROTO;
	struct engine_stat *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	inside_copy_entry(&s->file, &found.entry);
	(void)snprintf(s->file.name, sizeof(s->file.name), "%s", slash ? slash + 1 : path);
	memcpy(s->target, found.target, sizeof(s->target));
	s->target_mode = found.target_mode;
	s->target_size = found.target_size;
	s->attributes_len = found.entry.attributes;
	memcpy(s->attributes, found.attributes, s->attributes_len);
	*ret = s;
	return 0;
}

_Static_assert(sizeof(((struct engine_stat *)0)->target) ==
		   sizeof(((struct proto_stat *)0)->target),
	       "links have one size");
_Static_assert(ENGINE_ATTRIBUTES_MAX == PROTO_ATTRIBUTES_MAX, "attributes have one size");
