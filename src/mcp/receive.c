/* SPDX-License-Identifier: Apache-2.0 */
/* From a message to its method.
 *
 * The message alone decides its era: if its params._meta names a protocol version, it claims to be
 * modern; every other message is legacy (a header that contradicts is an error). So one connection
 * may carry both eras, and what we learned in one era is never used in the other. */
#include "mcp/objects.h"

#include "base/loop.h"

#define COUNTED_MIN 4096U /* bytes; a smaller message is not counted while it is at work */

/* ---- a message ---- */

enum message_kind {
	KIND_REQUEST,
	KIND_NOTIFICATION,
	KIND_RESPONSE,
	KIND_INVALID,
};

/* The result of looking at one message; all pointers are borrowed. */
struct incoming {
	struct mcp_peer *peer;
	enum message_kind kind;
	json_t *root;
	json_t *id;         /* string or number (exact.h), or NULL */
	const char *method; /* requests and notifications */
	const char *why;    /* KIND_INVALID */
	bool claims;        /* params._meta names a protocol version */
	struct spill *spill;
	size_t size; /* bytes of memory of the whole message */
	const struct mcp_http_facts *facts;
	struct mcp_sink *sink;
	struct batch *batch;
};

/* The call in flight that has this id, with the same JSON type. */
static struct mcp_call *find_call(struct mcp_peer *p, const json_t *id)
{
	list_for_each(node, &p->calls) {
		struct mcp_call *c = list_entry(node, struct mcp_call, node);

		if (!c->cancelled && json_equal(c->id, id))
			return c;
	}
	return NULL;
}

/* A client of HTTP+SSE waits for an event with the id of its request, whatever its POST says. If a
 * call with this id is in flight, the POST fails all the same: the event would end that call. */
static unsigned refusal_status(struct mcp_peer *p, unsigned status, const json_t *id)
{
	return peer_refuses_on_stream(p) && id && !find_call(p, id) ? 200 : status;
}

/* DATA: owned, or NULL. */
static void refuse(struct mcp_sink *sink, unsigned status, const json_t *id, int code,
		   const char *why, json_t *data)
{
	size_t len;
	char *text = wire_error(id, code, why, data, &len);

	sink->ops->finish(sink, status, text, len);
}

/* Refuses one message, which may be an element of a batch. */
static void refuse_message(const struct incoming *in, unsigned status, int code, const char *why)
{
	const bool request = json_object_get(in->root, "method") != NULL;
	size_t len;
	char *text;

	if (!in->batch) {
		refuse(in->sink, refusal_status(in->peer, status, request ? in->id : NULL), in->id,
		       code, why, NULL);
		return;
	}
	text = wire_error(in->id, code, why, NULL, &len);
	in->batch->failed = in->batch->failed || !text;
	batch_add(in->batch, text, len);
}

static void accept_silently(const struct incoming *in)
{
	if (!in->batch)
		in->sink->ops->finish(in->sink, 202, NULL, 0);
}

static enum message_kind invalid(struct incoming *in, const char *why)
{
	in->why = why;
	return KIND_INVALID;
}

static enum message_kind look_at(struct incoming *in)
{
	const char *version = json_string_value(json_object_get(in->root, "jsonrpc"));
	json_t *id = json_object_get(in->root, "id");
	json_t *method = json_object_get(in->root, "method");
	json_t *params = json_object_get(in->root, "params");
	bool answers = json_object_get(in->root, "result") || json_object_get(in->root, "error");

	if (!json_is_object(in->root))
		return invalid(in, "A message must be an object");
	if ((json_is_string(id) || json_is_integer(id)) && !spill_is_in(in->spill, id))
		in->id = id;
	if (!version || !streq(version, "2.0"))
		return invalid(in, "jsonrpc must be \"2.0\"");
	if (id && !in->id)
		return invalid(in, "id must be a string or a number, and short");
	if (!method && answers)
		return in->id ? KIND_RESPONSE : invalid(in, "A response without id");
	if (!json_is_string(method) || answers)
		return invalid(in, "method must be a string");
	in->method = json_string_value(method);
	if (strlen(in->method) != json_string_length(method) ||
	    json_string_length(method) > NAME_MAX_BYTES)
		return invalid(in, "method is not a name");
	if (json_means_none(params)) {
		json_object_del(in->root, "params");
		params = NULL;
	} else if (params && !json_is_object(params)) {
		return invalid(in, "params must be an object");
	}
	in->claims = json_object_get(json_object_get(params, "_meta"), META_VERSION) != NULL;
	return id ? KIND_REQUEST : KIND_NOTIFICATION;
}

static void notification(struct mcp_peer *p, const struct incoming *in)
{
	const json_t *id = json_object_get(json_object_get(in->root, "params"), "requestId");
	struct mcp_call *c;

	/* We act on no other notification. */
	if (!streq(in->method, "notifications/cancelled") || !id)
		return;
	/* Modern HTTP clients cancel a call by closing its stream; the notification is for stdio.
	 */
	if (in->claims && p->transport == MCP_TRANSPORT_HTTP)
		return;
	c = find_call(p, id);
	/* A read-only key of the same user must not end what a full key began in this session. */
	if (c && identity_may(p->server, p->who, c->item))
		call_cancel(c);
}

