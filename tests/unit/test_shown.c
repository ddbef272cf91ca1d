/* SPDX-License-Identifier: Apache-2.0 */
/* What a run shows: marks in stdout in pieces of every length, records that lie, and the bounds of the list. */
#include "engine/front/inside/records.h"
#include "sandbox/shown.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/text.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define B "\033_caisson:B\033\\"
#define E "\033_caisson:E\033\\"

struct seen {
	struct buf log; /* text, with <…> for records and | for the end of their text */
	unsigned texts;
};

static void on_text(void *user, const char *data, size_t len)
{
	struct seen *s = user;

	s->texts++;
	assert_true(len > 0);
	assert_int_equal(buf_add(&s->log, data, len), 0);
}

static void on_record(void *user, const void *data, size_t len)
{
	struct seen *s = user;

	if (!data)
		assert_int_equal(buf_add_char(&s->log, '|'), 0);
	else
		assert_int_equal(buf_printf(&s->log, "<%.*s>", (int)(len - RECORD_HEAD),
					    (const char *)data + RECORD_HEAD),
				 0);
}

static size_t put(int fd, size_t at, const char *magic, uint32_t len, const char *body)
{
	const uint32_t head[2] = {1, len};
	const size_t n = strlen(body);

	assert_int_equal(pwrite(fd, magic, 4, (off_t)(RECORDS_AT + at)), 4);
	assert_int_equal(pwrite(fd, head, 8, (off_t)(RECORDS_AT + at + 4)), 8);
	assert_int_equal(pwrite(fd, body, n, (off_t)(RECORDS_AT + at + RECORD_HEAD)), n);
	return at + RECORD_HEAD + n;
}

static int file_with(const char *const *bodies)
{
	int fd = memfd_create("result", MFD_CLOEXEC);
	size_t at = 0;

	assert_true(fd >= 0);
	for (size_t i = 0; bodies[i]; i++)
		at = put(fd, at, RECORD_MAGIC, (uint32_t)strlen(bodies[i]), bodies[i]);
	return fd;
}

static void check(const char *output, size_t len, size_t piece, const char *const *bodies,
		  const char *wanted)
{
	_cleanup_fd_ int fd = file_with(bodies);
	struct seen seen = {.log = BUF_INIT(1 << 20)};
	struct records r = {.fd = fd, .on_text = on_text, .on_record = on_record, .user = &seen};

	for (size_t at = 0; at < len; at += piece)
		records_take_output(&r, output + at, MIN(piece, len - at));
	records_end_output(&r);
	records_take_rest(&r);
	assert_string_equal(buf_str(&seen.log), wanted);
	buf_done(&seen.log);
}

