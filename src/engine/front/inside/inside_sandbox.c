/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a sandbox in the front: its states (inside.h), and who is told of what. */
#include "engine/front/inside/inside.h"

#include "base/fdio.h"
#include "base/kill_points.h"
#include "base/loop.h"
#include "base/text.h"
#include "engine/front/inside/inside_output.h"

#include <string.h>
#include <sys/socket.h>

/* ---- states ---- */

enum event {
	STARTED, /* the engine: its init runs */
	UP,      /* init: it is set up */
	LOSE,    /* init ended, lied, stayed silent or failed; or the engine could not make it */
	DESTROY, /* its owner lets go */
	GONE,    /* the engine: nothing of it is left */
	EVENT_MAX_,
};

/* 0 = must not happen. What init does cannot lead there: inside_messages.c lets its messages
 * through in the right states only. What is left are errors of ours. */
static const uint8_t next_states[INSIDE_STATE_MAX_][EVENT_MAX_] = {
    [INSIDE_ASKED] = {[STARTED] = INSIDE_STARTING, [LOSE] = INSIDE_FAILED, [GONE] = INSIDE_OVER},
    [INSIDE_STARTING] = {[UP] = INSIDE_READY, [LOSE] = INSIDE_FAILED, [GONE] = INSIDE_OVER},
    [INSIDE_READY] = {[LOSE] = INSIDE_LOST, [DESTROY] = INSIDE_ENDING, [GONE] = INSIDE_LEFT},
    [INSIDE_FAILED] = {[LOSE] = INSIDE_FAILED, [GONE] = INSIDE_OVER},
    [INSIDE_LOST] = {[LOSE] = INSIDE_LOST, [DESTROY] = INSIDE_ENDING, [GONE] = INSIDE_LEFT},
    [INSIDE_LEFT] = {[LOSE] = INSIDE_LEFT, [DESTROY] = INSIDE_OVER},
    [INSIDE_ENDING] = {[LOSE] = INSIDE_ENDING, [GONE] = INSIDE_OVER},
    [INSIDE_OVER] = {[LOSE] = INSIDE_OVER},
};

/* Returns the state that S was in. */
static enum inside_state step(struct engine_sandbox *s, enum event event)
{
	const enum inside_state was = s->state;

	ASSERT(next_states[was][event] != 0);
	s->state = (enum inside_state)next_states[was][event];
	return was;
}

int inside_check_ready(const struct engine_sandbox *s, struct err *e)
{
	if (s->state == INSIDE_READY)
		return 0;
	return err_set(e, ERR_SANDBOX_LOST, EPIPE, "the sandbox has ended");
}

int inside_refuse(struct err *e, int r, enum err_code otherwise, const char *what)
{
	switch (-r) {
	case EPIPE:
	case ECONNRESET:
		return err_set(e, ERR_SANDBOX_LOST, -r, "%s: the sandbox has ended", what);
	case EMFILE:
	case ENFILE:
	case ETOOMANYREFS: /* descriptors that were sent and not received yet: unix(7) */
		return err_set(e, ERR_TOO_MANY_FILES, -r, "%s", what);
	case ENOMEM:
		return err_set(e, ERR_OUT_OF_MEMORY, -r, "%s", what);
	case ENOBUFS: /* CHANNEL_QUEUE_MAX */
		return err_set(e, ERR_SESSION_BUSY, 0,
			       "%s: the sandbox has too many requests to answer; try again", what);
	default:
		return err_set(e, otherwise, -r, "%s", what);
	}
}

/* ---- the beginning ---- */

