/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp_talk.h"

#include "base/buf.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

int64_t talk_now_ms = INT64_C(1700000000000);
int64_t talk_tick_ms = 1000;

long talk_fail_at = -1;
static unsigned n_inside; /* messages being handled; the test's own work does not count */
static long n_allocations;

static void *allocate(size_t size)
{
	n_allocations++;
	if (n_inside == 1 && talk_fail_at >= 0 && talk_fail_at-- == 0)
		return NULL;
	return malloc(size);
}

/* jansson 2.14 does not survive a failure inside of its own parser, so failures begin after it. */
static void spare_parser(const char *text, size_t len)
{
	long before = n_allocations;

	json_decref(json_loadb(text, len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL));
	if (talk_fail_at >= 0)
		talk_fail_at += n_allocations - before;
}

struct talk_sink {
	struct mcp_sink sink;
	struct talk *talk;
};

static int64_t now_ms(void)
{
	return talk_now_ms;
}

static int64_t tick_ms(void)
{
	return talk_tick_ms;
}

static json_t *parse(const char *json, size_t len)
{
	json_t *v;

	n_inside++;
	v = json_loadb(json, len, JSON_ALLOW_NUL, NULL);
	n_inside--;
	assert_non_null(v);
	assert_null(memchr(json, '\n', len));
	return v;
}

static void on_send(struct mcp_sink *sink, enum mcp_out kind, char *json, size_t len)
{
	struct talk_sink *s = (struct talk_sink *)(void *)sink;

	(void)kind;
	json_array_append_new(s->talk->sent, parse(json, len));
	free(json);
}

static void forget(struct talk *t, struct mcp_sink *sink)
{
	unsigned i = 0;

	while (i < t->n_open && t->open[i] != sink)
		i++;
	assert_true(i < t->n_open);
	t->n_open--;
	memmove(&t->open[i], &t->open[i + 1], (t->n_open - i) * sizeof(t->open[0]));
	free(sink);
}

static void on_finish(struct mcp_sink *sink, unsigned status, char *json, size_t len)
{
	struct talk_sink *s = (struct talk_sink *)(void *)sink;
	struct talk *t = s->talk;

	json_decref(t->answer);
	t->answer = json ? parse(json, len) : NULL;
	t->status = status;
	t->n_finished++;
	free(json);
	forget(t, sink);
}

static bool on_congested(struct mcp_sink *sink)
{
	return ((struct talk_sink *)(void *)sink)->talk->congested;
}

static void on_peer_send(struct mcp_peer *peer, enum mcp_out kind, char *json, size_t len)
{
	struct talk *t = mcp_peer_user(peer);

	(void)kind;
	json_array_append_new(t->sent, parse(json, len));
	free(json);
}

static const struct mcp_sink_ops sink_ops = {
    .send = on_send,
    .finish = on_finish,
    .congested = on_congested,
};
static const struct mcp_peer_ops peer_ops = {.send = on_peer_send};

/* ---- what the server has ---- */

static void tool_echo(struct mcp_call *call, json_t *args, void *user)
{
	char *text = json_dumps(args, JSON_COMPACT);

	(void)user;
	mcp_call_finish(
	    call, mcp_tool_result(mcp_blocks(1, mcp_textf("%s", text)), json_incref(args), false));
	free(text);
}

static void on_cancel(struct mcp_call *call, void *user)
{
	struct talk *t = user;

	for (unsigned i = 0; i < t->n_held; i++) {
		if (t->held[i] == call)
			t->held[i] = t->held[--t->n_held];
	}
	t->n_cancelled++;
	mcp_call_finish(call, NULL);
}

static void tool_hold(struct mcp_call *call, json_t *args, void *user)
{
	struct talk *t = user;

	if (json_is_true(json_object_get(args, "task")))
		(void)mcp_call_become_task(call, 100, 1000, "holding");
	assert_true(t->n_held < TALK_HELD_MAX);
	t->held[t->n_held++] = call;
	mcp_call_on_cancel(call, on_cancel, t);
}

/* Asks for a name, then for a colour. */
static void tool_ask(struct mcp_call *call, json_t *args, void *user)
{
	json_t *name = json_object_get(mcp_call_input(call, "name"), "content");
	json_t *colour = json_object_get(mcp_call_input(call, "colour"), "content");
	struct mcp_input input = {"name", "elicitation/create", NULL};

	(void)user;
	if (name && colour) {
		mcp_call_finish(
		    call,
		    mcp_tool_result(json_array(),
				    json_pack("{s:O,s:O}", "name", name, "colour", colour), false));
		return;
	}
	if (json_is_true(json_object_get(args, "task")) && !mcp_call_is_task(call))
		(void)mcp_call_become_task(call, 0, 1000, NULL);
	input.key = name ? "colour" : "name";
	input.params = json_pack("{s:s}", "message", input.key);
	mcp_call_need_input(call, &input, 1, json_pack("[i]", name ? 2 : 1));
}

