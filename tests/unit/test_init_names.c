/* SPDX-License-Identifier: Apache-2.0 */
/* init's file agent: the places that absolute paths lead to, and names of files. */
#include "init_files_world.h"

#include <sys/xattr.h>

static uint32_t count(const char *path)
{
	assert_int_equal(ask(PROTO_FILE_LIST, path, 0), 0);
	(void)close(answer_fd);
	return answer.n;
}

static struct proto_stat look(const char *path)
{
	struct proto_stat st;

	assert_int_equal(ask(PROTO_FILE_STAT, path, 0), 0);
	assert_int_equal(answer.n, 1);
	assert_int_equal(pread(answer_fd, &st, sizeof(st), 0), sizeof(st));
	(void)close(answer_fd);
	assert_string_equal(st.entry.name, "");
	return st;
}

static void link_to(const char *target, const char *name)
{
	assert_int_equal(symlinkat(target, in.workspace, name), 0);
}

static void test_stat(void **state UNUSED)
{
	static const char *const nothing[] = {"loop", "gone", "proc", "process", "held"};

	put("a/f", "four");
	struct proto_stat st = look("a/f");
	assert_int_equal(st.entry.mode, S_IFREG | 0644);
	assert_int_equal(st.entry.size, 4);
	assert_int_equal(st.entry.uid, getuid());
	assert_int_equal(st.entry.gid, getgid());
	assert_int_equal(st.entry.nlink, 1);
	assert_true(st.entry.mtime_ns > 0 && st.entry.inode != 0);
	assert_string_equal(st.target, "");
	assert_true(S_ISDIR(look("a").entry.mode));
	/* places themselves */
	assert_int_equal(look("").entry.inode, look("/home/user").entry.inode);
	assert_true(S_ISDIR(look("/").entry.mode) && S_ISDIR(look("/tmp").entry.mode));
	assert_int_equal(ask(PROTO_FILE_STAT, "none", 0), ENOENT);
	assert_int_equal(ask(PROTO_FILE_STAT, "/none", 0), ENOENT);
	assert_int_equal(ask(PROTO_FILE_STAT, "a/f/x", 0), ENOTDIR);
	/* links: what they say, and what is at their end */
	link_to("a/f", "file");
	link_to("file", "second");
	link_to("a", "folder");
	link_to("loop", "loop");
	link_to("nothing", "gone");
	link_to("/proc/self/status", "proc");
	link_to("/proc/self", "process");
	link_to("/proc/self/fd/1", "held");
	link_to("/dev/null", "device");
	st = look("file");
	assert_true(S_ISLNK(st.entry.mode));
	assert_string_equal(st.target, "a/f");
	assert_int_equal(st.target_mode, S_IFREG | 0644);
	assert_int_equal(st.target_size, 4);
	st = look("second");
	assert_string_equal(st.target, "file");
	assert_int_equal(st.target_size, 4);
	assert_true(S_ISDIR(look("folder").target_mode));
	assert_true(S_ISCHR(look("device").target_mode));
	for (size_t i = 0; i < ARRAY_SIZE(nothing); i++) {
		st = look(nothing[i]);
		assert_true(S_ISLNK(st.entry.mode) && st.target[0] != '\0');
		assert_int_equal(st.target_mode, 0);
		assert_int_equal(st.target_size, 0);
	}
	assert_int_equal(ask(PROTO_FILE_STAT, "folder/f", 0), ENOTDIR);
	assert_int_equal(mkfifoat(in.workspace, "fifo", 0600), 0);
	assert_true(S_ISFIFO(look("fifo").entry.mode));
}

