/* SPDX-License-Identifier: Apache-2.0 */
/* Each monitor holds a lock file, whose text names the control groups that the monitor made. When a
 * monitor dies, the kernel releases its lock. A later start can take it then: it removes the groups that
 * are empty, and then the file. The pid in a file would prove nothing, because pids are reused. */
#include "base/fdio.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/maker/common/folder.h"
#include "engine/maker/native/monitor/monitor.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define RECORD_MAX     65536u
#define SWEEP_MAX      4096 /* lock files that one start looks at */
#define LOCK_TRIES_MAX 16
#define LOCK_PREFIX    "caisson-"
#define LOCK_SUFFIX    ".lock"

/* Only we may write the run folder: another writer could make us remove groups. */
static int check_run_dir(const char *path, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, errno, "'%s'", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
		return err_set(e, ERR_ENGINE_UNAVAILABLE, EPERM, "'%s' belongs to somebody else",
			       path);
	return 0;
}

static int open_run_dir(struct instance *in, bool root, struct err *e)
{
	char parent[64];
	struct stat st;

	if (root) {
		(void)snprintf(in->run_dir, sizeof(in->run_dir), "/run/caisson");
	} else {
		(void)snprintf(parent, sizeof(parent), "/run/user/%u", getuid());
		if (stat(parent, &st) == 0 && st.st_uid == getuid())
			(void)snprintf(in->run_dir, sizeof(in->run_dir), "%s/caisson", parent);
		else
			(void)snprintf(in->run_dir, sizeof(in->run_dir), "/tmp/caisson-%u",
				       getuid());
	}
	if (mkdir(in->run_dir, 0700) < 0 && errno != EEXIST)
		return err_set(
		    e, ERR_ENGINE_UNAVAILABLE, errno,
		    errno == EROFS
			? "'%s' cannot be made; in a container that is read-only, give it "
			  "--tmpfs /run and --tmpfs /tmp"
			: "'%s' cannot be made",
		    in->run_dir);
	return check_run_dir(in->run_dir, e);
}

static int make_lock(struct instance *in, struct err *e)
{
	char id[9];

	rand_hex(id, 4);
	(void)snprintf(in->name, sizeof(in->name), LOCK_PREFIX "%s", id);
	if ((size_t)snprintf(in->lock_path, sizeof(in->lock_path), "%s/%s" LOCK_SUFFIX, in->run_dir,
			     in->name) >= sizeof(in->lock_path))
		return err_set(e, ERR_INTERNAL, ENAMETOOLONG, "'%s'", in->run_dir);
	in->lock = folder_new_lock(in->lock_path);
	return in->lock >= 0 || in->lock == -EAGAIN
		   ? 0
		   : err_set(e, ERR_ENGINE_UNAVAILABLE, -in->lock, "'%s' cannot be made and locked",
			     in->lock_path);
}

int instance_open(struct instance *in, bool root, struct err *e)
{
	in->lock = -1;
	int r = open_run_dir(in, root, e);
	for (int tries = 0; r == 0 && in->lock < 0 && tries < LOCK_TRIES_MAX; tries++)
		r = make_lock(in, e);
	if (r == 0 && in->lock < 0)
		return err_set(e, ERR_ENGINE_UNAVAILABLE, EBUSY, "'%s' cannot be locked",
			       in->lock_path);
	return r;
}

int instance_record(struct instance *in, const struct cgroup *c, struct err *e)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(RECORD_MAX);
	int r = 0;

	for (size_t i = 0; i < CGROUP_TREE_MAX_ && r == 0; i++)
		if (c->path[i][0])
			r = buf_printf(&b, "%s\n", c->path[i]);
	if (r == 0 && pwrite(in->lock, buf_str(&b), b.len, 0) != (ssize_t)b.len)
		r = -errno;
	return r == 0 ? 0
		      : err_set(e, ERR_ENGINE_UNAVAILABLE, -r, "'%s' cannot be written",
				in->lock_path);
}

static bool is_lock_name(const char *name)
{
	return text_starts_with(name, LOCK_PREFIX) && text_ends_with(name, LOCK_SUFFIX) &&
	       strlen(name) > strlen(LOCK_PREFIX LOCK_SUFFIX);
}

/* Removes the recorded paths, but only those whose last part is the name of the dead instance. */
static bool sweep_record(char *text, const char *name)
{
	bool clean = true;
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *last = strrchr(line, '/');
		if (line[0] == '/' && last && streq(last + 1, name))
			clean &= cgroup_remove_tree(line);
	}
	return clean;
}

static void sweep_one(const struct instance *in, const char *file)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(RECORD_MAX);
	char path[PATH_MAX];
	char name[32];

	size_t len = strlen(file) - strlen(LOCK_SUFFIX);
	if (len >= sizeof(name) ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s", in->run_dir, file) >= sizeof(path))
		return;
	memcpy(name, file, len);
	name[len] = '\0';
	_cleanup_fd_ int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0) /* alive */
		return;
	if (fd_read_file(fd, &b) < 0)
		return;
	if (b.len == 0 ||
	    sweep_record(b.data, name)) /* else its last processes are ending: next time */
		(void)unlink(path);
}

void instance_sweep(const struct instance *in)
{
	_cleanup_dir_ DIR *d = opendir(in->run_dir);
	const struct dirent *de;
	int seen = 0;

	while (d && seen++ < SWEEP_MAX && (de = readdir(d)))
		if (is_lock_name(de->d_name))
			sweep_one(in, de->d_name);
}

void instance_close(struct instance *in, bool clean)
{
	if (in->lock >= 0 && clean)
		(void)unlink(in->lock_path);
	in->lock = fd_close(in->lock);
}
