/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a copy of the image's template into a finished sandbox: mounts, loopback, privileges. The
 * mounts are one table, applied in order below /new. pivot_root(2) then makes /new the root, and the
 * template is unmounted. */
#include "asked.h"
#include "file_places.h"
#include "root_user.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/walls.h"
#include "walls/landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Every sandbox has its own overlay over the same layers. With one overlay for all, sandboxes would
 * share inodes: they would see each other's locks and, through inotify(7), each other's opens. Cached
 * pages are shared all the same, because they belong to the layers. The paths are relative to the
 * template's root, so that /proc/PID/mountinfo names no path of the host. */
#define IMAGE_LAYERS "lowerdir=skel:lower"
#define NEW_ROOT     "/new"
#define CHECKPOINTS  "checkpoints"
#define STORE        "/ws" /* the file system of the workspace and its packages */
#define HOST_NAME    "sandbox"
#define PYTHON       "/usr/bin/python3"
#define NO_PYTHON                                                                                  \
	"/opt/caisson/no-python" /* of an image without one that is new enough: src/image/python.h */
#define HOME_BYTES    (UINT64_C(16) << 20)
#define SMALL_INODES  4096u
#define TMP_INODES    65536u
#define PTYS_MAX      64 /* they take places of the host's global table, kernel.pty.max */
#define MPL_FROM      "/opt/caisson/mpl"
#define MPL_TO        ".config/matplotlib" /* below /tmp */
#define MPL_FILES_MAX 16
#define MPL_BYTES_MAX (4u << 20)

enum mount_kind {
	MOUNT_OVERLAY,
	MOUNT_BIND,
	MOUNT_PROC,
	MOUNT_DEV,
	MOUNT_DEVPTS,
	MOUNT_TMPFS,
	MOUNT_KEPT,
	MOUNT_PACKAGES,
};

enum mount_size { SIZE_NONE, SIZE_SHM, SIZE_TMP, SIZE_HOME };

