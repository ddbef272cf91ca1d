/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of a call: how its text is made, and where it is sent. */
#include "mcp/objects.h"

#include "base/jsonio.h"
#include "base/large.h"
#include "base/loop.h"
#include "base/promise.h"
#include "base/workers.h"
#include "mcp/content.h"

#include <string.h>

/* Bytes of an answer that are written on the loop: half a millisecond. Larger ones are written by a thread. */
#define LARGE_ANSWER (128u << 10)

#define FAIL_TEXT_MAX 1024 /* bytes of our error messages; longer ones are cut */

/* ---- delivery ---- */

void batch_unref(struct batch *b)
{
	if (--b->refs > 0)
		return;
	for (unsigned i = 0; i < b->n_texts; i++)
		free(b->texts[i].json);
	free(b);
}

void batch_add(struct batch *b, char *json, size_t len)
{
	if (!json)
		return;
	ASSERT(b->n_texts < BATCH_MAX);
	b->texts[b->n_texts++] = (struct batch_text){.json = json, .len = len};
	b->bytes += len;
}

/* The array of all answers. NULL: no memory, or it is too long. */
static char *join(struct batch *b, size_t *ret_len)
{
	struct buf out = BUF_INIT(WIRE_MAX);
	int r = buf_reserve(&out, b->bytes + b->n_texts + 1);
	char *text;

	for (unsigned i = 0; i < b->n_texts && r == 0; i++) {
		large_block_hint(out.data, i == 0 ? out.cap : 0);
		r = buf_add_char(&out, i > 0 ? ',' : '[');
		r = r < 0 ? r : buf_add(&out, b->texts[i].json, b->texts[i].len);
		free(b->texts[i].json);
		b->texts[i].json = NULL;
	}
	r = r < 0 ? r : buf_add_char(&out, ']');
	*ret_len = out.len;
	text = r == 0 ? buf_take(&out) : NULL;
	buf_done(&out);
	return text;
}

static void finish_array(struct mcp_sink *sink, char *text, size_t len)
{
	if (!text)
		text = wire_error(NULL, MCP_ERR_INTERNAL, "The batch's answer is too large", NULL,
				  &len);
	sink->ops->finish(sink, 200, text, len);
}

struct joining {
	struct batch *batch; /* its own reference */
	char *text;
	size_t len;
};

static void join_on_thread(void *user)
{
	struct joining *j = user;

	j->text = join(j->batch, &j->len);
}

void batch_lose_sink(struct batch *b)
{
	b->sink = NULL;
	if (list_is_empty(&b->joining))
		return;
	list_remove(&b->joining);
	b->peer->n_calls--;
}

static void on_joined(void *user)
{
	struct joining *j = user;
	struct batch *b = j->batch;
	struct mcp_sink *sink = b->sink;

	loop_work("answer", "of a batch");
	if (sink) {
		struct mcp_peer *p = b->peer;

		p->refs++; /* the transport may close the peer from inside finish() */
		batch_lose_sink(b);
		finish_array(sink, j->text, j->len);
		peer_unref(p);
	} else {
		workers_free_memory("", j->text, j->len);
	}
	batch_unref(b);
	free(j);
}

static int begin_join(struct batch *b)
{
	struct joining *j = calloc(1, sizeof(*j));
	int r;

	if (!j)
		return -ENOMEM;
	j->batch = b;
	b->refs++;
	list_append(&b->peer->joining, &b->joining);
	b->peer->n_calls++;
	r = workers_run(b->peer->who->principal, join_on_thread, on_joined, j);
	if (r == 0)
		return 0;
	list_remove(&b->joining);
	b->peer->n_calls--;
	b->refs--;
	free(j);
	return r;
}

void batch_flush(struct batch *b)
{
	struct mcp_sink *sink = b->sink;
	size_t len = 0;
	char *text;

	if (b->waiting > 0 || !b->sealed || !sink || !list_is_empty(&b->joining))
		return;
	if (b->bytes > LARGE_ANSWER && !b->failed && begin_join(b) == 0)
		return;
	b->sink = NULL;
	if (b->n_texts == 0 && !b->failed) {
		sink->ops->finish(sink, 202, NULL, 0);
		return;
	}
	text = b->failed || b->bytes > LARGE_ANSWER ? NULL : join(b, &len);
	finish_array(sink, text, len);
}

void call_deliver(struct mcp_call *c, unsigned http_status, char *json, size_t len)
{
	struct mcp_sink *sink = c->sink;
	struct batch *batch = c->batch;

	c->sink = NULL;
	if (batch) {
		c->batch = NULL;
		batch_add(batch, json, len);
		batch->waiting--;
		batch_flush(batch);
		batch_unref(batch);
		return;
	}
	if (sink)
		sink->ops->finish(sink, http_status, json, len);
	else
		free(json);
}

/* ---- results ---- */

static void finish_text(struct mcp_call *c, char *text, size_t len)
{
	if (!text)
		text = wire_error(c->id, MCP_ERR_INTERNAL, "The result is too large", NULL, &len);
	call_deliver(c, 200, text, len);
}

