/* SPDX-License-Identifier: Apache-2.0 */
/* The resolver of the machine, in a few threads.
 *
 * getaddrinfo(3) follows nsswitch.conf, /etc/hosts and resolv.conf like every other program of the
 * machine, but it blocks. The front may not start processes, so threads call it. A thread is never
 * interrupted: the timeouts of resolv.conf end its call. */
#include "egress/resolve.h"

#include "egress/egress.h"
#include "egress/threads.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#define QUERIES_MAX 256u
#define STACK_BYTES (512u << 10)

struct machine {
	struct egress_resolver resolver; /* first */
	struct egress_threads *threads;
	unsigned n; /* queries that were not cancelled */
};

struct egress_query {
	struct egress_job job; /* first */
	struct machine *machine;
	char name[EGRESS_HOST_MAX + 1];
	egress_answer_fn cb;
	void *user;
	size_t n;
	struct egress_address addresses[EGRESS_ANSWER_MAX];
};

/* In a thread. */
static void ask_machine(struct egress_job *job)
{
	struct egress_query *q = (struct egress_query *)job;
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	struct addrinfo *all = NULL;

	if (getaddrinfo(q->name, NULL, &hints, &all) != 0)
		return;
	for (const struct addrinfo *a = all; a; a = a->ai_next) {
		if (q->n == EGRESS_ANSWER_MAX) {
			q->n = 0; /* too many: we could not check all addresses */
			break;
		}
		if (egress_address_from(a->ai_addr, &q->addresses[q->n]))
			q->n++;
	}
	freeaddrinfo(all);
}

static void free_query(struct egress_job *job)
{
	free(job);
}

static void on_answer(struct egress_job *job, void *user)
{
	struct egress_query *q = (struct egress_query *)job;
	struct machine *m = user;

	m->n--;
	q->cb(q->addresses, q->n, q->user);
	free(q);
}

static struct egress_query *ask(struct egress_resolver *resolver, const char *name,
				egress_answer_fn cb, void *user)
{
	struct machine *m = (struct machine *)resolver;
	struct egress_query *q = m->n < QUERIES_MAX ? calloc(1, sizeof(*q)) : NULL;

	if (!q)
		return NULL;
	q->machine = m;
	q->cb = cb;
	q->user = user;
	memcpy(q->name, name, strnlen(name, EGRESS_HOST_MAX));
	m->n++;
	egress_threads_run(m->threads, &q->job);
	return q;
}

static void cancel(struct egress_query *q)
{
	struct machine *m = q->machine;

	m->n--;
	egress_threads_drop(m->threads, &q->job);
}

static void free_all(struct egress_resolver *resolver)
{
	struct machine *m = (struct machine *)resolver;

	ASSERT(m->n == 0);
	egress_threads_free(m->threads);
	free(m);
}

struct egress_resolver *egress_resolver_new(sd_event *loop)
{
	struct machine *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->resolver = (struct egress_resolver){.ask = ask, .cancel = cancel, .free = free_all};
	m->threads =
	    egress_threads_new(loop, &(struct egress_threads_use){.max = EGRESS_WORKERS,
								  .stack_bytes = STACK_BYTES,
								  .work = ask_machine,
								  .done = on_answer,
								  .free = free_query,
								  .user = m});
	if (m->threads)
		return &m->resolver;
	free(m);
	return NULL;
}