static void test_marks(void **state UNUSED)
{
	static const char *const two[] = {"one", "two", NULL}, *const none[] = {NULL};
	static const struct {
		const char *output;
		const char *const *bodies;
		const char *wanted;
	} rows[] = {
	    {"plain", none, "plain"},
	    {"", two, "<one><two>"},
	    {"a" B "x" E "b" B E "c", two, "a<one>x|b<two>|c"},
	    {"a" B "x" E "b", two, "a<one>x|b<two>"},
	    {"a" B "x" E "b", none, "ax|b"}, /* forged */
	    {"\033_caisson:B\033" B "x", two, "\033_caisson:B\033<one>x<two>"},
	    {"\033\033\033" B "\033_caisson:C\033\\\033_cai", two,
	     "\033\033\033<one>\033_caisson:C\033\\\033_cai<two>"},
	    {"\033_caisson:E", none, "\033_caisson:E"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t piece = 1; piece < 40; piece++)
			check(rows[i].output, strlen(rows[i].output), piece, rows[i].bodies,
			      rows[i].wanted);
}

/* A flood of marks costs no more than a flood of text: beyond a bound they are text, in large pieces. */
static void test_flood(void **state UNUSED)
{
	static char output[4 << 20];
	struct seen seen = {.log = BUF_INIT(8 << 20)};
	struct records r = {.fd = -1, .on_text = on_text, .on_record = on_record, .user = &seen};
	size_t n = 0;

	for (; n + RECORD_MARK + 1 < sizeof(output); n += RECORD_MARK + 1)
		memcpy(output + n, B "x", RECORD_MARK + 1);
	records_take_output(&r, output, n);
	records_end_output(&r);
	assert_int_equal(r.marks, 2 * RECORDS_MAX);
	assert_int_equal(seen.log.len, n - r.marks * RECORD_MARK);
	assert_true(seen.texts < 2 * RECORDS_MAX + 200);
	buf_done(&seen.log);
}

static void test_lies(void **state UNUSED)
{
	struct seen seen = {.log = BUF_INIT(1 << 20)};
	_cleanup_fd_ int fd = memfd_create("result", MFD_CLOEXEC);
	struct records r = {.fd = fd, .on_text = on_text, .on_record = on_record, .user = &seen};

	size_t at = put(fd, 0, RECORD_MAGIC, 3, "yes");
	(void)put(fd, at, RECORD_MAGIC, UINT32_MAX, "no");
	records_take_rest(&r);
	assert_string_equal(buf_str(&seen.log), "<yes>");
	r = (struct records){.fd = fd, .on_text = on_text, .on_record = on_record, .user = &seen};
	(void)put(fd, at, RECORD_MAGIC, 100, "shorter than it says");
	buf_reset(&seen.log);
	records_take_rest(&r);
	assert_string_equal(buf_str(&seen.log), "<yes>");
	buf_done(&seen.log);
}

/* A record that is cut counts with the bytes that it says: else each of a thousand marks would read 2 MiB again. */
static void test_cut_record(void **state UNUSED)
{
	struct seen seen = {.log = BUF_INIT(1 << 20)};
	_cleanup_fd_ int fd = memfd_create("result", MFD_CLOEXEC);
	struct records r = {.fd = fd, .on_text = on_text, .on_record = on_record, .user = &seen};

	(void)put(fd, 0, RECORD_MAGIC, RECORD_MAX, "");
	assert_int_equal(ftruncate(fd, RECORDS_AT + RECORD_HEAD + RECORD_MAX - 1), 0);
	for (unsigned i = 0; i < 1000; i++)
		records_take_output(&r, B, RECORD_MARK);
	assert_int_equal(r.n, RECORDS_BYTES / RECORD_MAX + 1);
	assert_true(r.bytes < RECORDS_BYTES + 2 * RECORD_MAX);
	assert_string_equal(buf_str(&seen.log), "");
	buf_done(&seen.log);
}

static void test_text_before(void **state UNUSED)
{
	_cleanup_fd_ int fd = memfd_create("result", MFD_CLOEXEC);

	assert_int_equal(pwrite(fd, "value", 5, 0), 5);
	assert_false(records_follow(fd));
	(void)put(fd, 0, RECORD_MAGIC, 1, "a");
	assert_true(records_follow(fd));
	assert_int_equal(records_text_in("value\0\0\0", 8), 5);
	assert_int_equal(records_text_in("a\0b", 3), 3);
	assert_int_equal(records_text_in("\0\0", 2), 0);
	assert_int_equal(records_text_in("", 0), 0);
}

static int held_fd;
static atomic_bool let_go;

static void *hold(void *arg UNUSED)
{
	const off_t from = RECORDS_AT + (1 << 20), len = 64 << 20;

	while (!atomic_load(&let_go)) {
		(void)!fallocate(held_fd, 0, from, len);
		(void)!fallocate(held_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, len);
	}
	return NULL;
}

static long sleeps(void)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_THREAD, &u), 0);
	return u.ru_nvcsw;
}

