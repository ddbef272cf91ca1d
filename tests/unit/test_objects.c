/* SPDX-License-Identifier: Apache-2.0 */
/* objects: signed addresses, and requests with them to a store that does what a script says. With CAISSON_TEST_OBJECTS
 * ("ENDPOINT BUCKET ACCESS SECRET", `tests/run objects`) also to a real one. */
#include "objects/send.h"
#include "objects/sign.h"

#include "base/libcurl.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* ---- a store that does what a script says ---- */

#define HANG      "hang"
#define BREAK     "break"
#define MANY      8u
#define HEAD_MAX  4096u
#define OK_EMPTY  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define SLOW_DOWN "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"

struct script {
	const char *answers[MANY]; /* one for each connection, then none */
	int listener;
	char address[128];
	pthread_t thread;
	char heads[MANY][HEAD_MAX];
	size_t bodies[MANY]; /* bytes */
	unsigned n;
	atomic_bool *stop;
};

static size_t length_of(const char *head)
{
	const char *at = strstr(head, "Content-Length: ");
	uint64_t n = 0;

	at = at ? at + strlen("Content-Length: ") : "";
	(void)!parse_u64_n(at, strspn(at, "0123456789"), 0, HEAD_MAX, &n);
	return (size_t)n;
}

static void take_request(struct script *s, int fd)
{
	char *head = s->heads[s->n];
	char rest[65536];
	size_t len = 0;
	ssize_t n;

	while (len < HEAD_MAX - 1 && !strstr(head, "\r\n\r\n") && (n = read(fd, head + len, 1)) > 0)
		head[len += (size_t)n] = '\0';
	const size_t all = length_of(head);
	for (size_t got = 0; got < all; got += (size_t)n) {
		n = read(fd, rest, MIN(sizeof(rest), all - got));
		if (n <= 0)
			break;
		s->bodies[s->n] += (size_t)n;
	}
}

static void *run_script(void *user)
{
	struct script *s = user;

	for (; s->n < MANY && s->answers[s->n]; s->n++) {
		const char *answer = s->answers[s->n];
		char byte;
		int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			break;
		take_request(s, fd);
		if (s->stop)
			atomic_store(s->stop, true);
		if (streq(answer, HANG))
			(void)!read(fd, &byte, 1); /* until the client has left */
		else if (!streq(answer, BREAK))
			(void)!write(fd, answer, strlen(answer));
		(void)close(fd);
	}
	return NULL;
}

static void begin(struct script *s)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(s->listener, 8), 0);
	assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &len), 0);
	(void)snprintf(s->address, sizeof(s->address),
		       "http://127.0.0.1:%u/abc/k?X-Amz-Signature=f00d", ntohs(a.sin_port));
	assert_int_equal(pthread_create(&s->thread, NULL, run_script, s), 0);
}

static void finish(struct script *s)
{
	(void)shutdown(s->listener, SHUT_RDWR); /* ends accept(2) */
	assert_int_equal(pthread_join(s->thread, NULL), 0);
	(void)close(s->listener);
}

static int ask(const char *address, const char *method, const char *body, struct buf *ret,
	       unsigned ms, const atomic_bool *stop, struct err *e)
{
	struct objects_client *c = NULL;
	const struct objects_request r = {
	    .method = method,
	    .address = address,
	    .what = "the-object",
	    .body = body,
	    .len = body ? strlen(body) : 0,
	    .ret = ret,
	    .deadline_ms = ms,
	    .stop = stop,
	};

	assert_int_equal(objects_client_new(&c, NULL, e), 0);
	const int x = objects_send(c, &r, e);
	objects_client_free(c);
	if (x < 0)
		assert_null(strstr(e->text, "f00d")); /* an address is a credential */
	return x;
}

#define LONG_MS 60000u

static void test_tries(void **state UNUSED)
{
	struct script s = {.answers = {SLOW_DOWN, BREAK, OK_EMPTY}};
	struct err e = ERR_INIT;

	begin(&s);
	assert_int_equal(ask(s.address, "PUT", "twelve bytes", NULL, LONG_MS, NULL, &e), 0);
	finish(&s);
	assert_int_equal(s.n, 3);
	for (unsigned i = 0; i < 3;
	     i++) { /* each try sends everything, and says how much that is at once */
		assert_int_equal(s.bodies[i], 12);
		assert_non_null(strstr(s.heads[i], "PUT /abc/k?X-Amz-Signature=f00d HTTP/1.1\r\n"));
		assert_null(strstr(s.heads[i], "Expect"));
		assert_null(strstr(s.heads[i], "chunked"));
	}
}

static void test_gives_up(void **state UNUSED)
{
	struct script s = {
	    .answers = {SLOW_DOWN, SLOW_DOWN, SLOW_DOWN, SLOW_DOWN, SLOW_DOWN, OK_EMPTY}};
	struct err e = ERR_INIT;

	begin(&s);
	assert_int_equal(ask(s.address, "PUT", "x", NULL, LONG_MS, NULL, &e), -EIO);
	finish(&s);
	assert_int_equal(s.n, OBJECTS_TRIES_MAX);
	assert_int_equal(e.code, ERR_OBJECTS_UNREACHABLE);
	assert_non_null(strstr(e.text, "503"));
}

