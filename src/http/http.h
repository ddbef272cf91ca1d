/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 server inside an sd-event loop: listeners, routes, requests, answers, streams.
 *
 * One thread, no blocking call. Every byte that arrives is treated as hostile. A request reaches a
 * handler only after these checks: its head passed the strict parser of request_head.h (anything
 * ambiguous is 400 and ends the connection), its Host is one of ours, its Origin (if it has one) is
 * allowed, and, if the row asks for it, the auth hook agreed.
 *
 * Life of a request
 *
 * The handler is called once. By default that is after the whole body has come: it is in memory and
 * has at most `body_max` bytes of the row. With HTTP_ROUTE_STREAM_BODY it is right after the head.
 * The handler answers at once, or keeps the pointer and answers later. The pointer is valid until
 * exactly one of these happens:
 *
 *  - http_respond*() is called;
 *  - http_stream_begin() is called (from then on the stream is the handle);
 *  - the on_gone callback is called: the client left or the server ends. After the whole body has been read, a client
 *    that closes its socket is noticed at once; one that only shuts down its side still gets its answer.
 *
 * After that nothing of the request may be touched. Only strings that were taken from it stay
 * readable, until the handler or body callback that answered returns to the server.
 *
 * For a handler, answering never fails: if there is no memory or no client, the connection is
 * closed. All callbacks come from the event loop, or from inside a call that says so; never from
 * another thread. */
#pragma once

#include "base/attr.h"
#include "base/err.h"
#include "base/shared_bytes.h"
#include "budget/budgets.h"

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
	HTTP_ROUTE_AUTH = 1u << 0, /* the handler is called only if the auth hook agrees */
	/* the handler is called at the head; it reads the body by http_request_read_body() */
	HTTP_ROUTE_STREAM_BODY = 1u << 1,
	HTTP_ROUTE_ANY_ORIGIN = 1u << 2, /* the handler checks Origin itself (public CORS) */
	HTTP_ROUTE_QUERY_KEY = 1u << 3,  /* a key in the query (`api_key`) is acceptable here */
	HTTP_ROUTE_ANY_HOST = 1u << 4,   /* probes that come with any Host (health checks) */
	HTTP_ROUTE_COOKIE = 1u << 6,     /* the cookie of a signed-in browser is acceptable here */
	/* Pages of all configured origins may use it: the answers have CORS headers, and preflights
	 * are answered. The route must take no credential that a browser adds by itself. */
	HTTP_ROUTE_PAGES = 1u << 5,
	/* A `{name...}` takes %2F for a slash, too: generated clients encode the whole parameter. The
	 * handler must check the value as a path. */
	HTTP_ROUTE_CODED_SLASHES = 1u << 7,
	/* A `{name...}` may be anything, also nothing: the handler passes the path on as it came. */
	HTTP_ROUTE_ANY_TAIL = 1u << 8,
	/* The handler reads Content-Encoding and unpacks the body. Elsewhere such a body is 415. */
	HTTP_ROUTE_CODED_BODY = 1u << 9,
};

typedef void (*http_handler_fn)(struct http_request *req, void *userdata);

/* May this request pass? Called for rows with HTTP_ROUTE_AUTH, after the head and before the body.
 * Returns true, maybe after http_request_set_principal(); or false after it has answered (401, 403)
 * with http_respond(). */
typedef bool (*http_auth_fn)(struct http_request *req, void *userdata);

/* One row of a routing table. PATTERN is a path whose segments are literal or `{name}` (exactly one
 * non-empty segment, without %2F); a last segment `{name...}` takes one or more segments. Literals
 * win over parameters. If rows have the path but not the method, the answer is 405 with Allow. GET
 * rows also serve HEAD, without the body. OPTIONS without a row of its own is answered 204 with
 * Allow. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order in which rows are read */