/* A session that goes on has the file, too, and may hold its lock. Nothing here waits for it. */
static void test_held_file(void **state UNUSED)
{
	_cleanup_fd_ int fd = memfd_create("result", MFD_CLOEXEC);
	struct seen seen = {.log = BUF_INIT(1 << 20)};
	pthread_t thread;
	long own = 0, twin = 0;
	char text[64];

	(void)put(fd, 0, RECORD_MAGIC, 1, "a");
	held_fd = fd;
	assert_int_equal(pthread_create(&thread, NULL, hold, NULL), 0);
	for (int i = 0; i < 40; i++) {
		struct records r = {
		    .fd = fd, .on_text = on_text, .on_record = on_record, .user = &seen};

		(void)usleep(5000);
		long before = sleeps();
		assert_true(records_follow(fd));
		assert_int_equal(pread(fd, text, sizeof(text), 0), sizeof(text));
		records_take_rest(&r);
		own += sleeps() - before;
		before = sleeps();
		(void)lseek(fd, 0, SEEK_HOLE); /* the twin */
		twin += sleeps() - before;
	}
	atomic_store(&let_go, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(own, 0);
	assert_true(twin > 0);
	buf_done(&seen.log);
}

/* ---- the list ---- */

static struct buf record;

static void begin(uint32_t kind)
{
	const uint32_t len = 0;

	buf_reset(&record);
	record.max = 8 << 20;
	assert_int_equal(buf_add(&record, RECORD_MAGIC, 4), 0);
	assert_int_equal(buf_add(&record, &kind, 4), 0);
	assert_int_equal(buf_add(&record, &len, 4), 0);
}

static void part(const char *name, const void *data, uint64_t len)
{
	const uint16_t head[2] = {(uint16_t)strlen(name), data ? 0 : 1};

	assert_int_equal(buf_add(&record, head, 4), 0);
	assert_int_equal(buf_add(&record, &len, 8), 0);
	assert_int_equal(buf_add_str(&record, name), 0);
	if (data)
		assert_int_equal(buf_add(&record, data, len), 0);
}

static int add(struct shown_list *l, uint64_t at)
{
	return shown_list_add(l, record.data, record.len, at);
}

static void test_parts(void **state UNUSED)
{
	struct shown_list l = {.open = -1};

	begin(SHOWN_DISPLAY);
	part("text/html", "<b>", 3);
	part("text/plain", "\xff\xfe", 2); /* no UTF-8 */
	part("image/png", "\x89PNG\0", 5); /* bytes as they are */
	part("text/x\"y", "a", 1);         /* no type */
	part("a/b/c", "a", 1);             /* no type */
	part("file", "figure-1.png", 12);
	part("text/markdown", NULL, 100000000); /* left out inside */
	assert_int_equal(add(&l, 7), 0);
	assert_int_equal(shown_list_end_text(&l, 9), 0);
	assert_int_equal(shown_list_end_text(&l, 10), -ENOENT);
	shown_list_end(&l, 20);
	const struct shown *s = &l.items[0];
	assert_int_equal(s->n_parts, 4);
	assert_string_equal(s->parts[0].data, "<b>");
	assert_null(s->parts[1].data);
	assert_memory_equal(s->parts[2].data, "\x89PNG\0", 5);
	assert_null(s->parts[3].data);
	assert_int_equal(s->parts[3].len, 100000000);
	assert_string_equal(s->file, "figure-1.png");
	assert_true(s->at == 7 && s->end == 9);
	/* Cut anywhere, it is read to its end and not beyond. */
	for (size_t n = 0; n < record.len; n++) {
		char *copy = malloc(n + 1);
		struct shown_list cut = {.open = -1};

		memcpy(copy, record.data, n);
		(void)!shown_list_add(&cut, copy, n, 0);
		shown_list_done(&cut);
		free(copy);
	}
	shown_list_done(&l);
}

/* The end of a C string is no letter of a type. */
static void test_types(void **state UNUSED)
{
	static const char *const bad[] = {"a", "image\0/png", "/", "a/", "/b", "a b/c"};
	static const size_t len[] = {1, 10, 1, 2, 2, 5};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct shown_list l = {.open = -1};
		const uint16_t head[2] = {(uint16_t)len[i], 1};
		const uint64_t size = 1;

		begin(SHOWN_DISPLAY);
		assert_int_equal(buf_add(&record, head, 4), 0);
		assert_int_equal(buf_add(&record, &size, 8), 0);
		assert_int_equal(buf_add(&record, bad[i], len[i]), 0);
		assert_int_equal(add(&l, 0), 0);
		assert_int_equal(l.items[0].n_parts, 0);
		shown_list_done(&l);
	}
}