static void test_deadline(void **state UNUSED)
{
	struct script s = {.answers = {HANG, HANG, HANG, HANG, HANG}};
	struct err e = ERR_INIT;
	const uint64_t since = now_ns();

	begin(&s);
	assert_int_equal(ask(s.address, "GET", NULL, NULL, 300, NULL, &e), -EIO);
	assert_true(now_ns() - since >= 300 * NS_PER_MS);
	finish(&s);
	assert_int_equal(s.n, 1);
	assert_int_equal(e.code, ERR_OBJECTS_UNREACHABLE);
}

static void test_stop(void **state UNUSED)
{
	atomic_bool stop = false;
	struct script s = {.answers = {HANG}, .stop = &stop}; /* once the request has come */
	struct err e = ERR_INIT;

	begin(&s);
	assert_int_equal(ask(s.address, "GET", NULL, NULL, LONG_MS, &stop, &e), -ECANCELED);
	finish(&s);
	assert_int_equal(e.code, ERR_CANCELLED);
	assert_int_equal(s.n, 1);
}

static void test_answers(void **state UNUSED)
{
	static const struct {
		const char *method, *answer;
		int result;
		enum err_code code;
		const char *says;
	} rows[] = {
	    {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour", 0, ERR_NONE, ""},
	    {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfive!", -EFBIG,
	     ERR_OBJECTS_REFUSED, "larger"},
	    {"GET", "HTTP/1.1 404 Not Found\r\nContent-Length: 23\r\n\r\n<Code>NoSuchKey</Code> ",
	     -ENOENT, ERR_NOT_FOUND, "the-object"},
	    {"GET",
	     "HTTP/1.1 404 Not Found\r\nContent-Length: 26\r\n\r\n<Code>NoSuchBucket</Code> ",
	     -EACCES, ERR_OBJECTS_REFUSED, "NoSuchBucket"},
	    {"GET",
	     "HTTP/1.1 403 Forbidden\r\nContent-Length: "
	     "64\r\n\r\n<Code>AccessDenied</Code><Message>Request has \x1b[1m expired</Message>",
	     -EACCES, ERR_OBJECTS_REFUSED, "AccessDenied Request has ?[1m expired"},
	    {"GET",
	     "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
	     -EACCES, ERR_OBJECTS_REFUSED, "307"},
	    {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n", 0, ERR_NONE, ""},
	    {"HEAD", "HTTP/1.1 404 Not Found\r\n\r\n", -ENOENT, ERR_NOT_FOUND, ""},
	    {"DELETE", "HTTP/1.1 204 No Content\r\n\r\n", 0, ERR_NONE, ""},
	    {"DELETE", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 0, ERR_NONE, ""},
	    {"PUT", "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", -EACCES, ERR_OBJECTS_REFUSED,
	     "400"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct script s = {.answers = {rows[i].answer}};
		_cleanup_(buf_done) struct buf got = BUF_INIT(4);
		struct err e = ERR_INIT;
		const bool get = streq(rows[i].method, "GET");

		begin(&s);
		const int x =
		    ask(s.address, rows[i].method, streq(rows[i].method, "PUT") ? "x" : NULL,
			get ? &got : NULL, LONG_MS, NULL, &e);
		finish(&s);
		if (x != rows[i].result || e.code != rows[i].code || !strstr(e.text, rows[i].says))
			fail_msg("row %zu: %d, %s", i, x, e.text);
		assert_int_equal(strncmp(s.heads[0], rows[i].method, strlen(rows[i].method)), 0);
		if (x == 0 && get)
			assert_string_equal(buf_str(&got), "four");
	}
}

/* What came of an answer that broke off is not in the whole one. */
static void test_half(void **state UNUSED)
{
	struct script s = {.answers = {"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf",
				       "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nall of i"}};
	_cleanup_(buf_done) struct buf got = BUF_INIT(8);
	struct err e = ERR_INIT;

	begin(&s);
	assert_int_equal(ask(s.address, "GET", NULL, &got, LONG_MS, NULL, &e), 0);
	finish(&s);
	assert_string_equal(buf_str(&got), "all of i");
}

static void test_nobody(void **state UNUSED)
{
	struct err e = ERR_INIT;

	assert_int_equal(ask("http://127.0.0.1:1/abc/k?f00d", "GET", NULL, NULL, 500, NULL, &e),
			 -EIO);
	assert_int_equal(e.code, ERR_OBJECTS_UNREACHABLE);
	e = ERR_INIT;
	assert_true(ask("file:///etc/hostname", "GET", NULL, NULL, 500, NULL, &e) < 0);
}

/* ---- a real one ---- */

static struct objects_store real;

static int real_ask(const struct objects_order *o, const char *method, const char *key,
		    const char *body, struct buf *ret, struct err *e)
{
	_cleanup_(buf_done) struct buf address = BUF_INIT(OBJECTS_ADDRESS_MAX);

	assert_int_equal(objects_sign(&real, o, &address, e), 0);
	/* Another object than was signed. */
	char *at = key ? strstr(address.data, o->key) : NULL;
	if (at)
		memcpy(at, key, strlen(key));
	return ask(buf_str(&address), method, body, ret, LONG_MS, NULL, e);
}

static bool has_real(void)
{
	char text[1024], *part[4], *rest = text;
	struct err e = ERR_INIT;
	const char *value = getenv("CAISSON_TEST_OBJECTS");

	if (!value) {
		print_message("skipped: `tests/run objects` starts a store for it\n");
		return false;
	}
	assert_int_equal(text_copy(text, sizeof(text), value), 0);
	for (size_t i = 0; i < ARRAY_SIZE(part); i++)
		assert_non_null(part[i] = strsep(&rest, " "));
	assert_int_equal(objects_store_place(&real, part[0], part[1], "us-east-1", true, &e), 0);
	(void)!text_copy(real.access, sizeof(real.access), part[2]);
	(void)!text_copy(real.secret, sizeof(real.secret), part[3]);
	return true;
}

static void test_real(void **state UNUSED)
{
	_cleanup_(buf_done) struct buf got = BUF_INIT(64);
	const uint64_t now = now_wall_ns() / NS_PER_S;
	const struct objects_order put = {"PUT", "caisson/" ID "/blocks/00", 4, 60, now},
				   get = {"GET", "caisson/" ID "/blocks/00", OBJECTS_LENGTH_ANY, 60,
					  now},
				   head = {"HEAD", "caisson/" ID "/blocks/00", OBJECTS_LENGTH_ANY,
					   60, now},
				   gone = {"DELETE", "caisson/" ID "/blocks/00", OBJECTS_LENGTH_ANY,
					   60, now},
				   old = {"GET", "caisson/" ID "/blocks/00", OBJECTS_LENGTH_ANY, 60,
					  now - 3600};
	struct err e = ERR_INIT;

	if (!has_real())
		skip();
	assert_int_equal(real_ask(&put, "PUT", NULL, "four", NULL, &e), 0);
	assert_int_equal(real_ask(&get, "GET", NULL, NULL, &got, &e), 0);
	assert_string_equal(buf_str(&got), "four");
	assert_int_equal(real_ask(&head, "HEAD", NULL, NULL, NULL, &e), 0);
	/* An address is good for what it was made for alone. */
	assert_int_equal(real_ask(&put, "PUT", NULL, "fives", NULL, &e), -EACCES);
	assert_int_equal(real_ask(&put, "PUT", NULL, "", NULL, &e), -EACCES);
	assert_int_equal(real_ask(&put, "PUT", "caisson/" ID "/blocks/01", "four", NULL, &e),
			 -EACCES);
	assert_int_equal(real_ask(&put, "GET", NULL, NULL, &got, &e), -EACCES);
	assert_int_equal(real_ask(&get, "DELETE", NULL, NULL, NULL, &e), -EACCES);
	assert_int_equal(real_ask(&get, "PUT", NULL, "four", NULL, &e), -EACCES);
	assert_int_equal(real_ask(&old, "GET", NULL, NULL, &got, &e), -EACCES);
	real.secret[0] ^= 1;
	assert_int_equal(real_ask(&get, "GET", NULL, NULL, &got, &e), -EACCES);
	real.secret[0] ^= 1;
	assert_int_equal(real_ask(&get, "GET", NULL, NULL, &got, &e), 0);
	assert_string_equal(buf_str(&got), "four");
	assert_int_equal(real_ask(&gone, "DELETE", NULL, NULL, NULL, &e), 0);
	assert_int_equal(real_ask(&gone, "DELETE", NULL, NULL, NULL, &e), 0);
	assert_int_equal(real_ask(&get, "GET", NULL, NULL, &got, &e), -ENOENT);
	(void)!text_copy(real.bucket, sizeof(real.bucket), "no-such-bucket");
	assert_int_equal(real_ask(&get, "GET", NULL, NULL, &got, &e), -EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_vectors),     cmocka_unit_test(test_orders),
	    cmocka_unit_test(test_keys),        cmocka_unit_test(test_places),
	    cmocka_unit_test(test_credentials), cmocka_unit_test(test_tries),
	    cmocka_unit_test(test_gives_up),    cmocka_unit_test(test_deadline),
	    cmocka_unit_test(test_stop),        cmocka_unit_test(test_answers),
	    cmocka_unit_test(test_half),        cmocka_unit_test(test_nobody),
	    cmocka_unit_test(test_real),
	};
	struct err e = ERR_INIT;

	if (libcurl_load(&e) < 0) {
		(void)fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	return cmocka_run_group_tests_name("objects", tests, NULL, NULL);
}
