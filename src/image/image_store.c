/* SPDX-License-Identifier: Apache-2.0 */
#include "image/image_store.h"

#include "base/fdio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define BUILD_PREFIX ".build-"
#define OLD_PREFIX   ".old-"
#define LOCK_NAME    ".lock"

static int open_folder(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Takes the lock under which names in the folder change. Blocks; it is only held for moments. */
static int lock_store(const struct image_store *s)
{
	_cleanup_fd_ int fd =
	    openat(s->dir, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	return TAKE_FD(fd);
}

int image_store_open(struct image_store *s, const char *state_dir, bool create, struct err *e)
{
	*s = (struct image_store){.dir = -1};
	if ((size_t)snprintf(s->path, sizeof(s->path), "%s/images", state_dir) >= sizeof(s->path))
		return err_set(e, ERR_SETTING_INVALID, ENAMETOOLONG, "state directory");
	struct stat st;

	/* The folder may be a link that the operator made, so it is only created if nothing is
	 * there. */
	if (create && stat(s->path, &st) < 0) {
		int r = fd_make_dirs(s->path, 0755);

		if (r < 0)
			return err_set(e, ERR_SYSTEM, -r, "cannot make %s (see --state-dir)",
				       s->path);
	}
	s->dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, 0,
			       "there are no images in %s; 'caisson image build' makes one",
			       s->path);
	if (s->dir < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot open %s", s->path);
	return 0;
}

void image_store_done(struct image_store *s)
{
	s->dir = fd_close(s->dir);
}

/* True if nobody holds the folder (a draft by its own lock, an image by the lock on its root). The
 * lock that this call takes ends when the descriptors in RET are closed. */
static bool get_locks(const struct image_store *s, const char *name, int ret[2])
{
	ret[0] = open_folder(s->dir, name);
	ret[1] = ret[0] >= 0 ? open_folder(ret[0], "root") : -1;
	for (int i = 0; i < 2; i++)
		if (ret[i] >= 0 && flock(ret[i], LOCK_EX | LOCK_NB) < 0)
			return false;
	return true;
}

bool image_store_is_used(const struct image_store *s, const char *image)
{
	int locks[2] = {-1, -1};
	const bool used = !get_locks(s, image, locks);

	fd_close_many(locks, ARRAY_SIZE(locks));
	return used;
}

static bool remove_unless_held(const struct image_store *s, const char *name)
{
	int locks[2] = {-1, -1};
	bool gone = get_locks(s, name, locks) && tree_remove(s->dir, name) == 0;

	fd_close_many(locks, ARRAY_SIZE(locks));
	return gone;
}

void image_store_clean(const struct image_store *s)
{
	_cleanup_fd_ int lock = lock_store(s);
	_cleanup_fd_ int fd = open_folder(s->dir, ".");

	if (lock < 0 || fd < 0)
		return;
	_cleanup_dir_ DIR *dir = fdopendir(fd);

	if (!dir)
		return;
	(void)TAKE_FD(fd);
	for (struct dirent *de; (de = readdir(dir)) != NULL;)
		if (text_starts_with(de->d_name, BUILD_PREFIX) ||
		    text_starts_with(de->d_name, OLD_PREFIX))
			(void)remove_unless_held(s, de->d_name);
}

int image_draft_new(const struct image_store *s, const char *image, struct image_draft *ret,
		    struct err *e)
{
	struct image_draft d = IMAGE_DRAFT_INIT;
	char tail[2 * 4 + 1];
	_cleanup_fd_ int lock = lock_store(s);

	if (lock < 0)
		return err_set(e, ERR_SYSTEM, -lock, "cannot lock %s (see --state-dir)", s->path);
	rand_hex(tail, 4);
	(void)snprintf(d.name, sizeof(d.name), BUILD_PREFIX "%.*s-%s", 63, image, tail);
	if (mkdirat(s->dir, d.name, 0755) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot make a folder in %s", s->path);
	d.dir = open_folder(s->dir, d.name);
	if (d.dir >= 0 && flock(d.dir, LOCK_EX | LOCK_NB) == 0 && mkdirat(d.dir, "root", 0755) == 0)
		d.root = open_folder(d.dir, "root");
	/* The umask must not decide who can read an image. */
	if (d.root < 0 || fchmod(d.dir, 0755) < 0 || fchmod(d.root, 0755) < 0) {
		int saved = errno;

		image_draft_drop(s, &d);
		return err_set(e, ERR_SYSTEM, saved, "cannot make a folder in %s", s->path);
	}
	*ret = d;
	return 0;
}

void image_draft_drop(const struct image_store *s, struct image_draft *d)
{
	/* The next image_store_clean() removes what cannot be removed now. */
	int r UNUSED = d->name[0] ? tree_remove(s->dir, d->name) : 0;

	fd_close_many((int[]){d->root, d->dir}, 2);
	*d = IMAGE_DRAFT_INIT;
}

/* Gives the image that was replaced, which is now under NAME, another name. Removes it if nobody
 * uses it; otherwise a later image_store_clean() does. */
static void put_aside(const struct image_store *s, const char *name, const char *image)
{
	char old[NAME_MAX + 1];
	char tail[2 * 4 + 1];

	rand_hex(tail, 4);
	(void)snprintf(old, sizeof(old), OLD_PREFIX "%.*s-%s", 63, image, tail);
	if (renameat(s->dir, name, s->dir, old) == 0)
		(void)remove_unless_held(s, old);
}

int image_draft_commit(const struct image_store *s, struct image_draft *d, const char *image,
		       struct err *e)
{
	_cleanup_fd_ int lock = lock_store(s);

	if (lock < 0)
		return err_set(e, ERR_SYSTEM, -lock, "cannot lock %s", s->path);
	/* The image must be on disk before it gets its name; otherwise a crash of the machine could
	 * leave half an image. */
	if (syncfs(d->dir) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot write the image to disk");
	bool replaced = renameat2(s->dir, d->name, s->dir, image, RENAME_EXCHANGE) == 0;

	if (!replaced && renameat2(s->dir, d->name, s->dir, image, RENAME_NOREPLACE) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot put image '%s' into %s", image,
			       s->path);
	/* The lock is released first, because NAME may now be the image that was replaced. */
	fd_close_many((int[]){d->root, d->dir}, 2);
	if (replaced)
		put_aside(s, d->name, image);
	*d = IMAGE_DRAFT_INIT;
	return 0;
}

int image_store_retire(const struct image_store *s, const char *image, struct err *e)
{
	_cleanup_fd_ int lock = lock_store(s);
	struct stat st;

	if (lock < 0)
		return err_set(e, ERR_SYSTEM, -lock, "cannot lock %s", s->path);
	put_aside(s, image, image);
	return fstatat(s->dir, image, &st, AT_SYMLINK_NOFOLLOW) == 0
		   ? err_set(e, ERR_SYSTEM, EPERM, "cannot remove image '%s'", image)
		   : 0;
}

int image_store_remove(const struct image_store *s, const char *image, struct err *e)
{
	int locks[2] = {-1, -1};

	if (!parse_is_image_name(image, strlen(image)))
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "'%.64s' is no image name", image);
	_cleanup_fd_ int lock = lock_store(s);

	if (lock < 0)
		return err_set(e, ERR_SYSTEM, -lock, "cannot lock %s", s->path);
	struct stat st;

	if (fstatat(s->dir, image, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, ERR_NOT_FOUND, errno, "there is no image '%s'", image);
	bool free_to_go = get_locks(s, image, locks);

	fd_close_many(locks, ARRAY_SIZE(locks));
	if (!free_to_go)
		return err_set(e, ERR_SYSTEM, EBUSY, "image '%s' is in use by a running engine",
			       image);
	put_aside(s, image, image);
	if (fstatat(s->dir, image, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(e, ERR_SYSTEM, EPERM, "cannot remove image '%s'", image);
	return 0;
}
