/* SPDX-License-Identifier: Apache-2.0 */
/* The folders that are watched: a tree for each place of files (file_places.h), with the folder of each watch, those above it, and, if it is
 * recursive, all below it. inotify(7) watches one folder, not what is below it, so each folder has a watch of its own; one
 * instance has all of a tree, because a user may have few instances (16 for a sandbox; all sandboxes together on a server of a
 * plain user). A folder is watched first, then looked through: so nothing is missed and some is seen twice.
 *
 * Everything here is hostile: names, depth, moves at any moment. Folders are opened beneath the place, without
 * links. If what is known of the tree does not fit what is seen, or the kernel has dropped events, the tree is built anew
 * and everybody is told that there was an overflow. */
#include "watch_folders.h"

#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define FOLDERS_MAX  8192U /* the kernel needs a kilobyte for each */
#define DEPTH_MAX    1024U
#define READ_BYTES   (64U << 10) /* a slice */
#define SCAN_ENTRIES 512U        /* a slice */
#define OWN_PREFIX   ".caisson-" /* names that init itself gives for a moment */
#define MASK                                                                                       \
	(IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB |             \
	 IN_EXCL_UNLINK | IN_ONLYDIR)
#define SLICES_MAX                                                                                 \
	64U /* of one reading: whoever goes on making events does not keep back what came before */

static bool is_own(const char *name)
{
	return strncmp(name, OWN_PREFIX, sizeof(OWN_PREFIX) - 1) == 0;
}

/* Is PATH in the folder of W, or anywhere below it? */
static bool concerns(const struct watch *w, const char *path)
{
	const size_t n = strlen(w->path);

	if (n > 0 && (strncmp(path, w->path, n) != 0 || path[n] != '/'))
		return false;
	return w->recursive || !strchr(path + n + (n > 0), '/');
}

static void note(struct tree *t, const struct folder *f, const char *name, enum proto_change kind,
		 bool folder)
{
	char path[PROTO_PATH_MAX], told[PROTO_PATH_MAX];

	if (is_own(name))
		return;
	const bool known = folder_path(f, name, path) == 0;
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++) {
		struct watch *w = watch_of(t, i);

		const bool fits =
		    w && known &&
		    snprintf(told, sizeof(told), "%s%s", w->top, path) < (int)sizeof(told);

		if (fits && concerns(w, path))
			watch_note(w, kind, folder, told);
		else if (w && !fits)
			w->partial |= w->recursive;
	}
}

/* Some folder is not watched that should be. */
static void set_partial(const struct tree *t)
{
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		if (watch_of(t, i))
			watch_of(t, i)->partial |= watch_of(t, i)->recursive;
}

/* ---- building ---- */

static void scan_later(struct tree *t, struct folder *f, bool quiet)
{
	if (!list_is_empty(&f->scan)) {
		f->quiet &= quiet;
		return;
	}
	f->quiet = quiet;
	list_append(&t->scans, &f->scan);
}

/* The watch of the kernel for PATH. */
static int watch_kernel(const struct tree *t, const char *path)
{
	_cleanup_fd_ int fd =
	    fd_open_beneath(t->dir, path[0] ? path : ".", O_PATH | O_DIRECTORY, 0);
	char held[32];

	if (fd < 0)
		return fd;
	(void)snprintf(held, sizeof(held), "/proc/self/fd/%d", fd);
	const int wd = inotify_add_watch(t->fd, held, MASK);
	return wd < 0 ? -errno : wd;
}

static void rebuild(struct tree *t);