static bool start_call(struct mcp_peer *p, const struct incoming *in, enum mcp_era era,
		       struct mcp_call **ret)
{
	bool own_stream = p->transport == MCP_TRANSPORT_HTTP && era == MCP_ERA_MODERN;
	struct mcp_call *c;

	/* A modern HTTP request is identified by its stream, not by its id. */
	if (!own_stream && find_call(p, in->id)) {
		refuse_message(in, 400, MCP_ERR_REQUEST, "A request with this id is in flight");
		return false;
	}
	if (p->n_calls >= p->server->config.max_calls) {
		refuse_message(in, 200, MCP_ERR_INTERNAL, "Too many requests in flight");
		return false;
	}
	c = call_new(p, in->root, era);
	if (!c) {
		refuse_message(in, 200, MCP_ERR_INTERNAL, "Out of memory");
		return false;
	}
	c->sink = in->sink;
	c->facts = in->facts;
	c->spill = in->spill ? spill_ref(in->spill) : NULL;
	/* The calls of a batch keep the message together; each is counted for its part. */
	if (in->size >= COUNTED_MIN)
		budget_note(p->server->config.budgets, c->who->principal, BUDGET_MESSAGE_MEMORY,
			    in->size, &c->memory);
	if (in->batch) {
		c->batch = in->batch;
		in->batch->refs++;
		in->batch->waiting++;
	}
	*ret = c;
	return true;
}

static void run(struct mcp_call *c, const struct method *m)
{
	mcp_call_ref(c);
	c->method = m;
	loop_work("method", m->name);
	c->checking = false;
	if (!identity_may_ask(c->server, c->who, m->name))
		call_fail(c, MCP_ERR_PARAMS, NULL, "The key of this client may not do %s", m->name);
	else
		m->run(c);
	c->facts = NULL;
	mcp_call_unref(c);
}

static void modern_request(struct mcp_peer *p, const struct incoming *in)
{
	struct mcp_call *c;

	if (start_call(p, in, MCP_ERA_MODERN, &c) && modern_check(c, in->method, in->facts))
		run(c, c->method);
}

/* Checks the rules of legacy HTTP sessions. False: it has answered. */
static bool session_ok(struct mcp_peer *p, const struct incoming *in)
{
	bool begins = in->kind == KIND_REQUEST && streq(in->method, "initialize");

	if (!in->facts)
		return true;
	switch (in->facts->session) {
	case MCP_SESSION_UNKNOWN:
		if (begins) /* a client that starts again may still send its old header */
			return true;
		refuse_message(in, 404, MCP_ERR_SESSION, "Session not found");
		return false;
	case MCP_SESSION_ABSENT:
		if (begins)
			return true;
		refuse_message(in, 400, MCP_ERR_BAD_HTTP,
			       "Mcp-Session-Id header is required; send initialize first");
		return false;
	case MCP_SESSION_KNOWN:
		if (!begins || !p->session)
			return true;
		refuse_message(in, 400, MCP_ERR_REQUEST, "The session is initialized already");
		return false;
	}
	return false;
}

static void legacy_request(struct mcp_peer *p, const struct incoming *in)
{
	const struct method *m = method_find(p->server, in->method, MCP_ERA_LEGACY);
	struct mcp_call *c;

	if (m && (m->flags & METHOD_ALONE) && in->batch) {
		refuse_message(in, 400, MCP_ERR_REQUEST, "initialize must not be in a batch");
		return;
	}
	if (!start_call(p, in, MCP_ERA_LEGACY, &c))
		return;
	if (m)
		run(c, m);
	else if (streq(in->method, "server/discover"))
		/* Clients send this modern method first, to find out what we speak. */
		call_fail(c, MCP_ERR_PARAMS, NULL, "_meta must have %s", META_VERSION);
	else
		call_fail(c, MCP_ERR_METHOD, NULL, "Method not found");
}

static size_t trimmed(const char **s)
{
	size_t len;

	*s += strspn(*s, " \t");
	len = strlen(*s);
	while (len > 0 && strchr(" \t", (*s)[len - 1]))
		len--;
	return len;
}

static enum version_claim header_version(const struct mcp_http_facts *facts)
{
	const char *v = facts ? facts->protocol_version : NULL;
	size_t len;

	if (!v)
		return VERSION_ABSENT;
	len = trimmed(&v);
	return len == 0 ? VERSION_ABSENT : version_classify(v, len);
}

bool mcp_version_is_modern(const char *header)
{
	const struct mcp_http_facts facts = {.protocol_version = header};

	return header_version(&facts) == VERSION_MODERN;
}

