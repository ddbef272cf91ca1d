/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rest/idempotency.h"

#include "base/rand.h"
#include "base/text.h"

#include <sodium.h>
#include <string.h>

#define IDEM_NS      (24 * 3600 * NS_PER_S)
#define IDEM_KEY_MAX 255
#define HASH_BYTES   32

/* A request with an Idempotency-Key. */
struct idem {
	struct list node;         /* of the list of the caller */
	uint8_t key[HASH_BYTES];  /* hash of caller, owner, route and Idempotency-Key */
	uint8_t body[HASH_BYTES]; /* hash of the request's body */
	uint64_t since_ns;
	struct budget_share place, bytes;
	char owner[STORE_OWNER_SIZE];
	bool running;
	int status;
	struct shared_bytes *answer; /* reference: JSON text */
	bool forgotten;              /* its answer was dropped to save memory */
};

static void forget_answer(struct idem *i)
{
	i->answer = shared_bytes_unref(i->answer);
	i->forgotten = true;
	budget_give(&i->bytes);
}

/* Takes room for the answer of I, which will have LEN bytes. If there is none, ended runs of the same user are
 * forgotten, then older answers, the oldest first, and at last this one: false. */
static bool take_room(struct api *a, struct list *idems, struct idem *i, size_t len)
{
	struct err e = ERR_INIT;

	while (budget_take(a->config.budgets, i->owner, BUDGET_KEPT_BYTES, len, &i->bytes, &e) <
	       0) {
		struct idem *oldest = i;

		if (runs_forget_oldest(a, i->owner, NULL))
			continue;

		list_for_each(l, idems) { /* newest first */
			struct idem *other = list_entry(l, struct idem, node);

			if (other->answer && streq(other->owner, i->owner))
				oldest = other;
		}
		forget_answer(oldest);
		if (oldest == i)
			return false;
	}
	return true;
}

void idem_keep_answer(struct rest_call *c, struct list *idems, int status)
{
	if (!c->idem)
		return;
	if (c->answer && take_room(c->api, idems, c->idem, c->answer->len))
		c->idem->answer = shared_bytes_ref(c->answer);
	c->idem->status = status;
	/* Not kept: a server that was full may have room at the next try. */
	c->idem->running = status >= 500 || status == 429;
}

static void hash_parts(const char *const *parts, size_t n, uint8_t ret[HASH_BYTES])
{
	crypto_generichash_state state;

	(void)crypto_generichash_init(&state, NULL, 0, HASH_BYTES);
	for (size_t i = 0; i < n; i++) {
		const char *part = parts[i] ? parts[i] : "";

		(void)crypto_generichash_update(&state, (const uint8_t *)part, strlen(part) + 1);
	}
	(void)crypto_generichash_final(&state, ret, HASH_BYTES);
}

static void idem_free(struct idem *i)
{
	budget_give(&i->place);
	budget_give(&i->bytes);
	list_remove(&i->node);
	(void)shared_bytes_unref(i->answer);
	free(i);
}

/* Drops requests that are too old, or that have no answer to repeat; those that are still running stay. */
static void sweep(struct list *idems)
{
	uint64_t now = now_ns();

	list_for_each(l, idems) {
		struct idem *i = list_entry(l, struct idem, node);

		if (!i->running && (i->since_ns + IDEM_NS <= now || i->since_ns == 0))
			idem_free(i);
	}
}

/* Takes a place for I. At the bound the oldest request of the same user makes room. */
static int take_place(struct api *a, struct list *idems, struct idem *i, struct err *e)
{
	int r;

	while ((r = budget_take(a->config.budgets, i->owner, BUDGET_IDEMPOTENCY_KEYS, 1, &i->place,
				e)) < 0) {
		struct idem *oldest = NULL;

		list_for_each(l, idems) { /* newest first */
			struct idem *other = list_entry(l, struct idem, node);

			if (!other->running && streq(other->owner, i->owner))
				oldest = other;
		}
		if (!oldest)
			return r;
		idem_free(oldest);
	}
	return 0;
}

static void replay(struct rest_call *c, const struct idem *i)
{
	struct http_request *req = rest_give(c);

	(void)http_add_header(req, "Idempotent-Replayed", "true");
	if (i->answer)
		http_respond_bytes(req, i->status, "application/json", i->answer);
	else
		http_respond_text(req, i->status, "application/json", "");
}

bool idem_begin(struct rest_call *c, struct list *idems)
{
	const char *given = http_request_header(c->req, "idempotency-key");
	uint8_t key[HASH_BYTES], body[HASH_BYTES];

	if (!given || !(c->route->flags & REST_IDEMPOTENT))
		return true;
	if (!*given || strlen(given) > IDEM_KEY_MAX) {
		rest_refuse(c, ERR_INVALID_ARGUMENT, "Idempotency-Key has 1 to 255 bytes");
		return false;
	}
	const char *parts[] = {c->who->owner, c->owner, c->route->id, http_request_path(c->req),
			       given};
	hash_parts(parts, ARRAY_SIZE(parts), key);
	parts[0] = http_request_body(c->req, NULL);
	hash_parts(parts, 1, body);
	sweep(idems);
	list_for_each(l, idems) {
		const struct idem *i = list_entry(l, struct idem, node);

		if (memcmp(i->key, key, sizeof(key)) != 0)
			continue;
		if (memcmp(i->body, body, sizeof(body)) != 0)
			rest_refuse(c, ERR_ALREADY_EXISTS,
				    "this Idempotency-Key was used for another body");
		else if (i->running)
			rest_refuse(c, ERR_SESSION_BUSY,
				    "the first request with this key still runs");
		else if (i->forgotten)
			rest_refuse(c, ERR_ALREADY_EXISTS,
				    "this was done; its answer is not kept any more");
		else
			replay(c, i);
		return false;
	}
	struct idem *i = calloc(1, sizeof(*i));
	if (!i) {
		rest_refuse(c, ERR_OUT_OF_MEMORY, "no memory");
		return false;
	}
	list_init(&i->node);
	memcpy(i->owner, c->who->owner, sizeof(i->owner));
	struct err e = ERR_INIT;
	if (take_place(c->api, idems, i, &e) < 0) {
		idem_free(i);
		rest_fail(c, &e);
		return false;
	}
	memcpy(i->key, key, sizeof(key));
	memcpy(i->body, body, sizeof(body));
	i->since_ns = now_ns();
	i->running = true;
	list_prepend(idems, &i->node);
	c->idem = i;
	return true;
}

void idem_end(struct idem *i)
{
	if (!i)
		return;
	if (i->running)
		i->since_ns = 0; /* there is no answer to repeat */
	i->running = false;
}

void idem_forget_owner(struct list *idems, const char *owner)
{
	list_for_each(l, idems) {
		struct idem *i = list_entry(l, struct idem, node);

		if (!i->running && streq(i->owner, owner))
			idem_free(i);
	}
}

void idem_done(struct list *idems)
{
	list_for_each(l, idems)
		idem_free(list_entry(l, struct idem, node));
}
