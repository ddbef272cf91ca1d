/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "sandbox/sandbox.h"

#include <stdlib.h>
#include <string.h>

#define EXTENSION_MAX 16

struct mime_row {
	const char *extension;
	const char *type;
};

static const struct mime_row rows[] = {
#define M(extension, type) {extension, type},
#include "sandbox/mime.tbl.h"
#undef M
};

/* Short forms of two extensions: .tgz is .tar.gz. */
static const struct mime_row double_rows[] = {
    {"svgz", "image/svg+xml"},    {"taz", "application/x-tar"}, {"tbz2", "application/x-tar"},
    {"tgz", "application/x-tar"}, {"txz", "application/x-tar"}, {"tz", "application/x-tar"},
};

/* Compressions: the extension before one of these decides the type. */
static const char *const encodings[] = {"gz", "Z", "bz2", "xz", "br"};

static int compare_row(const void *key, const void *row)
{
	return strcmp(key, ((const struct mime_row *)row)->extension);
}

/* Copies the extension of NAME[0..len) without its dot, in lower case; false if there is none.
 * Leading dots do not begin an extension. *RET_LEN is the length of the name without it. */
static bool split_extension(const char *name, size_t len, char *ret, size_t *ret_len)
{
	size_t lead = 0, dot = len;

	while (lead < len && name[lead] == '.')
		lead++;
	while (dot > lead && name[dot - 1] != '.')
		dot--;
	if (dot <= lead || len - dot >= EXTENSION_MAX)
		return false;
	for (size_t i = dot; i < len; i++)
		ret[i - dot] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] | 0x20) : name[i];
	ret[len - dot] = '\0';
	*ret_len = dot - 1;
	return true;
}

static bool is_encoding(const char *name, size_t stem, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++)
		if (strlen(encodings[i]) == len - stem - 1 &&
		    memcmp(name + stem + 1, encodings[i], len - stem - 1) == 0)
			return true;
	return false;
}

const char *mime_type(const char *name)
{
	static const char unknown[] = "application/octet-stream";
	char extension[EXTENSION_MAX];
	size_t len, stem;

	const char *slash = strrchr(name, '/');
	name = slash ? slash + 1 : name;
	len = strlen(name);
	if (!split_extension(name, len, extension, &stem))
		return unknown;
	for (size_t i = 0; i < ARRAY_SIZE(double_rows); i++)
		if (streq(double_rows[i].extension, extension))
			return double_rows[i].type;
	if (is_encoding(name, stem, len) && !split_extension(name, stem, extension, &stem))
		return unknown;
	const struct mime_row *row =
	    bsearch(extension, rows, ARRAY_SIZE(rows), sizeof(rows[0]), compare_row);
	return row ? row->type : unknown;
}
