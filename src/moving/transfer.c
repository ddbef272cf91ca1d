/* SPDX-License-Identifier: Apache-2.0 */
/* What threads do of an order. Each job has the members of struct order that order.h says; it writes no log. */
#include "moving/order.h"

#include "objects/send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANIFEST_MS 30000u
#define OBJECT_MS   120000u

static void set_had(struct order *o, uint32_t index)
{
	o->had[index / 8] |= (uint8_t)(1u << (index % 8));
}

static int stopped(const struct order *o, struct err *e)
{
	return atomic_load(&o->stop) ? err_set(e, ERR_CANCELLED, ECANCELED, "the order has ended")
				     : 0;
}

static int client_of(const struct order *o, struct objects_client **ret, struct err *e)
{
	return objects_client_new(ret, o->orders_ca, e);
}

static int get(struct objects_client *c, struct order *o, const char *address, unsigned ms,
	       struct buf *ret, struct err *e)
{
	const struct objects_request r = {.method = "GET",
					  .address = address,
					  .what = "a saved sandbox",
					  .ret = ret,
					  .deadline_ms = ms,
					  .stop = &o->stop};
	const int got = objects_send(c, &r, e);

	return got == -ENOENT ? err_set(e, ERR_SNAPSHOT_INVALID, ENOENT,
					"the object store does not have an object of it any more")
			      : got;
}

/* ---- saving ---- */

static struct address *first_address(struct order *o)
{
	return list_pop_first(&o->addresses, struct address, node);
}

static void address_free(struct address *a)
{
	explicit_bzero(a->text, strlen(a->text));
	free(a);
}

/* The base is read anew, since nothing of it is kept here. */
static int open_base(struct order *o, struct err *e)
{
	_cleanup_(buf_done) struct buf m = BUF_INIT(SNAPSHOT_MANIFEST_MAX);
	struct address *a = first_address(o);
	struct objects_client *c = NULL;
	int r;

	if (!a)
		return err_set(e, ERR_INTERNAL, 0, "a base has no address");
	r = client_of(o, &c, e);
	r = r < 0 ? r : get(c, o, a->text, MANIFEST_MS, &m, e);
	r = r < 0 ? r
		  : snapshot_open_manifest(&o->base_id, o->key, o->base_hash, m.data, m.len,
					   UINT64_MAX, &o->base, NULL, e);
	address_free(a);
	(void)objects_client_free(c);
	return r;
}

void transfer_plan(void *user)
{
	struct order *o = user;
	struct err *e = &o->failed;
	int r = o->base_id.generation > 0 ? open_base(o, e) : 0;

	r = r < 0 ? r : snapshot_plan(o->disk, &o->id, o->key, o->base, &o->stop, &o->snapshot, e);
	o->base = snapshot_free(o->base);
	r = r < 0 ? r
		  : snapshot_seal_manifest(o->snapshot, buf_str(&o->record), o->record.len,
					   &o->manifest, o->hash, e);
	(void)r;
}

static int send_one(struct objects_client *c, struct order *o, const struct address *a,
		    struct err *e)
{
	_cleanup_(buf_done) struct buf block = BUF_INIT(SNAPSHOT_OBJECT_MAX);
	const bool manifest = a->index == SNAPSHOT_MANIFEST;
	int r = manifest ? 0 : snapshot_seal_block(o->snapshot, o->disk, a->index, &block, e);

	if (r < 0)
		return r;
	const struct buf *body = manifest ? &o->manifest : &block;
	const struct objects_request q = {.method = "PUT",
					  .address = a->text,
					  .what = "a saved sandbox",
					  .body = body->data,
					  .len = body->len,
					  .deadline_ms = OBJECT_MS,
					  .stop = &o->stop};
	return objects_send(c, &q, e);
}

static int get_one(struct objects_client *c, struct order *o, const struct address *a,
		   struct err *e)
{
	_cleanup_(buf_done) struct buf block = BUF_INIT(SNAPSHOT_OBJECT_MAX);
	const int r = get(c, o, a->text, OBJECT_MS, &block, e);

	return r < 0
		   ? r
		   : snapshot_open_block(o->snapshot, o->disk, a->index, block.data, block.len, e);
}

/* Objects with addresses, one after the other. An address that has ended is wanted again. */
static void each_address(struct order *o, int (*fn)(struct objects_client *c, struct order *o,
						    const struct address *a, struct err *e))
{
	struct objects_client *c = NULL;
	struct err *e = &o->failed;
	struct address *a;
	int r = client_of(o, &c, e);

	while ((a = first_address(o))) {
		r = r < 0 ? r : stopped(o, e);
		r = r < 0 ? r : fn(c, o, a, e);
		if (r == 0)
			set_had(o, a->index);
		if (r == -ETIME) {
			*e = (struct err)ERR_INIT;
			r = 0;
		}
		o->given[a->index / 8] &= (uint8_t) ~(1u << (a->index % 8));
		address_free(a);
	}
	(void)objects_client_free(c);
}

void transfer_send(void *user)
{
	each_address(user, send_one);
}

/* ---- loading ---- */

void transfer_open(void *user)
{
	struct order *o = user;
	struct err *e = &o->failed;
	_cleanup_(buf_done) struct buf m = BUF_INIT(SNAPSHOT_MANIFEST_MAX);
	struct address *a = first_address(o);
	struct objects_client *c = NULL;
	int r;

	if (!a) {
		(void)err_set(e, ERR_INTERNAL, 0, "a manifest has no address");
		return;
	}
	r = client_of(o, &c, e);
	r = r < 0 ? r : get(c, o, a->text, MANIFEST_MS, &m, e);
	r = r < 0 ? r
		  : snapshot_open_manifest(&o->id, o->key, o->hash, m.data, m.len, o->disk_bytes,
					   &o->snapshot, &o->record, e);
	address_free(a);
	(void)objects_client_free(c);
	(void)r;
}

void transfer_get(void *user)
{
	each_address(user, get_one);
}

void transfer_empty(void *user)
{
	struct order *o = user;

	(void)!snapshot_empty_disk(o->snapshot, o->disk, &o->failed);
}

void transfer_flush(void *user)
{
	struct order *o = user;

	if (fsync(o->disk) < 0) {
		(void)err_set(&o->failed, ERR_SYSTEM, errno, "flushing a disk");
		return;
	}
	/* Here and not later: the descriptor holds the lock, and the sandbox may be opened as soon as the disk is kept. */
	o->disk = fd_close(o->disk);
}
