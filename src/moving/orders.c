/* SPDX-License-Identifier: Apache-2.0 */
/* All orders of a worker, and the routes for them. */
#include "moving/order.h"

#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/libcurl.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "fleet/identity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TICK_US      (UINT64_C(5) * 1000 * 1000)
#define ORDER_BODY   (16u << 10)
#define ADDRESS_BODY (512u << 10)
#define BOOT_SIZE    64u

/* ---- answers ---- */

/* A router asks for itself. A request with a caller is one of a client that it passed on. */
static bool is_of_client(struct http_request *req)
{
	const bool is = http_request_header(req, FLEET_CALLER_HEADER);

	if (is)
		http_respond_problem(req, ERR_NOT_FOUND, "Not found", NULL);
	return is;
}

static void respond(struct http_request *req, int status, json_t *value)
{
	size_t len = 0;
	char *text = value ? jsonio_text(value, JSON_COMPACT, &len) : NULL;

	json_decref(value);
	if (text)
		http_respond_take(req, status, "application/json", text, len);
	else
		http_respond_problem(req, ERR_OUT_OF_MEMORY, "no memory", NULL);
}

static void refuse(struct http_request *req, const struct err *e)
{
	http_respond_problem(req, e->code, e->text, NULL);
}

/* ---- what is stored here ---- */

uint64_t orders_version(const struct orders *o)
{
	return o->version + manager_moving_version(o->config.manager);
}

struct page {
	struct orders *orders;
	json_t *list;
	unsigned seen;
	bool unsaved;
};

static bool add_row(const struct store_moving *m, void *user)
{
	struct page *p = user;
	const bool rests =
	    !m->removed && manager_at_rest(p->orders->config.manager, m->owner, m->id);

	p->seen++;
	if (p->unsaved && !m->removed && !rests)
		return true;
	return json_array_append_new(
		   p->list,
		   json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:b, s:I, s:s}", "incarnation",
			     m->incarnation, "id", m->id, "owner", m->owner, "epoch",
			     (json_int_t)m->epoch, "change", (json_int_t)m->change, "saved",
			     (json_int_t)m->saved, "removed", m->removed, "at_rest", rests,
			     "disk_bytes", (json_int_t)m->disk_bytes, "proof", m->proof)) == 0;
}

static bool read_number(const char *text, uint64_t max, uint64_t *ret)
{
	*ret = 0;
	return !text || parse_u64(text, 0, max, ret) == 0;
}

static void get_stored(struct http_request *req, void *user)
{
	struct orders *o = user;
	struct page p = {.orders = o, .unsaved = http_request_query(req, "unsaved")};
	uint64_t after = 0;
	struct err e = ERR_INIT;
	char version[17];

	if (is_of_client(req))
		return;
	if (!read_number(http_request_query(req, "after"), INT64_MAX, &after)) {
		http_respond_problem(req, ERR_BAD_REQUEST, "after is a number", NULL);
		return;
	}
	o->asked = true;
	p.list = json_array();
	(void)snprintf(version, sizeof(version), "%016" PRIx64, orders_version(o));
	const int r =
	    store_moving_each(o->config.store, p.unsaved, &after, ORDERS_PAGE, add_row, &p, &e);
	json_t *root = json_pack("{s:i, s:s, s:o}", "v", 1, "version", version, "stored", p.list);
	if (r < 0) {
		json_decref(root);
		refuse(req, &e);
		return;
	}
	if (p.seen == ORDERS_PAGE)
		(void)json_object_set_new(root, "next", json_integer((json_int_t)after));
	respond(req, 200, root);
}

static bool note_one(const struct store_moving *m UNUSED, void *user)
{
	*(bool *)user = true;
	return false;
}

