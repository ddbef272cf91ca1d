/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the sandboxes of this face: from the request that makes one until its time is over, it is killed, or it ends on
 * its own. A sandbox without use lives on until its time is over, as with E2B: it is held. */
#include "faces/e2b/templates.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"
#include "fleet/ids.h"
#include "http/host_header.h"

#include <ctype.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void e2b_make_id(const struct e2b *f, char ret[E2B_ID_SIZE])
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	uint32_t words[E2B_ID_SIZE - 2];

	rand_bytes(words, sizeof(words));
	ret[0] = 'i';
	for (size_t i = 0; i < E2B_ID_SIZE - 2; i++)
		ret[i + 1] = digits[words[i] % (sizeof(digits) - 1)];
	ret[E2B_ID_SIZE - 1] = '\0';
	fleet_id_mark(f->config.fleet, ret);
}

struct e2b_sandbox *e2b_find(const struct e2b *f, const char *id)
{
	list_for_each(l, &f->sandboxes) {
		struct e2b_sandbox *s = list_entry(l, struct e2b_sandbox, node);

		if (streq(s->id, id))
			return s;
	}
	return NULL;
}

/* Splits "49983-iabc.example.org:8181"; false: Host is no such name. An id of another form is of no sandbox: "". */
static bool read_name(const struct http_request *req, uint64_t *ret_port, char ret[E2B_ID_SIZE])
{
	const char *given = http_request_header(req, "host");
	struct http_host host;
	size_t label, digits = 0;

	/* As the server read it when it chose the routes: else a name that differs in a dot would name nothing here. */
	if (!given || http_host_parse(given, strlen(given), &host) < 0 ||
	    !http_host_is_below(&host, http_request_port_domain(req), &label))
		return false;
	while (digits < label && isdigit((unsigned char)host.name[digits]))
		digits++;
	if (digits == 0 || digits == label || host.name[digits] != '-' ||
	    parse_u64_n(host.name, digits, 1, 65535, ret_port) < 0)
		return false;
	const char *id = host.name + digits + 1;
	const size_t len = label - digits - 1 < E2B_ID_SIZE ? label - digits - 1 : 0;
	for (size_t i = 0; i < len; i++)
		ret[i] = (char)tolower((unsigned char)id[i]);
	ret[len] = '\0';
	return true;
}

bool e2b_id_of(const struct http_request *req, char ret[E2B_ID_SIZE])
{
	const char *id = http_request_header(req, "e2b-sandbox-id");
	uint64_t port;

	if (read_name(req, &port, ret))
		return !id || streq(id, ret) || !wall_stands(WALL_AGREE);
	return id && text_copy(ret, E2B_ID_SIZE, id) == 0;
}

bool e2b_is_port_name(const struct http_request *req)
{
	char id[E2B_ID_SIZE];
	uint64_t port;

	return read_name(req, &port, id);
}

bool e2b_is_for_port(const struct http_request *req, unsigned port)
{
	const char *header = http_request_header(req, "e2b-sandbox-port");
	char id[E2B_ID_SIZE];
	uint64_t n = 0;

	if (!read_name(req, &n, id) && header && parse_u64(header, 1, 65535, &n) < 0)
		return false;
	return n == port;
}

/* SDKs of 2025 name no sandbox after they have connected to it. The token that they send is that of one sandbox. */
static struct e2b_sandbox *by_token(const struct e2b *f, const struct http_request *req)
{
	const char *token = http_request_header(req, "x-access-token");
	struct e2b_sandbox *found = NULL;

	if (!token || strlen(token) != E2B_TOKEN_SIZE - 1)
		return NULL;
	list_for_each(l, &f->sandboxes) {
		struct e2b_sandbox *s = list_entry(l, struct e2b_sandbox, node);

		if (sodium_memcmp(s->token, token, E2B_TOKEN_SIZE - 1) == 0)
			found = s;
	}
	return found;
}