static void test_make(void **state UNUSED)
{
	struct stat st;

	assert_int_equal(ask(PROTO_FILE_MAKE, "a/b/c", 0), 0);
	assert_int_equal(fstatat(in.workspace, "a/b/c", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0755);
	assert_int_equal(ask(PROTO_FILE_MAKE, "a/b/c", 0), EEXIST);
	assert_int_equal(ask(PROTO_FILE_MAKE, "a/b", 0), EEXIST);
	put("f", "");
	assert_int_equal(ask(PROTO_FILE_MAKE, "f", 0), EEXIST);
	assert_int_equal(ask(PROTO_FILE_MAKE, "f/x", 0), ENOTDIR);
	assert_int_equal(symlinkat("/etc", in.workspace, "link"), 0);
	assert_int_equal(ask(PROTO_FILE_MAKE, "link", 0), EEXIST);
	assert_int_equal(ask(PROTO_FILE_MAKE, "link/x", 0), ENOTDIR);
	assert_int_equal(ask(PROTO_FILE_MAKE, "", 0), EEXIST);
	assert_int_equal(ask(PROTO_FILE_MAKE, "/home/user", 0), EEXIST);
	assert_int_equal(ask(PROTO_FILE_MAKE, "/tmp/x/y", 0), 0);
	assert_int_equal(fstatat(in.tmp, "x/y", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(ask(PROTO_FILE_MAKE, "/etc/x", 0), EROFS);
	assert_int_equal(ask(PROTO_FILE_MAKE, "/", 0), EROFS);
}

/* LEN bytes of names and values. */
static int set(const char *path, const char *attributes, size_t len)
{
	static struct proto_init_set m;
	int fds[FDIO_PASS_MAX];
	size_t n = 0;

	m = (struct proto_init_set){.seq = ++seq, .bytes = (uint32_t)len};
	(void)snprintf(m.path, sizeof(m.path), "%s", path);
	memcpy(m.attributes, attributes, MIN(len, sizeof(m.attributes)));
	if (files_set(&in, &m) < 0)
		return -1;
	assert_int_equal(fd_recv(front, &answer, sizeof(answer), fds, &n, MSG_DONTWAIT),
			 sizeof(answer));
	assert_int_equal(answer.seq, seq);
	assert_int_equal(n, 0);
	return answer.errnum;
}
#define SET(path, text) set(path, text, sizeof(text))

static uint32_t has_attributes(const char *folder, uint32_t flags)
{
	struct proto_entry e;

	assert_int_equal(ask(PROTO_FILE_LIST, folder, flags), 0);
	assert_int_equal(answer.n, 1);
	assert_int_equal(pread(answer_fd, &e, sizeof(e), 0), sizeof(e));
	(void)close(answer_fd);
	return e.attributes;
}

static void test_attributes(void **state UNUSED)
{
	static const char want[] = "user.a\0one\0user.b\0";
	static char full[PROTO_ATTRIBUTES_MAX];

	put("a/f", "four");
	assert_int_equal(look("a/f").entry.attributes, 0);
	assert_int_equal(has_attributes("a", PROTO_FILE_ATTRIBUTES), 0);
	if (SET("a/f", "user.b\0") == ENOTSUP) {
		skip(); /* Linux before 6.6: tmpfs(5) keeps none */
		return;
	}
	assert_int_equal(SET("a/f", "user.a\0one"), 0);
	struct proto_stat st = look("a/f");
	assert_int_equal(st.entry.attributes, sizeof(want));
	/* in either order */
	assert_non_null(memmem(st.attributes, sizeof(want), "user.a\0one", 11));
	assert_non_null(memmem(st.attributes, sizeof(want), "user.b\0", 8));
	assert_int_equal(has_attributes("a", PROTO_FILE_ATTRIBUTES), 1);
	assert_int_equal(has_attributes("a", 0), 0);
	/* what a program has set: no text, and more than is told */
	const int fd = openat(in.workspace, "a/f", O_WRONLY);
	assert_int_equal(fsetxattr(fd, "user.bytes", "a\0b", 3, 0), 0);
	memset(full, 'x', sizeof(full));
	(void)!fsetxattr(fd, "user.full", full, 2000, 0);
	(void)!fsetxattr(fd, "user.fuller", full, 2000, 0);
	(void)!fsetxattr(fd, "user.fullest", full, 2000, 0);
	(void)close(fd);
	st = look("a/f");
	assert_true(st.entry.attributes <= sizeof(st.attributes));
	assert_int_equal(st.attributes[st.entry.attributes - 1], 0);
	assert_null(memmem(st.attributes, st.entry.attributes, "user.bytes", 10));
	/* what is no file of the workspace, and what is no attribute */
	link_to("a/f", "link");
	assert_int_not_equal(SET("link", "user.a\0x"), 0);
	assert_int_equal(SET("none", "user.a\0x"), ENOENT);
	assert_int_equal(SET("a", "user.a\0x"), EISDIR);
	assert_int_equal(SET("/etc/x", "user.a\0x"), EROFS);
	assert_int_equal(SET("a/f", "trusted.a\0x"), -1);
	assert_int_equal(SET("a/f", "security.a\0x"), -1);
	assert_int_equal(SET("a/f", "user.\0x"), -1);
	assert_int_equal(SET("a/f", "user.a"), -1);
	assert_int_equal(set("a/f", "user.a\0x", 8), -1);
	assert_int_equal(set("a/f", "", 0), -1);
	assert_int_equal(set("../f", want, sizeof(want)), -1);
	assert_int_equal(set("a/f", full, sizeof(full)), -1);
}

/* One request to its end, as ask(). */
static int move(const char *from, const char *to, uint32_t flags)
{
	static struct proto_init_move m;
	int fds[FDIO_PASS_MAX];
	size_t n = 0;

	m = (struct proto_init_move){.seq = ++seq, .flags = flags};
	(void)snprintf(m.from, sizeof(m.from), "%s", from);
	(void)snprintf(m.to, sizeof(m.to), "%s", to);
	if (files_move(&in, &m) < 0)
		return -1;
	assert_int_equal(fd_recv(front, &answer, sizeof(answer), fds, &n, MSG_DONTWAIT),
			 sizeof(answer));
	assert_int_equal(answer.seq, seq);
	assert_int_equal(n, 0);
	return answer.errnum;
}

static void test_refused_moves(void **state UNUSED)
{
	static const struct {
		const char *from, *to;
		int errnum;
	} rows[] = {
	    {"none", "x/y", ENOENT},
	    {"f/none", "x/y", ENOENT},
	    {"link/f", "x/y", ENOENT},
	    {"/none/f", "x/y", EROFS},
	    {"f", "g", EEXIST},
	    {"f", "f", EEXIST},
	    {"f", "full", EEXIST},
	    {"f", "link", EEXIST},
	    {"f", "g/x", ENOTDIR},
	    {"f", "link/x", ENOTDIR},
	    {"f", "", EEXIST},
	    {"full", "full/in/it", EINVAL},
	    {"full", "full", EEXIST},
	    {"/tmp", "tmp", EPERM},
	    {"", "x", EPERM},
	    {"f", "/tmp/f", EXDEV},
	    {"f", "/home/sandbox/f", EXDEV},
	    {"/tmp/t", "t", EXDEV},
	    {"f", "/etc/f", EROFS},
	    {"/etc/f", "x", EROFS},
	};
	struct stat st;

	put("f", "f");
	put("g", "g");
	put("full/f", "in");
	put("/tmp/t", "t");
	assert_int_equal(mkdirat(in.workspace, "empty", 0755), 0);
	assert_int_equal(symlinkat("full", in.workspace, "link"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (move(rows[i].from, rows[i].to, 0) != rows[i].errnum)
			fail_msg("'%s' to '%s': %d", rows[i].from, rows[i].to, answer.errnum);
	/* what is refused has made no folder */
	assert_int_equal(fstatat(in.workspace, "x", &st, 0), -1);
	assert_int_equal(fstatat(in.workspace, "full/in", &st, 0), -1);
	/* what the front never asks */
	assert_int_equal(move("../x", "y", 0), -1);
	assert_int_equal(move("f", "a//y", 0), -1);
	assert_int_equal(move("f", "y", 2), -1);
}

static void test_move(void **state UNUSED)
{
	put("f", "f");
	put("g", "g");
	put("full/f", "in");
	put("/tmp/t", "t");
	assert_int_equal(mkdirat(in.workspace, "empty", 0755), 0);
	assert_int_equal(symlinkat("full", in.workspace, "link"), 0);
	assert_int_equal(move("f", "a/b/f", 0), 0);
	assert_content("a/b/f", "f");
	assert_int_equal(ask(PROTO_FILE_OPEN, "f", 0), ENOENT);
	assert_int_equal(move("a/b/f", "/home/user/f", 0), 0); /* two names of one place */
	assert_int_equal(move("full", "fuller", 0), 0);
	assert_content("fuller/f", "in");
	assert_int_equal(move("link", "other", 0), 0); /* the link itself */
	assert_true(S_ISLNK(look("other").entry.mode));
	/* replacing */
	assert_int_equal(move("f", "g", PROTO_FILE_OVERWRITE), 0);
	assert_content("g", "f");
	assert_int_equal(move("g", "g", PROTO_FILE_OVERWRITE), 0);
	assert_int_equal(move("g", "empty", PROTO_FILE_OVERWRITE), EEXIST);
	assert_int_equal(move("empty", "g", PROTO_FILE_OVERWRITE), EEXIST);
	assert_int_equal(move("empty", "fuller", PROTO_FILE_OVERWRITE), ENOTEMPTY);
	assert_int_equal(move("fuller", "empty", PROTO_FILE_OVERWRITE), 0);
	assert_content("empty/f", "in");
	assert_int_equal(move("g", "other", PROTO_FILE_OVERWRITE), 0);
	assert_content("other", "f");
	assert_int_equal(move("/tmp/t", "/tmp/u/t", 0), 0);
	assert_content("/tmp/u/t", "t");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    BOTH(test_places), BOTH(test_stat), BOTH(test_attributes),
	    BOTH(test_make),   BOTH(test_move), BOTH(test_refused_moves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