/* Refuses a message that does not claim to be modern if its header does. False: it has answered. */
static bool header_allows_legacy(const struct incoming *in)
{
	enum version_claim v = header_version(in->facts);

	/* The parameters of initialize negotiate the version, whatever the header says. */
	if (in->kind == KIND_REQUEST && streq(in->method, "initialize"))
		return true;
	if (v == VERSION_UNKNOWN) {
		refuse_message(in, 400, MCP_ERR_BAD_HTTP, "Unsupported MCP-Protocol-Version");
		return false;
	}
	if (v != VERSION_MODERN || in->kind == KIND_NOTIFICATION)
		return true;
	if (in->kind == KIND_RESPONSE)
		refuse_message(in, 400, MCP_ERR_REQUEST, "Clients send no responses");
	else
		refuse_message(in, 400, MCP_ERR_PARAMS, "params._meta must have " META_VERSION);
	return false;
}

static void receive_one(struct mcp_peer *p, struct incoming *in)
{
	in->kind = look_at(in);
	if (in->kind == KIND_INVALID) {
		refuse_message(in, 400, MCP_ERR_REQUEST, in->why);
		return;
	}
	if (in->claims && in->kind == KIND_REQUEST) {
		modern_request(p, in);
		return;
	}
	if (in->claims ||
	    (in->kind == KIND_NOTIFICATION && header_version(in->facts) == VERSION_MODERN)) {
		notification(p, in);
		accept_silently(in);
		return;
	}
	if (!header_allows_legacy(in) || !session_ok(p, in))
		return;
	switch (in->kind) {
	case KIND_REQUEST:
		legacy_request(p, in);
		return;
	case KIND_NOTIFICATION:
		notification(p, in);
		break;
	case KIND_RESPONSE:
		ask_answer(p, in->root, in->spill);
		break;
	case KIND_INVALID:
		break;
	}
	accept_silently(in);
}

static const char *batch_fault(const struct mcp_peer *p, const json_t *array)
{
	const json_t *element;
	size_t i;

	json_array_foreach(array, i, element) {
		const json_t *params = json_object_get(element, "params");

		if (json_object_get(json_object_get(params, "_meta"), META_VERSION))
			return "A modern request must not be in a batch";
	}
	if (p->revision == MCP_REV_NONE)
		return "Send initialize first, by itself: whether batches exist depends on the "
		       "revision";
	if (p->revision != MCP_REV_2025_03_26)
		return "Batches exist in revision 2025-03-26 alone";
	if (json_array_size(array) == 0)
		return "The batch is empty";
	if (json_array_size(array) > BATCH_MAX)
		return "The batch is too long";
	return NULL;
}

static void receive_batch(struct mcp_peer *p, struct incoming *in)
{
	json_t *array = in->root;
	const char *why = batch_fault(p, array);
	struct batch *b;
	json_t *element;
	size_t i;

	if (why) {
		refuse(in->sink, 400, NULL, MCP_ERR_REQUEST, why, NULL);
		return;
	}
	b = calloc(1, sizeof(*b));
	if (!b) {
		refuse(in->sink, 200, NULL, MCP_ERR_INTERNAL, "Out of memory", NULL);
		return;
	}
	b->refs = 1;
	b->sink = in->sink;
	b->peer = p;
	list_init(&b->joining);
	json_array_foreach(array, i, element) {
		struct incoming one = *in;

		one.root = element;
		one.size = in->size / json_array_size(array);
		one.batch = b;
		if (b->sink)
			receive_one(p, &one);
	}
	b->sealed = true;
	batch_flush(b);
	batch_unref(b);
}

/* The answers to messages that could not even be read. */
static const struct {
	unsigned status;
	int code;
	const char *why; /* NULL: the reader has a better text */
} faults[] = {
    [MESSAGE_TOO_LARGE] = {413, MCP_ERR_REQUEST, "The message is too large"},
    [MESSAGE_NOT_JSON] = {400, MCP_ERR_PARSE, NULL},
    [MESSAGE_INVALID] = {400, MCP_ERR_REQUEST, NULL},
    [MESSAGE_NO_MEMORY] = {503, MCP_ERR_INTERNAL, "Out of memory"},
    [MESSAGE_OVER_BUDGET] = {429, MCP_ERR_BUDGET,
			     "Your unfinished messages hold as much memory as they may have; try "
			     "again in some seconds"},
};

void mcp_peer_receive(struct mcp_peer *p, struct mcp_reader *reader,
		      const struct mcp_http_facts *facts, struct mcp_sink *sink)
{
	struct incoming in = {.peer = p, .facts = facts, .sink = sink};
	struct message message;
	enum message_fault fault;

	ASSERT(!p->closed);
	fault = reader_take(reader, &message);
	if (fault != MESSAGE_OK) {
		json_t *data =
		    fault == MESSAGE_OVER_BUDGET ? budget_data(BUDGET_MESSAGE_MEMORY) : NULL;

		refuse(sink, refusal_status(p, faults[fault].status, message.id), message.id,
		       faults[fault].code, faults[fault].why ? faults[fault].why : message.why,
		       data);
		json_decref(message.id);
		return;
	}
	in.root = message.root;
	in.spill = message.spill;
	in.size = message.size;
	p->refs++; /* the transport may close the peer from inside finish() */
	if (json_is_array(in.root))
		receive_batch(p, &in);
	else
		receive_one(p, &in);
	json_decref(in.root);
	spill_unref(in.spill);
	peer_unref(p);
}
