/* SPDX-License-Identifier: Apache-2.0 */
/* caisson image commit|note: what the server asks of it, for images of sandboxes. */
#include "cmd/image_verb.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/jsonio.h"

#include <fcntl.h>
#include <unistd.h>

#define NOTE_MAX (64u << 10)

/* The object in the file PATH; NULL without one, or with E set. */
static json_t *read_note(const char *path, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(NOTE_MAX);
	_cleanup_fd_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
	json_t *note = NULL;

	if (!path)
		return NULL;
	if (fd >= 0 && fd_read_file(fd, &text) == 0 &&
	    jsonio_read_on_thread(buf_str(&text), text.len, 0, &note) == 0 && json_is_object(note))
		return note;
	json_decref(note);
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "%s is no JSON object of at most 64 KiB", path);
	return NULL;
}

int image_commit_verb(const struct image_store *s, const char *name, const char *base,
		      const char *note_path, bool own, struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	_cleanup_fd_ int cancel = image_watch_signals();
	struct progress_line line;
	const struct image_watch w = image_watch_for(&line, cancel);
	json_t *note = read_note(note_path, e);
	const struct image_commit_options o = {.note = note, .own = own};
	int r = e->code != ERR_NONE ? -EINVAL
				    : image_commit(s, name, base, STDIN_FILENO, &o, &w, &m, e);

	json_decref(note);
	progress_line_end(&line, r >= 0);
	if (r >= 0)
		image_print_ready(&m, line.began);
	return r;
}

int image_note_verb(const struct image_store *s, const char *name, const char *note_path,
		    struct err *e)
{
	json_t *note = read_note(note_path, e);
	int r = e->code != ERR_NONE ? -EINVAL
		: note              ? image_set_note(s, name, note, e)
				    : err_set(e, ERR_USAGE, 0, "note needs --note FILE");

	json_decref(note);
	return r;
}
