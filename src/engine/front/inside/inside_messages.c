/* SPDX-License-Identifier: Apache-2.0 */
/* What init may say, and when. Its type, length and number of descriptors were checked against the
 * table of messages (messages.tbl.h) before; here each type has the states of the sandbox in which
 * it is allowed, and a handler. Anything else ends the sandbox. */
#include "engine/front/inside/inside.h"

#include "base/text.h"

#define TEXT_OF_(number) #number
#define TEXT_OF(number)  TEXT_OF_(number)
#define IN(state)        (1u << INSIDE_##state)
/* Until the engine says that the sandbox is gone, init may still answer what it was asked. */
#define ALIVE (IN(READY) | IN(ENDING))

static int on_ready(struct engine_sandbox *s, const union proto_frame *f, int *fds, size_t n)
{
	return inside_up(s, &f->ready, fds, n);
}

static int on_failed(struct engine_sandbox *s, const union proto_frame *f, int *fds UNUSED,
		     size_t n UNUSED)
{
	return inside_set_up_failed(s, &f->failed);
}

static int on_ended(struct engine_sandbox *s, const union proto_frame *f, int *fds UNUSED,
		    size_t n UNUSED)
{
	return inside_run_ended(s, &f->ended);
}

static int on_filed(struct engine_sandbox *s, const union proto_frame *f, int *fds, size_t n)
{
	return inside_filed(s, &f->filed, fds, n);
}

static int on_cold(struct engine_sandbox *s, const union proto_frame *f, int *fds UNUSED,
		   size_t n UNUSED)
{
	return inside_clean_lost(s, f->cold.awaited != 0);
}

/* Once for an image: the next sandbox of it would say the same. */
static int on_zygote(struct engine_sandbox *s, const union proto_frame *f, int *fds UNUSED,
		     size_t n UNUSED)
{
	struct engine *g = s->engine;

	if (streq(g->cold_image, s->image))
		return 0;
	(void)!text_copy(g->cold_image, sizeof(g->cold_image), s->image);
	inside_zygote_failed(s->image, f->own_zygote.said);
	return 0;
}

static int on_changed(struct engine_sandbox *s, const union proto_frame *f, int *fds UNUSED,
		      size_t n UNUSED)
{
	return inside_watch_told(s, &f->changed);
}

static int on_stored(struct engine_sandbox *s, const union proto_frame *f, int *fds UNUSED,
		     size_t n UNUSED)
{
	return inside_stored(s, &f->stored);
}

static int on_checkpointed(struct engine_sandbox *s, const union proto_frame *f, int *fds UNUSED,
			   size_t n UNUSED)
{
	return inside_checkpointed(s, &f->checkpointed);
}

static const struct {
	unsigned states;
	int (*handle)(struct engine_sandbox *s, const union proto_frame *f, int *fds, size_t n);
} messages[PROTO_TYPE_MAX_] = {
    [PROTO_INIT_READY] = {IN(STARTING), on_ready},
    [PROTO_INIT_FAILED] = {IN(STARTING), on_failed},
    [PROTO_INIT_ENDED] = {ALIVE, on_ended},
    [PROTO_INIT_FILED] = {ALIVE, on_filed},
    [PROTO_INIT_COLD] = {IN(STARTING) | ALIVE, on_cold},
    [PROTO_INIT_ZYGOTE] = {ALIVE, on_zygote},
    [PROTO_INIT_CHANGED] = {ALIVE, on_changed},
    [PROTO_INIT_CHECKPOINTED] = {ALIVE, on_checkpointed},
    [PROTO_INIT_STORED] = {ALIVE, on_stored},
};

static int on_message(const union proto_frame *f, int *fds, size_t n, void *user)
{
	struct engine_sandbox *s = user;

	if (!(messages[f->head.type].states & 1u << s->state))
		return -EPROTO;
	return messages[f->head.type].handle(s, f, fds, n);
}

