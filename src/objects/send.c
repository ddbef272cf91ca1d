/* SPDX-License-Identifier: Apache-2.0 */
#include "objects/send.h"

#include "base/libcurl.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CONNECT_MS  5000L
#define SLOW_BYTES  1024L /* a second, on average over SLOW_S: less is a connection that hangs */
#define SLOW_S      20L
#define FIRST_MS    200u /* of the pauses, which double */
#define STOP_MS     50u  /* how soon STOP is seen in a pause */
#define PROBLEM_MAX 4096u
#define CODE_SIZE                                                                                  \
	64u /* of a store's code of an error, with the NUL: a signature, which has 64 digits, does not fit */
#define NO_WAIT                                                                                    \
	"Expect:" /* libcurl would wait a second for "100 Continue", which many stores do not send */
#define HTTP_OK     200
#define HTTP_ERRORS 300
#define CODE_CHARS  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

struct objects_client {
	CURL *curl;
	struct curl_slist *headers;
};

struct attempt {
	const struct objects_request *r;
	CURL *curl;
	size_t sent;
	long status;
	bool too_large;
	int error;           /* of memory */
	struct buf *problem; /* what the store says about an error */
};

/* ---- calls of libcurl ---- */

static size_t on_read(char *ret, size_t size, size_t n, void *user)
{
	struct attempt *t = user;
	const size_t some = MIN(size * n, t->r->len - t->sent);

	if (some > 0)
		memcpy(ret, (const char *)t->r->body + t->sent, some);
	t->sent += some;
	return some;
}

/* A kept connection that the store has just closed: libcurl sends the body again. */
static int on_seek(void *user, curl_off_t offset, int origin)
{
	struct attempt *t = user;

	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > t->r->len)
		return CURL_SEEKFUNC_FAIL;
	t->sent = (size_t)offset;
	return CURL_SEEKFUNC_OK;
}

static size_t on_write(char *data, size_t size, size_t n, void *user)
{
	struct attempt *t = user;

	if (t->status == 0)
		(void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &t->status);
	const bool wanted = t->status >= HTTP_OK && t->status < HTTP_ERRORS && t->r->ret;
	if (!wanted) { /* what does not fit is of no use */
		(void)!buf_add(t->problem, data, MIN(size * n, t->problem->max - t->problem->len));
		return size * n;
	}
	const int r = buf_add(t->r->ret, data, size * n);
	t->too_large = r == -ENOBUFS;
	t->error = r;
	return r < 0 ? 0 : size * n;
}

static int on_progress(void *user, curl_off_t a UNUSED, curl_off_t b UNUSED, curl_off_t c UNUSED,
		       curl_off_t d UNUSED)
{
	const struct attempt *t = user;

	return t->r->stop && atomic_load(t->r->stop);
}

static CURLcode set_calls(CURL *c, struct attempt *t)
{
	CURLcode r = curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_write);

	r = r ?: curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	r = r ?: curl_easy_setopt(c, CURLOPT_READFUNCTION, on_read);
	r = r ?: curl_easy_setopt(c, CURLOPT_READDATA, t);
	r = r ?: curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, on_seek);
	r = r ?: curl_easy_setopt(c, CURLOPT_SEEKDATA, t);
	r = r ?: curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	r = r ?: curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
	return r ?: curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
}

static CURLcode set_request(CURL *c, const struct objects_request *r, uint64_t left_ms)
{
	const bool put = streq(r->method, "PUT"), head = streq(r->method, "HEAD");
	CURLcode x = curl_easy_setopt(c, CURLOPT_URL, r->address);

	x = x ?: curl_easy_setopt(c, CURLOPT_NOBODY, 0L);
	if (put) {
		x = x ?: curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
		x = x ?: curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->len);
	} else { /* before HEAD, too: NOBODY alone leaves the upload of an earlier PUT in libcurl < 7.88 */
		x = x ?: curl_easy_setopt(c, CURLOPT_HTTPGET, 1L);
	}
	if (head)
		x = x ?: curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
	x = x ?: curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, put || head ? NULL : r->method);
	return x ?: curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)MAX(left_ms, UINT64_C(1)));
}

/* ---- one try ---- */

/* What a store calls its error, such as NoSuchKey; "" if it says nothing like that. Nothing else of its answer is shown: some
 * stores repeat the address there, which is a credential. */
