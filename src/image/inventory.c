/* SPDX-License-Identifier: Apache-2.0 */
#include "image/inventory.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"
#include "image/def.h"
#include "image/manifest.h"
#include "image/python.h"

#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define FIELD_MAX 128

struct dpkg_entry {
	char package[FIELD_MAX];
	char version[FIELD_MAX];
	bool installed;
};

/* Copies the value if the line is "FIELD: value". A value that is too long or no text counts as absent. */
static bool take_field(const char *line, size_t len, const char *field, char ret[FIELD_MAX])
{
	size_t n = strlen(field);

	if (len < n + 2 || memcmp(line, field, n) != 0 || line[n] != ':' || line[n + 1] != ' ')
		return false;
	line += n + 2;
	len -= n + 2;
	if (len >= FIELD_MAX || !image_is_text(line, len))
		return false;
	memcpy(ret, line, len);
	ret[len] = '\0';
	return true;
}

static int add_package(json_t *packages, const char *name, const char *version, const char *kind)
{
	if (json_array_size(packages) >= MANIFEST_PACKAGES)
		return -E2BIG;
	return json_array_append_new(packages, json_pack("{s:s, s:s, s:s}", "name", name, "version",
							 version, "kind", kind)) < 0
		   ? -ENOMEM
		   : 0;
}

static int end_entry(struct dpkg_entry *entry, json_t *packages)
{
	int r = 0;

	if (entry->installed && entry->package[0])
		r = add_package(packages, entry->package, entry->version, "deb");
	*entry = (struct dpkg_entry){0};
	return r;
}

int inventory_parse_dpkg(const char *text, size_t len, json_t *packages)
{
	struct dpkg_entry entry = {0};

	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;
		char status[FIELD_MAX];

		if (n == 0) {
			int r = end_entry(&entry, packages);

			if (r < 0)
				return r;
		} else if (take_field(text, n, "Status", status)) {
			entry.installed = streq(status, "install ok installed");
		} else if (!take_field(text, n, "Package", entry.package)) {
			(void)take_field(text, n, "Version", entry.version);
		}
		n += end ? 1 : 0;
		text += n;
		len -= n;
	}
	return end_entry(&entry, packages);
}

static int read_dpkg(int root, json_t *packages)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(INVENTORY_STATUS_MAX);
	_cleanup_fd_ int fd = fd_open_beneath(root, "var/lib/dpkg/status", O_RDONLY, 0);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	int r = fd_read_file(fd, &text);

	return r < 0 ? r : inventory_parse_dpkg(buf_str(&text), text.len, packages);
}

/* Reads the NAME-VERSION.dist-info folders of one site-packages folder (PEP 376). */
static int read_site_packages(int root, const char *path, json_t *packages)
{
	_cleanup_fd_ int fd = fd_open_beneath(root, path, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return 0;
	_cleanup_dir_ DIR *dir = fdopendir(fd);

	if (!dir)
		return -errno;
	(void)TAKE_FD(fd);
	for (struct dirent *de; (de = readdir(dir)) != NULL;) {
		char name[NAME_MAX + 1];

		if (!text_ends_with(de->d_name, ".dist-info") ||
		    !image_is_text(de->d_name, strlen(de->d_name)))
			continue;
		(void)snprintf(name, sizeof(name), "%s", de->d_name);
		name[strlen(name) - strlen(".dist-info")] = '\0';
		char *dash = strchr(name, '-');

		if (!dash)
			continue;
		*dash = '\0';
		int r = add_package(packages, name, dash + 1, "python");

		if (r < 0)
			return r;
	}
	return 0;
}

/* The full version of an interpreter named python3.N: that of the Debian package of the same name,
 * else what the name says. */
static void python_version(const char *name, const json_t *packages, char ret[32])
{
	char minimal[FIELD_MAX];
	size_t i;
	json_t *p;

	const char *said = text_starts_with(name, "python") ? name + strlen("python") : "3";

	/* "3.14", or "3.14t"; the image chooses the name. */
	(void)snprintf(ret, 32, "%.*s", (int)MIN(strspn(said, "0123456789.dt"), (size_t)31), said);
	(void)snprintf(minimal, sizeof(minimal), "%.100s-minimal", name);
	json_array_foreach(packages, i, p) {
		const char *package = json_string_value(json_object_get(p, "name"));
		const char *version = json_string_value(json_object_get(p, "version"));

		if (!package || !version || (!streq(package, name) && !streq(package, minimal)))
			continue;
		size_t n = strspn(version, "0123456789.");

		if (n > 0 && n < 32) {
			memcpy(ret, version, n);
			ret[n] = '\0';
			return;
		}
	}
}

static int take_python(int root, struct inventory *ret, json_t *packages)
{
	struct python p = {0};
	char path[PATH_MAX + 64];
	_cleanup_fd_ int none = fd_open_beneath(root, "opt/caisson/" PYTHON_NONE_FILE, O_RDONLY, 0);
	int r = none >= 0 ? 0 : python_find(root, "usr/bin:usr/local/bin", &p);

	if (r < 0 || none >= 0)
		return r;
	const char *name = strrchr(p.real, '/') + 1;
	const char *bin = strstr(p.real, "/bin/");

	python_version(name, packages, ret->python);
	if (bin) {
		(void)snprintf(path, sizeof(path), "%.*s/lib/%s/site-packages", (int)(bin - p.real),
			       p.real, name);
		r = read_site_packages(root, path, packages);
	}
	/* Debian's pip installs here. */
	(void)snprintf(path, sizeof(path), "usr/local/lib/%s/dist-packages", name);
	return r < 0 ? r : read_site_packages(root, path, packages);
}

static int measure(int root, struct inventory *ret)
{
	char path[64];
	char *paths[] = {path, NULL};

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/", root);
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);

	if (!fts)
		return -errno;
	for (FTSENT *f; (f = fts_read(fts)) != NULL;) {
		if (f->fts_info == FTS_DP || !f->fts_statp)
			continue;
		ret->files++;
		/* A file with N names counts as one N-th for each of them, so that the sum is its
		 * size. */
		uint64_t links =
		    f->fts_info == FTS_F && f->fts_statp->st_nlink > 0 ? f->fts_statp->st_nlink : 1;

		ret->bytes += (uint64_t)f->fts_statp->st_blocks * 512 / links;
	}
	(void)fts_close(fts);
	return 0;
}

int inventory_take(int root, struct inventory *ret, json_t *packages)
{
	int r = read_dpkg(root, packages);

	if (r >= 0)
		r = take_python(root, ret, packages);
	if (r >= 0)
		r = measure(root, ret);
	return r;
}
