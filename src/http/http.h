/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 server inside an sd-event loop: listeners, routes, requests, answers, streams.
 *
 * One thread, no blocking call. Everything that arrives is hostile: a request reaches a handler
 * only after its head passed the strict check of request_head.h (anything ambiguous is 400 and the
 * connection ends), its Host is one of ours, its Origin (when there is one) is allowed, and, where
 * the row asks for it, the auth hook agreed.
 *
 * Life of a request
 *   The handler is called once: after the whole body when the row says nothing (the body is in
 *   memory, at most `body_max` bytes of the row), or right after the head when the row has
 *   HTTP_ROUTE_STREAM_BODY. It answers at once, or keeps the pointer and answers later.
 *   The pointer is valid until exactly one of these happened:
 *     - http_respond*() was called;
 *     - http_stream_begin() was called (from then on the stream is the handle);
 *     - the on_gone callback ran: the client left (noticed at once, EPOLLRDHUP) or the server ends.
 *   Nothing of the request may be touched after that; only strings that were taken from it stay
 *   readable until the handler or body callback that answered returns to the server.
 *
 * Answers never fail as far as the handler sees: without memory or without a client the connection
 * is closed. All callbacks come from the event loop or from inside the call that is documented so;
 * never from another thread. */
#pragma once

#include "base/attr.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <systemd/sd-event.h>

struct http_server;
struct http_request;
struct http_stream;
struct http_listener;

/* ---- methods, routes ------------------------------------------------------------------------- */

enum http_method {
	HTTP_GET = 1u << 0,
	HTTP_HEAD = 1u << 1,
	HTTP_POST = 1u << 2,
	HTTP_PUT = 1u << 3,
	HTTP_DELETE = 1u << 4,
	HTTP_PATCH = 1u << 5,
	HTTP_OPTIONS = 1u << 6,
};

enum http_route_flag {
	HTTP_ROUTE_AUTH = 1u << 0, /* the auth hook must agree before the handler is called */
	HTTP_ROUTE_STREAM_BODY = 1u
				 << 1,   /* handler at the head; body by http_request_read_body() */
	HTTP_ROUTE_ANY_ORIGIN = 1u << 2, /* the handler checks Origin itself (public CORS) */
	HTTP_ROUTE_QUERY_KEY = 1u << 3,  /* a key in the query (`api_key`) is acceptable here */
	HTTP_ROUTE_ANY_HOST = 1u << 4,   /* probes that come with any Host (health checks) */
};

typedef void (*http_handler_fn)(struct http_request *req, void *userdata);

/* One row of a routing table. PATTERN is a path whose segments are literal or `{name}` (exactly one
 * non-empty segment); a last segment `{name...}` takes one or more segments. Literals win over
 * parameters. A path that matches rows but none with the method is 405 with Allow; HEAD is served
 * by GET rows (the body is left out). OPTIONS without a row of its own answers 204 with Allow. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order in which rows are read */
struct http_route {
	unsigned methods;    /* HTTP_GET | … */
	const char *pattern; /* "/files/{session}/{name}" */
	http_handler_fn handler;
	unsigned flags;    /* HTTP_ROUTE_* */
	uint64_t body_max; /* bytes of body accepted; 0 = HTTP_BODY_MAX_DEFAULT; more is 413 */
};

#define HTTP_BODY_MAX_DEFAULT (64u << 10)
#define HTTP_PARAMS_MAX       4  /* {params} in one pattern */
#define HTTP_SEGMENTS_MAX     32 /* segments of one path */
#define HTTP_QUERY_MAX        64 /* name=value pairs of one query */
#define HTTP_HEADERS_MAX      64 /* header lines of one request */

/* Which tables a listener shows; bits, a table is visible where both share one. */
enum http_scope {
	HTTP_SCOPE_MAIN = 1u << 0,  /* the port that has everything */
	HTTP_SCOPE_LINKS = 1u << 1, /* artifact links only */
	HTTP_SCOPE_LOCAL = 1u << 2, /* the user's own unix socket */
};

/* ---- server ---------------------------------------------------------------------------------- */

/* May this request pass? Called for rows with HTTP_ROUTE_AUTH after the head and before the body.
 * Returns true and may call http_request_set_principal(), or false after having answered (401, 403)
 * with http_respond(). */
typedef bool (*http_auth_fn)(struct http_request *req, void *userdata);

/* Every request that was answered, for the access log; the request is still readable. */
typedef void (*http_log_fn)(struct http_request *req, int status, uint64_t bytes, uint64_t ns,
			    void *userdata);

