/* SPDX-License-Identifier: Apache-2.0 */
/* Which database the tests of the store have: an SQLite file, or the PostgreSQL server that CAISSON_TEST_DATABASE names
 * (tests/suites/postgres sets it). Each test begins with an empty database. */
#pragma once

#include "base/attr.h"
#include "base/parse.h"
#include "base/rand.h"
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static inline const char *test_address(void)
{
	return getenv("CAISSON_TEST_DATABASE");
}

/* What the test is about is a thing of SQLite. */
#define ONLY_WITH_SQLITE()                                                                         \
	do {                                                                                       \
		if (test_address()) {                                                              \
			print_message("skipped: about a file of SQLite\n");                        \
			skip();                                                                    \
		}                                                                                  \
	} while (0)

/* SQL from outside the program. Returns the exit status of psql; RET, which may be NULL, is the number that it wrote. */
static inline int psql(const char *sql, int64_t *ret)
{
	char text[64] = "";
	int pipes[2], status = -1;

	assert_int_equal(pipe(pipes), 0);
	const pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)dup2(pipes[1], STDOUT_FILENO);
		(void)execlp("psql", "psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", test_address(),
			     "-c", sql, (char *)NULL);
		_exit(127);
	}
	(void)close(pipes[1]);
	const ssize_t n = read(pipes[0], text, sizeof(text) - 1);
	(void)close(pipes[0]);
	assert_true(n >= 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	text[strcspn(text, "\n")] = '\0';
	if (ret && parse_i64(text, INT64_MIN, INT64_MAX, ret) < 0)
		*ret = text[0] == 't';
	return WEXITSTATUS(status);
}

/* Runs the command that this variable has: it ends the server, or starts it again. */
static inline void server(const char *variable)
{
	const char *command = getenv(variable);
	const pid_t pid = fork();
	int status = -1;

	assert_non_null(command);
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static inline void empty_database(void)
{
	if (test_address())
		assert_int_equal(psql("SET client_min_messages = error; DROP SCHEMA public CASCADE;"
				      "CREATE SCHEMA public",
				      NULL),
				 0);
}

/* store_flush() waits for a second at most, which a busy server may need several times. */
static inline void flush_all(struct store *s)
{
	uint64_t since;
	int tries = 0;

	do {
		since = now_ns();
		store_flush(s);
	} while (test_address() && now_ns() - since > NS_PER_S / 10 * 9 && ++tries < 30);
}
