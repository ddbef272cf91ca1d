/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of sandbox_process. One begins with a line about the process, then comes what it has printed. With `since` a client
 * follows the output: what an answer has no room for comes with the next one. Without it the answer is a view of all that is
 * kept, folded and cut like that of a run. */
#include "tools/extras_process.h"

#include "base/rand.h"
#include "base/text.h"
#include "tools/fold.h"

#include <string.h>

#define TEXT_MAX     (1u << 20) /* bytes of an answer's text */
#define LINE_MAX_    512u       /* bytes of a line about a process */
#define COMMAND_LINE 100u       /* bytes of a command in such a line */
#define TOLD_MAX     8u         /* processes that an error names */
#define NEXT_SIZE    48         /* "12:0" */

/* ---- words about a process ---- */

static int add_label(struct buf *b, const struct process_facts *f)
{
	int r = buf_add_str(b, f->id);

	if (r < 0 || !f->name[0])
		return r;
	r = buf_add_str(b, " (");
	r = r < 0 ? r : text_add_name(b, f->name, strlen(f->name));
	return r < 0 ? r : buf_add_char(b, ')');
}

/* "running for 3 s"; "ended with exit_code 1 after 0.2 s" */
static int add_state(struct buf *b, const struct process_facts *f)
{
	const double s = (double)f->duration_ns / (double)NS_PER_S;

	if (f->running)
		return buf_printf(b, "running for %.1f s", s);
	if (f->failure.code != ERR_NONE) {
		int r = buf_printf(b, "not started, %s: ", err_code_name(f->failure.code));

		return r < 0 ? r : text_add_line(b, f->failure.text, strlen(f->failure.text));
	}
	int r = buf_printf(b, "ended with exit_code %d after %.1f s", f->exit_code, s);
	if (r < 0 || f->reason == RUN_EXITED)
		return r;
	return buf_printf(b, " (%s)", run_reason_name(f->reason));
}

static json_t *facts_json(const struct process_facts *f)
{
	json_t *o = json_pack("{s:s, s:o, s:s, s:I}", "process_id", f->id, "command",
			      tools_json_bytes(f->command, strlen(f->command)), "state",
			      f->running ? "running" : "ended", "duration_ms",
			      (json_int_t)(f->duration_ns / NS_PER_MS));
	json_t *more = NULL;

	if (o && f->name[0])
		(void)json_object_set_new(o, "name", tools_json_bytes(f->name, strlen(f->name)));
	if (f->running)
		return o;
	if (f->failure.code != ERR_NONE)
		more = json_pack("{s:s, s:o}", "error", err_code_name(f->failure.code), "message",
				 tools_json_bytes(f->failure.text, strlen(f->failure.text)));
	else
		more = json_pack("{s:i, s:s}", "exit_code", f->exit_code, "reason",
				 run_reason_name(f->reason));
	if (!o || !more || json_object_update(o, more) < 0) {
		json_decref(o);
		o = NULL;
	}
	json_decref(more);
	return o;
}

/* ---- errors ---- */

struct telling {
	struct buf *b;
	unsigned n;
	int r;
};

/* The newest ones come last, and are those that somebody asks for. */
static void tell_process(struct process *p, void *user)
{
	struct telling *t = user;
	struct process_facts f;

	process_look(p, &f);
	if (t->r < 0 || ++t->n > TOLD_MAX)
		return;
	t->r = t->n > 1 ? buf_add_str(t->b, ", ") : 0;
	t->r = t->r < 0 ? t->r : add_label(t->b, &f);
	t->r = t->r < 0 ? t->r : buf_add_str(t->b, f.running ? " runs" : " has ended");
}

void process_call_fail_unknown(const struct process_call *c, const char *id)
{
	_cleanup_(buf_done) struct buf hint = BUF_INIT(TOLD_MAX * 8 * PROCESS_NAME_MAX + 256);
	struct telling t = {.b = &hint, .r = buf_add_str(&hint, "There are: ")};

	sandbox_each_process(c->base.sandbox, tell_process, &t);
	if (t.r == 0 && t.n > TOLD_MAX)
		t.r = buf_add_str(&hint, " ... (action list has all)");
	extras_fail(c->base.call, err_code_name(ERR_NOT_FOUND),
		    t.n == 0  ? "It has none: action start makes one."
		    : t.r < 0 ? "Action list shows those that there are."
			      : buf_str(&hint),
		    "%s has no process %s", sandbox_id(c->base.sandbox), id);
}

/* ---- the answer about one ---- */

/* What the answer has of a stream. */
struct part {
	json_t *text; /* NULL: no memory */
	uint64_t next;
	uint64_t lost; /* bytes that are not kept any more, for a client that follows */
};