void inside_new(struct engine *g, struct engine_sandbox *s, const struct engine_create *c,
		engine_create_fn cb, void *user)
{
	s->engine = g;
	s->state = INSIDE_ASKED;
	s->made_memory = c->limits.memory_bytes;
	(void)!text_copy(s->image, sizeof(s->image), c->image);
	s->warm = c->warm;
	s->clean = c->warm ? INSIDE_CLEAN_THERE : INSIDE_CLEAN_NONE;
	s->wants_egress = c->egress;
	s->egress = -1;
	s->counters = (struct inside_counters){-1, -1, -1};
	for (size_t i = 0; i < ENGINE_CONTEXTS_MAX; i++)
		s->streams[i][0] = s->streams[i][1] = (struct inside_pipe){-1, -1};
	list_init(&s->ops);
	list_init(&s->answers);
	list_init(&s->watches);
	list_init(&s->usages);
	list_init(&s->carried);
	list_init(&s->idle);
	list_init(&s->background);
	s->create_cb = cb;
	s->create_user = user;
	s->policy = (struct engine_policy){
	    .limits = c->limits, .enforced = g->enforced, .best_effort = g->best_effort};
}

void inside_started(struct engine_sandbox *s, int channel, const struct inside_counters *counters)
{
	uint64_t ignored;

	s->counters = *counters;
	(void)inside_cpu_look(s, &ignored); /* making it costs its user nothing */
	step(s, STARTED);
	KILL_POINT(CREATED_TAKEN);
	int r = inside_open_channel(s, channel);
	if (r < 0)
		inside_lose(s, strerror(-r));
}

/* Whether FD is what a sandbox with egress must send: a listening TCP socket. The code that accepts
 * connections from it distrusts every byte. */
static bool is_listener(int fd)
{
	int domain = 0;
	int type = 0;
	int listening = 0;
	socklen_t len = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_INET &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM &&
	       getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) == 0 && listening &&
	       fd_set_nonblock(fd, true) == 0;
}

/* Tells whoever asked for S that there is none. */
static void fail_create(struct engine_sandbox *s, const struct err *e)
{
	engine_create_fn cb = s->create_cb;

	s->create_cb = NULL;
	s->init = channel_free(s->init);
	if (cb)
		cb(NULL, NULL, e, s->create_user);
}

/* Init runs, or has tried: S is ended, and whoever asked for it is told. */
static int abandon(struct engine_sandbox *s, const struct err *e)
{
	step(s, LOSE);
	s->engine->ops->destroy(s);
	fail_create(s, e);
	return 0;
}

/* A limit that somebody set is held or refused. Which are held is known before, but for containers whose control groups
 * cannot be found. */
static int check_insisted(const struct engine_sandbox *s, struct err *e)
{
	const uint32_t missing = s->unheld & s->policy.limits.explicit_mask;

	if (!missing)
		return 0;
	return err_set(e, ERR_LIMIT_NOT_ENFORCEABLE, 0,
		       "the control groups of the container cannot be seen (its runtime keeps out "
		       "of them, or this server is in another PID namespace), so nothing shows "
		       "that the limit of %s is held",
		       missing & ENGINE_CAP_MEMORY ? "memory"
		       : missing & ENGINE_CAP_CPU  ? "CPU time"
						   : "processes");
}

int inside_up(struct engine_sandbox *s, const struct proto_init_ready *m, int *fds, size_t n)
{
	engine_create_fn cb = s->create_cb;
	struct err e = ERR_INIT;

	if (check_insisted(s, &e) < 0)
		return abandon(s, &e);

	/* Without a wish for egress, a descriptor is the one with which init tried whether it can send any. */
	if (s->wants_egress && (n != 1 || !is_listener(fds[0])))
		return -EPROTO;
	if (s->wants_egress)
		s->egress = TAKE_FD(fds[0]);
	s->inward = m->inward != 0;
	KILL_POINT(READY_TAKEN);
	step(s, UP);
	s->create_cb = NULL;
	cb(s, &s->policy, NULL, s->create_user);
	inside_idle_note(s);
	engine_note_ready(s);
	return 0;
}

int engine_take_egress(struct engine_sandbox *s)
{
	return TAKE_FD(s->egress);
}

int inside_set_up_failed(struct engine_sandbox *s, const struct proto_init_failed *m)
{
	struct err e = ERR_INIT;

	inside_step_error(&e, m->step, m->errnum);
	return abandon(s, &e);
}

