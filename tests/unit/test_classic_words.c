/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of the second tool family: how they are split, and which of them need a shell. */
#include "base/attr.h"
#include "base/buf.h"
#include "tools/classic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

/* Expected: shlex.split() of Python; words joined by '|', NULL = an error. */
static const struct {
	const char *command;
	const char *words;
} splits[] = {
    {"", ""},
    {"  \t\n", ""},
    {"ls -1", "ls|-1"},
    {" a  b\tc\nd ", "a|b|c|d"},
    {"'a b' \"c d\"", "a b|c d"},
    {"a'b'\"c\"d", "abcd"},
    {"'' \"\" a", "||a"},
    {"a\\ b", "a b"},
    {"\\'", "'"},
    {"'\\'", "\\"},
    {"\"\\\"\\\\\\n\"", "\"\\\\n"},
    {"\"it's\"", "it's"},
    {"'say \"x\"'", "say \"x\""},
    {"a#b", "a#b"},
    {"'open", NULL},
    {"\"open", NULL},
    {"end\\", NULL},
    {"\"end\\", NULL},
};

static void test_split(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(splits); i++) {
		_cleanup_(buf_done) struct buf joined = BUF_INIT(256);
		char **words = NULL;
		const char *why = NULL;
		int r = classic_split(splits[i].command, &words, &why);
		if (!splits[i].words) {
			assert_int_equal(r, -EINVAL);
			assert_non_null(why);
			continue;
		}
		assert_int_equal(r, 0);
		for (size_t n = 0; words[n]; n++) {
			assert_int_equal(buf_add_str(&joined, n ? "|" : ""), 0);
			assert_int_equal(buf_add_str(&joined, words[n]), 0);
		}
		assert_string_equal(buf_str(&joined), splits[i].words);
		free(words);
	}
}

/* As many words as a text can have fit into the one allocation. */
static void test_many_words(void **state)
{
	enum { LEN = 20001 };
	static char text[LEN + 1];
	char **words = NULL;
	const char *why = NULL;
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < LEN; i++)
		text[i] = i % 2 ? ' ' : 'x';
	assert_int_equal(classic_split(text, &words, &why), 0);
	while (words[n])
		assert_string_equal(words[n++], "x");
	assert_int_equal(n, LEN / 2 + 1);
	free(words);
}

static const struct {
	const char *command;
	bool shell;
} shells[] = {
    {"ls -1 /mnt/data", false},
    {"python3 -c \"print(1)\"", false},
    {"echo '$HOME' '*' '|'", false},
    {"echo \\$HOME a\\|b", false},
    {"awk '{print $1}' x", false},
    {"grep -c \"a|b\" x", false},
    {"pip install six==1.16", false},
    {"a | b", true},
    {"a && b", true},
    {"a; b", true},
    {"a > f", true},
    {"a < f", true},
    {"a &", true},
    {"echo $HOME", true},
    {"echo \"$HOME\"", true},
    {"echo \"`date`\"", true},
    {"ls *.csv", true},
    {"ls ?.csv", true},
    {"cat ~/x", true},
    {"cd folder", true},
    {"export A=1", true},
    {"A=1 env", true},
    {"a\nb", true},
};

static void test_needs_shell(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(shells); i++)
		if (classic_needs_shell(shells[i].command) != shells[i].shell)
			fail_msg("%s", shells[i].command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_split),
	    cmocka_unit_test(test_many_words),
	    cmocka_unit_test(test_needs_shell),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
