/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever logs waits for no disk and no reader of stderr. What waits has a bound, keeps its order, and what was left out
 * is said. */
#include "base/buf.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/workers.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LONG_MS    20000
#define MANY_LINES 30000u /* more than wait */
#define NEXT_FILE  20000u /* these lines are more than a file may have */

struct world {
	int pool;
	int gate[2]; /* a job of the log's payer that reads here holds one of its two threads */
	unsigned held;
	char path[64];
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	(void)snprintf(w->path, sizeof(w->path), "/tmp/caisson-log-XXXXXX");
	const int fd = mkstemp(w->path);
	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(pipe2(w->gate, O_CLOEXEC), 0);
	log_configure(&(struct log_config){.level = LOG_LEVEL_INFO, .file = w->path});
	log_open();
	w->pool = workers_begin();
	assert_true(w->pool >= 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;
	char old[80];

	(void)close(w->gate[1]); /* jobs of a test that failed go on */
	workers_end();
	log_configure(&(struct log_config){.level = LOG_LEVEL_INFO, .to_stderr = true});
	(void)unlink(w->path);
	(void)snprintf(old, sizeof(old), "%s.1", w->path);
	(void)unlink(old);
	(void)close(w->gate[0]);
	free(w);
	return 0;
}

static void wait_at_gate(void *user)
{
	struct world *w = user;
	char byte;

	(void)!read(w->gate[0], &byte, 1);
}

static void let_go(void *user)
{
	((struct world *)user)->held--;
}

/* From now on the log's jobs wait, as they would for a disk. */
static void hold(struct world *w)
{
	for (unsigned i = 0; i < WORKERS_EACH; i++) {
		assert_int_equal(workers_run(LOG_WHO, wait_at_gate, let_go, w), 0);
		w->held++;
	}
}

static void turn(const struct world *w)
{
	assert_int_equal(poll(&(struct pollfd){.fd = w->pool, .events = POLLIN}, 1, LONG_MS), 1);
	workers_deliver();
}

static void release(struct world *w)
{
	assert_int_equal(write(w->gate[1], "12", WORKERS_EACH), WORKERS_EACH);
	while (w->held > 0)
		turn(w);
}

static void write_all(struct world *w)
{
	workers_end();
	w->pool = workers_begin();
	assert_true(w->pool >= 0);
}

static void read_log(const char *path, struct buf *b)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fd_read_file(fd, b), 0);
}

static off_t size_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

/* The number at the beginning of TEXT. */
static unsigned number(const char *text)
{
	uint64_t n;

	assert_int_equal(parse_u64_n(text, strspn(text, "0123456789"), 0, UINT32_MAX, &n), 0);
	return (unsigned)n;
}

/* The numbers of the lines "counted" in TEXT, each larger than the one before; how many. */
static unsigned check_order(const char *text, unsigned *last)
{
	static const char key[] = " counted i=";
	unsigned n = 0;

	for (const char *at = strstr(text, key); at; at = strstr(at, key), n++) {
		at += strlen(key);
		const unsigned i = number(at);

		assert_true(i > *last);
		*last = i;
	}
	return n;
}

static void test_slow_disk(void **state)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(4u << 20);
	struct world *w = *state;
	const uint64_t lost_before = log_lost();
	unsigned last = 0;

	hold(w);
	for (unsigned i = 1; i <= MANY_LINES; i++)
		LOG_INFO("counted", LOG_U("i", i));
	assert_int_equal(size_of(w->path), 0);
	const unsigned lost = (unsigned)(log_lost() - lost_before);
	assert_true(lost > 0 && lost < MANY_LINES);
	release(w);
	write_all(w);
	LOG_INFO("counted", LOG_U("i", MANY_LINES + 1));
	write_all(w);

	read_log(w->path, &text);
	assert_int_equal(check_order(buf_str(&text), &last), MANY_LINES + 1 - lost);
	assert_int_equal(last, MANY_LINES + 1);
	const char *said = strstr(buf_str(&text), "log_lines_lost lines=");
	assert_non_null(said);
	/* The loop may have had something to say, too. */
	assert_int_equal(number(said + strlen("log_lines_lost lines=")), log_lost() - lost_before);
}

