/* SPDX-License-Identifier: Apache-2.0 */
/* From a copy of the template to a finished sandbox: mounts, loopback, privileges. One table of
 * mounts, applied in order below /new, then pivot_root and nothing of the template is left. */
#include "init.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/walls.h"
#include "walls/landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Every sandbox has an overlay of its own over the same layers: with one for all they would share
 * inodes, and so see each other's locks and, by inotify, each other's every open. Pages stay
 * shared, they belong to the layers. Relative to the template's root, so that mountinfo names no
 * path of the host. */
#define IMAGE_LAYERS  "lowerdir=skel:lower"
#define NEW_ROOT      "/new"
#define STORE         "/ws" /* the file system of the workspace and its packages */
#define HOST_NAME     "sandbox"
#define HOME_BYTES    (UINT64_C(16) << 20)
#define SMALL_INODES  4096u
#define TMP_INODES    65536u
#define PTYS_MAX      64 /* of the host's global table, kernel.pty.max */
#define MPL_FROM      "/opt/caisson/mpl"
#define MPL_TO        "/tmp/.config/matplotlib"
#define MPL_FILES_MAX 16
#define MPL_BYTES_MAX (4u << 20)

enum mount_kind {
	MOUNT_OVERLAY,
	MOUNT_BIND,
	MOUNT_PROC,
	MOUNT_DEV,
	MOUNT_DEVPTS,
	MOUNT_TMPFS,
	MOUNT_PACKAGES,
};

enum mount_size { SIZE_NONE, SIZE_SHM, SIZE_TMP, SIZE_HOME };

