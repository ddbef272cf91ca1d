/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of the ports that are listened on. The kernel has no event for them, so init looks at its table: once a second
 * while submitted code may execute, and once after anything else has happened in the sandbox, such as the end of a run or a
 * checkpoint that was restored. A sandbox in which nothing happens is not looked at, and one without such a watch never.
 *
 * Any number of sockets may be there, and each look goes through them. A look that took long is followed by a longer pause,
 * so that init is there for everything else. */
#include "init.h"
#include "watch.h"

#include <string.h>

#define LOOK_NS  UINT64_C(1000000000)
#define AFTER_NS UINT64_C(100000000) /* what was just killed has closed its sockets by then */
#define PAUSES   20U                 /* at least so many times as long as the look before */

struct port_watch *watch_ports_find(struct init *in, uint32_t number)
{
	struct init_port_watches *p = &in->watches.ports;

	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		if (p->all[i].number == number)
			return &p->all[i];
	return NULL;
}

static void look(struct init *in)
{
	static struct proto_port now[PROTO_PORTS_MAX];
	struct init_port_watches *p = &in->watches.ports;
	const uint64_t began = init_now();
	bool more;
	const uint32_t n = ports_read(in, now, &more);
	const uint64_t ended = init_now();
	const uint64_t pause = (ended - began) * PAUSES;

	if (n != p->n || more != p->more || memcmp(now, p->ports, n * sizeof(now[0])) != 0) {
		memcpy(p->ports, now, n * sizeof(now[0]));
		p->n = n;
		p->more = more;
		p->version++;
	}
	p->due = 0;
	p->next = ended + (pause > LOOK_NS ? pause : LOOK_NS);
}

static void tell(struct init *in, struct port_watch *w)
{
	const struct init_port_watches *p = &in->watches.ports;
	struct proto_init_changed *a = watch_answer(w->number);

	a->n = p->n;
	a->bytes = p->n * (uint32_t)sizeof(p->ports[0]);
	a->flags = p->more ? PROTO_CHANGED_PARTIAL : 0;
	memcpy(a->data, p->ports, a->bytes);
	w->told = p->version;
	w->asked = false;
	init_send(in, &a->head, NULL, 0);
}

int watch_ports_begin(struct init *in, uint32_t number)
{
	struct port_watch *w = watch_ports_find(in, 0);

	if (!w)
		return -EAGAIN;
	*w = (struct port_watch){.number = number};
	if (init_now() >= in->watches.ports.next)
		look(in);
	tell(in, w);
	return 0;
}

/* When the next look is due. Each turn of the loop stands for something that has happened, except the turn of the look. */
static uint64_t due_after(const struct init *in, uint64_t now)
{
	const uint64_t at = now + (init_executes(in) ? LOOK_NS : AFTER_NS);

	return at > in->watches.ports.next ? at : in->watches.ports.next;
}

void watch_ports_work(struct init *in)
{
	struct init_port_watches *p = &in->watches.ports;
	bool asked = false;

	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		asked |= p->all[i].number != 0 && p->all[i].asked;
	if (!asked) {
		p->due = 0;
		return;
	}
	const uint64_t now = init_now();
	const bool looks = p->due != 0 && now >= p->due;
	if (looks)
		look(in);
	if (p->due == 0 && (!looks || init_executes(in)))
		p->due = due_after(in, now);
	for (size_t i = 0; i < PROTO_WATCHES_MAX; i++)
		if (p->all[i].number != 0 && p->all[i].asked && p->all[i].told != p->version)
			tell(in, &p->all[i]);
}
