/* SPDX-License-Identifier: Apache-2.0 */
/* caisson image pull REFERENCE --for-build: the image that a build begins with, named by a client. All that builds have downloaded share
 * SANDBOX_PULL_CACHE. When an image was used or looked up last is the time of its manifest's file. */
#include "cmd/image_verb.h"

#include "base/kill_points.h"
#include "base/rand.h"
#include "base/text.h"
#include "engine/protocol/proto.h"
#include "image/pulls.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define KEPT_MAX 256  /* images that builds have downloaded */
#define PULL_S   1800 /* a download */
#define RETRY_S  3600 /* until a registry that did not answer is asked again */
/* Images that are unused go before a download if the disk has less than this for it, or than SANDBOX_PULL_CACHE. */
#define WANTED (UINT64_C(4) << 30)

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
	size_t n, allocated;
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

	if (!image_is_pulled(m))
		return 0;
	if (p->n == p->allocated) {
		struct row *more =
		    reallocarray(p->rows, 2 * p->allocated + KEPT_MAX, sizeof(*more));

		if (!more)
			return -ENOMEM;
		p->rows = more;
		p->allocated = 2 * p->allocated + KEPT_MAX;
	}
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
	const int r = image_manifest_each(p->store, IMAGES_ALL, add_row, p, e);

	return r == -ENOMEM && e->code == ERR_NONE
		   ? err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the images")
		   : r;
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

/* Removes the image that was looked up longest ago; one that is in use stays. -ENOENT: there is none but KEPT. RET: its bytes that are free
 * now. Nothing is said of it: a client reads this output, and the image may be another user's. */
static int remove_oldest(struct pulling *p, const char *kept, uint64_t *ret)
{
	struct err ignored = ERR_INIT;

	for (struct row *row; (row = oldest(p));) {
		row->removed = true;
		if (!streq(row->name, kept) &&
		    image_store_remove(p->store, row->name, &ignored) >= 0) {
			*ret = row->bytes;
			return 0;
		}
	}
	return -ENOENT;
}

/* Other images than the result go: older ones of the same reference, and the longest unused ones until the rest fits. */
static void make_room(struct pulling *p, uint64_t cache)
{
	struct err ignored = ERR_INIT;
	uint64_t sum = 0, freed = 0;

	if (list(p, &ignored) < 0)
		return;
	size_t left = p->n;

	for (size_t i = 0; i < p->n; i++) {
		struct row *row = &p->rows[i];

		if (row->same && !streq(row->name, p->name) &&
		    image_store_remove(p->store, row->name, &ignored) >= 0) {
			row->removed = true;
			left--;
		} else {
			sum += row->bytes;
		}
	}
	while ((sum > cache || left > KEPT_MAX) && remove_oldest(p, p->name, &freed) >= 0) {
		sum -= freed;
		left--;
	}
}

/* What one image may have of the disk: its blobs and its files are there at once, and something is left for the host. check_room() of the
 * fetch keeps the blobs below a quarter. 0: it cannot be read. */
static uint64_t disk_room(const struct image_store *s)
{
	struct statvfs v;

	if (fstatvfs(s->dir, &v) < 0)
		return 0;
	const uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;
	const uint64_t reserve = proto_disk_reserve((uint64_t)v.f_blocks * v.f_frsize);

	return left < reserve ? 0 : (left - reserve) / 4 * 3;
}

/* Before a download. How large it will be is known only when its manifest is there. */
static uint64_t make_disk_room(struct pulling *p, uint64_t cache, const char *kept)
{
	const uint64_t wanted = MIN(cache, WANTED);
	uint64_t has, freed;

	while ((has = disk_room(p->store)) < wanted && remove_oldest(p, kept, &freed) >= 0)
		;
	return has;
}

/* After PULL_S the download is stopped as by a person. */
static int begin_clock(struct err *e)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM};
	const struct itimerspec when = {.it_value.tv_sec = PULL_S};
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &when, NULL) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot limit the time of the download");
	return 0;
}

/* Why it was not unpacked, in words that say what to do. */
static int too_large(uint64_t max, bool of_disk, struct err *e)
{
	*e = ERR_INIT;
	return of_disk
		   ? err_set(e, ERR_NO_SPACE, EFBIG,
			     "the image is larger than what the disk of the state directory has "
			     "room for now, %" PRIu64 " MB",
			     max / 1000000)
		   : err_set(e, ERR_IMAGE_INVALID, EFBIG,
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
	const uint64_t cache = room(p, s->pull_cache);
	const uint64_t disk = make_disk_room(p, s->pull_cache, old ? old->name : "");
	const struct image_import_rules rules = {.inside = p->pull->inside,
						 .max_bytes = MIN(cache, disk),
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
			       cache == 0
				   ? "all that builds may download is in use (SANDBOX_PULL_CACHE)"
				   : "the disk of the state directory has no room for downloads");
	int r = begin_clock(e);

	r = r < 0 ? r : image_import(p->store, "pulled", p->origin, &o, &w, &m, e);

	KILL_POINT(PULL_NAMED);
	progress_line_end(&line, r >= 0);
	if (r < 0 && e->code == ERR_CANCELLED && now_ns() - began >= PULL_S * NS_PER_S) {
		*e = ERR_INIT;
		r = err_set(e, ERR_TIMEOUT, 0, "the download of %.300s took longer than %d minutes",
			    p->pull->text, PULL_S / 60);
	}
	if (r < 0 && e->errnum == EFBIG && (disk < cache || strstr(e->text, "unpack")))
		r = too_large(rules.max_bytes, disk < cache, e);
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

	if (r < 0 && old && (e->code == ERR_SOURCE_UNREACHABLE || e->code == ERR_NO_SPACE)) {
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
	r = list(&p, e);
	r = r < 0 ? r : pull(&p, settings, e);
	free(p.rows);
	return r;
}
