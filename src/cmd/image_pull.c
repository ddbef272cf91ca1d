/* SPDX-License-Identifier: Apache-2.0 */
/* caisson image pull REFERENCE --for-build: the image that a build begins with, named by a client. All that builds have downloaded share
 * SANDBOX_PULL_CACHE. When an image was used or looked up last is the time of its manifest's file. */
#include "cmd/image_verb.h"

#include "base/rand.h"
#include "base/text.h"
#include "image/pulls.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define ROWS_MAX 1000 /* images that builds have downloaded */
#define PULL_S   1800 /* a download */
#define RETRY_S  3600 /* until a registry that did not answer is asked again */

struct row {
	char name[IMAGE_NAME_MAX + 1];
	uint64_t bytes;
	time_t used;
	char digest[OCI_DIGEST_LEN + 1];
	bool same;    /* of the reference that is asked for */
	bool removed; /* or in use */
};

struct pulling {
	const struct image_store *store;
	const struct image_pull *pull;
	char origin[sizeof(REF_REGISTRY_PREFIX) + IMAGE_PULL_TEXT];
	char name[IMAGE_NAME_MAX + 1]; /* of the result */
	struct row *rows;              /* owned */
	size_t n;
};

static void manifest_path(const char *name, char ret[IMAGE_NAME_MAX + sizeof(MANIFEST_FILE) + 2])
{
	(void)snprintf(ret, IMAGE_NAME_MAX + sizeof(MANIFEST_FILE) + 2, "%s/" MANIFEST_FILE, name);
}

static int add_row(void *user, const struct image_manifest *m)
{
	struct pulling *p = user;
	const char *name = image_manifest_str(m, "name");
	char path[IMAGE_NAME_MAX + sizeof(MANIFEST_FILE) + 2];
	struct stat st;

	if (!image_is_pulled(m) || p->n == ROWS_MAX)
		return 0;
	manifest_path(name, path);
	struct row *row = &p->rows[p->n];

	*row = (struct row){.bytes = image_manifest_u64(m, "size_bytes"),
			    .same = streq(image_manifest_str(m, "origin"), p->origin)};
	if (text_copy(row->name, sizeof(row->name), name) < 0 ||
	    text_copy(row->digest, sizeof(row->digest), image_manifest_str(m, "digest")) < 0)
		return 0;
	if (fstatat(p->store->dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		row->used = st.st_mtime;
	p->n++;
	return 0;
}

static int list(struct pulling *p, struct err *e)
{
	p->n = 0;
	return image_manifest_each(p->store, IMAGES_ALL, add_row, p, e);
}

/* The image of the reference that was looked up last. */
static const struct row *newest(const struct pulling *p)
{
	const struct row *found = NULL;

	for (size_t i = 0; i < p->n; i++)
		if (p->rows[i].same && (!found || p->rows[i].used > found->used))
			found = &p->rows[i];
	return found;
}

/* Also changes the folder of images, so that a server looks at them again. */
static void touch(const struct image_store *s, const char *name, time_t used)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = used}};
	char path[IMAGE_NAME_MAX + sizeof(MANIFEST_FILE) + 2];

	manifest_path(name, path);
	int r UNUSED = utimensat(s->dir, path, times, AT_SYMLINK_NOFOLLOW);

	r = futimens(s->dir, NULL);
}

static int choose_name(void *user, const char *digest, char ret[IMAGE_NAME_MAX + 1])
{
	struct pulling *p = user;
	struct image_manifest m = {0};
	struct err ignored = ERR_INIT;

	image_pull_name(p->pull, digest, p->name);
	memcpy(ret, p->name, sizeof(p->name));
	const bool there = image_manifest_load(p->store, p->name, &m, &ignored) >= 0;

	image_manifest_done(&m);
	return there;
}

/* What is left for one more image if all that are unused go. */
static uint64_t room(const struct pulling *p, uint64_t cache)
{
	uint64_t used = 0;

	for (size_t i = 0; i < p->n; i++)
		if (image_store_is_used(p->store, p->rows[i].name))
			used += p->rows[i].bytes;
	return cache - MIN(cache, used);
}

static struct row *oldest(const struct pulling *p)
{
	struct row *found = NULL;

	for (size_t i = 0; i < p->n; i++)
		if (!p->rows[i].removed && (!found || p->rows[i].used < found->used))
			found = &p->rows[i];
	return found;
}