bool orders_wait(const struct orders *o, uint64_t *asked_ns)
{
	uint64_t after = 0;
	bool any = false;
	struct err e = ERR_INIT;

	*asked_ns = 0;
	list_for_each(l, &o->list)
		*asked_ns = MAX(*asked_ns, list_entry(l, struct order, node)->asked_ns);
	if (!o->asked)
		return false;
	if (store_moving_each(o->config.store, true, &after, 1, note_one, &any, &e) < 0)
		LOG_ERROR("store_failed", LOG_S("error", e.text));
	return any || o->n > 0;
}

/* ---- orders ---- */

static void get_orders(struct http_request *req, void *user)
{
	struct orders *o = user;
	const char *mine = http_request_query(req, "order");

	if (is_of_client(req))
		return;
	json_t *list = json_array();
	list_for_each(l, &o->list) {
		struct order *x = list_entry(l, struct order, node);

		/* Only its own router keeps an order: the orders of a router that is gone end while others ask for theirs. */
		if (mine && streq(x->name, mine))
			x->asked_ns = now_ns();
		(void)json_array_append_new(list, order_json(x));
	}
	respond(req, 200, json_pack("{s:i, s:o}", "v", 1, "orders", list));
}

static void on_dropped(const struct err *e, void *user UNUSED)
{
	if (e)
		LOG_ERROR("drop_failed", LOG_S("error", e->text));
}

static int drop(struct orders *o, const struct order_words *w, struct err *e)
{
	struct store_moving m;
	int r = store_moving_find(o->config.store, w->incarnation, &m, e);

	if (r < 0)
		return r;
	if (r == 0 || m.removed || m.epoch >= w->epoch)
		return err_set(e, ERR_SESSION_NOT_FOUND, 0, "there is no older one than that here");
	list_for_each(l, &o->list) {
		struct order *x = list_entry(l, struct order, node);
		if (streq(x->id.incarnation, w->incarnation) && x->kind == ORDER_SAVE)
			order_end(x, false);
	}
	LOG_INFO("sandbox_moved_away", LOG_S("session_id", m.id), LOG_U("epoch", w->epoch));
	return manager_leave(o->config.manager, m.owner, m.id, on_dropped, NULL, e);
}

static int begin(struct orders *o, struct order_words *w, struct err *e)
{
	const int r = w->word == WORD_SAVE ? order_begin_save(o, w->order, e)
					   : order_begin_load(o, w->order, e);

	if (r < 0)
		w->order = order_free(w->order);
	return r;
}

static void post_order(struct http_request *req, void *user)
{
	struct orders *o = user;
	struct order_words w;
	struct err e = ERR_INIT;
	size_t len = 0;

	if (is_of_client(req))
		return;
	const char *text = http_request_body(req, &len);
	int r = words_read(text, len, &w, &e);
	if (r < 0) {
		refuse(req, &e);
		return;
	}
	if (w.word == WORD_DROP)
		r = drop(o, &w, &e);
	else if (w.word == WORD_FORGET)
		r = MIN(store_moving_forget(o->config.store, w.incarnation, &e), 0);
	else
		r = begin(o, &w, &e);
	if (r < 0)
		refuse(req, &e);
	else if (w.order)
		respond(req, 202, json_pack("{s:i, s:s}", "v", 1, "order", w.order->name));
	else
		http_respond(req, w.word == WORD_DROP ? 202 : 204, NULL, NULL, 0);
}

static struct order *order_of(struct http_request *req, struct orders *o)
{
	if (is_of_client(req))
		return NULL;
	struct order *x = order_find(o, http_request_param(req, "order"));
	if (x)
		x->asked_ns = now_ns();
	else
		http_respond_problem(req, ERR_NOT_FOUND, "there is no such order", NULL);
	return x;
}

static void get_wants(struct http_request *req, void *user)
{
	const struct order *x = order_of(req, user);
	uint64_t from = 0;

	if (!x)
		return;
	if (read_number(http_request_query(req, "from"), SNAPSHOT_MANIFEST, &from))
		respond(req, 200, wants_json(x, (uint32_t)from));
	else
		http_respond_problem(req, ERR_BAD_REQUEST, "from is the index of an object", NULL);
}