static void take_code(const struct buf *b, char ret[CODE_SIZE])
{
	const char *at = strstr(buf_str(b), "<Code>");
	const size_t n = at ? strspn(at += strlen("<Code>"), CODE_CHARS) : 0;

	ret[0] = '\0';
	if (n == 0 || n >= CODE_SIZE || at[n] != '<')
		return;
	memcpy(ret, at, n);
	ret[n] = '\0';
}

static bool may_mend(long status, const char *code)
{
	return status == 429 || status == 408 || status >= 500 || streq(code, "RequestTimeout") ||
	       streq(code, "OperationAborted") || streq(code, "SlowDown");
}

/* Amazon has no code for an address that has ended. */
static bool has_ended(const struct attempt *t, const char *code)
{
	return streq(code, "RequestTimeTooSkewed") || streq(code, "ExpiredToken") ||
	       (streq(code, "AccessDenied") &&
		strstr(buf_str(t->problem), "<Message>Request has expired"));
}

/* A bucket that is missing, a proxy, or a web server that is no store at all answers 404, too. Only HEAD has to take it without a
 * text. */
static bool is_missing(const struct attempt *t, const char *code)
{
	return t->status == 404 && (streq(code, "NoSuchKey") || streq(t->r->method, "HEAD"));
}

static int refuse(const struct attempt *t, struct err *e)
{
	char code[CODE_SIZE];

	take_code(t->problem, code);
	const char *before = code[0] ? " " : "";
	if (may_mend(t->status, code))
		return err_set(e, ERR_OBJECTS_UNREACHABLE, 0, "%s %s: the store answers %ld%s%s",
			       t->r->method, t->r->what, t->status, before, code);
	if (is_missing(t, code))
		return streq(t->r->method, "DELETE")
			   ? 0
			   : err_set(e, ERR_NOT_FOUND, ENOENT, "%s", t->r->what);
	const bool ended = has_ended(t, code);
	(void)err_set(e, ERR_OBJECTS_REFUSED, 0, "%s %s: the store answers %ld%s%s%s", t->r->method,
		      t->r->what, t->status, before, code,
		      ended ? ": by its clock the address has ended" : "");
	return ended ? -ETIME : -EACCES;
}

/* Whom we talk to, which no wait changes. */
static bool is_trust(CURLcode x)
{
	return x == CURLE_PEER_FAILED_VERIFICATION || x == CURLE_SSL_CACERT_BADFILE;
}

static int judge(struct attempt *t, CURLcode x, struct err *e)
{
	if (t->r->stop && atomic_load(t->r->stop))
		return err_set(e, ERR_CANCELLED, ECANCELED, "%s %s", t->r->method, t->r->what);
	if (t->too_large)
		return err_set(e, ERR_OBJECTS_REFUSED, EFBIG, "%s is larger than it may be",
			       t->r->what);
	if (t->error < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, -t->error, "%s", t->r->what);
	if (x != CURLE_OK) {
		(void)err_set(e, is_trust(x) ? ERR_OBJECTS_REFUSED : ERR_OBJECTS_UNREACHABLE, 0,
			      "%s %s: %s", t->r->method, t->r->what, curl_easy_strerror(x));
		return is_trust(x) ? -EACCES : -EIO;
	}
	(void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &t->status);
	if (t->status >= HTTP_OK && t->status < HTTP_ERRORS)
		return 0;
	return refuse(t, e);
}

/* The client's own headers and that of R. Without one nothing has to be freed. */
static CURLcode set_header(struct objects_client *c, const struct objects_request *r,
			   struct curl_slist **ret)
{
	if (!r->header)
		return curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
	*ret = curl_slist_append(NULL, NO_WAIT);
	if (!*ret || !curl_slist_append(*ret, r->header))
		return CURLE_OUT_OF_MEMORY;
	return curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, *ret);
}

static int send_once(struct objects_client *c, const struct objects_request *r, uint64_t left_ms,
		     struct err *e)
{
	struct curl_slist *more = NULL;
	_cleanup_(buf_done) struct buf problem = BUF_INIT(PROBLEM_MAX);
	struct attempt t = {.r = r, .curl = c->curl, .problem = &problem};

