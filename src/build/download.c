/* SPDX-License-Identifier: Apache-2.0 */
#include "build/download.h"

#include "base/kill_points.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOLD_NS      (4 * NS_PER_S) /* between two lines of how much has come */
#define REFUSALS_MAX 64u            /* that are remembered */
#define LINE_SIZE    (IMAGE_PULL_TEXT + 200)

static struct build_download *first_of(const struct builds *b, const char *text)
{
	list_for_each(l, &b->downloads) {
		struct build_download *d = list_entry(l, struct build_download, node);

		if (streq(d->text, text))
			return d;
	}
	return NULL;
}

static void say(struct build_download *d, const char *what)
{
	char line[LINE_SIZE];
	const int len = snprintf(line, sizeof(line), "downloading %s: %s", d->text, what);

	if (d->line)
		d->line(line, MIN((size_t)len, sizeof(line) - 1), d->user);
}

/* ---- what a registry has refused ---- */

struct refusal {
	struct list node;
	uint64_t until_ns;
	char owner[sizeof(((struct build_download *)NULL)->owner)];
	char text[BUILD_REFERENCE_MAX];
	char reason[400];
};

static void forget(struct refusal *r)
{
	list_remove(&r->node);
	free(r);
}

/* NULL: it may be asked for OWNER. Others may have pushed since then what one user was refused. */
static const struct refusal *refused(struct builds *b, const char *owner, const char *text)
{
	const uint64_t now = now_ns();
	const struct refusal *found = NULL;

	list_for_each(l, &b->refusals) {
		struct refusal *r = list_entry(l, struct refusal, node);

		if (r->until_ns <= now)
			forget(r);
		else if (streq(r->owner, owner) && streq(r->text, text))
			found = r;
	}
	return found;
}

/* A registry that builds ask again and again refuses all that comes from this machine. */
static void remember(struct builds *b, const char *text, const char *reason)
{
	struct refusal *r = calloc(1, sizeof(*r));
	unsigned n = 0;

	if (!r)
		return;
	r->until_ns = now_ns() + b->download_later_s * NS_PER_S;
	(void)!text_copy(r->owner, sizeof(r->owner), b->downloaded_for);
	(void)!text_copy(r->text, sizeof(r->text), text);
	(void)snprintf(r->reason, sizeof(r->reason), "%s", reason);
	list_for_each(l, &b->refusals)
		n++;
	if (n >= REFUSALS_MAX)
		forget(list_first(&b->refusals, struct refusal, node));
	list_append(&b->refusals, &r->node);
}

/* ---- one after the other ---- */

/* All that wait for TEXT. What is begun by an END comes behind the last one that waits now, and is left alone. */
static void end_all(struct builds *b, const char *text, const struct err *e)
{
	struct list ended = LIST_INIT(ended);
	struct build_download *d;

	list_for_each(l, &b->downloads) {
		d = list_entry(l, struct build_download, node);
		if (streq(d->text, text)) {
			list_remove(&d->node);
			list_append(&ended, &d->node);
		}
	}
	while ((d = list_pop_first(&ended, struct build_download, node))) {
		list_init(&d->node);
		d->end(e, d->user);
		free(d);
	}
}

/* The first one of another user than the last, else the first one. */
static struct build_download *next(const struct builds *b)
{
	list_for_each(l, &b->downloads) {
		struct build_download *d = list_entry(l, struct build_download, node);

		if (!streq(d->owner, b->downloaded_for))
			return d;
	}
	return list_first(&b->downloads, struct build_download, node);
}

static void later(struct builds *b)
{
	if (b->downloads_timer)
		(void)sd_event_source_set_enabled(b->downloads_timer, SD_EVENT_ONESHOT);
}

