/* SPDX-License-Identifier: Apache-2.0 */
#include "image/python.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/parse.h"
#include "base/text.h"
#include "image/root.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define HEADERS_MAX  64 /* program headers that are looked at */
#define VENV_FILE    "caisson-environment.pth"
#define FRESH_FILE   "caisson-bytecode.pth"
#define CUSTOM_LINE  "\n_Loader._cache_bytecode = _cache\n" /* of what images/customize.sh writes */
#define CUSTOM_MAX   (64u << 10)

/* A .pyc is valid while its source has the same size and second of change (PEP 552). A program that
 * edits a module of its own twice within a second would get the old one, so modules of the workspace
 * are compiled anew each time. images/customize.sh does the same in images that are built here.
 * Python executes a line of a .pth file that begins with "import". */
static const char fresh_text[] =
    "import _frozen_importlib_external as _b; exec(\"def _c(self, source, bytecode, data, "
    "_o=_b.SourceFileLoader._cache_bytecode):\\n if not source.startswith(('/mnt/data/', "
    "'/app/results/', '/home/user/', '/tmp/')) or '/site-packages/' in source:\\n  _o(self, "
    "source, bytecode, "
    "data)\\n_b.SourceFileLoader._cache_bytecode = _c\")\n";

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#endif

static int open_in_root(int root, const char *path, uint64_t flags)
{
	const struct open_how how = {
	    /* openat2(2) refuses other flags beside O_PATH. */
	    .flags = flags | O_CLOEXEC | ((flags & O_PATH) ? 0 : O_NOCTTY | O_NONBLOCK),
	    .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};

	return fd_openat2(root, path, &how);
}

/* The path of FD inside ROOT. Only names come of it, nothing is opened by it. */
static int path_of(int root, int fd, char ret[PATH_MAX])
{
	char self[64];
	char top[PATH_MAX];
	char path[PATH_MAX];

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", root);
	ssize_t n = readlink(self, top, sizeof(top) - 1);

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	ssize_t m = readlink(self, path, sizeof(path) - 1);

	if (n <= 0 || m <= n)
		return -ENOENT;
	top[n] = path[m] = '\0';
	if (!text_starts_with(path, top) || path[n] != '/')
		return -ENOENT;
	return text_copy(ret, PATH_MAX, path + n + 1);
}

/* The N of a file named python3.N. */
static unsigned minor_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	uint64_t n = 0;

	if (!text_starts_with(name, "python3.") ||
	    parse_u64_n(name + 8, strspn(name + 8, "0123456789"), 0, 999, &n) < 0)
		return 0;
	return (unsigned)n;
}

static int look_in(int root, const char *folder, size_t len, struct python *ret)
{
	struct stat st;

	while (len > 0 && *folder == '/') {
		folder++;
		len--;
	}
	if (len == 0 || (size_t)snprintf(ret->found, sizeof(ret->found), "%.*s/python3", (int)len,
					 folder) >= sizeof(ret->found))
		return -ENOENT;
	_cleanup_fd_ int fd = open_in_root(root, ret->found, O_PATH);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
		return -ENOENT;
	int r = path_of(root, fd, ret->real);

	ret->minor = r < 0 ? 0 : minor_of(ret->real);
	return r;
}

int python_find(int root, const char *path, struct python *ret)
{
	while (*path) {
		struct python p = {0};
		const size_t n = strcspn(path, ":");

		if (look_in(root, path, n, &p) == 0) {
			*ret = p;
			return 0;
		}
		path += n;
		path += *path == ':' ? 1 : 0;
	}
	return -ENOENT;
}

static bool read_at(int fd, void *ret, size_t len, uint64_t at)
{
	return pread(fd, ret, len, (off_t)at) == (ssize_t)len;
}

