/* SPDX-License-Identifier: Apache-2.0 */
/* base: buffers, parsers, text, descriptors, errors. Tables of rows; the comment says why a row is
 * there. */
#include "base/buf.h"
#include "base/err.h"
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/suggest.h"
#include "base/text.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cmocka.h>

static void buf_keeps_its_maximum(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(10);

	(void)state;
	assert_string_equal(buf_str(&b), "");
	assert_int_equal(buf_add_str(&b, "12345"), 0);
	assert_int_equal(buf_add_str(&b, "678901"), -ENOBUFS);
	assert_string_equal(buf_str(&b), "12345");
	assert_int_equal(buf_printf(&b, "%d", 67890), 0);
	assert_int_equal(buf_add_char(&b, 'x'), -ENOBUFS);
	assert_int_equal(b.len, 10);
	buf_consume(&b, 4);
	assert_string_equal(buf_str(&b), "567890");
	char *s = buf_take(&b);
	assert_string_equal(s, "567890");
	free(s);
	assert_int_equal(b.len, 0);
}

static void sizes(void **state)
{
	static const struct {
		const char *in;
		int r;
		uint64_t v;
	} rows[] = {
	    {"512m", 0, UINT64_C(512) << 20},
	    {"1g", 0, UINT64_C(1) << 30},
	    {"1GB", 0, UINT64_C(1) << 30},
	    {"1.5gib", 0, UINT64_C(3) << 29},
	    {"1048576", 0, 1048576},
	    {"10b", 0, 10},
	    {"", -EINVAL, 0},
	    {"m", -EINVAL, 0},
	    {"1.", -EINVAL, 0},
	    {"-1", -EINVAL, 0},
	    {" 1", -EINVAL, 0},
	    {"1 m", -EINVAL, 0},
	    {"1mm", -EINVAL, 0},
	    {"0x10", -EINVAL, 0},
	    {"99999999999999999999", -ERANGE, 0}, /* does not fit 64 bits */
	    {"99999999999t", -ERANGE, 0},         /* the multiple does not */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t v = 0;
		assert_int_equal(parse_size(rows[i].in, 0, UINT64_MAX, &v), rows[i].r);
		assert_int_equal(v, rows[i].v);
	}
}

static void numbers(void **state)
{
	uint64_t u = 7;
	int64_t i = 7;
	bool b = false;

	(void)state;
	assert_int_equal(parse_u64("18446744073709551615", 0, UINT64_MAX, &u), 0);
	assert_true(u == UINT64_MAX);
	assert_int_equal(parse_u64("18446744073709551616", 0, UINT64_MAX, &u), -ERANGE);
	assert_int_equal(parse_u64("+1", 0, 9, &u), -EINVAL);
	assert_int_equal(parse_u64("10", 0, 9, &u), -ERANGE);
	assert_int_equal(parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &i), 0);
	assert_true(i == INT64_MIN);
	assert_int_equal(parse_i64("9223372036854775808", INT64_MIN, INT64_MAX, &i), -ERANGE);
	assert_int_equal(parse_i64("--1", INT64_MIN, INT64_MAX, &i), -EINVAL);
	assert_int_equal(parse_milli("0.5", 1, 1000000, &u), 0);
	assert_int_equal(u, 500);
	assert_int_equal(parse_milli("2", 1, 1000000, &u), 0);
	assert_int_equal(u, 2000);
	assert_int_equal(parse_milli("1.0001", 1, 1000000, &u), -EINVAL);
	assert_int_equal(parse_milli("nan", 1, 1000000, &u), -EINVAL);
	assert_int_equal(parse_bool("On", &b), 0);
	assert_true(b);
	assert_int_equal(parse_bool("maybe", &b), -EINVAL);
}

