/* SPDX-License-Identifier: Apache-2.0 */
/* One order at a worker, from the row that it begins with to the row that says how it ended. The worker has neither credentials nor
 * secrets: it says which objects it wants, and gets addresses for these alone. */
#include "fleet/router/moves.h"

#include "base/base64.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_VALUES 8192u
#define ANSWER_DEPTH  6u
#define KEEPS_MAX     (SNAPSHOT_GENERATIONS_MAX + 1)
#define DISK_MORE                                                                                  \
	(UINT64_C(512)                                                                             \
	 << 20) /* that a disk is larger than the limit of its files: inodes, journal, reserve */

_Static_assert(STORE_OBJECTS_BYTES == SNAPSHOT_BITS_BYTES, "one kind of bits");

static void wipe(struct buf *b)
{
	if (b->data)
		sodium_memzero(b->data, b->cap);
	buf_done(b);
}

/* ---- life ---- */

static struct moves_worker *worker_of(const struct move *x)
{
	list_for_each(l, &x->m->workers) {
		struct moves_worker *w = list_entry(l, struct moves_worker, node);

		if (streq(w->worker->id, x->worker))
			return w;
	}
	return NULL;
}

void move_drop(struct move *x)
{
	struct moves_worker *w = worker_of(x);

	if (x->save && w) {
		w->n_moves--;
		w->again_ns = MIN(w->again_ns, now_ns() + MOVES_RETRY_NS);
	}
	x->fetch = fetch_drop(x->fetch);
	list_remove(&x->node);
	x->m = NULL;
	if (x->works)
		return;
	free(x->keeps);
	free(x);
}

static void fail(struct move *x, const struct err *e)
{
	struct moves *m = x->m;
	struct load *load = x->load;

	const bool later = e->code == ERR_SANDBOX_IN_USE || e->code == ERR_STORE_BUSY;

	if (later)
		LOG_DEBUG("move_put_off", LOG_S("session_id", x->row.id), LOG_S("error", e->text));
	else
		LOG_WARNING("move_failed", LOG_S("session_id", x->row.id),
			    LOG_S("order", x->save ? "save" : "load"), LOG_S("worker", x->worker),
			    LOG_S("error", e->text));
	m->outcomes[x->save][later ? MOVE_PUT_OFF : MOVE_FAILED]++;
	/* One that is used is told anew when it rests. */
	if (x->save && e->code != ERR_SANDBOX_IN_USE)
		moves_note_recent(m, x->row.incarnation, x->worker);
	if (x->order[0]) {
		char path[64];
		(void)snprintf(path, sizeof(path), "/fleet/orders/%s/end", x->order);
		moves_tell(m, x->worker, path, json_pack("{s:i, s:b}", "v", 1, "keep", 0));
	}
	move_drop(x);
	if (load)
		load_ended(load, -EIO, e);
}

static void fail_text(struct move *x, enum err_code code, const char *text)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, code, 0, "%s", text);
	fail(x, &e);
}

static void finish(struct move *x)
{
	struct moves *m = x->m;
	struct load *load = x->load;
	char path[64];

	LOG_INFO("sandbox_moved", LOG_S("session_id", x->row.id),
		 LOG_S("order", x->save ? "save" : "load"), LOG_S("worker", x->worker),
		 LOG_U("epoch", x->row.epoch), LOG_U("bytes", x->bytes));
	(void)snprintf(path, sizeof(path), "/fleet/orders/%s/end", x->order);
	moves_tell(m, x->worker, path, json_pack("{s:i, s:b}", "v", 1, "keep", 1));
	m->outcomes[x->save][MOVE_DONE]++;
	move_drop(x);
	if (load)
		load_ended(load, 0, NULL);
}

/* ---- jobs ---- */

static void on_job(struct job *j, bool closed UNUSED)
{
	struct move *x = CONTAINER_OF(j, struct move, job);

	x->works = false;
	if (!x->m) {
		free(x->keeps);
		free(x);
	} else if (j->r < 0) {
		fail(x, &j->e);
	} else {
		x->progress_ns = now_ns();
		x->next(x);
	}
}

