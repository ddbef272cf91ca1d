/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/backup_archive.h"

#include "base/fdio.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { DISKS, FOLDERS, CONTAINERS };

static const struct backup_place places[] = {
    [DISKS] = {"workspaces", "workspaces", 0700, true, "that root starts"},
    [FOLDERS] = {"workspaces", "workspaces", 0700, false, "that a plain user starts"},
    [CONTAINERS] = {"containers", "docker/stored", 0711, false, "with SANDBOX_ENGINE=docker"},
};

const struct backup_place *backup_place(const char *engine)
{
	return &places[streq(engine, "docker") ? CONTAINERS : geteuid() == 0 ? DISKS : FOLDERS];
}

const struct backup_place *backup_other_place(const char *engine)
{
	return backup_place(streq(engine, "docker") ? "native" : "docker");
}

const struct backup_place *backup_place_of(const char *name, bool regular)
{
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const size_t n = strlen(places[i].name);
		const bool within = text_starts_with(name, places[i].name) && name[n] == '/';

		if (within && places[i].disks == (regular && !strchr(name + n + 1, '/')))
			return &places[i];
	}
	return NULL;
}

static int fail(struct backup_out *o, struct err *e)
{
	const char *why = archive_error_string(o->archive);
	const int errnum = archive_errno(o->archive);
	const bool full = errnum == ENOSPC || errnum == EDQUOT;

	return err_set(e, full ? ERR_STORE_FULL : ERR_SYSTEM, errnum > 0 ? errnum : EIO,
		       "the backup cannot be written (%.200s)", why ? why : "");
}

void backup_sum_name(crypto_hash_sha256_state *sum, const char *name)
{
	(void)crypto_hash_sha256_update(sum, (const unsigned char *)name, strlen(name) + 1);
}

void backup_sum_text(const crypto_hash_sha256_state *sum, char ret[BACKUP_SUM_SIZE])
{
	unsigned char bytes[crypto_hash_sha256_BYTES];
	crypto_hash_sha256_state copy = *sum;

	(void)crypto_hash_sha256_final(&copy, bytes);
	text_hex(bytes, sizeof(bytes), ret);
}

int backup_out_open(struct backup_out *o, int fd, struct err *e)
{
	*o = (struct backup_out){.archive = archive_write_new(), .entry = archive_entry_new()};
	o->block = malloc(BACKUP_BLOCK);
	if (!o->archive || !o->entry || !o->block)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the backup");
	(void)crypto_hash_sha256_init(&o->sum);
	/* Names of tenants' files are bytes, not characters. */
	if (archive_write_add_filter_zstd(o->archive) != ARCHIVE_OK ||
	    archive_write_set_format_pax(o->archive) != ARCHIVE_OK ||
	    archive_write_set_options(o->archive, "hdrcharset=BINARY,compression-level=3") !=
		ARCHIVE_OK ||
	    archive_write_open_fd(o->archive, fd) != ARCHIVE_OK)
		return fail(o, e);
	return 0;
}

void backup_out_name(struct backup_out *o, const char *name, unsigned type, unsigned mode)
{
	archive_entry_clear(o->entry);
	archive_entry_copy_pathname(o->entry, name);
	archive_entry_set_filetype(o->entry, type);
	archive_entry_set_perm(o->entry, (mode_t)mode);
}

int backup_out_head(struct backup_out *o, struct err *e)
{
	backup_sum_name(&o->sum, archive_entry_pathname(o->entry));
	return archive_write_header(o->archive, o->entry) < ARCHIVE_WARN ? fail(o, e) : 0;
}

static int put(struct backup_out *o, const void *data, size_t len, struct err *e)
{
	return archive_write_data(o->archive, data, len) < 0 ? fail(o, e) : 0;
}

/* The bytes of FD from AT on: LEN of them, or zeros where the file has become shorter. Of a hole libarchive writes nothing, but
 * wants to be given the zeros. */
