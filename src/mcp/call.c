/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a call, and what handlers can do with it before they finish it. */
#include "mcp/objects.h"

#include "base/promise.h"

#include <stdarg.h>
#include <stdio.h>

static json_t *meta_of(const json_t *params)
{
	json_t *meta = json_object_get(params, "_meta");

	return json_is_object(meta) ? meta : NULL;
}

struct mcp_call *call_new(struct mcp_peer *peer, json_t *message, enum mcp_era era)
{
	struct mcp_call *c = calloc(1, sizeof(*c));
	json_t *token;

	if (!c)
		return NULL;
	c->refs = 1;
	c->modern = era == MCP_ERA_MODERN;
	c->checking = c->modern;
	c->server = peer->server;
	c->peer = peer;
	c->transport = peer->transport;
	c->who = peer->who;
	c->who->refs++;
	c->base = peer->base ? strdup(peer->base) : NULL;
	c->root = json_incref(message);
	c->id = json_incref(json_object_get(message, "id"));
	c->params = json_object_get(message, "params");
	token = json_object_get(meta_of(c->params), "progressToken");
	if (json_is_string(token) || json_is_number(token))
		c->token = token;
	if (c->modern) {
		c->revision = MCP_REV_2026_07_28;
		c->level = -1;
	} else {
		c->revision = peer->revision ? peer->revision : MCP_REV_LEGACY_MAX;
		c->level = (int)peer->level;
		c->client_caps = json_incref(peer->client_caps);
	}
	list_init(&c->listen_node);
	list_append(&peer->calls, &c->node);
	peer->n_calls++;
	return c;
}

struct mcp_call *mcp_call_ref(struct mcp_call *c)
{
	c->refs++;
	return c;
}

struct mcp_call *mcp_call_unref(struct mcp_call *c)
{
	if (!c || --c->refs > 0)
		return NULL;
	ASSERT(c->finished);
	if (c->data_free)
		c->data_free(c->data);
	json_decref(c->id);
	json_decref(c->client_caps);
	json_decref(c->arguments);
	free(c->remark);
	free(c->base);
	json_decref(c->inputs);
	json_decref(c->state);
	json_decref(c->listen);
	json_decref(c->root);
	budget_give(&c->memory);
	budget_give(&c->stream);
	budget_give(&c->subscribed);
	spill_unref(c->spill);
	item_unref(c->item);
	identity_unref(c->who);
	free(c);
	return NULL;
}

void call_leave_peer(struct mcp_call *c)
{
	if (!c->peer)
		return;
	list_remove(&c->node);
	c->peer->n_calls--;
	c->peer = NULL;
}

bool call_is_open(const struct mcp_call *c, json_t *unused)
{
	if (PROMISE(!c->finished))
		return true;
	json_decref(unused);
	return false;
}

void call_end(struct mcp_call *c)
{
	ASSERT(!c->finished);
	c->finished = true;
	c->on_cancel = NULL;
	ask_drop(c);
	listen_remove(c);
	call_leave_peer(c);
	c->sink = NULL;
	c->task = NULL;
	mcp_call_unref(c);
}

const char *call_param(const struct mcp_call *c, const char *key, size_t max)
{
	const json_t *v = json_object_get(c->params, key);
	const char *text = json_string_value(v);
	size_t len = json_string_length(v);

	return text && len <= max && strlen(text) == len ? text : NULL;
}

void mcp_call_set_arguments(struct mcp_call *c, json_t *arguments)
{
	json_decref(c->arguments);
	c->arguments = arguments;
}

void mcp_call_remark(struct mcp_call *c, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	free(c->remark);
	c->remark = text;
}

/* ---- notifications of a call ---- */

void call_notify(struct mcp_call *c, const char *method, json_t *params)
{
	json_t *message = wire_notification(method, params);
	char *text = NULL;
	size_t len = 0;

	if (message && c->sink)
		text = wire_text(message, &len);
	json_decref(message);
	if (text)
		c->sink->ops->send(c->sink, MCP_OUT_NOTIFICATION, text, len);
}

static bool is_listening(const struct mcp_call *c)
{
	return c->sink && !c->finished && !c->cancelled && !c->task &&
	       !(c->sink->ops->congested && c->sink->ops->congested(c->sink));
}

bool mcp_call_wants_progress(const struct mcp_call *c)
{
	return c->token && c->sink && !c->finished && !c->cancelled && !c->task;
}

/* Whole numbers are sent without a fraction: 50, not 50.0. */
static json_t *number(double d)
{
	const double exact = 9007199254740992.0; /* 2^53 */

	if (d > -exact && d < exact) {
		double whole = (double)(json_int_t)d;

		if (!(d < whole) && !(d > whole))
			return json_integer((json_int_t)d);
	}
	return json_real(d);
}

