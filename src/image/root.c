/* SPDX-License-Identifier: Apache-2.0 */
#include "image/root.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"
#include "base/tree.h"
#include "image/image_store.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define ACCOUNTS_MAX (1u << 20) /* bytes of /etc/passwd, /etc/group */

#define PASSWD_LINE SANDBOX_USER ":x:1000:1000:" SANDBOX_USER ":/home/" SANDBOX_USER ":/bin/bash\n"
#define GROUP_LINE  SANDBOX_USER ":x:1000:\n"
#define HOME_FOLDER "home/" SANDBOX_USER

/* What the package tools leave behind: caches, logs, and the addresses that the packages came from.
 */
static const char *const removed[] = {
    "tmp",
    "var/tmp",
    "var/log",
    "var/cache/apt",
    "var/cache/debconf",
    "var/cache/fontconfig",
    "var/lib/apt",
    "etc/apt/sources.list",
    "etc/apt/sources.list.d",
    "etc/apt/apt.conf.d/99mmdebstrap",
    "etc/apt/auth.conf.d",
    "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    "root/.cache",
};

/* Mount points. They must exist, because the root is read-only when something is mounted. Nobody but their owner can
 * write to them: /tmp of a sandbox is mounted over the image's, which every account of the host can see. */
static const char *const folders[] = {
    "proc", "sys",       "dev", "run",         "tmp", "mnt", "mnt/data", "app",       "app/results",
    "home", HOME_FOLDER, "opt", "opt/caisson", "etc", "var", "var/log",  "home/user",
};

/* Files of /etc that are the same in every sandbox. */
static const struct {
	const char *name;
	const char *text;
} files[] = {
    {"hosts", "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost\n"},
    {"hostname", "sandbox\n"},
    {"resolv.conf", ""}, /* sandboxes have no name server */
    {"machine-id", ""},
};

/* Lines that are added if no line has that name. */
static const struct {
	const char *file;
	const char *line;
} accounts[] = {
    {"passwd", PASSWD_LINE},
    {"group", GROUP_LINE},
};

_Static_assert(SANDBOX_UID == 1000, "the account lines say so");

static int make_folder(int root, const char *path)
{
	_cleanup_fd_ int there = fd_open_beneath(root, path, O_RDONLY | O_DIRECTORY, 0);

	if (there >= 0)
		return 0;
	char parent[64];
	const char *slash = strrchr(path, '/');

	(void)snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 1,
		       slash ? path : ".");
	_cleanup_fd_ int dir = fd_open_beneath(root, parent, O_RDONLY | O_DIRECTORY, 0);

	if (dir < 0)
		return dir;
	const char *name = slash ? slash + 1 : path;

	/* Some distributions have links here (/app -> /srv/app), and an engine cannot mount over a
	 * link. */
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return -errno;
	if (mkdirat(dir, name, 0755) < 0 || fchmodat(dir, name, 0755, 0) < 0)
		return -errno;
	return 0;
}

/* Sandboxes have one place for what is temporary. Some programs know only this one, and the root is read-only. */
static int link_var_tmp(int root)
{
	_cleanup_fd_ int var = fd_open_beneath(root, "var", O_RDONLY | O_DIRECTORY, 0);

	if (var < 0)
		return var;
	return symlinkat("../tmp", var, "tmp") < 0 && errno != EEXIST ? -errno : 0;
}

static int remove_path(int root, const char *path)
{
	char parent[64];
	const char *slash = strrchr(path, '/');

	(void)snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 1,
		       slash ? path : ".");
	_cleanup_fd_ int dir = fd_open_beneath(root, parent, O_RDONLY | O_DIRECTORY, 0);

	if (dir < 0) /* absent or a link: the package tools did not make it */
		return 0;
	return tree_remove(dir, slash ? slash + 1 : path);
}

bool image_file_is(int dir, const char *name, const char *text, size_t len)
{
	_cleanup_(buf_done) struct buf found = BUF_INIT(ACCOUNTS_MAX);
	_cleanup_fd_ int fd =
	    openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_mode & 07777) == 0644 && (uint64_t)st.st_size == len &&
	       fd_read_file(fd, &found) >= 0 && found.len == len &&
	       memcmp(buf_str(&found), text, len) == 0;
}

static int write_file(int etc, const char *name, const char *text, size_t len)
{
	if (image_file_is(etc, name, text, len))
		return 0;
	if (unlinkat(etc, name, 0) < 0 && errno != ENOENT)
		return -errno;
	_cleanup_fd_ int fd =
	    openat(etc, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0 || fchmod(fd, 0644) < 0)
		return -errno;
	return fd_write_all(fd, text, len);
}

static bool has_account(const char *text)
{
	return text_starts_with(text, SANDBOX_USER ":") || strstr(text, "\n" SANDBOX_USER ":");
}

static int add_account(int etc, const char *file, const char *line)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ACCOUNTS_MAX);
	_cleanup_fd_ int fd = fd_open_beneath(etc, file, O_RDONLY, 0);
	int r = fd >= 0 ? fd_read_file(fd, &text) : fd;

	if (r < 0 && r != -ENOENT)
		return r;
	if (has_account(buf_str(&text)))
		return 0;
	if (text.len > 0 && text.data[text.len - 1] != '\n')
		r = buf_add_char(&text, '\n');
	else
		r = 0;
	if (r >= 0)
		r = buf_add_str(&text, line);
	return r < 0 ? r : write_file(etc, file, buf_str(&text), text.len);
}

int image_root_finish(int root, bool tidy, struct err *e)
{
	int r = 0;

	for (size_t i = 0; tidy && i < ARRAY_SIZE(removed); i++) {
		r = remove_path(root, removed[i]);
		if (r < 0)
			return err_set(e, ERR_IMAGE_BUILD_FAILED, -r,
				       "cannot remove /%s in the image", removed[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		r = make_folder(root, folders[i]);
		if (r < 0)
			return err_set(e, ERR_IMAGE_BUILD_FAILED, -r,
				       "cannot make /%s in the image", folders[i]);
	}
	r = link_var_tmp(root);
	if (r < 0)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, -r, "cannot make /var/tmp in the image");
	_cleanup_fd_ int etc = fd_open_beneath(root, "etc", O_RDONLY | O_DIRECTORY, 0);

	if (etc < 0)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, -etc, "cannot open /etc in the image");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		r = write_file(etc, files[i].name, files[i].text, strlen(files[i].text));
		if (r < 0)
			return err_set(e, ERR_IMAGE_BUILD_FAILED, -r,
				       "cannot write /etc/%s in the image", files[i].name);
	}
	for (size_t i = 0; i < ARRAY_SIZE(accounts); i++) {
		r = add_account(etc, accounts[i].file, accounts[i].line);
		if (r < 0)
			return err_set(e, ERR_IMAGE_BUILD_FAILED, -r,
				       "cannot write /etc/%s in the image", accounts[i].file);
	}
	return 0;
}
