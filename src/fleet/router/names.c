/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/router/names.h"

#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "fleet/router/slices.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_US (UINT64_C(250) * 1000)
#define WHO     "names of workers" /* a resolver that hangs holds two threads */
/* After an answer that a watch has rung for. Kubernetes changes an EndpointSlice about once a second. */
#define SLICES_NS (NS_PER_S / 4)

/* A question for a thread, which uses nothing else. */
struct question {
	struct name *name; /* of the loop alone; NULL: nobody waits for the answer any more */
	struct fleet_name is;
	atomic_bool stop;    /* nobody waits any more */
	const char *failure; /* NULL: none */
	bool quick;          /* a watch that ended at once, or a name, which has none */
	char since[FLEET_SLICES_VERSION]; /* the answer before; "": the thread asks at once */
	struct fleet_slices said;         /* also of a name */
};

struct name {
	struct list node; /* of fleet_names.names */
	struct fleet_names *all;
	struct fleet_name is;
	struct question *asked;
	uint64_t next_ns;
	unsigned failures; /* in a row */
	struct fleet_slices said;
};

struct fleet_names {
	fleet_names_fn fn;
	void *user;
	sd_event_source *tick;
	struct list names;
	struct fleet_members fixed; /* of lines with addresses */
};

static void tell(struct fleet_names *all)
{
	struct fleet_members *m = malloc(sizeof(*m));
	size_t over = 0;

	if (!m)
		return; /* the next answer tells it */
	*m = all->fixed;
	list_for_each(node, &all->names) {
		const struct name *x = list_entry(node, struct name, node);

		for (size_t i = 0; i < x->said.n; i++)
			over += !fleet_members_add(m, &x->said.at[i]);
	}
	if (over > 0)
		LOG_OFTEN(LOG_LEVEL_ERROR, "too_many_workers", LOG_U("most", FLEET_MEMBERS_MAX),
			  LOG_U("left_out", over));
	all->fn(m, all->user);
	free(m);
}

/* ---- on a thread ---- */

/* False: there are more than FLEET_OF_NAME_MAX. */
static bool take(struct question *q, const struct addrinfo *info)
{
	struct fleet_address a = {.len = info->ai_addrlen};

	if (info->ai_addrlen > sizeof(a.address) ||
	    (info->ai_family != AF_INET && info->ai_family != AF_INET6))
		return true;
	memcpy(&a.address, info->ai_addr, info->ai_addrlen);
	if (!fleet_address_is_of_one(&a.address))
		return true;
	if (info->ai_family == AF_INET)
		a.address.in.sin_port = htons(q->is.port);
	else
		a.address.in6.sin6_port = htons(q->is.port);
	fleet_address_write(&a, q->is.port);
	return fleet_slices_put(&q->said, &a, FLEET_OF_NAME_MAX);
}

/* That there is no address is an answer, too. */
static const char *failure_of(int error)
{
	if (error == 0 || error == EAI_NONAME || error == EAI_NODATA || error == EAI_ADDRFAMILY)
		return NULL;
	return gai_strerror(error);
}

static void resolve_name(struct question *q)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;
	const int error = getaddrinfo(q->is.host, NULL, &hints, &all);

	q->failure = failure_of(error);
	q->quick = true;
	for (const struct addrinfo *a = error == 0 ? all : NULL; a && !q->failure; a = a->ai_next)
		if (!take(q, a))
			q->failure = "it has too many addresses";
	if (error == 0)
		freeaddrinfo(all);
}

static void resolve(void *user)
{
	struct question *q = user;

	if (q->is.slices)
		q->failure = fleet_slices_ask(q->is.host, q->is.port, q->since, &q->stop, &q->said,
					      &q->quick);
	else
		resolve_name(q);
}

/* ---- on the loop ---- */

const char *fleet_names_ask(const struct fleet_name *name, struct fleet_members *m)
{
	_cleanup_free_ struct question *q = calloc(1, sizeof(*q));

	if (!q)
		return "no memory";
	q->is = *name;
	resolve(q);
	const char *why = q->failure;
	for (size_t i = 0; !why && i < q->said.n; i++)
		if (!fleet_members_add(m, &q->said.at[i]))
			why = "there are too many workers";
	return why || q->said.n > 0 ? why : "it has no address";
}

static void take_failure(struct name *x, const char *why)
{
	const unsigned shift = MIN(x->failures, 5u);
	const uint64_t wait_s = MIN(FLEET_NAMES_S << shift, FLEET_NAMES_SLOW_S);

	x->next_ns = now_ns() + wait_s * NS_PER_S;
	x->said.version[0] = '\0';
	if (x->failures++ % 16 == 0)
		LOG_WARNING("worker_name_not_resolved", LOG_S("name", x->is.host),
			    LOG_S("error", why), LOG_U("addresses", x->said.n),
			    LOG_S("effect", "those of the last answer stay"));
}

