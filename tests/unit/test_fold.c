/* SPDX-License-Identifier: Apache-2.0 */
/* What a model reads of output that repeats, and of programs that are missing. */
#include "base/rand.h"
#include "tools/fold.h"
#include "tools/missing_command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants those before it */
#include <cmocka.h>

#define ROOM (4u << 20)

static void add_times(struct buf *b, const char *text, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(buf_add_str(b, text), 0);
}

/* What is left of TEXT, in B. */
static struct run_output fold(const struct buf *text, struct buf *b)
{
	const struct run_output o = {
	    .data = buf_str(text), .len = text->len, .head = text->len, .total = text->len};
	struct run_output folded;

	fold_output(&o, 16000, b, &folded);
	assert_true(folded.head <= folded.len && folded.len <= folded.total);
	return folded;
}

static void becomes(const struct buf *text, const char *wanted)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(ROOM);
	const struct run_output o = fold(text, &b);

	if (o.len != strlen(wanted) || memcmp(o.data, wanted, o.len) != 0)
		fail_msg("got: %.*s", (int)o.len, o.data);
	assert_int_equal(o.total, o.len);
	assert_false(o.truncated);
}

static void test_lines(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM);

	add_times(&text, "begin\n", 1);
	add_times(&text, "the same line\n", 1000);
	add_times(&text, "a\nb\nc\n", 500);
	add_times(&text, "\n", 300);
	add_times(&text, "end", 1);
	becomes(&text, "begin\nthe same line\n[the line above 999 more times]\na\nb\nc\n[the 3 "
		       "lines above 499 more "
		       "times]\n\n[the line above 299 more times]\nend");
}

/* Short output, and lines that say something each, stay as they are. */
static void test_untouched(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM), rows = BUF_INIT(ROOM);

	add_times(&text, "same\n", FOLD_FROM / 5);
	becomes(&text, buf_str(&text));
	for (int i = 0; i < 2000; i++)
		assert_int_equal(buf_printf(&rows, "line %d\n%s", i, i % 7 ? "" : "x\nx\nx\n"), 0);
	becomes(&rows, buf_str(&rows));
}

static void test_warnings(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM);

	for (int i = 0; i < 40; i++)
		assert_int_equal(
		    buf_printf(&text,
			       "/usr/lib/x.py:%d: FutureWarning: old\nway\n  call(%d)\nstep %d\n"
			       "a.py:3: pkg.MyWarning: other\n",
			       i % 3, i % 3, i),
		    0);
	_cleanup_(buf_done) struct buf b = BUF_INIT(ROOM);
	const struct run_output o = fold(&text, &b);

	assert_true(o.len < 700);
	assert_non_null(strstr(
	    o.data, "/usr/lib/x.py:0: FutureWarning: old\nway\n  call(0)\n[this warning 39 more "
		    "times]\nstep 0\na.py:3: pkg.MyWarning: other\n[this warning 39 more times]\n"
		    "step 1\nstep 2\n"));
	assert_non_null(strstr(o.data, "step 39\n"));
}

/* Which differ in their numbers alone: three of them say it. */
static void test_numbered_warnings(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM);
	_cleanup_(buf_done) struct buf b = BUF_INIT(ROOM);

	for (int i = 0; i < 40; i++)
		assert_int_equal(buf_printf(&text,
					    "a.py:3: UserWarning: step %d took %d.25 s\n  f()\n",
					    i / 2, i / 2),
				 0);
	assert_int_equal(buf_add_str(&text, "a.py:3: UserWarning: a step took long\n  f()\n"), 0);
	const struct run_output o = fold(&text, &b);
	assert_int_equal(
	    strncmp(o.data,
		    "a.py:3: UserWarning: step 0 took 0.25 s\n  f()\n[this warning 1 more time]\n"
		    "a.py:3: UserWarning: step 1 took 1.25 s\n  f()\n[this warning 1 more time]\n"
		    "a.py:3: UserWarning: step 2 took 2.25 s\n  f()\n"
		    "[this warning 35 more times, with other numbers]\n"
		    "a.py:3: UserWarning: a step took long\n  f()\n",
		    o.len),
	    0);
}

