/* SPDX-License-Identifier: Apache-2.0 */
/* image: what apt says, sources, hostile archives, the store. */
#include "base/fdio.h"
#include "base/text.h"
#include "base/tree.h"
#include "image/image.h"
#include "image/inventory.h"
#include "image/oci.h"
#include "image/progress.h"
#include "image/root.h"
#include "image/source.h"
#include "image/subuids.h"
#include "image/unpack.h"

#include <archive_entry.h>
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cmocka.h>

static char scratch[64];

static int make_scratch(void **state)
{
	(void)state;
	(void)snprintf(scratch, sizeof(scratch), "/tmp/caisson-image-XXXXXX");
	return mkdtemp(scratch) ? 0 : -1;
}

static int remove_scratch(void **state)
{
	(void)state;
	return tree_remove(AT_FDCWD, scratch);
}

static void quiet_text(void *user UNUSED, const char *text UNUSED)
{
}

static void quiet_tick(void *user UNUSED, const char *text UNUSED, uint64_t done UNUSED,
		       uint64_t total UNUSED)
{
}

static const struct image_watch quiet = {
    .step = quiet_text, .tick = quiet_tick, .warn = quiet_text, .cancel_fd = -1};

static const struct image_import_options any;
static const struct image_export_options plain;

static void apt_messages(void **state)
{
	static const struct {
		const char *text;
		enum progress_failure reason;
	} rows[] = {
	    {"I: success\n", PROGRESS_FAIL_NONE},
	    {"E: wheels: the package index cannot be reached\nE: mmdebstrap failed to run\n",
	     PROGRESS_FAIL_WHEELS},
	    {"E: Release file for http://x/InRelease is expired (invalid since 15d).\n"
	     "E: apt-get update --error-on=any failed\nE: mmdebstrap failed to run\n",
	     PROGRESS_FAIL_STALE},
	    /* A stale file must not hide anything else. */
	    {"E: Release file for x is expired\nW: GPG error: x NO_PUBKEY 1\n",
	     PROGRESS_FAIL_SIGNATURE},
	    {"E: Release file for x is expired\nErr:1 http://x forky InRelease\n  Temporary "
	     "failure resolving 'x'\n",
	     PROGRESS_FAIL_OTHER},
	    {"W: Failed to fetch http://x  Temporary failure resolving 'x'\n",
	     PROGRESS_FAIL_UNREACHABLE},
	    {"E: Unable to locate package nope\nE: setup failed: E: apt-get failed\n",
	     PROGRESS_FAIL_PACKAGE},
	    {"dpkg: error: failed to write status: No space left on device\n", PROGRESS_FAIL_DISK},
	    {"E: image check: import numpy: boom\nE: setup failed\n", PROGRESS_FAIL_CHECK},
	    {"E: newuidmap 1 0 1000 1 failed\n", PROGRESS_FAIL_USERNS},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct progress p = {0};

		(void)progress_feed(&p, rows[i].text, strlen(rows[i].text));
		if (progress_reason(&p) != rows[i].reason)
			fail_msg("row %zu: reason %d", i, (int)progress_reason(&p));
	}
}

static void apt_progress(void **state)
{
	static const char text[] = "0 upgraded, 2 newly installed, 0 to remove\n"
				   "Get:1 http://x forky InRelease [151 kB]\n"
				   "Get:2 http://x forky/main amd64 libc6 amd64 2.43-7 [1866 kB]\n"
				   "Unpacking libc6:amd64 (2.43-7) ...\n"
				   "Setting up libc6:amd64 (2.43-7) ...\n";
	struct progress p = {0};
	uint64_t done, total;

	(void)state;
	for (size_t i = 0; i < strlen(text); i++)
		(void)progress_feed(&p, text + i, 1);
	progress_count(&p, &done, &total);
	assert_int_equal(p.phase, PROGRESS_SETUP);
	assert_int_equal(done, 1);
	assert_int_equal(total, 2);
	assert_int_equal(p.fetched, 1);
	assert_string_equal(p.item, "libc6");
}

