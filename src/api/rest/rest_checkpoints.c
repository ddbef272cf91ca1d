/* SPDX-License-Identifier: Apache-2.0 */
/* REST: checkpoints of a sandbox, branches and forks. Checkpoints and forks are answered when they are
 * made. A branch goes on without its client, like a run, and ends when the key that started it is
 * revoked. */
#include "api/rest/rest.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "sandbox/checkpoints.h"
#include "sandbox/run_session.h"

#include <string.h>

static const char *state_of(const struct checkpoint *k)
{
	if (k->state_lost)
		return "lost";
	return k->state_kept ? "kept" : "fresh";
}

static json_t *kinds_json(uint32_t kinds)
{
	const char *names[SESSION_KINDS_MAX];
	const size_t n = session_kinds(kinds, names);
	json_t *list = n > 0 ? json_array() : NULL;

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(list, json_string(names[i]));
	return list;
}

/* KINDS is the member for them: what they are depends on the call. */
static json_t *checkpoint_json_with(const struct checkpoint *k, const char *kinds)
{
	return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s?, s:s?, s:o*}", "name", k->name,
			 "state", state_of(k), "files", (json_int_t)k->files, "bytes",
			 (json_int_t)k->bytes, "skipped", (json_int_t)k->skipped, "age_s",
			 (json_int_t)(k->age_ns / NS_PER_S), "by", k->by && k->by[0] ? k->by : NULL,
			 "parent", k->parent && k->parent[0] ? k->parent : NULL, kinds,
			 kinds_json(k->kinds));
}

static json_t *checkpoint_json(const struct checkpoint *k)
{
	return checkpoint_json_with(k, "not_saved");
}

/* The object of the audit log: what the call is about. */
static void set_object(struct rest_call *c, const char *what)
{
	(void)snprintf(c->object, sizeof(c->object), "%s %s", sandbox_id(c->sandbox), what);
}

/* ---- list, make, restore, remove ---- */

static void add_checkpoint(const struct checkpoint *k, void *user)
{
	(void)json_array_append_new(user, checkpoint_json(k));
}

static void list(struct rest_call *c)
{
	json_t *all = json_array();

	sandbox_each_checkpoint(c->sandbox, add_checkpoint, all);
	rest_reply(c, 200, json_pack("{s:o}", "checkpoints", all));
}

void rest_list_checkpoints(struct rest_call *c)
{
	rest_sandbox(c, list);
}

static void answer(struct rest_call *c, const struct checkpoint *k, const char *kinds,
		   const struct err *e)
{
	if (e)
		rest_fail(c, e);
	else
		rest_reply(c, c->route->ok,
			   c->route->answer ? checkpoint_json_with(k, kinds) : NULL);
}

static void on_saved(const struct checkpoint *k, const struct err *e, void *user)
{
	answer(user, k, "not_saved", e);
}

static void on_restored(const struct checkpoint *k, const struct err *e, void *user)
{
	answer(user, k, "gone", e);
}

/* NAME is a name that a checkpoint can have; else the call is answered. MEMBER had it. */
static bool check_name(struct rest_call *c, const char *name, const char *member)
{
	struct err e = ERR_INIT;

	if (name && parse_is_session_id(name, strlen(name))) /* the same letters */
		return true;
	(void)err_set(
	    &e, ERR_INVALID_ARGUMENT, 0,
	    "'%s' is not valid: the name of a checkpoint has 1 to %d letters, digits, '-' "
	    "and '_'",
	    member, CHECKPOINT_NAME_MAX);
	(void)err_set_member(&e, member);
	rest_fail(c, &e);
	return false;
}

static void make(struct rest_call *c)
{
	const char *name = rest_text(c, "name", NULL);
	struct err e = ERR_INIT;

	set_object(c, name);
	if (sandbox_checkpoint(c->sandbox, name, on_saved, c, &e) < 0)
		rest_fail(c, &e);
}

