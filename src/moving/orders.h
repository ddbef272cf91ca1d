/* SPDX-License-Identifier: Apache-2.0 */
/* What routers order a worker to do with stored sandboxes. All of it is JSON with "v":1, on the listener for members of the fleet; readers
 * are strict. Ids of orders are 16 hexadecimal digits, bytes are base64, and PLACE is [EPOCH, GENERATION, INDEX], where the index
 * SNAPSHOT_MANIFEST is the manifest.
 *
 *   GET  /fleet/stored?after=N&unsaved=1   what is here, ORDERS_PAGE rows and "next" if there are more: {"v", "version", "stored":
 *                             [{"incarnation", "id", "owner", "epoch", "change", "saved", "removed", "at_rest", "disk_bytes", "proof"}]}.
 *                             UNSAVED: tombstones, and what rests and is not saved
 *   POST /fleet/orders        {"v", "kind":"save", "id", "owner", "incarnation", "epoch", "generation", "change", "key",
 *                              "base": null or {"epoch", "generation", "hash", "address"}}
 *                             {"v", "kind":"load", "id", "owner", "incarnation", "epoch" (its new one), "snap_epoch", "generation",
 *                              "key", "hash", "address" (of the manifest), "disk_bytes", "proof"}: 202 {"v", "order"}
 *                             {"v", "kind":"drop", "incarnation", "epoch"}: an older one than that is not of this worker any more. 202
 *                             {"v", "kind":"forget", "incarnation"}: its tombstone. 204
 *   GET  /fleet/orders?order=ID  {"v", "orders":[{"order", "kind", "incarnation", "epoch", "generation", "state", "wants", "bytes",
 *                              and then "error":{"code", "text"}, or of a save that is done "hash", "keeps":[[EPOCH, GENERATION, BITS]]}]}
 *   GET  /fleet/orders/ID/wants?from=N   {"v", "wants":[[PLACE…, LENGTH]…], "next"}: objects whose addresses are missing
 *   POST /fleet/orders/ID/addresses      {"v", "addresses":[[PLACE…, "https://…"]…]}, at most ORDERS_ADDRESSES. 204
 *   POST /fleet/orders/ID/end  {"v", "keep":BOOL}: the router has noted the outcome, or gives the order up. 204
 *
 * States: working, wants, done, failed. Refusals are problems: 404 session_not_found, 409 sandbox_in_use (also with another epoch or
 * change), 503 server_busy (ORDERS_MAX are under way). An order ends when no request has named its ID for ORDERS_LEFT_S, in the path or in
 * ?order=ID. That query is for this alone: the answer always has all orders.
 *
 * A sandbox that somebody wants to use while it is saved goes first: its order fails with sandbox_in_use. */
#pragma once

#include "base/err.h"
#include "http/http.h"
#include "sandbox/sandbox.h"
#include "store/store_moves.h"

#define ORDERS_MAX       2u
#define ORDERS_PAGE      100u
#define ORDERS_WANTS     256u
#define ORDERS_ADDRESSES 128u
#define ORDERS_LEFT_S    20u

struct orders;

struct orders_config {
	sd_event *loop; /* borrowed, all of them, until orders_free() */
	struct manager *manager;
	struct store *store;
	const char *ca; /* of the object store; "" = those of the machine */
};

/* Also notes whether the machine was started anew. */
int orders_new(const struct orders_config *config, struct orders **ret, struct err *e) MUST_CHECK;
/* Before manager_free(), and after http_server_free(). Jobs that are under way end by themselves. NULL is fine. */
struct orders *orders_free(struct orders *o);
int orders_add_routes(struct orders *o, struct http_server *http, unsigned scopes,
		      struct err *e) MUST_CHECK;
/* Is something here that a router has not saved, or has not heard of? False if none has ever asked. ASKED_NS: when a router last asked for
 * an order that is under way; 0 = there is none. */
bool orders_wait(const struct orders *o, uint64_t *asked_ns);
/* Another number when what GET /fleet/stored answers may have changed. */
uint64_t orders_version(const struct orders *o);
