/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with a JSON body. A thread writes the text of a large one. */
#include "api/rest/rest.h"

#include "base/jsonio.h"
#include "base/loop.h"
#include "base/workers.h"

#define ANSWER_MAX (1u << 30)
#define LARGE_BODY (64u << 10) /* bytes; less takes the loop well below a millisecond */

struct writing {
	struct rest_call *call;
	int status;
	json_t *body; /* owned */
	struct buf text;
	int failed;
};

static void write_body(void *user)
{
	struct writing *w = user;

	w->failed = jsonio_add(&w->text, w->body, JSON_COMPACT);
	json_decref(w->body);
}

static void on_body(void *user)
{
	struct writing *w = user;

	loop_work("http", w->call->route->path);
	if (w->failed < 0)
		rest_refuse(w->call, ERR_OUT_OF_MEMORY, "no memory");
	else
		rest_reply_text(w->call, w->status, &w->text);
	buf_done(&w->text);
	free(w);
}

static void reply_large(struct rest_call *c, int status, json_t *body)
{
	struct writing *w = malloc(sizeof(*w));
	struct err e = ERR_INIT;
	int r = w ? 0 : -ENOMEM;

	if (w) {
		*w = (struct writing){
		    .call = c, .status = status, .body = body, .text = BUF_INIT(ANSWER_MAX)};
		r = workers_run(c->owner, write_body, on_body, w);
	}
	if (r == 0)
		return;
	free(w);
	json_decref(body);
	(void)workers_refused(r, &e);
	rest_fail(c, &e);
}

void rest_reply(struct rest_call *c, int status, json_t *body)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(ANSWER_MAX);
	const struct store *s = c->api->config.store;

	/* What owes something to the disk is a change, whose answer is short. */
	if (body && !(s && store_owes(s)) && jsonio_size(body, LARGE_BODY) > LARGE_BODY) {
		reply_large(c, status, body);
		return;
	}
	const int r = body ? jsonio_add(&text, body, JSON_COMPACT) : 0;
	json_decref(body);
	if (r < 0)
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
	else
		rest_reply_text(c, status, &text);
}
