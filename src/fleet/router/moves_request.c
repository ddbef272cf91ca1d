/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to workers about what moves, and what is not asked again for a while. */
#include "fleet/router/moves.h"

#include "base/rand.h"
#include "base/text.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS  10000u
#define ANSWER_MAX (1u << 20)

/* ---- requests ---- */

static int write_request(const struct worker *w, const char *method, const char *path, json_t *body,
			 struct buf *ret)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	int r = body && !text ? -ENOMEM : 0;

	r = r < 0 ? r
		  : buf_printf(ret, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n",
			       method, path, w->at.text);
	if (r >= 0 && text)
		r = buf_printf(ret,
			       "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
			       strlen(text), text);
	else if (r >= 0)
		r = buf_add_str(ret, "\r\n");
	if (text)
		sodium_memzero(text, strlen(text)); /* addresses and keys */
	free(text);
	return r;
}

static void wipe(struct buf *b)
{
	if (b->data)
		sodium_memzero(b->data, b->cap);
	buf_done(b);
}

struct fetch *moves_request(struct moves *m, const char *worker, const char *method,
			    const char *path, json_t *body, fetch_fn fn, void *user)
{
	struct worker *w = worker_find(m->router, worker);
	_cleanup_(wipe) struct buf text = BUF_INIT(ANSWER_MAX);
	const int r = w ? write_request(w, method, path, body, &text) : -ENOENT;

	json_decref(body);
	return r < 0 ? NULL : fetch_begin(w, buf_str(&text), ANSWER_MAX, ANSWER_MS, fn, user);
}

struct telling {
	struct list node; /* of moves.tellings */
	struct fetch *fetch;
};

static void on_told(const struct fetch_answer *a UNUSED, void *user)
{
	struct telling *t = user;

	list_remove(&t->node);
	free(t);
}

void moves_tell_none(struct moves *m)
{
	struct telling *t;

	while ((t = list_pop_first(&m->tellings, struct telling, node))) {
		(void)fetch_drop(t->fetch);
		free(t);
	}
}

void moves_tell(struct moves *m, const char *worker, const char *path, json_t *body)
{
	struct telling *t = calloc(1, sizeof(*t));

	if (!t) {
		json_decref(body);
		return;
	}
	t->fetch = moves_request(m, worker, "POST", path, body, on_told, t);
	if (t->fetch)
		list_append(&m->tellings, &t->node);
	else
		free(t);
}

/* ---- not so soon again ---- */

void moves_note_recent(struct moves *m, const char *incarnation, const char *worker)
{
	struct recent *x = &m->recent[m->last_recent++ % MOVES_RECENT];

	(void)!text_copy(x->incarnation, sizeof(x->incarnation), incarnation);
	(void)!text_copy(x->worker, sizeof(x->worker), worker);
	x->until_ns = now_ns() + MOVES_RETRY_NS;
}

bool moves_is_recent(const struct moves *m, const char *incarnation, const char *worker)
{
	const uint64_t now = now_ns();

	for (unsigned i = 0; i < MOVES_RECENT; i++)
		if (m->recent[i].until_ns > now && streq(m->recent[i].incarnation, incarnation) &&
		    streq(m->recent[i].worker, worker))
			return true;
	return false;
}

/* ---- what only routers can say ---- */

void moves_proof(const struct moves *m, const char *incarnation, uint32_t epoch, const char *worker,
		 char ret[STORE_PROOF_SIZE])
{
	uint8_t mac[(STORE_PROOF_SIZE - 1) / 2];
	char text[128];

	(void)snprintf(text, sizeof(text), "caisson epoch 1 %s %u %s", incarnation, epoch, worker);
	(void)crypto_generichash(mac, sizeof(mac), (const uint8_t *)text, strlen(text), m->secret,
				 sizeof(m->secret));
	(void)sodium_bin2hex(ret, STORE_PROOF_SIZE, mac, sizeof(mac));
}