static void run(struct move *x, void (*fn)(struct job *j), void (*next)(struct move *x))
{
	x->job = (struct job){.fn = fn, .done = on_job};
	x->next = next;
	x->works = true;
	if (moves_run(x->m, &x->job) < 0) {
		x->works = false;
		fail_text(x, ERR_SERVER_BUSY, "too much waits for a thread");
	}
}

/* ---- the answer of a worker ---- */

/* The code and text of a problem. */
static void problem(const struct fetch_answer *a, struct err *e)
{
	json_t *root = NULL;
	const char *code = NULL, *detail = NULL;

	(void)err_set(e, ERR_NODE_UNREACHABLE, 0, "the worker does not answer: %s",
		      a->why ? a->why : "it refuses");
	if (a->status == 0 || fetch_json(a, 64, 4, &root) < 0)
		return;
	(void)json_unpack(root, "{s?s, s?s}", "code", &code, "detail", &detail);
	for (int i = 0; code && i < ERR_CODE_MAX_; i++)
		if (streq(err_code_name((enum err_code)i), code))
			(void)err_set(e, (enum err_code)i, 0, "%.200s", detail ? detail : code);
	json_decref(root);
}

static void on_addresses(const struct fetch_answer *a, void *user)
{
	struct move *x = user;
	struct err e = ERR_INIT;

	x->fetch = NULL;
	if (a->status / 100 == 2)
		return;
	/* What it wanted may have changed meanwhile: its state says more. */
	problem(a, &e);
	if (a->status == 0 || a->status == 404)
		fail(x, &e);
}

static void send_addresses(struct move *x)
{
	json_t *list = json_array();
	char path[64];
	struct err e = ERR_INIT;
	int r = 0;

	for (unsigned i = 0; i < x->n_wants && r == 0; i++) {
		const struct snapshot_place *at = &x->wants[i];
		_cleanup_(buf_done) struct buf address = BUF_INIT(OBJECTS_ADDRESS_MAX);

		r = moves_sign(x->m, x->save ? "PUT" : "GET", x->row.incarnation, at->epoch,
			       at->generation, at->index, x->save ? at->len : OBJECTS_LENGTH_ANY,
			       &address, &e);
		(void)json_array_append_new(list,
					    json_pack("[I, I, I, s]", (json_int_t)at->epoch,
						      (json_int_t)at->generation,
						      (json_int_t)at->index, buf_str(&address)));
	}
	if (r < 0) {
		json_decref(list);
		fail(x, &e);
		return;
	}
	(void)snprintf(path, sizeof(path), "/fleet/orders/%s/addresses", x->order);
	x->fetch =
	    moves_request(x->m, x->worker, "POST", path,
			  json_pack("{s:i, s:o}", "v", 1, "addresses", list), on_addresses, x);
	if (!x->fetch)
		fail_text(x, ERR_NODE_UNREACHABLE, "the worker is gone");
}

static void note_stored(struct job *j)
{
	struct move *x = CONTAINER_OF(j, struct move, job);
	struct store_objects o = {.epoch = x->row.epoch, .generation = x->row.generation};
	struct store *s = moves_store_begin(j);

	for (unsigned i = 0; i < x->n_wants; i++)
		o.bits[x->wants[i].index / 8] |= (uint8_t)(1u << (x->wants[i].index % 8));
	if (s)
		j->r =
		    store_snapshot_fits(s, &x->row, MAX(x->bytes, x->put_bytes),
					j->m->config.user_bytes, j->m->config.total_bytes, &j->e);
	if (s && j->r >= 0)
		j->r = store_snapshot_stored(s, x->row.incarnation, &o, &j->e);
	moves_store_end(j);
}

static bool read_want(struct move *x, const json_t *one, struct snapshot_place *ret)
{
	json_int_t epoch, generation, index, len;

	if (json_unpack((json_t *)(uintptr_t)one, "[I, I, I, I !]", &epoch, &generation, &index,
			&len) < 0 ||
	    epoch < 0 || generation < 1 || index < 0 || len < 1 || len > SNAPSHOT_OBJECT_MAX ||
	    epoch > STORE_EPOCH_MAX || generation > STORE_EPOCH_MAX || index > SNAPSHOT_MANIFEST ||
	    (x->save && (epoch != x->row.epoch || generation != x->row.generation)))
		return false;
	*ret = (struct snapshot_place){.epoch = (uint32_t)epoch,
				       .generation = (uint32_t)generation,
				       .index = (uint32_t)index,
				       .len = (uint64_t)len};
	return true;
}