static void tool_length(struct mcp_call *call, json_t *args, void *user)
{
	struct mcp_text_ref ref;
	unsigned sum = 0;
	char c;

	(void)user;
	assert_int_equal(mcp_call_text(call, json_object_get(args, "text"), &ref), 0);
	for (size_t i = 0; i < ref.len; i++) {
		if (ref.text)
			c = ref.text[i];
		else
			assert_int_equal(pread(ref.fd, &c, 1, (off_t)(ref.off + i)), 1);
		sum = sum * 31 + (unsigned char)c;
	}
	mcp_call_finish(call,
			mcp_tool_result(json_array(),
					json_pack("{s:I,s:I,s:b}", "len", (json_int_t)ref.len,
						  "sum", (json_int_t)sum, "spilled", ref.fd >= 0),
					false));
}

static void read_it(struct mcp_call *call, const char *uri, void *user)
{
	(void)user;
	mcp_call_finish(
	    call, mcp_resource_result(mcp_blocks(1, mcp_resource_text(uri, NULL, "text", 4))));
}

static void get_prompt(struct mcp_call *call, json_t *args, void *user)
{
	(void)user;
	mcp_call_finish(
	    call,
	    mcp_prompt_result(
		NULL,
		mcp_blocks(1, mcp_prompt_message(
				  "user", mcp_textf("%s", mcp_text_arg(call, args, "topic"))))));
}

static void add_all(struct talk *t)
{
	const struct mcp_tool tools[] = {
	    {.name = "echo",
	     .description = "Echoes",
	     .title = "Echo",
	     .icons = "[{\"src\":\"https://example.org/i.png\"}]",
	     .annotations = "{\"readOnlyHint\":true}",
	     .output_schema = "{\"type\":\"object\"}",
	     .input_schema = "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\","
			     "\"minimum\":1},\"s\":{\"type\":\"string\",\"maxLength\":3,"
			     "\"x-mcp-header\":\"S\"}},\"required\":[\"n\"],"
			     "\"additionalProperties\":false}",
	     .call = tool_echo},
	    {.name = "hold", .input_schema = "{\"type\":\"object\"}", .call = tool_hold, .user = t},
	    {.name = "ask", .input_schema = "{\"type\":\"object\"}", .call = tool_ask},
	    {.name = "length", .input_schema = "{\"type\":\"object\"}", .call = tool_length},
	    {.name = "sampler", .call = tool_echo, .needs = "{\"sampling\":{}}"},
	    {.name = "background",
	     .input_schema = "{\"type\":\"object\"}",
	     .call = tool_hold,
	     .flags = MCP_TOOL_NEEDS_TASK,
	     .user = t},
	};
	const struct mcp_resource resource = {.uri = "x://one", .name = "one", .read = read_it};
	const struct mcp_resource tmpl = {.uri = "x://t/{id}", .name = "t", .read = read_it};
	const struct mcp_prompt_arg arg = {.name = "topic", .required = true};
	const struct mcp_prompt prompt = {
	    .name = "p", .description = "d", .args = &arg, .n_args = 1, .get = get_prompt};
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
		assert_int_equal(mcp_server_add_tool(t->server, &tools[i], &e), 0);
	assert_int_equal(mcp_server_add_resource(t->server, &resource, &e), 0);
	assert_int_equal(mcp_server_add_template(t->server, &tmpl, &e), 0);
	assert_int_equal(mcp_server_add_prompt(t->server, &prompt, &e), 0);
}

/* ---- talking ---- */

static void connect_peer(struct talk *t, enum mcp_transport transport, const char *principal)
{
	t->peer = mcp_peer_new(t->server, &(struct mcp_peer_config){
					      .transport = transport,
					      .ops = &peer_ops,
					      .user = t,
					      .principal = principal,
					  });
	assert_non_null(t->peer);
}