/* The folder NAME in PARENT is there, and perhaps new: watches it. False: the tree was built anew. */
static bool add(struct tree *t, struct folder *parent, const char *name, bool quiet)
{
	char path[PROTO_PATH_MAX];
	size_t depth = 0;

	if (is_own(name))
		return true;
	for (const struct folder *f = parent; f; f = f->parent)
		depth++;
	if (t->n_folders >= FOLDERS_MAX || depth >= DEPTH_MAX ||
	    folder_path(parent, name, path) < 0) {
		set_partial(t);
		return true;
	}
	const int wd = watch_kernel(t, path);
	if (wd < 0) {
		/* What is gone, or no folder any more, has an event of its own. */
		if (wd != -ENOENT && wd != -ENOTDIR && wd != -ELOOP)
			set_partial(t);
		return true;
	}
	struct folder *was = folder_of(t, (uint32_t)wd);
	struct folder *there = folder_child(t, parent, name);
	if (was && was == there) {
		/* Perhaps it was only above a watch until now. */
		if (quiet && folder_is_wanted_below(t, was))
			scan_later(t, was, true);
		return true;
	}
	if (there)
		folder_forget(t, there, true);
	/* The same folder had another name: it was moved, and the events of that come later. */
	was = folder_of(t, (uint32_t)wd);
	if (was && folder_is_below(parent, was)) {
		rebuild(t);
		return false;
	}
	if (was && was->parent)
		folder_move_away(t, was, 0);
	if (was && !folder_come_back(t, was, parent, name)) {
		rebuild(t);
		return false;
	}
	if (was)
		return true;
	struct folder *f = folder_new(t, parent, name, (uint32_t)wd);
	if (!f)
		set_partial(t);
	else if (folder_is_wanted_below(t, f))
		scan_later(t, f, quiet);
	return true;
}

static void clear(struct tree *t)
{
	if (t->scanning)
		(void)closedir(t->scanning);
	t->scanning = NULL;
	for (size_t i = 0; i < WATCH_BUCKETS; i++) {
		while (t->by_wd[i]) {
			struct folder *f = t->by_wd[i];

			t->by_wd[i] = f->next_wd;
			free(f);
		}
		t->by_name[i] = NULL;
	}
	list_init(&t->scans);
	list_init(&t->away);
	t->root = NULL;
	t->n_folders = 0;
	(void)fd_close(t->fd);
	t->fd = -1;
}

static int build(struct tree *t)
{
	t->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (t->fd < 0)
		return -errno;
	const int wd = watch_kernel(t, "");
	if (wd < 0)
		return wd;
	return folder_new(t, NULL, "", (uint32_t)wd) ? 0 : -ENOMEM;
}

/* Watches the folder of W and those above it. -EAGAIN: the tree was built anew meanwhile. */
static int reach(struct tree *t, struct watch *w)
{
	char part[PROTO_NAME_MAX];
	struct folder *f = t->root;
	const int wd = watch_kernel(t, w->path);

	if (wd < 0)
		return wd;
	if (!f) /* it could not be built anew, and its watches are about to end */
		return -ENOENT;
	for (const char *at = w->path; *at;) {
		const size_t n = strcspn(at, "/");

		memcpy(part, at, n); /* shorter than PROTO_NAME_MAX: proto_path_ok() */
		part[n] = '\0';
		if (is_own(part))
			return -ENOENT;
		if (!add(t, f, part, true))
			return -EAGAIN;
		f = folder_child(t, f, part);
		if (!f)
			return -ENOSPC;
		at += n + (at[n] == '/');
	}
	w->root = f;
	if (w->recursive)
		scan_later(t, f, true);
	return 0;
}

/* Some events are not known, so nothing that is known of the tree is sure. */
static void rebuild(struct tree *t)
{
	if (t->building) /* whoever moves folders all the time is told that they are gone */
		return;
	t->building = true;
	clear(t);
	t->reading = false;
	t->flooded = true;
	t->anew = true;
	const int built = build(t);
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++) {
		struct watch *w = watch_of(t, i);

		if (!w)
			continue;
		w->root = NULL;
		if (w->started)
			watch_overflow(w);
		const int r = built < 0 ? built : reach(t, w);
		if (r < 0 && w->ended == 0)
			w->ended = r == -EAGAIN ? ENOENT : -r;
	}
	t->building = false;
}

/* ---- events ---- */

