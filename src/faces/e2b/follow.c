/* SPDX-License-Identifier: Apache-2.0 */
/* envd: a client follows a process. It is sent all of the output, so the process waits for the slowest of its clients. */
#include "faces/e2b/face.h"

#include "base/base64.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SLICE        (24u << 10) /* bytes of output in one message; a multiple of three */
#define KEEPALIVE_NS (30 * NS_PER_S)
#define KEEPALIVE    "{\"event\":{\"keepalive\":{}}}"
#define HEAD_MAX     64u

/* ---- a client that follows a process ---- */

struct following {
	struct http_stream *stream;
	struct process *process; /* reference */
	struct process_watch watch;
	struct e2b_sandbox *sandbox; /* reference */
	struct e2b_stream of;
	struct budget_share share;
	sd_event_source *keepalive;
	bool told; /* its number */
};

static void following_free(struct following *f)
{
	list_remove(&f->of.node);
	process_unwatch(&f->watch);
	process_pace(f->process);
	(void)sd_event_source_disable_unref(f->keepalive);
	budget_give(&f->share);
	(void)process_unref(f->process);
	(void)e2b_sandbox_unref(f->sandbox);
	free(f);
}

static void on_close(void *user)
{
	following_free(user);
}

static void on_cut(struct e2b_stream *st, bool ended UNUSED)
{
	struct following *f = CONTAINER_OF(st, struct following, of);

	http_stream_abort(f->stream);
	following_free(f);
}

static void on_news(struct process_watch *w)
{
	http_stream_ask(CONTAINER_OF(w, struct following, watch)->stream);
}

/* Ends the stream; E: with an error. */
static void finish(struct following *f, const struct err *e)
{
	struct http_stream *st = f->stream;

	following_free(f);
	e2b_stream_finish(st, e);
}

/* False: F is gone. */
static bool send(struct following *f, const char *text, size_t len)
{
	if (e2b_send_frame(f->stream, false, text, len) == 0)
		return true;
	http_stream_abort(f->stream);
	following_free(f);
	return false;
}

static bool send_start(struct following *f, const struct process_facts *facts)
{
	char text[HEAD_MAX];
	const int n =
	    snprintf(text, sizeof(text), "{\"event\":{\"start\":{\"pid\":%u}}}", e2b_pid(facts));

	f->told = true;
	return send(f, text, (size_t)n);
}

/* Sends a piece of what is in the stream S (0 or 1). 1: sent; 0: there is nothing; -1: F is gone. */
static int send_output(struct following *f, unsigned s, const char *name)
{
	static const char tail[] = "\"}}}";
	uint8_t bytes[SLICE];
	char text[HEAD_MAX + BASE64_ENCODED_LEN(SLICE) + sizeof(tail)];
	struct err e = ERR_INIT;
	uint64_t from;
	const size_t n = process_bytes(f->process, s == 0 ? ENGINE_STDOUT : ENGINE_STDERR,
				       f->watch.at[s], sizeof(bytes), (char *)bytes, &from);

	if (from > f->watch.at[s]) {
		(void)err_set(&e, ERR_BUDGET_EXCEEDED, 0,
			      "%ju bytes of output are lost, because too much output of yours is "
			      "kept",
			      (uintmax_t)(from - f->watch.at[s]));
		finish(f, &e);
		return -1;
	}
	if (n == 0)
		return 0;
	f->watch.at[s] = from + n;
	size_t len = (size_t)snprintf(text, HEAD_MAX, "{\"event\":{\"data\":{\"%s\":\"", name);
	base64_encode(bytes, n, text + len);
	len += BASE64_ENCODED_LEN(n);
	memcpy(text + len, tail, sizeof(tail) - 1);
	if (!send(f, text, len + sizeof(tail) - 1))
		return -1;
	process_pace(f->process);
	return 1;
}

