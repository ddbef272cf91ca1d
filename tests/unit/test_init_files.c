/* SPDX-License-Identifier: Apache-2.0 */
/* init's file agent on a folder of this machine, so that sanitizers see what the static program
 * cannot be built with. What needs a sandbox is in tests/integration/engine_native.c. */
#include "init_files_world.h"

/* ---- flushes, seen instead of done ---- */

static unsigned flushes;
static int flush_error;

static int flush(void)
{
	flushes++;
	errno = flush_error;
	return flush_error ? -1 : 0;
}

int fsync(int fd UNUSED)
{
	return flush();
}

int fdatasync(int fd UNUSED)
{
	return flush();
}

static void test_put(void **state UNUSED)
{
	struct stat st;

	put("a/b/f", "one");
	assert_content("a/b/f", "one");
	assert_int_equal(fstatat(in.workspace, "a/b/f", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	put("a/b/f", "two!");
	assert_content("a/b/f", "two!");
	assert_int_equal(ask(PROTO_FILE_PUT, "a/b/f", 0), EEXIST);
	assert_int_equal(ask(PROTO_FILE_PUT, "a/b", PROTO_FILE_OVERWRITE), EISDIR);
	assert_int_equal(ask(PROTO_FILE_PUT, "a/b/f/x", PROTO_FILE_OVERWRITE), ENOTDIR);
	/* it has no name until it is complete, and none after it was given up */
	assert_int_equal(ask(PROTO_FILE_PUT, "later", 0), 0);
	(void)close(answer_fd);
	assert_int_equal(fstatat(in.workspace, "later", &st, 0), -1);
	/* two for one name: the first that is complete has it */
	assert_int_equal(ask(PROTO_FILE_PUT, "both", 0), 0);
	(void)close(answer_fd);
	const uint32_t first = last_put;
	put("both", "2");
	last_put = first;
	assert_int_equal(ask(PROTO_FILE_COMMIT, "both", 0), EEXIST);
	assert_content("both", "2");
	assert_int_equal(ask(PROTO_FILE_REMOVE, "both", 0), 0);
	/* folders are made for what is complete alone */
	assert_int_equal(ask(PROTO_FILE_PUT, "new/folder/later", 0), 0);
	(void)close(answer_fd);
	assert_int_equal(fstatat(in.workspace, "new", &st, 0), -1);
	assert_int_equal(ask(PROTO_FILE_DROP, "new/folder/later", 0), 0);
	assert_int_equal(fstatat(in.workspace, "new", &st, 0), -1);
	assert_int_equal(ask(PROTO_FILE_COMMIT, "later", 0), ENOENT);
	/* somebody was quicker */
	assert_int_equal(ask(PROTO_FILE_PUT, "raced", 0), 0);
	(void)close(answer_fd);
	assert_int_equal(mkdirat(in.workspace, "raced", 0755), 0);
	assert_int_equal(ask(PROTO_FILE_COMMIT, "raced", PROTO_FILE_OVERWRITE), EISDIR);
	assert_int_equal(ask(PROTO_FILE_LIST, "", 0), 0);
	assert_int_equal(answer.n, 2); /* a and raced: no temporary name is left */
	(void)close(answer_fd);
}

static void test_puts_at_once(void **state UNUSED)
{
	char name[16];

	for (int i = 0; i < PROTO_PUTS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "f%d", i);
		assert_int_equal(ask(PROTO_FILE_PUT, name, 0), 0);
		(void)close(answer_fd);
	}
	const uint32_t last = last_put;
	assert_int_equal(ask(PROTO_FILE_PUT, "more", 0), EMFILE);
	for (uint32_t i = 0; i < PROTO_PUTS_MAX; i++) {
		last_put = last - i;
		assert_int_equal(ask(PROTO_FILE_DROP, "f", 0), 0);
	}
	assert_int_equal(ask(PROTO_FILE_PUT, "more", 0), 0);
	(void)close(answer_fd);
	assert_int_equal(ask(PROTO_FILE_DROP, "more", 0), 0);
}

static void test_open(void **state UNUSED)
{
	static const struct {
		const char *path;
		int errnum;
	} rows[] = {
	    {"nothing", ENOENT}, {"link", ELOOP},    {"loop/x", ELOOP},   {"up/passwd", ELOOP},
	    {"fifo", ENOENT},    {"folder", EISDIR}, {"file/x", ENOTDIR},
	};

	put("file", "x");
	assert_int_equal(symlinkat("file", in.workspace, "link"), 0);
	assert_int_equal(symlinkat("loop", in.workspace, "loop"), 0);
	assert_int_equal(symlinkat("/etc", in.workspace, "up"), 0);
	assert_int_equal(mkfifoat(in.workspace, "fifo", 0644), 0);
	assert_int_equal(mkdirat(in.workspace, "folder", 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(ask(PROTO_FILE_OPEN, rows[i].path, 0), rows[i].errnum);
}

static void test_remove(void **state UNUSED)
{
	char path[64];
	int dir;

	put("many/x", "");
	for (int i = 0; i < 3000; i++) { /* more than one slice */
		(void)snprintf(path, sizeof(path), "many/%d", i);
		int fd = openat(in.workspace, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		assert_true(fd >= 0);
		(void)close(fd);
	}
	assert_int_equal(symlinkat("/etc", in.workspace, "many/out"), 0);
	assert_int_equal(ask(PROTO_FILE_REMOVE, "many", 0), ENOTEMPTY);
	assert_int_equal(ask(PROTO_FILE_REMOVE, "many", PROTO_FILE_RECURSIVE), 0);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
	assert_int_equal(ask(PROTO_FILE_REMOVE, "many", PROTO_FILE_RECURSIVE), ENOENT);
	/* deeper than anybody may ask: an answer, not a crash */
	dir = openat(in.workspace, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 300; i++) {
		assert_int_equal(mkdirat(dir, "d", 0755), 0);
		int next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(dir);
		dir = next;
	}
	(void)close(dir);
	assert_int_equal(ask(PROTO_FILE_REMOVE, "d", PROTO_FILE_RECURSIVE), ELOOP);
}

static void test_list(void **state UNUSED)
{
	struct proto_entry e;
	static const char odd[] = "\xff\n\x01..";

	int fd = openat(in.workspace, odd, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(ask(PROTO_FILE_LIST, "", 0), 0);
	assert_int_equal(answer.n, 1);
	assert_int_equal(answer.more, 0);
	assert_int_equal(pread(answer_fd, &e, sizeof(e), 0), sizeof(e));
	assert_string_equal(e.name, odd);
	assert_true(S_ISREG(e.mode) && e.size == 0 && e.inode != 0 && e.mtime_ns > 0);
	(void)close(answer_fd);
	assert_int_equal(ask(PROTO_FILE_LIST, "no", 0), ENOENT);
	assert_int_equal(ask(PROTO_FILE_LIST, odd, 0), ENOTDIR);
}

/* A run that has ended took the rights from the workspace. */
static void test_without_rights(void **state UNUSED)
{
	struct stat st;

	assert_int_equal(chmod(root, 01055), 0);
	assert_int_equal(ask(PROTO_FILE_LIST, "", 0), 0);
	(void)close(answer_fd);
	assert_int_equal(stat(root, &st), 0);
	assert_int_equal(st.st_mode & 07777, 01755);
}

static void test_impossible(void **state UNUSED)
{
	static const char *const paths[] = {"//x",  "/x/",  "/..", "/tmp/../x", "..",
					    "a/..", "a//b", "a/",  "./a"};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		for (int op = PROTO_FILE_OPEN; op < PROTO_FILE_OP_MAX_; op++)
			assert_int_equal(ask((enum proto_file_op)op, paths[i], 0), -1);
	assert_int_equal(ask((enum proto_file_op)0, "a", 0), -1);
	assert_int_equal(ask(PROTO_FILE_OP_MAX_, "a", 0), -1);
	assert_int_equal(ask(PROTO_FILE_MOVE, "a", 0), -1);
	assert_int_equal(ask(PROTO_FILE_SET, "a", 0), -1);
	assert_int_equal(ask(PROTO_FILE_LIST, "a", PROTO_FILE_USERS), -1);
	assert_int_equal(ask(PROTO_FILE_PUT, "a", 16), -1);
	assert_int_equal(ask(PROTO_FILE_OPEN, "a", 4), -1);
	assert_int_equal(ask(PROTO_FILE_OPEN, "", 0), -1);
	assert_int_equal(ask(PROTO_FILE_OPEN, "/", 0), -1);
	assert_int_equal(ask(PROTO_FILE_REMOVE, "", PROTO_FILE_RECURSIVE), -1);
}

/* The front brings a file exactly where one is needed. */
static void test_files_brought(void **state UNUSED)
{
	for (int op = PROTO_FILE_OPEN; op < PROTO_FILE_OP_MAX_; op++) {
		struct proto_init_file f = {.seq = 1, .op = (uint32_t)op, .path = "a"};
		const bool brings = op == PROTO_FILE_OPEN || op == PROTO_FILE_LIST ||
				    op == PROTO_FILE_COMMIT || op == PROTO_FILE_STAT;

		assert_int_equal(files_handle(&in, &f, brings ? -1 : in.workspace), -1);
	}
}

/* More files at once than init copies: the rest is told to come again. */
static void test_copies_at_once(void **state UNUSED)
{
	struct proto_init_file f = {.op = PROTO_FILE_OPEN, .path = "file"};
	int fds[FDIO_PASS_MAX], answers = 0, refused = 0;
	size_t n = 0;

	put("file", "content");
	_cleanup_fd_ int to = memfd_create("file", MFD_CLOEXEC);
	for (uint32_t i = 0; i <= INIT_CARRIES_MAX; i++) {
		f.seq = ++seq;
		assert_int_equal(files_handle(&in, &f, to), 0);
	}
	while (files_pending(&in))
		files_work(&in);
	while (fd_recv(front, &answer, sizeof(answer), fds, &n, MSG_DONTWAIT) > 0) {
		answers++;
		refused += answer.errnum == EAGAIN;
	}
	assert_int_equal(answers, INIT_CARRIES_MAX + 1);
	assert_int_equal(refused, 1);
}

/* A file of a stored workspace is on the disk, with its name, before the front is told so. */
static void test_stored_is_flushed(void **state UNUSED)
{
	struct stat st;

	flushes = 0;
	put("session", "s");
	assert_int_equal(flushes, 0);
	in.flushes = true;
	put("kept", "k");
	assert_true(
	    flushes >=
	    (in.inward ? 2u : 1u)); /* the front flushes the bytes of one that it can open */
	flush_error = EIO;
	assert_int_equal(ask(PROTO_FILE_PUT, "lost", 0), 0);
	(void)close(answer_fd);
	assert_int_equal(ask(PROTO_FILE_COMMIT, "lost", 0), EIO);
	flush_error = 0;
	if (in.inward)
		assert_int_equal(fstatat(in.workspace, "lost", &st, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    BOTH(test_put),
	    BOTH(test_puts_at_once),
	    BOTH(test_open),
	    BOTH(test_remove),
	    BOTH(test_list),
	    BOTH(test_without_rights),
	    BOTH(test_impossible),
	    BOTH(test_stored_is_flushed),
	    cmocka_unit_test_prestate_setup_teardown(test_files_brought, set_up, tear_down, &in),
	    cmocka_unit_test_prestate_setup_teardown(test_copies_at_once, set_up, tear_down, &in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