/* A line with the word in it is no warning. */
static void test_no_warning(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM);

	for (int i = 0; i < 100; i++)
		assert_int_equal(buf_printf(&text, "row %d\nmy Warning: lamp\n", i), 0);
	becomes(&text, buf_str(&text));
}

#define LIB(name)                                                                                  \
	"  File \"/usr/lib/python3/dist-packages/urllib3/" name ".py\", line 1, in f\n    "        \
	"call(\n    ^^^^\n    ...<2 lines>...\n"

static void test_chain(void **state UNUSED)
{
	static const char head[] = "Traceback (most recent call last):\n";
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM);

	add_times(&text, head, 1);
	add_times(&text, LIB("a"), 8);
	add_times(&text,
		  "OSError: refused\n\nThe above exception was the direct cause of the following "
		  "exception:\n\n",
		  1);
	add_times(&text, head, 1);
	add_times(&text, LIB("b"), 8);
	add_times(&text,
		  "MaxRetryError: x\n\nDuring handling of the above exception, another exception "
		  "occurred:\n\n",
		  1);
	add_times(&text, head, 1);
	add_times(&text, "  File \"/mnt/data/a.py\", line 2, in <module>\n    get()\n", 1);
	add_times(&text, LIB("first"), 1);
	add_times(&text, LIB("c"), 5);
	add_times(&text, LIB("last"), 1);
	add_times(&text, "ConnectionError: y\n", 1);
	becomes(&text,
		"OSError: refused\n\nThe above exception was the direct cause of the following "
		"exception:\n\n"
		"MaxRetryError: x\n\nDuring handling of the above exception, another exception "
		"occurred:\n\n"
		"Traceback (most recent call last):\n"
		"  File \"/mnt/data/a.py\", line 2, in <module>\n    get()\n" LIB(
		    "first") "  [... 5 more frames of libraries ...]\n" LIB("last") "ConnectionErro"
										    "r: y\n");
}

/* Without a network the message says all: earlier ones whose words it has are left out, and so are frames of libraries. */
static void test_offline(void **state UNUSED)
{
#define CAUSE "[Errno 101] Network is unreachable"
	static const char head[] = "Traceback (most recent call last):\n";
	static const char other[] =
	    "KeyError: 'pool of connections'\n\nDuring handling of the above "
	    "exception, another exception occurred:\n\n";
	static const char own[] = "  File \"/mnt/data/a.py\", line 2, in <module>\n    get()\n";
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM);

	add_times(&text, head, 1);
	add_times(&text, LIB("a"), 8);
	add_times(&text, other, 1);
	add_times(&text, head, 1);
	add_times(&text, LIB("b"), 8);
	add_times(&text,
		  "OSError: " CAUSE "\n\nThe above exception was the direct cause of the following "
		  "exception:\n\n",
		  1);
	add_times(&text, head, 1);
	add_times(&text, own, 1);
	add_times(&text, LIB("c"), 5);
	add_times(&text, "ConnectionError: x (Caused by E('y: " CAUSE "'))\n", 1);
	add_times(&text, "after\n", 1);
	becomes(&text, "KeyError: 'pool of connections'\n\nDuring handling of the above "
		       "exception, another exception occurred:\n\n"
		       "Traceback (most recent call last):\n"
		       "  File \"/mnt/data/a.py\", line 2, in <module>\n    get()\n"
		       "  [... 5 more frames of libraries ...]\n"
		       "ConnectionError: x (Caused by E('y: " CAUSE "'))\nafter\n");
#undef CAUSE
}