/* How Go, in which envd is written, says how a process ended. */
static bool send_end(struct following *f, const struct process_facts *facts)
{
	char text[2 * HEAD_MAX];
	int n;

	if (facts->reason == RUN_EXITED)
		n = snprintf(text, sizeof(text),
			     "{\"event\":{\"end\":{\"exitCode\":%d,\"exited\":true,\"status\":"
			     "\"exit status %d\"}}}",
			     facts->exit_code, facts->exit_code);
	else
		n = snprintf(text, sizeof(text),
			     "{\"event\":{\"end\":{\"exitCode\":-1,\"exited\":false,\"status\":"
			     "\"signal: %s\",\"error\":\"signal: %s\"}}}",
			     facts->signal == SIGTERM ? "terminated" : "killed",
			     facts->signal == SIGTERM ? "terminated" : "killed");
	return send(f, text, (size_t)n);
}

static void send_rest(struct following *f, const struct process_facts *facts)
{
	struct err e = ERR_INIT;

	if (facts->failure.code != ERR_NONE)
		(void)err_set(
		    &e, facts->failure.errnum != 0 ? ERR_INVALID_ARGUMENT : facts->failure.code, 0,
		    "%s", facts->failure.text);
	else if (facts->reason == RUN_TIMEOUT)
		(void)err_set(&e, ERR_TIMEOUT, 0, "the command took longer than its timeout");
	else if (!send_end(f, facts))
		return;
	finish(f, e.code != ERR_NONE ? &e : NULL);
}

static bool on_room(void *user)
{
	struct following *f = user;
	struct process_facts facts;
	int r;

	process_look(f->process, &facts);
	if (!f->told && facts.failure.code == ERR_NONE)
		return send_start(f, &facts);
	r = send_output(f, 0, facts.rows > 0 ? "pty" : "stdout");
	if (r == 0)
		r = send_output(f, 1, "stderr");
	if (r != 0)
		return r > 0;
	if (facts.running)
		return false;
	send_rest(f, &facts);
	return false;
}

static int on_keepalive(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct following *f = user;

	loop_work("timer", "stream of E2B");
	if (http_stream_last_write_ns(f->stream) + KEEPALIVE_NS <= now_ns() &&
	    !send(f, KEEPALIVE, sizeof(KEEPALIVE) - 1))
		return 0;
	(void)sd_event_source_set_time_relative(source, KEEPALIVE_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static struct following *following_new(const struct e2b_call *c, struct process *p, struct err *e)
{
	struct following *f = calloc(1, sizeof(*f));

	if (!f) {
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a stream");
		return NULL;
	}
	if (budget_take(c->face->config.budgets, c->who->owner, BUDGET_FOLLOWERS, 1, &f->share, e) <
	    0) {
		free(f);
		return NULL;
	}
	f->process = process_ref(p);
	f->sandbox = e2b_sandbox_ref(c->sandbox);
	f->watch.fn = on_news;
	f->watch.paced = true;
	list_init(&f->watch.node);
	f->of.cut = on_cut;
	list_init(&f->of.node);
	return f;
}

int e2b_follow(struct e2b_call *c, struct process *p, bool from_now, struct err *e)
{
	struct following *f = following_new(c, p, e);
	struct process_facts facts;

	if (!f)
		return -EDQUOT;
	process_look(p, &facts);
	for (size_t i = 0; from_now && i < ARRAY_SIZE(f->watch.at); i++)
		f->watch.at[i] = facts.total[i];
	static const struct http_stream_ops ops = {.on_close = on_close, .on_room = on_room};
	sd_event *loop = c->face->config.loop;
	struct http_request *req = e2b_give(c);

	if (req)
		(void)http_add_header(req, "X-Accel-Buffering", "no");
	f->stream = req ? http_stream_begin(req, 200, "application/connect+json", &ops, f) : NULL;
	if (!f->stream) {
		following_free(f);
		return 0;
	}
	list_append(&f->sandbox->streams, &f->of.node);
	process_watch(f->process, &f->watch);
	(void)sd_event_add_time_relative(loop, &f->keepalive, CLOCK_MONOTONIC,
					 KEEPALIVE_NS / NS_PER_US, 0, on_keepalive, f);
	return 0;
}
