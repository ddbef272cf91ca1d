/* SPDX-License-Identifier: Apache-2.0 */
#include "api/json_body.h"

#include "base/jsonio.h"
#include "base/workers.h"

#include <stdlib.h>
#include <string.h>

typedef int (*read_fn)(const char *text, size_t len, size_t flags, json_t **ret);

static int read_on_loop(const char *text, size_t len, size_t flags, json_t **ret)
{
	return jsonio_read(text, len, flags, ret, NULL);
}

/* Any thread, if READ is for it. */
static json_t *read_text(read_fn read, const char *text, size_t len, struct err *e)
{
	static const unsigned char mark[] = {0xEF, 0xBB, 0xBF}; /* RFC 8259, section 8.1 */
	json_t *root = NULL;

	if (len >= sizeof(mark) && memcmp(text, mark, sizeof(mark)) == 0) {
		text += sizeof(mark);
		len -= sizeof(mark);
	}
	const size_t n = jsonio_count(text, len, API_BODY_VALUES_MAX, API_BODY_DEPTH_MAX);
	const int r =
	    n > 0 && n <= API_BODY_VALUES_MAX ? read(text, len, JSON_REJECT_DUPLICATES, &root) : 0;
	if (json_is_object(root))
		return root;
	json_decref(root);
	if (r == -ENOMEM)
		(void)err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the body");
	else if (n > API_BODY_VALUES_MAX)
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "the body has more than %u values",
			      API_BODY_VALUES_MAX);
	else
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "the body must be a JSON object");
	return NULL;
}

/* The text of the body; NULL with E set: it is not JSON. */
static const char *text_of(struct http_request *req, size_t *len, struct err *e)
{
	const char *text = http_request_body(req, len);

	if (*len == 0)
		return "";
	if (http_request_content_type_is(req, "application/json"))
		return text;
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "the body must be application/json");
	return NULL;
}

json_t *api_body(struct http_request *req, struct err *e)
{
	size_t len;
	const char *text = text_of(req, &len, e);

	if (!text)
		return NULL;
	return len > 0 ? read_text(read_on_loop, text, len, e) : json_object();
}

/* ---- long bodies ---- */

struct long_body {
	char *text; /* owned: a copy, as the request may go away */
	size_t len;
	struct budget_share share;
	json_t *body;
	struct err e;
	api_body_fn cb;
	void *user;
};

static void read_long(void *user)
{
	struct long_body *l = user;

	l->body = read_text(jsonio_read_on_thread, l->text, l->len, &l->e);
}

static void on_read(void *user)
{
	struct long_body *l = user;

	budget_give(&l->share);
	l->cb(l->body, l->body ? NULL : &l->e, l->user);
	free(l->text);
	free(l);
}

static int begin_long(const char *text, size_t len, struct budgets *budgets, const char *owner,
		      struct long_body *l, struct err *e)
{
	int r = budget_take(budgets, owner, BUDGET_MESSAGE_MEMORY, len, &l->share, e);

	if (r < 0)
		return r;
	l->text = malloc(len);
	if (!l->text)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the body");
	memcpy(l->text, text, len);
	l->len = len;
	r = workers_run(owner, read_long, on_read, l);
	return r < 0 ? workers_refused(r, e) : 0;
}

void api_read_body(struct http_request *req, struct budgets *budgets, const char *owner,
		   api_body_fn cb, void *user)
{
	struct err e = ERR_INIT;
	size_t len;
	const char *text = text_of(req, &len, &e);
	struct long_body *l = NULL;

	if (!text || len <= API_STRANGER_BODY_MAX) {
		json_t *body = text ? api_body(req, &e) : NULL;

		cb(body, body ? NULL : &e, user);
		return;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		(void)err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "the body");
		cb(NULL, &e, user);
		return;
	}
	l->cb = cb;
	l->user = user;
	if (begin_long(text, len, budgets, owner, l, &e) < 0) {
		budget_give(&l->share);
		free(l->text);
		free(l);
		cb(NULL, &e, user);
	}
}