/* Each file has its lines, and the next one those after them. */
static void test_rotation(void **state)
{
	static char fill[LOG_VALUE_MAX + 1];
	_cleanup_(buf_done) struct buf text = BUF_INIT(32u << 20);
	struct world *w = *state;
	char old[80];
	unsigned last = 0;

	memset(fill, 'x', LOG_VALUE_MAX);
	for (unsigned i = 1; i <= NEXT_FILE; i++) {
		LOG_INFO("counted", LOG_U("i", i), LOG_S("fill", fill));
		if (i % 1000 == 0)
			turn(w);
	}
	write_all(w);
	(void)snprintf(old, sizeof(old), "%s.1", w->path);
	assert_true(size_of(old) <= (off_t)LOG_FILE_MAX && size_of(w->path) > 0);
	read_log(old, &text);
	unsigned n = check_order(buf_str(&text), &last);
	buf_reset(&text);
	read_log(w->path, &text);
	n += check_order(buf_str(&text), &last);
	assert_int_equal(n, NEXT_FILE);
}

/* A new file takes over between two lines; those before it are in the old one. */
static void test_reopen(void **state)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(1u << 20);
	struct world *w = *state;
	char old[80];
	unsigned last = 0;

	(void)snprintf(old, sizeof(old), "%s.1", w->path);
	hold(w);
	LOG_INFO("counted", LOG_U("i", 1));
	assert_int_equal(rename(w->path, old), 0);
	log_reopen(log_open_file(w->path));
	LOG_INFO("counted", LOG_U("i", 2));
	release(w);
	write_all(w);
	read_log(old, &text);
	assert_int_equal(check_order(buf_str(&text), &last), 1);
	buf_reset(&text);
	read_log(w->path, &text);
	assert_int_equal(check_order(buf_str(&text), &last), 1);
}

/* Nobody reads from stderr: its lines wait, and those of the file do not. */
static void test_stderr_is_full(void **state)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(4u << 20);
	struct world *w = *state;
	static char drained[1 << 16];
	int ends[2];
	unsigned last = 0;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	const int saved = fd_dup(STDERR_FILENO);
	assert_true(saved >= 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
	(void)close(ends[1]);
	log_configure(
	    &(struct log_config){.level = LOG_LEVEL_INFO, .file = w->path, .to_stderr = true});
	for (unsigned i = 1; i <= 4000; i++)
		LOG_INFO("counted", LOG_U("i", i));
	while (size_of(w->path) == 0 || !strstr(buf_str(&text), "i=4000\n")) {
		turn(w);
		buf_reset(&text);
		read_log(w->path, &text);
	}
	assert_int_equal(check_order(buf_str(&text), &last), 4000);

	/* Its reader comes back. */
	buf_reset(&text);
	while (!strstr(buf_str(&text), "i=4000\n")) {
		struct pollfd fds[] = {{.fd = ends[0], .events = POLLIN},
				       {.fd = w->pool, .events = POLLIN}};

		/* The pipe may be empty until the next job, which begins when the last one is delivered. */
		assert_true(poll(fds, 2, LONG_MS) > 0);
		const ssize_t n = fds[0].revents ? read(ends[0], drained, sizeof(drained)) : 0;
		assert_true(n > 0 || !fds[0].revents);
		assert_int_equal(buf_add(&text, drained, (size_t)n), 0);
		workers_deliver();
	}
	last = 0;
	assert_int_equal(check_order(buf_str(&text), &last), 4000);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	(void)close(saved);
	(void)close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_slow_disk, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_rotation, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_reopen, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_stderr_is_full, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
