/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/http: the server, its connections and their requests.
 *
 * Theory of operation
 *
 * The server has an epoll instance of its own inside the sd-event loop: one event source for any
 * number of connections. A connection is always in one state (enum http_state); conn_run() takes
 * steps until it would block. Only conn_run(), the timer and http_server_free() close a connection.
 * The functions of http.h that handlers call (answers, streams) only queue bytes and change the
 * state. If they are called from outside of conn_run(), conn_schedule() makes the connection run
 * soon. So a handler is never entered from inside another one, and no pointer becomes invalid under
 * its caller.
 *
 * A connection with an event, and one that is scheduled, waits until it runs (turns.h says which is next).
 * What does not run within the time of a turn waits for the next one, so that new events and the other
 * sources of the process come in between. An eventfd in the epoll instance causes that turn. An sd-event
 * defer source cannot do this: it keeps its place at the head of the queue, so one that is armed again
 * and again starves every other source of the process.
 *
 * The memory of a closed connection is freed at the end of the turn. Events for it may have been
 * fetched together with the event that closed it; they find it marked dead.
 *
 * A client that has shut down its side may still read, or may have closed its socket: the kernel tells us the same
 * of both (EPOLLRDHUP). So the connection sends a byte that its answer begins with anyway. A client that is gone answers
 * it with a reset; docs/decisions/0030-half-closed-clients.md.
 *
 * The states move bytes by the operations of socket_io.h only.
 *
 * Input: the server's scratch block is filled from the socket, and the bytes are used from there. Only bytes
 * that must wait are copied into memory of the connection. Output: heads, small bodies and small
 * messages are copied into blocks; what is large is queued between them as it is, and a file range follows. Neither costs
 * an idle connection anything. A file is sent by a thread
 * (struct http_sending): until it comes back, nothing else happens on the connection but its close. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "budget/budgets.h"
#include "http/chunk.h"
#include "http/http.h"
#include "http/request_head.h"
#include "http/route.h"
#include "http/socket_io.h"
#include "http/turns.h"
#include "http/uri.h"
#include "http/ws_reader.h"

#include <sys/socket.h>

#define HTTP_SCRATCH_BYTES   (128u << 10)
#define HTTP_HEAD_RECV       8192u       /* bytes asked for while a head is read */
#define HTTP_CHUNKED_RECV    (16u << 10) /* more could belong to the next request */
#define HTTP_HEAD_DEFAULT    (32u << 10)
#define HTTP_STREAM_QUEUE    (8u << 20)
#define HTTP_CONNECTIONS_MAX 16000u
#define HTTP_FDS_RESERVED    512u /* of RLIMIT_NOFILE, for the rest of the program */
#define HTTP_ACCEPT_BATCH    64
#define HTTP_EVENT_BATCH     128
#define HTTP_EVENT_BATCHES   16              /* fetched before connections run */
#define HTTP_TURN_NS         (2 * NS_PER_MS) /* in which connections run before new events are fetched */
#define HTTP_STEPS_MAX       12              /* steps of one connection before others have a turn */
#define HTTP_RUN_BYTES       (128u << 10) /* bytes of a body, the same */
#define HTTP_SOCKET_FRAMES   64           /* frames of a WebSocket, the same */
#define HTTP_SEND_BUDGET     (1u << 20)   /* bytes sent before others have a turn */
#define HTTP_SENDFILE_SLICE  (1u << 20)
#define HTTP_THREAD_BUDGET                                                                         \
	(16u << 20)       /* bytes of a file before other jobs of its owner have a turn */
#define HTTP_ROOM_MS    2 /* that a thread waits for room in a socket which it has filled */
#define HTTP_THREAD_NS  (20 * NS_PER_MS) /* after which it waits no more */
#define HTTP_QUICK_FILE (32u << 10) /* a rest of a file that the loop sends if it is in memory */
#define HTTP_SMALL_BODY (16u << 10) /* copied behind the head into one block */
#define HTTP_EXTRA_MAX  16384u      /* bytes of headers that handlers add */
#define HTTP_BODY_RATE_MIN                                                                         \
	1024u /* bytes a second; a slower client only holds a connection
					  */
#define HTTP_SLOW_NS         (5 * NS_PER_S) /* without the bytes that restart the stall timer */
#define HTTP_LINGER_NS       (3 * NS_PER_S)
#define HTTP_PROBE_NS        NS_PER_S
#define HTTP_ACCEPT_RETRY_NS NS_PER_S
#define HTTP_UNREAD_NS       NS_PER_S /* between two looks at what the kernel holds of answers */
#define HTTP_UNREAD_MIN_NS   (20 * NS_PER_MS) /* the same, if somebody needs the room */
#define HTTP_UNSENT_BYTES    (16 << 10) /* that the kernel takes beyond what the client has room for */
#define HTTP_STRANGER_SEND   (32 << 10) /* SO_SNDBUF of clients that are not identified */