/* ---- large answers: a thread makes the text ----
 *
 * The handler is done with its call, so the call is only held until its text is there. Meanwhile it may be cancelled, and
 * its peer may close: then the text is thrown away. */

struct writing {
	struct mcp_call *call; /* its reference for being in flight */
	json_t *id;
	json_t *result; /* owned; nobody else changes it */
	char *mark;     /* NULL: no blob */
	char *blob;     /* owned */
	size_t blob_len;
	char *text; /* owned: the message */
	size_t len;
};

static void writing_free(struct writing *w)
{
	json_decref(w->id);
	json_decref(w->result);
	free(w->mark);
	free(w->blob);
	free(w);
}

/* On a thread, which also frees what the loop would need long for. */
static void write_text(void *user)
{
	struct writing *w = user;

	w->text = wire_response(w->id, w->result, &w->len);
	if (w->mark)
		w->text = wire_fill(w->text, w->len, w->mark, w->blob, w->blob_len, &w->len);
	json_decref(w->result);
	w->result = NULL;
	free(w->blob);
	w->blob = NULL;
}

static void on_written(void *user)
{
	struct writing *w = user;
	struct mcp_call *c = w->call;

	loop_work("answer", "of a thread");
	if (c->cancelled)
		free(w->text);
	else
		finish_text(c, w->text, w->len);
	call_end(c);
	writing_free(w);
}

void mcp_call_finish_refused(struct mcp_call *c, int r)
{
	struct err e = ERR_INIT;

	(void)workers_refused(r, &e);
	if (e.code != ERR_SERVER_BUSY) {
		mcp_call_finish_error(c, MCP_ERR_INTERNAL, "Out of memory", NULL);
		return;
	}
	call_fail(c, MCP_ERR_BUDGET,
		  json_pack("{s:s, s:i}", "error", err_code_name(e.code), "retry_after_s", 1),
		  "%s. %s", e.text, err_code_hint(e.code));
}

/* RESULT, BLOB: owned. MARK NULL: no blob. */
static void finish_on_thread(struct mcp_call *c, json_t *result, const char *mark, char *blob,
			     size_t blob_len)
{
	struct writing *w = calloc(1, sizeof(*w));
	int r = -ENOMEM;

	c->on_cancel = NULL; /* the handler is gone */
	if (!w) {
		json_decref(result);
		free(blob);
	} else {
		*w = (struct writing){.call = c,
				      .id = json_incref(c->id),
				      .result = result,
				      .mark = mark ? strdup(mark) : NULL,
				      .blob = blob,
				      .blob_len = blob_len};
		if (!mark || w->mark)
			r = workers_run(c->who->principal, write_text, on_written, w);
		if (r < 0)
			writing_free(w);
	}
	if (r < 0)
		mcp_call_finish_refused(c, r);
}

struct making {
	struct mcp_call *call; /* its reference for being in flight */
	json_t *(*make)(void *user);
	void (*done)(void *user);
	void *user;
	json_t *result; /* owned */
};

static void make_result(void *user)
{
	struct making *m = user;

	m->result = m->make(m->user);
}

static void on_made(void *user)
{
	struct making *m = user;

	loop_work("result", "of a thread");
	m->done(m->user);
	mcp_call_finish(m->call, m->result);
	free(m);
}

void mcp_call_make(struct mcp_call *c, bool large, json_t *(*make)(void *user),
		   void (*done)(void *user), void *user)
{
	struct making *m = large ? calloc(1, sizeof(*m)) : NULL;
	int r = large ? -ENOMEM : 0;

	if (m) {
		c->on_cancel = NULL; /* the handler is gone */
		*m = (struct making){.call = c, .make = make, .done = done, .user = user};
		r = workers_run(c->who->principal, make_result, on_made, m);
		if (r == 0)
			return;
		free(m);
	}
	json_t *result = r == 0 ? make(user) : NULL;
	done(user);
	if (r < 0)
		mcp_call_finish_refused(c, r);
	else
		mcp_call_finish(c, result);
}

struct made {
	json_t *(*make)(json_t *object);
	json_t *object; /* owned until MAKE has it */
};

static json_t *make_of_object(void *user)
{
	struct made *m = user;

	return m->make(TAKE_PTR(m->object));
}

static void made_free(void *user)
{
	struct made *m = user;

	json_decref(m->object);
	free(m);
}

void mcp_call_finish_made(struct mcp_call *c, json_t *object, json_t *(*make)(json_t *object))
{
	struct made *m;

	if (!object || jsonio_size(object, LARGE_ANSWER) <= LARGE_ANSWER) {
		mcp_call_finish(c, make(object));
		return;
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		json_decref(object);
		mcp_call_finish_refused(c, -ENOMEM);
		return;
	}
	*m = (struct made){.make = make, .object = object};
	mcp_call_make(c, true, make_of_object, made_free, m);
}

