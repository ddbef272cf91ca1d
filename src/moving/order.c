/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an order: what follows what. */
#include "moving/order.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define WHO "moving" /* whose jobs these are (base/workers.h) */

struct order *order_new(void)
{
	struct order *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	list_init(&o->node);
	list_init(&o->addresses);
	o->disk = -1;
	buf_init(&o->record, SNAPSHOT_RECORD_MAX);
	buf_init(&o->manifest, SNAPSHOT_MANIFEST_MAX);
	return o;
}

static void wipe(struct buf *b)
{
	if (b->data)
		sodium_memzero(b->data, b->cap);
	buf_done(b);
}

struct order *order_free(struct order *o)
{
	struct address *a;

	if (!o)
		return NULL;
	while ((a = list_pop_first(&o->addresses, struct address, node))) {
		sodium_memzero(a->text, strlen(a->text));
		free(a);
	}
	(void)snapshot_free(o->base);
	(void)snapshot_free(o->snapshot);
	wipe(&o->record);
	buf_done(&o->manifest);
	sodium_memzero(o->key, sizeof(o->key));
	free(o);
	return NULL;
}

struct order *order_find(const struct orders *all, const char *name)
{
	list_for_each(l, &all->list) {
		struct order *o = list_entry(l, struct order, node);

		if (streq(o->name, name))
			return o;
	}
	return NULL;
}

/* ---- the end ---- */

/* Nobody works on it: gives back what it holds of the sandbox. */
static void let_go(struct order *o)
{
	/* At once, if somebody may wait for it; but of a file without a name this frees all its blocks. */
	if (o->departure)
		o->disk = fd_close(o->disk);
	else
		workers_close(WHO, o->disk);
	o->disk = -1;
	o->departure = departure_end(o->departure);
	o->arrival = arrival_end(o->arrival);
}

static void leave_list(struct order *o)
{
	if (!o->orders)
		return;
	list_remove(&o->node);
	o->orders->n--;
	o->orders = NULL;
}

static void log_end(const struct order *o)
{
	static const char *const names[] = {[ORDER_SAVE] = "save", [ORDER_LOAD] = "load"};

	if (o->state == ORDER_FAILED)
		LOG_WARNING("order_failed", LOG_S("order", names[o->kind]),
			    LOG_S("session_id", o->id.id), LOG_S("error", o->error.text));
	else if (o->state == ORDER_DONE)
		LOG_INFO("order_done", LOG_S("order", names[o->kind]),
			 LOG_S("session_id", o->id.id), LOG_U("epoch", o->id.epoch),
			 LOG_U("generation", o->id.generation));
}

static void fail(struct order *o, const struct err *e)
{
	if (o->state == ORDER_FAILED || o->state == ORDER_DONE)
		return;
	o->state = ORDER_FAILED;
	o->error = *e;
	log_end(o);
	atomic_store(&o->stop, true);
	if (!o->busy)
		let_go(o);
}

void order_end(struct order *o, bool keep)
{
	struct orders *all = o->orders;
	struct err e = ERR_INIT;

	if (keep && o->kind == ORDER_SAVE && o->state == ORDER_DONE &&
	    store_moving_saved(all->config.store, o->id.incarnation, o->id.epoch, o->change, &e) <
		0)
		LOG_ERROR("store_failed", LOG_S("error", e.text));
	(void)err_set(&e, ERR_CANCELLED, 0, "the router has given the order up");
	fail(o, &e);
	all->version++;
	leave_list(o);
	if (!o->busy && !o->waits)
		(void)order_free(o);
}

/* ---- jobs ---- */

static void on_job(void *user)
{
	struct order *o = user;

	o->busy = false;
	if (o->orders && o->state != ORDER_FAILED && o->failed.code != ERR_NONE)
		fail(o, &o->failed);
	if (o->state == ORDER_FAILED)
		let_go(o);
	if (!o->orders) {
		let_go(o);
		(void)order_free(o);
	} else if (o->state != ORDER_FAILED) {
		o->next(o);
	}
}

