/* SPDX-License-Identifier: Apache-2.0 */
/* The template of an image: a user namespace Z, which contains the user namespaces of all sandboxes of
 * the image, and a small mount namespace, which each sandbox copies. A forked child (the builder) makes
 * both once; the monitor keeps them by two descriptors.
 *
 *   /           tmpfs, read-only
 *   /image      overlay of the skeleton over the image: a sandbox binds it as its root
 *   /skel       the skeleton: mount points and our few files (skeleton.c)
 *   /lower      the image's folder, read-only, nosuid, nodev
 *   /proc       the host's /proc. The kernel lets a user namespace mount a proc of its own only where
 *               one is fully visible already (mount_too_revealing() in fs/namespace.c)
 *   /dev        the six device nodes, bound, and the usual links
 *   /new        where init puts the root of the sandbox together
 *   /ws         where init mounts the workspace, whose two folders it then binds
 *
 * The overlay names its lower folders relative to the working folder, so that mountinfo of a sandbox
 * shows no path of the host. The builder opens the image's folder before it changes its uid: the owner
 * of the state folder may open it, Z's root may not. */
#include "base/fdio.h"
#include "base/foreign_ids.h"
#include "base/kill_points.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"
#include "engine/maker/common/blob.h"
#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/devices.h"
#include "engine/maker/native/monitor/monitor.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <sched.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* <sys/mount.h> of glibc 2.36 clashes with <linux/mount.h>. What we need of it: */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
	  const void *data);
int umount2(const char *target, int flags);
#define UMOUNT_DETACH 2

#define INOTIFY_MAX                                                                                \
	"16" /* instances for each sandbox; the host allows 128 to all of them together */
#define BASE_INODES      128
#define BASE_OPTIONS_MAX 64

static const char *const base_dirs[] = {"image", "skel", "lower", "proc", "dev", "new", "ws"};

/* ---- in the child ---- */

struct builder {
	char root[PATH_MAX]; /* the image's root folder on the host */
	uint32_t owner;      /* uid that creates Z; 0 = the current one */
	int go;              /* readable once the id maps are written */
	int done; /* the builder writes a byte when Z exists, and one when everything is built */
	const char *install_tool; /* of native_monitor_config */
	struct report *report;
};

NORETURN static void give_up(const struct builder *b, enum proto_step step, int errnum)
{
	b->report->step = step;
	b->report->errnum = errnum;
	_exit(1);
}

/* Room for the libraries of the skeleton, whose size depends on the machine they are built for, and a page for each
 * other file. */
static void base_options(char ret[BASE_OPTIONS_MAX])
{
	const size_t libraries = (size_t)(native_machine_library_end - native_machine_library) +
				 (size_t)(native_output_extension_end - native_output_extension) +
				 (size_t)(native_sudo_program_end - native_sudo_program);

	(void)snprintf(ret, BASE_OPTIONS_MAX, "mode=0755,size=%zu,nr_inodes=%d",
		       libraries + BASE_INODES * (size_t)getauxval(AT_PAGESZ), BASE_INODES);
}

