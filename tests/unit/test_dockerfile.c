/* SPDX-License-Identifier: Apache-2.0 */
/* image: Dockerfiles, .dockerignore, and the addresses that ADD must not name. What a row expects is what the Dockerfile reference
 * says (docs.docker.com/reference/dockerfile), or why this program refuses it. */
#include "base/buf.h"
#include "base/text.h"
#include "image/dockerfile.h"
#include "image/ignore.h"
#include "image/inside.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct dockerfile_options plain = {.name = "Dockerfile"};

/* What the builder gets; NULL: it is refused, with e->text. Owned. */
static char *printed(const char *text, const struct dockerfile_options *o, struct err *e)
{
	struct dockerfile d;
	struct buf out = BUF_INIT(8u << 20);

	*e = ERR_INIT;
	if (dockerfile_parse(text, strlen(text), o, &d, e) < 0) {
		assert_null(d.steps);
		return NULL;
	}
	assert_int_equal(dockerfile_print(&d, &out), 0);
	dockerfile_done(&d);
	return buf_take(&out);
}

#define F "FROM a\n"
#define H "FROM docker.io/library/a:latest\n"

static const struct {
	const char *text, *printed;
} accepted_rows[] = {
    {F, H},
    {"from a", H},
    {"\xef\xbb\xbf" F, H},
    {"  FROM   a   \r\n", H},
    {F "# comment\n   # and another\nRUN a\n", H "RUN a\n"},
    {F "RUN a \\\n  b\n", H "RUN a   b\n"},
    {F "RUN a \\   \n# comment\n\n  b\n", H "RUN a   b\n"},
    {F "RUN a # no comment\n", H "RUN a # no comment\n"},
    {F "RUN a\\b\\\nc\n", H "RUN a\\bc\n"},
    {F "RUN a \\", H "RUN a\n"},
    {"FROM oci:x\n", "FROM docker.io/library/oci:x\n"},
    {F "run a && \\\r\n b\r\n", H "RUN a &&  b\n"},
    /* directives */
    {"# escape=`\n" F "RUN dir C:\\ `\n x\n", "# escape=`\n" H "RUN dir C:\\  x\n"},
    {"# syntax=docker/dockerfile:1\n#escape = `\n" F, "# escape=`\n" H},
    {"# a comment ends them\n# escape=`\n" F "RUN a `\n", H "RUN a `\n"},
    {F "# escape=`\nRUN a `\n", H "RUN a `\n"},
    /* names of images and stages */
    {"FROM ubuntu:22.04\n", "FROM docker.io/library/ubuntu:22.04\n"},
    {"FROM a/b\n", "FROM docker.io/a/b:latest\n"},
    {"FROM r.example:5000/a/b:1 AS x\n", "FROM r.example:5000/a/b:1 AS x\n"},
    {"FROM localhost/a:1\n", "FROM localhost/a:1\n"},
    {"FROM scratch\n", "FROM scratch\n"},
    {"FROM a AS Build\nFROM build\n", "FROM docker.io/library/a:latest AS Build\nFROM Build\n"},
    {"FROM --platform=$BUILDPLATFORM a\n", H},
    {"ARG V=3\nFROM a:${V}\n", "ARG V=3\nFROM docker.io/library/a:3\n"},
    {"ARG V\nFROM a:${V:-7}\n", "ARG V\nFROM docker.io/library/a:7\n"},
    {"ARG V=1\nARG W=${V}2\nFROM a:$W\n", "ARG V=1\nARG W=${V}2\nFROM docker.io/library/a:12\n"},
    /* COPY and ADD */
    {F "COPY a b /x/\n", H "COPY a b /x/\n"},
    {F "COPY --chown=1:2 --chmod=755 --link a /x\n", H "COPY --chown=1:2 --chmod=755 a /x\n"},
    {F "COPY [\"a b\", \"/x\"]\n", H "COPY [\"a b\", \"/x\"]\n"},
    {"FROM a AS s\n" F "COPY --from=s /a /b\n",
     "FROM docker.io/library/a:latest AS s\n" H "COPY --from=s /a /b\n"},
    {F F "COPY --from=0 /a /b\n", H H "COPY --from=0 /a /b\n"},
    {F "COPY --from=nginx /a /b\n", H "COPY --from=docker.io/library/nginx:latest /a /b\n"},
    {F "COPY a/../b /x\n", H "COPY a/../b /x\n"},
    {"FROM a AS s\n" F "COPY --from=s ../x /b\n",
     "FROM docker.io/library/a:latest AS s\n" H "COPY --from=s ../x /b\n"},
    {F "ENV H=https://x.example\nADD $H/a.tar /a\n",
     H "ENV H=https://x.example\nADD [\"https://x.example/a.tar\",\"/a\"]\n"},
    {F "ADD \"a$b\" /c\n", NULL},
    {F "ENV b='$1'\nADD a$b /c\n", H "ENV b='$1'\nADD [\"a\\\\$1\",\"/c\"]\n"},
    /* here-documents */
    {F "RUN <<EOF\necho a\necho b\nEOF\nRUN c\n",
     H "RUN [\"/bin/sh\",\"-c\",\"echo a\\necho b\\n\"]\nRUN c\n"},
    {F "RUN <<-EOF\n\t\techo a\n\tEOF\n", H "RUN [\"/bin/sh\",\"-c\",\"echo a\\n\"]\n"},
    {F "RUN cat <<'X' >/a\n$HOME \\\nX\n",
     H "RUN [\"/bin/sh\",\"-c\",\"cat <<'X' >/a\\n$HOME \\\\\\nX\\n\"]\n"},
    {F "SHELL [\"/bin/bash\", \"-ec\"]\nRUN <<E\na\nE\n",
     H "SHELL [\"/bin/bash\", \"-ec\"]\nRUN [\"/bin/bash\",\"-ec\",\"a\\n\"]\n"},
    {F "RUN cat <<A <<B\n1\nA\n2\nB\n",
     H "RUN [\"/bin/sh\",\"-c\",\"cat <<A <<B\\n1\\nA\\n2\\nB\\n\"]\n"},
    {F "RUN [\"a\", \"<<EOF\"]\n", H "RUN [\"a\", \"<<EOF\"]\n"},
    {F "RUN echo '<<EOF'\n", H "RUN echo '<<EOF'\n"},
    {F "RUN echo $((1 <<2))\n", H "RUN echo $((1 <<2))\n"},
    {F "COPY <<a.txt <<b.txt /d/\nx\na.txt\ny\nb.txt\n",
     H "COPY [\".caisson-here/1/0/a.txt\",\".caisson-here/1/1/b.txt\",\"/d/\"]\n"},
    /* what an import has no use for */
    {F "HEALTHCHECK --interval=5s --timeout=3s CMD curl x\nONBUILD RUN x\n"
       "HEALTHCHECK NONE\n",
     H},
    {F "EXPOSE 80 443/tcp\nVOLUME /a\nVOLUME [\"/b\"]\nSTOPSIGNAL SIGTERM\nLABEL a=b "
       "\"c d\"=e\nMAINTAINER me\nUSER 1000:1000\nWORKDIR /a b\nCMD\nENTRYPOINT [\"x\"]\n",
     H "EXPOSE 80 443/tcp\nVOLUME /a\nVOLUME [\"/b\"]\nSTOPSIGNAL SIGTERM\nLABEL a=b "
       "\"c d\"=e\nMAINTAINER me\nUSER 1000:1000\nWORKDIR /a b\nCMD \nENTRYPOINT "
       "[\"x\"]\n"},
    {F "RUN --mount=type=cache,target=/root/.cache pip x\n",
     H "RUN --mount=type=cache,target=/root/.cache pip x\n"},
    {F "ENV a b c\nENV d=$a\n", H "ENV a b c\nENV d=$a\n"},
};