struct http_route {
	unsigned methods;    /* HTTP_GET | … */
	const char *pattern; /* "/files/{session}/{name}" */
	http_handler_fn handler;
	unsigned flags;    /* HTTP_ROUTE_* */
	uint64_t body_max; /* bytes of body accepted; 0 = HTTP_BODY_MAX_DEFAULT; more is 413 */
	http_auth_fn
	    admit; /* HTTP_ROUTE_AUTH: instead of the server's hook; gets USERDATA of the row */
};

#define HTTP_BODY_MAX_DEFAULT (64u << 10)
#define HTTP_PARAMS_MAX       4  /* {params} in one pattern */
#define HTTP_SEGMENTS_MAX     32 /* segments of one path */
#define HTTP_QUERY_MAX        64 /* name=value pairs of one query */
#define HTTP_HEADERS_MAX      64 /* header lines of one request */

/* Which tables a listener serves: those that share a bit with it. */
enum http_scope {
	HTTP_SCOPE_MAIN = 1u << 0,  /* the port that has everything */
	HTTP_SCOPE_LINKS = 1u << 1, /* artifact links only */
	HTTP_SCOPE_LOCAL = 1u << 2, /* the user's own unix socket */
	HTTP_SCOPE_PORTS = 1u << 3, /* of HTTP_SCOPE_MAIN what has a name below `port_domain` */
	HTTP_SCOPE_FACES = 1u << 4, /* and of those what `is_face` claims */
	HTTP_SCOPE_TLS =
	    1u << 5, /* of no table: what the listener speaks, with `tls` of the server */
	/* Of no table; with HTTP_SCOPE_TLS: the peers are routers of a fleet, which their certificates prove. Each has judged Host and
	 * Origin for its clients, and is trusted as a proxy is. Until its handshake is over, a peer counts as a stranger. */
	HTTP_SCOPE_MEMBERS = 1u << 6,
	HTTP_SCOPE_PROBES =
	    1u << 7, /* instead of HTTP_SCOPE_MAIN: health checks and figures alone */
};

/* ---- server ---------------------------------------------------------------------------------- */

/* Called after every answer. The request is still readable; NULL: it was refused before it was one. */
typedef void (*http_log_fn)(struct http_request *req, int status, uint64_t bytes, uint64_t ns,
			    void *userdata);

struct http_network;
struct http_tls;

/* Proxies whose word about the client's address counts. */
struct http_proxies {
	struct http_network *networks;
	size_t n;
};
/* TEXT: addresses and networks ("127.0.0.1, 10.0.0.0/8") separated by commas or blanks. -EINVAL with
 * the one that is none. Give it up with http_proxies_done(). */
int http_proxies_parse(const char *text, struct http_proxies *ret, struct err *e) MUST_CHECK;
void http_proxies_done(struct http_proxies *proxies);