/* The only traceback keeps its ends, even if all its frames are of libraries. */
static void test_libraries_alone(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM);

	add_times(&text, "Traceback (most recent call last):\n", 1);
	add_times(&text, LIB("a"), 20);
	add_times(&text, "ValueError: z\n", 1);
	becomes(&text,
		"Traceback (most recent call last):\n" LIB(
		    "a") "  [... 18 more frames of libraries ...]\n" LIB("a") "ValueError: z\n");
}

static void test_progress_bar(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM);

	for (int i = 0; i <= 100; i++)
		assert_int_equal(buf_printf(&text, "\r%3d%%|######    |", i), 0);
	add_times(&text, "\ndone\r\n", 1);
	becomes(&text, "[100 earlier states of this line] 100%|######    |\ndone\n");
}

/* What a terminal shows: each line as it was written last, also in short outputs. */
static void test_written_over(void **state UNUSED)
{
	static const char *const rows[][2] = {
	    {"a\rbc\n", "bc\n"},
	    {"1%\r2%\r", "2%"},
	    {"plain\r\n", "plain\r\n"},
	    {"\r\033[K1/2\r\033[K2/2\nend\n", "2/2\nend\n"},
	    {"\033[2Kx\r\033[2K\rdone\n", "done\n"},
	    {"outer 0\n\rinner 1\rinner 2\033[A\router 1\n", "outer 1\ninner 2"},
	    {"\033[32mgreen\033[0m\rred\n", "red\n"},
	    {"\033[9A\rtop\033[9Bstill\n", "still\n"},
	    {"half\033[", "half"},
	    {"1/2\r2/2\r   \rdone\n1/9\r   \r\nend", "done\n\nend"},
	    {"half\033]0;title", "half]0;title"},
	    {"\033[1;31mred\033[0m \033(Bplain\033[?25l\n", "red plain\n"},
	    {"\033]0;title\a\033]8;;http://x\033\\link\033]8;;\033\\\n", "link\n"},
	    {"a\033[Kb\033[31mc\rd\033[32me\n", "de\n"},
	    {"a\nb\n\033[H\033[2J\033[3Jc\n",
	     "[the screen was cleared here: 2 earlier lines are not shown]\nc\n"},
	    {"\n\033[2J\033[Hd\033c",
	     "[the screen was cleared here: 1 earlier line is not shown]\n"},
	    {"\033[Ha\nb\nc\n\033[Hd\ne\033[J", "d\ne"},
	    {"\033[2;9Hf\033[1;1Hg\n", "g\n"},
	    {"\033[2K\033[1Gstep 1\033[2K\033[Gstep 2\n", "step 2\n"},
	    {"one\ntwo\n\033[2Fover\033[1Eand\n", "over\nand\n"},
	    {"a\033[12Gcolumn\n", "acolumn\n"},
	    {"0%\b\b\b\b5%\b\b100%\n", "100%\n"},
	    {"work |\b/\b-\bdone\n", "work done\n"},
	    {"\xc3\xa4\xe2\x9c\x93\bx\b\b\b\xc3\xb6\n", "\xc3\xb6x\n"},
	    {"a\n\bb\n\rc\b\b\bd\n", "a\nb\nd\n"},
	    {"ten\b\b\033[K\n", "t\n"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM);

		add_times(&text, rows[i][0], 1);
		becomes(&text, rows[i][1]);
	}
}

/* Beginning and end of a cut output are folded each, and the number of missing bytes stays right. */
static void test_cut(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM), b = BUF_INIT(ROOM),
				       shown = BUF_INIT(ROOM);

	add_times(&text, "head\n", 1000);
	const size_t head = text.len;
	add_times(&text, "tail\n", 1000);
	const struct run_output o = {.data = buf_str(&text),
				     .len = text.len,
				     .head = head,
				     .truncated = true,
				     .total = text.len + 777};
	struct run_output folded;
	bool cut;

	fold_output(&o, 16000, &b, &folded);
	assert_int_equal(run_output_add(&shown, &folded, 16000, NULL, &cut), 0);
	assert_true(cut);
	assert_string_equal(
	    buf_str(&shown),
	    "head\n[the line above 999 more times]\n\n[... 777 bytes left out ...]\n"
	    "tail\n[the line above 999 more times]\n");
}