static void on_wants(const struct fetch_answer *a, void *user)
{
	struct move *x = user;
	json_t *root = NULL, *one;
	size_t i;

	x->fetch = NULL;
	if (a->status != 200 || fetch_json(a, ANSWER_VALUES, ANSWER_DEPTH, &root) < 0) {
		struct err e = ERR_INIT;
		problem(a, &e);
		fail(x, &e);
		return;
	}
	x->n_wants = 0;
	bool ok = true;
	json_array_foreach(json_object_get(root, "wants"), i, one) {
		if (x->n_wants == MOVE_WANTS)
			break;
		ok = ok && read_want(x, one, &x->wants[x->n_wants]);
		x->put_bytes += ok && x->save ? x->wants[x->n_wants].len : 0;
		x->n_wants += ok;
	}
	json_decref(root);
	if (!ok)
		fail_text(x, ERR_NODE_REFUSES, "the worker wants what is not of this order");
	else if (x->n_wants > 0 && x->save)
		run(x, note_stored, send_addresses);
	else if (x->n_wants > 0)
		send_addresses(x);
}

static void note_saved(struct job *j)
{
	struct move *x = CONTAINER_OF(j, struct move, job);
	struct store *s = moves_store_begin(j);

	if (s)
		j->r = store_snapshot_saved(s, &x->row, x->keeps, x->n_keeps, &j->e);
	if (s && j->r == 0)
		j->r = err_set(&j->e, ERR_STORE_BUSY, EBUSY, "another worker has it now");
	moves_store_end(j);
}

static void note_here(struct job *j)
{
	struct move *x = CONTAINER_OF(j, struct move, job);
	struct store *s = moves_store_begin(j);

	if (s)
		j->r = store_snapshot_here(s, x->row.incarnation, x->row.epoch, &j->e);
	if (s && j->r == 0)
		j->r = err_set(&j->e, ERR_STORE_BUSY, EBUSY, "another worker has it now");
	moves_store_end(j);
}

static bool read_keep(const json_t *one, struct store_objects *ret)
{
	json_int_t epoch, generation;
	const char *text;
	size_t len = 0;

	if (json_unpack((json_t *)(uintptr_t)one, "[I, I, s !]", &epoch, &generation, &text) < 0 ||
	    epoch < 0 || epoch > STORE_EPOCH_MAX || generation < 1 ||
	    generation > STORE_EPOCH_MAX ||
	    sodium_base642bin(ret->bits, sizeof(ret->bits), text, strlen(text), NULL, &len, NULL,
			      sodium_base64_VARIANT_ORIGINAL) != 0 ||
	    len != sizeof(ret->bits))
		return false;
	ret->epoch = (uint32_t)epoch;
	ret->generation = (uint32_t)generation;
	return true;
}

static bool read_result(struct move *x, const json_t *o)
{
	const char *hash = json_string_value(json_object_get(o, "hash"));
	const json_t *keeps = json_object_get(o, "keeps"), *one;
	size_t i;

	if (!hash || strlen(hash) != STORE_HASH_TEXT_SIZE - 1 ||
	    strspn(hash, "0123456789abcdef") != strlen(hash) || !json_is_array(keeps) ||
	    json_array_size(keeps) > KEEPS_MAX)
		return false;
	(void)!text_copy(x->row.hash, sizeof(x->row.hash), hash);
	x->keeps = calloc(KEEPS_MAX, sizeof(*x->keeps));
	json_array_foreach(keeps, i, one)
		if (!x->keeps || !read_keep(one, &x->keeps[x->n_keeps++]))
			return false;
	x->row.bytes = MAX(x->bytes, x->put_bytes);
	return true;
}

static void take_failure(struct move *x, const json_t *o)
{
	const char *code = "", *text = "";
	struct err e = ERR_INIT;

	(void)json_unpack((json_t *)(uintptr_t)json_object_get(o, "error"), "{s:s, s:s}", "code",
			  &code, "text", &text);
	(void)err_set(&e, ERR_NODE_REFUSES, 0, "the worker says: %.200s", text);
	for (int i = 0; i < ERR_CODE_MAX_; i++)
		if (streq(err_code_name((enum err_code)i), code))
			e.code = (enum err_code)i;
	fail(x, &e);
}