void inside_refused(struct engine_sandbox *s, const struct err *e)
{
	step(s, GONE);
	fail_create(s, e);
	inside_free(s);
}

static int on_handed_over(sd_event_source *source UNUSED, void *user)
{
	struct engine_sandbox *s = user;

	loop_work("sandbox", "handed over");
	engine_create_fn cb = s->create_cb;
	struct err e = ERR_INIT;

	s->later = sd_event_source_disable_unref(s->later);
	s->create_cb = NULL;
	if (s->state == INSIDE_READY) {
		cb(s, &s->policy, NULL, s->create_user);
		inside_idle_note(s);
		return 0;
	}
	(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox ended before it was used");
	cb(NULL, NULL, &e, s->create_user);
	engine_destroy(s, NULL, NULL);
	return 0;
}

int inside_hand_over(struct engine_sandbox *s, engine_create_fn cb, void *user)
{
	ASSERT(s->state == INSIDE_READY && s->pooled && !s->later);
	int r = sd_event_add_defer(s->engine->loop, &s->later, on_handed_over, s);
	if (r < 0)
		return r;
	s->pooled = false;
	s->create_cb = cb;
	s->create_user = user;
	engine_on_lost(s, NULL, NULL);
	inside_clean_again(s);
	return 0;
}

/* ---- the end ---- */

static void close_figures(struct engine_sandbox *s)
{
	s->counters.oom = fd_close(s->counters.oom);
	s->counters.peak = fd_close(s->counters.peak);
	s->counters.cpu = fd_close(s->counters.cpu);
}

void inside_free(struct engine_sandbox *s)
{
	inside_idle_remove(s);
	s->init = channel_free(s->init);
	close_figures(s);
	for (size_t i = 0; i < ENGINE_CONTEXTS_MAX; i++)
		inside_streams_close(s, (unsigned)i);
	s->egress = fd_close(s->egress);
	inside_carried_abort(s);
	s->later = sd_event_source_disable_unref(s->later);
	s->patience = sd_event_source_disable_unref(s->patience);
	s->engine->ops->release(s);
}

/* Ends everything that waits for an answer of init, but not the run. */
static void abort_questions(struct engine_sandbox *s, const struct err *e)
{
	inside_files_abort(s, e);
	inside_usages_abort(s, e);
	inside_change_abort(s, e);
	inside_checkpoints_abort(s, e);
	inside_watch_abort(s, e);
	inside_store_abort(s, e);
}

void inside_tell_loss(struct engine_sandbox *s)
{
	inside_run_abort(s, ENGINE_END_LOST, NULL);
	if (s->lost_cb && (s->state == INSIDE_LOST || s->state == INSIDE_LEFT))
		s->lost_cb(s, s->lost_why, s->lost_user);
}

/* A sandbox that was READY has become LOST or LEFT. */
static void was_lost(struct engine_sandbox *s, const char *why, const struct err *e)
{
	s->lost_why = why;
	inside_idle_note(s);
	const bool telling = s->telling;
	bool later = inside_run_lose(s);

	s->telling = true;
	abort_questions(s, e);
	if (!later)
		inside_tell_loss(s);
	s->telling = telling;
}

/* OVER: tells whoever is left, and frees S. */
static void finish(struct engine_sandbox *s)
{
	engine_done_fn cb = s->destroy_cb;
	void *user = s->destroy_user;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_CANCELLED, 0, "the sandbox was closed");
	inside_run_abort(s, ENGINE_END_KILLED, NULL);
	abort_questions(s, &e);
	inside_free(s);
	if (cb)
		cb(NULL, user);
}