void talk_open(struct talk *t, enum mcp_transport transport, unsigned offers)
{
	struct budgets *budgets = budgets_new(&(struct budgets_config){0});
	const struct mcp_server_config config = {
	    .name = "test",
	    .version = "1",
	    .instructions = "Be good.",
	    .offers = offers,
	    .now_ms = now_ms,
	    .tick_ms = tick_ms,
	    .page_size = 4,
	    .max_calls = 6,
	    .budgets = budgets,
	    .state_ttl_s = 60,
	    .ask_timeout_s = 60,
	};
	struct err e = ERR_INIT;

	json_set_alloc_funcs(allocate, free);
	assert_non_null(budgets);
	budgets_set(budgets, BUDGET_TASKS, &(struct budget_bounds){.total = 3});
	*t = (struct talk){.sent = json_array(), .budgets = budgets};
	t->server = mcp_server_new(&config, &e);
	assert_non_null(t->server);
	add_all(t);
	connect_peer(t, transport, NULL);
	t->reader = mcp_reader_new(NULL);
	assert_non_null(t->reader);
}

static void disconnect(struct talk *t)
{
	mcp_peer_close(t->peer);
	while (t->n_open > 0)
		forget(t, t->open[0]);
}

void talk_gone(struct talk *t)
{
	struct mcp_sink *sink = t->open[t->n_open - 1];

	mcp_sink_gone(t->peer, sink);
	forget(t, sink);
}

void talk_reconnect(struct talk *t, enum mcp_transport transport, const char *principal)
{
	disconnect(t);
	connect_peer(t, transport, principal);
}

void talk_close(struct talk *t)
{
	disconnect(t);
	mcp_reader_free(t->reader);
	mcp_server_free(t->server);
	t->budgets = budgets_free(t->budgets);
	json_decref(t->sent);
	json_decref(t->answer);
}

void talk_say_n(struct talk *t, const struct mcp_http_facts *facts, const char *text, size_t len)
{
	struct talk_sink *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->sink.ops = &sink_ops;
	s->talk = t;
	json_array_clear(t->sent);
	json_decref(t->answer);
	t->answer = NULL;
	t->status = 0;
	t->n_finished = 0;
	assert_true(t->n_open < TALK_OPEN_MAX);
	t->open[t->n_open++] = &s->sink;
	(void)mcp_reader_feed(t->reader, text, len);
	spare_parser(text, len);
	n_inside++;
	mcp_peer_receive(t->peer, t->reader, facts, &s->sink);
	n_inside--;
}

void talk_say(struct talk *t, const char *text)
{
	talk_say_n(t, NULL, text, strlen(text));
}

void talk_modern(struct talk *t, const char *method, const char *params, const char *caps)
{
	static unsigned id;
	struct buf b = BUF_INIT(1 << 20);

	assert_int_equal(
	    buf_printf(&b,
		       "{\"jsonrpc\":\"2.0\",\"id\":\"m%u\",\"method\":\"%s\",\"params\":{%s%s"
		       "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
		       "\"io.modelcontextprotocol/clientCapabilities\":%s,"
		       "\"progressToken\":7}}}",
		       ++id, method, params, *params ? "," : "", caps),
	    0);
	talk_say(t, buf_str(&b));
	buf_done(&b);
}

void talk_handshake(struct talk *t, const char *revision, const char *caps)
{
	char text[512];

	assert_true((size_t)snprintf(text, sizeof(text),
				     "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\","
				     "\"params\":{\"protocolVersion\":\"%s\",\"capabilities\":%s,"
				     "\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}",
				     revision, caps) < sizeof(text));
	talk_say(t, text);
	assert_has(t->answer, "{\"id\":0,\"result\":{\"serverInfo\":{\"name\":\"test\"}}}");
	talk_say(t, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
	assert_null(t->answer);
}

static bool has(const json_t *actual, const json_t *want)
{
	const char *key;
	json_t *value;
	size_t i;

	if (json_is_string(want) && streq(json_string_value(want), "*"))
		return actual != NULL;
	if (json_is_object(want)) {
		json_object_foreach((json_t *)(uintptr_t)want, key, value) {
			if (!has(json_object_get(actual, key), value))
				return false;
		}
		return json_is_object(actual);
	}
	if (json_is_array(want)) {
		if (json_array_size(actual) != json_array_size(want) || !json_is_array(actual))
			return false;
		json_array_foreach(want, i, value) {
			if (!has(json_array_get(actual, i), value))
				return false;
		}
		return true;
	}
	return json_equal(actual, want);
}

bool talk_has(const json_t *actual, const char *want)
{
	json_t *w = json_loads(want, JSON_DECODE_ANY, NULL);
	bool ok;

	if (!w)
		fail_msg("bad pattern: %s", want);
	ok = has(actual, w);
	json_decref(w);
	return ok;
}
