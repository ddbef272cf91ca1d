/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of folders and of ports. Init speaks only when it was asked: START and NEXT get one answer each, STOP gets the
 * last. So a sandbox cannot flood the front, and who does not ask has nothing in the front's memory. */
#include "engine/front/inside/inside.h"

#include "base/text.h"

#include <string.h>

/* Of both kinds. Those that end count until init has said so. */
#define WATCHES_MAX (2u * 2u * PROTO_WATCHES_MAX)

struct engine_watch {
	struct list node; /* of the sandbox */
	struct engine_sandbox *sandbox;
	uint32_t number;
	bool ports;    /* else of a folder */
	bool begun;    /* the answer to its START has come */
	bool asked;    /* a START or NEXT has no answer yet */
	bool stopping; /* nobody wants to hear of it */
	bool absolute; /* its folder is named from the root on, and so is what changes in it */
	engine_watch_fn cb;
	void *user;
};

_Static_assert(ENGINE_CHANGE_CREATE == (int)PROTO_CHANGE_CREATE &&
		   ENGINE_CHANGE_WRITE == (int)PROTO_CHANGE_WRITE &&
		   ENGINE_CHANGE_REMOVE == (int)PROTO_CHANGE_REMOVE &&
		   ENGINE_CHANGE_RENAME == (int)PROTO_CHANGE_RENAME &&
		   ENGINE_CHANGE_CHMOD == (int)PROTO_CHANGE_CHMOD,
	       "they are passed on as they are");

static void watch_free(struct engine_watch *w)
{
	list_remove(&w->node);
	w->sandbox->n_watches--;
	free(w);
}

static int ask(const struct engine_watch *w, enum proto_watch_op op, uint32_t flags,
	       const char *path)
{
	struct proto_init_watch m = {.head = PROTO_HEAD(INIT_WATCH, proto_init_watch),
				     .watch = w->number,
				     .op = op,
				     .flags = flags};
	const int r = text_copy(m.path, sizeof(m.path), path);

	return r < 0 ? r : channel_send(w->sandbox->init, &m.head, NULL, 0);
}

static int start(struct engine_sandbox *s, const char *path, uint32_t flags, engine_watch_fn cb,
		 void *user, struct engine_watch **ret, struct err *e)
{
	char checked[PROTO_PATH_MAX] = "";
	int r = inside_check_ready(s, e);

	if (r < 0)
		return r;
	if (text_copy(checked, sizeof(checked), path) < 0 || !proto_path_ok(checked, true))
		return err_set(e, ERR_INVALID_PATH, EINVAL, "a path inside the sandbox is needed");
	if (s->n_watches >= WATCHES_MAX)
		return err_set(e, ERR_BUDGET_EXCEEDED, 0,
			       "the sandbox has %u watches that have not ended", s->n_watches);
	struct engine_watch *w = calloc(1, sizeof(*w));
	if (!w)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "watching");
	*w = (struct engine_watch){.sandbox = s,
				   .number = ++s->next_seq,
				   .ports = flags & PROTO_WATCH_PORTS,
				   .asked = true,
				   .cb = cb,
				   .user = user};
	w->absolute = path[0] == '/';
	list_append(&s->watches, &w->node);
	s->n_watches++;
	r = ask(w, PROTO_WATCH_START, flags, path);
	if (r < 0) {
		watch_free(w);
		return inside_refuse(e, r, ERR_SYSTEM, "the sandbox cannot be asked");
	}
	inside_wait(s);
	*ret = w;
	return 0;
}

int engine_watch(struct engine_sandbox *s, const char *path, bool recursive, engine_watch_fn cb,
		 void *user, struct engine_watch **ret, struct err *e)
{
	return start(s, path, recursive ? PROTO_WATCH_RECURSIVE : 0, cb, user, ret, e);
}

int engine_watch_ports(struct engine_sandbox *s, engine_watch_fn cb, void *user,
		       struct engine_watch **ret, struct err *e)
{
	if (s->inward)
		return err_set(e, ERR_PORT_UNAVAILABLE, 0,
			       "the ports of a sandbox under gVisor cannot be seen from outside");
	return start(s, "", PROTO_WATCH_PORTS, cb, user, ret, e);
}

void engine_watch_next(struct engine_watch *w)
{
	if (w->asked || !w->sandbox->init)
		return;
	w->asked = true;
	(void)!ask(w, PROTO_WATCH_NEXT, 0, ""); /* an ended channel says so itself */
}

void engine_unwatch(struct engine_watch *w)
{
	struct engine_sandbox *s = w->sandbox;

	w->stopping = true;
	if (!s->init)
		return; /* inside_watch_abort() frees it */
	(void)!ask(w, PROTO_WATCH_STOP, 0, "");
	inside_wait(s);
}

/* ---- answers ---- */

static int take_changes(const struct engine_watch *w, const struct proto_init_changed *m,
			struct engine_news *ret)
{
	static struct engine_change changes[PROTO_CHANGES_MAX]; /* one loop, one thread */
	const char *at = m->data;
	const char *end = m->data + m->bytes;