void rest_make_checkpoint(struct rest_call *c)
{
	c->action = "checkpoint.make";
	if (check_name(c, rest_text(c, "name", NULL), "name"))
		rest_sandbox(c, make);
}

static void restore(struct rest_call *c)
{
	struct err e = ERR_INIT;

	set_object(c, c->text);
	if (sandbox_restore(c->sandbox, c->text, rest_bool(c, "files_only"), on_restored, c, &e) <
	    0)
		rest_fail(c, &e);
}

static void drop(struct rest_call *c)
{
	struct err e = ERR_INIT;

	set_object(c, c->text);
	if (sandbox_drop_checkpoint(c->sandbox, c->text, on_saved, c, &e) < 0)
		rest_fail(c, &e);
}

/* Goes on with NEXT and the {checkpoint} of the path in c->text. */
static void with_name(struct rest_call *c, const char *action, rest_fn next)
{
	const char *name = http_request_param(c->req, "checkpoint");

	c->action = action;
	if (!check_name(c, name, "checkpoint"))
		return;
	c->text = strdup(name);
	if (c->text)
		rest_sandbox(c, next);
	else
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
}

void rest_restore_checkpoint(struct rest_call *c)
{
	with_name(c, "checkpoint.restore", restore);
}

void rest_drop_checkpoint(struct rest_call *c)
{
	with_name(c, "checkpoint.remove", drop);
}

/* ---- branches ---- */

struct api_branch {
	struct list node; /* in api.branches */
	struct rest_call *call;
	struct branch *branch;
	json_t *list; /* owned: the branches that have ended */
	size_t n;
	char names[BRANCHES_MAX][CHECKPOINT_NAME_MAX + 1];
	struct branch_item items[BRANCHES_MAX];
	bool revoked; /* it is being cancelled because its credential was revoked */
};

static void branch_free(struct api_branch *b)
{
	list_remove(&b->node);
	json_decref(b->list);
	free(b);
}

static json_t *output_json(const struct run_output *output)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(output->len * 3 + RUN_OUTPUT_MARK);
	bool cut;

	return run_output_add(&b, output, SIZE_MAX, NULL, &cut) < 0
		   ? json_string("")
		   : json_stringn_nocheck(buf_str(&b), b.len);
}

static void add_error(json_t *object, const struct err *e)
{
	(void)json_object_set_new(object, "error", json_string(err_code_name(e->code)));
	(void)json_object_set_new(object, "message", rest_name(e->text));
}

static void on_run(size_t i, const struct run_result *result, const struct err *e, void *user)
{
	struct api_branch *b = user;
	json_t *object = json_pack("{s:s, s:s}", "name", b->names[i], "state", "unchanged");

	if (e)
		add_error(object, e);
	else
		(void)json_object_update_new(
		    object,
		    json_pack("{s:i, s:s, s:o, s:o, s:o, s:I}", "exit_code", result->exit_code,
			      "reason", run_reason_name(result->reason), "stdout",
			      output_json(&result->out), "stderr", output_json(&result->err),
			      "value", output_json(&result->value), "duration_ms",
			      (json_int_t)result->duration_ms));
	(void)json_array_append_new(b->list, object);
}

static void on_kept(size_t i UNUSED, const struct checkpoint *k, const struct err *e, void *user)
{
	struct api_branch *b = user;
	json_t *object = json_array_get(b->list, json_array_size(b->list) - 1);

	if (k)
		(void)json_object_update_new(object, checkpoint_json(k));
	else if (e)
		add_error(object, e);
}

static void on_branched(uint32_t kinds UNUSED, const struct err *e, void *user)
{
	struct api_branch *b = user;

	if (e)
		rest_fail(b->call, e);
	else
		rest_reply(b->call, 200, json_pack("{s:O}", "branches", b->list));
	branch_free(b);
}

