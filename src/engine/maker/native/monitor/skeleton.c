/* SPDX-License-Identifier: Apache-2.0 */
/* The skeleton: what every sandbox has, whatever its image contains. That is mount points, a few files of
 * /etc, and programs that answer in place of installers. An overlay puts it over the image. */
#include "base/buf.h"
#include "base/fdio.h"
#include "engine/maker/common/blob.h"
#include "engine/maker/common/skeleton_texts.h"
#include "engine/maker/native/monitor/monitor.h"
#include "texts.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
	const char *path;
	mode_t mode;
} dirs[] = {
    {"dev", 0755},
    {"proc", 0555},
    {"sys", 0555},
    {"tmp", 0755},
    {"mnt", 0755},
    {"mnt/data", 0755},
    {"app", 0755},
    {"app/results", 0755},
    {"app/.venv", 0755},
    {"home", 0755},
    {"home/sandbox", 0755},
    {"home/user", 0755},
    {"etc", 0755},
    {"run", 0755},
    {"run/caisson", 0755},
    {"usr", 0755},
    {"usr/local", 0755},
    {"usr/local/bin", 0755},
    {"usr/local/lib", 0755},
    {"usr/local/lib/caisson", 0755},
    {NODE_FOLDER, 0755},
    /* lscpu needs the folder; runtime/machine makes its files. glibc before 2.35 counts the folders of processors,
     * and programs end if there is none. */
    {"sys/devices", 0555},
    {"sys/devices/system", 0555},
    {"sys/devices/system/cpu", 0555},
    {"sys/devices/system/cpu/cpu0", 0555},
};

static const struct {
	const char *path;
	const char *text;
	mode_t mode; /* 0 = 0644 */
} files[] = {
    {"etc/passwd", passwd},
    {"etc/group", group},
    {"etc/hosts", "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"},
    {"etc/hostname", "sandbox\n"},
    {"etc/resolv.conf", ""},
    {"etc/ld.so.preload", "/" MACHINE_FILE "\n"},
    {INSTALLER_FILE, runtime_installer_text},
    {NODE_FOLDER "/kernel.js", runtime_node_kernel_text},
    {NODE_FOLDER "/rewrite.js", runtime_node_rewrite_text},
    {NODE_FOLDER "/shown.js", runtime_node_shown_text},
    {NODE_FOLDER "/typescript.js", runtime_node_typescript_text},
    {"usr/local/bin/pip", installer, 0755},
    {"usr/local/bin/pip3", installer, 0755},
    {"usr/local/bin/uv", installer, 0755},
    {"usr/local/bin/free", limits_command, 0755},
    {"usr/local/bin/ps", limits_command, 0755},
    {"usr/local/bin/pgrep", limits_command, 0755},
    {"usr/local/bin/pkill", limits_command, 0755},
    {"usr/local/bin/uptime", limits_command, 0755},
};

/* Files that replace one of the image, if the image has it, or are added to one of its folders. %u
 * stands for N of Python 3.N. */
#define MINOR_MIN 8u
#define MINOR_MAX 30u
static const struct {
	const char *path;
	const char *text;
	mode_t mode;
	bool added;
} covers[] = {
    {"usr/bin/pip", installer, 0755, false},
    {"usr/bin/pip3", installer, 0755, false},
    {"usr/lib/python3/dist-packages/pip/__main__.py", module, 0644, false},
    {"usr/lib/python3.%u/site-packages/pip/__main__.py", module, 0644, false},
    {"usr/local/lib/python3.%u/site-packages/pip/__main__.py", module, 0644, false},
    {"usr/lib/python3/dist-packages/caisson.pth", load_ours, 0644, true},
    {"usr/lib/python3.%u/site-packages/caisson.pth", load_ours, 0644, true},
    {"usr/local/lib/python3.%u/site-packages/caisson.pth", load_ours, 0644, true},
};

static int write_bytes(int skel, const char *path, const void *bytes, size_t len, mode_t mode)
{
	_cleanup_fd_ int fd =
	    openat(skel, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode ? mode : 0644);

	return fd < 0 ? -errno : fd_write_all(fd, bytes, len);
}

/* Writes TEXT; SENTENCE takes the place of each TOOL. */
static int write_file(int skel, const char *path, const char *text, const char *sentence,
		      mode_t mode)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(FILE_MAX);
	int r = skeleton_fill(&b, text, sentence);

	return r < 0 ? r : write_bytes(skel, path, buf_str(&b), b.len, mode);
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

/* Whether the image has PATH; ADDED: its folder. False when a part of it is a link: our folder in its
 * place would hide everything below it. */
static bool is_there(int image, const char *path, bool added)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');

	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path), path);
	_cleanup_fd_ int fd = added ? fd_open_beneath(image, folder, O_RDONLY | O_DIRECTORY, 0)
				    : fd_open_beneath(image, path, O_RDONLY, 0);
	return fd >= 0;
}

static int cover(int skel, int image, const char *path, size_t row, const char *sentence)
{
	if (!is_there(image, path, covers[row].added))
		return 0;
	int r = make_parents(skel, path);
	return r < 0 ? r : write_file(skel, path, covers[row].text, sentence, covers[row].mode);
}

static int cover_all(int skel, int image, const char *sentence)
{
	char path[PATH_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(covers); i++) {
		const char *at = strstr(covers[i].path, "%u");

		if (!at)
			r = cover(skel, image, covers[i].path, i, sentence);
		for (unsigned minor = MINOR_MIN; r == 0 && at && minor <= MINOR_MAX; minor++) {
			(void)snprintf(path, sizeof(path), "%.*s%u%s", (int)(at - covers[i].path),
				       covers[i].path, minor, at + 2);
			r = cover(skel, image, path, i, sentence);
		}
	}
	return r;
}

static int write_libraries(int skel)
{
	int r = write_bytes(skel, MACHINE_FILE, native_machine_library,
			    (size_t)(native_machine_library_end - native_machine_library), 0644);

	r = r < 0 ? r
		  : write_bytes(skel, LIMITS_FILE, runtime_limits_text, strlen(runtime_limits_text),
				0644);
	r = r < 0 ? r
		  : write_bytes(skel, SUDO_FILE, native_sudo_program,
				(size_t)(native_sudo_program_end - native_sudo_program), 0755);
	return r < 0 ? r
		     : write_bytes(skel, OUTPUT_FILE, native_output_extension,
				   (size_t)(native_output_extension_end - native_output_extension),
				   0644);
}

int skeleton_make(int skel, int image, const char *install_tool)
{
	char sentence[sizeof(TOOL_SENTENCE) + ENGINE_TOOL_MAX] = NO_TOOL_SENTENCE;

	if (install_tool)
		(void)snprintf(sentence, sizeof(sentence), TOOL_SENTENCE, install_tool);
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		if (mkdirat(skel, dirs[i].path, dirs[i].mode) < 0)
			return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int r = write_file(skel, files[i].path, files[i].text, sentence, files[i].mode);
		if (r < 0)
			return r;
	}
	int r = write_libraries(skel);
	return r < 0 ? r : cover_all(skel, image, sentence);
}
