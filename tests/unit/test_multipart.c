/* SPDX-License-Identifier: Apache-2.0 */
/* multipart/form-data: what it finds, what it refuses, and that pieces do not matter. */
#include "base/buf.h"
#include "base/text.h"
#include "http/multipart.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TYPE     "multipart/form-data; boundary=b0"
#define DISPO    "Content-Disposition: form-data; "
#define PART(p)  "--b0\r\n" DISPO p "\r\n\r\n"
#define FILE_A   PART("name=\"f\"; filename=\"a\"")
#define LAST     "\r\n--b0--\r\n"
#define TALK_MAX (64u << 10)
#define REFUSED  NULL

/* What the callbacks were told: "[name|filename]data." for each part; "-" for no filename. */
struct talk {
	struct buf heard;
	unsigned parts, ends;
	int stop_at_part; /* 0: never */
	bool stops;       /* on_part stops the parser, which then goes on with the rest */
};

static int on_part(const struct multipart_part *part, void *user, struct err *e)
{
	struct talk *t = user;

	if (++t->parts == (unsigned)t->stop_at_part)
		return err_set(e, ERR_CANCELLED, 0, "enough");
	const int r =
	    buf_printf(&t->heard, "[%s|%s]", part->name, part->filename ? part->filename : "-");
	return r < 0 || !t->stops ? r : MULTIPART_STOP;
}

static int on_data(const void *data, size_t len, void *user, struct err *e)
{
	struct talk *t = user;

	(void)e;
	assert_true(len > 0);
	assert_int_equal(t->parts, t->ends + 1);
	return buf_add(&t->heard, data, len);
}

static int on_part_end(void *user, struct err *e)
{
	struct talk *t = user;

	(void)e;
	t->ends++;
	return buf_add_char(&t->heard, '.');
}

static const struct multipart_ops ops = {on_part, on_data, on_part_end};

/* Feeds BODY in the pieces [0,A) [A,B) [B,LEN). Owned text, or NULL: refused. */
static char *talk(const char *type, const char *body, size_t len, size_t a, size_t b)
{
	struct talk t = {.heard = BUF_INIT(TALK_MAX), .stops = a % 2 == 0};
	const size_t cuts[] = {0, a, b, len};
	struct multipart m;
	struct err e = ERR_INIT;
	int r = multipart_init(&m, type, &ops, &t, &e);

	for (size_t i = 0; r == 0 && i + 1 < ARRAY_SIZE(cuts); i++) {
		/* An own copy of the piece: sanitizers see who reads past its end. */
		const size_t n = cuts[i + 1] - cuts[i];
		char *piece = malloc(n + 1);

		assert_non_null(piece);
		memcpy(piece, body + cuts[i], n);
		for (size_t at = 0, taken = 0; r == 0 && at < n; at += taken)
			r = multipart_feed(&m, piece + at, n - at, &taken, &e);
		free(piece);
	}
	if (r == 0)
		r = multipart_end(&m, &e);
	assert_int_equal(r < 0, e.code != ERR_NONE);
	char *text = r < 0 ? NULL : strdup(buf_str(&t.heard));
	if (r == 0)
		assert_int_equal(t.parts, t.ends);
	buf_done(&t.heard);
	return text;
}

struct row {
	const char *body;
	const char *want; /* REFUSED, or what is heard */
};