static void run(struct order *o, void (*job)(void *user), void (*next)(struct order *o))
{
	struct err e = ERR_INIT;

	o->next = next;
	o->busy = true;
	o->failed = (struct err)ERR_INIT;
	const int r = workers_run_counted(WHO, job, on_job, o);
	if (r < 0) {
		o->busy = false;
		(void)workers_refused(r, &e);
		fail(o, &e);
	}
}

static void done(struct order *o)
{
	o->state = ORDER_DONE;
	log_end(o);
	let_go(o);
}

/* ---- what is wanted ---- */

bool order_next_want(const struct order *o, uint32_t from, struct snapshot_place *ret)
{
	struct snapshot_place at = {.epoch = o->id.epoch, .generation = o->id.generation};
	bool more = from < SNAPSHOT_MANIFEST;

	if (!o->snapshot || o->busy)
		return false;
	for (uint32_t i = from; more; i = at.index + 1) {
		more = o->kind == ORDER_SAVE ? snapshot_next_new(o->snapshot, i, &at.index, &at.len)
					     : snapshot_next_block(o->snapshot, i, &at);
		if (more && !bit_of(o->had, at.index) && !bit_of(o->given, at.index)) {
			*ret = at;
			return true;
		}
	}
	if (o->kind != ORDER_SAVE || bit_of(o->had, SNAPSHOT_MANIFEST) ||
	    bit_of(o->given, SNAPSHOT_MANIFEST) || from > SNAPSHOT_MANIFEST)
		return false;
	*ret = (struct snapshot_place){.epoch = o->id.epoch,
				       .generation = o->id.generation,
				       .index = SNAPSHOT_MANIFEST,
				       .len = o->manifest.len};
	return true;
}

int order_add_address(struct order *o, const struct snapshot_place *at, const char *text,
		      struct err *e)
{
	const size_t len = strlen(text);
	struct snapshot_place want;

	if (len >= OBJECTS_ADDRESS_MAX)
		return err_set(e, ERR_INVALID_ARGUMENT, 0, "an address is too long");
	if (!order_next_want(o, at->index, &want) || want.index != at->index ||
	    want.epoch != at->epoch || want.generation != at->generation)
		return err_set(e, ERR_INVALID_ARGUMENT, 0,
			       "an address of an object that is not wanted");
	struct address *a = malloc(sizeof(*a) + len + 1);
	if (!a)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "an address");
	a->index = at->index;
	memcpy(a->text, text, len + 1);
	list_append(&o->addresses, &a->node);
	o->given[at->index / 8] |= (uint8_t)(1u << (at->index % 8));
	return 0;
}

/* Without the proof it is here all the same, and a router will not believe its epoch if the database is restored. */
static void arrived(struct order *o)
{
	struct err e = ERR_INIT;

	if (store_moving_prove(o->orders->config.store, o->id.incarnation, o->epoch, o->proof, &e) <
	    0)
		LOG_ERROR("store_failed", LOG_S("error", e.text));
	done(o);
}

static void on_kept(const struct err *e, void *user)
{
	struct order *o = user;

	o->arrival = NULL;
	o->waits = false;
	if (!o->orders)
		(void)order_free(o);
	else if (e)
		fail(o, e);
	else
		arrived(o);
}

static void on_flushed(struct order *o)
{
	arrival_keep(o->arrival, on_kept, o);
}

void order_go_on(struct order *o)
{
	struct snapshot_place at;

	if (o->busy || o->state != ORDER_WANTS)
		return;
	if (!list_is_empty(&o->addresses)) {
		run(o, o->kind == ORDER_SAVE ? transfer_send : transfer_get, order_go_on);
	} else if (!order_next_want(o, 0, &at)) {
		if (o->kind == ORDER_SAVE) {
			done(o);
		} else {
			o->state = ORDER_WORKING;
			run(o, transfer_flush, on_flushed);
		}
	}
}

static void wants(struct order *o)
{
	o->state = ORDER_WANTS;
	order_go_on(o);
}

/* ---- save ---- */

/* Somebody wants to use the sandbox. */
static void on_wanted(void *user)
{
	struct order *o = user;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_SANDBOX_IN_USE, 0, "the sandbox is used again");
	fail(o, &e);
}