static int on_turn(sd_event_source *source UNUSED, void *user)
{
	struct builds *b = user;
	const struct build_images *images = &b->config.images;
	struct build_download *d = b->downloading[0] ? NULL : next(b);
	struct err e = ERR_INIT;

	loop_work("images", "downloads");
	if (!d)
		return 0;
	memcpy(b->downloaded_for, d->owner, sizeof(b->downloaded_for));
	memcpy(b->downloading, d->text, sizeof(b->downloading));
	b->download_later_s = 0;
	if (images->download(d->text, images->user, &e) >= 0) {
		KILL_POINT(PULL_SENT);
		LOG_INFO("image_download", LOG_S("image", d->text), LOG_S("owner", d->owner));
		return 0;
	}
	b->downloading[0] = '\0';
	end_all(b, d->text, &e);
	later(b);
	return 0;
}

/* ---- what the process tells ---- */

/* "fetching 3 layers  12/45 MB" becomes "12 of 45 MB". False: TEXT counts nothing. */
static bool read_count(const char *text, char *ret, size_t size)
{
	const char *count = strstr(text, "  ");
	uint64_t done, total;

	if (!count)
		return false;
	count += strspn(count, " ");
	const size_t n = strspn(count, "0123456789");
	const size_t rest = count[n] == '/' ? strspn(count + n + 1, "0123456789") : 0;

	if (rest == 0 || !streq(count + n + 1 + rest, " MB") ||
	    parse_u64_n(count, n, 0, UINT32_MAX, &done) < 0 ||
	    parse_u64_n(count + n + 1, rest, 0, UINT32_MAX, &total) < 0)
		return false;
	(void)snprintf(ret, size, "%u of %u MB", (unsigned)done, (unsigned)total);
	return true;
}

static void read_later(struct builds *b, const char *text)
{
	uint64_t seconds;
	const size_t n = strlen(IMAGE_PULL_LATER);

	if (text_starts_with(text, IMAGE_PULL_LATER) &&
	    parse_u64_n(text + n, strspn(text + n, "0123456789"), 1, IMAGE_PULL_LATER_MAX_S,
			&seconds) == 0)
		b->download_later_s = (unsigned)seconds;
}

static void on_line(const char *text, void *user)
{
	struct builds *b = user;
	char count[64];

	text += strspn(text, " ");
	read_later(b, text);
	const bool counts = read_count(text, count, sizeof(count));

	if (!text[0] || (!counts && strstr(text, "  ")) || text_starts_with(text, "Image '") ||
	    text_starts_with(text, "caisson image: "))
		return;
	if (counts && (now_ns() - b->download_told_ns < TOLD_NS || streq(b->download_told, count)))
		return;
	b->download_told_ns = counts ? now_ns() : 0;
	(void)snprintf(b->download_told, sizeof(b->download_told), "%s", counts ? count : "");
	list_for_each(l, &b->downloads) {
		struct build_download *d = list_entry(l, struct build_download, node);

		if (streq(d->text, b->downloading))
			say(d, counts ? count : text);
	}
}

static void on_ended(const char *reason, void *user)
{
	struct builds *b = user;
	char text[sizeof(b->downloading)];
	struct err e = ERR_INIT;

	memcpy(text, b->downloading, sizeof(text));
	b->downloading[0] = '\0';
	KILL_POINT(PULL_HEARD);
	if (reason)
		(void)err_set(&e, ERR_IMAGE_MISSING, 0, "%.300s was not downloaded: %.400s", text,
			      reason[0] ? reason : "it was stopped");
	if (reason && reason[0] && b->download_later_s > 0)
		remember(b, text, reason);
	/* Somebody may have begun to wait for what was stopped meanwhile. */
	if (!b->download_stopped || !reason)
		end_all(b, text, reason ? &e : NULL);
	b->download_stopped = false;
	later(b);
}

/* ---- begin and end ---- */

bool build_download_may(const struct builds *b, const char *reference)
{
	struct image_pull pull;
	struct err ignored = ERR_INIT;

	return b->config.images.download &&
	       image_pull_judge(b->config.pulls, reference, &pull, &ignored) >= 0;
}

