/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes of files, xattr(7): those of the kind `user.`, which whoever may write a file may set. The front asks
 * for them as names and values in a row, each with a NUL at its end. */
#include "file_places.h"

#include "base/attr.h"
#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define KIND      "user."
#define NAMES_MAX 16384

static bool is_ours(const char *name)
{
	return strncmp(name, KIND, sizeof(KIND) - 1) == 0 && name[sizeof(KIND) - 1] != '\0';
}

/* The names of all attributes of FD; 0: there are none, or they cannot be read. */
static size_t names_of(int fd, char names[NAMES_MAX])
{
	const ssize_t n = flistxattr(fd, names, NAMES_MAX);

	return n > 0 && names[n - 1] == '\0' ? (size_t)n : 0;
}

bool attributes_are_there(int dir, const char *name)
{
	static char names[NAMES_MAX];
	_cleanup_fd_ int fd = fd_open_beneath(dir, name, O_RDONLY, 0);
	const size_t n = fd < 0 ? 0 : names_of(fd, names);

	for (size_t at = 0; at < n; at += strlen(names + at) + 1)
		if (is_ours(names + at))
			return true;
	return false;
}

/* What has no room is left out; so is a value that is no text. */
size_t attributes_read(int dir, const char *name, char ret[PROTO_ATTRIBUTES_MAX])
{
	static char names[NAMES_MAX];
	_cleanup_fd_ int fd = fd_open_beneath(dir, name, O_RDONLY, 0);
	const size_t n = fd < 0 ? 0 : names_of(fd, names);
	size_t used = 0;

	for (size_t at = 0; at < n; at += strlen(names + at) + 1) {
		const size_t len = strlen(names + at) + 1;

		if (!is_ours(names + at) || used + len + 1 > PROTO_ATTRIBUTES_MAX)
			continue;
		char *value = ret + used + len;
		const size_t room = PROTO_ATTRIBUTES_MAX - used - len - 1;
		/* without room the kernel would tell the size alone */
		const ssize_t got = room > 0 ? fgetxattr(fd, names + at, value, room) : -1;
		if (got < 0 || memchr(value, '\0', (size_t)got))
			continue;
		memcpy(ret + used, names + at, len);
		value[got] = '\0';
		used += len + (size_t)got + 1;
	}
	return used;
}

/* The next text of M from *AT on; NULL: there is none, or it has no end. */
static const char *next_text(const struct proto_init_set *m, size_t *at)
{
	const char *text = m->attributes + *at;
	const char *end = *at < m->bytes ? memchr(text, '\0', m->bytes - *at) : NULL;

	if (!end)
		return NULL;
	*at = (size_t)(end - m->attributes) + 1;
	return text;
}

static bool is_possible(const struct proto_init_set *m)
{
	if (m->bytes == 0 || m->bytes > sizeof(m->attributes) || !proto_path_ok(m->path, false))
		return false;
	for (size_t at = 0; at < m->bytes;) {
		const char *name = next_text(m, &at);

		if (!name || !is_ours(name) || !next_text(m, &at))
			return false;
	}
	return true;
}

static int set(const struct init *in, const struct proto_init_set *m)
{
	const char *file, *name, *value;
	struct stat st;
	_cleanup_fd_ int parent = files_open_parent(in, m->path, false, &file);
	_cleanup_fd_ int fd = parent < 0 ? parent : fd_open_beneath(parent, file, O_RDONLY, 0);

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EISDIR;
	for (size_t at = 0; (name = next_text(m, &at)) && (value = next_text(m, &at));)
		if (fsetxattr(fd, name, value, strlen(value), 0) < 0)
			return -errno;
	return in->flushes && fsync(fd) < 0 ? -errno : 0;
}

int files_set(struct init *in, const struct proto_init_set *m)
{
	if (!is_possible(m))
		return -1;
	const int r = set(in, m);
	disk_changed(in);
	files_answer(in, m->seq, r);
	return 0;
}