struct http_config {
	unsigned max_connections; /* 0 = what RLIMIT_NOFILE leaves, at most 16,000 */
	/* Borrowed until free; NULL: nothing is bound. Connections, their unfinished requests and
	 * unread answers count for the user whom the auth hook names, before that for the network of
	 * the client (an IPv4 address, or the first 64 bits of an IPv6 address). Clients on loopback,
	 * on unix sockets and behind trusted proxies count for BUDGET_LOCAL. */
	struct budgets *budgets;
	bool count_loopback;      /* loopback addresses count as any other network */
	size_t head_max;          /* bytes of a request head; 0 = 32 KiB; more is 431 */
	size_t stream_queue_max;  /* bytes waiting on one stream before writes fail; 0 = 8 MiB */
	uint64_t head_timeout_ns; /* whole head, first byte to last; 0 = 15 s */
	uint64_t idle_timeout_ns; /* connection between requests; 0 = 75 s */
	/* Ends an answer that does not move, or a body that brings less than 1 KiB a second in that
	 * time; 0 = 60 s. */
	uint64_t stall_timeout_ns;
	const char *const *hosts; /* borrowed until free: extra names that Host and Origin may have,
				   * NULL-terminated; "*" allows any. Loopback names and the address
				   * that the connection came to are always allowed as Host */
	const char *const *origins; /* borrowed until free: further origins whose pages may use the
				     * server, NULL-terminated; "*" allows any; may be NULL */
	const char *const *page_origins; /* the same, but for routes with HTTP_ROUTE_PAGES only */
	const struct http_proxies *proxies; /* borrowed until free; NULL: none is trusted */
	const char *prefix; /* borrowed until free: http_request_prefix(); NULL: "" */
	/* Borrowed until free: "https://box.example.org", where clients find the server; NULL or "": not known. */
	const char *public_origin;
	/* Borrowed until free: names "8000-ID.DOMAIN", of one label before DOMAIN, have tables of their own
	 * (HTTP_SCOPE_PORTS); pages of such a name reach that name alone. NULL or "": there are none. */
	const char *port_domain;
	/* Does the label (LEN bytes, any case) before `port_domain` name an API of another system (HTTP_SCOPE_FACES)? NULL:
	 * none does. */
	bool (*is_face)(const char *label, size_t len);
	struct http_tls
	    *tls; /* borrowed until free; it has a certificate (http/tls.h); NULL: no TLS */
	/* Asked for every row of every table that is added: returns it, or another one with other USERDATA that stands in its
	 * place (borrowed until the server is freed). NULL: it is refused, and http_server_add_routes() returns -ENOENT. May be
	 * NULL: all rows stay. */
	const struct http_route *(*reroute)(const struct http_route *row, void **userdata,
					    void *user);
	void *reroute_userdata;
	http_auth_fn auth; /* NULL: rows with HTTP_ROUTE_AUTH are open */
	void *auth_userdata;
	http_log_fn log;
	void *log_userdata;
};

/* LOOP is borrowed until http_server_free(). */
int http_server_new(sd_event *loop, const struct http_config *cfg,
		    struct http_server **ret) MUST_CHECK;

/* Ends every stream and open request (their on_gone / on_close callbacks are called) and closes
 * everything. Accepts NULL, returns NULL. */
struct http_server *http_server_free(struct http_server *s);

/* Graceful end: listeners and idle connections close, and no connection is kept alive any more.
 * Streams end when their owner ends them. http_server_busy() counts connections with an unfinished
 * answer. */
void http_server_drain(struct http_server *s);
unsigned http_server_busy(const struct http_server *s);

/* Ends every open request and stream whose caller (http_request_set_caller()) ENDED names: the
 * owners are told as if the client had left. A request without an answer gets 401. */
void http_server_end_callers(struct http_server *s, bool (*ended)(const void *caller));

/* Adds a table of N rows (borrowed until the server is freed) for listeners with one of SCOPES.
 * Handlers get USERDATA. Two rows with the same pattern must not share a method. -EINVAL: a bad
 * pattern; -ENOENT: `reroute` refused a row. */
int http_server_add_routes(struct http_server *s, const struct http_route *rows, size_t n,
			   unsigned scopes, void *userdata) MUST_CHECK;

/* Listens on HOST ("127.0.0.1", "::1", "0.0.0.0"; "localhost": both loopback addresses, as far as this machine
 * has them; names are not resolved) and PORT (0 = any free one). *RET_PORT (RET_PORT may be NULL) gets the port. The listener belongs to the
 * server. -EADDRINUSE: the port is taken. */
int http_server_listen(struct http_server *s, const char *host, uint16_t port, unsigned scopes,
		       uint16_t *ret_port, struct http_listener **ret, struct err *e) MUST_CHECK;
/* Listens on ::1, too. 0: or this machine has no such address. */
int http_server_listen_loopback6(struct http_server *s, uint16_t port, unsigned scopes,
				 struct err *e) MUST_CHECK;
void http_listener_close(struct http_listener *l);

/* ---- request --------------------------------------------------------------------------------- */