enum http_timer {
	HTTP_TIMER_NONE,
	HTTP_TIMER_HEAD,   /* a whole head, or the first byte on a new connection */
	HTTP_TIMER_IDLE,   /* between requests */
	HTTP_TIMER_STALL,  /* a body or answer is expected to move */
	HTTP_TIMER_LINGER, /* our side is shut down; the client should close */
	HTTP_TIMER_PROBE,  /* the client has shut down its side: does it still read? */
	HTTP_TIMER_MAX_,
};

enum http_what {
	HTTP_IS_LISTENER,
	HTTP_IS_CONN,
	HTTP_IS_WAKE,
};

struct http_listener {
	enum http_what what; /* first: epoll data points here */
	struct http_server *server;
	struct list node; /* of the server: listening or dead */
	int fd;
	unsigned scopes;
};

struct http_server {
	sd_event *loop;
	sd_event_source *io;
	sd_event_source *timer;
	int epfd;
	enum http_what wake; /* HTTP_IS_WAKE: epoll data points here */
	int wake_fd;
	bool awake; /* the eventfd is set */
	struct http_config cfg;
	struct http_routes *routes;
	struct list listeners;
	struct list dead_listeners;
	unsigned n_conns;
	bool draining;
	bool accept_paused;
	uint64_t accept_retry_ns; /* set when descriptors ran out; 0: paused until a connection
				   * closes */
	uint64_t timer_armed_ns;  /* UINT64_MAX: off */
	uint64_t timer_ns[HTTP_TIMER_MAX_];
	size_t stall_bytes;                  /* bytes of a body that restart its stall timer */
	struct list timers[HTTP_TIMER_MAX_]; /* connections by deadline; NONE: the others */
	struct http_turns turns;             /* of connections with something to do */
	struct list dead;
	struct list unread; /* connections whose answers the kernel holds, by their unread_link */
	uint64_t unread_next_ns; /* when they are looked at next; 0: not */
	uint64_t unread_last_ns; /* when they were */
	char date[64];           /* "Date: …\r\n" of second date_s */
	int64_t date_s;
	char *scratch;
};

enum http_state {
	HTTP_CONN_HEAD,    /* waits for, or reads, a head */
	HTTP_CONN_REQUEST, /* a handler has it and has not answered */
	HTTP_CONN_REPLY,   /* the answer is being sent */
	HTTP_CONN_STREAM,  /* an open stream */
	HTTP_CONN_SOCKET,  /* a WebSocket; it never goes back to HEAD */
	HTTP_CONN_LINGER,
	HTTP_CONN_DEAD,
};

struct http_out {
	struct list parts;         /* struct http_part, in order */
	size_t queued;             /* bytes of them that wait */
	struct http_sending *file; /* owned, behind them; NULL: none */
};

/* A file on its way to a client. Reading it may wait for a disk, or for a lock while its owner truncates it: a
 * thread does it, straight into the socket. */
struct http_sending {
	struct http_conn
	    *conn; /* NULL: it was closed while a thread sent, and the end of the job frees this */
	int fd;    /* owned; a thread closes it */
	struct http_io io;  /* of the connection; owned by this once CONN is NULL */
	uint64_t off, left; /* bytes that are to be sent */
	bool busy;          /* a thread has it, and alone uses SENT and ERROR */
	bool cold;          /* not in memory, so the loop does not try to read it */
	size_t sent;
	int error;
	struct budget_share
	    place; /* of the connection, once CONN is NULL: its descriptors still exist */
	char who[BUDGET_PRINCIPAL_SIZE];
};

struct http_in {
	char *data;           /* the server's scratch when BORROWED, else owned */
	size_t off, len, cap; /* LEN bytes at data + off */
	bool borrowed;
};

struct http_stream {
	const struct http_stream_ops *ops;
	void *userdata;
	uint64_t last_write_ns;
	size_t largest; /* largest write since the queue was last short; not counted as waiting */
	bool asks;      /* on_room may be called */
	bool events;    /* of server-sent events */
	bool chunked;   /* else it ends with the connection or, if SIZED, after LEFT bytes */
	bool sized;
	uint64_t left;
};

struct http_socket {
	struct http_conn *conn;
	const struct http_socket_ops *ops;
	void *userdata;
	bool raw;   /* bytes of another protocol, or of a server behind us: no frames */
	bool ended; /* RAW: the client has shut down its side, and all its bytes were passed on */
	struct ws_reader reader;
	struct ws_heard held; /* PAUSED: the message that the owner has no room for */
	bool paused;
	bool asks; /* on_room may be called */
	/* The newest ping that has no answer yet (RFC 6455 §5.5.3): those of a client that does not read never queue. */
	bool pong;
	unsigned n_pong;
	uint8_t pong_data[WS_CONTROL_MAX];
};

