/* SPDX-License-Identifier: Apache-2.0 */
/* How a sandbox gets a clean interpreter back.
 *
 * Init forks the interpreters of runs from a clean one, which only the image's zygote can make. The
 * first one comes with the sandbox. It can end (a run kills it, or the kernel does when memory is
 * short), become a run itself, or be given back while the sandbox is idle. Then a new one is forked:
 *
 *   init -- INIT_COLD --> front -- engine_ops.warm --> engine
 *   init <-- INIT_WARM + channel -- front <-- inside_warmed() -- engine
 *
 *   it ended           the front asks between runs, at most once in RETRY_NS
 *   it became a run    the front asks when init says that the sandbox is quiet
 *   it was given back  the front asks with the next run
 *
 * A run that finds none asks and waits. It asks again when the new one is lost, too: a fork that
 * arrives while an earlier run ends is killed with what that run left behind. Where there is no
 * interpreter to be had, the run starts a cold one, with the same result. */
#include "engine/front/inside/inside.h"

#include "base/fdio.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define RETRY_NS  NS_PER_S
#define AGAIN_MAX 3 /* for one run: a hostile init could ask for ever */
/* INIT_COLD between two runs or interpreters; init sends one or two. A hostile init could send nothing else, and the
 * front would read for ever. */
#define COLDS_MAX 16

static bool ask(struct engine_sandbox *s)
{
	if (engine_ask_warm(s) < 0)
		return false;
	s->clean = INSIDE_CLEAN_ASKED;
	s->clean_retry_ns = now_ns() + RETRY_NS;
	return true;
}

enum proto_warm inside_clean_for_run(struct engine_sandbox *s)
{
	s->clean_asked = 0;
	s->colds = 0;
	if (s->clean == INSIDE_CLEAN_THERE)
		return PROTO_WARM_YES;
	return s->clean == INSIDE_CLEAN_ASKED || ask(s) ? PROTO_WARM_COMING : PROTO_WARM_YES;
}

void inside_clean_again(struct engine_sandbox *s)
{
	if (s->warm && s->state == INSIDE_READY && !s->run && s->clean == INSIDE_CLEAN_NONE &&
	    now_ns() >= s->clean_retry_ns)
		(void)ask(s);
}

void inside_clean_spent(struct engine_sandbox *s)
{
	if (s->clean == INSIDE_CLEAN_THERE)
		s->clean = INSIDE_CLEAN_SPENT;
}

void inside_zygote_failed(const char *image, const char said[PROTO_SAID_MAX])
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(3 * PROTO_SAID_MAX);
	const int r = text_add_utf8_lossy(&text, said, strnlen(said, PROTO_SAID_MAX));

	LOG_OFTEN(LOG_LEVEL_WARNING, "zygote_failed", LOG_S("image", image),
		  LOG_S("said", r == 0 ? buf_str(&text) : ""));
}

int inside_clean_lost(struct engine_sandbox *s, bool awaited)
{
	if (++s->colds > COLDS_MAX)
		return -EPROTO;
	if (s->clean == INSIDE_CLEAN_SPENT) /* expected: ask at once */
		s->clean_retry_ns = 0;
	if (s->clean == INSIDE_CLEAN_THERE || s->clean == INSIDE_CLEAN_SPENT)
		s->clean = INSIDE_CLEAN_NONE;
	if (!awaited || !s->run)
		inside_clean_again(s);
	else if (s->clean != INSIDE_CLEAN_ASKED && s->clean_asked++ < AGAIN_MAX)
		(void)ask(s);
	return 0;
}

void inside_warmed(struct engine_sandbox *s, int channel, bool soon)
{
	struct proto_init_warm w = {.head = PROTO_HEAD(INIT_WARM, proto_init_warm), .soon = soon};
	size_t n = channel >= 0 ? 1 : 0;

	if (s->clean != INSIDE_CLEAN_ASKED || !s->init) {
		(void)fd_close(channel);
		return;
	}
	s->colds = 0;
	s->clean = n == 1 ? INSIDE_CLEAN_THERE : INSIDE_CLEAN_NONE;
	(void)!channel_send(s->init, &w.head, &channel,
			    n); /* a channel that ended says so itself */
}

void inside_clean_rest(struct engine_sandbox *s)
{
	struct proto_init_note r = {.head = PROTO_HEAD(INIT_REST, proto_init_note)};

	if (s->init && channel_send(s->init, &r.head, NULL, 0) == 0)
		s->clean = INSIDE_CLEAN_RESTED;
}