static int put_piece(struct backup_out *o, int fd, off_t at, uint64_t len, bool hole, struct err *e)
{
	int r = 0;

	if (hole)
		memset(o->block, 0, BACKUP_BLOCK);
	while (len > 0 && r == 0) {
		const size_t want = (size_t)MIN(len, (uint64_t)BACKUP_BLOCK);
		const ssize_t n = hole ? (ssize_t)want : pread(fd, o->block, want, at);

		if (n < 0)
			return err_set(e, ERR_SYSTEM, errno, "'%.200s' cannot be read",
				       archive_entry_pathname(o->entry));
		if (n < (ssize_t)want)
			memset(o->block + n, 0, want - (size_t)n);
		if (!hole)
			(void)crypto_hash_sha256_update(&o->sum, (unsigned char *)o->block, want);
		r = put(o, o->block, want, e);
		at += (off_t)want;
		len -= want;
	}
	return r;
}

/* Where the file's data begins at or behind AT, and ends. At the end of the file both are SIZE. */
static void find_data(int fd, off_t at, off_t size, off_t *ret_begin, off_t *ret_end)
{
	off_t begin = lseek(fd, at, SEEK_DATA);

	*ret_begin = *ret_end = size;
	if (begin < 0 && errno != ENXIO)
		begin = at; /* a file system that knows no holes */
	if (begin < 0 || begin >= size)
		return;
	off_t end = lseek(fd, begin, SEEK_HOLE);

	*ret_begin = begin;
	*ret_end = end < 0 ? size : MIN(end, size);
}

int backup_out_file(struct backup_out *o, int fd, struct err *e)
{
	const off_t size = (off_t)archive_entry_size(o->entry);
	la_int64_t begin, len;
	off_t b, end;

	/* The map that the head has is kept, because the file may change while it is read. */
	for (off_t at = 0; at < size; at = end) {
		find_data(fd, at, size, &b, &end);
		if (b < end)
			archive_entry_sparse_add_entry(o->entry, b, end - b);
		else if (at == 0)
			archive_entry_sparse_add_entry(o->entry, size, 0);
	}
	const bool sparse = archive_entry_sparse_reset(o->entry) > 0;
	struct archive_entry *map = archive_entry_clone(o->entry);
	int r = map ? backup_out_head(o, e) : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the backup");
	off_t at = 0;

	if (map)
		(void)archive_entry_sparse_reset(map);
	while (r == 0 && sparse && archive_entry_sparse_next(map, &begin, &len) == ARCHIVE_OK) {
		r = put_piece(o, fd, at, (uint64_t)(begin - at), true, e);
		r = r < 0 ? r : put_piece(o, fd, begin, (uint64_t)len, false, e);
		at = begin + len;
	}
	archive_entry_free(map);
	return r < 0 ? r : put_piece(o, fd, at, (uint64_t)(size - at), sparse, e);
}

int backup_out_text(struct backup_out *o, const char *name, const char *text, struct err *e)
{
	backup_out_name(o, name, AE_IFREG, 0600);
	archive_entry_set_size(o->entry, (la_int64_t)strlen(text));
	int r = backup_out_head(o, e);

	(void)crypto_hash_sha256_update(&o->sum, (const unsigned char *)text, strlen(text));
	return r < 0 ? r : put(o, text, strlen(text), e);
}

int backup_out_end(struct backup_out *o, struct err *e)
{
	char sum[BACKUP_SUM_SIZE];

	backup_sum_text(&o->sum, sum);
	int r = backup_out_text(o, BACKUP_END, sum, e);
	return r == 0 && archive_write_close(o->archive) != ARCHIVE_OK ? fail(o, e) : r;
}

void backup_out_done(struct backup_out *o)
{
	archive_entry_free(o->entry);
	if (o->archive)
		(void)archive_write_free(o->archive);
	free(o->block);
}
