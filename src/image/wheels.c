/* SPDX-License-Identifier: Apache-2.0 */
#include "image/wheels.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"
#include "image_scripts.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER "wheels"
#define CA_MAX (8u << 20)

bool wheels_wanted(const struct image_def *def)
{
	return def->wheels[0] || def->index.n > 0;
}

static int write_file(int dir, const char *name, const char *text, size_t len, mode_t mode)
{
	_cleanup_fd_ int fd =
	    openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 || fchmod(fd, mode) < 0)
		return -errno;
	return fd_write_all(fd, text, len);
}

/* Copies the whole file FD to NAME in DIR. */
static int copy_file(int fd, int dir, const char *name, size_t max)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(max);
	int r = fd_read_file(fd, &text);

	return r < 0 ? r : write_file(dir, name, buf_str(&text), text.len, 0644);
}

static int write_lines(int dir, const char *name, const struct image_words *lines)
{
	_cleanup_free_ char *text = image_words_join(lines, '\n');

	return text ? write_file(dir, name, text, strlen(text), 0644) : -ENOMEM;
}

static int copy_list(int base, int dir, const char *name)
{
	_cleanup_fd_ int fd = openat(base, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 ? -errno : copy_file(fd, dir, "pinned", IMAGE_DEF_SCRIPT_MAX);
}

static int write_scripts(int dir)
{
	int r = write_file(dir, "wheels.sh", image_wheels_sh, strlen(image_wheels_sh), 0755);

	return r < 0 ? r
		     : write_file(dir, "wheels.py", image_wheels_py, strlen(image_wheels_py), 0644);
}

int wheels_prepare(const struct image_def *def, const struct image_index *index,
		   const char *scratch, struct err *e)
{
	_cleanup_fd_ int base = open(scratch, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (base < 0 || mkdirat(base, FOLDER, 0755) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot make %s/" FOLDER, scratch);
	_cleanup_fd_ int dir = openat(base, FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = dir < 0 || fchmod(dir, 0755) < 0 ? -errno : write_scripts(dir);

	if (r >= 0)
		r = write_lines(dir, "names", &def->index);
	if (r >= 0)
		r = write_lines(dir, "excludes", &def->excludes);
	if (r >= 0 && index->ca_fd >= 0)
		r = copy_file(index->ca_fd, dir, "ca.pem", CA_MAX);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "cannot write %s/" FOLDER, scratch);
	r = def->wheels[0] ? copy_list(base, dir, def->wheels) : 0;
	return r < 0 ? err_set(e, ERR_SETTING_INVALID, -r,
			       "cannot read '%s', which %s.conf names as its list of wheels",
			       def->wheels, def->name)
		     : 0;
}

static int add_variable(struct image_words *env, const char *name, const char *value)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(IMAGE_DEF_FILE_MAX);
	int r = value && value[0] ? buf_printf(&b, "%s=%s", name, value) : 0;

	return r < 0 || b.len == 0 ? r : image_words_add(env, buf_str(&b), b.len);
}

int wheels_environment(const struct image_index *index, struct image_words *env)
{
	/* pip reads the proxies of the machine from these; both spellings are in use. */
	static const char *const proxies[][2] = {
	    {"https_proxy", "HTTPS_PROXY"}, {"http_proxy", "HTTP_PROXY"}, {"no_proxy", "NO_PROXY"}};
	int r = add_variable(env, "CAISSON_INDEX_URL", index->url);

	if (r >= 0)
		r = add_variable(env, "CAISSON_WHEEL_DIR", index->wheel_dir);
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(proxies); i++) {
		const char *value = getenv(proxies[i][0]);

		r = add_variable(env, proxies[i][0],
				 value && value[0] ? value : getenv(proxies[i][1]));
	}
	return r;
}
