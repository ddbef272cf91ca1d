/* SPDX-License-Identifier: Apache-2.0 */
/* objects: where a store is, its credentials, names of objects, and signed addresses. */
#include "objects/sign.h"

#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CREDENTIALS                                                                                \
	"# a comment\n[default]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\r\n"                     \
	"  aws_secret_access_key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY  \n\n"
#define ID "11112222-3333-4444-8555-666677778888"

/* ---- addresses ---- */

static struct objects_store place(const char *endpoint, const char *bucket, const char *region,
				  bool path_style)
{
	struct objects_store s;
	struct err e = ERR_INIT;

	if (objects_store_place(&s, endpoint, bucket, region, path_style, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(objects_store_credentials(&s, CREDENTIALS, &e), 0);
	return s;
}

/* The first is the example of the S3 manual (sigv4-query-string-auth), the others are what botocore 1.43.11 makes. */
static const struct {
	const char *endpoint, *bucket, *region;
	bool path_style;
	struct objects_order order;
	const char *begin, *signature;
} vectors[] = {
    {"https://s3.amazonaws.com",
     "examplebucket",
     "us-east-1",
     false,
     {"GET", "test.txt", OBJECTS_LENGTH_ANY, 86400, 1369353600},
     "https://examplebucket.s3.amazonaws.com/"
     "test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
     "AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date="
     "20130524T000000Z&"
     "X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=",
     "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"},
    {"https://Objects.example.org:9000/",
     "snapshots",
     "eu-central-1",
     true,
     {"PUT", "caisson/" ID "/blocks/0a1b", 4194304, 900, 1893456000},
     "https://objects.example.org:9000/snapshots/caisson/" ID
     "/blocks/0a1b?X-Amz-Algorithm=AWS4-HMAC-SHA256&"
     "X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20300101%2Feu-central-1%2Fs3%2Faws4_request&"
     "X-Amz-Date="
     "20300101T000000Z&X-Amz-Expires=900&X-Amz-SignedHeaders=content-length%3Bhost&X-Amz-"
     "Signature=",
     "b847300204e7cb0e036bff3649b1e5b076085278d0029e1ffd2b716f2f78d6a7"},
    {"http://[FD00::7]:8333",
     "snapshots",
     "garage",
     true,
     {"DELETE", "caisson/a_b-c.d", OBJECTS_LENGTH_ANY, 1, 1700000000},
     "http://[fd00::7]:8333/snapshots/caisson/a_b-c.d?X-Amz-Algorithm=",
     "4bccd0a1ac6d322b1e0638563c3708dc2a554956ed3839bd78c944f9e15736ba"},
    {"https://s3.eu-north-1.amazonaws.com:443",
     "b-1",
     "eu-north-1",
     false,
     {"HEAD", "x", OBJECTS_LENGTH_ANY, 604800, 1893455999},
     "https://b-1.s3.eu-north-1.amazonaws.com/x?X-Amz-Algorithm=",
     "e629f73a46c98071a5611f14ba309b1095ca25710e0bc0507bf608fb1cd60b99"},
    {"https://127.0.0.1",
     "abc",
     "us-east-1",
     true,
     {"PUT", "empty", 0, 60, 1700000000},
     "https://127.0.0.1/abc/empty?X-Amz-Algorithm=",
     "0f4e063badda55898d324338f84fbad643fd09c77e987f6980bc6085a8878c6d"},
};

static void test_vectors(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(vectors); i++) {
		_cleanup_(buf_done) struct buf address = BUF_INIT(OBJECTS_ADDRESS_MAX);
		const struct objects_store s = place(vectors[i].endpoint, vectors[i].bucket,
						     vectors[i].region, vectors[i].path_style);
		struct err e = ERR_INIT;

		assert_int_equal(objects_sign(&s, &vectors[i].order, &address, &e), 0);
		assert_memory_equal(buf_str(&address), vectors[i].begin, strlen(vectors[i].begin));
		assert_string_equal(strstr(buf_str(&address), "Signature=") + strlen("Signature="),
				    vectors[i].signature);
	}
}

static void test_orders(void **state UNUSED)
{
	const struct objects_store s = place("https://h", "abc", "r", true);
	static const struct objects_order wrong[] = {
	    {"POST", "k", OBJECTS_LENGTH_ANY, 60, 1},
	    {"get", "k", OBJECTS_LENGTH_ANY, 60, 1},
	    {"PUT", "k", OBJECTS_LENGTH_ANY, 60, 1},
	    {"PUT", "k", OBJECTS_LENGTH_MAX + 1, 60, 1},
	    {"GET", "k", 0, 60, 1},
	    {"GET", "k", OBJECTS_LENGTH_ANY, 0, 1},
	    {"GET", "k", OBJECTS_LENGTH_ANY, OBJECTS_SECONDS_MAX + 1, 1},
	    {"GET", "k", OBJECTS_LENGTH_ANY, 60, UINT64_MAX},
	    {"GET", "../k", OBJECTS_LENGTH_ANY, 60, 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_(buf_done) struct buf address = BUF_INIT(OBJECTS_ADDRESS_MAX);
		struct err e = ERR_INIT;

		assert_true(objects_sign(&s, &wrong[i], &address, &e) < 0);
		assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
		assert_int_equal(address.len, 0);
	}
}

static void test_keys(void **state UNUSED)
{
	static const char *const good[] = {"a", "caisson/" ID "/blocks/00", "a/b.c", "A_-/9..b"};
	static const char *const bad[] = {"",     "/",    "/a",       "a/",   "a//b", ".",
					  "..",   "a/..", "a/../b",   "a/.b", "a b",  "a?b",
					  "a%2e", "a\nb", "\xc3\xa4", "a\\b", "a#b",  "a+b"};
	char longest[OBJECTS_KEY_SIZE + 1];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(objects_key_ok(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(objects_key_ok(bad[i]));
	memset(longest, 'a', sizeof(longest));
	longest[OBJECTS_KEY_SIZE] = '\0';
	assert_false(objects_key_ok(longest));
	longest[OBJECTS_KEY_SIZE - 1] = '\0';
	assert_true(objects_key_ok(longest));
}

static void test_places(void **state UNUSED)
{
	static const struct {
		const char *endpoint, *bucket, *region;
		bool path_style;
		const char *says;
	} wrong[] = {
	    {"s3.example.org", "abc", "r", false, "ENDPOINT"},
	    {"ftp://s3.example.org", "abc", "r", false, "ENDPOINT"},
	    {"https://", "abc", "r", false, "ENDPOINT"},
	    {"https://:443", "abc", "r", false, "ENDPOINT"},
	    {"https://h:0", "abc", "r", false, "ENDPOINT"},
	    {"https://h:65536", "abc", "r", false, "ENDPOINT"},
	    {"https://h:1:2", "abc", "r", false, "ENDPOINT"},
	    {"https://h/bucket", "abc", "r", false, "ENDPOINT"},
	    {"https://h?x", "abc", "r", false, "ENDPOINT"},
	    {"https://user:pw@h", "abc", "r", false, "ENDPOINT"},
	    {"https://h\r\nHost: x", "abc", "r", false, "ENDPOINT"},
	    {"https://[::1]", "abc", "r", false, "PATH_STYLE=on"},
	    {"https://10.0.0.7:9000", "abc", "r", false, "PATH_STYLE=on"},
	    {"https://[::1", "abc", "r", true, "ENDPOINT"},
	    {"https://h", "ab", "r", false, "BUCKET"},
	    {"https://h", "Abc", "r", false, "BUCKET"},
	    {"https://h", "-abc", "r", false, "BUCKET"},
	    {"https://h", "a..b", "r", true, "BUCKET"},
	    {"https://h", "a/bc", "r", true, "BUCKET"},
	    {"https://h", "a.bc", "r", false, "PATH_STYLE=on"},
	    {"https://h", "abc", "", false, "REGION"},
	    {"https://h", "abc", "a b", false, "REGION"},
	    {"https://h", "abc", "a/b", false, "REGION"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		struct objects_store s;
		struct err e = ERR_INIT;

		if (objects_store_place(&s, wrong[i].endpoint, wrong[i].bucket, wrong[i].region,
					wrong[i].path_style, &e) == 0)
			fail_msg("row %zu is taken: %s", i, wrong[i].endpoint);
		assert_int_equal(e.code, ERR_SETTING_INVALID);
		assert_non_null(strstr(e.text, wrong[i].says));
	}
	char host[OBJECTS_HOST_SIZE + 16];
	memset(host, 'h', sizeof(host));
	memcpy(host, "https://", 8);
	host[sizeof(host) - 1] = '\0';
	struct objects_store s;
	struct err e = ERR_INIT;
	assert_true(objects_store_place(&s, host, "abc", "r", false, &e) < 0);
}

static void test_credentials(void **state UNUSED)
{
	static const struct {
		const char *text, *says;
	} wrong[] = {
	    {"", "aws_access_key_id"},
	    {"aws_access_key_id = SECRET1", "aws_secret_access_key"},
	    {"aws_access_key_id=\naws_secret_access_key=SECRET1", "no value"},
	    {"aws_access_key_id=SECRET1\naws_access_key_id=SECRET2", "twice"},
	    {"aws_access_key_id=SEC RET1", "no value"},
	    {"[other]\naws_access_key_id=SECRET1", "section"},
	    {"SECRET1", "line 1"},
	    {"\nSECRET1 = SECRET2", "line 2"},
	    {"aws_session_token=SECRET1", "session token"},
	};
	struct err e = ERR_INIT;
	struct objects_store s = place("https://h", "abc", "r", true);

	assert_string_equal(s.access, "AKIAIOSFODNN7EXAMPLE");
	assert_string_equal(s.secret, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		e = ERR_INIT;
		if (objects_store_credentials(&s, wrong[i].text, &e) == 0)
			fail_msg("row %zu is taken", i);
		assert_non_null(strstr(e.text, wrong[i].says));
		assert_null(strstr(e.text, "SECRET")); /* no value in a message */
		assert_string_equal(s.secret, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_vectors),     cmocka_unit_test(test_orders),
	    cmocka_unit_test(test_keys),        cmocka_unit_test(test_places),
	    cmocka_unit_test(test_credentials),
	};

	return cmocka_run_group_tests_name("objects_sign", tests, NULL, NULL);
}