static const struct mount_row {
	enum proto_step step;
	enum mount_kind kind;
	const char *source; /* BIND, KEPT */
	const char *target; /* below NEW_ROOT */
	unsigned long flags;
	unsigned mode;
	enum mount_size size;
} mounts[] = {
    {PROTO_STEP_ROOT, MOUNT_OVERLAY, NULL, "", MS_RDONLY | MS_NOSUID | MS_NODEV, 0, SIZE_NONE},
    {PROTO_STEP_PROC, MOUNT_PROC, NULL, "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, 0, SIZE_NONE},
    {PROTO_STEP_DEV, MOUNT_DEV, "/dev", "/dev", MS_REC, 0, SIZE_NONE},
    {PROTO_STEP_DEV, MOUNT_DEVPTS, NULL, "/dev/pts", MS_NOSUID | MS_NOEXEC, 0, SIZE_NONE},
    {PROTO_STEP_DEV, MOUNT_TMPFS, NULL, "/dev/shm", MS_NOSUID | MS_NODEV, 01777, SIZE_SHM},
    {PROTO_STEP_TMP, MOUNT_KEPT, STORE "/tmp", "/tmp", MS_NOSUID | MS_NODEV, 01777, SIZE_TMP},
    {PROTO_STEP_HOME, MOUNT_KEPT, STORE "/home", "/home/sandbox", MS_NOSUID | MS_NODEV, 0700,
     SIZE_HOME},
    {PROTO_STEP_WORKSPACE, MOUNT_BIND, STORE "/data", "/mnt/data", 0, 0, SIZE_NONE},
    {PROTO_STEP_WORKSPACE, MOUNT_BIND, STORE "/data", "/app/results", 0, 0, SIZE_NONE},
    {PROTO_STEP_WORKSPACE, MOUNT_BIND, STORE "/data", "/home/user", 0, 0, SIZE_NONE},
    {PROTO_STEP_PACKAGES, MOUNT_PACKAGES, STORE "/venv", "/app/.venv", 0, 0, SIZE_NONE},
};

static void size_of(const struct init *in, enum mount_size size, uint64_t *bytes, uint32_t *inodes)
{
	const struct proto_limits *l = &in->config.limits;

	switch (size) {
	case SIZE_TMP:
		*bytes = l->tmp_bytes;
		*inodes = TMP_INODES;
		break;
	case SIZE_SHM: /* what is written there also counts as memory of the sandbox */
		*bytes = l->memory_bytes / 2;
		*inodes = SMALL_INODES;
		break;
	case SIZE_HOME:
	case SIZE_NONE:
	default:
		*bytes = HOME_BYTES;
		*inodes = SMALL_INODES;
		break;
	}
}

static int mount_sized(const char *target, unsigned long flags, unsigned mode, uint64_t bytes,
		       uint32_t inodes)
{
	char options[128];

	(void)snprintf(options, sizeof(options), "mode=%o,uid=%u,gid=%u,size=%llu,nr_inodes=%u",
		       mode, getuid(), getgid(), (unsigned long long)bytes, inodes);
	return mount("tmpfs", target, "tmpfs", flags, options) < 0 ? -errno : 0;
}

static int mount_tmpfs(const struct init *in, const struct mount_row *m, const char *target)
{
	uint64_t bytes;
	uint32_t inodes;

	size_of(in, m->size, &bytes, &inodes);
	return mount_sized(target, m->flags, m->mode, bytes, inodes);
}

/* Mounts the detached *TREE, which the maker of this sandbox passed, at TARGET. Takes *TREE. */
static int attach(int *tree, const char *target)
{
	int r = move_mount(*tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;

	*tree = fd_close(*tree);
	return r;
}

/* The disk of a session that was kept may have its checkpoints still; they ended with its interpreter. */
static void drop_checkpoints(void)
{
	_cleanup_fd_ int store = open(STORE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (store >= 0)
		(void)tree_remove(store, CHECKPOINTS);
}

/* Mounts the file system that holds the workspace and the packages, so that one limit applies to
 * both. It is a tmpfs, or a disk of this sandbox alone. Only its folders are bound into the
 * sandbox. */
static int mount_store(struct init *in)
{
	const struct proto_limits *l = &in->config.limits;
	int r;

	in->stored = in->flushes = in->config.fds & PROTO_CONFIG_STORED;
	in->on_disk = in->store >= 0;
	if (in->on_disk)
		r = attach(&in->store, STORE);
	else
		r = mount_sized(STORE, MS_NOSUID | MS_NODEV, 0755, l->workspace_bytes,
				l->workspace_inodes + STORE_INODES);
	if (r < 0)
		return r;
	if (in->on_disk)
		in->ballast =
		    open(STORE "/" PROTO_BALLAST_FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (in->on_disk)
		variables_begin(open(STORE, O_PATH | O_DIRECTORY | O_CLOEXEC), in->stored);
	if (in->on_disk && in->stored)
		drop_checkpoints();
	if ((mkdir(STORE "/data", 0755) < 0 && errno != EEXIST) ||
	    (mkdir(STORE "/venv", 0755) < 0 && errno != EEXIST))
		return -errno;
	return 0;
}

/* /tmp and the home folder of a stored sandbox are folders of its file system, so that they are still
 * there when it starts again, and count for its limit. They are a tmpfs in other sandboxes, and where the
 * file system of an older sandbox is too full for another folder. */
static int mount_kept(const struct init *in, const struct mount_row *m, const char *target)
{
	if (!in->stored || (mkdir(m->source, m->mode) < 0 && errno != EEXIST))
		return mount_tmpfs(in, m, target);
	return mount(m->source, target, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

/* In a helper sandbox, which installs packages for another one: the packages of that other sandbox,
 * writable. Everywhere else: the sandbox's own packages, read-only, so that no run can change a
 * module that a later run imports. */
static int mount_packages(struct init *in, const struct mount_row *m, const char *target)
{
	if (in->packages >= 0)
		return attach(&in->packages, target);
	if (mount(m->source, target, NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV,
		  NULL) < 0)
		return -errno;
	return 0;
}

/* Mounts /proc twice:
 *   - writable and with every process; reachable only through in->proc, because enter_root() unmounts
 *     it. init counts processes there and writes the oom scores of runs.
 *   - read-only, for the sandbox. With hidepid=2 a process sees only the processes that it may trace,
 *     proc(5): not init, and not the waiting interpreters. A user without subordinate ids has one
 *     uid for all of these, so file permissions would not stop a run from listing their descriptors.
 *     A root user sees the processes of all, and of others no more than their command lines.
 */
static int mount_proc(struct init *in, const struct mount_row *m, const char *target)
{
	if (mount("proc", "/proc", "proc", m->flags, "subset=pid") < 0)
		return -errno;
	in->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (in->proc < 0)
		return -errno;
	return mount("proc", target, "proc",
		     m->flags | (wall_stands(WALL_PROC_READONLY) ? MS_RDONLY : 0),
		     !wall_stands(WALL_HIDEPID) ? "subset=pid"
		     : root_user_is_there(in)   ? "subset=pid,hidepid=2,gid=0"
						: "subset=pid,hidepid=2") < 0
		   ? -errno
		   : 0;
}

/* A /dev that the maker made for this sandbox, or the template's. */
static int mount_dev(struct init *in, const struct mount_row *m, const char *target)
{
	if (in->dev < 0)
		return mount(m->source, target, NULL, MS_BIND | m->flags, NULL) < 0 ? -errno : 0;
	return attach(&in->dev, target);
}

/* The root of a sandbox with a root user, who can change it. */
static int mount_changeable(struct init *in, const struct mount_row *m, const char *target)
{
	const int r = root_user_layers(in);

	if (r < 0)
		return r;
	return mount("overlay", target, "overlay", m->flags & ~(unsigned long)MS_RDONLY,
		     ROOT_USER_OVERLAY) < 0
		   ? -errno
		   : 0;
}

static int mount_one(struct init *in, const struct mount_row *m)
{
	char target[64];
	char options[64];

	(void)snprintf(target, sizeof(target), NEW_ROOT "%s", m->target);
	switch (m->kind) {
	case MOUNT_OVERLAY:
		if (root_user_is_there(in))
			return mount_changeable(in, m, target);
		return mount("overlay", target, "overlay", m->flags, IMAGE_LAYERS) < 0 ? -errno : 0;
	case MOUNT_BIND:
		return mount(m->source, target, NULL, MS_BIND | m->flags, NULL) < 0 ? -errno : 0;
	case MOUNT_PROC:
		return mount_proc(in, m, target);
	case MOUNT_DEV:
		return mount_dev(in, m, target);
	case MOUNT_DEVPTS:
		(void)snprintf(options, sizeof(options),
			       "newinstance,ptmxmode=0666,mode=0620,max=%d",
			       wall_stands(WALL_PTYS) ? PTYS_MAX : PTYS_MAX * 1024);
		return mount("devpts", target, "devpts", m->flags, options) < 0 ? -errno : 0;
	case MOUNT_KEPT:
		return mount_kept(in, m, target);
	case MOUNT_PACKAGES:
		return mount_packages(in, m, target);
	case MOUNT_TMPFS:
	default:
		return mount_tmpfs(in, m, target);
	}
}

/* On the disk of a session, checkpoints are a folder beside `data`. Only `data` and `venv` are bound into the
 * sandbox, so no run can name a path in it. Files and checkpoints together are as large as the disk. */
static int make_folder(void)
{
	if (mkdir(STORE "/" CHECKPOINTS, 0700) < 0)
		return -1;
	return open(STORE "/" CHECKPOINTS, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* The place for the files of checkpoints. In a stored sandbox, and where the workspace is in memory, a tmpfs
 * that is mounted nowhere, so no run can name a path in it. It may grow as large as the workspace, or the
 * memory limit if that is smaller. -1 = the kernel refused; the sandbox works without checkpoints then. */
static int make_store(const struct init *in)
{
	if (in->on_disk && !in->stored)
		return make_folder();
	const struct proto_limits *l = &in->config.limits;
	uint64_t bytes =
	    l->workspace_bytes < l->memory_bytes ? l->workspace_bytes : l->memory_bytes;
	char size[32];
	char inodes[16];
	char id[16];
	_cleanup_fd_ int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);

	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes);
	(void)snprintf(inodes, sizeof(inodes), "%u", l->workspace_inodes);
	(void)snprintf(id, sizeof(id), "%u", getuid());
	if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", inodes, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "mode", "700", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "uid", id, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "gid", id, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return fsmount(fs, FSMOUNT_CLOEXEC,
		       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

static int enter_root(void)
{
	if (chdir(NEW_ROOT) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	/* descriptors 0, 1 and 2 are still the template's /dev/null */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return -errno;
	for (int i = 0; i < 3; i++)
		if (dup2(null, i) < 0)
			return -errno;
	(void)close(null);
	return 0;
}

static int copy_file(int from, int to, const char *name)
{
	_cleanup_fd_ int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_fd_ int out = -1;
	struct stat st, old;
	off_t at = 0;

	if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > MPL_BYTES_MAX)
		return 0; /* no font list */
	/* It may be there from the last start of a stored sandbox. Another image has another list. */
	if (fstatat(to, name, &old, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISREG(old.st_mode) && old.st_size == st.st_size)
			return 0;
		(void)unlinkat(to, name, 0);
	}
	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (out < 0)
		return -errno;
	while (at < st.st_size) {
		ssize_t n = copy_file_range(in, &at, out, NULL, (size_t)(st.st_size - at), 0);
		/* these file systems cannot, or gVisor's kernel */
		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS)) {
			char piece[16384];
			n = pread(in, piece, sizeof(piece), at);
			if (n > 0 && fd_write_all(out, piece, (size_t)n) == 0)
				at += n;
		}
		if (n <= 0) {
			int r = n < 0 ? -errno : 0;
			(void)unlinkat(to, name, 0); /* no half list */
			return r;
		}
	}
	return 0;
}

/* matplotlib scans all fonts (0.4 to 3 s) unless it finds its font list in a writable folder. So the
 * list that was made with the image is copied into /tmp. */
static int copy_fonts(void)
{
	_cleanup_dir_ DIR *d = opendir(MPL_FROM);
	const struct dirent *de;
	int r = 0;

	/* In a stored sandbox a run may have put anything there. */
	if ((mkdir("/tmp/.config", 0755) < 0 && errno != EEXIST) ||
	    (mkdir("/tmp/" MPL_TO, 0755) < 0 && errno != EEXIST))
		return -errno;
	_cleanup_fd_ int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int to = fd_open_beneath(tmp, MPL_TO, O_PATH | O_DIRECTORY, 0);
	if (to < 0)
		return to;
	for (int n = 0; d && r == 0 && n < MPL_FILES_MAX && (de = readdir(d)); n++)
		if (de->d_name[0] != '.')
			r = copy_file(dirfd(d), to, de->d_name);
	return r;
}

/* Whether no privilege is left: no capability, nor a way to gain one. */
static int check_dropped(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		if (data[i].effective || data[i].permitted || data[i].inheritable)
			return -EPERM;
	for (unsigned long cap = 0; cap <= 63; cap++)
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) > 0)
			return -EPERM;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : -EPERM;
}

int init_drop(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	for (unsigned long cap = 0; cap <= 63; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
		    errno != EINVAL) /* EINVAL: this kernel has no capability of that number */
			return -errno;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &head, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	return check_dropped();
}

/* Mounts, namespaces and loopback in a sandbox of our own. */
static int build_root(struct init *in, enum proto_step *ret_step)
{
	int r;

	*ret_step = PROTO_STEP_HOSTNAME;
	if (sethostname(HOST_NAME, strlen(HOST_NAME)) < 0)
		return -errno;
	(void)umask(0);
	if (wall_stands(WALL_NET)) /* without an own namespace this would change the host */
		sockets_bound();
	*ret_step = PROTO_STEP_WORKSPACE;
	r = mount_store(in);
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]) && r == 0; i++) {
		*ret_step = mounts[i].step;
		r = mount_one(in, &mounts[i]);
	}
	if (r < 0)
		return r;
	in->checkpoints.store = make_store(in);
	*ret_step = PROTO_STEP_ASKED;
	if ((r = asked_begin(NEW_ROOT)) < 0)
		return r;
	*ret_step = PROTO_STEP_PIVOT;
	if ((r = enter_root()) < 0)
		return r;
	if (access(PYTHON, X_OK) == 0 && access(NO_PYTHON, F_OK) < 0)
		(void)snprintf(in->python, sizeof(in->python), PYTHON);
	KILL_POINT(INIT_MOUNTED);
	*ret_step = PROTO_STEP_LOOPBACK;
	return wall_stands(WALL_NET) ? loopback_up() : 0;
}