bool build_download_find(const struct builds *b, const char *reference, char *ret)
{
	const struct build_images *images = &b->config.images;
	const json_int_t now = (json_int_t)time(NULL);
	struct image_pull pull;
	struct err ignored = ERR_INIT;
	json_int_t best = 0;
	const json_t *row;
	size_t i;

	if (!images->download || image_pull_judge(b->config.pulls, reference, &pull, &ignored) < 0)
		return false;
	json_array_foreach(images->shared(images->user), i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));
		const char *origin = json_string_value(json_object_get(row, "origin"));
		const json_int_t checked = json_integer_value(json_object_get(row, "pulled"));

		if (checked > best && now - checked < IMAGE_PULL_AGE_S && name && origin &&
		    text_starts_with(origin, REF_REGISTRY_PREFIX) &&
		    streq(origin + strlen(REF_REGISTRY_PREFIX), pull.text) &&
		    text_copy(ret, ENGINE_NAME_MAX, name) == 0)
			best = checked;
	}
	return best > 0;
}

static int check_number(const struct builds *b, const char *owner, struct err *e)
{
	unsigned all = 0, own = 0;

	list_for_each(l, &b->downloads) {
		all++;
		own += streq(list_entry(l, struct build_download, node)->owner, owner);
	}
	return all < DOWNLOADS_MAX && own < DOWNLOADS_OWNER_MAX
		   ? 0
		   : err_set(e, ERR_SERVER_BUSY, 0, "too many builds wait for downloads");
}

int build_download_start(struct builds *b, const struct build_download_spec *spec,
			 struct build_download **ret, struct err *e)
{
	struct image_pull pull;
	int r = image_pull_judge(b->config.pulls, spec->reference, &pull, e);

	if (r >= 0 && !b->downloads_timer)
		r = err_set(e, ERR_FORBIDDEN, 0, "this server downloads nothing for builds");
	r = r < 0 ? r : check_number(b, spec->owner, e);
	if (r < 0)
		return r;
	const struct refusal *no = refused(b, spec->owner, pull.text);

	if (no)
		return err_set(e, ERR_IMAGE_MISSING, 0,
			       "%.300s was not downloaded: %.400s (" IMAGE_PULL_LATER "%u s)",
			       pull.text, no->reason,
			       (unsigned)((no->until_ns - now_ns()) / NS_PER_S) + 1);
	struct build_download *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "a download");
	*d = (struct build_download){
	    .builds = b, .line = spec->line, .end = spec->end, .user = spec->user};
	(void)!text_copy(d->owner, sizeof(d->owner), spec->owner);
	(void)!text_copy(d->text, sizeof(d->text), pull.text);
	if (b->downloading[0])
		say(d, streq(b->downloading, d->text) ? "another build has begun it"
						      : "waiting for another download");
	list_append(&b->downloads, &d->node);
	later(b);
	*ret = d;
	return 0;
}

struct build_download *build_download_drop(struct build_download *d)
{
	if (!d)
		return NULL;
	struct builds *b = d->builds;
	const struct build_images *images = &b->config.images;

	list_remove(&d->node);
	if (streq(b->downloading, d->text) && !first_of(b, d->text) && !b->download_stopped) {
		b->download_stopped = true;
		images->stop_download(images->user);
	}
	free(d);
	return NULL;
}

void build_downloads_init(struct builds *b)
{
	const struct build_images *images = &b->config.images;

	list_init(&b->downloads);
	list_init(&b->refusals);
	if (!images->download ||
	    sd_event_add_defer(b->config.loop, &b->downloads_timer, on_turn, b) < 0)
		return;
	(void)sd_event_source_set_enabled(b->downloads_timer, SD_EVENT_OFF);
	images->watch_downloads(on_line, on_ended, b, images->user);
}

void build_downloads_done(struct builds *b)
{
	const struct build_images *images = &b->config.images;
	struct build_download *d;

	if (images->download)
		images->watch_downloads(NULL, NULL, NULL, images->user);
	b->downloads_timer = sd_event_source_disable_unref(b->downloads_timer);
	while ((d = list_pop_first(&b->downloads, struct build_download, node)))
		free(d);
	list_for_each(l, &b->refusals)
		forget(list_entry(l, struct refusal, node));
}