static void on_disk(int disk, const struct err *e, void *user)
{
	struct order *o = user;

	o->disk = disk;
	if (e)
		fail(o, e);
	else
		run(o, transfer_plan, wants);
}

static int check_save(struct orders *all, const struct order *o, struct err *e)
{
	struct store_moving m;
	const int r = store_moving_find(all->config.store, o->id.incarnation, &m, e);

	if (r < 0)
		return r;
	if (r == 0 || m.removed || !streq(m.id, o->id.id) || !streq(m.owner, o->id.owner))
		return err_set(e, ERR_SESSION_NOT_FOUND, 0, "there is no stored sandbox %s here",
			       o->id.id);
	if (m.epoch != o->id.epoch || m.change != o->change)
		return err_set(e, ERR_SANDBOX_IN_USE, 0, "the sandbox has another epoch or change");
	return 0;
}

static int check_place(const struct orders *all, const struct order *o, struct err *e)
{
	if (all->n >= ORDERS_MAX)
		return err_set(e, ERR_SERVER_BUSY, 0, "%u orders are under way", all->n);
	list_for_each(l, &all->list)
		if (streq(list_entry(l, struct order, node)->id.incarnation, o->id.incarnation))
			return err_set(e, ERR_SANDBOX_IN_USE, 0,
				       "an order for this sandbox is under way");
	return 0;
}

static void add(struct orders *all, struct order *o)
{
	uint8_t random[(ORDER_ID_SIZE - 1) / 2];

	rand_bytes(random, sizeof(random));
	(void)sodium_bin2hex(o->name, sizeof(o->name), random, sizeof(random));
	o->orders = all;
	o->orders_ca = all->config.ca;
	o->asked_ns = now_ns();
	list_append(&all->list, &o->node);
	all->n++;
	all->version++;
}

int order_begin_save(struct orders *all, struct order *o, struct err *e)
{
	int r = check_place(all, o, e);

	r = r < 0 ? r : check_save(all, o, e);
	r = r < 0 ? r
		  : manager_moving_text(all->config.manager, o->id.owner, o->id.id, &o->record, e);
	r = r < 0 ? r
		  : manager_depart(all->config.manager, o->id.owner, o->id.id, on_disk, on_wanted,
				   o, &o->departure, e);
	if (r == 0)
		add(all, o);
	return r;
}

/* ---- load ---- */

static void on_empty(int disk, const struct err *e, void *user)
{
	struct order *o = user;

	o->disk = disk;
	if (e)
		fail(o, e);
	else
		run(o, transfer_empty, wants);
}

static void arrive(struct order *o)
{
	struct err e = ERR_INIT;

	if (manager_arrive(o->orders->config.manager, o->id.owner, o->id.id, o->id.incarnation,
			   o->epoch, o->record.data, o->record.len, snapshot_bytes(o->snapshot),
			   on_empty, o, &o->arrival, &e) < 0)
		fail(o, &e);
}

static void on_left(const struct err *e, void *user)
{
	struct order *o = user;

	o->waits = false;
	if (!o->orders)
		(void)order_free(o);
	else if (e)
		fail(o, e);
	else if (o->state != ORDER_FAILED)
		arrive(o);
}

/* What is here of it has an older epoch, so it goes first. */
static void on_opened(struct order *o)
{
	struct orders *all = o->orders;
	struct store_moving m;
	struct err e = ERR_INIT;
	int r = store_moving_find(all->config.store, o->id.incarnation, &m, &e);

	if (r > 0 && (m.removed || m.epoch >= o->epoch))
		r = err_set(&e, ERR_ALREADY_EXISTS, 0, "it is here already, or was removed here");
	if (r == 0) {
		arrive(o);
		return;
	}
	o->waits = r > 0;
	if (r < 0 || manager_leave(all->config.manager, m.owner, m.id, on_left, o, &e) < 0) {
		o->waits = false;
		fail(o, &e);
	}
}

int order_begin_load(struct orders *all, struct order *o, struct err *e)
{
	const int r = check_place(all, o, e);

	if (r < 0)
		return r;
	add(all, o);
	run(o, transfer_open, on_opened);
	return 0;
}