/* The path as it was sent, without the query: printable ASCII. */
const char *http_request_path(const struct http_request *req);
/* The decoded {param}; NULL: the pattern has no such parameter. It is never empty, never contains
 * NUL or '/' (except in `{name...}`), and is never "." or "..". Any other byte is possible: check
 * for UTF-8 where it matters. */
const char *http_request_param(const struct http_request *req, const char *name);
/* The value of a header without surrounding blanks, or NULL. NAME in any case. A second header of a
 * name that must be single is 400; of other names the first is returned. "host" is that of an absolute target if there is one. */
const char *http_request_header(const struct http_request *req, const char *name);
/* The percent-decoded value of a query parameter ('+' is a blank), or NULL; the first one wins.
 * Never contains NUL; may be invalid UTF-8. A query that cannot be decoded is 400 before routing.
 */
const char *http_request_query(const struct http_request *req, const char *name);
/* The query as it was sent, without the '?'; NULL: there is none. */
const char *http_request_raw_query(const struct http_request *req);
/* The I-th header as it was sent, its name in the client's letters. False: there are not so many. */
bool http_request_field(const struct http_request *req, unsigned i, const char **ret_name,
			const char **ret_value);
/* "GET" */
const char *http_method_name(enum http_method method);
/* True when the media type of Content-Type is TYPE ("application/json"), parameters ignored. */
bool http_request_content_type_is(const struct http_request *req, const char *type);
/* True when Accept names TYPE or a wildcard that covers it, or is absent. */
bool http_request_accepts(const struct http_request *req, const char *type);

/* The whole body, for rows without HTTP_ROUTE_STREAM_BODY. A NUL follows it for convenience. */
const char *http_request_body(const struct http_request *req, size_t *ret_len);
/* The declared length, or UINT64_MAX for a chunked body. */
uint64_t http_request_body_length(const struct http_request *req);

/* "127.0.0.1:41234", "[::1]:41234"; of a client behind a trusted proxy the address alone. */
const char *http_request_peer(const struct http_request *req);
/* Whom the connection counts for (http_config.budgets). */
const char *http_request_payer(const struct http_request *req);
/* The network that the client belongs to, to count what comes from it: an IPv4 address, the first 64
 * bits of an IPv6 one, "loopback". RET has HTTP_NETWORK_TEXT bytes. False: it is not known, because
 * no proxy is trusted and so any address may be that of a proxy with everybody behind it. */
#define HTTP_NETWORK_TEXT     64
#define HTTP_NETWORK_LOOPBACK "loopback"
bool http_request_network(const struct http_request *req, char *ret);
unsigned http_request_route_flags(const struct http_request *req);
enum http_method http_request_method(const struct http_request *req);
/* Comes it from a page of this very server, as the browser says (Sec-Fetch-Site, else Origin)? False for programs,
 * which say neither, and for pages of http if the request came by https. */
bool http_request_is_same_origin(const struct http_request *req);
/* Does the client use https, as far as the server knows: by its proxy, or because the request is for the address that the
 * operator has named? */
bool http_request_is_https(const struct http_request *req);
/* Came the request by TLS, or says a trusted proxy that its client uses https, in X-Forwarded-Proto or Forwarded? */
bool http_request_came_by_https(const struct http_request *req);
/* The path below which clients find this server: what a trusted proxy says in X-Forwarded-Prefix, else that of the
 * configuration. "" or a path that begins with '/' and does not end with one. */
#define HTTP_PREFIX_MAX 200
void http_request_prefix(const struct http_request *req, char ret[HTTP_PREFIX_MAX + 1]);
/* Where the client behind a trusted proxy finds this server: "https://box.example.org/tools". The origin of the
 * configuration counts, else what the proxy says in X-Forwarded-Proto and X-Forwarded-Host, or in Forwarded (else Host); the path is
 * http_request_prefix(). False: the proxy says nothing of it, or there is none. */