/* The bounds: more lines than are looked at, a text larger than what is looked at, an answer that has room for all. */
static void test_bounds(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM), b = BUF_INIT(ROOM),
				       c = BUF_INIT(ROOM);

	for (unsigned i = 0; text.len < 3 * FOLD_BYTES; i++)
		assert_int_equal(buf_printf(&text, "%u\n", i), 0);
	const struct run_output o = fold(&text, &b);
	assert_true(o.truncated);
	assert_int_equal(o.head, FOLD_BYTES);
	assert_int_equal(o.len, 2 * FOLD_BYTES);
	assert_int_equal(o.total, text.len);
	assert_memory_equal(o.data, text.data, FOLD_BYTES);
	assert_memory_equal(o.data + FOLD_BYTES, text.data + text.len - FOLD_BYTES, FOLD_BYTES);
	struct run_output all;
	fold_output(
	    &(struct run_output){
		.data = text.data, .len = text.len, .head = text.len, .total = text.len},
	    FOLD_BYTES + 1, &c, &all);
	assert_ptr_equal(all.data, text.data);
	assert_int_equal(c.len, 0);
}

/* Any bytes: nothing is read beyond the text, and nothing grows. */
static void test_any_bytes(void **state UNUSED)
{
	static const char *const pieces[] = {
	    "\n",
	    "\r",
	    "a",
	    "a\n",
	    "  ",
	    "    x\n",
	    "x.py:1: AWarning: b\n",
	    ":1: Warning: ",
	    "Traceback (most recent call last):\n",
	    "  File \"/usr/lib/python3/x\"\n",
	    "  File \"<frozen a>\"\n",
	    "OSError\n",
	    "\xFF\n",
	    "Warning: ",
	    "During handling of the above exception, another exception occurred:\n"};
	uint32_t seed = 12345;

	for (int round = 0; round < 2000; round++) {
		_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM), b = BUF_INIT(ROOM);
		const unsigned kinds = 2 + (unsigned)round % (unsigned)(ARRAY_SIZE(pieces) - 1);

		while (text.len < 1500) {
			seed = seed * 1664525 + 1013904223;
			assert_int_equal(buf_add_str(&text, pieces[(seed >> 16) % kinds]), 0);
		}
		_cleanup_free_ char *exact =
		    malloc(text.len); /* a sanitizer sees a byte too many */
		assert_non_null(exact);
		memcpy(exact, text.data, text.len);
		const size_t head = round % 2 ? text.len : text.len / 2;
		struct run_output folded;
		fold_output(&(struct run_output){.data = exact,
						 .len = text.len,
						 .head = head,
						 .truncated = head < text.len,
						 .total = text.len},
			    16000, &b, &folded);
		assert_true(folded.len <= text.len + 8000);
		assert_true(folded.head <= folded.len);
	}
}

