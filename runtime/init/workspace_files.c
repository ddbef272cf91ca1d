/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, writes and removes files of the sandbox for the front. init opens a file with the sandbox's
 * own rights and passes the descriptor. No open blocks: fd_open_beneath() does not wait for a FIFO or a
 * lease, follows no link and enters no other mount. A large folder is removed in slices, and the loop
 * watches its deadlines between two slices.
 *
 * An uploaded file has no name until it is complete: O_TMPFILE, then linkat(2) through in->proc. */
#include "file_places.h"

#include "base/attr.h"
#include "base/fdio.h"
#include "base/walls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CLOSED_BYTES     (UINT64_C(2) << 20) /* a disk with ballast has no room if no more is left */
#define SLICE_ENTRIES    512
#define SLICES_MAX       1000000u /* a run that keeps adding files cannot make it endless */
#define REMOVE_DEPTH_MAX 256

void files_make_folder(const struct init *in, const char *path)
{
	static const char root[] = "/mnt/data/";
	char below[PROTO_PATH_MAX];
	const char *name;

	if (strncmp(path, root, sizeof(root) - 1) != 0)
		return;
	path += sizeof(root) - 1;
	const size_t len = strlen(path);
	if (len + sizeof("/.") > sizeof(below))
		return;
	memcpy(below, path, len + 1);
	if (!proto_path_ok(below, false))
		return;
	/* files_open_parent() makes everything before the last '/'. */
	memcpy(below + len, "/.", sizeof("/."));
	(void)fd_close(files_open_parent(in, below, true, &name));
}

/* ---- open ---- */

static void do_open(struct init *in, const struct proto_init_file *f, int file)
{
	const struct file_place p = place_of(in, f->path);
	_cleanup_fd_ int fd = fd_open_beneath(p.dir, p.below, O_RDONLY, 0);
	struct stat st;

	if (fd < 0)
		files_answer(in, f->seq, fd);
	else if (fstat(fd, &st) < 0)
		files_answer(in, f->seq, -errno);
	else if (!S_ISREG(st.st_mode))
		files_answer(in, f->seq, S_ISDIR(st.st_mode) ? -EISDIR : -ENOENT);
	else if (!in->inward)
		files_answer_fd(in, f->seq, fd);
	else if (carry_out(in, f->seq, fd, &st, file) < 0)
		files_answer(in, f->seq, -EAGAIN);
}

/* ---- put and commit ---- */

static struct init_put *find_put(struct init *in, uint32_t number)
{
	for (size_t i = 0; i < PROTO_PUTS_MAX; i++)
		if (in->puts[i].used && in->puts[i].number == number)
			return &in->puts[i];
	return NULL;
}

static struct init_put *free_put(struct init *in)
{
	for (size_t i = 0; i < PROTO_PUTS_MAX; i++)
		if (!in->puts[i].used)
			return &in->puts[i];
	return NULL;
}

static void drop_put(struct init_put *p)
{
	p->fd = fd_close(p->fd);
	p->used = false;
}

/* Refuses an upload early if commit() would refuse it. Missing folders are no error: commit() makes
 * them, so that a failed upload leaves no empty folders. */
static int check_target(const struct init *in, const struct proto_init_file *f)
{
	const char *name;
	struct stat st;
	_cleanup_fd_ int parent = files_open_parent(in, f->path, false, &name);

	if (parent < 0)
		return parent == -ENOENT ? 0 : parent;
	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!(f->flags & PROTO_FILE_OVERWRITE))
		return -EEXIST;
	return S_ISDIR(st.st_mode) ? -EISDIR : 0;
}