static int make_base(void)
{
	char options[BASE_OPTIONS_MAX];

	base_options(options);
	/* /tmp exists on every host, so it is the place of the first mount. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options) < 0 || chdir("/tmp") < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(base_dirs); i++)
		if (mkdir(base_dirs[i], 0755) < 0)
			return -errno;
	return 0;
}

static int make_skeleton(int image, const char *install_tool)
{
	_cleanup_fd_ int skel = open("skel", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return skel < 0 ? -errno : skeleton_make(skel, image, install_tool);
}

static int bind_image(int image)
{
	struct mount_attr attr = {.attr_set =
				      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};

	if (syscall(SYS_mount_setattr, image, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0 ||
	    syscall(SYS_move_mount, image, "", AT_FDCWD, "lower", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	if (mount("overlay", "image", "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV,
		  "lowerdir=skel:lower") < 0)
		return -errno;
	return 0;
}

/* pivot_root(".", "."), see pivot_root(2): puts the old root on top of the new one; then it is unmounted. */
static int leave_host(void)
{
	if (mount(NULL, ".", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) <
	    0)
		return -errno;
	int r = sys_pivot_root(".", ".");
	if (r == 0 && (umount2(".", UMOUNT_DETACH) < 0 || chdir("/") < 0))
		r = -errno;
	return r;
}

static int become_root_of_z(void)
{
	/* With a single-id map setgroups(2) is off (user_namespaces(7)), and the old groups stay. They
	 * are the groups of the user who started the server, so they allow nothing new. */
	if (setgroups(0, NULL) < 0 && errno != EPERM)
		return -errno;
	if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return -errno;
	/* A change of uid makes /proc/PID/ns unreadable to all but the host's root (prctl(2)). */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? -errno : 0;
}

/* The kernel counts inotify instances, pending signals and namespaces per user, and charges those of a
 * sandbox to the *creator* of Z, too (user_namespaces(7), inc_ucount()). If root created Z, one sandbox
 * could take all 128 inotify instances of root's services. So an id of our range that nobody else has
 * creates Z. That id may not open the image's folder; the folder is reached as the working folder, which
 * the new mount namespace takes along. */
static int enter_namespaces(const struct builder *b)
{
	if (chdir(b->root) < 0)
		return -errno;
	if (b->owner != 0 && setresuid((uid_t)-1, b->owner, (uid_t)-1) < 0)
		return -errno;
	return unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ? -errno : 0;
}

/* Keeps one sandbox from taking the inotify instances of all. A failure is not fatal: /proc/sys may be
 * read-only in a container. The file belongs to the user namespace of the process that opens it, so this
 * sets the limit of Z. */
static void limit_watchers(void)
{
	_cleanup_fd_ int fd = open("/proc/sys/user/max_inotify_instances", O_WRONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)!write(fd, INOTIFY_MAX, strlen(INOTIFY_MAX));
}

NORETURN static void build(const struct builder *b)
{
	char byte;
	int r = enter_namespaces(b);

	if (r < 0)
		give_up(b,
			r == -EACCES || r == -ENOENT ? PROTO_STEP_IMAGE : PROTO_STEP_TEMPLATE_FORK,
			-r);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	KILL_POINT(TEMPLATE_ENTERED);
	if (write(b->done, "", 1) != 1 || read(b->go, &byte, 1) != 1)
		give_up(b, PROTO_STEP_TEMPLATE_IDS, EPIPE);
	int image = (int)syscall(SYS_open_tree, AT_FDCWD, ".", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (image < 0)
		give_up(b, PROTO_STEP_IMAGE, errno);
	if ((r = become_root_of_z()) < 0)
		give_up(b, PROTO_STEP_TEMPLATE_IDS, -r);
	if (wall_stands(WALL_WATCHERS))
		limit_watchers();
	(void)umask(0);
	if ((r = make_base()) < 0)
		give_up(b, PROTO_STEP_TEMPLATE_BASE, -r);
	if ((r = make_skeleton(image, b->install_tool)) < 0)
		give_up(b, PROTO_STEP_TEMPLATE_SKELETON, -r);
	if ((r = bind_image(image)) < 0)
		give_up(b, PROTO_STEP_TEMPLATE_OVERLAY, -r);
	if (mount("/proc", "proc", NULL, MS_BIND | MS_REC, NULL) < 0)
		give_up(b, PROTO_STEP_TEMPLATE_PROC, errno);
	if ((r = devices_bind()) < 0)
		give_up(b, PROTO_STEP_TEMPLATE_DEV, -r);
	if ((r = leave_host()) < 0)
		give_up(b, PROTO_STEP_TEMPLATE_PIVOT, -r);
	KILL_POINT(TEMPLATE_BUILT);
	if (write(b->done, "", 1) == 1)
		(void)!read(b->go, &byte,
			    1); /* returns when the monitor has opened the namespaces */
	_exit(0);
}

/* ---- in the monitor ---- */

static int open_ns(pid_t pid, const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int take_namespaces(struct template *t, pid_t child)
{
	_cleanup_fd_ int userns = open_ns(child, "user");
	_cleanup_fd_ int mntns = open_ns(child, "mnt");

	if (userns < 0 || mntns < 0)
		return MIN(userns, mntns);
	t->userns = TAKE_FD(userns);
	t->mntns = TAKE_FD(mntns);
	return 0;
}

static void refuse(struct report *why, enum proto_step step, int errnum)
{
	why->step = step;
	why->errnum = errnum;
}

static int run_builder(struct monitor *m, struct template *t, const char *root, struct report *why)
{
	int go[2];
	int done[2];
	int r;
	char byte;
	struct builder b = {.report = why,
			    .install_tool = m->config->install_tool,
			    .owner = m->ids.mode == IDS_RANGE ? ids_owner(&m->ids) : 0};

	if (text_copy(b.root, sizeof(b.root), root) < 0 || pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	_cleanup_fd_ UNUSED int go_read = go[0];
	_cleanup_fd_ int go_write = go[1];
	if (pipe2(done, O_CLOEXEC) < 0)
		return -errno;
	_cleanup_fd_ int done_read = done[0];
	_cleanup_fd_ int done_write = done[1];
	refuse(why, PROTO_STEP_TEMPLATE_FORK, EIO);
	pid_t child = sys_clone(0, SIGCHLD, -1);
	if (child < 0) {
		refuse(why, PROTO_STEP_TEMPLATE_FORK, -child);
		return child;
	}
	if (child == 0) {
		(void)close(go[1]);
		(void)close(done[0]);
		b.go = go[0];
		b.done = done[1];
		build(&b);
	}
	fd_close_many(&done_write, 1); /* else the end of the builder would not end the read */
	if (read(done_read, &byte, 1) != 1)
		r = -EIO; /* the builder has reported why */
	else if ((r = ids_write_maps(&m->ids, child)) < 0)
		refuse(why, PROTO_STEP_TEMPLATE_IDS, -r);
	else if (write(go_write, "", 1) != 1 || read(done_read, &byte, 1) != 1)
		r = -EIO; /* the builder has reported why */
	else if ((r = take_namespaces(t, child)) < 0)
		refuse(why, PROTO_STEP_TEMPLATE_FORK, -r);
	fd_close_many(&go_write, 1); /* the builder may end */
	if (r < 0)
		(void)kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

void template_free(struct monitor *m, struct template *t)
{
	if (!t->image[0])
		return;
	zygote_stop(m, t);
	/* Another image may get this place before these sandboxes are made; they stay cold then. */
	for (uint32_t i = 0; i < m->config->max_sandboxes; i++)
		if (m->sandboxes[i].image == t)
			m->sandboxes[i].image = NULL;
	t->sandboxes = 0;
	t->userns = fd_close(t->userns);
	t->mntns = fd_close(t->mntns);
	t->lock = image_lock_unref(t->lock);
	t->image[0] = '\0';
}

static struct template *find(struct monitor *m, const char *image, const struct stat *st)
{
	struct template *oldest = &m->templates[0];

	for (size_t i = 0; i < IMAGES_MAX; i++) {
		struct template *t = &m->templates[i];
		if (streq(t->image, image)) {
			if (t->dev != st->st_dev || t->ino != st->st_ino)
				template_free(m,
					      t); /* the image was replaced; its sandboxes stay */
			return t;
		}
		if (!t->image[0] || (oldest->image[0] && t->used_at < oldest->used_at))
			oldest = t;
	}
	template_free(m, oldest);
	return oldest;
}

/* Builds from the folder ROOT and checks that it still is the one that was locked. */
static int build_locked(struct monitor *m, struct template *t, const char *root, struct report *why)
{
	struct stat st;
	int r = image_lock_take(m, root, &t->lock);

	if (r < 0) {
		refuse(why, PROTO_STEP_IMAGE, -r);
		return r;
	}
	r = run_builder(m, t, root, why);
	if (r == 0 &&
	    (stat(root, &st) < 0 || t->lock->dev != st.st_dev || t->lock->ino != st.st_ino)) {
		refuse(why, PROTO_STEP_IMAGE, EBUSY);
		t->userns = fd_close(t->userns);
		t->mntns = fd_close(t->mntns);
		r = -EBUSY;
	}
	if (r < 0)
		t->lock = image_lock_unref(t->lock);
	return r;
}

/* The mark stands beside ROOT. */
static bool is_foreign(const char *root)
{
	char mark[PATH_MAX];

	(void)snprintf(mark, sizeof(mark), "%.*s" FOREIGN_MARK,
		       (int)(strlen(root) - strlen("root")), root);
	return access(mark, F_OK) == 0;
}

int template_get(struct monitor *m, const char *image, struct template **ret, struct report *why)
{
	char root[PATH_MAX];
	struct stat st;

	if ((size_t)snprintf(root, sizeof(root), "%s/images/%s/root", m->config->state_dir,
			     image) >= sizeof(root)) {
		refuse(why, PROTO_STEP_IMAGE, ENAMETOOLONG);
		return -ENAMETOOLONG;
	}
	int missing = stat(root, &st) < 0 ? errno : (S_ISDIR(st.st_mode) ? 0 : ENOTDIR);
	if (missing) {
		refuse(why, PROTO_STEP_IMAGE, missing);
		return -missing;
	}
	struct template *t = find(m, image, &st);
	if (!t->image[0]) {
		int r = build_locked(m, t, root, why);
		if (r < 0)
			return r;
		(void)!text_copy(t->image, sizeof(t->image), image);
		t->foreign = is_foreign(root);
		t->dev = st.st_dev;
		t->ino = st.st_ino;
		t->ctime_ns = (uint64_t)st.st_ctim.tv_sec * NS_PER_S + (uint64_t)st.st_ctim.tv_nsec;
	}
	t->used_at = now_ns();
	*ret = t;
	return 0;
}