struct e2b_sandbox *e2b_sandbox_of(const struct e2b *f, const struct http_request *req)
{
	char id[E2B_ID_SIZE];
	uint64_t port;
	const bool named = http_request_header(req, "e2b-sandbox-id") || read_name(req, &port, id);
	struct e2b_sandbox *s = !named               ? by_token(f, req)
				: e2b_id_of(req, id) ? e2b_find(f, id)
						     : NULL;

	return s && s->sandbox ? s : NULL;
}

bool e2b_is_name(const char *label, size_t len)
{
	static const char *const names[] = {"api", "sandbox"};
	static const char *const ports[] = {"49983-", "49999-"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == len && strncasecmp(names[i], label, len) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(ports); i++)
		if (len > strlen(ports[i]) && strncmp(ports[i], label, strlen(ports[i])) == 0)
			return true;
	return false;
}

struct e2b_sandbox *e2b_sandbox_new(struct e2b *f, const struct caller *who)
{
	struct e2b_sandbox *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->refs = 1;
	s->face = f;
	s->who = caller_ref(who);
	s->seq = ++f->last_seq;
	list_init(&s->node);
	list_init(&s->hold.node);
	list_init(&s->streams);
	list_init(&s->watches);
	e2b_contexts_begin(s);
	e2b_make_id(f, s->id);
	rand_hex(s->token, (E2B_TOKEN_SIZE - 1) / 2);
	fleet_id_mark(f->config.fleet, s->token); /* SDKs that name no sandbox show this one */
	rand_hex(s->traffic, (E2B_TOKEN_SIZE - 1) / 2);
	rand_uuid(s->boot_id); /* as the kernel has one of each start */
	return s;
}

struct e2b_sandbox *e2b_sandbox_ref(struct e2b_sandbox *s)
{
	s->refs++;
	return s;
}

struct e2b_sandbox *e2b_sandbox_unref(struct e2b_sandbox *s)
{
	if (!s || --s->refs > 0)
		return NULL;
	e2b_contexts_done(s);
	json_decref(s->metadata);
	caller_unref(s->who);
	(void)e2b_build_unref(s->build);
	free(s->same_as);
	free(s);
	return NULL;
}

/* ---- pauses ---- */

static void cut_streams(struct e2b_sandbox *s, bool ended)
{
	struct e2b_stream *st;

	while ((st = list_pop_first(&s->streams, struct e2b_stream, node)))
		st->cut(st, ended);
}

static void set_timer(struct e2b_sandbox *s, uint64_t seconds)
{
	(void)sd_event_source_set_time_relative(s->deadline, seconds * NS_PER_S / NS_PER_US);
	(void)sd_event_source_set_enabled(s->deadline, SD_EVENT_ONESHOT);
}

static void freeze(struct process *p, void *user)
{
	struct err e = ERR_INIT;

	if (process_freeze(p, *(const bool *)user, &e) < 0)
		LOG_WARNING("e2b_pause", LOG_S("error", e.text));
}

static void forget_process(struct process *p, void *user UNUSED)
{
	process_forget(p);
}

/* What runs in it ends, and its files stay. */
static void drop_memory(struct e2b_sandbox *s)
{
	sandbox_each_process(s->sandbox, forget_process, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(s->contexts); i++)
		s->contexts[i].restarts = true;
	rand_uuid(s->boot_id); /* as the kernel has one of each start */
}

void e2b_sandbox_pause(struct e2b_sandbox *s, bool memory)
{
	bool frozen = true;

	(void)e2b_sandbox_ref(s);
	s->paused = true;
	cut_streams(s, false);
	if (memory)
		sandbox_each_process(s->sandbox, freeze, &frozen);
	else
		drop_memory(s);
	set_timer(s, E2B_LIFE_MAX_S);
	LOG_INFO("e2b_pause", LOG_S("session_id", s->id));
	(void)e2b_sandbox_unref(s);
}

