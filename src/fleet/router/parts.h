/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/fleet/router. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "fleet/router/place.h"
#include "fleet/router/router.h"
#include "fleet/tally.h"
#include "http/socket_io.h"
#include "relay/relay.h"

#include <jansson.h>

#define FLEET_WORD_SIZE 64u /* bytes of a worker's version */

struct bound;
struct fetch;
struct look;
struct moves;
struct moves_worker;

enum worker_state {
	WORKER_READY,
	WORKER_NOT_READY,
	WORKER_DRAINING,
	WORKER_UNREACHABLE,
	WORKER_LOST,
	WORKER_REFUSED, /* another one has its short id */
	WORKER_UNKNOWN, /* not asked yet */
	WORKER_STATES,
};

/* Of failures: codes, and the last for all others. */
#define ROUTER_FAILURES 8u
enum router_retry { RETRY_UNREACHABLE, RETRY_CLOSED, RETRY_FULL, RETRY_MAX_ };

struct router_counts {
	uint64_t answered, left; /* requests; LEFT: the client went away first */
	uint64_t failures[ROUTER_FAILURES], retries[RETRY_MAX_];
};

struct worker {
	struct list node; /* of router.workers */
	struct fleet_router *router;
	struct fleet_address at;
	bool listed; /* it is in the file */
	bool known;  /* it has answered, so ID and EPOCH are its */
	bool ready, draining;
	bool has_face;     /* it says that it offers that of the router */
	bool refused;      /* another worker has the same short id */
	unsigned missed;   /* questions in a row without an answer */
	uint64_t asked_ns; /* the last of them */
	uint64_t good_ns;  /* when it answered last */
	char id[FLEET_WORKER_SIZE], epoch[FLEET_EPOCH_SIZE];
	uint64_t open, max; /* sandboxes, as it says, and those placed since then */
	struct list links;  /* struct link: being made, or idle, the newest first */
	unsigned n_idle;
	struct list hops; /* struct hop that are connected to it, or being so */
	unsigned n_hops;
	struct fetch *check; /* the question that is on its way */
	unsigned n_fetches;  /* with that, and all others: they borrow the worker */
	bool told;           /* that it is silent, in the log */
	char name[FLEET_NAME_MAX + 1], version[FLEET_WORD_SIZE]; /* as it says */
	enum worker_state state;                                 /* as it was noted last */
	uint64_t since_ms;                                       /* wall clock; 0: not noted yet */
	/* ended.c */
	struct look *look; /* that is under way */
	uint64_t look_not_before_ns;
	uint64_t judged, judged_owners;      /* what of the router's it has heard */
	char judged_start[FLEET_EPOCH_SIZE]; /* and when it was started */
	bool settled; /* and nothing that was under way then can have come later */
	/* uses.c */
	struct fleet_tally
	    *uses; /* what users have there, as it says; NULL: it has not said it yet */
	char uses_version[FLEET_VERSION_BUFFER];
	char uses_whole[FLEET_VERSION_BUFFER]; /* the newest when all was asked for */
	struct fetch *counting;
	uint64_t counting_ns; /* when the first page was asked for */
	unsigned counting_pages;
	bool count_again;           /* something has changed since COUNTING was sent */
	struct moves_worker *moves; /* moves.h; NULL: it moves nothing */
	struct list placings;       /* struct placing, owned */
	unsigned n_placings;
};

struct fleet_router {
	struct fleet_router_config config;
	const struct fleet_face *face; /* NULL: there is none */
	uint64_t began_ns;
	struct list workers; /* struct worker, owned */
	struct list bounds;  /* struct bound, owned: routes */
	struct list lists;   /* struct merge, owned */
	struct list feeds;   /* struct feed, owned */
	struct list forgets; /* struct forget, owned */
	unsigned n_forgets;
	unsigned n_idle; /* connections, of all workers */
	sd_event_source *tick;
	struct router_counts counts;
	/* ended.c */
	sd_event_source *looking;
	uint64_t epoch, epoch_ns;   /* of credentials, and since when */
	json_t *idle;               /* users who are not active */
	uint64_t owners, owners_ns; /* counts other IDLEs */
	/* uses.c */
	struct fleet_tally *uses;   /* the sums of all workers */
	struct fleet_tally *placed; /* and of all placings */
	struct moves *moves;        /* NULL: sandboxes do not move */
	struct list leaving;        /* struct leaving, owned */
	sd_event_source *leave;
};

