/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane: sandboxes are made, found again, given more time and ended. */
#include "faces/e2b/shapes.h"
#include "faces/e2b/templates.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/walls.h"

#include <stdlib.h>
#include <string.h>

#define LIFE_V1_S      15 /* what the API gives without a timeout, by its version */
#define LIFE_V2_S      300
#define METADATA_MAX   64u
#define METADATA_BYTES (16u << 10)
#define SAME_MAX       255u

/* ---- what a body asks for ---- */

static int refuse(struct err *e, const char *member, const char *why)
{
	return e2b_refuse_member(e, member, why);
}

static int not_offered(struct err *e, const char *member)
{
	return refuse(e, member, E2B_NOT_OFFERED);
}

int e2b_read_seconds(const json_t *body, const char *member, uint64_t *ret, struct err *e)
{
	const json_t *v = json_object_get(body, member);
	const json_int_t n = json_integer_value(v);

	if (!v || json_is_null(v))
		return 0;
	if (!json_is_integer(v) || n < 0 || n > E2B_LIFE_MAX_S)
		return refuse(e, member, "whole seconds from 0 to 86400");
	*ret = (uint64_t)n;
	return 0;
}

/* An object of texts; RET borrows it, or is NULL. */
static int read_pairs(const json_t *body, const char *member, json_t **ret, struct err *e)
{
	json_t *o = json_object_get(body, member), *v;
	const char *key;
	size_t bytes = 0;

	*ret = NULL;
	if (!o || json_is_null(o))
		return 0;
	if (!json_is_object(o))
		return refuse(e, member, "an object of texts");
	json_object_foreach(o, key, v) {
		if (!json_is_string(v))
			return refuse(e, member, "an object of texts");
		bytes += strlen(key) + json_string_length(v);
	}
	*ret = o;
	return json_object_size(o) > METADATA_MAX || bytes > METADATA_BYTES
		   ? refuse(e, member, "at most 64 texts with 16 KiB in all")
		   : 0;
}

/* Nothing that was asked for is left out silently. "mcp" is a note: its SDK starts the gateway as a command, and that tells if the
 * image has none. */
static int check_offer(const json_t *body, struct err *e)
{
	static const char *const members[] = {"iam", "volumeMounts"};

	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (!e2b_is_empty(json_object_get(body, members[i])))
			return not_offered(e, members[i]);
	return 0;
}

/* The templates that the SDKs name by default are the image of this server. */
bool e2b_is_own_image(const char *template)
{
	return streq(template, "base") || streq(template, "code-interpreter-v1");
}

/* What comes of a template of the client. */
static void add_setup(json_t *o, const struct e2b_build *b, json_t *env)
{
	json_t *all = json_copy(b->setup.env);

	if (env)
		(void)json_object_update(all, env);
	(void)json_object_set_new(o, "env", all);
	if (b->memory_mb)
		(void)json_object_set_new(o, "memory_mb", json_integer(b->memory_mb));
	if (b->cpus)
		(void)json_object_set_new(o, "cpus", json_integer(b->cpus));
}

/* TEMPLATE NULL: it is made from a snapshot, and has what that has. BUILD: of a template of the client, or NULL. */
static int read_options(struct e2b_call *c, const char *template, const struct e2b_build *build,
			struct sandbox_options *ret, struct err *e)
{
	json_t *env, *o = json_object();
	int r = read_pairs(c->body, "envVars", &env, e);

	if (r == 0 && build)
		add_setup(o, build, env);
	else if (r == 0 && env)
		(void)json_object_set(o, "env", env);
	if (r == 0 && template && manager_option_max(c->face->config.manager, SANDBOX_OPTION_ROOT))
		(void)json_object_set_new(o, "root", json_true());
	if (r == 0 && template && (build || !e2b_is_own_image(template)))
		(void)json_object_set_new(o, "image", json_string(build ? build->image : template));
	r = r < 0 ? r : sandbox_options_read(o, false, ret, e);
	if (r == 0) {
		ret->way_out = true; /* for update_network */
		ret->own_image = build != NULL;
	}
	json_decref(o);
	return r;
}

/* ---- create ---- */

struct making {
	struct list node; /* of e2b.makings */
	struct e2b_call *call;
	struct list again;           /* struct again: who asked for the same meanwhile */
	struct e2b_sandbox *sandbox; /* reference */
	uint64_t life_s;
	/* of a snapshot: */
	struct sandbox *made; /* reference */
	struct sandbox_options options;
	struct sandbox_choice network;
};

struct again {
	struct list node;
	struct e2b_call *call;
};