static void ids(void **state)
{
	char long_id[66];

	(void)state;
	memset(long_id, 'A', sizeof(long_id));
	assert_true(parse_is_session_id("abc", 3));
	assert_true(parse_is_session_id("0", 1));
	assert_true(parse_is_session_id(long_id, 64));
	assert_false(parse_is_session_id(long_id, 65));
	assert_false(parse_is_session_id("", 0));
	assert_false(parse_is_session_id("abc\n", 4)); /* the original's anchor let this pass */
	assert_false(parse_is_session_id("a\0b", 3));
	assert_false(parse_is_session_id("a b", 3));
	assert_true(parse_is_filename(".hidden", 7));
	assert_false(parse_is_filename("a/b", 3));
	assert_false(parse_is_filename("x\n", 2));
	assert_true(parse_is_image_name("science", 7));
	assert_false(parse_is_image_name("..", 2));
	assert_false(parse_is_image_name("Science", 7));
	assert_false(parse_is_image_name("a/b", 3));
}

static void host_ports(void **state)
{
	char host[64];
	uint16_t port;

	(void)state;
	assert_int_equal(parse_host_port("127.0.0.1:8181", host, sizeof(host), &port), 0);
	assert_string_equal(host, "127.0.0.1");
	assert_int_equal(port, 8181);
	assert_int_equal(parse_host_port("[::1]:0", host, sizeof(host), &port), 0);
	assert_string_equal(host, "::1");
	assert_int_equal(parse_host_port("::1:80", host, sizeof(host), &port), -EINVAL);
	assert_int_equal(parse_host_port("localhost", host, sizeof(host), &port), -EINVAL);
	assert_int_equal(parse_host_port("h:65536", host, sizeof(host), &port), -ERANGE);
}