static bool take_item(struct api_branch *b, size_t i, const json_t *item)
{
	const uint64_t max = b->call->api->config.max_code_bytes;
	const char *name = json_string_value(json_object_get(item, "name"));
	struct branch_item *to = &b->items[i];

	if (name && !check_name(b->call, name, "branches"))
		return false;
	(void)snprintf(b->names[i], sizeof(b->names[i]), "branch-%zu", i + 1);
	if (name)
		(void)!text_copy(b->names[i], sizeof(b->names[i]), name);
	to->name = b->names[i];
	to->code = json_string_value(json_object_get(item, "code"));
	to->code_len = strlen(to->code);
	if (to->code_len <= max)
		return true;
	rest_refuse(b->call, ERR_CODE_TOO_LARGE, "Code is %zu bytes, exceeds %ju byte limit.",
		    to->code_len, (uintmax_t)max);
	return false;
}

static void branch(struct rest_call *c)
{
	const json_t *items = json_object_get(c->body, "branches");
	struct api_branch *b = calloc(1, sizeof(*b));
	struct err e = ERR_INIT;

	if (!b) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return;
	}
	b->call = c;
	b->list = json_array();
	b->n = MIN(json_array_size(items), (size_t)BRANCHES_MAX);
	list_append(&c->api->branches, &b->node);
	for (size_t i = 0; i < b->n; i++)
		if (!take_item(b, i, json_array_get(items, i))) {
			branch_free(b);
			return;
		}
	const struct branch_request request = {
	    .items = b->items,
	    .n = b->n,
	    .timeout_ns = (uint64_t)rest_int(c, "timeout_s", 0) * NS_PER_S,
	    .on_run = on_run,
	    .on_kept = on_kept,
	    .on_done = on_branched,
	    .user = b,
	};
	if (sandbox_branch(c->sandbox, &request, &b->branch, &e) == 0)
		return;
	branch_free(b);
	rest_fail(c, &e);
}

void rest_branch(struct rest_call *c)
{
	c->action = "sandbox.branch";
	rest_sandbox(c, branch);
}

static struct api_branch *branch_of_revoked(const struct api *a)
{
	list_for_each(l, &a->branches) {
		struct api_branch *b = list_entry(l, struct api_branch, node);

		if (b->branch && !b->revoked && b->call->who->ended == CALLER_REVOKED)
			return b;
	}
	return NULL;
}

void branches_end_callers(struct api *a)
{
	struct api_branch *b;

	while ((b = branch_of_revoked(a))) {
		b->revoked = true;
		branch_cancel(b->branch);
	}
}

/* ---- forks ---- */

static void on_forked(const struct fork_result *f, const struct err *e, void *user)
{
	struct rest_call *c = user;

	if (e) {
		rest_fail_open(c, e);
		return;
	}
	rest_reply(c, 201,
		   json_pack("{s:s, s:s, s:I, s:I, s:I}", "id", sandbox_id(f->sandbox),
			     "forked_from", sandbox_id(c->sandbox), "files", (json_int_t)f->files,
			     "bytes", (json_int_t)f->bytes, "skipped", (json_int_t)f->skipped));
}

static void fork_it(struct rest_call *c)
{
	struct err e = ERR_INIT;

	if (sandbox_fork(c->sandbox, rest_text(c, "id", NULL), on_forked, c, &e) < 0)
		rest_fail(c, &e);
}

void rest_fork(struct rest_call *c)
{
	const char *id = rest_text(c, "id", NULL);
	struct err e = ERR_INIT;

	c->action = "sandbox.fork";
	if (!id || parse_is_session_id(id, strlen(id))) {
		rest_sandbox(c, fork_it);
		return;
	}
	(void)err_set(&e, ERR_INVALID_ARGUMENT, 0,
		      "'id' is not valid: 1 to 64 letters, digits, '-' and '_'");
	(void)err_set_member(&e, "id");
	rest_fail(c, &e);
}