/* ROOM: bytes of an answer. */
static struct part part_of(const struct process_call *c, enum engine_stream s, size_t room)
{
	/* U+FFFD takes three bytes, for each byte that is no text. */
	_cleanup_(buf_done) struct buf b = BUF_INIT((size_t)PROCESS_OUTPUT_MAX * 3);
	const uint64_t from = c->since[s == ENGINE_STDERR];
	const size_t max = c->follows ? MIN(room, (size_t)PROCESS_OUTPUT_MAX) : PROCESS_OUTPUT_MAX;
	struct part part = {.next = from};
	uint64_t begin = from;
	bool cut; /* the text says so */

	if (process_output(c->process, s, from, max, &b, &begin, &part.next) < 0)
		return part;
	if (c->follows) {
		part.text = json_stringn_nocheck(buf_str(&b), b.len);
		part.lost = begin > from ? begin - from : 0;
		return part;
	}
	const struct run_output view = {.data = buf_str(&b),
					.len = b.len,
					.head = begin > 0 ? 0 : b.len,
					.truncated = begin > 0,
					.total = begin + b.len};
	part.text = extras_output(&view, room, &cut);
	return part;
}

/* Adds the member KEY with the number N, if it is not 0. */
static int put_count(json_t *object, const char *key, uint64_t n)
{
	return n > 0 ? json_object_set_new(object, key, json_integer((json_int_t)n)) : 0;
}

static json_t *object_of(const struct process_call *c, const struct process_facts *f)
{
	const size_t room = c->base.tools->config.result_chars;
	/* stderr has a third of the room, and what stdout leaves of it. */
	const uint64_t out_len = f->total[0] - MIN(c->since[0], f->total[0]);
	const uint64_t err_len = f->total[1] - MIN(c->since[1], f->total[1]);
	const size_t err_room = (size_t)MAX(MIN(err_len, room / 3), room - MIN(out_len, room));
	const struct part out = part_of(c, ENGINE_STDOUT, room - (size_t)MIN(err_len, err_room));
	const struct part err = part_of(c, ENGINE_STDERR, err_room);
	char next[NEXT_SIZE];
	json_t *object = facts_json(f);

	(void)snprintf(next, sizeof(next), "%ju:%ju", (uintmax_t)out.next, (uintmax_t)err.next);
	json_t *rest = json_pack("{s:s, s:o, s:o, s:s}", "session_id", sandbox_id(c->base.sandbox),
				 "stdout", out.text, "stderr", err.text, "next", next);
	const uint64_t later =
	    (f->total[0] - MIN(out.next, f->total[0])) + (f->total[1] - MIN(err.next, f->total[1]));
	if (!object || !rest || json_object_update(object, rest) < 0 ||
	    put_count(object, "stdout_lost_bytes", out.lost) < 0 ||
	    put_count(object, "stderr_lost_bytes", err.lost) < 0 ||
	    put_count(object, "later_bytes", later) < 0) {
		json_decref(object);
		object = NULL;
	}
	json_decref(rest);
	return object;
}

static json_int_t count_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static int add_stream(struct buf *b, const json_t *object, const char *key, const char *head,
		      json_int_t lost)
{
	const json_t *v = json_object_get(object, key);
	const size_t len = json_string_length(v);

	if (len == 0)
		return 0;
	int r = buf_add_str(b, head);
	if (r == 0 && lost > 0)
		r = buf_printf(b, "[%" JSON_INTEGER_FORMAT " bytes before are not kept]\n", lost);
	r = r < 0 ? r : buf_add(b, json_string_value(v), len);
	return r < 0 || json_string_value(v)[len - 1] == '\n' ? r : buf_add_char(b, '\n');
}

static int add_text(struct buf *b, const struct process_call *c, const struct process_facts *f,
		    const json_t *object)
{
	int r = buf_add_str(b, "Process ");

	r = r < 0 ? r : add_label(b, f);
	r = r < 0 ? r : buf_printf(b, ": %s%s", c->text, c->text[0] ? "; " : "");
	r = r < 0 ? r : add_state(b, f);
	r = r < 0 ? r : buf_add_str(b, ".\n");
	r = r < 0 ? r : add_stream(b, object, "stdout", "", count_of(object, "stdout_lost_bytes"));
	r = r < 0 ? r
		  : add_stream(b, object, "stderr", "stderr:\n",
			       count_of(object, "stderr_lost_bytes"));
	if (r == 0 && c->follows && count_of(object, "later_bytes") > 0)
		r = buf_printf(b, "[%" JSON_INTEGER_FORMAT " bytes more, with since]\n",
			       count_of(object, "later_bytes"));
	return r < 0 ? r
		     : buf_printf(b, "[session_id: %s, process_id: %s, next: %s]\n",
				  sandbox_id(c->base.sandbox), f->id,
				  json_string_value(json_object_get(object, "next")));
}