/* ---- worker.c ---- */

/* Has it answered lately? */
bool worker_is_fresh(const struct worker *w);
/* Does it get new things? */
bool worker_is_usable(const struct worker *w);
/* Can it have a part of what the requests of B are about? */
bool worker_offers(const struct worker *w, const struct bound *b);
/* The one with the short id; NULL: none has it. */
struct worker *worker_find(struct fleet_router *f, const char id[FLEET_WORKER_SIZE]);
/* It refuses connections: it gets nothing until it has answered again, which it is asked to each second. */
void worker_doubt(struct worker *w);

/* ---- link.c: connections ---- */

struct link;
/* IO is the callee's; NULL: WHY says why there is none. REUSED: an earlier request was sent over it. */
typedef void (*link_fn)(struct http_io *io, const char *why, bool reused, void *user);
/* Calls FN once, maybe before this returns. *RET is NULL afterwards, or what link_drop() takes until FN is called.
 * FRESH: not one that was used before. */
void link_get(struct worker *w, bool fresh, link_fn fn, void *user, struct link **ret);
void link_drop(struct link *l);
/* Keeps IO for the next request, or closes it. */
void link_put(struct worker *w, struct http_io *io);
/* Closes those that nobody has used for FLEET_IDLE_S; all of them if ALL. */
void links_tidy(struct worker *w, bool all);

/* ---- fetch.c: short answers for the router itself ---- */

struct fetch_answer {
	int status; /* 0: WHY says why there is none */
	const char *why;
	const char *body;
	size_t len;
	bool ours; /* the head says that the worker does not believe us */
};
typedef void (*fetch_fn)(const struct fetch_answer *a, void *user);
/* Sends HEAD, a whole request with its body, and calls FN once, never before this returns, within TIMEOUT_MS. NULL: no memory. */
struct fetch *fetch_begin(struct worker *w, const char *head, size_t max, unsigned timeout_ms,
			  fetch_fn fn, void *user);
/* The body of an answer as JSON: RET is a new reference. -EBADMSG: it is none, has more than MAX values, or is nested deeper than
 * DEPTH_MAX; -ENOMEM. */
int fetch_json(const struct fetch_answer *a, size_t max, size_t depth_max, json_t **ret) MUST_CHECK;
/* FN is not called any more. NULL is fine. */
struct fetch *fetch_drop(struct fetch *x);

/* ---- request_text.c ---- */

/* Appends the head of REQ for W, up to who asks and the framing. */
int hop_write_head(const struct bound *at, const struct http_request *req, const struct worker *w,
		   enum http_method method, struct buf *ret) MUST_CHECK;
/* The same without the first line, and without the field WITHOUT (NULL: with all). WHO NULL: it does not say who asks. */
int hop_write_fields(const struct bound *at, const struct http_request *req,
		     const struct caller *who, const struct worker *w, const char *without,
		     struct buf *ret) MUST_CHECK;
/* Appends the query of REQ but for the names of WITHOUT, which ends with NULL: BEFORE, then the rest; nothing if there is none. */
int hop_add_query(const struct http_request *req, const char *const *without, char before,
		  struct buf *ret) MUST_CHECK;

/* Appends BODY, all of it. If the client has sent chunks, it is one now. */
int hop_add_body(struct relay *x, const struct buf *body) MUST_CHECK;

/* Appends who WHO is to a worker, as a line of the head, and what WHO has ELSEWHERE, unless that is NULL. */
int hop_add_caller(struct fleet_router *f, const struct caller *who,
		   const struct fleet_use *elsewhere, struct buf *ret) MUST_CHECK;

/* ---- answer_fields.c ---- */

/* Adds the fields of REPLY that a client may get to the answer of REQ. < 0: they do not fit. */
int hop_add_fields(const struct bound *b, struct http_request *req,
		   const struct relay_reply *reply) MUST_CHECK;

/* ---- forget.c ---- */

/* Tells those workers of removed users that can be told now. */
void forgets_go(struct fleet_router *f);
void forgets_done(struct fleet_router *f);

