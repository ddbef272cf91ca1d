/* SPDX-License-Identifier: Apache-2.0 */
/* What the front wants to know of files without opening them. The answer is a memfd, or a file that the front has sent. */
#include "file_places.h"

#include "base/attr.h"
#include "base/fdio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST_BATCH 64

struct lister {
	int out;
	uint32_t n;
	bool more;
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
	*e = (struct proto_entry){
	    .size = (uint64_t)st.st_size,
	    .mtime_ns = time_ns(st.st_mtim),
	    .ctime_ns = time_ns(st.st_ctim),
	    .inode = st.st_ino,
	    .mode = st.st_mode,
	    .nlink = (uint32_t)st.st_nlink,
	};
	(void)snprintf(e->name, sizeof(e->name), "%s", name);
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
	_cleanup_fd_ int out =
	    in->inward ? fcntl(file, F_DUPFD_CLOEXEC, 0) : memfd_create("list", MFD_CLOEXEC);
	if (out < 0) {
		(void)close(dir);
		files_answer(in, f->seq, -errno);
		return;
	}
	l = (struct lister){.out = out};
	int r = list(&l, dir);
	if (r < 0) {
		files_answer(in, f->seq, r);
		return;
	}
	a.n = l.n;
	a.more = l.more;
	init_send(in, &a.head, &out, in->inward ? 0 : 1);
}