#define HTTP_BASE_SIZE 512
bool http_request_base(const struct http_request *req, char ret[HTTP_BASE_SIZE]);
/* Copies PATH as such a prefix; "" if it is no path that can be put into a URL. */
void http_prefix_of(const char *path, char ret[HTTP_PREFIX_MAX + 1]);
/* The value of Origin if it is present and allowed, else NULL: for Access-Control-Allow-Origin. */
const char *http_request_origin(const struct http_request *req);

/* Is its Host a name below `port_domain`, or, from a member of the fleet, below the domain that HTTP_PORT_DOMAIN_HEADER says? */
#define HTTP_PORT_DOMAIN_HEADER "caisson-port-domain"
bool http_request_is_of_port(const struct http_request *req);
/* That domain; "": there is none. */
const char *http_request_port_domain(const struct http_request *req);

/* Came it from a member of the fleet (HTTP_SCOPE_MEMBERS)? */
bool http_request_is_by_member(const struct http_request *req);

/* Who it is, set by the auth hook (copied; at most 63 bytes are kept); "" before that. */
void http_request_set_principal(struct http_request *req, const char *principal);
const char *http_request_principal(const struct http_request *req);

/* What the auth hook knows about the caller; UNREF (may be NULL) runs once, when the request and the
 * stream that it may have become are over. NULL before that. */
void http_request_set_caller(struct http_request *req, void *caller, void (*unref)(void *caller));
void *http_request_caller(const struct http_request *req);

/* ON_GONE is called once if the request ends without an answer of ours. */
void http_request_on_gone(struct http_request *req, void (*on_gone)(void *userdata),
			  void *userdata);

/* Reads the body, for rows with HTTP_ROUTE_STREAM_BODY. ON_DATA gets every piece as it arrives, and
 * (NULL, 0) once at the end. It returns 0, or a negative errno for "no more": then it must have
 * answered, the rest is thrown away and the connection closes. It may answer at any time. Nothing
 * is read before this call, so a handler can check things first. A client that sent Expect:
 * 100-continue is told to go on by this call. */
typedef int (*http_body_fn)(struct http_request *req, const void *data, size_t len, void *userdata);
void http_request_read_body(struct http_request *req, http_body_fn on_data, void *userdata);
/* HAS_ROOM is asked, with the USERDATA of the body, each time before bytes are read from the socket. False pauses the
 * body: the handler resumes it when there is room. So of many requests that share a bound only one piece is beyond it. */
void http_request_ask_for_room(struct http_request *req, bool (*has_room)(void *userdata));
/* Back-pressure: stops reading from the socket. The last UNTAKEN bytes of the piece that on_data has
 * just been given come again after the resume; 0 outside of on_data. While the body is paused, no
 * timeout runs, and a client that shuts down its side is not noticed. */
void http_request_pause_body(struct http_request *req, size_t untaken);
void http_request_resume_body(struct http_request *req);

/* ---- answers --------------------------------------------------------------------------------- */

/* Adds a header to the answer; before http_respond*() or http_stream_begin(). -EINVAL: NAME or
 * VALUE could break the head (control characters). -E2BIG: the head of the answer is full (16 KiB).
 */
int http_add_header(struct http_request *req, const char *name, const char *value);
/* Takes back what http_add_header() has added. */
void http_drop_headers(struct http_request *req);

/* Answers with a copy of BODY. TYPE NULL: no Content-Type. HEAD gets the length and no body.
 * Answers with a type carry X-Content-Type-Options: nosniff; all carry Date and the headers that
 * the connection needs. */
void http_respond(struct http_request *req, int status, const char *type, const void *body,
		  size_t len);
/* BODY is malloc'ed and taken. */
void http_respond_take(struct http_request *req, int status, const char *type, char *body,
		       size_t len);
/* BODY has other owners, too: it is sent without a copy. */
void http_respond_bytes(struct http_request *req, int status, const char *type,
			struct shared_bytes *body);
