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

static void mark_of(struct file_mark *m, const struct engine_file *f)
{
	*m = (struct file_mark){.size = f->size,
				.mtime_ns = f->mtime_ns,
				.ctime_ns = f->ctime_ns,
				.inode = f->inode,
				.mode = f->mode,
				.nlink = f->nlink};
}

/* If only the time of the inode's change differs, and so do its permissions or the number of its names,
 * somebody has called chmod(2) or link(2). If these are the same, a program has set the times back. */
static bool is_same(const struct file_mark *a, const struct file_mark *b)
{
	if (a->size != b->size || a->mtime_ns != b->mtime_ns || a->inode != b->inode)
		return false;
	return a->ctime_ns == b->ctime_ns || a->mode != b->mode || a->nlink != b->nlink;
}

static bool is_same_file(const struct engine_file *a, const struct engine_file *b)
{
	struct file_mark x, y;

	mark_of(&x, a);
	mark_of(&y, b);
	return is_same(&x, &y);
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
		if (i < before->n && order == 0 && is_same_file(&before->files[i], file))
			continue;
		fn(file, user);
	}
}

void inventory_gone(const struct inventory *before, const struct inventory *after, uint64_t *ret,
		    size_t *ret_n)
{
	size_t j = 0;

	for (size_t i = 0; i < before->n; i++) {
		const char *name = before->files[i].name;
		int order = 1;

		while (j < after->n && (order = strcmp(after->files[j].name, name)) < 0)
			j++;
		if (j == after->n || order != 0)
			ret[(*ret_n)++] = path_hash(name);
	}
}

/* ---- files in folders ---- */

uint64_t path_hash(const char *path)
{
	uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */

	for (const unsigned char *p = (const unsigned char *)path; *p; p++)
		h = (h ^ *p) * UINT64_C(1099511628211);
	return h;
}

void file_marks_done(struct file_marks *m)
{
	free(m->marks);
	*m = (struct file_marks){0};
}

void file_marks_add(struct file_marks *m, const char *path, const struct engine_file *file)
{
	const size_t step = 64;

	if (m->n == FILE_MARKS_MAX)
		return;
	if (m->n % step == 0) {
		struct file_mark *more = reallocarray(m->marks, m->n + step, sizeof(*m->marks));
		if (!more)
			return;
		m->marks = more;
	}
	struct file_mark *mark = &m->marks[m->n++];
	mark_of(mark, file);
	mark->path = path_hash(path);
}

static int compare_marks(const void *a, const void *b)
{
	const struct file_mark *x = a, *y = b;

	return x->path < y->path ? -1 : x->path > y->path;
}

void file_marks_sort(struct file_marks *m)
{
	if (m->n > 1)
		qsort(m->marks, m->n, sizeof(*m->marks), compare_marks);
}

bool file_marks_have(const struct file_marks *m, const char *path, const struct engine_file *file)
{
	const struct file_mark key = {.path = path_hash(path)};
	const struct file_mark *found =
	    m->n > 0 ? bsearch(&key, m->marks, m->n, sizeof(key), compare_marks) : NULL;
	struct file_mark now;

	mark_of(&now, file);
	return found && is_same(found, &now);
}

void file_marks_name(struct file_marks *m, const char *path)
{
	const struct file_mark key = {.path = path_hash(path)};
	const struct engine_file unknown = {0};
	size_t at = m->n;

	if (m->n > 0 && bsearch(&key, m->marks, m->n, sizeof(key), compare_marks))
		return;
	file_marks_add(m, path, &unknown);
	if (m->n == at)
		return;
	for (; at > 0 && m->marks[at - 1].path > key.path; at--)
		m->marks[at] = m->marks[at - 1];
	m->marks[at] = (struct file_mark){.path = key.path};
}

void file_marks_gone(const struct file_marks *before, const struct file_marks *after, uint64_t *ret,
		     size_t *ret_n)
{
	size_t j = 0;

	for (size_t i = 0; i < before->n; i++) {
		const uint64_t path = before->marks[i].path;

		while (j < after->n && after->marks[j].path < path)
			j++;
		if (j == after->n || after->marks[j].path != path)
			ret[(*ret_n)++] = path;
	}
}

/* ---- uploads ---- */

/* Where PATH is or belongs. */
static size_t upload_place(const struct uploads *u, uint64_t path)
{
	size_t low = 0, high = u->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (u->rows[middle].path < path)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void uploads_add(struct uploads *u, const char *path, uint64_t size, int64_t at_ns)
{
	const size_t step = 16;
	const size_t folder_len = strcspn(path, "/");
	const uint64_t hash = path_hash(path);
	const size_t at = upload_place(u, hash);
	char folder[ENGINE_PATH_MAX];

	if (at == u->n || u->rows[at].path != hash) {
		if (u->n == UPLOADS_MAX)
			return;
		if (u->n % step == 0) {
			struct upload_row *more =
			    reallocarray(u->rows, u->n + step, sizeof(*u->rows));
			if (!more)
				return;
			u->rows = more;
		}
		memmove(&u->rows[at + 1], &u->rows[at], (u->n - at) * sizeof(*u->rows));
		u->n++;
	}
	(void)snprintf(folder, sizeof(folder), "%.*s", (int)folder_len, path);
	u->rows[at] = (struct upload_row){.path = hash,
					  .folder = path[folder_len] ? path_hash(folder) : 0,
					  .size = size,
					  .at_ns = at_ns};
}

void uploads_prune(struct uploads *u, int64_t before_ns)
{
	size_t n = 0;

	for (size_t i = 0; i < u->n; i++)
		if (u->rows[i].at_ns >= before_ns)
			u->rows[n++] = u->rows[i];
	u->n = n;
	if (n == 0) {
		free(u->rows);
		u->rows = NULL;
	}
}

int uploads_copy(const struct uploads *u, int64_t from_ns, struct uploads *ret)
{
	*ret = (struct uploads){0};
	if (u->n == 0)
		return 0;
	ret->rows = calloc(u->n, sizeof(*u->rows));
	if (!ret->rows)
		return -ENOMEM;
	memcpy(ret->rows, u->rows, u->n * sizeof(*u->rows));
	ret->n = u->n;
	uploads_prune(ret, from_ns);
	return 0;
}

bool uploads_have(const struct uploads *u, const char *path, const struct engine_file *file)
{
	if (u->n == 0)
		return false;
	const uint64_t hash = path_hash(path);
	if (S_ISREG(file->mode)) {
		const size_t at = upload_place(u, hash);

		return at < u->n && u->rows[at].path == hash && u->rows[at].size == file->size &&
		       file->mtime_ns <= u->rows[at].at_ns;
	}
	for (size_t i = 0; i < u->n; i++)
		if (u->rows[i].folder == hash && file->mtime_ns <= u->rows[i].at_ns)
			return true;
	return false;
}
