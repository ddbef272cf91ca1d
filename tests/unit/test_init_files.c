/* SPDX-License-Identifier: Apache-2.0 */
/* init's file agent on a folder of this machine, so that sanitizers see what the static program
 * cannot be built with. What needs a sandbox is in tests/integration/engine_native.c. */
#include "base/attr.h"
#include "base/fdio.h"
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct init in;
static uint32_t seq;
static uint32_t last_put; /* COMMIT and DROP name it */
static struct proto_init_filed answer;
static int answer_fd;
static int uploads
    [4 *
     PROTO_PUTS_MAX]; /* of the front of an inward sandbox: by number, from the first of the test */
static uint32_t first_seq;
static char base[32], root[64]; /* the folder of a test, and its workspace */
static int front;               /* the other end of init's channel */

void init_die(const char *why)
{
	fail_msg("init ended: %s", why);
	abort();
}

void init_send(struct init *i, const struct proto_head *frame, const int *fds, size_t n)
{
	assert_int_equal(fd_send(i->channel, frame, frame->size, fds, n, MSG_DONTWAIT),
			 frame->size);
}

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

static int make_place(const char *name)
{
	return mkdirat(in.root, name, 0755) < 0
		   ? -1
		   : openat(in.root, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int set_up(void **state)
{
	int pair[2];

	(void)snprintf(base, sizeof(base), "/tmp/test_init_files.XXXXXX");
	if (!mkdtemp(base) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	memset(&in, 0, sizeof(in));
	in.inward = *state != NULL;
	first_seq = seq;
	for (size_t i = 0; i < ARRAY_SIZE(uploads); i++)
		uploads[i] = -1;
	in.channel = pair[0];
	front = pair[1];
	in.root = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);
	in.workspace = make_place("ws");
	in.tmp = make_place("tmp");
	in.home = make_place("home");
	(void)snprintf(root, sizeof(root), "%s/ws", base);
	in.proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return in.workspace < 0 || in.proc < 0 ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *st UNUSED, int type UNUSED,
		      struct FTW *at UNUSED)
{
	return remove(path);
}

static int tear_down(void **state UNUSED)
{
	(void)close(in.channel);
	(void)close(front);
	(void)close(in.workspace);
	(void)close(in.tmp);
	(void)close(in.home);
	(void)close(in.root);
	(void)close(in.proc);
	for (size_t i = 0; i < ARRAY_SIZE(uploads); i++)
		uploads[i] = fd_close(uploads[i]);
	return nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* What the front of an inward sandbox does: the file that goes with a request, -1 = none. */

static int *upload(uint32_t put)
{
	assert_in_range(put - first_seq, 0, ARRAY_SIZE(uploads) - 1);
	return &uploads[put - first_seq];
}

static int file_for(enum proto_file_op op)
{
	if (op == PROTO_FILE_COMMIT) {
		int fd = *upload(last_put);
		*upload(last_put) = -1;
		if (fd < 0) /* given up before */
			fd = memfd_create("nothing", MFD_CLOEXEC);
		assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
		return fd;
	}
	return op == PROTO_FILE_OPEN || op == PROTO_FILE_LIST ? memfd_create("file", MFD_CLOEXEC)
							      : -1;
}

static void file_back(enum proto_file_op op, int file)
{
	if (op == PROTO_FILE_PUT && answer.errnum == 0) {
		*upload(last_put) = memfd_create("upload", MFD_CLOEXEC);
		answer_fd = dup(*upload(last_put));
	} else if (op == PROTO_FILE_DROP) {
		*upload(last_put) = fd_close(*upload(last_put));
	} else if (op == PROTO_FILE_OPEN && answer.errnum == 0) {
		assert_int_equal(lseek(file, 0, SEEK_END), answer.bytes);
		assert_int_equal(lseek(file, 0, SEEK_SET), 0);
		answer_fd = file;
	} else if (op == PROTO_FILE_LIST && answer.errnum == 0) {
		answer_fd = file;
	} else {
		(void)fd_close(file);
	}
}

/* One request to its end; the errno of the answer, -1 = refused as impossible. */
static int ask(enum proto_file_op op, const char *path, uint32_t flags)
{
	static struct proto_init_file f;
	int fds[FDIO_PASS_MAX];
	size_t n = 0;

	f = (struct proto_init_file){.seq = ++seq, .op = op, .flags = flags, .put = last_put};
	if (op == PROTO_FILE_PUT)
		last_put = seq;
	(void)snprintf(f.path, sizeof(f.path), "%s", path);
	const int file = in.inward ? file_for(op) : -1;
	if (files_handle(&in, &f, file) < 0)
		return -1;
	while (files_pending(&in))
		files_work(&in);
	assert_int_equal(fd_recv(front, &answer, sizeof(answer), fds, &n, MSG_DONTWAIT),
			 sizeof(answer));
	assert_int_equal(answer.seq, seq);
	answer_fd = n > 0 ? fds[0] : -1;
	assert_true(n <= 1 && (n == 0 || answer.errnum == 0));
	if (in.inward) {
		assert_int_equal(n, 0);
		file_back(op, file);
	}
	return answer.errnum;
}

static void put(const char *path, const char *text)
{
	assert_int_equal(ask(PROTO_FILE_PUT, path, PROTO_FILE_OVERWRITE), 0);
	assert_int_equal(write(answer_fd, text, strlen(text)), strlen(text));
	(void)close(answer_fd);
	assert_int_equal(ask(PROTO_FILE_COMMIT, path, PROTO_FILE_OVERWRITE), 0);
}

static void assert_content(const char *path, const char *want)
{
	char text[64] = "";

	assert_int_equal(ask(PROTO_FILE_OPEN, path, 0), 0);
	assert_int_equal(read(answer_fd, text, sizeof(text) - 1), strlen(want));
	assert_string_equal(text, want);
	(void)close(answer_fd);
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

static uint32_t count(const char *path)
{
	assert_int_equal(ask(PROTO_FILE_LIST, path, 0), 0);
	(void)close(answer_fd);
	return answer.n;
}

/* Absolute paths: the place that each leads to, and what may be changed there. */
static void test_places(void **state UNUSED)
{
	static const struct {
		const char *path;
		int *place;
		const char *below;
	} rows[] = {
	    {"/tmp/a/f", &in.tmp, "a/f"},         {"/home/sandbox/f", &in.home, "f"},
	    {"/mnt/data/f", &in.workspace, "f"},  {"/app/results/b/f", &in.workspace, "b/f"},
	    {"/home/user/c", &in.workspace, "c"},
	};
	static const char *const outside[] = {"/etc/f", "/tmpf", "/home/f",   "/home/users/f",
					      "/mnt/f", "/f",    "/mnt/data2"};
	static const char *const places[] = {"/tmp", "/home/user", "/mnt/data", "/home/sandbox"};
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		put(rows[i].path, "content");
		assert_content(rows[i].path, "content");
		assert_int_equal(fstatat(*rows[i].place, rows[i].below, &st, AT_SYMLINK_NOFOLLOW),
				 0);
		assert_int_equal(ask(PROTO_FILE_PUT, rows[i].path, 0), EEXIST);
		assert_int_equal(ask(PROTO_FILE_REMOVE, rows[i].path, 0), 0);
		assert_int_equal(ask(PROTO_FILE_OPEN, rows[i].path, 0), ENOENT);
	}
	assert_int_equal(count("/tmp"), 1);
	assert_int_equal(count("/home/user"), count(""));
	/* elsewhere files are read, and nothing is changed */
	assert_int_equal(mkdirat(in.root, "etc", 0777), 0);
	int fd = openat(in.root, "etc/f", O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
	assert_int_equal(write(fd, "image", 5), 5);
	(void)close(fd);
	assert_content("/etc/f", "image");
	assert_int_equal(count("/etc"), 1);
	assert_int_equal(count("/"), 4);
	for (size_t i = 0; i < ARRAY_SIZE(outside); i++) {
		assert_int_equal(ask(PROTO_FILE_PUT, outside[i], PROTO_FILE_OVERWRITE), EROFS);
		assert_int_equal(ask(PROTO_FILE_REMOVE, outside[i], PROTO_FILE_RECURSIVE), EROFS);
	}
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		assert_int_equal(ask(PROTO_FILE_OPEN, places[i], 0), EISDIR);
		assert_int_equal(ask(PROTO_FILE_PUT, places[i], PROTO_FILE_OVERWRITE), EISDIR);
		assert_int_equal(ask(PROTO_FILE_REMOVE, places[i], PROTO_FILE_RECURSIVE), EPERM);
	}
	/* no link leads from one place to another */
	assert_int_equal(symlinkat("../etc", in.tmp, "link"), 0);
	assert_int_equal(ask(PROTO_FILE_OPEN, "/tmp/link/f", 0), ELOOP);
	assert_int_equal(ask(PROTO_FILE_LIST, "/tmp/link", 0), ENOTDIR);
	/* a put that is to be named in another place than it was begun for */
	if (in.inward)
		return;
	assert_int_equal(ask(PROTO_FILE_PUT, "/etc/f", 0), EROFS);
	assert_int_equal(ask(PROTO_FILE_PUT, "x", 0), 0);
	(void)close(answer_fd);
	assert_int_equal(ask(PROTO_FILE_COMMIT, "/etc/x", 0), EROFS);
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
		const bool brings =
		    op == PROTO_FILE_OPEN || op == PROTO_FILE_LIST || op == PROTO_FILE_COMMIT;

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

#define BOTH(test)                                                                                 \
	cmocka_unit_test_setup_teardown(test, set_up, tear_down),                                  \
	    cmocka_unit_test_prestate_setup_teardown(test, set_up, tear_down, &in)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    BOTH(test_put),
	    BOTH(test_puts_at_once),
	    BOTH(test_open),
	    BOTH(test_remove),
	    BOTH(test_list),
	    BOTH(test_places),
	    BOTH(test_without_rights),
	    BOTH(test_impossible),
	    BOTH(test_stored_is_flushed),
	    cmocka_unit_test_prestate_setup_teardown(test_files_brought, set_up, tear_down, &in),
	    cmocka_unit_test_prestate_setup_teardown(test_copies_at_once, set_up, tear_down, &in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