static bool is_about_template(const struct err *e)
{
	return e->code == ERR_IMAGE_MISSING || e->code == ERR_IMAGE_INVALID ||
	       e->code == ERR_IMAGE_UNSUITABLE || streq(e->member, "image");
}

static void fail_create(struct e2b_call *c, const char *template, const struct err *e)
{
	struct err told = *e;

	if (is_about_template(e) && !e2b_is_own_image(template))
		(void)err_set(&told, ERR_NOT_FOUND, 0, "template '%s' not found: %s", template,
			      e->text);
	e2b_fail(c, &told);
}

static void making_free(struct making *m)
{
	list_remove(&m->node);
	(void)e2b_sandbox_unref(m->sandbox);
	free(m);
}

static void answer(const struct err *e, void *user)
{
	struct making *m = user;
	struct e2b_sandbox *s = m->sandbox;
	const struct err failed = e ? *e : ERR_INIT;
	const bool good = !e && s->sandbox;
	struct again *a;

	while ((a = list_first(&m->again, struct again, node))) {
		list_remove(&a->node);
		if (good)
			e2b_reply(a->call, 201, e2b_sandbox_json(s, a->call->req));
		else
			fail_create(a->call, s->template_id, &failed);
		free(a);
	}
	if (good)
		e2b_reply(m->call, 201, e2b_sandbox_json(s, m->call->req));
	else
		fail_create(m->call, s->template_id, &failed);
	making_free(m);
}

/* A sandbox whose template cannot begin is of no use. */
static void on_set_up(const struct err *e, void *user)
{
	struct making *m = user;
	struct sandbox *made = m->sandbox->sandbox ? sandbox_ref(m->sandbox->sandbox) : NULL;
	struct err failed = e ? *e : ERR_INIT, ignored = ERR_INIT;

	if (!e && !made)
		(void)err_set(&failed, ERR_SANDBOX_LOST, 0, "the sandbox has ended");
	if (e && made) {
		e2b_sandbox_forget(m->sandbox);
		(void)!sandbox_close(made, true, NULL, NULL, &ignored);
	}
	(void)sandbox_unref(made);
	answer(failed.code != ERR_NONE ? &failed : NULL, m);
}

static void on_made(struct sandbox *made, const struct err *e, void *user)
{
	struct making *m = user;
	struct e2b_sandbox *s = m->sandbox;
	struct err failed = e ? *e : ERR_INIT;

	if (e || e2b_sandbox_begin(s, made, &failed) < 0) {
		answer(&failed, m);
		return;
	}
	s->life_s = m->life_s;
	e2b_sandbox_set_end(s, m->life_s, false);
	if (s->build)
		e2b_setup_begin(s, s->build, on_set_up, m);
	else
		answer(NULL, m);
}

static void on_changed(const struct err *e, void *user)
{
	struct making *m = user;
	struct sandbox *made = m->made;

	struct err failed = e ? *e : ERR_INIT;

	sandbox_options_done(&m->options);
	if (!e && m->network.text[0] && sandbox_change_network(made, &m->network, &failed) < 0)
		e = &failed;
	if (e &&
	    made) { /* it would stay without the client, and with more to reach than that wants */
		struct err ignored = ERR_INIT;

		(void)!sandbox_close(made, true, NULL, NULL, &ignored);
	}
	on_made(e ? NULL : made, e, m);
	(void)sandbox_unref(made);
}

/* What the client asks for besides what the snapshot brings. */
static void on_forked(const struct fork_result *forked, const struct err *e, void *user)
{
	struct making *m = user;
	struct err failed = e ? *e : ERR_INIT;

	m->made = e ? NULL : sandbox_ref(forked->sandbox);
	const int r = e ? -EIO : sandbox_change(m->made, &m->options, on_changed, m, &failed);
	if (r != 1)
		on_changed(r < 0 ? &failed : NULL, m);
}

/* A template of the client whose tag, or build, is not there or not ready: clients wait for it when they read this. */
static int check_tag(const struct e2b_call *c, const char *template, struct err *e)
{
	char alias[TEMPLATE_NAME + 1], tag[TEMPLATE_NAME + 1];

	if (!e2b_read_name(template, alias, tag) || !e2b_template_of(c->face, c->who->owner, alias))
		return 0;
	return err_set(e, ERR_NOT_FOUND, 0,
		       "tag '%.64s' does not exist for template '%.64s': no build of it is ready",
		       tag[0] ? tag : TAG_DEFAULT, alias);
}