/* ---- figures.c ---- */

/* Notes since when W is in its state. */
void worker_note_state(struct worker *w);
void router_count_failure(struct fleet_router *f, enum err_code code);

/* ---- ended.c ---- */

int looks_begin(struct fleet_router *f) MUST_CHECK;
void looks_done(struct fleet_router *f);
void look_drop(struct worker *w);

/* ---- routes.c ---- */

enum place {
	PLACE_HERE, /* the router answers */
	PLACE_ID,   /* the worker that an id in the path names */
	PLACE_NEW,  /* any worker */
	PLACE_HOME, /* the home of the caller */
	PLACE_LIST, /* all workers, as one list */
	PLACE_FEED, /* all workers, as one stream of events */
	PLACE_MCP, /* the worker of the MCP session; without one the home of the caller, or any for a new session */
	PLACE_STREAM, /* any worker: a session of the older transport of MCP */
	PLACE_QUERY,  /* the worker that session_id of the query names */
	PLACE_LINK,   /* the worker that an artifact link names; anybody may have one */
	PLACE_UPLOAD, /* the worker that the token of an upload link names; the same */
	PLACE_NAME,   /* the worker of the sandbox that Host names, with a port; the same */
	PLACE_READY,  /* is there a worker that is ready? */
	PLACE_BOX, /* the worker of the sandbox that a request of a face names. The worker alone judges who may */
	PLACE_KEPT, /* the worker that has the template or snapshot which a request of a face names */
	PLACE_KEEP,   /* the same; if there is none, the home of the name */
	PLACE_ABSENT, /* nobody: a fleet does not have it yet */
};

struct bound {
	struct list node;
	struct http_route row;
	struct fleet_router *router;
	enum place place;
	const char *pattern; /* as the table has it */
	void *face_row;      /* what a face has added it with; NULL: it is of our own API */
};

/* ---- uses.c: what users have at workers, for their quotas ---- */

struct placing;

int uses_begin(struct fleet_router *f, struct err *e) MUST_CHECK;
void uses_done(struct fleet_router *f);
/* W has said in its state, which it was asked for at ASKED_NS, that VERSION is the newest; NULL: it does not count. */
void uses_heard(struct worker *w, const char *version, uint64_t asked_ns);
/* W was started anew, is lost or gone: what it had does not count. */
void uses_forget(struct worker *w);
/* W answers a request of B: if a sandbox has gone, its user may have another one at once. */
void uses_answered(struct worker *w, const struct bound *b, int status);
/* hop_add_caller() with what WHO has at others than W; P: had there when P was made (NULL: now). */
int uses_add_caller(const struct worker *w, const struct caller *who, const struct placing *p,
		    struct buf *ret) MUST_CHECK;
/* REQ goes to W. If WHO may get a stored sandbox by it, that counts until W can have counted it. BODY: of REQ; NULL: it is not in
 * memory. NULL: it makes none, as far as is known, or there is no room. */
struct placing *placing_new(struct worker *w, const struct caller *who,
			    const struct http_request *req, enum place place,
			    const struct buf *body);
/* The request is over. MADE: maybe with a sandbox. NULL is fine. */
void placing_end(struct placing *p, bool made);

/* ---- by_link.c: requests of people without a credential of this router ---- */

#define LINK_NAME_SIZE 65 /* of a name that somebody has chosen for a sandbox */
/* The worker that the link, the token or the name of a port of REQ leads to. 0: RET is it. -ENOENT: to none, or the sandbox has a
 * name that its owner has chosen, which is in NAME then. */
int link_worker(const struct fleet_router *f, const struct http_request *req, enum place place,
		char ret[FLEET_WORKER_SIZE], char name[LINK_NAME_SIZE]) MUST_CHECK;
/* Are the users still there whom the passes of REQ were given to? Also true without a pass. The worker judges passes itself; it does not
 * hear that a user is no longer active. WHO: who asks, with a reference that the caller has besides that of REQ; NULL: somebody without a
 * credential. */
bool link_passes_hold(struct fleet_router *f, struct http_request *req,
		      const struct caller *who) MUST_CHECK;

/* ---- upload_form.c ---- */

/* The page of an upload link. It is the router's own: one of a worker would have an opaque origin, so its form would not get through. */
void upload_form_respond(struct http_request *req);