struct http_config {
	unsigned max_connections; /* 0 = what RLIMIT_NOFILE leaves, at most 16,000 */
	unsigned max_per_address; /* connections of one address (IPv6: of one /64) that is not
				   * loopback; 0 = any number. More are closed at once */
	bool count_loopback;      /* those of loopback addresses, too */
	size_t head_max;          /* bytes of a request head; 0 = 32 KiB; more is 431 */
	size_t stream_queue_max;  /* bytes waiting on one stream before writes fail; 0 = 8 MiB */
	uint64_t head_timeout_ns; /* whole head, first byte to last; 0 = 15 s */
	uint64_t idle_timeout_ns; /* connection between requests; 0 = 75 s */
	/* An answer that does not move, or a body of which that much time brings less than 1 KiB a
	 * second; 0 = 60 s. */
	uint64_t stall_timeout_ns;
	const char *const *hosts; /* borrowed until free: extra names that Host and Origin may have,
				   * NULL-terminated; "*" allows any. Loopback names and the address
				   * that the connection came to are always allowed as Host */
	const char *const *origins; /* borrowed until free: further origins whose pages may use the
				     * server, NULL-terminated; "*" allows any; may be NULL */
	http_auth_fn auth;          /* NULL: rows with HTTP_ROUTE_AUTH are open */
	void *auth_userdata;
	http_log_fn log;
	void *log_userdata;
};

/* LOOP is borrowed until http_server_free(). */
int http_server_new(sd_event *loop, const struct http_config *cfg,
		    struct http_server **ret) MUST_CHECK;

/* Ends every stream and open request (their on_gone / on_close callbacks run), closes everything.
 * Accepts NULL, returns NULL. */
struct http_server *http_server_free(struct http_server *s);

/* Graceful end: listeners close, idle connections close, no keep-alive from now on; streams end
 * when their owner ends them. http_server_busy() counts connections with an unfinished answer. */
void http_server_drain(struct http_server *s);
unsigned http_server_busy(const struct http_server *s);

/* Ends every open request and stream whose caller (http_request_set_caller()) ENDED names: the
 * owners are told as if the client had left. A request without an answer gets 401. */
void http_server_end_callers(struct http_server *s, bool (*ended)(const void *caller));

/* Adds a table (borrowed until free) of N rows for listeners with one of SCOPES. Handlers get
 * USERDATA. Two rows with the same pattern must not share a method. -EINVAL: bad pattern. */
int http_server_add_routes(struct http_server *s, const struct http_route *rows, size_t n,
			   unsigned scopes, void *userdata) MUST_CHECK;

/* Listens on HOST ("127.0.0.1", "::1", "0.0.0.0", "localhost"; no resolver is asked) and PORT
 * (0 = any free one). RET_PORT (may be NULL) is the port taken. The listener belongs to the server.
 * A taken port is -EADDRINUSE. */
int http_server_listen(struct http_server *s, const char *host, uint16_t port, unsigned scopes,
		       uint16_t *ret_port, struct http_listener **ret, struct err *e) MUST_CHECK;
void http_listener_close(struct http_listener *l);

/* ---- request --------------------------------------------------------------------------------- */

/* Raw path as sent (without query), printable ASCII. */
const char *http_request_path(const struct http_request *req);
/* Decoded {param}; never empty, never contains NUL, '/' (but in `{name...}`), and is never "." or
 * ".."; any other byte is possible: validate UTF-8 where it matters. NULL: no such parameter. */
const char *http_request_param(const struct http_request *req, const char *name);
/* Header value without surrounding blanks, NULL when absent. NAME in any case. Headers that must be
 * single are single (a second one is 400); of others the first is returned. */
const char *http_request_header(const struct http_request *req, const char *name);
/* Percent-decoded query value ('+' is a blank), NULL when absent. First one wins. Never contains
 * NUL; may be invalid UTF-8. A query that does not decode makes the request 400 before routing. */
const char *http_request_query(const struct http_request *req, const char *name);
/* True when the media type of Content-Type is TYPE ("application/json"), parameters ignored. */
bool http_request_content_type_is(const struct http_request *req, const char *type);
/* True when Accept names TYPE or a wildcard that covers it, or is absent. */
bool http_request_accepts(const struct http_request *req, const char *type);

/* Whole body of a row without HTTP_ROUTE_STREAM_BODY; NUL-terminated for convenience. */
const char *http_request_body(const struct http_request *req, size_t *ret_len);
/* Declared length, or UINT64_MAX when chunked. */
uint64_t http_request_body_length(const struct http_request *req);

/* "127.0.0.1:41234", "[::1]:41234". */
const char *http_request_peer(const struct http_request *req);
unsigned http_request_route_flags(const struct http_request *req);
/* Value of Origin when present and allowed, else NULL: for Access-Control-Allow-Origin. */
const char *http_request_origin(const struct http_request *req);

/* Who it is, set by the auth hook (copied; at most 63 bytes are kept); "" before that. */
void http_request_set_principal(struct http_request *req, const char *principal);
const char *http_request_principal(const struct http_request *req);

/* What the auth hook knows about the caller; UNREF (may be NULL) runs once, when the request and the
 * stream that it may have become are over. NULL before that. */
void http_request_set_caller(struct http_request *req, void *caller, void (*unref)(void *caller));
void *http_request_caller(const struct http_request *req);

/* The caller's state. ON_GONE runs once if the request ends without an answer of ours. */
void http_request_on_gone(struct http_request *req, void (*on_gone)(void *userdata),
			  void *userdata);