void mcp_call_progress(struct mcp_call *c, double progress, double total, const char *message)
{
	json_t *p;

	if (!c->token || !is_listening(c) || (c->has_progress && !(progress > c->progress)))
		return;
	p = json_pack("{s:O,s:o}", "progressToken", c->token, "progress", number(progress));
	if (!p)
		return; /* not a finite number */
	if (total >= 0)
		json_object_set_new(p, "total", number(total));
	if (message && c->revision >= MCP_REV_2025_03_26)
		json_object_set_new(p, "message", json_string(message));
	c->has_progress = true;
	c->progress = progress;
	call_notify(c, "notifications/progress", p);
}

void mcp_server_tell_waiting(struct mcp_server *s, double progress, const char *message)
{
	list_for_each(p, &s->peers)
		list_for_each(c, &list_entry(p, struct mcp_peer, node)->calls)
			mcp_call_progress(list_entry(c, struct mcp_call, node), progress, -1,
					  message);
}

bool mcp_call_logs(const struct mcp_call *c, enum mcp_level level)
{
	return c->level >= 0 && (int)level >= c->level && is_listening(c) &&
	       (c->server->config.offers & MCP_OFFER_LOGGING);
}

void mcp_call_log(struct mcp_call *c, enum mcp_level level, const char *logger, json_t *data)
{
	json_t *p;

	if (!mcp_call_logs(c, level)) {
		json_decref(data);
		return;
	}
	p = json_pack("{s:s,s:o}", "level", level_name(level), "data", data);
	if (p && logger)
		json_object_set_new(p, "logger", json_string(logger));
	if (p)
		call_notify(c, "notifications/message", p);
}

/* ---- cancelling ---- */

void mcp_call_on_cancel(struct mcp_call *c, mcp_cancel_fn cb, void *user)
{
	if (c->cancelled && cb && !c->finished) {
		cb(c, user);
		return;
	}
	c->on_cancel = cb;
	c->on_cancel_user = user;
}

const char *mcp_call_base(const struct mcp_call *c)
{
	return c->base;
}

bool mcp_call_is_cancelled(const struct mcp_call *c)
{
	return c->cancelled;
}

void call_cancel(struct mcp_call *c)
{
	mcp_cancel_fn cb = c->on_cancel;

	if (c->finished || c->cancelled)
		return;
	c->cancelled = true;
	mcp_call_ref(c);
	if (c->sink || c->batch)
		call_deliver(c, 200, NULL, 0);
	if (c->waiting) {
		/* No handler runs that would finish it. */
		mcp_call_finish_error(c, MCP_ERR_INTERNAL, "Cancelled", NULL);
	} else if (cb) {
		c->on_cancel = NULL;
		cb(c, c->on_cancel_user);
	}
	mcp_call_unref(c);
}

void mcp_call_close_stream(struct mcp_call *c, unsigned retry_ms)
{
	if (c->sink && !c->batch && !c->modern && c->sink->ops->detach)
		c->sink->ops->detach(c->sink, retry_ms);
}

/* ---- what handlers ask ---- */

const char *mcp_call_principal(const struct mcp_call *c)
{
	return c->who->principal;
}

const void *mcp_call_principal_data(const struct mcp_call *c)
{
	return c->who->data;
}

void mcp_call_set_data(struct mcp_call *c, void *data, void (*free_fn)(void *))
{
	if (c->data_free && c->data != data)
		c->data_free(c->data);
	c->data = data;
	c->data_free = free_fn;
}

json_t *mcp_call_meta(const struct mcp_call *c)
{
	return meta_of(c->params);
}

bool mcp_call_is_on_stdio(const struct mcp_call *c)
{
	return c->peer && c->peer->transport == MCP_TRANSPORT_STDIO;
}

const char *mcp_call_client_name(const struct mcp_call *c)
{
	const json_t *info = json_object_get(mcp_call_meta(c), META_CLIENT_INFO);
	const char *name = json_string_value(json_object_get(info, "name"));

	if (c->modern)
		return name ? name : "";
	return c->peer ? c->peer->client_name : "";
}

bool mcp_call_client_has(const struct mcp_call *c, const char *path)
{
	const json_t *at = c->client_caps;

	while (*path && at) {
		size_t len = strcspn(path, ".");

		at = json_object_getn(at, path, len);
		path += len + (path[len] == '.');
	}
	return json_is_object(at) || json_is_true(at);
}

json_t *mcp_call_client_extension(const struct mcp_call *c, const char *id)
{
	return json_object_get(json_object_get(c->client_caps, "extensions"), id);
}

int mcp_call_text(const struct mcp_call *c, const json_t *string, struct mcp_text_ref *ret)
{
	if (!json_is_string(string))
		return -EINVAL;
	if (spill_find(c->spill, json_string_value(string), json_string_length(string), ret))
		return 0;
	*ret = (struct mcp_text_ref){
	    .text = json_string_value(string),
	    .len = json_string_length(string),
	    .fd = -1,
	};
	return 0;
}

const char *mcp_text_arg(const struct mcp_call *c, const json_t *arguments, const char *key)
{
	struct mcp_text_ref ref;

	if (mcp_call_text(c, json_object_get(arguments, key), &ref) < 0 || !ref.text)
		return NULL;
	return strlen(ref.text) == ref.len ? ref.text : NULL;
}
