/* SPDX-License-Identifier: Apache-2.0 */
/* Is what somebody wants to upload base64? A long text is looked at in turns of the event loop:
 * nobody else waits for it. */
#include "base/base64.h"
#include "base/fdio.h"
#include "sandbox/manager.h"

#define TURN_BYTES (4u << 20) /* of text, per turn of the loop */

struct upload_check {
	struct list node; /* of the manager */
	struct manager *manager;
	struct upload_source source;
	uint64_t done; /* bytes of text looked at */
	struct base64_decoder decoder;
	sd_event_source *turn;
	upload_check_fn cb;
	void *user;
};

/* Looks at the text from *AT to STOP. */
static int look(const struct upload_source *source, struct base64_decoder *decoder, uint64_t *at,
		uint64_t stop)
{
	_cleanup_free_ char *space = malloc(UPLOAD_PIECE_BYTES);

	if (!space)
		return -ENOMEM;
	while (*at < stop) {
		const char *piece = NULL; /* a compiler cannot see that it is set */
		const ssize_t n = upload_read_piece(source, *at, space, &piece);
		const int r = n < 0 ? (int)n : base64_decode(decoder, piece, (size_t)n, NULL, NULL);

		if (r < 0)
			return r;
		*at += (uint64_t)n;
	}
	return 0;
}

static void finish(struct upload_check *c, int r)
{
	list_remove(&c->node);
	(void)sd_event_source_disable_unref(c->turn);
	c->cb(r, c->user);
	free(c);
}

static int on_turn(sd_event_source *source UNUSED, void *user)
{
	struct upload_check *c = user;
	const uint64_t stop = MIN(c->source.len, c->done + TURN_BYTES);
	int r = look(&c->source, &c->decoder, &c->done, stop);

	if (r == 0 && c->done < c->source.len)
		return 0;
	finish(c, r < 0 ? r : base64_decode_end(&c->decoder));
	return 0;
}

static int begin(struct upload_check *c)
{
	int r = sd_event_add_defer(c->manager->config.loop, &c->turn, on_turn, c);

	/* As in upload.c: a defer source of the usual priority would starve the others. */
	if (r >= 0)
		r = sd_event_source_set_priority(c->turn, SD_EVENT_PRIORITY_NORMAL + 1);
	return r >= 0 ? sd_event_source_set_enabled(c->turn, SD_EVENT_ON) : r;
}

int upload_check_base64(struct manager *m, const struct upload_source *source, upload_check_fn cb,
			void *user)
{
	if (source->len <= TURN_BYTES) {
		struct base64_decoder decoder = {0};
		uint64_t at = 0;
		const int r = look(source, &decoder, &at, source->len);

		return r < 0 ? r : base64_decode_end(&decoder);
	}
	struct upload_check *c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->manager = m;
	c->source = *source;
	c->cb = cb;
	c->user = user;
	const int r = begin(c);
	if (r < 0) {
		(void)sd_event_source_disable_unref(c->turn);
		free(c);
		return r;
	}
	list_prepend(&m->checks, &c->node);
	return 1;
}

void upload_checks_end(struct manager *m)
{
	while (!list_is_empty(&m->checks))
		finish(list_first(&m->checks, struct upload_check, node), -ECANCELED);
}