static void accepted(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(accepted_rows); i++) {
		struct err e;
		_cleanup_free_ char *got = printed(accepted_rows[i].text, &plain, &e);

		if (!accepted_rows[i].printed) {
			assert_null(got);
		} else {
			if (!got)
				fail_msg("row %zu (%s): %s", i, accepted_rows[i].text, e.text);
			assert_string_equal(got, accepted_rows[i].printed);
		}
	}
}

static const struct {
	const char *text, *why;
} refused_rows[] = {
    {"", "Dockerfile: there is no FROM in it"},
    {"# only this\n", "there is no FROM"},
    {"RUN a\n", "Dockerfile:1: RUN stands before the first FROM"},
    {F "\n\nRUUN a\n", "Dockerfile:4: unknown instruction 'RUUN'; did you mean 'RUN'?"},
    {F "RUN\n", "Dockerfile:2: expected: RUN COMMAND"},
    {F "COPY a\n", "Dockerfile:2: expected: COPY SOURCE"},
    {F "COPY [\"a\"]\n", "expected: COPY SOURCE"},
    {F "ENV\n", "expected: ENV NAME=VALUE"},
    {F "ENV a\n", "expected: ENV NAME=VALUE"},
    {F "ENV a=b c\n", "expected: ENV NAME=VALUE"},
    {F "ENV 1a=b\n", "'1a' is no name of a variable"},
    {F "ARG a-b\n", "'a-b' is no name of a variable"},
    {F "SHELL /bin/sh\n", "expected: SHELL ["},
    {F "USER\n", "expected: USER"},
    {"FROM\n", "expected: FROM"},
    {"FROM a b\n", "expected: FROM"},
    {"FROM a IS b\n", "expected: FROM"},
    {"FROM a AS 1\n", "'1' is no name of a stage"},
    {"FROM a AS b\nFROM a AS B\n", "Dockerfile:2: two stages are named 'B'"},
    {"FROM $x\n", "the name of the image is empty"},
    {"FROM --platform=linux/s390x a\n", "images are built for this machine"},
    {"FROM a@sha256:12\n", "is no image"},
    {"FROM oci:/etc\n", "is no image"},
    {"FROM oci:5000/x\n", "no image of a registry"},
    {"FROM docker-archive:/x.tar\n", "is no image"},
    {"FROM A\n", "is no image"},
    {F "COPY --from=1 a b\n", "there is no such stage before this one"},
    {F "COPY --from=0 a b\n", "there is no such stage before this one"},
    {"FROM a AS s\nCOPY --from=s a b\n", "cannot copy from itself"},
    {F "COPY ../a /b\n", "'../a' leads out of the build context"},
    {F "COPY a/../../b /b\n", "leads out of the build context"},
    {F "COPY /../b /b\n", "leads out of the build context"},
    {F "COPY [\"..\", \"/b\"]\n", "leads out of the build context"},
    {F "ENV d=..\nCOPY $d/b /b\n", "'../b' leads out of the build context"},
    {F "ARG d=..\nADD ${d}/b /b\n", "leads out of the build context"},
    {F "COPY https://x.example/a /b\n", "only ADD takes addresses"},
    {F "ADD ftp://x.example/a /b\n", "only ADD takes addresses"},
    {F "ADD git@x.example:a /b\n", "only ADD takes addresses"},
    {F "ADD file:///etc/passwd /b\n", "only ADD takes addresses"},
    {F "ADD $A /b\n", "ADD with $A, which this file does not set"},
    {F "ADD http://127.0.0.1/a /b\n", "127.0.0.1 is an address of this machine"},
    {F "ADD http://169.254.169.254/latest/ /b\n", "is an address of this machine"},
    {F "ENV A=127 B=0.0.1\nADD http://$A.$B/ /b\n", "is an address of this machine"},
    {F "ADD http://u:p@LOCALHOST./ /b\n", "is an address of this machine"},
    {F "ADD http://[::1]:80/ /b\n", "is an address of this machine"},
    {F "ADD http://2130706433/ /b\n", "is an address of this machine"},
    {F "ADD http://0x7f.1/ /b\n", "is an address of this machine"},
    {F "ADD http://%31/ /b\n", "names no host"},
    {F "RUN --mount=type=bind,target=/x a\n", "only type=cache and type=tmpfs"},
    {F "RUN --mount=type=secret,id=x a\n", "only type=cache and type=tmpfs"},
    {F "RUN --mount=target=/x a\n", "only type=cache and type=tmpfs"},
    {F "RUN --mount=type=cache,target=/x,from=y a\n", "'from=y' is not known"},
    {F "RUN --mount=type=cache,id=../../x,target=/x a\n", "is not known"},
    {F "RUN --security=insecure a\n", "a step has no further rights"},
    {F "RUN --network=host a\n", "'caisson image build --no-network' closes it"},
    {F "RUN --x=1 a\n", "RUN has no flag '--x=1'"},
    {F "COPY --parents a b\n", "COPY --parents is not supported"},
    {F "COPY --chown a b\n", "--chown needs a value"},
    {F "RUN <<EOF\na\n", "Dockerfile:2: no line ends the here-document 'EOF'"},
    {F "RUN <<EOF\n EOF\n", "no line ends the here-document"},
    {F "ENV a='b\n", "a quote (') is not closed"},
    {F "ENV a=${b\n", "'${b' without its '}'"},
    {F "ENV a=${}\n", "'${' without a name"},
    {F "ENV a=${b/c/d}\n", "are known here"},
    {F "ENV a=\"${b:?must be there}\"\n", "b: must be there"},
    {F "ENV a=${a:-${a:-${a:-${a:-${a:-${a:-${a:-${a:-${a:-x}}}}}}}}}\n",
     "nested more than 8 deep"},
    {F "RUN a \\\\", "ends within a continued line"},
    {"# escape=x\n" F, "escape is '\\' or '`'"},
    {"# escape=`\n# escape=`\n" F, "given twice"},
    {F "RUN \x80\n", "no text in UTF-8"},
    {F "R\x1b[2JN\n", "unknown instruction 'R?[2JN'"},
};