static void on_end(int error, void *user)
{
	inside_lose(user, error == -EPROTO ? "it broke the protocol" : "its first process ended");
}

int inside_open_channel(struct engine_sandbox *s, int fd)
{
	return channel_new(s->engine->loop, fd, PROTO_PARTY_I, on_message, on_end, s, &s->init);
}

/* ---- what the end of a run says ---- */

_Static_assert(PROTO_KIND_THREADS == (int)ENGINE_KIND_THREADS &&
		   PROTO_KIND_PROCESSES == (int)ENGINE_KIND_PROCESSES &&
		   PROTO_KIND_CONNECTIONS == (int)ENGINE_KIND_CONNECTIONS,
	       "they are passed on as they are");

/* What the process of a session says of its names is hostile. */
void inside_take_names(struct engine_left *left, const struct proto_init_ended *m)
{
	const size_t len = strnlen(m->gone, sizeof(m->gone));
	bool good = len < sizeof(left->names) && text_is_utf8(m->gone, len);

	left->carried = m->flags & PROTO_ENDED_CARRIED;
	left->behind = m->flags & PROTO_ENDED_BEHIND;
	left->rested = m->flags & PROTO_ENDED_RESTED;
	left->names_kept = m->names_kept;
	left->names_gone = m->names_gone;
	left->lost = m->lost < PROTO_LOST_END_ ? (enum engine_lost)m->lost : ENGINE_LOST_CRASHED;
	for (size_t i = 0; i < len && good; i++)
		good = (uint8_t)m->gone[i] >= ' ' && m->gone[i] != 0x7f && !text_is_c1(m->gone + i);
	(void)memcpy(left->names, m->gone, good ? len : 0);
}

void inside_start_failed(int errnum, bool background, struct err *e)
{
	static const struct {
		int errnum;
		bool background; /* it says this of these alone, or of the others alone */
		bool both;
		enum err_code code;
		const char *text;
	} rows[] = {
	    {EDQUOT, false, true, ERR_NO_SPACE,
	     "the workspace holds more than it may; remove files first"},
	    {EAGAIN, true, false, ERR_BUDGET_EXCEEDED,
	     TEXT_OF(PROTO_BACKGROUND_MAX) " background processes of the sandbox are on; end one "
					   "first"},
	    {ENOSPC, true, false, ERR_BUDGET_EXCEEDED,
	     "all terminals of the sandbox are open; end a program that has opened some"},
	    {ENOTSUP, true, false, ERR_TERMINAL_UNAVAILABLE,
	     "the kernel of this sandbox cannot tell which processes belong to a terminal"},
	    {ENOTSUP, false, false, ERR_ENGINE_UNAVAILABLE,
	     "no interpreter that keeps the state could be had in time; try again, or run without "
	     "a "
	     "state"},
	    {ENOENT, false, true, ERR_NOT_FOUND, "the program cannot be started"},
	    {EACCES, false, true, ERR_INVALID_ARGUMENT,
	     "its user may not enter the working folder, or not execute the program; change their "
	     "permissions (chmod), or choose another folder"},
	    {ENOTDIR, true, false, ERR_INVALID_ARGUMENT, "the working folder is no folder"},
	    {ENOEXEC, false, true, ERR_INVALID_ARGUMENT,
	     "the program is none that this machine can execute"},
	    {ENOPKG, false, false, ERR_IMAGE_UNSUITABLE,
	     "the image of this sandbox has no Python of 3.9 or newer, so it runs no Python code; "
	     "run "
	     "a command or a process instead, or make a sandbox of an image with Python"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].errnum == errnum &&
		    (rows[i].both || rows[i].background == background)) {
			(void)err_set(e, rows[i].code, errnum == ENOENT ? errnum : 0, "%s",
				      rows[i].text);
			return;
		}
	(void)err_set(e, ERR_EXECUTION_FAILED, errnum, "the program cannot be started");
}
