/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: framing and keep-alive.
 * https://html.spec.whatwg.org/multipage/server-sent-events.html */
#include "transport/http_session.h"

#include "base/rand.h"

#include <stdio.h>
#include <string.h>

static void plan_keepalive(struct sse *s, uint64_t from_ns)
{
	s->due_ns = from_ns + s->t->cfg.keepalive_ns;
	list_remove(&s->node);
	list_append(&s->t->streams, &s->node);
}

bool sse_open(struct sse *s, struct transport_http *t, struct http_request *req,
	      const struct http_stream_ops *ops, void *userdata)
{
	*s = (struct sse){.t = t};
	list_init(&s->node);
	s->http = http_stream_begin_sse(req, ops, userdata);
	if (!s->http)
		return false;
	t->counts.streams++;
	plan_keepalive(s, now_ns());
	return true;
}

void sse_forget(struct sse *s)
{
	if (!s->http)
		return;
	s->http = NULL;
	budget_give(&s->place);
	list_remove(&s->node);
	s->t->counts.streams--;
}

void sse_end(struct sse *s)
{
	struct http_stream *http = s->http;

	sse_forget(s);
	if (http)
		http_stream_end(http);
}

void sse_abort(struct sse *s)
{
	struct http_stream *http = s->http;

	sse_forget(s);
	if (http)
		http_stream_abort(http);
}

int sse_raw(struct sse *s, const char *text, size_t len)
{
	return http_stream_write(s->http, text, len);
}

int sse_message(struct sse *s, const char *id, struct shared_bytes *json)
{
	char head[EVENT_ID_SIZE + 40];
	const int n = snprintf(head, sizeof(head), "%s%s%sevent: message\ndata: ", id ? "id: " : "",
			       id ? id : "", id ? "\n" : "");

	return http_stream_write_shared(s->http, head, (size_t)n, json, "\n\n", 2);
}

void sse_tick(struct transport_http *t, uint64_t now)
{
	static const char comment[] = ": keepalive\n\n";

	while (!list_is_empty(&t->streams)) {
		struct sse *s = list_entry(t->streams.next, struct sse, node);
		const uint64_t last = http_stream_last_write_ns(s->http);

		if (s->due_ns > now)
			break;
		if (last + t->cfg.keepalive_ns > now) {
			plan_keepalive(s, last);
			continue;
		}
		/* If the queue is full this fails. That is fine: the stall timer of the connection
		 * watches it. */
		(void)!sse_raw(s, comment, sizeof(comment) - 1);
		plan_keepalive(s, now);
	}
}