static void sources(void **state)
{
	char url[SOURCE_URL_MAX];

	(void)state;
	assert_int_equal(
	    source_pick("http://sec/ Debian-Security Packages\nhttp://d/debian/ Debian Sources\n"
			"http://d/debian/ Debian Packages\n",
			url),
	    0);
	assert_string_equal(url, "http://d/debian/");
	assert_int_equal(source_pick("http://x/ Node Source Packages\n", url), -ENOENT);
	assert_int_equal(source_pick_uri("'http://o/docker/debian/dists/b/InRelease' f 0\n"
					 "'http://d/debian/dists/bookworm-updates/InRelease' f 0\n",
					 url),
			 0);
	assert_string_equal(url, "http://d/debian");
	assert_int_equal(source_pick_uri("", url), -ENOENT);
	assert_false(source_is_url("-oX"));
	assert_false(source_is_url("http://a\"b"));
}

static void archive_names(void **state)
{
	static const struct {
		const char *in;
		const char *out; /* NULL: refused */
	} rows[] = {
	    {"usr/bin/x", "usr/bin/x"},
	    {"./usr//bin/./x/", "usr/bin/x"},
	    {".", ""},
	    {"./", ""},
	    {"", ""},
	    {"/etc/passwd", NULL},
	    {"../x", NULL},
	    {"a/../b", NULL},
	    {"a/..", NULL},
	    {"..a/b", "..a/b"},
	};
	char ret[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int r = unpack_clean_name(rows[i].in, ret, sizeof(ret));

		if (!rows[i].out)
			assert_int_equal(r, -EINVAL);
		else
			assert_string_equal(ret, rows[i].out);
	}
}

struct row {
	const char *path;
	unsigned type;
	unsigned mode;
	const char *link; /* target */
	const char *data;
};

static void write_archive(const char *file, const struct row *rows, size_t n)
{
	struct archive *a = archive_write_new();

	assert_non_null(a);
	assert_int_equal(archive_write_set_format_pax_restricted(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_filename(a, file), ARCHIVE_OK);
	for (size_t i = 0; i < n; i++) {
		struct archive_entry *e = archive_entry_new();

		archive_entry_set_pathname(e, rows[i].path);
		archive_entry_set_perm(e, rows[i].mode);
		archive_entry_set_mtime(e, 1000000000, 0);
		if (rows[i].type == 0)
			archive_entry_set_hardlink(e, rows[i].link);
		else
			archive_entry_set_filetype(e, rows[i].type);
		if (rows[i].type == AE_IFLNK)
			archive_entry_set_symlink(e, rows[i].link);
		if (rows[i].data)
			archive_entry_set_size(e, (la_int64_t)strlen(rows[i].data));
		assert_true(archive_write_header(a, e) >= ARCHIVE_WARN);
		if (rows[i].data)
			assert_true(archive_write_data(a, rows[i].data, strlen(rows[i].data)) >= 0);
		archive_entry_free(e);
	}
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
}

/* Unpacks ROWS into scratch/tree; returns what image_unpack() does. */
static int unpack_rows(const struct row *rows, size_t n, struct unpack_stats *stats)
{
	char file[96], tree[96];
	struct err e = ERR_INIT;

	(void)snprintf(file, sizeof(file), "%s/a.tar", scratch);
	(void)snprintf(tree, sizeof(tree), "%s/tree", scratch);
	write_archive(file, rows, n);
	assert_int_equal(tree_remove(AT_FDCWD, tree), 0);
	assert_int_equal(mkdir(tree, 0755), 0);
	_cleanup_fd_ int root = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct archive *a = archive_read_new();

	assert_int_equal(archive_read_support_format_tar(a), ARCHIVE_OK);
	assert_int_equal(archive_read_open_filename(a, file, 4096), ARCHIVE_OK);
	int r = image_unpack(a, root, &quiet, stats, &e);

	archive_read_free(a);
	return r;
}

static void unpack_makes_harmless(void **state)
{
	static const struct row rows[] = {
	    {"./usr/bin/su", AE_IFREG, 06755, NULL, "x"},
	    {"./dev/sda", AE_IFBLK, 0666, NULL, NULL},
	    {"./pipe", AE_IFIFO, 0666, NULL, NULL},
	    {"./secret", AE_IFREG, 0600, NULL, "s"},
	    {"./bin", AE_IFLNK, 0777, "usr/bin", NULL},
	    {"./abs", AE_IFLNK, 0777, "/etc", NULL},
	    {"./tmp", AE_IFDIR, 01777, NULL, NULL},
	    {"./usr/bin/hard", 0, 0755, "usr/bin/su", NULL},
	};
	struct unpack_stats stats = {0};
	struct stat st;
	char path[128];

	(void)state;
	assert_int_equal(unpack_rows(rows, ARRAY_SIZE(rows), &stats), 0);
	assert_int_equal(stats.setid, 1);
	assert_int_equal(stats.skipped, 2);
	(void)snprintf(path, sizeof(path), "%s/tree/usr/bin/su", scratch);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(st.st_nlink, 2);
	assert_int_equal(st.st_mtime, 1000000000);
	(void)snprintf(path, sizeof(path), "%s/tree/secret", scratch);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	(void)snprintf(path, sizeof(path), "%s/tree/tmp", scratch);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 01777);
	(void)snprintf(path, sizeof(path), "%s/tree/pipe", scratch);
	assert_int_equal(lstat(path, &st), -1);
}