struct http_conn {
	enum http_what what; /* first */
	enum http_state state;
	struct http_server *server;
	struct http_io io;
	uint32_t events; /* registered with epoll */
	unsigned scopes;
	bool in_run;
	bool fresh;   /* no request yet */
	bool skipped; /* the one empty line that RFC 9112 allows before a request was skipped */
	bool keep_alive;
	bool http10;
	bool broken;       /* the next run closes */
	bool caller_ended; /* the next run ends the open request or stream */
	bool half;         /* the client has shut down its side while it waits for this answer */
	unsigned half_s;   /* seconds since then; a byte goes out at 0, 1, 2, 4, 8 ... */
	unsigned begun;    /* bytes of the answer's head that went out as probes */
	bool drain_owed;   /* call on_drain when the queue is empty */
	bool moved;        /* bytes were received or sent: restart the timer */
	size_t trickled;   /* bytes of the body since the timer was restarted */
	enum http_timer timer;
	uint64_t deadline_ns;
	char who[BUDGET_PRINCIPAL_SIZE]; /* who pays for it: its network, later its user */
	unsigned turn_slot;              /* of WHO */
	size_t run_bytes;                /* of a body, in this run */
	struct budget_share place;       /* this connection */
	struct budget_share in_memory, out_memory;
	size_t reserved; /* of OUT_MEMORY: taken before the answer was made, until it is over */
	int held;        /* bytes that the kernel held when it was asked last */
	unsigned waited; /* times that lingering was prolonged without that it moved */
	struct list unread_link;
	struct list timer_link;
	struct list ready_link; /* of the turns or the dead list */
	struct http_scan scan;
	struct http_in in;
	struct http_out out;
	struct http_request *req; /* until the answer is out; NULL on streams */
	struct http_stream stream;
	struct http_socket *socket; /* owned, from the upgrade to the close; else NULL */
	void *caller; /* of the stream or socket: the request's caller, kept until that is over */
	void (*caller_unref)(void *caller);
};

/* Body of the request that is being read. */
struct http_body {
	enum http_framing framing;
	uint64_t left;  /* with a length */
	uint64_t total; /* bytes so far */
	uint64_t max;
	struct http_chunk chunk;
	bool wanted; /* a handler reads it */
	bool paused;
	size_t untaken; /* of the piece that on_data has now */
	bool done;
	http_body_fn on_data;
	bool (*has_room)(void *userdata); /* asked before bytes are read; NULL: always */
	void *userdata;
	struct buf whole; /* rows that take the body in one piece */
};

/* A request whose client was identified just now waits for a turn of that client. */
enum http_hold {
	HTTP_HOLD_NONE,
	HTTP_HOLD_RUN, /* until the end of this run */
	HTTP_HOLD_TURN,
};

struct http_request {
	struct http_conn *conn;
	enum http_hold hold;
	struct http_head head;
	struct http_match match;
	struct http_body body;
	void (*on_gone)(void *userdata);
	void *gone_userdata;
	void *caller;
	void (*caller_unref)(void *caller);
	struct buf extra; /* header lines for the answer */
	struct http_pair query[HTTP_QUERY_MAX];
	unsigned n_query;
	int status;
	uint64_t sent_bytes;
	uint64_t start_ns;
	const char *origin;
	const char *raw_query; /* or NULL */
	bool of_port;          /* Host is a name of HTTP_SCOPE_PORTS or HTTP_SCOPE_FACES */
	char principal[64];
	char peer[64];
	char *text; /* raw head (cut into strings), then decoded path, then decoded query */
	size_t head_len;
	char data[];
};

/* http_server.c */
void server_pause_accept(struct http_server *s, uint64_t retry_ns);
void server_resume_accept(struct http_server *s);
void server_arm_timer(struct http_server *s, uint64_t deadline_ns);
void server_schedule(struct http_server *s);
const char *server_date_line(struct http_server *s);
/* Counts an answer. REQ: NULL if what came was no request. */
void server_note_answer(const struct http_server *s, struct http_request *req, int status,
			uint64_t bytes, uint64_t ns);
/* Asks the kernel again what it holds of answers that were sent completely. */
void server_count_unread(struct http_server *s);
void server_arm_unread(struct http_server *s);

enum step {
	STEP_AGAIN, /* something changed: take another step */
	STEP_YIELD, /* the same, in another turn */
	STEP_WAIT,  /* nothing to do before the next event */
	STEP_CLOSE,
};

/* connection.c */
/* WHO is the network of the client, as struct budgets names it. On success the connection owns FD. */
int conn_new(struct http_server *s, const struct http_listener *l, int fd, const char *who);
/* The connection and its memory belong to PRINCIPAL from now on. BUDGET_EXCEEDED: they stay where they
 * are. */