static void post_addresses(struct http_request *req, void *user)
{
	struct order *x = order_of(req, user);
	struct err e = ERR_INIT;
	size_t len = 0;

	if (!x)
		return;
	const char *text = http_request_body(req, &len);
	const int r = addresses_read(x, text, len, &e);
	order_go_on(x); /* with those before the one that is wrong */
	if (r < 0)
		refuse(req, &e);
	else
		http_respond(req, 204, NULL, NULL, 0);
}

static void post_end(struct http_request *req, void *user)
{
	struct order *x = order_of(req, user);
	struct err e = ERR_INIT;
	size_t len = 0;
	bool keep = false;

	if (!x)
		return;
	const char *text = http_request_body(req, &len);
	if (end_read(text, len, &keep, &e) < 0) {
		refuse(req, &e);
		return;
	}
	order_end(x, keep);
	http_respond(req, 204, NULL, NULL, 0);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/fleet/stored", get_stored, 0, 0},
    {HTTP_GET, "/fleet/orders", get_orders, 0, 0},
    {HTTP_POST, "/fleet/orders", post_order, 0, ORDER_BODY},
    {HTTP_GET, "/fleet/orders/{order}/wants", get_wants, 0, 0},
    {HTTP_POST, "/fleet/orders/{order}/addresses", post_addresses, 0, ADDRESS_BODY},
    {HTTP_POST, "/fleet/orders/{order}/end", post_end, 0, ORDER_BODY},
};

int orders_add_routes(struct orders *o, struct http_server *http, unsigned scopes, struct err *e)
{
	const int r = http_server_add_routes(http, routes, ARRAY_SIZE(routes), scopes, o);

	return r < 0 ? err_set(e, ERR_INTERNAL, -r, "routes of orders") : 0;
}

/* ---- life ---- */

static int on_tick(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct orders *o = user;
	const uint64_t now = now_ns();

	loop_work("timer", "orders");
	list_for_each(l, &o->list) {
		struct order *x = list_entry(l, struct order, node);
		if (now - x->asked_ns > ORDERS_LEFT_S * NS_PER_S)
			order_end(x, false);
	}
	(void)sd_event_source_set_time_relative(source, TICK_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* Commits of the last seconds before a loss of power may not be on the disk. */
static int note_boot(struct store *s, struct err *e)
{
	_cleanup_fd_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	_cleanup_(buf_done) struct buf id = BUF_INIT(BOOT_SIZE);
	const int r = fd < 0 ? -errno : fd_read_file(fd, &id);

	/* Without it each start counts as one of the machine. */
	return store_moving_boot(s, r < 0 ? "" : buf_str(&id), e);
}

int orders_new(const struct orders_config *config, struct orders **ret, struct err *e)
{
	struct orders *o = calloc(1, sizeof(*o));
	if (!o)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "orders of routers");
	/* It cannot be loaded when threads use it. */
	int r = libcurl_load(e);
	r = r < 0 ? r : note_boot(config->store, e);

	if (r < 0) {
		free(o);
		return r;
	}
	o->config = *config;
	list_init(&o->list);
	rand_bytes(&o->version, sizeof(o->version));
	o->version >>= 1;
	r = sd_event_add_time_relative(config->loop, &o->tick, CLOCK_MONOTONIC, TICK_US, 0, on_tick,
				       o);
	if (r < 0) {
		free(o);
		return err_set(e, ERR_SYSTEM, -r, "a timer");
	}
	*ret = o;
	return 0;
}

struct orders *orders_free(struct orders *o)
{
	if (!o)
		return NULL;
	for (struct order *x; (x = list_first(&o->list, struct order, node));)
		order_end(x, false);
	o->tick = sd_event_source_disable_unref(o->tick);
	free(o);
	return NULL;
}