static void refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(refused_rows); i++) {
		struct err e;
		_cleanup_free_ char *got = printed(refused_rows[i].text, &plain, &e);

		if (got)
			fail_msg("row %zu (%s) became: %s", i, refused_rows[i].text, got);
		assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
		if (!strstr(e.text, refused_rows[i].why))
			fail_msg("row %zu: '%s' lacks '%s'", i, e.text, refused_rows[i].why);
	}
}

/* ENV x=WORD, and what it becomes, by the reference's rules. */
static void words(void **state)
{
	static const struct {
		const char *word, *value;
	} rows[] = {
	    {"a", "a"},          {"\"a b\"", "a b"},     {"a\\ b", "a b"},       {"'$s'", "$s"},
	    {"\\$s", "$s"},      {"\"\\$s\"", "$s"},     {"$s", "set"},          {"${s}x", "setx"},
	    {"$sx", ""},         {"\"$s\"", "set"},      {"'a'\"b\"c", "abc"},   {"${s:-d}", "set"},
	    {"${u:-d}", "d"},    {"${e:-d}", "d"},       {"${e-d}", ""},         {"${u-d}", "d"},
	    {"${s:+d}", "d"},    {"${u:+d}", ""},        {"${e:+d}", ""},        {"${e+d}", "d"},
	    {"${s:?no}", "set"}, {"${u:-${s}}", "set"},  {"${u:-'a b'}", "a b"}, {"$", "$"},
	    {"a$", "a$"},        {"\"a\\\\b\"", "a\\b"}, {"\"a\\b\"", "a\\b"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(4096);
		struct dockerfile d;
		struct err e = ERR_INIT;

		assert_int_equal(buf_printf(&b, F "ENV s=set e=\nENV x=%s\n", rows[i].word), 0);
		if (dockerfile_parse(buf_str(&b), b.len, &plain, &d, &e) < 0)
			fail_msg("row %zu (%s): %s", i, rows[i].word, e.text);
		assert_string_equal(d.steps[2].words.v[0] + 2, rows[i].value);
		dockerfile_done(&d);
	}
}

static void stages_and_arguments(void **state)
{
	static const char text[] = "ARG V=1\n"
				   "FROM a:$V AS one\n"
				   "ARG V\n"
				   "ENV X=$V Y=y\n"
				   "FROM one AS two\n"
				   "ENV Z=$Y$V\n"
				   "FROM b:$V\n"
				   "ENV Z=$Y$V\n"
				   "ENV TARGET=${TARGETARCH}\n"
				   "ARG TARGETARCH\n"
				   "ENV TARGET=${TARGETARCH}\n";
	struct image_words args = {0};
	struct dockerfile_options o = plain;
	struct dockerfile d;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(image_words_add(&args, "V=7", 3), 0);
	assert_int_equal(image_words_add(&args, "W=8", 3), 0);
	o.args = &args;
	if (dockerfile_parse(text, strlen(text), &o, &d, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(d.n_stages, 3);
	assert_string_equal(d.stages[1].base, "one");
	assert_string_equal(d.stages[2].base, "docker.io/library/b:7");
	assert_int_equal(d.images.n, 2);
	assert_string_equal(d.steps[3].words.v[0], "X=7");
	assert_string_equal(d.steps[5].words.v[0], "Z=y"); /* ENV is inherited, ARG is not */
	assert_string_equal(d.steps[7].words.v[0], "Z=");
	assert_string_equal(d.steps[8].words.v[0], "TARGET=");
	assert_string_not_equal(d.steps[10].words.v[0], "TARGET=");
	assert_int_equal(d.unused.n, 1);
	assert_string_equal(d.unused.v[0], "W");
	assert_int_equal(d.steps[5].line, 6);
	assert_int_equal(d.steps[5].stage, 1);
	dockerfile_done(&d);
	for (int i = 0; i < 3; i++) {
		static const char *const targets[] = {"two", "2", "three"};

		o.target = targets[i];
		assert_int_equal(dockerfile_parse(text, strlen(text), &o, &d, &e) < 0, i == 2);
		dockerfile_done(&d);
	}
	assert_non_null(strstr(e.text, "no stage is named 'three'"));
	image_words_done(&args);
}

static void repeat(struct buf *b, const char *line, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(buf_add_str(b, line), 0);
}

static void limits(void **state)
{
	static const struct {
		const char *head, *line, *tail;
		unsigned n;
		const char *why;
	} rows[] = {
	    {F, "RUN a\n", "", DOCKERFILE_STEPS_MAX, "more than 1000 instructions"},
	    {"", F, "", DOCKERFILE_STAGES_MAX + 1, "more than 64 stages"},
	    {F "RUN a", "aaaaaaaaaaaaaaaa", "\n", 4096, "longer than 64 KiB"},
	    {F, "RUN a\n#aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "", 30000,
	     "larger than 1024 KiB"},
	    {F "RUN", " <<E", "\nE\n", DOCKERFILE_HERE_MAX + 1, "here-document"},
	    {F "RUN", " --mount=type=tmpfs", " a\n", DOCKERFILE_FLAGS_MAX + 1,
	     "more than 32 flags"},
	    /* each line doubles */
	    {F "ENV a=aaaaaaaa\n", "ENV a=$a$a\n", "", 40, "longer than 32 KiB"},
	    {F
	     "ENV a=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nENV a=$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a\nENV "
	     "a=$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a$a\n",
	     "LABEL b=$a c=$a d=$a e=$a f=$a g=$a h=$a i=$a\n", "", 900, "more than 4 MiB of text"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_(buf_done) struct buf b = BUF_INIT(8u << 20);
		struct err e;

		repeat(&b, rows[i].head, 1);
		repeat(&b, rows[i].line, rows[i].n);
		repeat(&b, rows[i].tail, 1);
		_cleanup_free_ char *got = printed(buf_str(&b), &plain, &e);

		assert_null(got);
		if (!strstr(e.text, rows[i].why))
			fail_msg("row %zu: '%s' lacks '%s'", i, e.text, rows[i].why);
	}
	_cleanup_(buf_done) struct buf b = BUF_INIT(8u << 20);
	struct err e;

	repeat(&b, F, 1);
	for (unsigned i = 0; i <= DOCKERFILE_VARS_MAX; i++)
		assert_int_equal(buf_printf(&b, "ENV a%u=1 b%u=2\n", i, i), 0);
	_cleanup_free_ char *got = printed(buf_str(&b), &plain, &e);

	assert_null(got);
	assert_non_null(strstr(e.text, "more than 512 variables"));
}

static const struct {
	const char *rules, *path;
	bool out;
} pattern_rows[] = {
    {"a", "a", true},
    {"a", "a/b", true}, /* what is in a folder that is left out */
    {"a", "ab", false},
    {"a", "b/a", false},
    {"/a", "a", true},
    {"a/", "a", true},
    {"./a", "a", true},
    {"a/../b", "b", true},
    {"  a  ", "a", true},
    {"#a", "#a", false},
    {"*", "a/b/c", true},
    {"*.md", "a.md", true},
    {"*.md", "a/a.md", false},
    {"*/*.md", "a/a.md", true},
    {"*/temp*", "x/temporary.txt", true},
    {"*/*/temp*", "x/y/temp", true},
    {"temp?", "tempa", true},
    {"temp?", "temp", false},
    {"**/*.go", "a.go", true},
    {"**/*.go", "x/y/a.go", true},
    {"**/*.go", "x/y/a.c", false},
    {"a/**/b", "a/b", true},
    {"a/**/b", "a/x/y/b", true},
    {"a/**/b", "a/x/yb", false},
    {"**", "a/b", true},
    {"a/**", "a/b/c", true},
    {"a**", "a/b", true},
    {"[ab]c", "ac", true},
    {"[a-c]x", "bx", true},
    {"[^a]x", "ax", false},
    {"[^a]x", "bx", true},
    {"\\*", "*", true},
    {"\\*", "a", false},
    {"*.md\n!README.md", "README.md", false},
    {"*.md\n!README.md", "a.md", true},
    {"*.md\n!README*.md\nREADME-secret.md", "README-secret.md", true},
    {"*.md\nREADME-secret.md\n!README*.md", "README-secret.md", false},
    {"*\n!a/b", "a/b", false},
    {"*\n!a/b", "a/c", true},
    {"*\n!a", "a/c", false},
    {"a.c", "axc", false},
    {"a$", "a$", true},
    {".", "a", false},
    {"/", "a", false},
    {"", "a", false},
    {"a\r\nb\r\n", "b", true},
};

static void patterns(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pattern_rows); i++) {
		_cleanup_(ignore_done) struct ignore g = {0};
		struct err e = ERR_INIT;

		assert_int_equal(ignore_parse(".dockerignore", pattern_rows[i].rules,
					      strlen(pattern_rows[i].rules), &g, &e),
				 0);
		if (ignore_match(&g, pattern_rows[i].path) != pattern_rows[i].out)
			fail_msg("row %zu: %s: %s", i, pattern_rows[i].rules, pattern_rows[i].path);
	}
}

/* A rule that makes matchers with backtracking slow takes no more work than the product of the lengths. */
static void slow_patterns(void **state)
{
	char rule[600], path[3000];
	_cleanup_(ignore_done) struct ignore g = {0};
	struct err e = ERR_INIT;

	(void)state;
	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	for (size_t i = 0; i < sizeof(rule) - 1; i++)
		rule[i] = "*a**/a"[i % 6];
	rule[sizeof(rule) - 2] = 'b';
	rule[sizeof(rule) - 1] = '\0';
	assert_int_equal(ignore_parse("x", rule, strlen(rule), &g, &e), 0);
	assert_int_equal(ignore_match(&g, path), 0);
	assert_true(g.work < 20000000);
	ignore_done(&g);
	for (size_t i = 0; i < 3; i++) {
		static const char *const wrong[] = {"[a", "a\\", "!"};

		assert_true(ignore_parse("x", wrong[i], strlen(wrong[i]), &g, &e) < 0);
		assert_non_null(strstr(e.text, "x:1: "));
	}
}

static void addresses(void **state)
{
	static const struct {
		const char *url;
		int inside; /* -1: no host */
	} rows[] = {
	    {"http://127.0.0.1/", 1},
	    {"http://127.1", 1},
	    {"http://0/", 1},
	    {"http://0177.0.0.1/", 1},
	    {"http://localhost:80/", 1},
	    {"http://x.localhost/", 1},
	    {"http://metadata.google.internal/", 1},
	    {"http://169.254.1.2/", 1},
	    {"http://100.100.100.200/", 1},
	    {"http://224.0.0.1/", 1},
	    {"http://[::]/", 1},
	    {"http://[::ffff:127.0.0.1]/", 1},
	    {"http://[64:ff9b::7f00:1]/", 1},
	    {"http://[2002:7f00:1::]/", 1},
	    {"http://[fe80::1]/", 1},
	    {"http://[fd00:ec2::254]/", 1},
	    {"http://[2001:db8::1]/", 0},
	    {"http://8.8.8.8/", 0},
	    {"http://10.0.0.1/", 0},
	    {"http://example.com@127.0.0.1/", 1},
	    {"http://127.0.0.1@example.com/", 0},
	    {"http://example.com/@127.0.0.1", 0},
	    {"http://example.com#@127.0.0.1", 0},
	    {"https://pypi.org/x", 0},
	    {"http:///", -1},
	    {"http://[::1/", -1},
	    {"http://a b/", -1},
	    {"no", -1},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char host[INSIDE_HOST_MAX];
		const int r = inside_host(rows[i].url, host);

		if ((rows[i].inside < 0) != (r < 0) ||
		    (r >= 0 && inside_is_host(host) != rows[i].inside))
			fail_msg("row %zu: %s", i, rows[i].url);
	}
	assert_true(inside_resolves("127.0.0.1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(accepted),      cmocka_unit_test(refused),
	    cmocka_unit_test(words),         cmocka_unit_test(stages_and_arguments),
	    cmocka_unit_test(limits),        cmocka_unit_test(patterns),
	    cmocka_unit_test(slow_patterns), cmocka_unit_test(addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