static const struct mount_row {
	enum proto_step step;
	enum mount_kind kind;
	const char *source; /* BIND */
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
    {PROTO_STEP_TMP, MOUNT_TMPFS, NULL, "/tmp", MS_NOSUID | MS_NODEV, 01777, SIZE_TMP},
    {PROTO_STEP_HOME, MOUNT_TMPFS, NULL, "/home/sandbox", MS_NOSUID | MS_NODEV, 0700, SIZE_HOME},
    {PROTO_STEP_WORKSPACE, MOUNT_BIND, STORE "/data", "/mnt/data", 0, 0, SIZE_NONE},
    {PROTO_STEP_WORKSPACE, MOUNT_BIND, STORE "/data", "/app/results", 0, 0, SIZE_NONE},
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
	case SIZE_SHM: /* as Docker: half of what there is, but it is memory all the same */
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

/* A mount of its own that the maker has passed. */
static int attach(int *tree, const char *target)
{
	int r = move_mount(*tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;

	*tree = fd_close(*tree);
	return r;
}

/* One file system for the workspace and the packages, so that one limit holds for both: in memory,
 * or the stored one. Only its two folders are bound into the sandbox. */
static int mount_store(struct init *in)
{
	const struct proto_limits *l = &in->config.limits;
	int r;

	in->stored = in->store >= 0;
	if (in->stored)
		r = attach(&in->store, STORE);
	else
		r = mount_sized(STORE, MS_NOSUID | MS_NODEV, 0755, l->workspace_bytes,
				l->workspace_inodes + STORE_INODES);
	if (r < 0)
		return r;
	if ((mkdir(STORE "/data", 0755) < 0 && errno != EEXIST) ||
	    (mkdir(STORE "/venv", 0755) < 0 && errno != EEXIST))
		return -errno;
	return 0;
}

/* Those of the sandbox that this one helps, to write; or its own, to read: what is installed there
 * is the installer's affair, and no run can put anything in the way of the next one. */
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

/* Two of them: a writable one that shows every process and stays reachable only through our
 * descriptor, for counting and for the oom scores of runs; and a read-only one for the sandbox that
 * shows a process only what it may trace, proc(5): its own, not init and not the interpreters that
 * wait. Where a plain user has one id alone, those belong to the same id as the run, and the
 * permissions of their files would not keep it from listing their descriptors. */
static int mount_proc(struct init *in, const struct mount_row *m, const char *target)
{
	if (mount("proc", "/proc", "proc", m->flags, "subset=pid") < 0)
		return -errno;
	in->proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (in->proc < 0)
		return -errno;
	return mount("proc", target, "proc",
		     m->flags | (wall_stands(WALL_PROC_READONLY) ? MS_RDONLY : 0),
		     wall_stands(WALL_HIDEPID) ? "subset=pid,hidepid=2" : "subset=pid") < 0
		   ? -errno
		   : 0;
}

/* The one that the maker has made for this sandbox, or that of the template. */
static int mount_dev(struct init *in, const struct mount_row *m, const char *target)
{
	if (in->dev < 0)
		return mount(m->source, target, NULL, MS_BIND | m->flags, NULL) < 0 ? -errno : 0;
	return attach(&in->dev, target);
}

static int mount_one(struct init *in, const struct mount_row *m)
{
	char target[64];
	char options[64];

	(void)snprintf(target, sizeof(target), NEW_ROOT "%s", m->target);
	switch (m->kind) {
	case MOUNT_OVERLAY:
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
	case MOUNT_PACKAGES:
		return mount_packages(in, m, target);
	case MOUNT_TMPFS:
	default:
		return mount_tmpfs(in, m, target);
	}
}

/* Where points keep their files: a file system that no mount namespace names, so no run either. As
 * large as the workspace, but it is memory all the same. A sandbox stands without it. */
static int make_store(const struct init *in)
{
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
	/* 0, 1 and 2 still name the template's /dev/null */
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
	struct stat st;
	off_t at = 0;

	if (in < 0 || fstat(in, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > MPL_BYTES_MAX)
		return 0; /* not one of the font lists */
	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (out < 0)
		return -errno;
	while (at < st.st_size) {
		ssize_t n = copy_file_range(in, &at, out, NULL, (size_t)(st.st_size - at), 0);
		if (n < 0 &&
		    (errno == EXDEV || errno == EINVAL)) { /* not between these file systems */
			char piece[16384];
			n = pread(in, piece, sizeof(piece), at);
			if (n > 0 && fd_write_all(out, piece, (size_t)n) == 0)
				at += n;
		}
		if (n <= 0)
			return n < 0 ? -errno : 0;
	}
	return 0;
}

/* matplotlib scans all fonts again (0.4-3 s) unless its list is in a *writable* folder. */
static int copy_fonts(void)
{
	_cleanup_dir_ DIR *d = opendir(MPL_FROM);
	const struct dirent *de;
	int r = 0;

	if (mkdir("/tmp/.config", 0755) < 0 || mkdir(MPL_TO, 0755) < 0)
		return -errno;
	_cleanup_fd_ int to = open(MPL_TO, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (to < 0)
		return -errno;
	for (int n = 0; d && r == 0 && n < MPL_FILES_MAX && (de = readdir(d)); n++)
		if (de->d_name[0] != '.')
			r = copy_file(dirfd(d), to, de->d_name);
	return r;
}

int init_drop(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	for (unsigned long cap = 0; cap <= 63; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
		    errno != EINVAL) /* beyond the last one */
			return -errno;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &head, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
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

int init_setup(struct init *in, enum proto_step *ret_step)
{
	int r = 0;

	*ret_step = PROTO_STEP_HOSTNAME;
	if (sethostname(HOST_NAME, strlen(HOST_NAME)) < 0)
		return -errno;
	(void)umask(0);
	if (wall_stands(WALL_NET)) /* without it these would be the host's settings */
		sockets_bound();
	*ret_step = PROTO_STEP_WORKSPACE;
	r = mount_store(in);
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]) && r == 0; i++) {
		*ret_step = mounts[i].step;
		r = mount_one(in, &mounts[i]);
	}
	if (r < 0)
		return r;
	in->points.store = make_store(in);
	*ret_step = PROTO_STEP_PIVOT;
	if ((r = enter_root()) < 0)
		return r;
	(void)umask(022);
	KILL_POINT(INIT_MOUNTED);
	*ret_step = PROTO_STEP_LOOPBACK;
	if (wall_stands(WALL_NET) && (r = loopback_up()) < 0)
		return r;
	*ret_step = PROTO_STEP_EGRESS;
	/* Made before anything of a tenant runs, so that nobody else can have the port. */
	if ((in->config.fds & PROTO_CONFIG_EGRESS) && (in->egress = egress_listen()) < 0)
		return in->egress;
	*ret_step = PROTO_STEP_CAPS;
	if ((r = init_drop()) < 0)
		return r;
	KILL_POINT(INIT_DROPPED);
	*ret_step = PROTO_STEP_MPL;
	if ((r = copy_fonts()) < 0)
		return r;
	*ret_step = PROTO_STEP_WORKSPACE;
	in->workspace = open("/mnt/data", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (in->workspace < 0)
		return -errno;
	disk_start(in, open("/app/.venv", O_PATH | O_DIRECTORY | O_CLOEXEC));
	in->landlock = landlock_prepare(""); /* a second wall: the sandbox stands without it */
	return 0;
}