static const struct row rows[] = {
    /* files, fields, order */
    {FILE_A "data" LAST, "[f|a]data."},
    {FILE_A "data\r\n" PART("name=x") "y" LAST, "[f|a]data.[x|-]y."},
    {FILE_A "one\r\n" FILE_A "two" LAST, "[f|a]one.[f|a]two."},
    /* empty bodies, in both forms that the grammar has */
    {FILE_A LAST, "[f|a]."},
    {FILE_A "--b0--", "[f|a]."},
    {FILE_A "\r\n" FILE_A "--b0--", "[f|a].[f|a]."},
    /* what looks like a boundary */
    {FILE_A "\r\n--b\r\n-\r\r\n--b1\r\n" LAST, "[f|a]\r\n--b\r\n-\r\r\n--b1\r\n."},
    {FILE_A "x--b0--" LAST, "[f|a]x--b0--."},
    {FILE_A "\n--b0\n" LAST, "[f|a]\n--b0\n."},
    {FILE_A "--b1" LAST, "[f|a]--b1."},
    {FILE_A "\r\n--b\r\n--b0--", "[f|a]\r\n--b."},
    {FILE_A "\r\r\r\n--b0--", "[f|a]\r\r."},
    /* before the first, after the last, blanks behind a boundary */
    {"pre\r\n-- amble\r\n" FILE_A "d" LAST, "[f|a]d."},
    {FILE_A "d" LAST FILE_A "hidden" LAST, "[f|a]d."},
    {"--b0 \t \r\n" DISPO "name=n\r\n\r\nd\r\n--b0 \t\r\n" DISPO "name=m\r\n\r\n" LAST,
     "[n|-]d.[m|-]."},
    {"--b0--", ""},
    /* heads */
    {"--b0\r\ncontent-type: text/plain\r\ncONTENT-disposition:\tForm-Data ;name=n \r\n"
     "Content-Transfer-Encoding: BINARY\r\nX: y\r\n\r\nd" LAST,
     "[n|-]d."},
    {PART("name=\"\"; filename=\"\"") "d" LAST, "[|]d."},
    {PART("name=\"a\\\"b\\\\c\\d\"") "d" LAST, "[a\"b\\c\\d|-]d."},
    {PART("name=\"%22%0D%0a%2F%25%\"") "d" LAST, "[\"\r\n%2F%25%|-]d."},
    {PART("name=\"a;b=c\"; filename=\"h\xc3\xa9/../x\"; other=1") "d" LAST,
     "[a;b=c|h\xc3\xa9/../x]d."},
    /* refused: ends */
    {"", REFUSED},
    {"--b0", REFUSED},
    {"--b0-", REFUSED},
    {FILE_A "data", REFUSED},
    {FILE_A "data\r\n--b0", REFUSED},
    {FILE_A "data\r\n--b0-\r\n", REFUSED},
    {"--b1\r\n" DISPO "name=n\r\n\r\nd\r\n--b1--", REFUSED},
    /* refused: lines of boundaries */
    {FILE_A "data\r\n--b0x--", REFUSED},
    {FILE_A "data\r\n--b0 --", REFUSED},
    {"--b0\n" DISPO "name=n\n\nd\n--b0--", REFUSED},
    {"--b0\r\r\n" DISPO "name=n\r\n\r\nd" LAST, REFUSED},
    /* refused: heads */
    {"--b0\r\n\r\nd" LAST, REFUSED},
    {"--b0\r\nContent-Type: text/plain\r\n\r\nd" LAST, REFUSED},
    {"--b0\r\n" DISPO "name=n\r\n" DISPO "name=n\r\n\r\nd" LAST, REFUSED},
    {"--b0\r\n" DISPO "name=n\r\n folded: y\r\n\r\nd" LAST, REFUSED},
    {"--b0\r\n" DISPO "name=n\nX: y\r\n\r\nd" LAST, REFUSED},
    {"--b0\r\n" DISPO "name=n\r\n: y\r\n\r\nd" LAST, REFUSED},
    {"--b0\r\n" DISPO "name=n\r\nX y\r\n\r\nd" LAST, REFUSED},
    {"--b0\r\nContent-Disposition: attachment; name=n\r\n\r\nd" LAST, REFUSED},
    {"--b0\r\nContent-Disposition: form-dataX; name=n\r\n\r\nd" LAST, REFUSED},
    {"--b0\r\n" DISPO "name=n\r\nContent-Transfer-Encoding: base64\r\n\r\nd" LAST, REFUSED},
    {PART("filename=\"a\"") "d" LAST, REFUSED},
    {PART("name=n; name=m") "d" LAST, REFUSED},
    {PART("name=n; filename=a; FileName=b") "d" LAST, REFUSED},
    {PART("name=n; name*=utf-8''a") "d" LAST, REFUSED},
    {PART("name=n; filename*=utf-8'a") "d" LAST, REFUSED},
    {PART("name=n; filename*=utf-16''a") "d" LAST, REFUSED},
    {PART("name=n; filename*=utf-8''a%4") "d" LAST, REFUSED},
    {PART("name=n; filename*=utf-8''a%00") "d" LAST, REFUSED},
    {PART("name=n; filename*=utf-8''a%0A") "d" LAST, REFUSED},
    {PART("name=n; filename*=utf-8''%FF") "d" LAST, REFUSED},
    {PART("name=n; filename*=utf-8''a; filename*=utf-8''b") "d" LAST, REFUSED},
    {PART("name=n; filename=\"a") "d" LAST, REFUSED},
    {PART("name=n; filename=\"a\"b") "d" LAST, REFUSED},
    {PART("name=n; filename=a b") "d" LAST, REFUSED},
    {PART("name=n;") "d" LAST, REFUSED},
    {PART("name=") "d" LAST, REFUSED},
    {PART("name =n") "d" LAST, REFUSED},
    {PART("name=\"\xff\"") "d" LAST, REFUSED},
    {PART("name=\"\x01\"") "d" LAST, REFUSED},
    {PART("name=\"\x7f\"") "d" LAST, REFUSED},
};

static void check(const struct row *row, size_t len, size_t a, size_t b)
{
	char *got = talk(TYPE, row->body, len, a, b);

	if (row->want ? !got || !streq(got, row->want) : got != NULL)
		fail_msg("cut at %zu and %zu: %s\ngot %s", a, b, row->body,
			 got ? got : "(refused)");
	free(got);
}

/* Each row whole, and cut at every pair of places. */
static void test_bodies(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const size_t len = strlen(rows[i].body);

		for (size_t a = 0; a <= len; a++)
			for (size_t b = a; b <= len; b++)
				check(&rows[i], len, a, b);
	}
}