int conn_belongs_to(struct http_conn *c, const char *principal, struct err *e) MUST_CHECK;
/* Takes room for BYTES of an answer that is about to be made. */
int conn_reserve(struct http_conn *c, size_t bytes, struct err *e) MUST_CHECK;
/* Counts what waits here and in the kernel. */
void conn_count_answer(struct http_conn *c);
/* Counts the bytes of a request that has not arrived completely. False: they are more than the client may have. */
bool conn_count_request(struct http_conn *c);
/* Options of a new connection's socket; and those that fall away when the client is identified. */
void conn_set_socket(const struct http_conn *c);
void conn_free_socket(const struct http_conn *c);
void conn_on_event(struct http_conn *c, uint32_t events);
void conn_on_timeout(struct http_conn *c);
void conn_run(struct http_conn *c);
void conn_close(struct http_conn *c);
void conn_schedule(struct http_conn *c);
void conn_update(struct http_conn *c); /* epoll interest and timer, from the state */
void conn_break(struct http_conn *c);  /* closes in the next run; may be called anywhere */
/* Sends a refusal without the handler and ends the connection. If a handler has the request, its
 * on_gone is called first. */
void conn_refuse(struct http_conn *c, int status);
/* Lets the next run end what the connection has open, if ENDED says so of its caller. Calls no one
 * else, so lists of connections may be walked meanwhile. */
void conn_end_caller(struct http_conn *c, bool (*ended)(const void *caller));

/* The request was answered, or became a stream or a socket. */
void conn_request_done(struct http_conn *c);
enum step conn_receive(struct http_conn *c, size_t max);

/* websocket.c */
enum step socket_step(struct http_conn *c);
uint32_t socket_events(const struct http_conn *c, bool sending);
/* Ends the socket for a reason of the server's, and tells its owner. */
void socket_fail(struct http_conn *c, unsigned code, const char *reason);
size_t socket_memory(const struct http_conn *c);
struct http_socket *socket_free(struct http_socket *s); /* takes NULL, returns NULL */

/* half_closed.c */
/* The client has shut down its side while it waits. From now on C finds out by itself when it is gone. False: C could not,
 * so the client counts as gone. */
bool conn_half_closed(struct http_conn *c) MUST_CHECK;
void conn_on_probe_timer(struct http_conn *c);

/* input.c */
int input_recv(struct http_conn *c, size_t max); /* bytes, 0 = end, -EAGAIN, -errno */
void input_consume(struct http_in *in, size_t n);
int input_keep(struct http_in *in); /* copies the rest out of the scratch block */
void input_drop(struct http_in *in);

/* send_file.c */
/* Sends a part of the file. Bytes, -EAGAIN: the socket is full or a thread is at work, or -errno. */
ssize_t sending_go_on(struct http_conn *c);
struct http_sending *sending_free(struct http_sending *f); /* of a connection that stays */
/* The connection closes while a thread sends: the socket and PLACE are given up when it has returned. */
void sending_leave(struct http_sending *f, struct http_io *io, struct budget_share *place);

/* output.c */
int out_add(struct http_out *o, const void *data, size_t len);
/* Adds the head of an answer, without what went out of it as probes. */
int out_add_head(struct http_conn *c, const void *head, size_t len);
/* Adds bytes without a copy. -ENOMEM. */
int out_add_taken(struct http_out *o, char *data,
		  size_t len); /* malloc'ed; taken, also on failure */
int out_add_shared(struct http_out *o, struct shared_bytes *bytes);
int out_add_borrowed(struct http_out *o, const char *data,
		     size_t len);   /* they stay until the server is freed */
int out_flush(struct http_conn *c); /* 0 = all sent, -EAGAIN, -errno */
size_t out_queued(const struct http_out *o);
/* Waits something for room in the socket? */
bool out_wants_room(const struct http_out *o);
void out_drop(struct http_out *o);

/* request.c */
void request_begin(struct http_conn *c, size_t head_len);
void request_go_on(struct http_request *req); /* after its hold */
void request_free(struct http_request *req);
void request_gone(struct http_conn *c); /* runs on_gone, frees */

/* body.c */
void body_begin(struct http_request *req);
/* Gives the received bytes to the reader. Returns the status to refuse with, or 0. */
int body_feed(struct http_conn *c);
size_t body_recv_size(const struct http_body *body); /* 0: nothing more will come */

/* problem.c */
/* STATUS is one that the HTTP server itself refuses with. */
int problem_add(struct buf *out, int status);
void request_refuse(struct http_request *req, int status);

/* response.c */
const char *http_status_text(int status);
int reply_head(struct http_request *req, int status, const char *type, bool has_length,
	       uint64_t length);
void reply_failed(struct http_request *req);
void reply_go(struct http_request *req); /* the answer is queued: send it */