static void take_move(struct tree *t, struct folder *f, const struct inotify_event *e)
{
	struct folder *moved = NULL;

	list_for_each(l, &t->away)
		if (list_entry(l, struct folder, sibling)->cookie == e->cookie)
			moved = list_entry(l, struct folder, sibling);
	struct folder *there = folder_child(t, f, e->name);
	if (!moved || is_own(e->name) || folder_is_below(f, moved)) {
		if (folder_is_wanted_below(t, f))
			(void)add(t, f, e->name, false);
		return;
	}
	if (there) /* an empty folder, whose place it took */
		folder_forget(t, there, true);
	if (!folder_come_back(t, moved, f, e->name)) {
		rebuild(t);
		return;
	}
	struct folder *here = folder_child(t, f, e->name);
	if (here && !folder_is_wanted(t, here))
		folder_forget(t, here, true);
}

/* A file that O_TMPFILE has made has no name: the kernel tells of its rights as "#" and the number of its inode. */
static bool is_nameless(const struct tree *t, const struct folder *f, const struct inotify_event *e)
{
	char path[PROTO_PATH_MAX];
	const size_t digits = e->name[0] == '#' ? strspn(e->name + 1, "0123456789") : 0;

	if (digits == 0 || e->name[1 + digits] != '\0' || !(e->mask & (IN_ATTRIB | IN_MODIFY)) ||
	    folder_path(f, e->name, path) < 0)
		return false;
	_cleanup_fd_ int fd = fd_open_beneath(t->dir, path, O_PATH, 0);
	return fd == -ENOENT;
}

static void take_named(struct tree *t, struct folder *f, const struct inotify_event *e)
{
	static const struct {
		uint32_t mask;
		enum proto_change kind;
	} kinds[] = {
	    {IN_CREATE, PROTO_CHANGE_CREATE},     {IN_MOVED_TO, PROTO_CHANGE_CREATE},
	    {IN_MODIFY, PROTO_CHANGE_WRITE},      {IN_DELETE, PROTO_CHANGE_REMOVE},
	    {IN_MOVED_FROM, PROTO_CHANGE_RENAME}, {IN_ATTRIB, PROTO_CHANGE_CHMOD},
	};
	const bool folder = e->mask & IN_ISDIR;

	if (is_nameless(t, f, e))
		return;
	if ((e->mask & IN_MOVED_FROM) && is_own(e->name))
		t->replacing = e->cookie;
	/* init renames only an upload that takes the place of a file. */
	const bool replaces = (e->mask & IN_MOVED_TO) && e->cookie == t->replacing && !folder;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (e->mask & kinds[i].mask)
			note(t, f, e->name, replaces ? PROTO_CHANGE_WRITE : kinds[i].kind, folder);
	if (!folder)
		return;
	struct folder *there = folder_child(t, f, e->name);
	if ((e->mask & IN_MOVED_FROM) && there)
		folder_move_away(t, there, e->cookie);
	else if (e->mask & IN_MOVED_TO)
		take_move(t, f, e);
	else if ((e->mask & IN_CREATE) && folder_is_wanted_below(t, f))
		(void)add(t, f, e->name, false);
}

static void take(struct tree *t, const struct inotify_event *e)
{
	if (e->mask & IN_Q_OVERFLOW) {
		rebuild(t);
		return;
	}
	struct folder *f = folder_of(t, (uint32_t)e->wd);
	if (!f)
		return;
	if (e->mask & IN_IGNORED)
		folder_forget(t, f, true);
	else if (e->len > 0 && folder_is_below(f, t->root))
		take_named(t, f, e);
}

/* Those whose new name nobody has told are outside of the watch now. */
static void forget_moved(struct tree *t)
{
	struct folder *f;

	while ((f = list_first(&t->away, struct folder, sibling)))
		folder_forget(t, f, true);
}

/* A watch ends if its folder, or one above it, has gone or has another name: the paths would be wrong. */
static void check_roots(struct tree *t)
{
	char path[PROTO_PATH_MAX];

	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++) {
		struct watch *w = watch_of(t, i);

		if (w && w->ended == 0 &&
		    (!w->root || !folder_is_below(w->root, t->root) ||
		     folder_path(w->root, "", path) < 0 || strcmp(path, w->path) != 0))
			w->ended = ENOENT;
	}
}