/* ---- hop.c, merge.c, feed.c ---- */

/* WHO NULL: somebody with a link. */
void hop_begin(const struct bound *b, struct http_request *req, const struct caller *who);
/* W has gone: what is under way there fails now. */
void hops_fail(struct worker *w);
void merge_begin(const struct bound *b, struct http_request *req, const struct caller *who);
void merges_done(struct fleet_router *f);
void feed_begin(const struct bound *b, struct http_request *req, const struct caller *who);
/* Once a second: connects feeds to workers that are there. */
void feeds_go(struct fleet_router *f);
void feeds_done(struct fleet_router *f);

/* ---- seek.c: which worker keeps something under a name ---- */

struct seek;
/* What for: it says what counts if several have the name. */
enum seek_use {
	SEEK_SOURCE,   /* a sandbox is made of it: a snapshot before a template */
	SEEK_DELETE,   /* a template before a snapshot */
	SEEK_TEMPLATE, /* snapshots do not count */
	SEEK_MAX_,
};
struct seek_answer {
	char worker[FLEET_WORKER_SIZE]; /* that has it; "" = none of those that answer */
	char silent[8];                 /* one that did not answer and may have it; "" = none */
	/* What the caller keeps at all workers that answer, and the most that a worker permits: templates, and builds that are open. */
	uint64_t have, most, open, open_most;
};
/* A is only valid until it returns. */
typedef void (*seek_fn)(const struct seek_answer *a, void *user);
/* Asks all workers whether they keep NAME for WHO, for at most SEEK_MS. FN is called once, maybe before this returns. *RET is NULL
 * afterwards, or what seek_drop() takes until FN is called. < 0 with E: nobody is asked, and FN is never called. */
int seek_begin(const struct bound *b, const struct caller *who, const char *name, enum seek_use use,
	       seek_fn fn, void *user, struct seek **ret, struct err *e) MUST_CHECK;
/* FN is not called any more. NULL is fine; returns NULL. */
struct seek *seek_drop(struct seek *s);

/* ---- asked.c ---- */

/* Is BODY the message that begins a session of MCP? It is only looked at to spread sessions: a wrong guess is a session elsewhere. */
bool hop_is_initialize(const struct buf *body);
/* What the path names: the parameter has the name that its route gives it. */
const char *hop_id_of(const struct http_request *req);
/* Whose home counts for what WHO asks: an administrator may ask for somebody else. */
const char *hop_owner_of(const struct http_request *req, const struct caller *who);
/* Whom REQ of WHO counts for; WHO NULL: a stranger, of whom a trusted proxy may have said the address. In RET, or borrowed. */
const char *hop_payer(const struct http_request *req, const struct caller *who,
		      char ret[BUDGET_PRINCIPAL_SIZE]);
/* Takes SHARE, that a request is under way, for the sandbox of NAMES: the worker alone knows whose that is, and the network of a client
 * may be that of many users. */
int hop_count_box(struct fleet_router *f, const struct fleet_names *names,
		  struct budget_share *share, struct err *e) MUST_CHECK;
/* Is REQ for one particular worker, so that its body passes as it comes? */
bool hop_has_worker(enum place place, const struct http_request *req);
/* Is W too long silent to come back with what it had? NULL: there is none of its id. */
bool hop_is_lost(const struct fleet_router *f, const struct worker *w);

/* ---- refusal.c ---- */

bool bound_is_mcp(const struct bound *b);
/* Answers REQ in the form that its client expects: a problem, an error of JSON-RPC, or what a face has. */
void hop_respond(const struct bound *b, struct http_request *req, enum err_code code,
		 const char *why);
/* Does a worker say with BODY that it is full, or that it does not believe this router? */
bool hop_says_full(const char *body, size_t len);
/* Full or not, that it lacks something: loop devices for stored sandboxes, or its engine. */
bool hop_says_unable(const char *body, size_t len);
bool hop_says_ours(const char *body, size_t len);
/* The code that a worker tells besides the answer of a face; NULL: none. */
const char *hop_error_of(const struct relay_reply *reply);
/* The same of a code. */
bool hop_is_full(const char *code);
bool hop_is_unable(const char *code);
bool hop_is_ours(const char *code);