/* The loader of a dynamic program: "/lib64/ld-linux-x86-64.so.2"; "" = a static one. */
static int find_loader(int fd, char ret[256])
{
	Elf64_Ehdr head;
	Elf64_Phdr row;

	ret[0] = '\0';
	if (!read_at(fd, &head, sizeof(head), 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(row))
		return -ENOEXEC;
	if (head.e_machine != OUR_MACHINE)
		return -EXDEV;
	for (unsigned i = 0; i < head.e_phnum && i < HEADERS_MAX; i++) {
		if (!read_at(fd, &row, sizeof(row), head.e_phoff + i * sizeof(row)))
			return -ENOEXEC;
		if (row.p_type != PT_INTERP)
			continue;
		if (row.p_filesz == 0 || row.p_filesz > 255 ||
		    !read_at(fd, ret, row.p_filesz, row.p_offset))
			return -ENOEXEC;
		ret[row.p_filesz] = '\0';
	}
	return 0;
}

static int check_program(int root, const struct python *p, enum python_use *ret_use, struct err *e)
{
	char loader[256];
	_cleanup_fd_ int fd = open_in_root(root, p->real, O_RDONLY);
	int r = fd < 0 ? fd : find_loader(fd, loader);

	if (r == -EXDEV)
		return err_set(e, ERR_IMAGE_UNSUITABLE, 0,
			       "the image's Python (/%.200s) is made for another kind of machine",
			       p->real);
	if (r < 0)
		return err_set(e, ERR_IMAGE_UNSUITABLE, -r,
			       "the image's python3 (/%.200s) is no program of 64 bits", p->real);
	_cleanup_fd_ int there = loader[0] ? open_in_root(root, loader, O_PATH) : -1;

	if (loader[0] && there < 0)
		return err_set(e, ERR_IMAGE_UNSUITABLE, -there,
			       "the image lacks the loader of its Python (%.100s)", loader);
	*ret_use = loader[0] && !strstr(loader, "musl") ? PYTHON_WARM : PYTHON_COLD;
	return 0;
}

static int make_parents(int root, const char *path)
{
	char part[PATH_MAX];

	for (const char *s = strchr(path, '/'); s; s = strchr(s + 1, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(s - path), path);
		_cleanup_fd_ int fd = open_in_root(root, part, O_PATH | O_DIRECTORY);

		if (fd < 0 && mkdirat(root, part, 0755) < 0)
			return -errno;
	}
	return 0;
}

/* Makes PATH, whose folders may be links, a link or (TARGET NULL) a file with TEXT. */
static int replace(int root, const char *path, const char *target, const char *text)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(path, '/');

	(void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	int r = make_parents(root, path);
	_cleanup_fd_ int dir = r < 0 ? r : open_in_root(root, parent, O_RDONLY | O_DIRECTORY);

	if (dir < 0)
		return dir;
	if (!target && image_file_is(dir, slash + 1, text, strlen(text)))
		return 0;
	if (unlinkat(dir, slash + 1, 0) < 0 && errno != ENOENT)
		return -errno;
	if (target)
		return symlinkat(target, dir, slash + 1) < 0 ? -errno : 0;
	_cleanup_fd_ int fd =
	    openat(dir, slash + 1, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

/* Where P looks for packages. Debian's Python has a folder of its own. -ENOENT: nobody knows. */
static int packages_of(int root, const struct python *p, char ret[PATH_MAX])
{
	const char *bin = strstr(p->real, "/bin/");

	if (!bin || p->minor == 0)
		return -ENOENT;
	if ((size_t)snprintf(ret, PATH_MAX, "%.*s/lib/python3.%u/site-packages",
			     (int)(bin - p->real), p->real, p->minor) >= PATH_MAX)
		return -ENAMETOOLONG;
	_cleanup_fd_ int fd = open_in_root(root, ret, O_PATH | O_DIRECTORY);

	if (fd >= 0 || !text_starts_with(p->real, "usr/bin/"))
		return 0;
	return text_copy(ret, PATH_MAX, "usr/lib/python3/dist-packages");
}

static int add_file(int root, const struct python *p, const char *name, const char *text)
{
	char folder[PATH_MAX];
	char file[PATH_MAX + 64];
	int r = packages_of(root, p, folder);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	(void)snprintf(file, sizeof(file), "%s/%s", folder, name);
	return strlen(file) >= PATH_MAX ? -ENAMETOOLONG : replace(root, file, NULL, text);
}

/* Does P do already what FRESH_FILE is for? Then it is the Python of an image that was built here. */
static bool is_fresh(int root, const struct python *p)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(CUSTOM_MAX);
	char path[64];

	if (!text_starts_with(p->real, "usr/bin/"))
		return false;
	(void)snprintf(path, sizeof(path), "etc/python3.%u/sitecustomize.py", p->minor);
	_cleanup_fd_ int fd = open_in_root(root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);

	return fd >= 0 && fd_read_file(fd, &text) >= 0 && strstr(buf_str(&text), CUSTOM_LINE);
}

/* PATH found the python3 of a virtual environment. Started from another place it does not know that
 * it belongs to one, so its packages are added to those of the real Python. */
static int add_environment(int root, const struct python *p)
{
	char config[PATH_MAX];
	char text[PATH_MAX + 64];
	const char *end = strrchr(p->found, '/');
	const char *bin = memrchr(p->found, '/', (size_t)(end - p->found));

	if (!bin || p->minor == 0)
		return 0;
	(void)snprintf(config, sizeof(config), "%.*s/pyvenv.cfg", (int)(bin - p->found), p->found);
	_cleanup_fd_ int fd = open_in_root(root, config, O_PATH);

	if (fd < 0)
		return 0;
	(void)snprintf(text, sizeof(text),
		       "import site; site.addsitedir('/%.*s/lib/python3.%u/site-packages')\n",
		       (int)(bin - p->found), p->found, p->minor);
	if (strpbrk(p->found, "'\\\n"))
		return -ENAMETOOLONG;
	return add_file(root, p, VENV_FILE, text);
}

/* The mark of an image without Python goes with the Python, and comes with its absence. */
static int mark(int root, bool none, struct err *e)
{
	_cleanup_fd_ int dir = open_in_root(root, "opt/caisson", O_RDONLY | O_DIRECTORY);

	if (dir < 0)
		return err_set(e, ERR_IMAGE_BUILD_FAILED, -dir,
			       "cannot open /opt/caisson in the image");
	if (unlinkat(dir, PYTHON_NONE_FILE, 0) < 0 && errno != ENOENT)
		return err_set(e, ERR_IMAGE_INVALID, errno, "/opt/caisson/" PYTHON_NONE_FILE);
	_cleanup_fd_ int fd =
	    none ? openat(dir, PYTHON_NONE_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444)
		 : -1;

	return none && fd < 0 ? err_set(e, ERR_IMAGE_BUILD_FAILED, errno,
					"cannot make /opt/caisson/" PYTHON_NONE_FILE)
			      : 0;
}

int python_place(int root, const char *path, struct python *ret, enum python_use *ret_use,
		 struct err *e)
{
	char target[PATH_MAX + 1];
	struct python now = {0};
	int r = path && path[0] ? python_find(root, path, ret) : -ENOENT;

	if (r < 0)
		r = python_find(root, PATH_DEFAULT, ret);
	if (r < 0 || (ret->minor && ret->minor < PYTHON_MINOR_MIN)) {
		ret->minor = r < 0 ? 0 : ret->minor;
		*ret_use = PYTHON_NONE;
		return mark(root, true, e);
	}
	r = check_program(root, ret, ret_use, e);
	if (r >= 0)
		r = mark(root, false, e);
	if (r < 0)
		return r;
	(void)snprintf(target, sizeof(target), "/%s", ret->real);
	r = add_environment(root, ret);
	if (r >= 0)
		r = is_fresh(root, ret) ? 0 : add_file(root, ret, FRESH_FILE, fresh_text);
	if (r >= 0 && (python_find(root, "usr/bin", &now) < 0 || !streq(now.real, ret->real)))
		r = replace(root, PYTHON_PLACE, target, NULL);
	return r < 0 ? err_set(e, ERR_IMAGE_BUILD_FAILED, -r, "cannot make /%s in the image",
			       PYTHON_PLACE)
		     : 0;
}