void mcp_call_finish(struct mcp_call *c, json_t *result)
{
	size_t len;

	if (!call_is_open(c, result))
		return;
	result = call_decorate(c, result);
	if (c->task) {
		task_finish(c, result);
		return;
	}
	if (!result) {
		mcp_call_finish_error(c, MCP_ERR_INTERNAL, "The result could not be built", NULL);
		return;
	}
	if (!c->cancelled && jsonio_size(result, LARGE_ANSWER) > LARGE_ANSWER) {
		finish_on_thread(c, result, NULL, NULL, 0);
		return;
	}
	if (!c->cancelled) {
		char *text = wire_response(c->id, result, &len);
		finish_text(c, text, len);
	}
	json_decref(result);
	call_end(c);
}

/* Gives the answer to the transport with BLOB beside it. False: it must be sent in one piece. */
static bool deliver_filled(struct mcp_call *c, char *text, size_t text_len, const char *mark,
			   char *blob, size_t len)
{
	struct mcp_sink *sink = c->sink;
	struct mcp_filled answer = {
	    .text = text, .text_len = text_len, .blob = blob, .blob_len = len};

	if (!text || c->batch || !sink || !sink->ops->finish_filled || !wire_holes(&answer, mark))
		return false;
	c->sink = NULL;
	sink->ops->finish_filled(sink, &answer);
	return true;
}

void mcp_call_finish_blob(struct mcp_call *c, json_t *result, const char *mark, char *blob,
			  size_t len)
{
	_cleanup_free_ char *owned = blob;
	size_t text_len;

	if (!call_is_open(c, result))
		return;
	result = call_decorate(c, result);
	if (!result || !PROMISE(!c->task)) {
		json_decref(result);
		mcp_call_finish_error(c, MCP_ERR_INTERNAL, "The result could not be built", NULL);
		return;
	}
	if (!c->cancelled) {
		char *text = wire_response(c->id, result, &text_len);

		if (deliver_filled(c, text, text_len, mark, owned, len)) {
			owned = NULL;
		} else if (len > LARGE_ANSWER) {
			free(text);
			finish_on_thread(c, result, mark, TAKE_PTR(owned), len);
			return;
		} else {
			text = wire_fill(text, text_len, mark, owned, len, &text_len);
			finish_text(c, text, text_len);
		}
	}
	json_decref(result);
	call_end(c);
}

void call_answer_text(struct mcp_call *c, const char *result, size_t result_len)
{
	size_t len;
	char *text = wire_response_raw(c->id, result, result_len, &len);

	call_deliver(c, 200, text, len);
	call_end(c);
}

/* ---- errors ---- */

static unsigned http_status_of(const struct mcp_call *c, int code)
{
	if (c->peer && peer_refuses_on_stream(c->peer))
		return 200;
	if (!c->modern)
		return code == MCP_ERR_REQUEST || code == MCP_ERR_BAD_HTTP ? 400
		       : code == MCP_ERR_SESSION                           ? 404
									   : 200;
	switch (code) {
	case MCP_ERR_METHOD:
		return 404;
	case MCP_ERR_HEADER:
	case MCP_ERR_CLIENT_CAPABILITY:
	case MCP_ERR_VERSION:
	case MCP_ERR_REQUEST:
		return 400;
	default:
		/* The specification does not say which status errors of handlers have; 200 is what
		 * the official TypeScript SDK sends. */
		return c->checking ? 400 : 200;
	}
}

void mcp_call_finish_error(struct mcp_call *c, int code, const char *message, json_t *data)
{
	size_t len;
	char *text;

	if (!call_is_open(c, data))
		return;
	if (c->task) {
		task_fail(c, code, message, data);
		return;
	}
	if (c->cancelled) {
		json_decref(data);
	} else {
		text = wire_error(c->id, code, message, data, &len);
		call_deliver(c, http_status_of(c, code), text, len);
	}
	call_end(c);
}

void call_fail(struct mcp_call *c, int code, json_t *data, const char *fmt, ...)
{
	struct buf b = BUF_INIT(FAIL_TEXT_MAX);
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(&b, fmt, ap);
	va_end(ap);
	mcp_call_finish_error(c, code, r < 0 ? "Invalid request" : buf_str(&b), data);
	buf_done(&b);
}

json_t *budget_data(enum budget_kind kind)
{
	return json_pack("{s:s, s:s, s:i}", "error", err_code_name(ERR_BUDGET_EXCEEDED), "budget",
			 budget_word(kind), "retry_after_s", BUDGET_RETRY_S);
}

void call_fail_budget(struct mcp_call *c, enum budget_kind kind, const struct err *e)
{
	call_fail(c, MCP_ERR_BUDGET, budget_data(kind), "%s. %s", e->text,
		  err_code_hint(ERR_BUDGET_EXCEEDED));
}

void mcp_call_finish_no_resource(struct mcp_call *c, const char *uri)
{
	mcp_call_finish_error(c, c->modern ? MCP_ERR_PARAMS : MCP_ERR_RESOURCE_NOT_FOUND,
			      "Resource not found", json_pack("{s:s}", "uri", uri));
}