static void test_nul_bytes(void **state)
{
	static const char head[] = "--b0\r\n" DISPO "name=\"a\0b\"\r\n\r\nd" LAST;
	static const char data[] = FILE_A "a\0b" LAST;
	char *got;

	(void)state;
	assert_null(talk(TYPE, head, sizeof(head) - 1, 3, 5));
	got = talk(TYPE, data, sizeof(data) - 1, 3, 5);
	assert_string_equal(got, "[f|a]a");
	free(got);
}

static void test_boundaries(void **state)
{
	static const struct {
		const char *type, *boundary; /* NULL: refused */
	} types[] = {
	    {"multipart/form-data; boundary=b0", "b0"},
	    {"Multipart/Form-Data;charset=utf-8;Boundary=\"b 0'()+_,-./:=?\"", "b 0'()+_,-./:=?"},
	    {"multipart/form-data; boundary=----WebKitFormBoundaryAb0",
	     "----WebKitFormBoundaryAb0"},
	    {NULL, NULL},
	    {"", NULL},
	    {"multipart/form-data", NULL},
	    {"multipart/form-dataX; boundary=b0", NULL},
	    {"multipart/mixed; boundary=b0", NULL},
	    {"multipart/form-data; boundary=", NULL},
	    {"multipart/form-data; boundary=\"\"", NULL},
	    {"multipart/form-data; boundary=\"b \"", NULL},
	    {"multipart/form-data; boundary=\"b;0\"", NULL},
	    {"multipart/form-data; boundary=\"b", NULL},
	    {"multipart/form-data; boundary=a; boundary=b", NULL},
	    {"multipart/form-data; boundary*=a", NULL},
	    {"multipart/form-data boundary=a", NULL},
	};
	char type[600], want[MULTIPART_BOUNDARY_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		char got[MULTIPART_BOUNDARY_MAX + 1] = "";
		struct err e = ERR_INIT;
		const int r = multipart_boundary(types[i].type, got, &e);

		assert_int_equal(r, types[i].boundary ? 0 : -EINVAL);
		assert_string_equal(got, types[i].boundary ? types[i].boundary : "");
	}
	for (size_t len = MULTIPART_BOUNDARY_MAX; len < 560; len += len < 72 ? 1 : 400) {
		struct err e = ERR_INIT;

		(void)snprintf(type, sizeof(type), "multipart/form-data; boundary=%0*d", (int)len,
			       0);
		assert_int_equal(multipart_boundary(type, want, &e),
				 len == MULTIPART_BOUNDARY_MAX ? 0 : -EINVAL);
	}
}

/* The longest head, one byte more; the most parts, one more; the most blanks, one more. */
static void test_limits(void **state)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(TALK_MAX);

	(void)state;
	for (size_t more = 0; more < 2; more++) {
		const size_t pad =
		    MULTIPART_HEAD_MAX - strlen(DISPO "name=n\r\nX: \r\n\r\n") + more;

		buf_reset(&b);
		assert_int_equal(
		    buf_printf(&b, "--b0\r\n" DISPO "name=n\r\nX: %0*d\r\n\r\nd" LAST, (int)pad, 0),
		    0);
		char *got = talk(TYPE, b.data, b.len, 100, 5000);
		assert_int_equal(got == NULL, more);
		free(got);
	}
	for (unsigned n = MULTIPART_PARTS_MAX; n <= MULTIPART_PARTS_MAX + 1; n++) {
		buf_reset(&b);
		for (unsigned i = 0; i < n; i++)
			assert_int_equal(buf_add_str(&b, PART("name=n") "d\r\n"), 0);
		assert_int_equal(buf_add_str(&b, "--b0--"), 0);
		char *got = talk(TYPE, b.data, b.len, 100, 1000);
		assert_int_equal(got == NULL, n > MULTIPART_PARTS_MAX);
		free(got);
	}
	for (int n = MULTIPART_PADDING_MAX; n <= MULTIPART_PADDING_MAX + 1; n++) {
		buf_reset(&b);
		assert_int_equal(buf_printf(&b, "--b0%*s\r\n" DISPO "name=n\r\n\r\nd" LAST, n, ""),
				 0);
		char *got = talk(TYPE, b.data, b.len, 0, 10);
		assert_int_equal(got == NULL, n > MULTIPART_PADDING_MAX);
		free(got);
	}
}

/* The error of a callback comes out, and nothing is called afterwards. */
static void test_callback_stops(void **state)
{
	static const char body[] = FILE_A "x\r\n" FILE_A "y\r\n" FILE_A "z" LAST;
	struct talk t = {.heard = BUF_INIT(TALK_MAX), .stop_at_part = 2};
	struct multipart m;
	struct err e = ERR_INIT;
	size_t taken;

	(void)state;
	assert_int_equal(multipart_init(&m, TYPE, &ops, &t, &e), 0);
	assert_true(multipart_feed(&m, body, sizeof(body) - 1, &taken, &e) < 0);
	assert_int_equal(e.code, ERR_CANCELLED);
	assert_int_equal(t.parts, 2);
	assert_string_equal(buf_str(&t.heard), "[f|a]x.");
	buf_done(&t.heard);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_bodies),         cmocka_unit_test(test_nul_bytes),
	    cmocka_unit_test(test_boundaries),     cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_callback_stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