/* Body of a HTTP_ROUTE_STREAM_BODY row. ON_DATA gets every piece as it arrives, and once (NULL, 0)
 * at the end; it returns 0 or a negative errno, which means "no more": the handler must have
 * answered by then, the rest is thrown away and the connection closes. It may answer at any time.
 * Until read_body is called nothing is read, so a handler can check things first; a client that
 * asked with Expect: 100-continue is told to go on by this call. */
typedef int (*http_body_fn)(struct http_request *req, const void *data, size_t len, void *userdata);
void http_request_read_body(struct http_request *req, http_body_fn on_data, void *userdata);
/* Back-pressure: stops reading from the socket. The last UNTAKEN bytes of the piece that on_data has
 * just been given come again after the resume; 0 outside of on_data. While the body is paused, no
 * timeout runs, and a client that shuts down its side is not noticed. */
void http_request_pause_body(struct http_request *req, size_t untaken);
void http_request_resume_body(struct http_request *req);

/* ---- answers --------------------------------------------------------------------------------- */

/* Adds a header to the answer; before http_respond*() or http_stream_begin(). -EINVAL when NAME or
 * VALUE could break the head (control characters), -E2BIG when the answer's head is full (4 KiB).
 */
int http_add_header(struct http_request *req, const char *name, const char *value);

/* TYPE NULL: no Content-Type. BODY is copied. HEAD sends the length and no body. Answers with a
 * type carry X-Content-Type-Options: nosniff, all carry Date and what the connection needs. */
void http_respond(struct http_request *req, int status, const char *type, const void *body,
		  size_t len);
/* BODY is malloc'ed and taken. */
void http_respond_take(struct http_request *req, int status, const char *type, char *body,
		       size_t len);
/* Body is a C string. */
void http_respond_text(struct http_request *req, int status, const char *type, const char *text);
/* A problem of RFC 9457 with the status of CODE: {"type","title","status","detail","code","hint"}
 * ("hint" where the code has one) and the members of MORE: JSON text such as `"files":[]`, or NULL.
 * DETAIL is any text, what is not UTF-8 in it is replaced. 401 has WWW-Authenticate, 429 of
 * rate_limited Retry-After. All that the server refuses by itself (400, 404, 405, 408, 413, 416,
 * 417, 431, 501, 503, 505) has this form, whatever the path. */
void http_respond_problem(struct http_request *req, enum err_code code, const char *detail,
			  const char *more);
#define HTTP_PROBLEM_TYPE "application/problem+json"
/* A regular file by descriptor, sent with sendfile, in constant memory. Handles HEAD, one Range
 * (several: the whole file), If-Range, If-None-Match, If-Modified-Since (RFC 9110 §13, §14).
 * FD is taken, always. The file may shrink while it is sent: the connection is then cut. */
struct http_file {
	uint64_t size;
	const char *type; /* media type, with charset where wanted */
	const char *etag; /* quoted, NULL: none */
	int64_t mtime_s;  /* Last-Modified; 0: none */
	const char *name; /* Content-Disposition filename, any bytes; NULL: header left out */
	bool attachment;  /* instead of inline */
	bool raw_name;    /* `filename=<name>` unquoted where the name allows it */
};
void http_respond_file(struct http_request *req, int fd, const struct http_file *file);

/* ---- streams --------------------------------------------------------------------------------- */

struct http_stream_ops {
	/* The client left or the server ends; the stream is gone when this returns. Not called
	 * after http_stream_end() or http_stream_abort(). */
	void (*on_close)(void *userdata);
	/* The queue is empty again after a write that did not go out at once; may be NULL. */
	void (*on_drain)(void *userdata);
};

/* Begins a 200-style answer of unknown length (chunked; to HTTP/1.0 until the close). The request
 * is over for the caller. Returns NULL when the client is gone already: nothing more is called
 * then. */
struct http_stream *http_stream_begin(struct http_request *req, int status, const char *type,
				      const struct http_stream_ops *ops, void *userdata);
/* As above with the headers of a server-sent event stream. */
struct http_stream *http_stream_begin_sse(struct http_request *req,
					  const struct http_stream_ops *ops, void *userdata);
/* Queues a copy and sends what the socket takes. -ENOBUFS: the queue was already over its limit and
 * nothing was taken (a slow reader: the caller ends the stream); -ENOMEM. Never calls back. One
 * write may be larger than the limit: as many bytes do not count for those that come after it. */
int http_stream_write(struct http_stream *st, const void *data, size_t len) MUST_CHECK;
int http_stream_writev(struct http_stream *st, const struct iovec *iov, unsigned n) MUST_CHECK;
size_t http_stream_queued(const struct http_stream *st);
/* Monotonic time of the last write: who sends keep-alives can skip busy streams. */
uint64_t http_stream_last_write_ns(const struct http_stream *st);
/* Sends what is queued, then the proper end of the answer. ST is gone for the caller. */
void http_stream_end(struct http_stream *st);
/* Cuts the connection without a proper end. ST is gone. */
void http_stream_abort(struct http_stream *st);
