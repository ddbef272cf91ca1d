/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/workspace_inventory.h"

#include <string.h>
#include <sys/stat.h>

int engine_file_compare(const void *a, const void *b)
{
	const struct engine_file *x = a, *y = b;

	return strcmp(x->name, y->name);
}

void inventory_done(struct inventory *inv)
{
	free(inv->files);
	*inv = (struct inventory){0};
}

static bool is_kept(const struct engine_file *file)
{
	return S_ISREG(file->mode) || S_ISDIR(file->mode);
}

int inventory_set(struct inventory *inv, const struct engine_file *files, size_t n, bool more)
{
	struct engine_file *kept = NULL;
	size_t n_kept = 0;

	for (size_t i = 0; i < n; i++)
		n_kept += is_kept(&files[i]) ? 1 : 0;
	if (n_kept > 0) {
		kept = calloc(n_kept, sizeof(*kept));
		if (!kept)
			return -ENOMEM;
	}
	n_kept = 0;
	for (size_t i = 0; i < n; i++)
		if (is_kept(&files[i]))
			kept[n_kept++] = files[i];
	if (n_kept > 1)
		qsort(kept, n_kept, sizeof(*kept), engine_file_compare);
	inventory_done(inv);
	inv->files = kept;
	inv->n = n_kept;
	inv->more = more;
	return 0;
}

static bool is_same(const struct engine_file *a, const struct engine_file *b)
{
	return a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns &&
	       a->inode == b->inode;
}

void inventory_diff(const struct inventory *before, const struct inventory *after,
		    void (*fn)(const struct engine_file *file, void *user), void *user)
{
	size_t i = 0;

	for (size_t j = 0; j < after->n; j++) {
		const struct engine_file *file = &after->files[j];
		int order = -1;

		while (i < before->n && (order = strcmp(before->files[i].name, file->name)) < 0)
			i++;
		if (i < before->n && order == 0 && is_same(&before->files[i], file))
			continue;
		fn(file, user);
	}
}