/* ---- ports ---- */

/* The ports that something in the sandbox listens on, for OBJECT and as lines of TEXT. */
static int add_ports(struct buf *text, const struct process_call *c, json_t *object)
{
	const struct tools_config *config = &c->base.tools->config;
	json_t *rows = c->n_ports > 0 ? json_array() : NULL;
	int r = 0;

	for (size_t i = 0; rows && r == 0 && i < c->n_ports; i++) {
		const struct engine_port *p = &c->ports[i];
		_cleanup_(buf_done) struct buf url = BUF_INIT(2 * LINE_MAX_);
		json_t *row = json_pack("{s:i}", "port", p->port);

		if (config->port_url &&
		    config->port_url(config->port_user, mcp_call_base(c->base.call),
				     sandbox_owner(c->base.sandbox), sandbox_id(c->base.sandbox),
				     p->port, &url) == 0)
			(void)json_object_set_new(row, "url", json_string(buf_str(&url)));
		r = buf_printf(text, "Port %u is listened on%s%s\n", p->port,
			       url.len > 0 ? "; for people: " : ".", buf_str(&url));
		r = r < 0 ? r : json_array_append_new(rows, row);
	}
	if (rows && json_object_set_new(object, "ports", rows) < 0)
		r = -ENOMEM;
	return r;
}

static void on_ports(const struct engine_port *ports, size_t n, const struct err *e, void *user)
{
	struct process_call *c = user;

	c->n_ports = e ? 0 : MIN(n, ARRAY_SIZE(c->ports));
	if (c->n_ports > 0)
		memcpy(c->ports, ports, c->n_ports * sizeof(ports[0]));
	c->finish(c);
}

/* Calls FINISH, when it is known which ports there are. Without that answer, too: it is only a part of another. */
static void with_ports(struct process_call *c, void (*finish)(struct process_call *c))
{
	struct err ignored = ERR_INIT;

	c->finish = finish;
	if (sandbox_list_ports(c->base.sandbox, on_ports, c, &ignored) < 0)
		finish(c);
}

void process_call_answer_now(struct process_call *c)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(TEXT_MAX);
	struct process_facts f;

	process_look(c->process, &f);
	json_t *object = object_of(c, &f);
	int r = object ? add_text(&text, c, &f, object) : 0;
	r = r < 0 || !object ? r : add_ports(&text, c, object);

	extras_finish_text(c->base.call, r < 0 ? NULL : &text, object, NULL);
	process_call_free(c);
}

void process_call_answer(struct process_call *c)
{
	struct process_facts f;

	process_look(c->process, &f);
	if (f.running)
		with_ports(c, process_call_answer_now);
	else
		process_call_answer_now(c);
}

/* ---- list ---- */

struct listing {
	json_t *rows;
	struct buf *text;
	int r;
};

static void add_row(struct process *p, void *user)
{
	struct listing *l = user;
	struct process_facts f;

	process_look(p, &f);
	if (l->r == 0 && json_array_append_new(l->rows, facts_json(&f)) < 0)
		l->r = -ENOMEM;
	const size_t whole = strlen(f.command);
	const size_t len = text_utf8_cut(f.command, whole, COMMAND_LINE);
	l->r = l->r < 0 ? l->r : buf_add_str(l->text, "- ");
	l->r = l->r < 0 ? l->r : add_label(l->text, &f);
	l->r = l->r < 0 ? l->r : buf_add_str(l->text, ": ");
	l->r = l->r < 0 ? l->r : add_state(l->text, &f);
	l->r = l->r < 0 ? l->r : buf_add_str(l->text, ": ");
	l->r = l->r < 0 ? l->r : text_add_line(l->text, f.command, len);
	l->r = l->r < 0 ? l->r : buf_add_str(l->text, len < whole ? " ...\n" : "\n");
}

static void list(struct process_call *c)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(PROCESSES_MAX * 8 * LINE_MAX_);
	struct listing l = {.rows = json_array(), .text = &text};

	sandbox_each_process(c->base.sandbox, add_row, &l);
	if (l.r == 0 && text.len == 0)
		l.r = buf_add_str(&text, "There are no background processes.\n");
	json_t *object =
	    json_pack("{s:s, s:o}", "session_id", sandbox_id(c->base.sandbox), "processes", l.rows);
	l.r = l.r < 0 || !object ? l.r : add_ports(&text, c, object);
	l.r = l.r < 0 ? l.r : buf_printf(&text, "[session_id: %s]\n", sandbox_id(c->base.sandbox));
	extras_finish_text(c->base.call, l.r < 0 ? NULL : &text, object, NULL);
	process_call_free(c);
}

void process_call_list(struct process_call *c)
{
	with_ports(c, list);
}