static int begin(struct e2b_call *c, const char *template, struct making *m, struct err *e)
{
	struct sandbox *snapshot = e2b_snapshot_of(c->face, c->who->owner, template);
	struct sandbox_options options;
	json_t *metadata;
	struct e2b_build *build =
	    snapshot ? NULL : e2b_build_named(c->face, c->who->owner, template);
	int r = check_offer(c->body, e);

	r = r < 0 || snapshot || build ? r : check_tag(c, template, e);
	r = r < 0 ? r : e2b_read_seconds(c->body, "timeout", &m->life_s, e);
	r = r < 0 ? r : read_pairs(c->body, "metadata", &metadata, e);
	r = r < 0 ? r
		  : e2b_choose_network(c->face, json_object_get(c->body, "network"),
				       json_object_get(c->body, "allow_internet_access"),
				       &m->network, e);
	r = r < 0 ? r
		  : e2b_read_private(c->face, json_object_get(c->body, "network"),
				     &m->sandbox->is_private, e);
	r = r < 0 ? r : e2b_read_host(json_object_get(c->body, "network"), m->sandbox->host, e);
	r = r < 0 ? r : e2b_read_https(c->face, json_object_get(c->body, "network"), m->sandbox, e);
	r = r < 0 ? r : read_options(c, snapshot ? NULL : template, build, &options, e);
	if (r < 0)
		return r;
	m->sandbox->auto_pause = json_is_true(json_object_get(c->body, "autoPause"));
	m->sandbox->pauses_files = json_is_false(json_object_get(c->body, "autoPauseMemory"));
	m->sandbox->auto_resume =
	    json_is_true(json_object_get(json_object_get(c->body, "autoResume"), "enabled"));
	m->sandbox->metadata = metadata ? json_incref(metadata) : json_object();
	m->sandbox->build = build ? e2b_build_ref(build) : NULL;
	if (snapshot)
		r = e2b_fork_in_turn(c->face, snapshot, m->sandbox->id, on_forked, m, e);
	else
		manager_open_new(c->face->config.manager, c->who->owner, m->sandbox->id,
				 &m->network, &options, on_made, m);
	if (snapshot && r == 0)
		m->options = options;
	else
		sandbox_options_done(&options);
	return r;
}

/* A client that asks again, because it got no answer, gets the sandbox that it made. */
static bool is_same(const struct e2b_sandbox *s, const struct e2b_call *c, const char *key)
{
	return key && s->same_as && streq(s->same_as, key) && streq(s->who->owner, c->who->owner);
}

static struct e2b_sandbox *made_before(const struct e2b_call *c, const char *key)
{
	list_for_each(l, &c->face->sandboxes) {
		struct e2b_sandbox *s = list_entry(l, struct e2b_sandbox, node);

		if (is_same(s, c, key))
			return s;
	}
	return NULL;
}

/* The same while it is being made: the answer comes with that of the first one. False: it is not. */
static bool wait_for_same(struct e2b_call *c, const char *key)
{
	list_for_each(l, &c->face->makings) {
		struct making *m = list_entry(l, struct making, node);

		if (!is_same(m->sandbox, c, key))
			continue;
		struct again *a = calloc(1, sizeof(*a));
		if (!a) {
			e2b_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
			return true;
		}
		a->call = c;
		list_append(&m->again, &a->node);
		return true;
	}
	return false;
}