static void take_answer(struct name *x, const struct question *q)
{
	bool changed = x->said.n != q->said.n;

	x->next_ns = now_ns() + (q->quick ? FLEET_NAMES_S * NS_PER_S : SLICES_NS);
	for (size_t i = 0; i < q->said.n && !changed; i++)
		changed = !streq(x->said.at[i].text, q->said.at[i].text);
	if (changed || x->failures > 0)
		LOG_INFO("worker_name_resolved", LOG_S("name", x->is.host),
			 LOG_U("addresses", q->said.n));
	x->failures = 0;
	x->said = q->said;
	if (changed)
		tell(x->all);
}

static void on_resolved(void *user)
{
	struct question *q = user;
	struct name *x = q->name;

	loop_work("fleet", "names");
	if (x) {
		x->asked = NULL;
		if (q->failure)
			take_failure(x, q->failure);
		else
			take_answer(x, q);
	}
	free(q);
}

/* A Service has a thread of its own, which waits for changes most of the time. */
static int ask_on_thread(struct question *q)
{
	char who[WORKERS_WHO_SIZE];

	if (!q->is.slices)
		return workers_run(WHO, resolve, on_resolved, q);
	(void)snprintf(who, sizeof(who), "slices %.100s", q->is.host);
	return workers_run(who, resolve, on_resolved, q);
}

static void ask(struct name *x)
{
	struct question *q = calloc(1, sizeof(*q));

	if (!q) {
		take_failure(x, "no memory");
		return;
	}
	q->name = x;
	q->is = x->is;
	memcpy(q->since, x->said.version, sizeof(q->since));
	x->asked =
	    q; /* before: without a pool of threads on_resolved() has run when this returns */
	if (ask_on_thread(q) < 0) {
		x->asked = NULL;
		free(q);
		take_failure(x, "no thread is free");
	}
}

static int on_tick(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct fleet_names *all = user;
	const uint64_t now = now_ns();

	loop_work("fleet", "names");
	list_for_each(node, &all->names) {
		struct name *x = list_entry(node, struct name, node);

		if (!x->asked && now >= x->next_ns)
			ask(x);
	}
	(void)sd_event_source_set_time_relative(source, TICK_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void name_free(struct name *x)
{
	if (x->asked) {
		x->asked->name = NULL;
		atomic_store_explicit(&x->asked->stop, true, memory_order_relaxed);
	}
	list_remove(&x->node);
	free(x);
}

static bool is_in(const struct fleet_members *m, const struct fleet_name *name)
{
	for (size_t i = 0; i < m->n_names; i++)
		if (streq(m->names[i].host, name->host) && m->names[i].port == name->port)
			return true;
	return false;
}

static bool is_known(const struct fleet_names *all, const struct fleet_name *name)
{
	list_for_each(node, &all->names) {
		const struct name *x = list_entry(node, struct name, node);

		if (streq(x->is.host, name->host) && x->is.port == name->port)
			return true;
	}
	return false;
}

void fleet_names_set(struct fleet_names *all, const struct fleet_members *m)
{
	all->fixed = *m;
	all->fixed.n_names = 0;
	list_for_each(node, &all->names)
		if (!is_in(m, &list_entry(node, struct name, node)->is))
			name_free(list_entry(node, struct name, node));
	for (size_t i = 0; i < m->n_names; i++) {
		struct name *x = is_known(all, &m->names[i]) ? NULL : calloc(1, sizeof(*x));

		if (!x)
			continue;
		x->all = all;
		x->is = m->names[i];
		list_append(&all->names, &x->node);
	}
	tell(all);
}

int fleet_names_new(sd_event *loop, fleet_names_fn fn, void *user, struct fleet_names **ret,
		    struct err *e)
{
	struct fleet_names *all = calloc(1, sizeof(*all));

	if (!all)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "names of workers");
	all->fn = fn;
	all->user = user;
	list_init(&all->names);
	const int r = sd_event_add_time_relative(loop, &all->tick, CLOCK_MONOTONIC, 0, TICK_US / 10,
						 on_tick, all);
	if (r < 0) {
		free(all);
		return err_set(e, ERR_SYSTEM, -r, "the event loop");
	}
	*ret = all;
	return 0;
}

struct fleet_names *fleet_names_free(struct fleet_names *all)
{
	if (!all)
		return NULL;
	all->tick = sd_event_source_disable_unref(all->tick);
	list_for_each(node, &all->names)
		name_free(list_entry(node, struct name, node));
	free(all);
	return NULL;
}