void inside_lose(struct engine_sandbox *s, const char *why)
{
	struct err e = ERR_INIT;
	const enum inside_state was = step(s, LOSE);

	s->init = channel_free(s->init);
	if (s->state == was)
		return; /* it is on its way out already */
	s->engine->ops->destroy(s);
	(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox is gone: %s", why);
	if (s->state != INSIDE_LOST) {
		fail_create(s, &e);
		return;
	}
	was_lost(s, why, &e);
	if (!s->telling && s->state == INSIDE_OVER && !s->later)
		finish(s);
}

/* Init may have said why it could not set up the sandbox, and the engine's word of its end was read first. */
static bool last_words(const struct engine_sandbox *s, struct err *e)
{
	union proto_frame f;
	const ssize_t n =
	    s->init ? recv(channel_fd(s->init), &f, sizeof(f), MSG_PEEK | MSG_DONTWAIT) : -1;

	if (n <= 0 || proto_check(&f, (size_t)n, 0, PROTO_PARTY_I, PROTO_PARTY_F) < 0 ||
	    f.head.type != PROTO_INIT_FAILED)
		return false;
	inside_step_error(e, f.failed.step, f.failed.errnum);
	return true;
}

void inside_gone(struct engine_sandbox *s, uint64_t cpu_ns)
{
	static const char why[] = "it ended on its own";
	struct err e = ERR_INIT;

	KILL_POINT(GONE_TAKEN);
	s->cpu_ns = cpu_ns;
	(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox ended before it was kept");
	inside_keep_abort(s, &e);
	const enum inside_state was = step(s, GONE);
	const enum inside_state is = s->state;
	close_figures(s);
	s->telling = true;
	if (was == INSIDE_READY || was == INSIDE_ASKED || was == INSIDE_STARTING) {
		if (was != INSIDE_STARTING || !last_words(s, &e))
			(void)err_set(&e, ERR_SANDBOX_LOST, 0, "the sandbox is gone: %s", why);
		s->init = channel_free(s->init);
	}
	if (was == INSIDE_READY)
		was_lost(s, why, &e);
	else if (was == INSIDE_LOST && s->run)
		inside_tell_loss(s); /* it waited for CPU_NS */
	else if (was == INSIDE_ASKED || was == INSIDE_STARTING)
		fail_create(s, &e);
	s->telling = false;
	/* Those who were told may have let go of S. Then on_later() tells them of its end and frees it. */
	const bool unfinished = is == INSIDE_LEFT && s->state == INSIDE_OVER && !s->later;
	if (was == INSIDE_ENDING || unfinished)
		finish(s);
	else if (is == INSIDE_OVER)
		inside_free(s);
}

static int on_later(sd_event_source *source UNUSED, void *user)
{
	loop_work("sandbox", "later");
	finish(user);
	return 0;
}

void engine_destroy(struct engine_sandbox *s, engine_done_fn cb, void *user)
{
	step(s, DESTROY);
	s->store = (struct inside_store_op){0};
	s->destroy_cb = cb;
	s->destroy_user = user;
	inside_idle_note(s);
	if (s->state == INSIDE_ENDING) {
		s->engine->ops->destroy(s);
		KILL_POINT(DESTROY_SENT);
		return;
	}
	s->later = sd_event_source_disable_unref(s->later);
	/* Without memory to wait, CB is called early: better than never. But whoever tells of the loss still needs S, and
	 * finishes it then. */
	if (sd_event_add_defer(s->engine->loop, &s->later, on_later, s) < 0 && !s->telling)
		finish(s);
}

void engine_on_lost(struct engine_sandbox *s, engine_lost_fn cb, void *user)
{
	s->lost_cb = cb;
	s->lost_user = user;
}

enum engine_ration engine_ration(const struct engine_sandbox *s)
{
	return s->ration;
}

void engine_on_ration(struct engine_sandbox *s, engine_ration_fn cb, void *user)
{
	s->ration_cb = cb;
	s->ration_user = user;
}

void inside_rationed(struct engine_sandbox *s, enum engine_ration ration)
{
	s->ration = ration;
	if (s->ration_cb)
		s->ration_cb(s, s->ration_user);
}

void inside_cancel(struct engine_sandbox *s, const struct err *e)
{
	inside_run_abort(s, ENGINE_END_KILLED, e);
	abort_questions(s, e);
	inside_keep_abort(s, e);
	if (s->create_cb)
		fail_create(s, e);
	if (s->destroy_cb)
		s->destroy_cb(e, s->destroy_user);
	inside_free(s);
}