static void utf8(void **state)
{
	static const struct {
		const char *in;
		size_t len;
		const char *out; /* as Python's decode('utf-8', 'replace') */
	} rows[] = {
	    {"plain", 5, "plain"},
	    {"\xC3\xA9", 2, "\xC3\xA9"},
	    {"\xC3", 1, "\xEF\xBF\xBD"},                                 /* cut sequence */
	    {"\xE2\x82", 2, "\xEF\xBF\xBD"},                             /* cut: one mark */
	    {"\xC0\xAF", 2, "\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* overlong */
	    {"\xED\xA0\x80", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* surrogate */
	    {"\xF0\x9F\x98\x80", 4, "\xF0\x9F\x98\x80"},
	    {"\xF4\x90\x80\x80", 4,
	     "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* > U+10FFFF */
	    {"a\xFF"
	     "b",
	     3,
	     "a\xEF\xBF\xBD"
	     "b"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(100);
		assert_int_equal(text_add_utf8_lossy(&b, rows[i].in, rows[i].len), 0);
		assert_string_equal(buf_str(&b), rows[i].out);
		assert_int_equal(text_is_utf8(rows[i].in, rows[i].len),
				 strlen(rows[i].out) == rows[i].len &&
				     memcmp(rows[i].in, rows[i].out, rows[i].len) == 0);
		assert_true(text_is_utf8(b.data, b.len));
	}
	assert_int_equal(text_utf8_cut("ab\xC3\xA9", 4, 3), 2);
	assert_int_equal(text_utf8_cut("ab\xC3\xA9", 4, 4), 4);
	assert_int_equal(text_utf8_open("ab\xC3", 3), 1);
	assert_int_equal(text_utf8_open("ab\xC3\xA9", 4), 0);
	assert_int_equal(text_utf8_open("\xF0\x9F\x98", 3), 3);
	assert_int_equal(text_utf8_open("\x80\x80\x80\x80", 4), 0);
	assert_int_equal(text_utf8_open("", 0), 0);
}

static void percent(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(100);
	char out[32];
	size_t n;

	(void)state;
	assert_int_equal(text_add_percent(&b, "a b/\xC3\xA9?", 7, true), 0);
	assert_string_equal(buf_str(&b), "a%20b/%C3%A9%3F");
	assert_int_equal(text_percent_decode(b.data, b.len, out, &n), 0);
	assert_int_equal(n, 7);
	assert_memory_equal(out, "a b/\xC3\xA9?", 7);
	assert_int_equal(text_percent_decode("%0", 2, out, &n), -EINVAL);
	assert_int_equal(text_percent_decode("%zz", 3, out, &n), -EINVAL);
	assert_int_equal(text_percent_decode("%00", 3, out, &n), -EINVAL);
}

static void errors(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(err_set(&e, ERR_NOT_FOUND, ENOENT, "file '%s'", "x"), -ENOENT);
	assert_string_equal(e.text, "file 'x': No such file or directory");
	assert_int_equal(err_wrap(&e, "while reading"), -ENOENT);
	assert_string_equal(e.text, "while reading: file 'x': No such file or directory");
	assert_string_equal(err_code_name(e.code), "not_found");
	assert_int_equal(err_set(&e, ERR_USAGE, 0, "no"), -EIO);
	for (int code = 1; code < ERR_CODE_MAX_; code++) {
		assert_true(err_code_name((enum err_code)code)[0] != '\0');
		assert_in_range(err_code_http((enum err_code)code), 400, 599);
		assert_in_range(err_code_exit((enum err_code)code), 1, 255);
	}
}

static void descriptors_travel(void **state)
{
	int pair[2], got[FDIO_PASS_MAX];
	char text[8];
	size_t n = 0;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	_cleanup_fd_ int memfd = fd_sealed_memfd("test", "hello", 5);
	assert_true(memfd >= 0);
	assert_int_equal(fd_send(pair[0], "x", 1, (int[]){memfd, memfd}, 2, 0), 1);
	assert_int_equal(fd_recv(pair[1], text, sizeof(text), got, &n, 0), 1);
	assert_int_equal(n, 2);
	assert_int_equal(pread(got[0], text, 5, 0), 5);
	assert_memory_equal(text, "hello", 5);
	assert_true(write(got[0], "y", 1) < 0); /* sealed */
	fd_close_many(got, n);
	/* A message that is longer than the receiver's buffer is refused, not cut. */
	assert_int_equal(fd_send(pair[0], "0123456789", 10, &memfd, 1, 0), 10);
	assert_int_equal(fd_recv(pair[1], text, sizeof(text), got, &n, 0), -EPROTO);
	(void)close(pair[0]);
	assert_int_equal(fd_recv(pair[1], text, sizeof(text), got, &n, 0), 0);
	(void)close(pair[1]);
}

/* gVisor's kernel has no openat2(2). The filter stays, so this comes last. */
static void beneath(void **state);
static void beneath_by_walking(void **state)
{
	struct sock_filter rows[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {.len = ARRAY_SIZE(rows), .filter = rows};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
	assert_int_equal(syscall(SYS_openat2, -1, "", NULL, 0), -1);
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(fd_open_beneath(AT_FDCWD, "../etc", O_PATH, 0), -EXDEV);
	_cleanup_fd_ int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fd_open_beneath(top, "proc/self", O_PATH, 0), -EXDEV); /* another mount */
	_cleanup_fd_ int etc = fd_open_beneath(top, "etc//./", O_PATH | O_DIRECTORY, 0);
	assert_true(etc >= 0);
	beneath(state);
}

static void beneath(void **state)
{
	char dir[] = "/tmp/caisson-test-XXXXXX", path[128];

	(void)state;
	assert_non_null(mkdtemp(dir));
	_cleanup_fd_ int root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(root >= 0);
	assert_int_equal(mkdirat(root, "sub", 0755), 0);
	assert_int_equal(symlinkat("/etc", root, "link"), 0);
	assert_int_equal(mkfifoat(root, "fifo", 0644), 0);
	int fd = fd_open_beneath(root, "sub/file", O_WRONLY | O_CREAT | O_EXCL, 0644);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(fd_open_beneath(root, "link/passwd", O_RDONLY, 0), -ELOOP);
	assert_int_equal(fd_open_beneath(root, "link", O_RDONLY, 0), -ELOOP);
	assert_int_equal(fd_open_beneath(root, "sub/file/x", O_RDONLY, 0), -ENOTDIR);
	assert_int_equal(fd_open_beneath(root, "sub/none", O_RDONLY, 0), -ENOENT);
	assert_int_equal(fd_open_beneath(root, "../x", O_RDONLY, 0), -EXDEV);
	assert_int_equal(fd_open_beneath(root, "/etc/passwd", O_RDONLY, 0), -EXDEV);
	assert_int_equal(fd_open_beneath(root, "fifo", O_WRONLY, 0), -ENXIO); /* does not block */
	assert_int_equal(unlinkat(root, "sub/file", 0), 0);
	assert_int_equal(unlinkat(root, "sub", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(root, "link", 0), 0);
	assert_int_equal(unlinkat(root, "fifo", 0), 0);
	(void)snprintf(path, sizeof(path), "%s/a/b/c", dir);
	assert_int_equal(fd_make_dirs(path, 0755), 0);
	assert_int_equal(fd_make_dirs(path, 0755), 0);
	assert_int_equal(unlinkat(root, "a/b/c", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(root, "a/b", AT_REMOVEDIR), 0);
	assert_int_equal(unlinkat(root, "a", AT_REMOVEDIR), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* What clients can cause at will fills no disk, and what was left out is said; other events are not held back. */
static void log_bounds_what_comes_often(void **state)
{
	char path[] = "/tmp/caisson-often-XXXXXX", text[65536];
	struct log_config c = {.level = LOG_LEVEL_INFO, .file = path};
	int fd = mkstemp(path), lines = 0;

	(void)state;
	assert_true(fd >= 0);
	log_configure(&c);
	for (unsigned i = 0; i < 5000; i++) {
		LOG_OFTEN(LOG_LEVEL_WARNING, "refused", LOG_U("i", i));
		if (i % 1000 == 0)
			LOG_INFO("other", LOG_U("i", i));
	}
	log_configure(&(struct log_config){.level = LOG_LEVEL_INFO, .to_stderr = true});
	ssize_t n = read(fd, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	for (const char *l = text; (l = strchr(l, '\n')); l++)
		lines++;
	assert_int_equal(lines, LOG_OFTEN_MAX + 5 + 1);
	assert_non_null(strstr(text, "lines_left_out of=\"refused\" lines=4940\n"));
	assert_int_equal(close(fd), 0);
	(void)unlink(path);
}

/* Root's log is not led elsewhere: the default path is relative, and so may be in a folder of
 * somebody else. */
static void log_follows_no_link(void **state)
{
	char dir[] = "/tmp/caisson-test-XXXXXX", path[128], other[128];
	struct log_config c = {.level = LOG_LEVEL_INFO, .file = path};
	struct stat st;

	(void)state;
	if (geteuid() != 0) {
		print_message("skipped: only root's log may be led elsewhere\n");
		skip();
	}
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/log", dir);
	(void)snprintf(other, sizeof(other), "%s/other", dir);
	for (int hard = 0; hard < 2; hard++) {
		_cleanup_fd_ int fd = open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		assert_true(fd >= 0);
		assert_int_equal(hard ? link(other, path) : symlink(other, path), 0);
		log_configure(&c);
		LOG_INFO("elsewhere");
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, 0);
		assert_int_equal(unlink(path), 0);
		assert_int_equal(unlink(other), 0);
	}
	log_configure(&c);
	LOG_INFO("here");
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 0);
	log_configure(&(struct log_config){.level = LOG_LEVEL_INFO, .to_stderr = true});
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

/* ---- jsonio ---- */

static long json_fail_at;

static void *json_allocate(size_t size)
{
	return json_fail_at > 0 && --json_fail_at == 0 ? NULL : malloc(size);
}

static void test_min_max(void **state UNUSED)
{
	int n = 0;

	assert_int_equal(MIN(n++, 5), 0);
	assert_int_equal(n, 1);
	assert_int_equal(MAX(n++, MIN(n++, 7)), 2);
	assert_int_equal(n, 3);
	assert_true(MAX(INT64_C(-1), INT64_C(-2)) == -1);
	assert_true(MIN(UINT64_MAX, UINT64_C(3)) == 3);
}

/* Each allocation fails once: the text is read or there is no memory, never anything else. */
static void test_jsonio_without_memory(void **state UNUSED)
{
	static const char text[] =
	    "{\"a key that is longer than the first buffer\":[1,2.5,true,null,"
	    "\"a string \\u00e9 that is longer, too, than what there is\",{}],"
	    "\"b\":-7}";
	char *clean = NULL;
	size_t len;
	long n = 1;

	json_set_alloc_funcs(json_allocate, free);
	for (bool failed = true; failed; n++) {
		json_t *root;

		json_fail_at = n;
		int r = jsonio_read(text, strlen(text), 0, &root, NULL);
		failed = json_fail_at == 0;
		json_fail_at = 0;
		assert_int_equal(r, failed ? -ENOMEM : 0);
		assert_int_equal(root == NULL, failed);
		if (!failed)
			clean = jsonio_text(root, JSON_COMPACT, &len);
		json_decref(root);
	}
	json_set_alloc_funcs(malloc, free);
	assert_in_range(n, 10, 200);
	assert_non_null(clean);
	assert_int_equal(len, strlen(clean));
	assert_non_null(strstr(clean, "\"b\":-7}"));
	free(clean);
}

static void *read_apart(void *user)
{
	const struct buf *text = user;
	size_t sum = 0;

	for (int i = 0; i < 20; i++) {
		json_t *root;

		if (jsonio_read_on_thread(text->data, text->len, 0, &root) < 0)
			return NULL;
		sum += json_array_size(root);
		json_decref(root);
	}
	return (void *)(uintptr_t)sum;
}

/* Threads read texts while the loop reads others. */
static void test_jsonio_on_threads(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(1u << 20);
	pthread_t threads[3];
	json_t *root;
	void *sum;

	assert_int_equal(buf_add_char(&text, '['), 0);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(buf_printf(&text, "{\"k\":\"%d\",\"n\":[%d]},", i, i), 0);
	assert_int_equal(buf_add_str(&text, "0]"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_apart, &text), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(jsonio_read(text.data, text.len, 0, &root, NULL), 0);
		assert_int_equal(json_array_size(root), 2001);
		json_decref(root);
	}
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		assert_int_equal(pthread_join(threads[i], &sum), 0);
		assert_int_equal((uintptr_t)sum, 20 * 2001);
	}
	assert_int_equal(jsonio_read_on_thread("{", 1, 0, &root), -EBADMSG);
	assert_null(root);
}

static void test_jsonio(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf small = BUF_INIT(20);
	json_error_t e;
	json_t *root;

	assert_int_equal(jsonio_read("{\"a\":", 5, 0, &root, &e), -EBADMSG);
	assert_null(root);
	assert_int_equal(jsonio_read("{\"a\":1,\"a\":2}", 13, JSON_REJECT_DUPLICATES, &root, &e),
			 -EBADMSG);
	assert_int_equal(json_error_code(&e), json_error_duplicate_key);
	assert_int_equal(jsonio_read("[\"a key and more\"]", 18, 0, &root, NULL), 0);
	assert_int_equal(jsonio_add(&small, root, JSON_COMPACT), 0);
	assert_string_equal(buf_str(&small), "[\"a key and more\"]");
	assert_int_equal(jsonio_add(&small, root, JSON_COMPACT), -ENOBUFS);
	json_decref(root);
	assert_null(jsonio_text(NULL, 0, &(size_t){0}));
	assert_int_equal(jsonio_count("[1,[],\"a,[{\\\",\"]", 16, 100, 2), 5);
	assert_int_equal(jsonio_count("[1,[],\"a,[{\\\",\"]", 16, 2, 2), 3);
	assert_int_equal(jsonio_count("[[[]]]", 6, 100, 2), 0);
	assert_int_equal(jsonio_count("[]]]]{\"", 7, 100, 1), 3);
}

/* What is written in compact or in indented form is what jansson writes, byte by byte. */
static void test_jsonio_as_jansson(void **state UNUSED)
{
	json_t *all = json_object();
	char text[256];
	size_t len;

	for (size_t i = 0; i < 128; i++)
		text[i] = (char)i;
	(void)json_object_set_new(all, "every \"\x01 byte", json_stringn(text, 128));
	(void)json_object_set_new(all, "\xc3\xa4",
				  json_string("\xf0\x9f\x98\x80 \xe2\x82\xac\x7f/"));
	(void)json_object_set_new(all, "values",
				  json_pack("[i, I, f, f, f, b, b, n, [], {}, {s:[s]}, s]", 0,
					    INT64_MIN, 1.0, -0.1, 1e300, 0, 1, "a", "b", ""));
	char *ours = jsonio_text(all, JSON_COMPACT, &len);
	char *theirs = json_dumps(all, JSON_COMPACT);
	assert_string_equal(ours, theirs);
	assert_int_equal(len, strlen(theirs));
	assert_in_range(jsonio_size(all, 1u << 20), len, len + 8 * 24);
	assert_in_range(jsonio_size(all, 10), 11, 1000);
	free(ours);
	free(theirs);
	ours = jsonio_text(all, JSON_INDENT(2), &len);
	theirs = json_dumps(all, JSON_INDENT(2));
	assert_string_equal(ours, theirs);
	free(ours);
	free(theirs);
	json_decref(all);

	/* A string that is not UTF-8 is not written. */
	json_t *bad = json_pack("[o]", json_stringn_nocheck("a\xff", 2));
	assert_null(jsonio_text(bad, JSON_COMPACT, &len));
	json_decref(bad);
	/* Nor what is nested without end. */
	json_t *deep = json_array();
	for (unsigned i = 0; i <= JSONIO_DEPTH_MAX; i++)
		deep = json_pack("[o]", deep);
	assert_null(jsonio_text(deep, JSON_COMPACT, &len));
	json_decref(deep);
}

static void suggestions(void **state UNUSED)
{
	static const struct {
		const char *word, *meant; /* NULL: nothing is near */
	} rows[] = {
	    {"imgae", "image"},
	    {"conf", "config"},
	    {"IMAGE", "image"},
	    {"fly", NULL},
	    {"", NULL},
	    {"c", NULL},
	    {"stdoi", "stdio"},
	    {"a-very-long-word-that-is-longer-than-every-name-which-could-have-been-meant-here",
	     NULL},
	};
	static const char *const names[] = {"stdio", "image", "config", "key"};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct suggest s = suggest_for(rows[i].word);
		char text[64] = "";

		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			suggest_offer(&s, names[k]);
		if (rows[i].meant)
			(void)snprintf(text, sizeof(text), "; did you mean '%s'?", rows[i].meant);
		assert_string_equal(suggest_text(&s), text);
	}
}

static void words(void **state UNUSED)
{
	const char *word;
	size_t at = 0;

	assert_int_equal(text_next_word("on|off", &at, &word), 2);
	assert_int_equal(text_next_word("on|off", &at, &word), 3);
	assert_int_equal(text_next_word("on|off", &at, &word), 0);
	assert_true(text_is_word("on|off", "off"));
	assert_false(text_is_word("on|off", "of") || text_is_word("on|off", "on|off"));
	assert_false(text_is_word("on|off", "") || text_is_word("", ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_min_max),
	    cmocka_unit_test(test_jsonio),
	    cmocka_unit_test(test_jsonio_as_jansson),
	    cmocka_unit_test(test_jsonio_without_memory),
	    cmocka_unit_test(test_jsonio_on_threads),
	    cmocka_unit_test(buf_keeps_its_maximum),
	    cmocka_unit_test(sizes),
	    cmocka_unit_test(numbers),
	    cmocka_unit_test(words),
	    cmocka_unit_test(ids),
	    cmocka_unit_test(host_ports),
	    cmocka_unit_test(utf8),
	    cmocka_unit_test(percent),
	    cmocka_unit_test(suggestions),
	    cmocka_unit_test(errors),
	    cmocka_unit_test(descriptors_travel),
	    cmocka_unit_test(beneath),
	    cmocka_unit_test(log_bounds_what_comes_often),
	    cmocka_unit_test(log_follows_no_link),
	    cmocka_unit_test(beneath_by_walking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
