/* SPDX-License-Identifier: Apache-2.0 */
/* The maker: a short-lived child of the monitor that makes the namespaces of one sandbox and clones init
 * into them. Its steps, and why they come in this order:
 *
 *   0. Root only: open the stored workspace, if there is one, or make the disk of a session. (A plain user
 *      opens a stored folder in step 2.)
 *   1. Control groups. v1: join the groups of runs, so that the kernel charges what it allocates from
 *      here on to the sandbox, and the cgroup namespace has its root there. v2: the maker was cloned
 *      into the group of all inits (cgroup.h says why). Then, root only: make the device nodes, which
 *      nobody else may do (devices.h).
 *   2. Enter Z: its user namespace, then its mount namespace. The maker is root of Z now and has no
 *      rights on the host.
 *   3. Become the sandbox's uid, make its user namespace and map 1000 to that uid. A process may map its
 *      own uid without privileges, so no other process has to help. If the sandbox has a root user, a child that is still
 *      root of Z maps the other ids (ids_root_map()), and init gets the image with the owners as these.
 *   4. Clone init into the other six namespaces, which then belong to the new user namespace.
 *      CLONE_PARENT makes init a child of the monitor.
 *      The maker waits until init executes its program, and lends init its memory until then (CLONE_VM): a
 *      copy would cost more than the namespaces do.
 *   5. In the child: leave the groups (v1), make the three capabilities that init needs ambient, because
 *      a uid other than 0 loses all others at execve(2) (capabilities(7)), and execute init from its
 *      sealed memfd.
 *
 * Steps 2 to 5 run with the memory of the monitor. It holds no secret: no key, no code, no output. */
#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/walls.h"
#include "engine/maker/native/monitor/devices.h"

#include "engine/maker/common/sys.h"
#include "engine/maker/native/monitor/monitor.h"
#include "engine/maker/native/monitor/workspace_store.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define INNER_ID   1000
#define INIT_STACK (64u << 10) /* until init executes its program */
#define HIGH_FD    16          /* above all descriptors that init starts with */

/* SYS_ADMIN: to mount and to set the host name. NET_ADMIN: to bring loopback up. SETPCAP: to empty the
 * bounding set. They hold only in the namespaces of the sandbox. */
static const unsigned init_caps[] = {CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SETPCAP};
/* More for a sandbox with a root user. init keeps some of them (root_user.c). */
static const unsigned root_caps[] = {
#define C(cap, kept, why) CAP_##cap,
#include "walls/root_caps.tbl.h"
#undef C
};

/* Descriptors of the mounts that init gets; -1 = none. */
struct mounts {
	int dev;
	int store;
	int packages;
	int image;
	int lock; /* of a stored folder: kept open, not mounted */
};

NORETURN static void give_up(const struct maker *k, enum proto_step step, int errnum)
{
	k->report->step = step;
	k->report->errnum = errnum;
	_exit(1);
}

static void write_zero(const struct maker *k, const int *fds, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (write(fds[i], "0", 1) != 1)
			give_up(k, PROTO_STEP_CGROUP_JOIN, errno);
}

/* The mount of the packages, which init has made. A root user can rename its parents and make links, but neither rename a
 * mount point nor mount anything: what is reached without a link and is a mount is that one. */
static int find_packages(void)
{
	const uint64_t links =
	    wall_stands(WALL_PACKAGES) ? RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS : 0;
	const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = links};
	struct statx st;
	_cleanup_fd_ int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/app/.venv", &how, sizeof(how));

	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) < 0)
		return -errno;
	if (!(st.stx_attributes & STATX_ATTR_MOUNT_ROOT) && wall_stands(WALL_PACKAGES))
		return -ENOENT;
	return TAKE_FD(fd);
}

