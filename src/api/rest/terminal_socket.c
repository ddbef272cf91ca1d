/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a terminal: a WebSocket that reads from the output that is kept of the process, at a position of its own, and
 * writes to its input. docs/decisions/0037-terminals.md has the messages.
 *
 * Nothing is kept for a client but its position. One that reads too slowly finds that its place is not kept any more, is
 * told how many bytes it missed, and goes on behind them. One that types faster than the program reads is not read. */
#include "api/rest/rest.h"
#include "base/text.h"
#include "sandbox/process.h"

#include <string.h>

#define MESSAGE_MAX (32u << 10) /* half of what may wait, so each has room some time */
#define CONTROL_MAX 1024u       /* bytes of a text message */
#define SLICE       (16u << 10) /* bytes of one binary message */
#define SCROLLBACK  (64u << 10) /* bytes that a new client is shown of what there was */

struct attached {
	struct http_socket *socket;
	struct process *process; /* reference */
	struct process_watch watch;
	struct budget_share share;
	uint64_t at; /* position in the output */
	bool greeted;
	bool waits;             /* a message of it, until there is room */
	uint32_t rows, columns; /* as the client knows them */
	struct err refusal;     /* of its last control message, to be told; ERR_NONE */
};

static void attached_free(struct attached *a)
{
	process_unwatch(&a->watch);
	budget_give(&a->share);
	(void)process_unref(a->process);
	free(a);
}

/* ---- to the client ---- */

/* True: it was sent, or the connection is about to close. */
static bool say(struct attached *a, json_t *message)
{
	char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
	const int r = text ? http_socket_send(a->socket, true, text, strlen(text)) : -ENOMEM;

	free(text);
	json_decref(message);
	return r == 0;
}

static json_t *size_json(const struct process_facts *f)
{
	return json_pack("{s:i, s:i}", "rows", f->rows, "columns", f->columns);
}

static json_t *exit_json(const struct process_facts *f)
{
	if (f->failure.code != ERR_NONE)
		return json_pack("{s:{s:s, s:s+}}", "error", "code", err_code_name(f->failure.code),
				 "message", f->failure.text, "");
	json_t *o =
	    json_pack("{s:i, s:s}", "code", f->exit_code, "reason", run_reason_name(f->reason));
	if (f->signal != 0)
		(void)json_object_set_new(o, "signal", json_integer(f->signal));
	return json_pack("{s:o}", "exit", o);
}

static void greet(struct attached *a, const struct process_facts *f)
{
	a->greeted = true;
	a->rows = f->rows;
	a->columns = f->columns;
	(void)say(a, json_pack("{s:{s:s, s:I, s:i, s:i}}", "attached", "id", f->id, "from",
			       (json_int_t)a->at, "rows", f->rows, "columns", f->columns));
}

static bool give_output(struct attached *a)
{
	char bytes[SLICE];
	uint64_t from;
	const size_t n =
	    process_bytes(a->process, ENGINE_STDOUT, a->at, sizeof(bytes), bytes, &from);

	if (from > a->at)
		(void)say(a, json_pack("{s:{s:I, s:I}}", "missed", "bytes",
				       (json_int_t)(from - a->at), "from", (json_int_t)from));
	a->at = from + n;
	return n > 0 && http_socket_send(a->socket, false, bytes, n) == 0;
}

static bool on_room(void *user)
{
	struct attached *a = user;
	struct process_facts f;

	process_look(a->process, &f);
	if (!a->greeted) {
		greet(a, &f);
		return true;
	}
	if (a->rows != f.rows || a->columns != f.columns) {
		a->rows = f.rows;
		a->columns = f.columns;
		(void)say(a, json_pack("{s:o}", "resize", size_json(&f)));
	}
	if (a->refusal.code != ERR_NONE) {
		(void)say(a, json_pack("{s:{s:s, s:s}}", "error", "code",
				       err_code_name(a->refusal.code), "message", a->refusal.text));
		a->refusal = ERR_INIT;
	}
	if (give_output(a))
		return true;
	if (f.running)
		return false;
	(void)say(a, exit_json(&f));
	http_socket_end(a->socket, 1000, "the program has ended");
	attached_free(a);
	return false;
}

static void on_news(struct process_watch *w)
{
	struct attached *a = CONTAINER_OF(w, struct attached, watch);

	if (a->waits) {
		a->waits = false;
		http_socket_resume(a->socket);
	}
	http_socket_ask(a->socket);
}

/* ---- from the client ---- */

static int take_control(struct attached *a, const char *text, size_t len, struct err *e)
{
	json_int_t rows, columns;
	json_auto_t *o =
	    len <= CONTROL_MAX ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;

	if (!o ||
	    json_unpack(o, "{s:{s:I, s:I!}!}", "resize", "rows", &rows, "columns", &columns) < 0)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "A text message is {\"resize\": {\"rows\": 24, \"columns\": 80}}; "
			       "what is typed is binary");
	return process_resize(a->process, rows, columns, e);
}

static bool on_message(bool text, const void *data, size_t len, void *user)
{
	struct attached *a = user;
	struct process_facts f;
	struct err e = ERR_INIT;

	process_look(a->process, &f);
	if (!f.running) /* its end is on the way to the client */
		return true;
	const int r =
	    text ? take_control(a, data, len, &e) : process_write(a->process, data, len, false, &e);
	a->waits = r < 0 && !text && e.code == ERR_SERVER_BUSY;
	if (r < 0 && !a->waits) {
		a->refusal = e;
		http_socket_ask(a->socket);
	}
	return !a->waits;
}

static void on_close(void *user)
{
	attached_free(user);
}

/* ---- the beginning ---- */

void terminal_attach(struct rest_call *c, struct process *p)
{
	static const struct http_socket_ops ops = {on_message, on_room, on_close};
	struct attached *a = calloc(1, sizeof(*a));
	const uint64_t from = (uint64_t)rest_query_int(c, "from", -1);
	struct process_facts f;
	struct err e = ERR_INIT;

	process_look(p, &f);
	if (!a) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	if (budget_take(c->api->config.budgets, c->who->owner, BUDGET_FOLLOWERS, 1, &a->share, &e) <
	    0) {
		free(a);
		rest_fail(c, &e);
		return;
	}
	a->process = process_ref(p);
	a->watch.fn = on_news;
	list_init(&a->watch.node);
	const uint64_t total = f.total[0];
	const uint64_t newest = total - MIN(total, (uint64_t)SCROLLBACK);
	/* A client that names a position is told if that is not kept any more; one that names none has missed nothing. */
	(void)process_bytes(p, ENGINE_STDOUT, newest, 0, NULL, &a->at);
	if (from <= total)
		a->at = from;
	c->action = "terminal.attach";
	struct http_request *req = rest_give(c);
	a->socket = req ? http_socket_begin(req, &ops, MESSAGE_MAX, a) : NULL;
	if (!a->socket)
		attached_free(a);
	else
		process_watch(p, &a->watch);
}
