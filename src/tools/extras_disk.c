/* SPDX-License-Identifier: Apache-2.0 */
/* A run failed because the disk of its sandbox is full: how much is used, how much there is, and which
 * files are the largest. */
#include "tools/extras_disk.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/text.h"

#include <string.h>
#include <sys/stat.h>

#define MIB        (UINT64_C(1) << 20)
#define NAMED_MAX  3    /* largest files that the hint names */
#define NAME_MAX_  100u /* bytes of a name that is repeated */
#define HINT_MAX   1024u
#define LARGE_PART 10 /* with less than this part left the workspace is what is full */

struct telling {
	struct sandbox *sandbox; /* reference */
	uint64_t used;           /* bytes of the workspace; 0 = unknown */
	bool host_is_full;
	disk_told_fn cb;
	void *user;
};

/* Code in the sandbox chose the name: one that could look like text of ours is not repeated. */
static bool is_plain(const struct engine_file *f)
{
	const size_t len = strlen(f->name);

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)f->name[i] < ' ' || f->name[i] == 0x7f)
			return false;
	return S_ISREG(f->mode) && f->size >= MIB && len <= NAME_MAX_ && text_is_utf8(f->name, len);
}

/* The largest plain file that is smaller than AFTER (NULL: any); for files of one size the order of the
 * list decides. */
static const struct engine_file *largest(const struct engine_file *files, size_t n,
					 const struct engine_file *after)
{
	const struct engine_file *best = NULL;

	for (size_t i = 0; i < n; i++) {
		const struct engine_file *f = &files[i];
		const bool left =
		    !after || f->size < after->size || (f->size == after->size && f > after);

		if (is_plain(f) && left && (!best || f->size > best->size))
			best = f;
	}
	return best;
}

static int add_largest(struct buf *b, const struct engine_file *files, size_t n)
{
	const struct engine_file *f = NULL;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < NAMED_MAX && (f = largest(files, n, f)); i++)
		r = buf_printf(b, "%s%s (%ju MiB)", i == 0 ? " The largest files: " : ", ", f->name,
			       (uintmax_t)(f->size / MIB));
	return r == 0 && strchr(buf_str(b), '(') ? buf_add_char(b, '.') : r;
}

static int add_hint(struct buf *b, const struct telling *t, const struct engine_file *files,
		    size_t n)
{
	const struct engine_limits *l = &sandbox_policy(t->sandbox)->limits;
	const uint64_t all = l->workspace_bytes;
	int r;

	if (t->host_is_full)
		return buf_add_str(
		    b, "The disk of the server is full, so no sandbox can write new "
		       "data. The files are still there. Ask the operator of the server "
		       "to free space, or remove files of yours.");
	if (t->used == 0)
		r = buf_printf(b,
			       "The disk of the sandbox is full: /mnt/data holds at most %ju MiB.",
			       (uintmax_t)(all / MIB));
	else if (t->used < all - all / LARGE_PART)
		return buf_printf(b,
				  "A disk of the sandbox is full, but not that of /mnt/data, which "
				  "holds %ju of %ju MiB: /tmp takes %ju MiB. Write large files to "
				  "/mnt/data.",
				  (uintmax_t)(t->used / MIB), (uintmax_t)(all / MIB),
				  (uintmax_t)(l->tmp_bytes / MIB));
	else
		r = buf_printf(b,
			       "The disk of the sandbox is full: /mnt/data holds %ju of %ju MiB.",
			       (uintmax_t)(t->used / MIB), (uintmax_t)(all / MIB));
	r = r < 0 ? r : buf_add_str(b, " Remove files that are not needed.");
	return r < 0 ? r : add_largest(b, files, n);
}

static void end(struct telling *t, const struct engine_file *files, size_t n)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(HINT_MAX);
	/* Without room for it the answer has no hint. */
	const int r = add_hint(&b, t, files, n);

	t->cb(r < 0 ? "" : buf_str(&b), t->user);
	(void)sandbox_unref(t->sandbox);
	free(t);
}

static void on_listed(const struct engine_file *files, size_t n, bool more UNUSED,
		      const struct err *e, void *user)
{
	end(user, files, e ? 0 : n);
}

static void on_usage(const struct engine_usage *usage, const struct err *e, void *user)
{
	struct telling *t = user;
	struct err ignored = ERR_INIT;

	t->used =
	    e ? 0 : MIN(usage->workspace_bytes, sandbox_policy(t->sandbox)->limits.workspace_bytes);
	t->host_is_full = !e && usage->host_is_full;
	if (sandbox_peek(t->sandbox, "", on_listed, t, &ignored) < 0)
		end(t, NULL, 0);
}

bool disk_tell(struct sandbox *s, disk_told_fn cb, void *user)
{
	struct telling *t = calloc(1, sizeof(*t));
	struct err ignored = ERR_INIT;

	if (!t)
		return false;
	*t = (struct telling){.sandbox = sandbox_ref(s), .cb = cb, .user = user};
	if (sandbox_get_usage(s, on_usage, t, &ignored) == 0)
		return true;
	(void)sandbox_unref(s);
	free(t);
	return false;
}
