/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what init has listed, files on any thread, and believes none of it. */
#include "engine/front/inside/inside.h"

#include "base/tenant_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void inside_copy_entry(struct engine_file *to, const struct proto_entry *from)
{
	*to = (struct engine_file){
	    .size = from->size,
	    .mtime_ns = from->mtime_ns,
	    .ctime_ns = from->ctime_ns,
	    .inode = from->inode,
	    .mode = from->mode,
	    .nlink = from->nlink,
	    .uid = from->uid,
	    .gid = from->gid,
	    .attributes = from->attributes != 0,
	};
	memcpy(to->name, from->name, sizeof(to->name));
}

static bool is_entry(const struct proto_entry *e)
{
	size_t len = strnlen(e->name, sizeof(e->name));

	return len > 0 && len < sizeof(e->name) && !strchr(e->name, '/');
}

_Static_assert(sizeof(((struct engine_file *)0)->name) == PROTO_NAME_MAX, "names have one size");

static int compare_names(const void *a, const void *b)
{
	const struct engine_file *x = a, *y = b;

	return strcmp(x->name, y->name);
}

int inside_read_list(int fd, uint32_t n, struct engine_file **ret)
{
	struct proto_entry batch[INSIDE_LIST_BATCH];
	_cleanup_free_ struct engine_file *files = calloc(n ? n : 1, sizeof(*files));

	struct stat st;

	if (!files)
		return -ENOMEM;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) /* reading anything else could wait */
		return -EPROTO;
	for (uint32_t at = 0; at < n;) {
		uint32_t want = MIN(n - at, (uint32_t)INSIDE_LIST_BATCH);
		size_t bytes = want * sizeof(batch[0]);
		/* pread, not mmap: init also holds the memfd, and if it made it shorter, reading a
		 * mapping would end the front with SIGBUS */
		if (pread(fd, batch, bytes, (off_t)(at * sizeof(batch[0]))) != (ssize_t)bytes)
			return -EPROTO;
		for (uint32_t i = 0; i < want; i++) {
			if (!is_entry(&batch[i]))
				return -EPROTO;
			inside_copy_entry(&files[at++], &batch[i]);
		}
	}
	qsort(files, n, sizeof(*files), compare_names);
	*ret = TAKE_PTR(files);
	return 0;
}

_Static_assert(sizeof(((struct engine_port *)0)->name) >= sizeof(((struct proto_port *)0)->name),
	       "a name fits");

int inside_take_ports(const struct proto_port *rows, uint32_t n,
		      struct engine_port ret[PROTO_PORTS_MAX])
{
	if (n > PROTO_PORTS_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < n; i++) {
		if (rows[i].port == 0 || rows[i].port > UINT16_MAX ||
		    (i > 0 && rows[i].port <= rows[i - 1].port) ||
		    !memchr(rows[i].name, '\0', sizeof(rows[i].name)))
			return -EPROTO;
		ret[i] = (struct engine_port){.port = (uint16_t)rows[i].port, .pid = rows[i].pid};
		memcpy(ret[i].name, rows[i].name, sizeof(rows[i].name));
	}
	return 0;
}

int inside_read_ports(int fd, uint32_t n, struct engine_port ret[PROTO_PORTS_MAX])
{
	struct proto_port rows[PROTO_PORTS_MAX];
	struct stat st;

	/* A memfd has seals; any other file could be on a disk, and reading it could wait. */
	if (n > PROTO_PORTS_MAX || fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0 ||
	    !S_ISREG(st.st_mode))
		return -EPROTO;
	tenant_fd_allow(fd);
	if (pread(fd, rows, n * sizeof(rows[0]), 0) != (ssize_t)(n * sizeof(rows[0])))
		return -EPROTO;
	return inside_take_ports(rows, n, ret);
}
