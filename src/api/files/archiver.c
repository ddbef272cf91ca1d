/* SPDX-License-Identifier: Apache-2.0 */
#include "api/files/archiver.h"

#include "base/rand.h"
#include "base/text.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES (64u << 10)
#define FOLDER_MODE    0755
#define FILE_MODE      0644
#define EXECUTE_BITS   0111
#define ENTRY_BYTES    128u /* of an entry in the end of a zip, at most, without its name */

struct archiver {
	enum archive_form form;
	bool failed;    /* no memory for the output, or nobody wants the archive any more */
	uint64_t names; /* bytes that the end of a zip has so far */
	struct buf *out;
	struct archive *archive;
	struct archive_entry *entry;
	locale_t locale; /* character set of names: UTF-8, whatever the server's locale is */
};

static const struct {
	const char *type, *suffix;
	int (*set_format)(struct archive *a);
} forms[] = {
    [ARCHIVE_FORM_TAR] = {"application/x-tar", "tar", archive_write_set_format_gnutar},
    [ARCHIVE_FORM_ZIP] = {"application/zip", "zip", archive_write_set_format_zip},
};

const char *archive_form_type(enum archive_form form)
{
	return forms[form].type;
}

const char *archive_form_suffix(enum archive_form form)
{
	return forms[form].suffix;
}

/* libarchive must be able to end a zip, or it forgets the memory of the compression: so an output that failed takes
 * everything. A tar would be filled with zeros to the size of its last file, so there it takes nothing. */
static la_ssize_t on_write(struct archive *archive UNUSED, void *user, const void *data, size_t len)
{
	struct archiver *a = user;

	a->failed = a->failed || buf_add(a->out, data, len) < 0;
	return a->failed && a->form != ARCHIVE_FORM_ZIP ? -1 : (la_ssize_t)len;
}

struct archiver *archiver_new(enum archive_form form, struct buf *out)
{
	struct archiver *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->form = form;
	a->out = out;
	a->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	a->archive = archive_write_new();
	a->entry = archive_entry_new();
	if (!a->locale || !a->archive || !a->entry ||
	    forms[form].set_format(a->archive) != ARCHIVE_OK ||
	    archive_write_set_bytes_per_block(a->archive, 0) != ARCHIVE_OK ||
	    (form == ARCHIVE_FORM_ZIP &&
	     archive_write_set_options(a->archive, "zip:compression-level=1") < ARCHIVE_WARN) ||
	    archive_write_open(a->archive, a, NULL, on_write, NULL) != ARCHIVE_OK)
		return archiver_free(a);
	return a;
}

struct archiver *archiver_free(struct archiver *a)
{
	if (!a)
		return NULL;
	archive_entry_free(a->entry);
	if (a->archive) {
		a->failed = true; /* nobody sees the end that libarchive writes now */
		(void)archive_write_close(a->archive);
		(void)archive_write_free(a->archive);
	}
	if (a->locale)
		freelocale(a->locale);
	free(a);
	return NULL;
}

/* ---- names ---- */

static int set_name(struct archiver *a, const char *name, const char *suffix)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(NAME_MAX_BYTES);
	int r = text_add_utf8_lossy(&b, name, strlen(name));

	r = r < 0 ? r : buf_add_str(&b, suffix);
	if (r < 0)
		return r;
	/* What the names are unpacked on is not known: terminals obey control characters, and other
	 * systems take \ and : for parts of a path. */
	for (char *p = b.data; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\' || *p == ':')
			*p = '_';
	a->names += a->form == ARCHIVE_FORM_ZIP ? b.len + ENTRY_BYTES : 0;
	if (a->names > ARCHIVER_NAMES_MAX)
		return -E2BIG;
	archive_entry_copy_pathname(a->entry, buf_str(&b));
	return 0;
}

static int add_entry(struct archiver *a, const char *name, mode_t type, mode_t mode, uint64_t size,
		     int64_t mtime_ns)
{
	archive_entry_clear(a->entry);
	int r = set_name(a, name, type == AE_IFDIR ? "/" : "");

	if (r < 0)
		return r;
	archive_entry_set_filetype(a->entry, type);
	archive_entry_set_perm(a->entry, mode);
	archive_entry_set_size(a->entry, (la_int64_t)size);
	archive_entry_set_mtime(a->entry, mtime_ns > 0 ? mtime_ns / (int64_t)NS_PER_S : 0, 0);
	locale_t before = uselocale(a->locale);
	r = archive_write_header(a->archive, a->entry);
	(void)uselocale(before);
	return r < ARCHIVE_WARN || a->failed ? -EIO : 0;
}

/* ---- entries ---- */

int archiver_add_folder(struct archiver *a, const char *name, int64_t mtime_ns)
{
	return add_entry(a, name, AE_IFDIR, FOLDER_MODE, 0, mtime_ns);
}

int archiver_add_file(struct archiver *a, const char *name, uint64_t size, mode_t mode,
		      int64_t mtime_ns)
{
	return add_entry(a, name, AE_IFREG, FILE_MODE | (mode & EXECUTE_BITS), size, mtime_ns);
}

int archiver_add_data(struct archiver *a, const void *data, size_t len)
{
	return archive_write_data(a->archive, data, len) == (la_ssize_t)len && !a->failed ? 0
											  : -EIO;
}

int archiver_end(struct archiver *a)
{
	locale_t before = uselocale(a->locale);
	int r = archive_write_close(a->archive);

	(void)uselocale(before);
	return r < ARCHIVE_WARN || a->failed ? -EIO : 0;
}
