/* SPDX-License-Identifier: Apache-2.0 */
#include "file_places.h"

#include "root_user.h"

#include "base/attr.h"
#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The first name that a path begins with counts. What is beside them belongs to the image, which is read-only unless there is a root user; a
 * container engine may leave parts of its own writable there, so nothing is written there anyway. */
static const struct {
	const char *top;
	enum { IN_WORKSPACE, IN_TMP, IN_HOME, IN_ROOT } place;
} rows[] = {
    {"/mnt/data/", IN_WORKSPACE},  {"/app/results/", IN_WORKSPACE},
    {"/home/user/", IN_WORKSPACE}, {"/tmp/", IN_TMP},
    {"/home/sandbox/", IN_HOME},   {"/", IN_ROOT},
};

int places_open(struct init *in)
{
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;

	in->workspace = open("/mnt/data", flags);
	in->tmp = open("/tmp", flags);
	in->home = open("/home/sandbox", flags);
	in->root = open("/", flags);
	return in->workspace < 0 || in->tmp < 0 || in->home < 0 || in->root < 0 ? -errno : 0;
}

struct file_place place_of(const struct init *in, const char *path)
{
	const int dirs[] = {in->workspace, in->tmp, in->home, in->root};
	struct file_place p = {in->workspace, "", path, true};

	if (path[0] == '/')
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			const size_t len = strlen(rows[i].top);
			const bool itself =
			    strncmp(path, rows[i].top, len - 1) == 0 && path[len - 1] == '\0';

			if (!itself && strncmp(path, rows[i].top, len) != 0)
				continue;
			p.dir = dirs[rows[i].place];
			p.top = rows[i].top;
			p.below = path + strnlen(path, len);
			p.writable = rows[i].place != IN_ROOT || root_user_is_there(in);
			break;
		}
	if (p.below[0] == '\0')
		p.below = ".";
	return p;
}

int place_open_parent(const struct file_place *p, bool make, const char **ret_name)
{
	char part[PROTO_NAME_MAX];
	const char *path = p->below;
	int dir = fd_open_beneath(p->dir, ".", O_PATH | O_DIRECTORY, 0);

	for (const char *slash; dir >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
		size_t len = (size_t)(slash - path);
		memcpy(part, path, len); /* shorter than PROTO_NAME_MAX: proto_path_ok() */
		part[len] = '\0';
		if (make && mkdirat(dir, part, 0755) < 0 && errno != EEXIST) {
			int r = -errno;
			(void)close(dir);
			return r;
		}
		int next = fd_open_beneath(dir, part, O_PATH | O_DIRECTORY, 0);
		(void)close(dir);
		dir = next;
	}
	*ret_name = path;
	return dir;
}

int files_open_parent(const struct init *in, const char *path, bool make, const char **ret_name)
{
	const struct file_place p = place_of(in, path);

	if (!p.writable)
		return -EROFS;
	return strcmp(p.below, ".") == 0 ? -EISDIR : place_open_parent(&p, make, ret_name);
}

void files_answer(struct init *in, uint32_t seq, int r)
{
	struct proto_init_filed a = {
	    .head = PROTO_HEAD(INIT_FILED, proto_init_filed), .seq = seq, .errnum = r < 0 ? -r : 0};

	init_send(in, &a.head, NULL, 0);
}

void files_answer_fd(struct init *in, uint32_t seq, int fd)
{
	struct proto_init_filed a = {.head = PROTO_HEAD(INIT_FILED, proto_init_filed), .seq = seq};

	init_send(in, &a.head, &fd, 1);
}