	if (r->ret)
		buf_reset(r->ret);
	CURLcode x = set_calls(c->curl, &t);
	x = x ?: set_request(c->curl, r, left_ms);
	x = x ?: set_header(c, r, &more);
	const bool ready = x == CURLE_OK;
	if (ready)
		x = curl_easy_perform(c->curl);
	curl_slist_free_all(more);
	return ready ? judge(&t, x, e)
		     : err_set(e, ERR_SYSTEM, ENOMEM, "libcurl (%s)", curl_easy_strerror(x));
}

/* ---- all tries ---- */

/* False: it is no use, or time is up. */
static bool pause_before(const struct objects_request *r, unsigned n, uint64_t until)
{
	uint64_t random;

	rand_bytes(&random, sizeof(random));
	const uint64_t most = ((uint64_t)FIRST_MS << n) * NS_PER_MS;
	const uint64_t end = now_ns() + most / 2 + random % (most / 2 + 1);

	while (now_ns() < MIN(end, until)) {
		const struct timespec some = {.tv_nsec = (long)(STOP_MS * NS_PER_MS)};

		if (r->stop && atomic_load(r->stop))
			return false;
		(void)nanosleep(&some, NULL);
	}
	return now_ns() < until;
}

int objects_send(struct objects_client *c, const struct objects_request *r, struct err *e)
{
	const uint64_t until = now_ns() + r->deadline_ms * NS_PER_MS;
	struct err last = ERR_INIT;
	int x = -EIO;

	for (unsigned i = 0; i < OBJECTS_TRIES_MAX && x == -EIO; i++) {
		if (i > 0 && !pause_before(r, i - 1, until))
			break;
		const uint64_t now = now_ns();
		last = ERR_INIT;
		x = send_once(c, r, now < until ? (until - now) / NS_PER_MS : 0, &last);
	}
	if (x == -EIO && r->stop && atomic_load(r->stop)) /* in a pause */
		return err_set(e, ERR_CANCELLED, ECANCELED, "%s %s", r->method, r->what);
	if (x < 0)
		*e = last;
	return x;
}

/* ---- the client ---- */

struct objects_client *objects_client_free(struct objects_client *c)
{
	if (!c)
		return NULL;
	if (c->curl)
		curl_easy_cleanup(c->curl);
	curl_slist_free_all(c->headers);
	free(c);
	return NULL;
}

static CURLcode if_known(CURLcode r)
{
	return r == CURLE_UNKNOWN_OPTION || r == CURLE_NOT_BUILT_IN ? CURLE_OK : r;
}

/* Some builds look into a folder of the machine's authorities, too, which would count beside CA. */
static CURLcode set_authorities(CURL *c, const char *ca)
{
	const bool own = ca && ca[0];
	const char *file = own ? ca : libcurl_certificates();
	CURLcode r = file ? curl_easy_setopt(c, CURLOPT_CAINFO, file) : CURLE_OK;

	return r ?: own ? if_known(curl_easy_setopt(c, CURLOPT_CAPATH, NULL)) : CURLE_OK;
}

static CURLcode set_always(struct objects_client *c, const char *ca)
{
	/* CURLOPT_QUICK_EXIT, since 7.87: do not wait for a name server after the deadline. */
	const CURLoption quick = (CURLoption)(CURLOPTTYPE_LONG + 322);
	CURLcode r = libcurl_only_http(c->curl);

	r = r ?: if_known(curl_easy_setopt(c->curl, quick, 1L));
	r = r ?: curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
	r = r ?: curl_easy_setopt(c->curl, CURLOPT_FOLLOWLOCATION, 0L);
	r = r ?: curl_easy_setopt(c->curl, CURLOPT_PATH_AS_IS, 1L);
	r = r ?: curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	r = r ?: curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES);
	r = r ?: curl_easy_setopt(c->curl, CURLOPT_LOW_SPEED_TIME, SLOW_S);
	r = r ?: curl_easy_setopt(c->curl, CURLOPT_USERAGENT, "caisson/" CAISSON_VERSION);
	return r ?: set_authorities(c->curl, ca);
}

int objects_client_new(struct objects_client **ret, const char *ca, struct err *e)
{
	struct objects_client *c = calloc(1, sizeof(*c));

	if (c)
		c->curl = curl_easy_init();
	if (c && c->curl)
		c->headers = curl_slist_append(NULL, NO_WAIT);
	if (!c || !c->headers || set_always(c, ca) != CURLE_OK) {
		objects_client_free(c);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the client of an object store");
	}
	*ret = c;
	return 0;
}
