/* SPDX-License-Identifier: Apache-2.0 */
/* The skeleton: what every sandbox has, whatever its image contains. That is mount points, a few files of
 * /etc, and programs that answer in place of installers. An overlay puts it over the image. */
#include "base/fdio.h"
#include "engine/native/monitor/monitor.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
	const char *path;
	mode_t mode;
} dirs[] = {
    {"dev", 0755},       {"proc", 0555},     {"sys", 0555},          {"tmp", 0755},
    {"mnt", 0755},       {"mnt/data", 0755}, {"app", 0755},          {"app/results", 0755},
    {"app/.venv", 0755}, {"home", 0755},     {"home/sandbox", 0755}, {"etc", 0755},
    {"run", 0755},       {"usr", 0755},      {"usr/local", 0755},    {"usr/local/bin", 0755},
};

/* `pip install` in a sandbox without network, or whose network does not lead to the package index
 * (CAISSON_PACKAGES=tool, from sandbox/network.c), would only wait and fail. So it says at once which tool
 * installs packages. The shell script answers for the programs pip, pip3 and uv, the module below for
 * `python -m pip`. Both hand everything else to the real program: other commands, and installations that
 * can ask the index, need none (--no-index) or name another one. The first word that is a command decides;
 * words before it are options and their values. */
#define TOOL                                                                                       \
	"Packages are installed by the tool sandbox_install_packages (or "                         \
	"install_package_in_sandbox)."
#define HINT  "this sandbox has no network. " TOOL
#define THERE "the package index cannot be asked from this sandbox. " TOOL

static const char installer[] =
    "#!/bin/sh\n"
    "me=${0##*/}\n"
    "for word; do\n"
    "\tcase $word in\n"
    "\tinstall | download | wheel | lock | sync | add)\n"
    "\t\tcase \"$HTTPS_PROXY|$CAISSON_PACKAGES|$PIP_INDEX_URL| $* \" in\n"
    "\t\t*\" --no-index \"*) ;;\n"
    "\t\t\"|\"*) echo \"$me: " HINT "\" >&2; exit 1 ;;\n"
    "\t\t*\" -i \"* | *\" --index-url\"*) ;;\n"
    "\t\t*\"|tool|| \"*) echo \"$me: " THERE "\" >&2; exit 1 ;;\n"
    "\t\tesac\n"
    "\t\tbreak ;;\n"
    "\tuninstall | freeze | inspect | list | show | check | config | search | cache | index | hash "
    "\\\n"
    "\t\t| completion | debug | help | run | venv | python | init | export | build | publish \\\n"
    "\t\t| self | version | tree) break ;;\n"
    "\tesac\n"
    "done\n"
    "case $me in pip*) exec python3 -m pip \"$@\" ;; esac\n"
    "for at in /usr/bin /bin; do\n"
    "\tif [ -x \"$at/$me\" ]; then exec \"$at/$me\" \"$@\"; fi\n"
    "done\n"
    "echo \"$me: not found\" >&2\n"
    "exit 127\n";

/* Replaces pip/__main__.py, where the image has one. Its last lines are those of pip's own file. */
static const char module[] =
    "import os\n"
    "import sys\n"
    "\n"
    "if sys.path[0] in ('', os.getcwd()):\n"
    "    sys.path.pop(0)\n"
    "\n"
    "COMMANDS = {'install', 'download', 'wheel', 'lock', 'uninstall', 'freeze', 'inspect', "
    "'list',\n"
    "            'show', 'check', 'config', 'search', 'cache', 'index', 'hash', 'completion',\n"
    "            'debug', 'help'}\n"
    "\n"
    "\n"
    "def why_not(words):\n"
    "    command = next((word for word in words if word in COMMANDS), None)\n"
    "    if command not in ('install', 'download', 'wheel', 'lock') or '--no-index' in words:\n"
    "        return None\n"
    "    if not os.environ.get('HTTPS_PROXY'):\n"
    "        return '" HINT "'\n"
    "    named = os.environ.get('PIP_INDEX_URL') or any(\n"
    "        word == '-i' or word.startswith('--index-url') for word in words)\n"
    "    if os.environ.get('CAISSON_PACKAGES') == 'tool' and not named:\n"
    "        return '" THERE "'\n"
    "    return None\n"
    "\n"
    "\n"
    "if __name__ == '__main__':\n"
    "    reason = why_not(sys.argv[1:])\n"
    "    if reason:\n"
    "        sys.exit('pip: ' + reason)\n"
    "    from pip._internal.cli.main import main\n"
    "    sys.exit(main())\n";

static const struct {
	const char *path;
	const char *text;
	mode_t mode; /* 0 = 0644 */
} files[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\n"
		   "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n"
		   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
    {"etc/hosts", "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"},
    {"etc/hostname", "sandbox\n"},
    {"etc/resolv.conf", ""},
    {"usr/local/bin/pip", installer, 0755},
    {"usr/local/bin/pip3", installer, 0755},
    {"usr/local/bin/uv", installer, 0755},
};

/* Files that replace one of the image, if the image has it. %u stands for N of Python 3.N. */
#define MINOR_MIN 8u
#define MINOR_MAX 30u
static const struct {
	const char *path;
	const char *text;
	mode_t mode;
} covers[] = {
    {"usr/bin/pip", installer, 0755},
    {"usr/bin/pip3", installer, 0755},
    {"usr/lib/python3/dist-packages/pip/__main__.py", module, 0644},
    {"usr/lib/python3.%u/site-packages/pip/__main__.py", module, 0644},
    {"usr/local/lib/python3.%u/site-packages/pip/__main__.py", module, 0644},
};

static int write_file(int skel, const char *path, const char *text, mode_t mode)
{
	_cleanup_fd_ int fd =
	    openat(skel, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode ? mode : 0644);

	return fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));
}

static int make_parents(int skel, const char *path)
{
	char part[PATH_MAX];

	for (const char *end = strchr(path, '/'); end; end = strchr(end + 1, '/')) {
		(void)snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
		if (mkdirat(skel, part, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

/* Does nothing when a part of PATH is a link: our folder in its place would hide everything below it. */
static int cover(int skel, int image, const char *path, const char *text, mode_t mode)
{
	_cleanup_fd_ int there = fd_open_beneath(image, path, O_RDONLY, 0);

	if (there < 0)
		return 0;
	int r = make_parents(skel, path);
	return r < 0 ? r : write_file(skel, path, text, mode);
}

static int cover_all(int skel, int image)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(covers); i++) {
		const char *at = strstr(covers[i].path, "%u");

		if (!at)
			r = cover(skel, image, covers[i].path, covers[i].text, covers[i].mode);
		for (unsigned minor = MINOR_MIN; r == 0 && at && minor <= MINOR_MAX; minor++) {
			(void)snprintf(path, sizeof(path), "%.*s%u%s", (int)(at - covers[i].path),
				       covers[i].path, minor, at + 2);
			r = cover(skel, image, path, covers[i].text, covers[i].mode);
		}
	}
	return r;
}

int skeleton_make(int skel, int image)
{
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdirat(skel, dirs[i].path, dirs[i].mode) < 0)
			return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int r = write_file(skel, files[i].path, files[i].text, files[i].mode);
		if (r < 0)
			return r;
	}
	return cover_all(skel, image);
}
