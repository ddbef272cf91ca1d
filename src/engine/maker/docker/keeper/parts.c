/* SPDX-License-Identifier: Apache-2.0 */
/* What comes into every container from this program: init, the extension of warm interpreters, and the
 * files that every sandbox has. They are written at each start, so they always fit this build, and
 * mounted read-only. */
#include "base/fdio.h"
#include "base/text.h"
#include "engine/maker/common/blob.h"
#include "engine/maker/common/skeleton_texts.h"
#include "engine/maker/docker/keeper/keeper.h"
#include "texts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* One folder for our own programs; single files where the image has a folder of its own. */
const struct part parts[] = {
    {"caisson", "/caisson"},
    {"lib", "/usr/local/lib/caisson"},
    {"passwd", "/etc/passwd"},
    {"group", "/etc/group"},
    {"installer", "/usr/local/bin/pip"},
    {"installer", "/usr/local/bin/pip3"},
    {"installer", "/usr/local/bin/uv"},
    {"limits", "/usr/local/bin/free"},
    {"limits", "/usr/local/bin/ps"},
    {"limits", "/usr/local/bin/uptime"},
    {"caisson.pth", "/usr/lib/python3/dist-packages/caisson.pth"},
};
const size_t parts_n = ARRAY_SIZE(parts);

#define BLOB(name) name, (size_t)(name##_end - name)
#define TEXT(name) name, sizeof(name) - 1

/* Servers that share a state folder share the files, and any of them may make a container meanwhile. So
 * each file is complete and named at every moment; containers keep what they have mounted. */
static int write_part(const struct keeper *k, int dir, const char *path, const void *bytes,
		      size_t len, mode_t mode)
{
	char part[NAME_MAX];

	(void)snprintf(part, sizeof(part), "%s.%s", path, k->instance);
	(void)unlinkat(dir, part, 0);
	_cleanup_fd_ int fd =
	    openat(dir, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	int r = fd < 0 ? -errno : fd_write_all(fd, bytes, len);

	if (r >= 0 && renameat(dir, part, dir, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, part, 0);
	return r;
}

static int write_text(struct keeper *k, int dir, const char *path, const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(FILE_MAX);
	char sentence[sizeof(TOOL_SENTENCE) + ENGINE_TOOL_MAX] = NO_TOOL_SENTENCE;

	if (k->config->install_tool[0])
		(void)snprintf(sentence, sizeof(sentence), TOOL_SENTENCE, k->config->install_tool);
	int r = skeleton_fill(&b, text, sentence);
	return r < 0 ? r : write_part(k, dir, path, buf_str(&b), b.len, 0555);
}

static int write_all_parts(struct keeper *k, int dir)
{
	const struct {
		const char *path;
		const void *bytes;
		size_t len;
		mode_t mode;
	} files[] = {
	    {"caisson/init", BLOB(native_init_program), 0555},
	    {"caisson/zygote.so", BLOB(native_zygote_extension), 0444},
	    {"lib/output.so", BLOB(native_output_extension), 0444},
	    {"lib/limits.py", TEXT(runtime_limits_text), 0444},
	    {"lib/node/kernel.js", TEXT(runtime_node_kernel_text), 0444},
	    {"lib/node/rewrite.js", TEXT(runtime_node_rewrite_text), 0444},
	    {"lib/node/shown.js", TEXT(runtime_node_shown_text), 0444},
	    {"lib/node/typescript.js", TEXT(runtime_node_typescript_text), 0444},
	    {"passwd", TEXT(passwd), 0444},
	    {"group", TEXT(group), 0444},
	    {"limits", TEXT(limits_command), 0555},
	    {"caisson.pth", TEXT(load_ours), 0444},
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		int r =
		    write_part(k, dir, files[i].path, files[i].bytes, files[i].len, files[i].mode);
		if (r < 0)
			return r;
	}
	int r = write_part(k, dir, PROFILE_FILE, k->profile, strlen(k->profile), 0444);
	r = r < 0 ? r : write_text(k, dir, "installer", installer);
	return r < 0 ? r : write_text(k, dir, "lib/installer.py", runtime_installer_text);
}

int parts_make(struct keeper *k, struct err *e)
{
	static const char *const folders[] = {"parts", "parts/caisson", "parts/lib",
					      "parts/lib/node", "channels"};
	char path[PATH_MAX], earlier[PATH_MAX];

	/* Earlier versions called the folder `cells`. What they left in it is then removed with the rest. */
	(void)snprintf(earlier, sizeof(earlier), "%s/cells", k->folder);
	(void)snprintf(path, sizeof(path), "%s/channels", k->folder);
	(void)rename(earlier, path);
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", k->folder, folders[i]);
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return err_set(e, ERR_SYSTEM, errno, "'%s'", path);
	}
	/* Whoever sees the folder of a new container can connect before its init does, and then gets what the front
	 * sends it. Where the daemon maps ids, root of its containers must reach what they mount. */
	(void)snprintf(path, sizeof(path), "%s/channels", k->folder);
	if (chmod(path, k->about.userns ? 0711 : 0700) < 0)
		return err_set(e, ERR_SYSTEM, errno, "'%s'", path);
	(void)snprintf(path, sizeof(path), "%s/parts", k->folder);
	_cleanup_fd_ int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = dir < 0 ? -errno : write_all_parts(k, dir);
	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "files for containers in '%s'", path) : 0;
}
