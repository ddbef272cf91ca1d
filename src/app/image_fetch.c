/* SPDX-License-Identifier: Apache-2.0 */
#include "app/image_fetch.h"

#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <string.h>

#define FROM_MAX 600
#define STEP_MAX 120
#define TELL_US  UINT64_C(1000000)
/* Clients of MCP give up after 60 s unless they are told otherwise: an answer before that says that the
 * download goes on. */
#define PATIENCE_NS (45 * NS_PER_S)
/* How much of a waiting call's progress is which part of the download. Progress only grows: what the
 * tool itself reports below this is not sent. */
#define PROGRESS_FETCHED  0.8
#define PROGRESS_UNPACKED 0.9

struct wait {
	struct list node;
	uint64_t until_ns;
	sandbox_done_fn cb;
	void *arg;
};

struct image_fetch {
	struct image_fetch_config config;
	char from[FROM_MAX];
	char step[STEP_MAX]; /* what the download is doing */
	double progress;     /* of a waiting call, 0 to PROGRESS_UNPACKED */
	bool wanted;         /* as soon as the builder is free */
	struct list waits;
	sd_event_source *timer; /* while somebody waits */
};

/* ---- waits ---- */

static void end_waits(struct image_fetch *f, const struct err *e)
{
	struct list ended = LIST_INIT(ended);
	struct wait *w;

	f->timer = sd_event_source_disable_unref(f->timer);
	list_splice(&ended, &f->waits);
	while ((w = list_pop_first(&ended, struct wait, node))) {
		w->cb(e, w->arg);
		free(w);
	}
}

static void end_long_waits(struct image_fetch *f)
{
	const uint64_t now = now_ns();
	struct wait *w;
	struct err e = ERR_INIT;

	(void)err_set(&e, ERR_IMAGE_MISSING, 0,
		      "the image '%s' is still being downloaded from %s (%s); call again, and the "
		      "call waits for the rest",
		      f->config.image, f->from, f->step);
	/* The first one waits longest. */
	while ((w = list_first(&f->waits, struct wait, node)) && w->until_ns <= now) {
		list_remove(&w->node);
		w->cb(&e, w->arg);
		free(w);
	}
}

static int on_second(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	struct image_fetch *f = user;
	char text[STEP_MAX + 300];

	loop_work("timer", "images");
	(void)snprintf(text, sizeof(text), "downloading the image '%s': %s", f->config.image,
		       f->step);
	/* Nobody knows how long the unpacking takes, and each report must be larger than the last. */
	f->progress += (PROGRESS_UNPACKED - f->progress) / 100;
	f->config.tell(f->config.user, f->progress, text);
	end_long_waits(f);
	if (list_is_empty(&f->waits)) {
		f->timer = sd_event_source_disable_unref(f->timer);
		return 0;
	}
	(void)sd_event_source_set_time_relative(source, TELL_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* ---- the download ---- */

static void fail(struct image_fetch *f, const char *reason)
{
	struct err e = ERR_INIT;
	size_t len = strlen(reason);

	while (len > 0 && reason[len - 1] == '.')
		len--;
	(void)err_set(&e, ERR_IMAGE_MISSING, 0,
		      "the image '%s' is not there, and its download from %s failed (%.*s); call "
		      "again when that is mended, or bring the image as a file with: caisson image "
		      "import %s FILE",
		      f->config.image, f->from, (int)MIN(len, (size_t)200), reason,
		      f->config.image);
	end_waits(f, &e);
}

void image_fetch_begin(struct image_fetch *f)
{
	struct err e = ERR_INIT;
	const char *busy = image_builder_busy(f->config.builder);

	/* Whatever makes this image is waited for. */
	f->wanted = busy && !streq(busy, f->config.image);
	if (busy)
		return;
	f->progress = 0;
	(void)snprintf(f->step, sizeof(f->step), "beginning");
	if (image_builder_pull(f->config.builder, &e) < 0)
		fail(f, e.text);
	else
		LOG_INFO("image_download", LOG_S("image", f->config.image), LOG_S("from", f->from));
}

/* COUNT: "12/540 MB". */
static void note_fetched(struct image_fetch *f, const char *count)
{
	const size_t len = strspn(count, "0123456789");
	const char *rest = count + len + (count[len] == '/');
	const size_t rest_len = strspn(rest, "0123456789");
	uint64_t done, total;

	if (rest > count + len && streq(rest + rest_len, " MB") &&
	    parse_u64_n(count, len, 0, UINT32_MAX, &done) == 0 &&
	    parse_u64_n(rest, rest_len, 1, UINT32_MAX, &total) == 0 && done <= total)
		f->progress = MAX(f->progress, PROGRESS_FETCHED * (double)done / (double)total);
}

/* "  fetching 3 layers  12/540 MB" */
static void on_line(void *user, const char *image, const char *text)
{
	struct image_fetch *f = user;

	text += strspn(text, " ");
	if (!streq(image, f->config.image) || !*text)
		return;
	const char *count = strstr(text, "  ");
	const int len = count ? (int)MIN(count - text, STEP_MAX) : (int)strlen(text);

	(void)snprintf(f->step, sizeof(f->step), "%.*s%s%s", len, text, count ? ", " : "",
		       count ? count + 2 : "");
	if (count)
		note_fetched(f, count + strspn(count, " "));
}

static void on_ended(void *user, const char *image, bool is_there, const char *reason)
{
	struct image_fetch *f = user;
	const bool ours = streq(image, f->config.image);

	if (ours && is_there)
		end_waits(f, NULL);
	else if (ours)
		fail(f, reason[0] ? reason : "it was cancelled");
	else if (f->wanted)
		image_fetch_begin(f);
}

int image_fetch_wait(struct image_fetch *f, const char *image, sandbox_done_fn cb, void *arg,
		     struct err *e)
{
	struct wait *w;

	if (!f || !streq(image, f->config.image))
		return err_set(e, ERR_IMAGE_MISSING, 0, "no image");
	w = calloc(1, sizeof(*w));
	if (!w ||
	    (!f->timer && sd_event_add_time_relative(f->config.loop, &f->timer, CLOCK_MONOTONIC,
						     TELL_US, 0, on_second, f) < 0)) {
		free(w);
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "waiting for the image");
	}
	*w = (struct wait){.until_ns = now_ns() + PATIENCE_NS, .cb = cb, .arg = arg};
	list_append(&f->waits, &w->node);
	image_fetch_begin(f);
	return 0;
}

/* ---- begin and end ---- */

int image_fetch_new(const struct image_fetch_config *c, struct image_fetch **ret, struct err *e)
{
	struct image_fetch *f = calloc(1, sizeof(*f));

	if (!f)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the download of images");
	f->config = *c;
	(void)snprintf(f->from, sizeof(f->from), "%s", c->from);
	f->config.from = f->from;
	list_init(&f->waits);
	image_builder_set_watch(c->builder, &(struct image_builder_watch){
						.line = on_line, .ended = on_ended, .user = f});
	*ret = f;
	return 0;
}

struct image_fetch *image_fetch_free(struct image_fetch *f)
{
	struct err e = ERR_INIT;

	if (!f)
		return NULL;
	image_builder_set_watch(f->config.builder, &(struct image_builder_watch){0});
	(void)err_set(&e, ERR_CANCELLED, 0, "the server is shutting down");
	end_waits(f, &e);
	free(f);
	return NULL;
}