static void take_state(struct move *x, const json_t *o)
{
	const char *state = json_string_value(json_object_get(o, "state"));
	const json_int_t wants = json_integer_value(json_object_get(o, "wants"));
	const json_int_t bytes = json_integer_value(json_object_get(o, "bytes"));
	char path[64];

	x->bytes = bytes > 0 ? (uint64_t)bytes : x->bytes;
	if (!state || streq(state, "failed")) {
		take_failure(x, o);
	} else if (streq(state, "done") && x->save) {
		if (read_result(x, o))
			run(x, note_saved, finish);
		else
			fail_text(x, ERR_NODE_REFUSES, "the worker tells no result");
	} else if (streq(state, "done")) {
		run(x, note_here, finish);
	} else if (wants > 0) {
		(void)snprintf(path, sizeof(path), "/fleet/orders/%s/wants", x->order);
		x->fetch = moves_request(x->m, x->worker, "GET", path, NULL, on_wants, x);
	}
}

static void on_state(const struct fetch_answer *a, void *user)
{
	struct move *x = user;
	json_t *root = NULL, *one;
	const json_t *mine = NULL;
	size_t i;

	x->fetch = NULL;
	if (a->status != 200 || fetch_json(a, ANSWER_VALUES, ANSWER_DEPTH, &root) < 0)
		return; /* it is asked again, until it has not answered for long */
	json_array_foreach(json_object_get(root, "orders"), i, one) {
		const char *name = json_string_value(json_object_get(one, "order"));
		if (name && streq(name, x->order))
			mine = one;
	}
	x->progress_ns = now_ns(); /* a worker has limits of its own for each object */
	if (mine)
		take_state(x, mine);
	else
		fail_text(x, ERR_NODE_LOST, "the worker has forgotten the order");
	json_decref(root);
}

/* ---- the beginning ---- */

static void on_begun(const struct fetch_answer *a, void *user)
{
	struct move *x = user;
	json_t *root = NULL;
	const char *name = NULL;
	struct err e = ERR_INIT;

	x->fetch = NULL;
	if (a->status == 202 && fetch_json(a, 64, 4, &root) == 0)
		name = json_string_value(json_object_get(root, "order"));
	if (name && strlen(name) < sizeof(x->order) &&
	    strspn(name, "0123456789abcdef") == strlen(name)) {
		(void)!text_copy(x->order, sizeof(x->order), name);
		x->progress_ns = now_ns();
	} else {
		problem(a, &e);
		fail(x, &e);
	}
	json_decref(root);
}

static void key_of(const struct move *x, char ret[64])
{
	struct snapshot_id id = {0};
	uint8_t key[SNAPSHOT_KEY_BYTES];

	(void)!text_copy(id.id, sizeof(id.id), x->row.id);
	(void)!text_copy(id.owner, sizeof(id.owner), x->row.owner);
	(void)!text_copy(id.incarnation, sizeof(id.incarnation), x->row.incarnation);
	snapshot_key(x->m->secret, sizeof(x->m->secret), &id, key);
	(void)sodium_bin2base64(ret, 64, key, sizeof(key), sodium_base64_VARIANT_ORIGINAL);
	sodium_memzero(key, sizeof(key));
}

/* What both kinds of order have. */
static json_t *words(struct move *x, const char *kind)
{
	char key[64];

	key_of(x, key);
	json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:s}", "v", 1, "kind", kind, "id",
			      x->row.id, "owner", x->row.owner, "incarnation", x->row.incarnation,
			      "epoch", (json_int_t)x->row.epoch, "key", key);
	sodium_memzero(key, sizeof(key));
	return o;
}

static int sign_manifest(struct move *x, struct buf *ret, struct err *e)
{
	return moves_sign(x->m, "GET", x->row.incarnation, x->row.snap_epoch,
			  x->row.snap_generation, SNAPSHOT_MANIFEST, OBJECTS_LENGTH_ANY, ret, e);
}