static void test_missing_commands(void **state UNUSED)
{
	static const struct {
		const char *text, *has;
	} rows[] = {
	    {"bash: line 1: node: command not found\n",
	     "The program node is not in this image. Instead: write it in Python. The image "
	     "science has it: the person who runs this server makes it with `caisson image build "
	     "science`"},
	    {"sh: 1: npm: not found\n", "`caisson image build node`"},
	    {"sh: 1: npx: not found\n", "`caisson image build node`"},
	    {"sh: 1: make: not found\n", "`caisson image build science`"},
	    {"sh: 1: cc: not found\n", "`caisson image build science`"},
	    {"sh: 1: clang: not found\n", "Debian's package clang"},
	    {"sh: 1: cmake: not found\n", "Instead: make; sandbox_install_packages has it"},
	    {"bash: line 1: a: command not found\nbash: line 2: wget: command not found",
	     "The programs a and wget are not in this image. Instead of wget: curl -LO, or "
	     "sandbox_add_file. sandbox_install_packages has programs"},
	    {"sh: 1: wget: not found\nls\nsh: 2: npm: not found\nsh: 3: wget: not found\n",
	     "The programs wget and npm are not in this image. Instead of wget: curl -LO, or "
	     "sandbox_add_file. Instead of npm: node, if it is there, or Python. The image node "
	     "has npm: the person"},
	    {"sh: 1: bc: not found\nsh: 2: dc: not found\nsh: 3: xxd: not found\n",
	     "The programs bc, dc and xxd are not in this image. Instead of bc: Python."},
	    {"sh: 1: a: not found\nsh: 1: b: not found\nsh: 1: c: not found\nsh: 1: d: not "
	     "found\nsh: 1: e: not found\n",
	     "The programs a, b, c, d and others are not in this image. sandbox_install"},
	    {"Hint: the program gcc is not in this sandbox.\nHint: the program make is not in this "
	     "sandbox.\n",
	     "The programs gcc and make are not in this image. Instead of gcc: "},
	    {"sh: 1: g++: not found\n", "`caisson image build science`"},
	    {"Hint: the program gcc is not in this sandbox.\nTraceback\n",
	     "The program gcc is not in this image. Instead: "},
	    {"bash: line 1: nosuch: command not found\n",
	     "The program nosuch is not in this image. sandbox_install_packages has"},
	    {"bash: line 1: arecord: command not found\n", "no camera and no sound card here"},
	    {"bash: line 1: systemctl: command not found\n", "Instead: sandbox_process"},
	    {"ls: not found\n", NULL},
	    {"file: x y: not found here\n", NULL},
	    {"bash: line 1: $(x): command not found\n", NULL},
	    {"Hint: the program ../x is not in this sandbox.\n", NULL},
	    {": command not found", NULL},
	    {"", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(2000);

		assert_int_equal(missing_command_add(&b, rows[i].text), 0);
		if (!rows[i].has)
			assert_int_equal(b.len, 0);
		else if (!strstr(buf_str(&b), rows[i].has))
			fail_msg("%s: %s", rows[i].text, buf_str(&b));
	}
}

static size_t room_of(const char *line, unsigned n)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ROOM);

	add_times(&text, line, n);
	const struct run_output o = {.data = buf_str(&text), .len = text.len};
	return fold_room(&o, 16000);
}

/* 16,000 characters are about 4,000 tokens, whatever the text is. */
static void test_room(void **state UNUSED)
{
	static const char prose[] =
	    "The quick brown fox, which was not tired, jumps over 3 lazy dogs.\n";
	static const char numbers[] = "0.431596 0.750785 0.871724 0.134262 0.214145\n";

	assert_int_equal(room_of(prose, 1), 16000);
	assert_int_equal(room_of(prose, 1000), 16000);
	assert_int_equal(room_of("", 0), 16000);
	assert_int_equal(room_of("7", 1), 16000);
	assert_in_range(room_of(numbers, 1000), 7000, 9000);
	assert_in_range(room_of("[1, 2, 3, 4], ", 1000), 7500, 11000);
	/* a table: the blanks between its columns are one token each */
	assert_in_range(room_of("name          total         mean\n", 1000), 15000, 16000);
	assert_in_range(room_of("\xe6\x95\xb0\xe6\x8d\xae", 1000), 13000, 15500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lines),
	    cmocka_unit_test(test_untouched),
	    cmocka_unit_test(test_warnings),
	    cmocka_unit_test(test_numbered_warnings),
	    cmocka_unit_test(test_no_warning),
	    cmocka_unit_test(test_chain),
	    cmocka_unit_test(test_libraries_alone),
	    cmocka_unit_test(test_offline),
	    cmocka_unit_test(test_progress_bar),
	    cmocka_unit_test(test_written_over),
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_bounds),
	    cmocka_unit_test(test_any_bytes),
	    cmocka_unit_test(test_room),
	    cmocka_unit_test(test_missing_commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
