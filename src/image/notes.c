/* SPDX-License-Identifier: Apache-2.0 */
#include "image/notes.h"

#include "base/fdio.h"
#include "image/unpack.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* In the file: this, and LEN bytes of the name. */
struct record {
	uint32_t uid, gid, mode, len;
};

static uint32_t clean_id(int64_t id)
{
	return id < 0 || id > NOTE_ID_MAX ? 0 : (uint32_t)id;
}

int notes_end(struct notes *n)
{
	const int r = fd_write_all(n->fd, n->text.data, n->text.len);

	buf_reset(&n->text);
	return r;
}

int notes_add(struct notes *n, const struct note *note, const char *name)
{
	const struct record rec = {.uid = clean_id(note->uid),
				   .gid = clean_id(note->gid),
				   .mode = note->mode,
				   .len = (uint32_t)strlen(name)};
	int r = n->text.len + sizeof(rec) + rec.len > NOTES_PIECE ? notes_end(n) : 0;

	r = r < 0 ? r : buf_add(&n->text, &rec, sizeof(rec));
	return r < 0 ? r : buf_add(&n->text, name, rec.len);
}

static bool is_older(const struct statx_timestamp *a, const struct statx_timestamp *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static int apply(int root, const char *name, const struct record *rec,
		 const struct statx_timestamp *oldest)
{
	const struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
				     .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
						RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
	_cleanup_fd_ int fd = fd_openat2(root, name, &how);
	struct statx st;
	char path[32];

	/* A later entry of the layer has replaced it. */
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st) < 0)
		return -errno;
	if (!(st.stx_mask & STATX_BTIME) || is_older(&st.stx_btime, oldest))
		return 0;
	if (fchownat(fd, "", foreign_id(rec->uid), foreign_id(rec->gid),
		     AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (rec->mode == NOTE_NO_MODE || S_ISLNK(st.stx_mode))
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return chmod(path, rec->mode & NOTE_MODES) < 0 ? -errno : 0;
}

static int read_whole(FILE *f, void *to, size_t len)
{
	const size_t n = fread(to, 1, len, f);

	return n == len ? 1 : n == 0 && feof(f) ? 0 : -EBADMSG;
}

int notes_apply(int fd, int root, const struct statx_timestamp *oldest, struct err *e)
{
	const int own = fd_dup(fd);
	FILE *f = own < 0 ? NULL : fdopen(own, "r");
	char name[PATH_MAX], clean[PATH_MAX];
	struct record rec;
	int r = f ? 1 : -errno;

	if (!f)
		(void)fd_close(own);
	else
		rewind(f);
	for (uint64_t n = 0; r > 0; n++) {
		r = read_whole(f, &rec, sizeof(rec));
		if (r <= 0)
			break;
		r = rec.len == 0 || rec.len >= sizeof(name) || n >= UNPACK_ENTRIES_MAX ||
			    rec.uid > NOTE_ID_MAX || rec.gid > NOTE_ID_MAX
			? -EBADMSG
			: read_whole(f, name, rec.len);
		if (r <= 0)
			r = -EBADMSG;
		if (r > 0) {
			name[rec.len] = '\0';
			r = unpack_clean_name(name, clean, sizeof(clean));
			r = r < 0 ? r : apply(root, clean, &rec, oldest);
			r = r < 0 ? r : 1;
		}
	}
	if (f)
		(void)fclose(f);
	return r == -EBADMSG || r == -EINVAL
		   ? err_set(e, ERR_IMAGE_INVALID, EBADMSG, "the owners of files in the layer")
	       : r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot set the owners of files")
		       : 0;
}