/* Other images than the result go: older ones of the same reference, and the longest unused ones until the rest fits. */
static void make_room(struct pulling *p, uint64_t cache)
{
	struct err ignored = ERR_INIT;
	uint64_t sum = 0;

	if (list(p, &ignored) < 0)
		return;
	for (size_t i = 0; i < p->n; i++)
		sum += p->rows[i].bytes;
	for (struct row *row; (row = oldest(p));) {
		row->removed = true;
		if (streq(row->name, p->name) || (sum <= cache && !row->same))
			continue;
		/* Nothing is said of it: a client reads this output, and the image may be another user's. */
		if (image_store_remove(p->store, row->name, &ignored) >= 0)
			sum -= row->bytes;
	}
}

/* After PULL_S the download is stopped as by a person. */
static void begin_clock(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM};
	const struct itimerspec when = {.it_value.tv_sec = PULL_S};
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
		(void)timer_settime(timer, 0, &when, NULL);
}

/* Why it was not unpacked, in words that say what to do. */
static int too_large(uint64_t max, struct err *e)
{
	*e = ERR_INIT;
	return err_set(e, ERR_IMAGE_INVALID, EFBIG,
		       "the image is larger than what builds have room for now, %" PRIu64
		       " MB (SANDBOX_PULL_CACHE, less the images in use)",
		       max / 1000000);
}

/* OLD: an earlier image of the reference; NULL = none. */
static int download(struct pulling *p, const struct settings *s, const struct row *old,
		    struct err *e)
{
	_cleanup_(image_manifest_done) struct image_manifest m = {0};
	_cleanup_fd_ int cancel = image_watch_signals();
	struct progress_line line;
	const struct image_watch w = image_watch_for(&line, cancel);
	const struct image_import_rules rules = {.inside = p->pull->inside,
						 .max_bytes = room(p, s->pull_cache),
						 .known = old ? old->digest : NULL,
						 .name = choose_name,
						 .user = p};
	const struct image_import_options o = {.rules = &rules,
					       .ca_file = getenv("SSL_CERT_FILE"),
					       .keys = image_keys_for(s, p->origin),
					       .source_name = IMAGE_PULL_SOURCE};
	const uint64_t began = now_ns();

	if (rules.max_bytes == 0)
		return err_set(e, ERR_NO_SPACE, 0,
			       "all that builds may download is in use (SANDBOX_PULL_CACHE)");
	begin_clock();
	int r = image_import(p->store, "pulled", p->origin, &o, &w, &m, e);

	progress_line_end(&line, r >= 0);
	if (r < 0 && e->code == ERR_CANCELLED && now_ns() - began >= PULL_S * NS_PER_S) {
		*e = ERR_INIT;
		r = err_set(e, ERR_TIMEOUT, 0, "the download of %.300s took longer than %d minutes",
			    p->pull->text, PULL_S / 60);
	}
	if (r < 0 && e->errnum == EFBIG && strstr(e->text, "unpack"))
		r = too_large(rules.max_bytes, e);
	if (r == 0)
		image_print_ready(&m, line.began);
	return r;
}

static int pull(struct pulling *p, const struct settings *s, struct err *e)
{
	const time_t now = time(NULL);
	const struct row *old = newest(p);
	const bool fresh = old && now - old->used < IMAGE_PULL_AGE_S;

	/* What a digest stands for does not change. */
	if (old && (fresh || p->pull->ref.digest[0])) {
		memcpy(p->name, old->name, sizeof(p->name));
		if (!fresh)
			touch(p->store, old->name, now);
		return 0;
	}
	const int r = download(p, s, old, e);

	if (r < 0 && old && e->code == ERR_SOURCE_UNREACHABLE) {
		(void)fprintf(stderr,
			      "warning: %s; what was downloaded before is used, and the registry "
			      "is asked again in an hour\n",
			      e->text);
		touch(p->store, old->name, now - IMAGE_PULL_AGE_S + RETRY_S);
		*e = ERR_INIT;
		return 0;
	}
	if (r < 0)
		return r;
	touch(p->store, p->name, now);
	make_room(p, s->pull_cache);
	return 0;
}

int image_pull_for_build(const struct image_store *s, const struct settings *settings,
			 const char *reference, struct err *e)
{
	struct image_pull what;
	struct pulling p = {.store = s, .pull = &what};
	int r = image_pull_judge(settings->pulls, reference, &what, e);

	if (r < 0)
		return r;
	(void)snprintf(p.origin, sizeof(p.origin), REF_REGISTRY_PREFIX "%s", what.text);
	p.rows = calloc(ROWS_MAX, sizeof(*p.rows));
	if (!p.rows)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the images");
	r = list(&p, e);
	r = r < 0 ? r : pull(&p, settings, e);
	free(p.rows);
	return r;
}