static void unpack_stays_inside(void **state)
{
	static const struct {
		struct row rows[2];
	} cases[] = {
	    {{{"../out", AE_IFREG, 0644, NULL, "x"}}},
	    {{{"/tmp/caisson-out", AE_IFREG, 0644, NULL, "x"}}},
	    {{{"link", AE_IFLNK, 0777, "..", NULL}, {"link/out", AE_IFREG, 0644, NULL, "x"}}},
	    {{{"link", AE_IFLNK, 0777, "/tmp", NULL},
	      {"link/caisson-out", AE_IFREG, 0644, NULL, "x"}}},
	    {{{"link", AE_IFLNK, 0777, "/etc", NULL}, {"hard", 0, 0644, "link/passwd", NULL}}},
	    {{{"hard", 0, 0644, "../a.tar", NULL}}},
	    {{{"hard", 0, 0644, "/etc/passwd", NULL}}},
	};
	struct stat st;
	char path[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct unpack_stats stats = {0};
		size_t n = cases[i].rows[1].path ? 2 : 1;

		if (unpack_rows(cases[i].rows, n, &stats) >= 0)
			fail_msg("case %zu was taken", i);
		(void)snprintf(path, sizeof(path), "%s/out", scratch);
		assert_int_equal(lstat(path, &st), -1);
		assert_int_equal(lstat("/tmp/caisson-out", &st), -1);
	}
}

static void unpack_survives_damage(void **state)
{
	static const struct row rows[] = {{"a/b", AE_IFREG, 0644, NULL, "some text"},
					  {"l", AE_IFLNK, 0777, "a/b", NULL},
					  {"h", 0, 0644, "a/b", NULL}};
	struct unpack_stats stats = {0};
	char file[96], tree[96];
	_cleanup_(buf_done) struct buf b = BUF_INIT(1 << 20);

	(void)state;
	assert_int_equal(unpack_rows(rows, ARRAY_SIZE(rows), &stats), 0);
	(void)snprintf(file, sizeof(file), "%s/a.tar", scratch);
	(void)snprintf(tree, sizeof(tree), "%s/tree", scratch);
	_cleanup_fd_ int fd = open(file, O_RDONLY | O_CLOEXEC);

	assert_int_equal(fd_read_file(fd, &b), 0);
	for (size_t i = 0; i < 4 * 512; i += 3) { /* headers of the first entries */
		struct err e = ERR_INIT;

		assert_int_equal(tree_remove(AT_FDCWD, tree), 0);
		assert_int_equal(mkdir(tree, 0755), 0);
		_cleanup_fd_ int root = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct archive *a = archive_read_new();

		b.data[i] = (char)(b.data[i] ^ 0x41);
		(void)archive_read_support_format_tar(a);
		if (archive_read_open_memory(a, b.data, b.len) == ARCHIVE_OK &&
		    image_unpack(a, root, &quiet, &stats, &e) < 0)
			assert_true(e.text[0] != '\0');
		archive_read_free(a);
		b.data[i] = (char)(b.data[i] ^ 0x41);
	}
}