/* Copies that mount out of the sandbox that is helped. Root of Z may enter namespaces that were made inside Z. */
static int take_packages(const struct maker *k)
{
	if (k->helped < 0)
		return -1;
	/* EPERM: it is exiting and has no memory any more by which the kernel could judge. */
	if (setns(k->helped, CLONE_NEWNS) < 0)
		give_up(k, PROTO_STEP_HELPER, errno == EPERM ? ESRCH : errno);
	_cleanup_fd_ int at = find_packages();
	if (at < 0)
		give_up(k, PROTO_STEP_PACKAGES, -at);
	int tree = (int)syscall(SYS_open_tree, at, "",
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
	if (tree < 0 ||
	    syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		give_up(k, PROTO_STEP_PACKAGES, errno);
	return tree;
}

static void open_disk(const struct maker *k, struct mounts *mounts)
{
	int r = workspace_open_disk(k, k->ids->base + k->uid, &mounts->store);

	if (r < 0)
		give_up(k, PROTO_STEP_STORED, -r);
}

static void make_session_disk(const struct maker *k, struct mounts *mounts)
{
	int r = session_disk_make(k, k->ids->base + k->uid, &mounts->store);

	if (r < 0)
		give_up(k, PROTO_STEP_DISK, -r);
}

/* The image once more, with its owners as the ids that they are inside. Only root of the host may map a mount. */
static void map_image(const struct maker *k, struct mounts *mounts)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
					      MOUNT_ATTR_NODEV | MOUNT_ATTR_IDMAP};
	char map[IDS_MAP_MAX];

	ids_root_map(k->ids->base, k->uid, k->root_user, k->t->foreign, map);
	_cleanup_fd_ int ns = id_mapping_make(map);
	if (ns < 0)
		give_up(k, PROTO_STEP_ROOT_USER, -ns);
	mounts->image = (int)syscall(SYS_open_tree, k->t->lock->fd, "",
				     OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	attr.userns_fd = (uint64_t)(unsigned)ns;
	if (mounts->image < 0 ||
	    syscall(SYS_mount_setattr, mounts->image, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		give_up(k, PROTO_STEP_ROOT_USER, errno);
}

static void open_folder(const struct maker *k, struct mounts *mounts)
{
	int r = workspace_open_folder(k->state_dir, k->persist, k->disk_grant > 0, &k->report->uid,
				      &mounts->store, &mounts->lock);

	if (r < 0)
		give_up(k, PROTO_STEP_STORED, -r);
}

/* A child that is still root of Z when the maker is not any more. It writes the maps when it reads a byte. */
static struct {
	pid_t pid;
	int go;
} mapper;

static int write_text(const char *path, const char *text)
{
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

NORETURN static void map_ids(const struct maker *k, pid_t maker, int go)
{
	char path[64];
	char map[IDS_MAP_MAX];
	char byte;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || read(go, &byte, 1) != 1)
		_exit(1);
	ids_root_map(0, k->report->uid, k->root_user, false, map);
	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", maker);
	int r = write_text(path, map);
	(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", maker);
	r = r < 0 ? r : write_text(path, map);
	_exit(r < 0 ? -r : 0);
}

static void start_mapper(const struct maker *k)
{
	const pid_t maker = getpid();
	int pair[2];

	if (pipe2(pair, O_CLOEXEC) < 0)
		give_up(k, PROTO_STEP_IDS, errno);
	mapper.pid = sys_clone(0, SIGCHLD, -1);
	if (mapper.pid < 0)
		give_up(k, PROTO_STEP_IDS, -mapper.pid);
	if (mapper.pid == 0) {
		(void)close(pair[1]);
		map_ids(k, maker, pair[0]);
	}
	(void)close(pair[0]);
	mapper.go = pair[1];
}

static void await_mapper(const struct maker *k)
{
	int status = 0;

	if (write(mapper.go, "", 1) != 1)
		give_up(k, PROTO_STEP_IDS, EPIPE);
	while (waitpid(mapper.pid, &status, 0) < 0)
		if (errno != EINTR)
			give_up(k, PROTO_STEP_IDS, errno);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		give_up(k, PROTO_STEP_IDS, WIFEXITED(status) ? WEXITSTATUS(status) : EIO);
	(void)close(mapper.go);
}

static void enter_z(const struct maker *k, struct mounts *mounts)
{
	if (setns(k->t->userns, CLONE_NEWUSER) < 0)
		give_up(k, PROTO_STEP_ENTER, errno);
	mounts->packages = take_packages(k);
	if (k->persist[0] && !k->root)
		open_folder(k, mounts);
	if (setns(k->t->mntns, CLONE_NEWNS) < 0)
		give_up(k, PROTO_STEP_ENTER, errno);
	if (setgroups(0, NULL) < 0 && errno != EPERM) /* single-id map: setgroups is off */
		give_up(k, PROTO_STEP_ENTER, errno);
	if (k->root_user)
		start_mapper(k);
	uint32_t uid = k->report->uid;
	if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		give_up(k, PROTO_STEP_ENTER, errno);
	/* else /proc/self/uid_map would belong to the host's root (proc(5)) */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		give_up(k, PROTO_STEP_ENTER, errno);
}

static void write_map(const struct maker *k, const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		give_up(k, PROTO_STEP_IDS, errno);
	(void)close(fd);
}

static void make_userns(const struct maker *k)
{
	char map[48];

	if (unshare(CLONE_NEWUSER) < 0)
		give_up(k, PROTO_STEP_USERNS, errno);
	if (k->root_user) {
		await_mapper(k);
		return;
	}
	(void)snprintf(map, sizeof(map), "%d %u 1\n", INNER_ID, k->report->uid);
	write_map(k, "/proc/self/setgroups", "deny");
	write_map(k, "/proc/self/uid_map", map);
	write_map(k, "/proc/self/gid_map", map);
}

static void inherit(struct __user_cap_data_struct data[2], const unsigned *caps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		data[caps[i] / 32].inheritable |= UINT32_C(1) << (caps[i] % 32);
}

static void make_ambient(const struct maker *k, const unsigned *caps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, caps[i], 0, 0) < 0)
			give_up(k, PROTO_STEP_CAPS, errno);
}

static void keep_caps(const struct maker *k)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &head, data) < 0)
		give_up(k, PROTO_STEP_CAPS, errno);
	inherit(data, init_caps, ARRAY_SIZE(init_caps));
	if (k->root_user)
		inherit(data, root_caps, ARRAY_SIZE(root_caps));
	if (syscall(SYS_capset, &head, data) < 0)
		give_up(k, PROTO_STEP_CAPS, errno);
	make_ambient(k, init_caps, ARRAY_SIZE(init_caps));
	if (k->root_user)
		make_ambient(k, root_caps, ARRAY_SIZE(root_caps));
}