/* BODY is borrowed and must not change until the server is freed: it is sent without a copy. Room for it is taken from
 * BUDGET_ANSWER_MEMORY first and given back when the client has all of it, so that what clients of public routes do not
 * read is bound, also in their own buffers; without room the answer is 429. */
void http_respond_shared(struct http_request *req, int status, const char *type, const void *body,
			 size_t len);
/* Body is a C string. */
void http_respond_text(struct http_request *req, int status, const char *type, const char *text);
/* Answers with a problem document of RFC 9457 and the status of CODE:
 * {"type","title","status","detail","code","hint"} ("hint" if the code has one) and the members in
 * MORE: JSON text such as `"files":[]`, or NULL. DETAIL is any text; bytes that are not UTF-8 are
 * replaced. 401 has WWW-Authenticate, 429 has Retry-After. Everything that the
 * server refuses by itself (400, 404, 405, 408, 413, 415, 416, 417, 431, 501, 503, 505) has this form,
 * whatever the path. */
void http_respond_problem(struct http_request *req, enum err_code code, const char *detail,
			  const char *more);
#define HTTP_PROBLEM_TYPE "application/problem+json"
/* Answers with a regular file, by sendfile(2) on a thread (base/workers.h), in constant memory. Handles HEAD, one Range (for
 * several ranges the whole file is sent), If-Range, If-None-Match, If-Modified-Since (RFC 9110 §13,
 * §14). FD is always taken. If the file shrinks while it is sent, the connection is cut. */
struct http_file {
	uint64_t size;
	const char *type; /* media type, with charset where wanted */
	const char *etag; /* quoted, NULL: none */
	int64_t mtime_s;  /* Last-Modified; 0: none */
	const char *name; /* Content-Disposition filename, any bytes; NULL: header left out */
	const char *
	    payer; /* whose file it is: the threads that read it count for them; NULL: for the client */
	bool attachment; /* instead of inline */
	bool raw_name;   /* `filename=<name>` unquoted where the name allows it */
};
void http_respond_file(struct http_request *req, int fd, const struct http_file *file);

/* Takes room for an answer that will hold up to BYTES of memory at once, before it is made. It is given back when the
 * answer is over. BUDGET_EXCEEDED: the client has not read its earlier answers; nothing was taken, and the handler
 * refuses. */
int http_request_reserve(struct http_request *req, size_t bytes, struct err *e) MUST_CHECK;

/* ---- streams --------------------------------------------------------------------------------- */

struct http_stream_ops {
	/* The client left or the server ends; the stream is gone when this returns. Not called
	 * after http_stream_end() or http_stream_abort(). */
	void (*on_close)(void *userdata);
	/* The queue is empty again after a write that did not go out at once; may be NULL. */
	void (*on_drain)(void *userdata);
	/* Not NULL: the owner is asked for the next slice whenever fewer than HTTP_STREAM_WINDOW bytes wait,
	 * once in a turn of the client's payer. It writes one (tens of kilobytes, well below a millisecond
	 * of work), or ends or aborts the stream. False: there is nothing now, do not ask before
	 * http_stream_ask(). If the caller's credential is revoked, the connection is cut: its answer is
	 * incomplete. */
	bool (*on_room)(void *userdata);
};
#define HTTP_STREAM_WINDOW (64u << 10)

/* Begins an answer of unknown length (chunked; for HTTP/1.0 until the close). The request is over
 * for the caller. Returns NULL if the client is gone already; then no callback is called. */
struct http_stream *http_stream_begin(struct http_request *req, int status, const char *type,
				      const struct http_stream_ops *ops, void *userdata);
/* The same, of LENGTH bytes, as Content-Length says. If its owner ends it before that, the connection is cut. */
struct http_stream *http_stream_begin_sized(struct http_request *req, int status, const char *type,
					    uint64_t length, const struct http_stream_ops *ops,
					    void *userdata);
