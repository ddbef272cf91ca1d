/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a root user: the folder that keeps what is changed, and files that init makes for it. */
#include "root_user.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "file_places.h"
#include "file_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STORE        "/ws/root"
#define UPPER        STORE "/up"
#define SKELETON     "/skel"
#define IMAGE        "/lower"
#define ACCOUNTS_MAX (256u << 10) /* of a text of the image */
#define MINOR_MIN    8u           /* of Python 3.N */
#define MINOR_MAX    30u

/* ---- whose files ---- */

/* A change of ids takes rights out of effect, capabilities(7). */
static int use_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		data[i].effective = data[i].permitted;
	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

/* New files belong to ID from here on. */
static int act_as(uid_t id)
{
	/* The kernel sets it anew with the ids, prctl(2). */
	const int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);

	(void)setfsgid(id);
	(void)setfsuid(id);
	(void)prctl(PR_SET_DUMPABLE, dumpable == 1, 0, 0, 0);
	return use_caps();
}

bool root_user_files_begin(const struct init *in, const char *path)
{
	if (!root_user_is_there(in) || place_of(in, path).dir != in->root)
		return false;
	return act_as(ROOT_USER_ID) == 0;
}

void root_user_files_end(bool begun)
{
	if (begun && act_as(getuid()) < 0)
		init_die("capabilities");
}

/* ---- the upper folder ---- */

static int read_text(const char *path, struct buf *b)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? fd_read_file(fd, b) : -EINVAL;
}

static bool names(const char *line, const char *name)
{
	const size_t n = strlen(name);

	return strncmp(line, name, n) == 0 && line[n] == ':';
}

/* Whether a line of TEXT has that name. */
static bool has_name(const char *text, const char *name)
{
	while (text && !names(text, name)) {
		text = strchr(text, '\n');
		text += text ? 1 : 0;
	}
	return text != NULL;
}

/* Adds the lines of TEXT whose name is not one of BUT; one of BUT, too, if OTHER does not have it. */
static int add_lines(struct buf *b, const char *text, const char *const but[], const char *other)
{
	int r = 0;

	while (*text && r == 0) {
		const size_t len = strcspn(text, "\n");
		bool wanted = len > 0;
		for (size_t i = 0; but[i]; i++)
			wanted = wanted && !(names(text, but[i]) && has_name(other, but[i]));
		if (wanted)
			r = buf_add(b, text, len);
		if (wanted && r == 0)
			r = buf_add(b, "\n", 1);
		text += len + (text[len] == '\n');
	}
	return r;
}

/* The image's accounts stay: packages of the image own files. Ours come first, because uid 1000 is called by the first name
 * that has it. An image may have no root. */
static int merge_accounts(const char *name)
{
	static const char *const theirs[] = {"root", "nobody", "nogroup", NULL};
	static const char *const ours[] = {"sandbox", "user", NULL};
	_cleanup_(buf_done) struct buf skeleton = BUF_INIT(ACCOUNTS_MAX);
	_cleanup_(buf_done) struct buf image = BUF_INIT(ACCOUNTS_MAX);
	_cleanup_(buf_done) struct buf text = BUF_INIT(2 * ACCOUNTS_MAX);
	char path[64];

	(void)snprintf(path, sizeof(path), IMAGE "/etc/%s", name);
	if (read_text(path, &image) < 0)
		return 0; /* it has none: ours are there */
	(void)snprintf(path, sizeof(path), SKELETON "/etc/%s", name);
	int r = read_text(path, &skeleton);
	r = r < 0 ? r : add_lines(&text, buf_str(&skeleton), theirs, buf_str(&image));
	r = r < 0 ? r : add_lines(&text, buf_str(&image), ours, buf_str(&skeleton));
	(void)snprintf(path, sizeof(path), UPPER "/etc/%s", name);
	_cleanup_fd_ int fd = r < 0 ? -1 : open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (r == 0 && fd < 0)
		r = -errno;
	return r < 0 ? r : fd_write_all(fd, buf_str(&text), text.len);
}

/* The skeleton has programs in place of installers, for users who may install nothing. Root may. */
static void show_installers(void)
{
	static const char *const always[] = {
	    "usr/local/bin/pip", "usr/local/bin/pip3",
	    "usr/local/bin/uv",  "usr/bin/pip",
	    "usr/bin/pip3",      "usr/lib/python3/dist-packages/pip/__main__.py"};
	static const char *const libs[] = {"usr/lib", "usr/local/lib"};
	_cleanup_fd_ int upper = open(UPPER, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[80];

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		(void)unlinkat(upper, always[i], 0);
	for (unsigned i = 0; i < 2 * (MINOR_MAX - MINOR_MIN + 1); i++) {
		(void)snprintf(path, sizeof(path), "%s/python3.%u/site-packages/pip/__main__.py",
			       libs[i % 2], MINOR_MIN + i / 2);
		(void)unlinkat(upper, path, 0);
	}
}

/* Its commands begin there; images without a shell may lack it. */
static int make_home(void)
{
	struct stat st;

	return lstat(IMAGE "/root", &st) == 0 || mkdir(UPPER "/root", 0700) == 0 ? 0 : -errno;
}

/* git(1) uses no repository that belongs to somebody else than its user, gitconfig(5), safe.directory. Here root and the user
 * work on the same files for the same client. What the image configures stays. */
static int trust_repositories(void)
{
	static const char path[] = UPPER "/etc/gitconfig", ours[] = "\n[safe]\n\tdirectory = *\n";
	_cleanup_(buf_done) struct buf b = BUF_INIT(ACCOUNTS_MAX + sizeof(ours));
	int r = read_text(IMAGE "/etc/gitconfig", &b);

	if ((r < 0 && r != -ENOENT) || strstr(buf_str(&b), "[safe]"))
		return 0;
	r = buf_add(&b, ours, sizeof(ours) - 1);
	_cleanup_fd_ int fd = r < 0 ? r : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return r < 0 ? r : fd < 0 ? -errno : fd_write_all(fd, buf_str(&b), b.len);
}

/* Not the skeleton as a layer: its files belong to the root of another user namespace, which is nobody here. */
static int fill_upper(void)
{
	struct tree_count count;
	_cleanup_fd_ int from = open(SKELETON, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int to = -1;

	if (mkdir(STORE, 0711) < 0 || mkdir(UPPER, 0755) < 0 || mkdir(STORE "/work", 0700) < 0)
		return -errno;
	to = open(UPPER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from < 0 || to < 0)
		return -errno;
	int r = tree_copy(from, to, false, &count);
	r = r < 0 ? r : merge_accounts("passwd");
	r = r < 0 ? r : merge_accounts("group");
	r = r < 0 ? r : make_home();
	r = r < 0 ? r : trust_repositories();
	if (r == 0 && symlink("/usr/local/lib/caisson/sudo", UPPER "/usr/local/bin/sudo") < 0)
		r = -errno;
	show_installers();
	return r;
}

/* Of the overlay; what is changed meanwhile is seen as it was or as it is. */
static int upper_folder = -1;

int root_user_upper(void)
{
	return upper_folder;
}

int root_user_layers(struct init *in)
{
	int r =
	    move_mount(in->image, "", AT_FDCWD, IMAGE, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;

	in->image = fd_close(in->image);
	r = r < 0 ? r : act_as(ROOT_USER_ID);
	r = r < 0 ? r : fill_upper();
	if (r == 0)
		upper_folder = open(UPPER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && upper_folder < 0)
		r = -errno;
	const int back = act_as(getuid());
	return r < 0 ? r : back;
}
