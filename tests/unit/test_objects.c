/* SPDX-License-Identifier: Apache-2.0 */
/* objects: requests with signed addresses to a store that does what a script says. With CAISSON_TEST_OBJECTS
 * ("ENDPOINT BUCKET ACCESS SECRET", `tests/run objects`) also to a real one. */
#include "objects/send.h"
#include "objects/sign.h"

#include "base/libcurl.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define ID "11112222-3333-4444-8555-666677778888"

/* ---- a store that does what a script says ---- */

#define HANG      "hang"
#define BREAK     "break"
#define MANY      8u
#define HEAD_MAX  4096u
#define OK_EMPTY  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define OK_CLOSE  "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
#define SLOW_DOWN "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n"
#define SAYS(status, text)                                                                         \
	"HTTP/1.1 " status "\r\nConnection: close\r\n\r\n<?xml version=\"1.0\"?><Error>" text      \
	"</Error>"
#define DIGITS_60 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab"

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

/* Some stores have an answer of 4xx for what a second try mends. */
static void test_codes_that_pass(void **state UNUSED)
{
	static const char *const answers[] = {
	    SAYS("400 Bad Request", "<Code>RequestTimeout</Code>"),
	    SAYS("409 Conflict", "<Code>OperationAborted</Code>"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		struct script s = {.answers = {answers[i], OK_EMPTY}};
		struct err e = ERR_INIT;

		begin(&s);
		assert_int_equal(ask(s.address, "PUT", "x", NULL, LONG_MS, NULL, &e), 0);
		finish(&s);
		assert_int_equal(s.n, 2);
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
	assert_in_range(s.n, 0, 1); /* none: on a busy machine the script's thread came too late */
	assert_int_equal(e.code, ERR_OBJECTS_UNREACHABLE);
}

/* libcurl asks a name server on a thread. "slow" stands for one that does not answer. */
#define NAMES_MS 3000

__attribute__((visibility("default"))) int getaddrinfo(const char *node, const char *service,
						       const struct addrinfo *hints,
						       struct addrinfo **ret)
{
	__typeof__(getaddrinfo) *next = NULL;
	const struct timespec some = {.tv_sec = NAMES_MS / 1000};

	if (node && streq(node, "slow")) {
		(void)nanosleep(&some, NULL);
		return EAI_AGAIN;
	}
	*(void **)&next = dlsym(RTLD_NEXT, "getaddrinfo");
	return next(node, service, hints, ret);
}

static void test_names(void **state UNUSED)
{
	struct err e = ERR_INIT;
	CURL *c = curl_easy_init();
	const CURLcode known = curl_easy_setopt(c, (CURLoption)(CURLOPTTYPE_LONG + 322), 1L);
	const uint64_t since = now_ns();

	curl_easy_cleanup(c);
	if (known != CURLE_OK) {
		print_message("skipped: this libcurl waits for name servers\n");
		skip();
	}
	assert_int_equal(ask("http://slow/abc/k?f00d", "GET", NULL, NULL, 300, NULL, &e), -EIO);
	assert_true(now_ns() - since < NAMES_MS * NS_PER_MS);
	assert_int_equal(e.code, ERR_OBJECTS_UNREACHABLE);
}

static void *stop_soon(void *user)
{
	const struct timespec some = {.tv_nsec = 20 * (long)NS_PER_MS};

	(void)nanosleep(&some, NULL);
	atomic_store((atomic_bool *)user, true);
	return NULL;
}

/* Nobody listens, so nearly all of the time is pauses. */
static void test_stop_in_pause(void **state UNUSED)
{
	atomic_bool stop = false;
	pthread_t thread;
	struct err e = ERR_INIT;

	assert_int_equal(pthread_create(&thread, NULL, stop_soon, &stop), 0);
	assert_int_equal(
	    ask("http://127.0.0.1:1/abc/k?f00d", "GET", NULL, NULL, LONG_MS, &stop, &e),
	    -ECANCELED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(e.code, ERR_CANCELLED);
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

static const struct {
	const char *method, *answer;
	int result;
	enum err_code code;
	const char *says;
} answers[] = {
    {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour", 0, ERR_NONE, ""},
    {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfive!", -EFBIG, ERR_OBJECTS_REFUSED,
     "larger"},
    {"GET", "HTTP/1.1 404 Not Found\r\nContent-Length: 23\r\n\r\n<Code>NoSuchKey</Code> ", -ENOENT,
     ERR_NOT_FOUND, "the-object"},
    {"GET", SAYS("404 Not Found", "<Code>NoSuchBucket</Code>"), -EACCES, ERR_OBJECTS_REFUSED,
     "404 NoSuchBucket"},
    {"GET", SAYS("404 Not Found", "<html>nothing here</html>"), -EACCES, ERR_OBJECTS_REFUSED,
     "404"},
    {"GET", SAYS("403 No", "<Code>AccessDenied</Code><Message>Access Denied</Message>"), -EACCES,
     ERR_OBJECTS_REFUSED, "403 AccessDenied"},
    {"GET", SAYS("403 No", "<Code>AccessDenied</Code><Message>Request has expired</Message>"),
     -ETIME, ERR_OBJECTS_REFUSED, "403 AccessDenied: by its clock"},
    {"PUT", SAYS("403 No", "<Code>RequestTimeTooSkewed</Code>"), -ETIME, ERR_OBJECTS_REFUSED,
     "clock"},
    /* An address is a credential, also where a store repeats it. */
    {"GET", SAYS("403 No", "<Code>Bad</Code><Message>X-Amz-Signature=f00d</Message>"), -EACCES,
     ERR_OBJECTS_REFUSED, "403 Bad"},
    {"GET", SAYS("403 No", "<Code>X-Amz-Signature=f00d</Code>"), -EACCES, ERR_OBJECTS_REFUSED,
     "403"},
    {"GET", SAYS("403 No", "<Code>" DIGITS_60 "f00d</Code>"), -EACCES, ERR_OBJECTS_REFUSED, "403"},
    {"GET", "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
     -EACCES, ERR_OBJECTS_REFUSED, "307"},
    {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n", 0, ERR_NONE, ""},
    {"HEAD", "HTTP/1.1 404 Not Found\r\n\r\n", -ENOENT, ERR_NOT_FOUND, ""},
    {"DELETE", "HTTP/1.1 204 No Content\r\n\r\n", 0, ERR_NONE, ""},
    {"DELETE", SAYS("404 Not Found", "<Code>NoSuchKey</Code>"), 0, ERR_NONE, ""},
    {"DELETE", SAYS("404 Not Found", "<Code>NoSuchBucket</Code>"), -EACCES, ERR_OBJECTS_REFUSED,
     "404 NoSuchBucket"},
    {"DELETE", SAYS("404 Not Found", ""), -EACCES, ERR_OBJECTS_REFUSED, "404"},
    {"PUT", "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", -EACCES, ERR_OBJECTS_REFUSED, "400"},
};

static void test_answers(void **state UNUSED)
{
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		struct script s = {.answers = {answers[i].answer}};
		_cleanup_(buf_done) struct buf got = BUF_INIT(4);
		struct err e = ERR_INIT;
		const bool get = streq(answers[i].method, "GET");

		begin(&s);
		const int x =
		    ask(s.address, answers[i].method, streq(answers[i].method, "PUT") ? "x" : NULL,
			get ? &got : NULL, LONG_MS, NULL, &e);
		finish(&s);
		if (x != answers[i].result || e.code != answers[i].code ||
		    !strstr(e.text, answers[i].says))
			fail_msg("row %zu: %d, %s", i, x, e.text);
		assert_int_equal(strncmp(s.heads[0], answers[i].method, strlen(answers[i].method)),
				 0);
		if (x == 0 && get)
			assert_string_equal(buf_str(&got), "four");
	}
}

/* Nothing of a request stays for the next one. */
static void test_one_client(void **state UNUSED)
{
	static const char *const methods[] = {"PUT", "HEAD", "DELETE", "PUT", "GET", "HEAD", "GET"};
	struct script s = {
	    .answers = {OK_CLOSE, OK_CLOSE, OK_CLOSE, OK_CLOSE, OK_CLOSE, OK_CLOSE, OK_CLOSE}};
	struct objects_client *c = NULL;
	struct err e = ERR_INIT;

	begin(&s);
	assert_int_equal(objects_client_new(&c, NULL, &e), 0);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		const bool put = streq(methods[i], "PUT");
		const struct objects_request r = {.method = methods[i],
						  .address = s.address,
						  .what = "the-object",
						  .body = put ? "four" : NULL,
						  .len = put ? 4 : 0,
						  .header = i == 3 ? "X-Of-One: yes" : NULL,
						  .deadline_ms = LONG_MS};

		if (objects_send(c, &r, &e) < 0)
			fail_msg("%zu: %s", i, e.text);
	}
	objects_client_free(c);
	finish(&s);
	assert_int_equal(s.n, ARRAY_SIZE(methods));
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		const bool put = streq(methods[i], "PUT");

		assert_memory_equal(s.heads[i], methods[i], strlen(methods[i]));
		assert_int_equal(s.bodies[i], put ? 4 : 0);
		assert_int_equal(strstr(s.heads[i], "Content-Length") != NULL, put);
		assert_int_equal(strstr(s.heads[i], "\r\nX-Of-One: yes\r\n") != NULL, i == 3);
		assert_null(strstr(s.heads[i], "Expect"));
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
	assert_int_equal(real_ask(&old, "GET", NULL, NULL, &got, &e), -ETIME);
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
	assert_int_equal(real_ask(&gone, "DELETE", NULL, NULL, NULL, &e), -EACCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_tries),         cmocka_unit_test(test_codes_that_pass),
	    cmocka_unit_test(test_gives_up),      cmocka_unit_test(test_deadline),
	    cmocka_unit_test(test_stop),          cmocka_unit_test(test_names),
	    cmocka_unit_test(test_stop_in_pause), cmocka_unit_test(test_one_client),
	    cmocka_unit_test(test_answers),       cmocka_unit_test(test_half),
	    cmocka_unit_test(test_nobody),        cmocka_unit_test(test_real),
	};
	struct err e = ERR_INIT;

	if (libcurl_load(&e) < 0) {
		(void)fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	return cmocka_run_group_tests_name("objects", tests, NULL, NULL);
}