static void create(struct e2b_call *c, uint64_t life_s)
{
	const char *template = json_string_value(json_object_get(c->body, "templateID"));
	const char *key = http_request_header(c->req, "idempotency-key");
	const struct e2b_sandbox *before = made_before(c, key);
	struct err e = ERR_INIT;

	if (before) {
		e2b_reply(c, 201, e2b_sandbox_json(before, c->req));
		return;
	}
	if (wait_for_same(c, key))
		return;
	if (!template || !*template || strlen(template) >= ENGINE_NAME_MAX ||
	    (key && strlen(key) > SAME_MAX)) {
		e2b_refuse(c, ERR_INVALID_ARGUMENT, "templateID: the name of a template");
		return;
	}
	struct making *m = calloc(1, sizeof(*m));
	struct e2b_sandbox *s = m ? e2b_sandbox_new(c->face, c->who) : NULL;
	if (!s || (key && !(s->same_as = strdup(key)))) {
		(void)e2b_sandbox_unref(s);
		free(m);
		e2b_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	*m = (struct making){.call = c, .sandbox = s, .life_s = life_s};
	list_init(&m->again);
	list_append(&c->face->makings, &m->node);
	(void)!text_copy(s->template_id, sizeof(s->template_id), template);
	if (begin(c, template, m, &e) < 0) {
		fail_create(c, s->template_id, &e);
		making_free(m);
	}
}

void e2b_create_v1(struct e2b_call *c)
{
	create(c, LIFE_V1_S);
}

void e2b_create_v2(struct e2b_call *c)
{
	create(c, LIFE_V2_S);
}

/* ---- one sandbox ---- */

struct e2b_sandbox *e2b_need(struct e2b_call *c)
{
	const char *id = http_request_param(c->req, "id");
	struct e2b_sandbox *s = e2b_find(c->face, id);

	if (s && (streq(s->who->owner, c->who->owner) || !wall_stands(WALL_OWNED)))
		return s;
	e2b_refuse(c, ERR_NOT_FOUND, "sandbox \"%.64s\" not found",
		   text_is_utf8(id, strlen(id)) ? id : "");
	return NULL;
}

void e2b_info(struct e2b_call *c)
{
	const struct e2b_sandbox *s = e2b_need(c);

	if (s)
		e2b_reply(c, 200, e2b_detail_json(s, c->req, e2b_may_use(c->who)));
}

/* From now on the sandbox counts on the credential of this caller. */
void e2b_connect(struct e2b_call *c)
{
	struct e2b_sandbox *s = e2b_need(c);
	uint64_t life_s = LIFE_V2_S;
	struct err e = ERR_INIT;

	if (!s)
		return;
	if (e2b_read_seconds(c->body, "timeout", &life_s, &e) < 0) {
		e2b_fail(c, &e);
		return;
	}
	const bool paused = s->paused;
	caller_unref(s->who);
	s->who = caller_ref(c->who);
	s->life_s = life_s;
	if (paused)
		e2b_sandbox_resume(s, life_s, !json_is_false(json_object_get(c->body, "memory")));
	else
		e2b_sandbox_set_end(s, life_s, true);
	e2b_reply(c, paused ? 201 : 200, e2b_sandbox_json(s, c->req));
}

void e2b_resume(struct e2b_call *c)
{
	const struct e2b_sandbox *s = e2b_need(c);

	if (s && !s->paused)
		e2b_refuse(c, ERR_SESSION_BUSY, "the sandbox is running");
	else if (s)
		e2b_connect(c);
}

void e2b_pause(struct e2b_call *c)
{
	struct e2b_sandbox *s = e2b_need(c);

	if (!s)
		return;
	if (s->paused) {
		e2b_refuse(c, ERR_SESSION_BUSY, "the sandbox is paused");
		return;
	}
	e2b_sandbox_pause(s, !json_is_false(json_object_get(c->body, "memory")));
	e2b_reply(c, 204, NULL);
}

static void set_end(struct e2b_call *c, const char *member, uint64_t otherwise, bool longer)
{
	struct e2b_sandbox *s = e2b_need(c);
	struct err e = ERR_INIT;

	if (!s)
		return;
	if (e2b_read_seconds(c->body, member, &otherwise, &e) < 0) {
		e2b_fail(c, &e);
		return;
	}
	e2b_sandbox_set_end(s, otherwise, longer);
	e2b_reply(c, 204, NULL);
}

void e2b_set_timeout(struct e2b_call *c)
{
	set_end(c, "timeout", LIFE_V1_S, false);
}

void e2b_refresh(struct e2b_call *c)
{
	set_end(c, "duration", LIFE_V1_S, true);
}

static void on_deleted(const struct err *e, void *user)
{
	struct e2b_call *c = user;

	if (e && e->code != ERR_CANCELLED)
		e2b_fail(c, e);
	else
		e2b_reply(c, 204, NULL);
}

void e2b_kill(struct e2b_call *c)
{
	struct e2b_sandbox *s = e2b_need(c);
	struct err e = ERR_INIT;

	if (!s)
		return;
	struct sandbox *ended = sandbox_ref(s->sandbox);
	e2b_sandbox_forget(s);
	const int r = sandbox_close(ended, true, on_deleted, c, &e);
	(void)sandbox_unref(ended);
	if (r < 0)
		e2b_fail(c, &e);
}

void e2b_not_offered(struct e2b_call *c)
{
	e2b_refuse(c, ERR_INVALID_ARGUMENT, "this server does not offer %s %s%s",
		   http_method_name(c->route->method), c->route->path + sizeof(E2B_PREFIX) - 1,
		   c->route->templates && !c->face->config.templates
		       ? "; its operator can permit templates with SANDBOX_TEMPLATES=on"
		       : "");
}

void e2b_health(struct e2b_call *c)
{
	e2b_reply(c, e2b_is_for_port(c->req, E2B_CODE_PORT) ? 200 : 204, NULL);
}