static void dpkg_status(void **state)
{
	static const char text[] =
	    "Package: a\nStatus: install ok installed\nVersion: 1\nDescription: x\n Package: no\n\n"
	    "Package: b\nStatus: deinstall ok config-files\nVersion: 2\n\n"
	    "Package: c\nStatus: install ok installed\nVersion: 1:3~rc";
	json_t *packages = json_array();

	(void)state;
	assert_int_equal(inventory_parse_dpkg(text, strlen(text), packages), 0);
	assert_int_equal(json_array_size(packages), 2);
	assert_string_equal(
	    json_string_value(json_object_get(json_array_get(packages, 1), "version")), "1:3~rc");
	json_decref(packages);
}

/* As much of a static program for this machine as an import looks at. */
static const Elf64_Ehdr program = {
    .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
    .e_phentsize = sizeof(Elf64_Phdr),
#if defined(__x86_64__)
    .e_machine = EM_X86_64,
#else
    .e_machine = EM_AARCH64,
#endif
};

/* A draft with a python3 in it, recorded. */
static void fill(struct image_draft *d, const char *name)
{
	static char first[] = "json", second[] = "os.path";
	char *const preload[] = {first, second};
	const struct image_facts facts = {.name = name,
					  .source = "build",
					  .description = "a test",
					  .suite = "forky",
					  .definition = "0123abcd",
					  .preload = preload,
					  .n_preload = ARRAY_SIZE(preload)};
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	struct err e = ERR_INIT;

	assert_int_equal(mkdirat(d->root, "usr", 0755), 0);
	assert_int_equal(mkdirat(d->root, "usr/bin", 0755), 0);
	assert_int_equal(symlinkat("python3.14", d->root, "usr/bin/python3"), 0);
	_cleanup_fd_ int fd =
	    openat(d->root, "usr/bin/python3.14", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, &program, sizeof(program)), 0);
	if (image_root_finish(d->root, true, &e) < 0)
		fail_msg("%s", e.text);
	if (image_manifest_write(d, &facts, &m, &e) < 0)
		fail_msg("%s", e.text);
	assert_string_equal(image_manifest_str(&m, "python_version"), "3.14");
}

static int count_image(void *user, const struct image_manifest *m UNUSED)
{
	(*(int *)user)++;
	return 0;
}

/* Entries of the store that are not images: drafts, old ones. */
static int count_hidden(const struct image_store *s)
{
	_cleanup_fd_ int fd = openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fdopendir(fd);
	int n = 0;

	assert_non_null(dir);
	(void)TAKE_FD(fd);
	for (struct dirent *de; (de = readdir(dir)) != NULL;)
		n += text_starts_with(de->d_name, ".build-") ||
		     text_starts_with(de->d_name, ".old-");
	return n;
}