/* What is no text is left out when it comes: the end of a run has enough to do. */
static void test_bad_texts(void **state UNUSED)
{
	struct shown_list l = {.open = -1};

	begin(SHOWN_CLEAR); /* first of all: there is nothing yet */
	assert_int_equal(add(&l, 0), 0);
	begin(SHOWN_DISPLAY);
	part("text/html", "a\0b", 3);
	part("text/plain", "\xff", 1);
	part("text/markdown", "good", 4);
	assert_int_equal(add(&l, 0), 1);
	assert_null(l.items[1].parts[0].data);
	assert_null(l.items[1].parts[1].data);
	assert_string_equal(l.items[1].parts[2].data, "good");
	assert_int_equal(l.bytes, 4);
	assert_int_equal(l.items[1].bytes, 4);
	shown_list_done(&l);
}

static void test_bounds(void **state UNUSED)
{
	static char big[1 << 20];
	struct shown_list l = {.open = -1};

	memset(big, 'x', sizeof(big));
	for (unsigned i = 0; i < 2 * SHOWN_MAX; i++) {
		begin(SHOWN_DISPLAY);
		part("text/plain", "small", 5);
		part("text/html", big, sizeof(big));
		assert_int_equal(add(&l, i), i);
	}
	assert_int_equal(l.n, SHOWN_MAX);
	assert_int_equal(l.dropped, SHOWN_MAX);
	assert_true(l.bytes <= SHOWN_BYTES);
	assert_null(l.items[5].parts[1].data);
	assert_int_equal(l.items[5].parts[1].len, sizeof(big));
	assert_non_null(l.items[5].parts[0].data);
	/* What clears makes room, also if it waits for what follows. */
	for (int i = 0; i < 3; i++) {
		begin(SHOWN_CLEAR);
		part("wait", "1", 1);
		assert_true(add(&l, 500) > 0);
		assert_int_equal(l.n, SHOWN_MAX + 1);
	}
	begin(SHOWN_DISPLAY);
	part("text/plain", "new", 3);
	assert_true(add(&l, 500) > 0);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.items[1].parts[0].data, "new");
	begin(SHOWN_CLEAR);
	assert_true(add(&l, 1000) > 0);
	assert_int_equal(l.n, 1);
	assert_int_equal(l.bytes, 0);
	shown_list_done(&l);
}

static void test_clear_and_update(void **state UNUSED)
{
	struct shown_list l = {.open = -1};

	begin(SHOWN_DISPLAY);
	part("text/plain", "one", 3);
	part("id", "x", 1);
	assert_int_equal(add(&l, 0), 0);
	begin(SHOWN_UPDATE);
	part("text/plain", "three", 5);
	part("id", "x", 1);
	assert_int_equal(add(&l, 5), 1);
	assert_int_equal(l.n, 1);
	assert_string_equal(l.items[0].parts[0].data, "three");
	begin(SHOWN_CLEAR);
	part("wait", "1", 1);
	assert_int_equal(add(&l, 10), 2);
	assert_int_equal(l.n, 2); /* nothing has followed yet */
	begin(SHOWN_DISPLAY);
	part("text/plain", "new", 3);
	assert_int_equal(add(&l, 10), 3);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.items[0].kind, SHOWN_CLEAR);
	begin(SHOWN_CLEAR);
	part("wait", "1", 1);
	assert_int_equal(add(&l, 20), 4);
	shown_list_end(&l, 20); /* nothing came */
	assert_int_equal(l.n, 2);
	assert_string_equal(l.items[1].parts[0].data, "new");
	assert_int_equal(add(&l, 20), 5);
	shown_list_end(&l, 21); /* text came */
	assert_int_equal(l.items[0].kind, SHOWN_CLEAR);
	assert_int_equal(l.n, 1);
	shown_list_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_marks),
	    cmocka_unit_test(test_flood),
	    cmocka_unit_test(test_lies),
	    cmocka_unit_test(test_cut_record),
	    cmocka_unit_test(test_text_before),
	    cmocka_unit_test(test_held_file),
	    cmocka_unit_test(test_parts),
	    cmocka_unit_test(test_types),
	    cmocka_unit_test(test_bad_texts),
	    cmocka_unit_test(test_bounds),
	    cmocka_unit_test(test_clear_and_update),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

	buf_done(&record);
	return r;
}