static int lift(const struct maker *k, int fd)
{
	int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);

	if (fd >= 0 && high < 0)
		give_up(k, PROTO_STEP_EXEC, errno);
	return high;
}

/* Leaves descriptors 0, 1 and those of PROTO_START_* open. Those that are not wanted are closed, too. */
static void place(const struct maker *k, const struct mounts *m)
{
	const int wanted[PROTO_START_END] = {
	    [0] = lift(k, k->channel),
	    [1] = lift(k, k->program),
	    [PROTO_START_DEV] = lift(k, m->dev),
	    [PROTO_START_STORE] = lift(k, m->store),
	    [PROTO_START_PACKAGES] = lift(k, m->packages),
	    [PROTO_START_IMAGE] = lift(k, m->image),
	    [PROTO_START_LOCK] = lift(k, m->lock),
	};

	for (int i = 0; i < PROTO_START_END; i++)
		if (wanted[i] < 0 ? close(i) < 0 && errno != EBADF
				  : dup3(wanted[i], i, i == 1 ? O_CLOEXEC : 0) < 0)
			give_up(k, PROTO_STEP_EXEC, errno);
	if (fd_close_from(PROTO_START_END) < 0)
		give_up(k, PROTO_STEP_EXEC, errno);
}

struct birth {
	const struct maker *k;
	const struct mounts *mounts;
};

/* Runs in the child that becomes init, in the memory of the maker. Not even its working folder is one of the
 * host. */
static int start_init(void *of)
{
	const struct birth *b = of;
	const struct maker *k = b->k;
	static char name[] = "init";
	char *argv[] = {name, NULL};
	char *env[] = {walls_variable(), NULL};

	write_zero(k, k->fds->leave, k->fds->n_leave);
	keep_caps(k);
	if (chdir("/") < 0)
		give_up(k, PROTO_STEP_EXEC, errno);
	place(k, b->mounts);
	KILL_POINT(INIT_PLACED);
	monitor_plain_signals();
	(void)syscall(SYS_execveat, 1, "", argv, env, AT_EMPTY_PATH);
	give_up(k, PROTO_STEP_EXEC, errno);
}

static pid_t clone_init(const struct maker *k, const struct mounts *m)
{
	static _Alignas(16) char stack[INIT_STACK];
	struct birth b = {.k = k, .mounts = m};

	return clone(start_init, stack + sizeof(stack),
		     CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_NEWPID | CLONE_NEWNS |
			 CLONE_NEWUTS | CLONE_NEWCGROUP |
			 (wall_stands(WALL_NET) ? CLONE_NEWNET : 0) |
			 (wall_stands(WALL_IPC) ? CLONE_NEWIPC : 0),
		     &b);
}

NORETURN void maker_run(const struct maker *k)
{
	struct mounts m = {.dev = -1, .store = -1, .packages = -1, .image = -1, .lock = -1};

	/* A maker may have to wait for a slow disk. If the monitor died meanwhile, its inits would not end. */
	(void)close(k->liveness);
	if (k->persist[0] && k->root)
		open_disk(k, &m);
	else if (k->disk_template >= 0)
		make_session_disk(k, &m);
	write_zero(k, k->fds->join, k->fds->n_leave > 0 ? k->fds->n : 0);
	KILL_POINT(MAKER_JOINED);
	if (k->own_devices)
		m.dev = devices_make();
	if (k->own_devices && m.dev < 0)
		give_up(k, PROTO_STEP_DEV, -m.dev);
	if (k->root_user)
		map_image(k, &m);
	enter_z(k, &m);
	KILL_POINT(MAKER_ENTERED);
	make_userns(k);
	KILL_POINT(MAKER_MAPPED);
	pid_t init = clone_init(k, &m);
	if (init < 0)
		give_up(k, PROTO_STEP_NAMESPACES, errno);
	KILL_POINT(INIT_CLONED);
	k->report->pid = init;
	_exit(0);
}