void tree_read(struct tree *t)
{
	static union {
		struct inotify_event first; /* for its alignment */
		char bytes[READ_BYTES];
	} b;

	const ssize_t n = read(t->fd, b.bytes, sizeof(b.bytes));
	t->flooded = t->anew = false;
	for (ssize_t at = 0; at < n && !t->anew;) {
		const void *next = b.bytes + at; /* the kernel keeps them aligned */
		const struct inotify_event *e = next;

		at += (ssize_t)(sizeof(*e) + e->len);
		take(t, e);
	}
	if (n > (ssize_t)sizeof(b.bytes) / 2 && ++t->slices < SLICES_MAX && !t->anew)
		return;
	t->slices = 0;
	t->reading = false;
	forget_moved(t);
	check_roots(t);
}

/* ---- folders that are new ---- */

static DIR *open_folder(const struct tree *t, const struct folder *f)
{
	char path[PROTO_PATH_MAX];

	if (folder_path(f, "", path) < 0)
		return NULL;
	const int fd = fd_open_beneath(t->dir, path[0] ? path : ".", O_RDONLY | O_DIRECTORY, 0);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		(void)fd_close(fd);
	return d;
}

/* False: it was the last entry, or the tree was built anew. */
static bool look_at(struct tree *t, struct folder *f)
{
	const struct dirent *de = readdir(t->scanning);
	struct stat st;

	if (!de) {
		folder_stop_scan(t, f);
		return false;
	}
	if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
		return true;
	bool folder = de->d_type == DT_DIR;
	if (de->d_type == DT_UNKNOWN)
		folder = fstatat(dirfd(t->scanning), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			 S_ISDIR(st.st_mode);
	if (!f->quiet)
		note(t, f, de->d_name, PROTO_CHANGE_CREATE, folder);
	return !folder || !folder_is_wanted_below(t, f) || add(t, f, de->d_name, f->quiet);
}

void tree_scan(struct tree *t)
{
	struct folder *f;

	for (unsigned left = SCAN_ENTRIES;
	     left > 0 && (f = list_first(&t->scans, struct folder, scan));) {
		left--;
		if (!t->scanning && folder_is_below(f, t->root))
			t->scanning = open_folder(t, f);
		if (!t->scanning)
			folder_stop_scan(t, f);
		while (t->scanning && left > 0 && look_at(t, f))
			left--;
	}
}

bool tree_scans(const struct tree *t)
{
	return !list_is_empty(&t->scans);
}

/* ---- life ---- */

struct tree *tree_of(const struct init *in, const struct watch *w)
{
	for (size_t i = 0; i < WATCH_TREES; i++)
		if (in->watches.trees[i] && in->watches.trees[i]->dir == w->dir)
			return in->watches.trees[i];
	return NULL;
}

static int new_tree(struct init *in, const struct watch *w)
{
	struct tree *t = calloc(1, sizeof(*t));
	size_t i = 0;

	while (in->watches.trees[i]) /* there are as many as places */
		i++;
	if (!t)
		return -ENOMEM;
	t->dir = w->dir;
	t->watches = in->watches.folders;
	t->fd = -1;
	list_init(&t->scans);
	list_init(&t->away);
	in->watches.trees[i] = t;
	return build(t);
}

int tree_watch(struct init *in, struct watch *w)
{
	int r = tree_of(in, w) ? 0 : new_tree(in, w);

	r = r < 0 ? r : reach(tree_of(in, w), w);
	return r == -EAGAIN && w->root ? 0 : r == -EAGAIN ? -ENOENT : r;
}

/* False: nobody needs T any more, and it was freed. */
static bool prune(struct tree *t)
{
	bool any = false;

	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		any |= watch_of(t, i) != NULL;
	if (!any) {
		clear(t);
		free(t);
		return false;
	}
	for (size_t i = 0; i < WATCH_BUCKETS; i++)
		for (struct folder *f = t->by_wd[i]; f;) {
			const bool goes = f != t->root && f->parent && !folder_is_wanted(t, f);

			if (goes)
				folder_forget(t, f, true);
			f = goes ? t->by_wd[i]
				 : f->next_wd; /* others of the bucket may have gone, too */
		}
	return true;
}

void tree_prune(struct init *in)
{
	for (size_t i = 0; i < WATCH_TREES; i++)
		if (in->watches.trees[i] && !prune(in->watches.trees[i]))
			in->watches.trees[i] = NULL;
}