void e2b_sandbox_resume(struct e2b_sandbox *s, uint64_t seconds, bool memory)
{
	bool frozen = false;

	if (!memory)
		drop_memory(s);
	s->paused = false;
	sandbox_each_process(s->sandbox, freeze, &frozen);
	e2b_sandbox_set_end(s, seconds, false);
	LOG_INFO("e2b_resume", LOG_S("session_id", s->id));
}

/* ---- its end ---- */

void e2b_sandbox_forget(struct e2b_sandbox *s)
{
	if (list_is_empty(&s->node))
		return;
	list_remove(&s->node);
	s->deadline = sd_event_source_disable_unref(s->deadline);
	cut_streams(s, true);
	e2b_watches_done(s);
	if (s->sandbox)
		sandbox_release(s->sandbox, &s->hold);
	s->sandbox = sandbox_unref(s->sandbox);
	(void)e2b_sandbox_unref(s);
}

/* From inside the end of the sandbox: nothing of it may be called any more. */
static void on_ended(struct sandbox_hold *h)
{
	struct e2b_sandbox *s = CONTAINER_OF(h, struct e2b_sandbox, hold);

	e2b_sandbox_forget(s);
}

static int on_deadline(sd_event_source *source UNUSED, uint64_t usec UNUSED, void *user)
{
	struct e2b_sandbox *s = user;
	struct err e = ERR_INIT;

	loop_work("timer", "end of a sandbox of E2B");
	if (s->auto_pause && !s->paused) {
		e2b_sandbox_pause(s, !s->pauses_files);
		return 0;
	}
	struct sandbox *ended = sandbox_ref(s->sandbox);
	LOG_INFO("e2b_timeout", LOG_S("session_id", s->id));
	e2b_sandbox_forget(s);
	if (sandbox_close(ended, true, NULL, NULL, &e) < 0)
		LOG_WARNING("e2b_timeout", LOG_S("error", e.text));
	(void)sandbox_unref(ended);
	return 0;
}

void e2b_sandbox_set_end(struct e2b_sandbox *s, uint64_t seconds, bool longer)
{
	const uint64_t end_ms = now_wall_ns() / NS_PER_MS + seconds * 1000;

	if (s->paused || (longer && end_ms <= s->end_ms))
		return;
	s->end_ms = end_ms;
	set_timer(s, seconds);
}

static int open_ports(const struct e2b_sandbox *s, struct sandbox *made, struct err *e)
{
	struct sandbox_options o = {.given = 1u << SANDBOX_OPTION_PUBLIC};

	sandbox_note_own_id(made);
	o.number[SANDBOX_OPTION_PUBLIC] = 1;
	if (s->is_private || !manager_options_public(s->face->config.manager, &o))
		return 0;
	return sandbox_change(made, &o, NULL, NULL, e); /* of a session it is done at once */
}

int e2b_sandbox_begin(struct e2b_sandbox *s, struct sandbox *made, struct err *e)
{
	int r = open_ports(s, made, e);

	if (r < 0)
		return r;
	r = sd_event_add_time_relative(s->face->config.loop, &s->deadline, CLOCK_MONOTONIC,
				       UINT64_MAX / 2, 0, on_deadline, s);
	if (r < 0)
		return err_set(e, ERR_OUT_OF_MEMORY, -r, "the timer of a sandbox");
	s->sandbox = sandbox_ref(made);
	(void)!sandbox_answer_health(made,
				     E2B_CODE_PORT); /* one that has ended says so by itself */
	s->hold.ended = on_ended;
	s->hold.rests = true;
	sandbox_hold(made, &s->hold);
	s->started_ms = now_wall_ns() / NS_PER_MS;
	list_append(&s->face->sandboxes, &e2b_sandbox_ref(s)->node);
	return 0;
}

void e2b_sandboxes_done(struct e2b *f)
{
	list_for_each(l, &f->sandboxes)
		e2b_sandbox_forget(list_entry(l, struct e2b_sandbox, node));
}