static int open_named(const struct init *in, const char *path)
{
	const char *name;
	_cleanup_fd_ int parent = files_open_parent(in, path, true, &name);

	return parent < 0 ? parent
			  : fd_open_beneath(parent, name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
}

static int start_put(const struct init *in, const struct proto_init_file *f, struct init_put *p)
{
	int r = check_target(in, f);

	if (r < 0)
		return r;
	*p = (struct init_put){.used = true, .fd = -1, .number = f->seq};
	if (in->inward)
		return 0;
	p->used = false;
	_cleanup_fd_ int fd =
	    wall_stands(WALL_ASIDE)
		? fd_open_beneath(place_of(in, f->path).dir, ".", O_TMPFILE | O_WRONLY, 0)
		: open_named(in, f->path);
	if (fd < 0)
		return fd;
	if (fchmod(fd, 0644) < 0)
		return -errno;
	*p = (struct init_put){.used = true, .fd = TAKE_FD(fd), .number = f->seq};
	return 0;
}

static void do_put(struct init *in, const struct proto_init_file *f, int file UNUSED)
{
	struct init_put *p = free_put(in);
	int r = p ? disk_admit(in, -1) : -EMFILE;

	r = r < 0 ? r : start_put(in, f, p);
	if (r < 0 || in->inward)
		files_answer(in, f->seq, r);
	else
		files_answer_fd(in, f->seq, p->fd);
}

static int link_put(const struct init *in, const struct init_put *p, int parent, const char *name)
{
	char self[32];

	(void)snprintf(self, sizeof(self), "self/fd/%d", p->fd);
	return linkat(in->proc, self, parent, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int commit(const struct init *in, const struct init_put *p, const char *path, bool overwrite)
{
	char temp[40];
	uint64_t noise;
	const char *name;
	_cleanup_fd_ int parent = files_open_parent(in, path, true, &name);

	if (parent < 0)
		return parent;
	int r = link_put(in, p, parent, name);
	if (r != -EEXIST || !overwrite)
		return r;
	/* linkat(2) does not replace a file: link under a temporary name, then rename(2). */
	if (getrandom(&noise, sizeof(noise), 0) != sizeof(noise))
		return -EIO;
	(void)snprintf(temp, sizeof(temp), ".caisson-%016llx", (unsigned long long)noise);
	r = link_put(in, p, parent, temp);
	if (r == 0 && renameat(parent, temp, parent, name) < 0) {
		r = -errno;
		(void)unlinkat(parent, temp, 0);
	}
	return r;
}

/* FILE has the content. 0: the answer comes later. */
static int commit_carried(struct init *in, const struct proto_init_file *f, int file)
{
	const char *name;
	_cleanup_fd_ int parent = files_open_parent(in, f->path, true, &name);

	return parent < 0
		   ? parent
		   : carry_in(in, f->seq, file, parent, name, f->flags & PROTO_FILE_OVERWRITE);
}

static void do_commit(struct init *in, const struct proto_init_file *f, int file)
{
	struct init_put *p = find_put(in, f->put);

	if (!p) {
		files_answer(in, f->seq, -ENOENT);
		return;
	}
	int r = disk_admit(in, in->inward ? file : p->fd);
	if (r == 0 && in->inward)
		r = commit_carried(in, f, file);
	else if (r == 0)
		r = commit(in, p, f->path, f->flags & PROTO_FILE_OVERWRITE);
	/* The front has flushed the bytes; the name has to outlive a loss of power, too. */
	if (r == 0 && !in->inward && in->flushes && fsync(p->fd) < 0)
		r = -errno;
	drop_put(p);
	if (r < 0 || !in->inward)
		files_answer(in, f->seq, r);
}

static void do_drop(struct init *in, const struct proto_init_file *f, int file UNUSED)
{
	struct init_put *p = find_put(in, f->put);

	if (p)
		drop_put(p);
	files_answer(in, f->seq, 0);
}

/* ---- remove ---- */

/* Removes at most *BUDGET entries of folder NAME in PARENT, and the folder when it is empty. -EAGAIN =
 * the budget is used up. */
static int remove_below(int parent, const char *name, int depth, int *budget)
{
	const struct dirent *de;

	if (depth > REMOVE_DEPTH_MAX)
		return -ELOOP;
	int fd = fd_open_beneath(parent, name, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	_cleanup_dir_ DIR *d = fdopendir(fd);
	if (!d) {
		(void)close(fd);
		return -ENOMEM;
	}
	while ((de = readdir(d))) {
		if (strcmp(de->d_name, ".") == 0 || strcmp(de->d_name, "..") == 0)
			continue;
		if (--*budget < 0)
			return -EAGAIN;
		if (unlinkat(fd, de->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR)
			return -errno;
		int r = remove_below(fd, de->d_name, depth + 1, budget);
		if (r < 0)
			return r;
	}
	return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static int remove_slice(struct init *in, const char *path)
{
	const char *name;
	int budget = SLICE_ENTRIES;
	_cleanup_fd_ int parent = files_open_parent(in, path, false, &name);

	return parent < 0 ? parent : remove_below(parent, name, 0, &budget);
}

bool files_pending(const struct init *in)
{
	return in->remove.active || carry_pending(in);
}

void files_work(struct init *in)
{
	struct init_remove *w = &in->remove;

	carry_work(in);
	if (!w->active)
		return;
	int r = remove_slice(in, w->path);
	/* ENOTEMPTY: a run added a file meanwhile */
	if ((r == -EAGAIN || r == -ENOTEMPTY) && ++w->slices < SLICES_MAX)
		return;
	w->active = false;
	disk_changed(in);
	files_answer(in, w->seq, r);
}

static void do_remove(struct init *in, const struct proto_init_file *f, int file UNUSED)
{
	const char *name;
	_cleanup_fd_ int parent = files_open_parent(in, f->path, false, &name);
	int r = parent == -EISDIR ? -EPERM /* a mount of the sandbox itself */
		: parent < 0      ? parent
				  : (unlinkat(parent, name, 0) < 0 ? -errno : 0);

	disk_changed(in);

	if (r != -EISDIR) {
		files_answer(in, f->seq, r);
		return;
	}
	if (!(f->flags & PROTO_FILE_RECURSIVE)) {
		files_answer(in, f->seq, unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0);
		return;
	}
	if (in->remove.active) {
		files_answer(in, f->seq, -EBUSY);
		return;
	}
	in->remove.active = true;
	in->remove.seq = f->seq;
	in->remove.slices = 0;
	memcpy(in->remove.path, f->path, sizeof(in->remove.path));
}

/* ---- measure ---- */

/* The ballast of a disk counts for the host, not for the sandbox. */
static void leave_out_ballast(const struct init *in, const struct statvfs *v,
			      struct proto_init_filed *a)
{
	struct stat st;

	if (in->ballast < 0 ||
	    fstatat(in->ballast, PROTO_BALLAST_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	const uint64_t bytes = (uint64_t)st.st_blocks * 512;
	a->bytes -= MIN(bytes, a->bytes);
	a->inodes -= MIN(a->inodes, (uint64_t)1);
	if (bytes > 0 && (uint64_t)v->f_bavail * v->f_frsize < CLOSED_BYTES)
		a->more |= PROTO_MEASURED_CLOSED;
}

static void do_measure(struct init *in, const struct proto_init_file *f, int file UNUSED)
{
	struct proto_init_filed a = {.head = PROTO_HEAD(INIT_FILED, proto_init_filed),
				     .seq = f->seq};
	struct statvfs v;

	if (in->disk.counts) {
		struct disk_use use = disk_known(in);
		a.bytes = use.bytes;
		a.inodes = use.inodes;
	} else if (fstatvfs(in->workspace, &v) < 0) {
		files_answer(in, f->seq, -errno);
		return;
	} else {
		a.bytes = (uint64_t)(v.f_blocks - v.f_bfree) * v.f_frsize;
		if (proto_disk_is_closed(v.f_blocks, v.f_bfree, v.f_bavail))
			a.more |= PROTO_MEASURED_CLOSED;
		a.inodes = v.f_files - v.f_ffree -
			   (in->stored    ? DISK_INODES
			    : in->on_disk ? SESSION_INODES
					  : STORE_INODES);
		leave_out_ballast(in, &v, &a);
	}
	a.more |= venv_is_there() ? PROTO_MEASURED_PACKAGES : 0;
	init_send(in, &a.head, NULL, 0);
}

static void do_connect(struct init *in, const struct proto_init_file *f, int file UNUSED)
{
	_cleanup_fd_ int fd = port_connect(f->port);

	if (fd < 0)
		files_answer(in, f->seq, fd);
	else
		files_answer_fd(in, f->seq, fd);
}

static void do_ports(struct init *in, const struct proto_init_file *f, int file UNUSED)
{
	struct proto_init_filed a = {.head = PROTO_HEAD(INIT_FILED, proto_init_filed),
				     .seq = f->seq};
	_cleanup_fd_ int out = memfd_create("ports", MFD_CLOEXEC);
	const int n = out < 0 ? -errno : ports_list(in, out);

	if (n < 0) {
		files_answer(in, f->seq, n);
		return;
	}
	a.n = (uint32_t)n;
	init_send(in, &a.head, &out, 1);
}

static void (*const operations[PROTO_FILE_OP_MAX_])(struct init *, const struct proto_init_file *,
						    int) = {
    [PROTO_FILE_OPEN] = do_open,       [PROTO_FILE_PUT] = do_put,
    [PROTO_FILE_COMMIT] = do_commit,   [PROTO_FILE_DROP] = do_drop,
    [PROTO_FILE_REMOVE] = do_remove,   [PROTO_FILE_LIST] = files_list,
    [PROTO_FILE_MEASURE] = do_measure, [PROTO_FILE_CONNECT] = do_connect,
    [PROTO_FILE_PORTS] = do_ports,     [PROTO_FILE_STAT] = files_stat,
    [PROTO_FILE_MAKE] = files_make,
};

/* Whether the front gives a file of its own. */
static bool brings_file(const struct init *in, const struct proto_init_file *f)
{
	return in->inward && (f->op == PROTO_FILE_OPEN || f->op == PROTO_FILE_COMMIT ||
			      f->op == PROTO_FILE_LIST || f->op == PROTO_FILE_STAT);
}

/* A run may take the rights from the workspace itself. Without them no later run could begin, not even one that gives
 * them back, because the workspace is listed before it. */
static void give_rights_back(const struct init *in)
{
	struct stat st;
	char held[32];

	if (run_is_on(in) || fstat(in->workspace, &st) < 0 || (st.st_mode & S_IRWXU) == S_IRWXU)
		return;
	(void)snprintf(held, sizeof(held), "/proc/self/fd/%d", in->workspace);
	(void)!fchmodat(AT_FDCWD, held, (st.st_mode & 07777u) | S_IRWXU, 0);
}

int files_handle(struct init *in, const struct proto_init_file *f, int file)
{
	if ((file >= 0) != brings_file(in, f))
		return -1;
	const bool makes = f->op == PROTO_FILE_PUT || f->op == PROTO_FILE_COMMIT ||
			   f->op == PROTO_FILE_DROP || f->op == PROTO_FILE_MAKE;
	const uint32_t flags = PROTO_FILE_OVERWRITE | PROTO_FILE_RECURSIVE |
			       (makes ? PROTO_FILE_USERS : 0) |
			       (f->op == PROTO_FILE_LIST ? PROTO_FILE_ATTRIBUTES : 0);
	if (f->op >= PROTO_FILE_OP_MAX_ || !operations[f->op] || (f->flags & ~flags) != 0 ||
	    f->port > 65535 || (f->port != 0) != (f->op == PROTO_FILE_CONNECT) ||
	    !proto_path_ok(f->path, proto_file_may_be_empty(f->op)))
		return -1;
	give_rights_back(in);
	operations[f->op](in, f, file);
	return 0;
}
