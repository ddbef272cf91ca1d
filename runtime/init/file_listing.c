/* SPDX-License-Identifier: Apache-2.0 */
/* What the front wants to know of files without opening them. The answer is a memfd, or a file that the front has sent. */
#include "file_places.h"

#include "base/attr.h"
#include "base/fdio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LIST_BATCH 64

struct lister {
	int out;
	uint32_t n;
	bool more, attributes;
	size_t fill;
	struct proto_entry batch[LIST_BATCH];
};

static int flush(struct lister *l)
{
	int r = l->fill > 0 ? fd_write_all(l->out, l->batch, l->fill * sizeof(l->batch[0])) : 0;

	l->fill = 0;
	return r;
}

static int64_t time_ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct proto_entry entry_of(const struct stat *st)
{
	return (struct proto_entry){
	    .size = (uint64_t)st->st_size,
	    .mtime_ns = time_ns(st->st_mtim),
	    .ctime_ns = time_ns(st->st_ctim),
	    .inode = st->st_ino,
	    .mode = st->st_mode,
	    .nlink = (uint32_t)st->st_nlink,
	    .uid = st->st_uid,
	    .gid = st->st_gid,
	};
}

static int add_entry(struct lister *l, int dir, const char *name)
{
	struct stat st;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) /* gone meanwhile */
		return 0;
	if (l->n == PROTO_LIST_MAX) {
		l->more = true;
		return 0;
	}
	struct proto_entry *e = &l->batch[l->fill++];
	*e = entry_of(&st);
	(void)snprintf(e->name, sizeof(e->name), "%s", name);
	e->attributes = l->attributes && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) &&
			attributes_are_there(dir, name);
	l->n++;
	return l->fill == LIST_BATCH ? flush(l) : 0;
}

static int list(struct lister *l, int dir)
{
	_cleanup_dir_ DIR *d = fdopendir(dir);
	const struct dirent *de;
	int r = 0;

	if (!d) {
		(void)close(dir);
		return -ENOMEM;
	}
	while (r == 0 && !l->more && (de = readdir(d)))
		r = add_entry(l, dirfd(d), de->d_name);
	return r < 0 ? r : flush(l);
}

/* What is answered in: a descriptor for the front, or the front's file. */
static int answer_file(const struct init *in, int file)
{
	return in->inward ? fcntl(file, F_DUPFD_CLOEXEC, 0) : memfd_create("list", MFD_CLOEXEC);
}

void files_list(struct init *in, const struct proto_init_file *f, int file)
{
	static struct lister l;
	struct proto_init_filed a = {.head = PROTO_HEAD(INIT_FILED, proto_init_filed),
				     .seq = f->seq};
	const struct file_place p = place_of(in, f->path);
	int dir = fd_open_beneath(p.dir, p.below, O_RDONLY | O_DIRECTORY, 0);

	if (dir < 0) {
		files_answer(in, f->seq, dir);
		return;
	}
	_cleanup_fd_ int out = answer_file(in, file);
	if (out < 0) {
		(void)close(dir);
		files_answer(in, f->seq, -errno);
		return;
	}
	l = (struct lister){.out = out, .attributes = f->flags & PROTO_FILE_ATTRIBUTES};
	int r = list(&l, dir);
	if (r < 0) {
		files_answer(in, f->seq, r);
		return;
	}
	a.n = l.n;
	a.more = l.more;
	init_send(in, &a.head, &out, in->inward ? 0 : 1);
}

/* ---- one file ---- */

/* What the link NAME in PARENT leads to, wherever that is: only its type and size are told. Links of the kernel's own, which
 * lead to what a process holds open, and /proc lead nowhere. */
static int open_target(int parent, const char *name)
{
	const struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
	struct statfs fs;
	long fd = syscall(SYS_openat2, parent, name, &how, sizeof(how));

	if (fd < 0 && errno == ENOSYS) /* gVisor's kernel */
		fd = openat(parent, name, O_PATH | O_CLOEXEC);
	if (fd >= 0 && (fstatfs((int)fd, &fs) < 0 || fs.f_type == PROC_SUPER_MAGIC)) {
		(void)close((int)fd);
		return -ENOENT;
	}
	return fd < 0 ? -errno : (int)fd;
}

static int read_link(int parent, const char *name, struct proto_stat *ret)
{
	const ssize_t n = readlinkat(parent, name, ret->target, sizeof(ret->target) - 1);
	struct stat st;

	if (n < 0)
		return -errno;
	_cleanup_fd_ int fd = open_target(parent, name);
	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode)) {
		ret->target_mode = st.st_mode;
		ret->target_size = (uint64_t)st.st_size;
	}
	return 0;
}

static int look_at(const struct init *in, const char *path, struct proto_stat *ret)
{
	const struct file_place p = place_of(in, path);
	const bool itself = strcmp(p.below, ".") == 0;
	const char *name = p.below;
	struct stat st;
	_cleanup_fd_ int parent = itself ? fd_open_beneath(p.dir, ".", O_PATH | O_DIRECTORY, 0)
					 : place_open_parent(&p, false, &name);

	if (parent < 0)
		return parent;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	ret->entry = entry_of(&st);
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		ret->entry.attributes = (uint32_t)attributes_read(parent, name, ret->attributes);
	return S_ISLNK(st.st_mode) ? read_link(parent, name, ret) : 0;
}

void files_stat(struct init *in, const struct proto_init_file *f, int file)
{
	static struct proto_stat found;
	struct proto_init_filed a = {
	    .head = PROTO_HEAD(INIT_FILED, proto_init_filed), .seq = f->seq, .n = 1};

	memset(&found, 0, sizeof(found));
	int r = look_at(in, f->path, &found);
	_cleanup_fd_ int out = r < 0 ? -1 : answer_file(in, file);
	if (r == 0)
		r = out < 0 ? -errno : fd_write_all(out, &found, sizeof(found));
	if (r < 0)
		files_answer(in, f->seq, r);
	else
		init_send(in, &a.head, &out, in->inward ? 0 : 1);
}