/* Sets RET to the first python3 in the image's own PATH, which the container engine gave to init. */
static void find_python(char *ret, size_t size)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		const size_t len = strcspn(path, ":");
		if (*path == '/' &&
		    (size_t)snprintf(ret, size, "%.*s/python3", (int)len, path) < size &&
		    access(ret, X_OK) == 0)
			return;
		path += len + (path[len] == ':');
	}
	(void)snprintf(ret, size, access(PYTHON, X_OK) == 0 ? PYTHON : "");
}

/* In a container everything is there. Its privileges must be gone: if the container engine kept one,
 * nothing runs here. */
static int check_container(struct init *in, enum proto_step *ret_step)
{
	*ret_step = PROTO_STEP_PROC;
	in->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (in->proc < 0)
		return -errno;
	init_open_score(in);
	*ret_step = PROTO_STEP_CAPS;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	const int r = check_dropped();
	if (r < 0)
		return r;
	in->stored = in->flushes = in->config.fds & PROTO_CONFIG_FOLDER;
	if (access(NO_PYTHON, F_OK) < 0)
		find_python(in->python, sizeof(in->python));
	return 0;
}

int init_setup(struct init *in, enum proto_step *ret_step)
{
	static const char *const kept[DISK_KEPT] = {"/app/.venv", "/tmp", "/home/sandbox", ""};
	int r;

	r = in->contained ? check_container(in, ret_step) : build_root(in, ret_step);
	if (r < 0)
		return r;
	(void)umask(022);
	*ret_step = PROTO_STEP_EGRESS;
	/* Before any submitted code runs, so that no run can take the port first. */
	if ((in->config.fds & PROTO_CONFIG_EGRESS) && (in->egress = egress_listen()) < 0)
		return in->egress;
	*ret_step = PROTO_STEP_CAPS;
	if (!in->contained)
		init_open_score(in);
	if (!in->contained && (r = root_user_is_there(in) ? root_user_drop() : init_drop()) < 0)
		return r;
	KILL_POINT(INIT_DROPPED);
	*ret_step = PROTO_STEP_MPL;
	r = copy_fonts();
	if (r < 0 &&
	    !in->stored) /* a full disk, or what a run left there, must not end the sandbox */
		return r;
	if (in->stored)
		kept_tidy();
	*ret_step = PROTO_STEP_WORKSPACE;
	r = places_open(in);
	if (r < 0)
		return r;
	disk_start(in, kept);
	in->disk.kept[DISK_KEPT - 1] = in->disk.counts ? variables_folder() : -1;
	in->landlock = (root_user_is_there(in) ? landlock_prepare_root : landlock_prepare)("");
	/* -1 where the kernel has no Landlock */
	return 0;
}