static void begin(struct move *x)
{
	_cleanup_(wipe) struct buf address = BUF_INIT(OBJECTS_ADDRESS_MAX);
	const bool has = x->row.snap_generation > 0;
	char proof[STORE_PROOF_SIZE];
	const uint64_t most = x->row.disk_bytes + x->row.disk_bytes / 8 + DISK_MORE;
	struct err e = ERR_INIT;
	json_t *o = words(x, x->save ? "save" : "load");

	moves_proof(x->m, x->row.incarnation, x->row.epoch, x->worker, proof);

	if (has && sign_manifest(x, &address, &e) < 0) {
		json_decref(o);
		fail(x, &e);
		return;
	}
	json_t *base =
	    has ? json_pack("{s:I, s:I, s:s, s:s}", "epoch", (json_int_t)x->row.snap_epoch,
			    "generation", (json_int_t)x->row.snap_generation, "hash", x->row.hash,
			    "address", buf_str(&address))
		: json_null();
	if (x->save)
		(void)json_object_update_new(o, json_pack("{s:I, s:I, s:o}", "generation",
							  (json_int_t)x->row.generation, "change",
							  (json_int_t)x->change, "base", base));
	else
		(void)json_object_update_new(
		    o,
		    json_pack("{s:I, s:I, s:s, s:s, s:I, s:s}", "snap_epoch",
			      (json_int_t)x->row.snap_epoch, "generation",
			      (json_int_t)x->row.snap_generation, "hash", x->row.hash, "address",
			      buf_str(&address), "disk_bytes", (json_int_t)most, "proof", proof));
	if (!x->save)
		json_decref(base);
	x->fetch = moves_request(x->m, x->worker, "POST", "/fleet/orders", o, on_begun, x);
	if (!x->fetch)
		fail_text(x, ERR_NODE_UNREACHABLE, "the worker is gone");
}

static void begin_row(struct job *j)
{
	struct move *x = CONTAINER_OF(j, struct move, job);
	const struct store_snapshot want = x->row;
	struct store *s = moves_store_begin(j);

	if (s)
		j->r = store_snapshot_begin(s, &want, &x->row, &j->e);
	moves_store_end(j);
}

static struct move *move_new(struct moves *m, const char *worker, bool save)
{
	struct move *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->m = m;
	x->save = save;
	x->progress_ns = now_ns();
	(void)!text_copy(x->worker, sizeof(x->worker), worker);
	list_append(&m->moves, &x->node);
	(void)sd_event_source_set_time_relative(m->fast, 50 * 1000);
	(void)sd_event_source_set_enabled(m->fast, SD_EVENT_ONESHOT);
	return x;
}

void move_save(struct moves_worker *w, const struct store_moving *row)
{
	struct move *x = move_new(w->moves, w->worker->id, true);

	if (!x)
		return;
	w->n_moves++;
	(void)!text_copy(x->row.incarnation, sizeof(x->row.incarnation), row->incarnation);
	(void)!text_copy(x->row.id, sizeof(x->row.id), row->id);
	(void)!text_copy(x->row.owner, sizeof(x->row.owner), row->owner);
	(void)!text_copy(x->row.worker, sizeof(x->row.worker), w->worker->id);
	x->row.epoch = row->epoch;
	x->row.disk_bytes = row->disk_bytes;
	x->change = row->change;
	run(x, begin_row, begin);
}

int move_load(struct moves *m, const struct store_snapshot *row, const char *worker,
	      struct load *load)
{
	struct move *x = move_new(m, worker, false);

	if (!x)
		return -ENOMEM;
	x->row = *row;
	x->load = load;
	begin(x);
	return 0;
}

void moves_step(struct moves *m)
{
	const uint64_t now = now_ns();
	char path[64];

	list_for_each(l, &m->moves) {
		struct move *x = list_entry(l, struct move, node);

		if (x->fetch || x->works)
			continue;
		if (now - x->progress_ns > MOVES_STUCK_NS || !x->order[0]) {
			fail_text(x, ERR_TIMEOUT, "the order does not go on");
			continue;
		}
		(void)snprintf(path, sizeof(path), "/fleet/orders?order=%s", x->order);
		x->fetch = moves_request(m, x->worker, "GET", path, NULL, on_state, x);
		if (!x->fetch)
			fail_text(x, ERR_NODE_UNREACHABLE, "the worker is gone");
	}
}
