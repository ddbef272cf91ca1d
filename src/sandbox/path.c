/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "base/walls.h"
#include "sandbox/sandbox_path.h"

#include <limits.h>
#include <string.h>

static const char *const roots[] = {"/mnt/data", "/app/results"}; /* that clients are told of */
static const char *const names[] = {"mnt/data", "app/results", "home/user"}; /* all */

static int bad(struct err *e, const char *message)
{
	(void)err_set(e, ERR_INVALID_PATH, 0, "%s", message);
	return -EINVAL;
}

/* The next part of *P (up to END), its length in *LEN; NULL at the end. Empty and '.' parts are
 * skipped, as Python's pathlib does. */
static const char *next_part(const char **p, const char *end, size_t *len)
{
	while (*p < end) {
		const char *part = *p;
		const char *slash = memchr(part, '/', (size_t)(end - part));

		*len = (size_t)((slash ? slash : end) - part);
		*p = slash ? slash + 1 : end;
		if (*len > 0 && !(*len == 1 && part[0] == '.'))
			return part;
	}
	return NULL;
}

static bool is_part(const char *part, size_t len, const char *want)
{
	return part && len == strlen(want) && memcmp(part, want, len) == 0;
}

/* Skips the parts of ROOT at the start of *P; false if *P does not start with them. */
static bool skip_root(const char **p, const char *end, const char *root)
{
	const char *r = root, *r_end = root + strlen(root), *at = *p, *want;
	size_t want_len, len;

	while ((want = next_part(&r, r_end, &want_len))) {
		const char *part = next_part(&at, end, &len);
		if (!part || len != want_len || memcmp(part, want, len) != 0)
			return false;
	}
	*p = at;
	return true;
}

static int join_parts(const char *p, const char *end, char *ret, struct err *e)
{
	char out[ENGINE_PATH_MAX];
	size_t n = 0, len;
	const char *part;
	bool up = false;

	while ((part = next_part(&p, end, &len))) {
		up = up || is_part(part, len, "..");
		if (n + len + 2 > sizeof(out)) {
			(void)err_set(e, ERR_NOT_FOUND, ENAMETOOLONG, "the path is too long");
			return -ENAMETOOLONG;
		}
		if (n > 0)
			out[n++] = '/';
		memcpy(out + n, part, len);
		n += len;
	}
	if (n == 0)
		return bad(e, "Path must point to a file in /mnt/data/");
	if (up && wall_stands(WALL_PATH))
		return bad(e, "Path traversal not allowed");
	out[n] = '\0';
	memcpy(ret, out, n + 1);
	return 0;
}

int workspace_path(const char *path, size_t len, bool relative_too, char *ret, struct err *e)
{
	const char *p = path, *end = path + len;
	bool inside = false;

	if (memchr(path, '\0', len)) {
		(void)err_set(e, ERR_NOT_FOUND, EINVAL, "a path cannot hold a NUL byte");
		return -EINVAL;
	}
	if (len == 0 || path[0] != '/')
		return relative_too && len > 0
			   ? join_parts(p, end, ret, e)
			   : bad(e, "Path must be absolute and within /mnt/data/");
	/* POSIX does not define exactly two leading slashes; such a path is refused, as pathlib
	 * would not call it below /mnt/data. */
	bool two = len >= 2 && path[1] == '/' && (len == 2 || path[2] != '/');
	for (size_t i = 0; i < (relative_too ? ARRAY_SIZE(roots) : 1) && !two && !inside; i++)
		inside = skip_root(&p, end, roots[i]);
	if (!inside)
		return bad(e, "Path outside /mnt/data/");
	return join_parts(p, end, ret, e);
}

/* ---- any file of a sandbox ---- */

/* Appends the parts of PATH to the N bytes of RET, which are parts without a slash at their beginning. Their new number, or
 * -1: it is too long. */
static ssize_t add_parts(char ret[ENGINE_PATH_MAX], size_t n, const char *path, size_t len)
{
	const char *part, *p = path;
	size_t part_len;

	while ((part = next_part(&p, path + len, &part_len))) {
		if (is_part(part, part_len, "..")) {
			while (n > 0 && ret[--n] != '/')
				;
			continue;
		}
		/* a slash before it, one before the whole, and a NUL */
		if (part_len > NAME_MAX || n + part_len + 3 > ENGINE_PATH_MAX)
			return -1;
		if (n > 0)
			ret[n++] = '/';
		memcpy(ret + n, part, part_len);
		n += part_len;
	}
	return (ssize_t)n;
}

int sandbox_path(const char *path, size_t len, const char *base, char *ret, struct err *e)
{
	char out[ENGINE_PATH_MAX] = "";
	ssize_t n = 0;

	if (memchr(path, '\0', len))
		return bad(e, "a path cannot hold a NUL byte");
	if (len == 0 || path[0] != '/')
		n = add_parts(out, 0, base, strlen(base));
	n = n < 0 ? n : add_parts(out, (size_t)n, path, len);
	if (n < 0)
		return bad(e, "the path, or a part of it, is too long");
	out[n] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const size_t top = strlen(names[i]);

		if (strncmp(out, names[i], top) == 0 && (out[top] == '/' || out[top] == '\0')) {
			const char *below = out + top + (out[top] == '/');
			memcpy(ret, below, strlen(below) + 1);
			return 0;
		}
	}
	ret[0] = '/';
	memcpy(ret + 1, out, (size_t)n + 1);
	return 0;
}

bool sandbox_read_place(const char *data, size_t len, char *ret)
{
	if (len == 0 || data[len - 1] != '\n')
		return false;
	len--;
	if (len == 0 || len >= SANDBOX_PLACE_MAX || data[0] != '/' || !text_is_utf8(data, len))
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)data[i] < ' ' || data[i] == 0x7f)
			return false;
	memcpy(ret, data, len);
	ret[len] = '\0';
	return true;
}