	if (m->n > PROTO_CHANGES_MAX)
		return -EPROTO;
	for (uint32_t i = 0; i < m->n; i++) {
		const uint8_t kind = at < end ? (uint8_t)*at++ : 0;
		const uint8_t bare = kind & (uint8_t)~PROTO_CHANGE_FOLDER;
		const char *nul = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;

		if (!nul || bare == 0 || bare >= PROTO_CHANGE_MAX_ || nul - at >= PROTO_PATH_MAX ||
		    !proto_path_ok(at, false) || (at[0] == '/') != w->absolute)
			return -EPROTO;
		changes[i] = (struct engine_change){.kind = (enum engine_change_kind)bare,
						    .folder = kind & PROTO_CHANGE_FOLDER,
						    .path = at};
		at = nul + 1;
	}
	ret->changes = changes;
	ret->n_changes = m->n;
	return at == end ? 0 : -EPROTO;
}

static int take_ports(const struct proto_init_changed *m, struct engine_news *ret)
{
	static struct proto_port rows[PROTO_PORTS_MAX]; /* the message is not aligned for them */
	static struct engine_port ports[PROTO_PORTS_MAX];

	if (m->n > PROTO_PORTS_MAX || m->bytes != m->n * sizeof(rows[0]))
		return -EPROTO;
	memcpy(rows, m->data, m->bytes);
	ret->ports = ports;
	ret->n_ports = m->n;
	return inside_take_ports(rows, m->n, ports);
}

_Static_assert(PROTO_PORTS_MAX * sizeof(struct proto_port) <= PROTO_CHANGED_BYTES,
	       "one message has them all");

static void set_error(struct err *e, int errnum)
{
	static const struct {
		int errnum;
		enum err_code code;
		const char *text;
	} rows[] = {
	    {ENOENT, ERR_NOT_FOUND, "there is no such folder, or not any more"},
	    {ELOOP, ERR_NOT_FOUND, "a link is no folder of the workspace"},
	    {EXDEV, ERR_NOT_FOUND, "there is no such folder"},
	    {EACCES, ERR_NOT_FOUND, "the folder cannot be read"},
	    {ENAMETOOLONG, ERR_INVALID_PATH, "the path is too long"},
	    {ENOTDIR, ERR_INVALID_ARGUMENT, "only a folder can be watched, and this is a file"},
	    {EAGAIN, ERR_BUDGET_EXCEEDED,
	     "this sandbox has as many watches of this kind as it may have; end one"},
	    {ENOMEM, ERR_OUT_OF_MEMORY, "the sandbox has no memory for it"},
	    {EMFILE, ERR_TOO_MANY_FILES,
	     "programs in this sandbox, or in others of its user, hold all instances of inotify "
	     "that the kernel gives them"},
	    {ENOSPC, ERR_TOO_MANY_FILES,
	     "the user of the sandbox watches as many folders as the kernel permits "
	     "(fs.inotify.max_user_watches)"},
	    {ENOSYS, ERR_NOT_IMPLEMENTED, "the kernel of this sandbox cannot watch folders"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].errnum == errnum) {
			(void)err_set(e, rows[i].code, 0, "%s", rows[i].text);
			return;
		}
	(void)err_set(e, ERR_SYSTEM, errnum, "the folder cannot be watched");
}

static void tell_end(struct engine_watch *w, const struct err *e)
{
	const engine_watch_fn cb = w->stopping ? NULL : w->cb;
	void *user = w->user;

	watch_free(w);
	if (cb)
		cb(NULL, e, user);
}

static struct engine_watch *find(const struct engine_sandbox *s, uint32_t number)
{
	list_for_each(l, &s->watches) {
		struct engine_watch *w = list_entry(l, struct engine_watch, node);

		if (w->number == number)
			return w;
	}
	return NULL;
}

int inside_watch_told(struct engine_sandbox *s, const struct proto_init_changed *m)
{
	struct engine_watch *w = find(s, m->watch);
	struct engine_news news = {.overflow = m->flags & PROTO_CHANGED_OVERFLOW,
				   .partial = m->flags & PROTO_CHANGED_PARTIAL};
	struct err e = ERR_INIT;

	if (!w || m->errnum < 0 || m->errnum > 4095 || m->bytes > sizeof(m->data) ||
	    (m->flags & ~(uint32_t)PROTO_CHANGED_FLAGS) != 0)
		return -EPROTO;
	if (m->flags & PROTO_CHANGED_ENDED) {
		if (m->errnum == 0 && !w->stopping)
			return -EPROTO;
		set_error(&e, m->errnum);
		tell_end(w, &e);
		inside_wait(s);
		return 0;
	}
	if (!w->asked || m->errnum != 0)
		return -EPROTO;
	const bool first = !w->begun;
	w->asked = false;
	w->begun = true;
	const int r = w->ports             ? take_ports(m, &news)
		      : first && m->n != 0 ? -EPROTO
					   : take_changes(w, m, &news);
	if (r < 0)
		return r;
	if (first)
		inside_wait(s);
	if (!w->stopping)
		w->cb(&news, NULL, w->user);
	return 0;
}

bool inside_watch_asks(const struct engine_sandbox *s)
{
	list_for_each(l, &s->watches) {
		const struct engine_watch *w = list_entry(l, struct engine_watch, node);

		if (!w->begun || w->stopping)
			return true;
	}
	return false;
}

void inside_watch_abort(struct engine_sandbox *s, const struct err *e)
{
	struct engine_watch *w;

	while ((w = list_first(&s->watches, struct engine_watch, node)))
		tell_end(w, e);
}