/* As above with the headers of a server-sent event stream. */
struct http_stream *http_stream_begin_sse(struct http_request *req,
					  const struct http_stream_ops *ops, void *userdata);
/* Queues a copy and sends what the socket takes. -ENOBUFS: the queue was already over its limit and
 * nothing was taken (the reader is slow; the caller ends the stream). -ENOMEM. Never calls back.
 * One write may be larger than the limit: its bytes do not count for the writes after it. */
int http_stream_write(struct http_stream *st, const void *data, size_t len) MUST_CHECK;
/* Queues HEAD, TEXT and TAIL as one write. A large TEXT is not copied: the queue holds a reference. */
int http_stream_write_shared(struct http_stream *st, const char *head, size_t head_len,
			     struct shared_bytes *text, const char *tail,
			     size_t tail_len) MUST_CHECK;
/* on_room may be called again. */
void http_stream_ask(struct http_stream *st);
size_t http_stream_queued(const struct http_stream *st);
/* Monotonic time of the last write. A sender of keep-alives can skip busy streams. */
uint64_t http_stream_last_write_ns(const struct http_stream *st);
/* Sends what is queued, then the proper end of the answer. ST is invalid afterwards. */
void http_stream_end(struct http_stream *st);
/* Cuts the connection without a proper end. ST is invalid afterwards. */
void http_stream_abort(struct http_stream *st);

/* ---- WebSockets ------------------------------------------------------------------------------ */

/* RFC 6455 without extensions and subprotocols. The connection serves no further request, whatever the client sends. */

struct http_socket;

struct http_socket_ops {
	/* A whole message, at most `message_max` bytes; a text is UTF-8. False: there is no room for it now. It is told
	 * again after http_socket_resume(), and until then nothing is read, so that the client has to wait. Of a raw socket
	 * DATA NULL is the end of what the client sends; it may still read. */
	bool (*on_message)(bool text, const void *data, size_t len, void *userdata);
	/* The owner is asked for what it has to send whenever fewer than HTTP_STREAM_WINDOW bytes wait, once in a turn of
	 * the client's payer. It sends a slice (tens of kilobytes), or ends the socket. False: there is nothing now, do not
	 * ask before http_socket_ask(). */
	bool (*on_room)(void *userdata);
	/* The client left, its credential ended, or the server ends; the socket is gone when this returns. Not called after
	 * http_socket_end(). */
	void (*on_close)(void *userdata);
};

/* Does the client ask for a WebSocket? If it is answered otherwise, its connection ends with the answer. */
bool http_request_wants_socket(const struct http_request *req);
/* May it get one? Only GET of HTTP/1.1 without a body that asks for it in both headers (RFC 6455 §4.2.1). */
bool http_request_may_upgrade(const struct http_request *req);
/* Becomes a WebSocket. The request is over for the caller. NULL: it was refused (400, 426) or the client is gone, and no
 * callback is called. */
struct http_socket *http_socket_begin(struct http_request *req, const struct http_socket_ops *ops,
				      size_t message_max, void *userdata);
/* The same where the owner makes the handshake, if http_request_may_upgrade(): bytes pass as they come, as messages that are no
 * texts. The headers of the 101 besides Upgrade and Connection are the owner's. NULL: as above. */
struct http_socket *http_socket_begin_raw(struct http_request *req,
					  const struct http_socket_ops *ops, void *userdata);
/* Queues a message. To be called by on_room only, which bounds what waits. -ENOMEM: the connection will be closed. */
int http_socket_send(struct http_socket *s, bool text, const void *data, size_t len) MUST_CHECK;
/* on_room may be called again. */
void http_socket_ask(struct http_socket *s);
/* on_message may be called again. */
void http_socket_resume(struct http_socket *s);
/* Sends what is queued and the end: CODE of RFC 6455 §7.4, 1000 to 4999, and a REASON of at most 123 bytes. S is invalid
 * afterwards. A raw one just ends. */
void http_socket_end(struct http_socket *s, unsigned code, const char *reason);