static void store_replaces_and_holds(void **state)
{
	struct image_store s;
	struct image_draft d = IMAGE_DRAFT_INIT, stale = IMAGE_DRAFT_INIT;
	struct err e = ERR_INIT;
	int n = 0;

	(void)state;
	assert_int_equal(image_store_open(&s, scratch, true, &e), 0);
	/* A builder that died: its folder stays, nobody holds it. */
	assert_int_equal(image_draft_new(&s, "x", &stale, &e), 0);
	assert_int_equal(count_hidden(&s), 1);
	image_store_clean(&s);
	assert_int_equal(count_hidden(&s), 1); /* alive: held */
	stale.root = fd_close(stale.root);
	stale.dir = fd_close(stale.dir);
	image_store_clean(&s);
	assert_int_equal(count_hidden(&s), 0);

	assert_int_equal(image_draft_new(&s, "x", &d, &e), 0);
	fill(&d, "x");
	assert_int_equal(image_draft_commit(&s, &d, "x", &e), 0);
	assert_int_equal(image_manifest_each(&s, IMAGES_ALL, count_image, &n, &e), 0);
	assert_int_equal(n, 1);

	/* Replaced while somebody runs on it: the old files stay until that one is gone. */
	_cleanup_fd_ int user = openat(s.dir, "x/root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(flock(user, LOCK_SH), 0);
	assert_int_equal(image_store_remove(&s, "x", &e), -EBUSY);
	assert_int_equal(image_draft_new(&s, "x", &d, &e), 0);
	fill(&d, "x");
	assert_int_equal(image_draft_commit(&s, &d, "x", &e), 0);
	assert_int_equal(count_hidden(&s), 1);
	assert_int_equal(faccessat(user, "usr/bin/python3.14", F_OK, 0), 0);
	user = fd_close(user);
	image_store_clean(&s);
	assert_int_equal(count_hidden(&s), 0);

	assert_int_equal(image_store_remove(&s, "x", &e), 0);
	assert_int_equal(image_store_remove(&s, "x", &e), -ENOENT);
	assert_true(image_store_remove(&s, "../x", &e) < 0);
	assert_int_equal(count_hidden(&s), 0);
	image_store_done(&s);
}

static void export_then_import(void **state)
{
	struct image_store s;
	struct image_draft d = IMAGE_DRAFT_INIT;
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	struct err e = ERR_INIT;
	char file[96];
	struct stat st;

	(void)state;
	assert_int_equal(image_store_open(&s, scratch, true, &e), 0);
	assert_int_equal(image_draft_new(&s, "y", &d, &e), 0);
	fill(&d, "y");
	assert_int_equal(image_draft_commit(&s, &d, "y", &e), 0);
	(void)snprintf(file, sizeof(file), "%s/y.tar.zst", scratch);
	if (image_export(&s, "y", file, &plain, &quiet, &e) < 0)
		fail_msg("%s", e.text);
	if (image_import(&s, "z", file, &any, &quiet, &m, &e) < 0)
		fail_msg("%s", e.text);
	assert_string_equal(image_manifest_str(&m, "source"), "tar");
	assert_string_equal(image_manifest_str(&m, "description"), "a test");
	assert_string_equal(image_manifest_str(&m, "definition"), "0123abcd");
	assert_int_equal(json_array_size(json_object_get(m.json, "preload")), 2);
	assert_int_equal(fstatat(s.dir, "z/root/app/results", &st, 0), 0);
	assert_int_equal(fstatat(s.dir, "z/root/usr/bin/python3.14", &st, 0), 0);
	/* Wrong ends of names leave nothing behind. */
	(void)snprintf(file, sizeof(file), "%s/y.zip", scratch);
	assert_true(image_export(&s, "y", file, &plain, &quiet, &e) < 0);
	assert_int_equal(stat(file, &st), -1);
	/* Not an archive. */
	assert_true(image_import(&s, "w", "/etc/passwd", &any, &quiet, &m, &e) < 0);
	assert_int_equal(fstatat(s.dir, "w", &st, 0), -1);
	assert_int_equal(count_hidden(&s), 0);
	image_store_done(&s);
}

/* What an imported image says of itself goes to the warm interpreter: only module names may. */
static void hostile_origin(void **state)
{
	static const struct {
		const char *text;
		int r;
		size_t n;
	} rows[] = {
	    {"{\"preload\": [\"json\", \"os.path\"]}", 0, 2},
	    {"{}", 0, 0},
	    {"{\"preload\": [\"os; import x\"]}", -EBADMSG, 0},
	    {"{\"preload\": [1]}", -EBADMSG, 0},
	    {"{\"preload\": [\"a\\nb\"]}", -EBADMSG, 0},
	    {"[]", -EBADMSG, 0},
	    {"{\"description\": \"a\\u001b[2J\", \"definition\": \"../x\"}", 0, 0},
	};
	char path[128];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/o/opt/caisson", scratch);
	assert_int_equal(fd_make_dirs(path, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/o", scratch);
	_cleanup_fd_ int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(image_origin_done) struct image_origin o = {0};
		_cleanup_fd_ int fd = openat(root, "opt/caisson/image.json",
					     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

		assert_int_equal(fd_write_all(fd, rows[i].text, strlen(rows[i].text)), 0);
		assert_int_equal(image_origin_read(root, &o), rows[i].r);
		assert_int_equal(o.preload.n, rows[i].n);
		assert_string_equal(o.description, "");
		assert_string_equal(o.definition, "");
	}
}

static void test_subuids_avoid_those_that_are_taken(void **state UNUSED)
{
	static const struct {
		const char *subuid, *subgid;
		unsigned first;
	} rows[] = {
	    {"", "", 100000},
	    {"ann:100000:65536\n", "ann:100000:65536\n", 165536},
	    {"ann:200000:65536\n", "", 100000},
	    {"ann:165536:65536\nben:100000:65536\n", "cem:231072:10\n", 231082},
	    {"broken\n:\nx:y:z\n", "dan:99999:2\n", 100001},
	};
	char uids[128], gids[128], want[128], command[SUBUIDS_COMMAND_MAX];

	(void)snprintf(uids, sizeof(uids), "%s/subuid", scratch);
	(void)snprintf(gids, sizeof(gids), "%s/subgid", scratch);
	subuids_command("/nothing", "eve", command);
	assert_string_equal(command,
			    "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 eve");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		FILE *u = fopen(uids, "we"), *g = fopen(gids, "we");

		assert_true(u && g && fputs(rows[i].subuid, u) >= 0 &&
			    fputs(rows[i].subgid, g) >= 0);
		assert_int_equal(fclose(u) | fclose(g), 0);
		(void)snprintf(want, sizeof(want), "usermod --add-subuids %u-%u ", rows[i].first,
			       rows[i].first + 65535);
		subuids_command(scratch, "eve", command);
		assert_true(text_starts_with(command, want));
	}
}

static void times(void **state UNUSED)
{
	static const char *const good[] = {"2001-02-03T04:05:06Z", "2001-02-03T04:05:06.123456789Z",
					   "2001-02-03T04:05:06+02:00"};
	static const char *const bad[] = {
	    "",
	    "2001-02-03",
	    "2001-02-03T04:05:06",
	    "2001-02-03 04:05:06Z",
	    "2001-02-03T04:05:06Z\033",
	    "2001-02-03T04:05:06Z; x",
	    "x001-02-03T04:05:06Z",
	    "2001-02-03T04:05:06.1234567890123456Z",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(oci_is_time(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(oci_is_time(bad[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_subuids_avoid_those_that_are_taken),
	    cmocka_unit_test(apt_messages),
	    cmocka_unit_test(apt_progress),
	    cmocka_unit_test(sources),
	    cmocka_unit_test(archive_names),
	    cmocka_unit_test(unpack_makes_harmless),
	    cmocka_unit_test(unpack_stays_inside),
	    cmocka_unit_test(unpack_survives_damage),
	    cmocka_unit_test(dpkg_status),
	    cmocka_unit_test(hostile_origin),
	    cmocka_unit_test(store_replaces_and_holds),
	    cmocka_unit_test(export_then_import),
	    cmocka_unit_test(times),
	};

	return cmocka_run_group_tests_name("image", tests, make_scratch, remove_scratch);
}
