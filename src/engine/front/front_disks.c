/* SPDX-License-Identifier: Apache-2.0 */
/* The files of stored workspaces (engine/disks.h): asked of the monitor, which alone may open them. */
#include "engine/front/front.h"

#include "base/fdio.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>

_Static_assert((int)PROTO_DISK_READ == (int)ENGINE_DISK_READ &&
		   (int)PROTO_DISK_NEW == (int)ENGINE_DISK_NEW &&
		   (int)PROTO_DISK_KEEP == (int)ENGINE_DISK_KEEP &&
		   (int)PROTO_DISK_DROP == (int)ENGINE_DISK_DROP &&
		   PROTO_DISKS_NEW_MAX == ENGINE_DISKS_NEW_MAX,
	       "one set of words");

struct front_disk { /* a request that was not answered yet */
	struct list node;
	uint32_t seq;
	engine_disk_fn had;
	engine_done_fn done;
	void *user;
};

/* D is in no list any more. Frees it. */
static void answer(struct front_disk *d, int file, const struct err *e)
{
	if (d->had)
		d->had(file, e, d->user);
	else
		(void)fd_close(file);
	if (d->done)
		d->done(e, d->user);
	free(d);
}

int front_disk(struct engine *base, const struct engine_disk_order *o, struct err *e)
{
	struct front_engine *g = front_engine_of(base);
	struct proto_mon_disk m = {.head = PROTO_HEAD(MON_DISK, proto_mon_disk),
				   .what = o->what,
				   .bytes = MIN(o->bytes, PROTO_DISK_MAX)};

	if (!proto_key_ok(o->persist_id))
		return err_set(e, ERR_INVALID_ARGUMENT, EINVAL, "key of a workspace");
	if (g->dead)
		return front_refuse_dead(g, e);
	struct front_disk *d = calloc(1, sizeof(*d));
	if (!d)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a stored disk");
	*d = (struct front_disk){
	    .seq = ++g->next_disk, .had = o->had, .done = o->done, .user = o->user};
	m.seq = d->seq;
	(void)!text_copy(m.persist, sizeof(m.persist), o->persist_id);
	const int r = channel_send(g->monitor, &m.head, NULL, 0);
	if (r < 0) {
		free(d);
		return err_set(e, ERR_ENGINE_UNAVAILABLE, -r, "the monitor does not answer");
	}
	list_prepend(&g->disks, &d->node);
	return 0;
}

static void explain(int errnum, struct err *e)
{
	static const struct {
		int errnum;
		enum err_code code;
		const char *text;
	} rows[] = {
	    {EBUSY, ERR_SANDBOX_IN_USE, "the sandbox is open"},
	    {ENOENT, ERR_NOT_FOUND, "there is no such stored workspace"},
	    {EEXIST, ERR_ALREADY_EXISTS, "there is such a stored workspace already"},
	    {EMFILE, ERR_SERVER_BUSY, "too many stored workspaces arrive at the same time"},
	    {ENOSPC, ERR_HOST_DISK_FULL, "the disk of this machine has no room for it"},
	    {EPERM, ERR_FORBIDDEN, "this server was not started as a worker"},
	    {ENOTSUP, ERR_ENGINE_NOT_BUILT_IN, "stored workspaces are no disks here"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].errnum == errnum) {
			(void)err_set(e, rows[i].code, 0, "%s", rows[i].text);
			return;
		}
	(void)err_set(e, ERR_SYSTEM, errnum, "the file of a stored workspace");
}

int front_disk_had(struct front_engine *g, const struct proto_mon_disk_had *m, int file)
{
	struct err e = ERR_INIT;

	list_for_each(l, &g->disks) {
		struct front_disk *d = list_entry(l, struct front_disk, node);

		if (d->seq != m->seq)
			continue;
		if (m->errnum == 0 && d->had && file < 0)
			break;
		if (m->errnum != 0) {
			explain(m->errnum, &e);
			file = fd_close(file);
		}
		list_remove(&d->node);
		answer(d, file, m->errnum != 0 ? &e : NULL);
		return 0;
	}
	(void)fd_close(file);
	return -EPROTO;
}

void front_disks_abort(struct front_engine *g, const struct err *e)
{
	struct front_disk *d;

	while ((d = list_pop_first(&g->disks, struct front_disk, node)))
		answer(d, -1, e);
}
