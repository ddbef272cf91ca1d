/* SPDX-License-Identifier: Apache-2.0 */
/* The blobs of an image, several at once. A blob that broke off goes on where it ended, in this
 * attempt or the next one. Bytes of an earlier attempt are hashed like those that come: nothing is
 * trusted because it was here. */
#include "image/fetch_pull.h"

#include "base/fdio.h"
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define RETRIES 5 /* of one blob, each of which must have brought some bytes */
#define PIECE   (64u << 10)
#define MB      UINT64_C(1000000)

struct crew;

/* One of the blobs that are under way. */
struct slot {
	struct asking ask; /* first: what http_set_wait() returns is within it */
	struct sink sink;
	const struct crew *crew;
	const struct oci_blob *blob; /* NULL = the slot is free */
	uint64_t before;             /* bytes that it had when this round began */
	unsigned retries;
	bool old; /* some of its bytes are an earlier attempt's */
};

struct crew {
	struct pull *p;
	const struct oci_manifest *m;
	const struct oci_blob *blobs[OCI_LAYERS_MAX + 1]; /* each digest once */
	size_t n;
	size_t next;
	struct slot slots[FETCH_AT_ONCE];
	struct http_set set;
	uint64_t total;
	uint64_t done; /* bytes of blobs that are complete */
};

static int restart(void *user)
{
	struct slot *s = user;

	s->old = false;
	s->before = 0;
	return sink_restart(&s->sink);
}

static void show(const struct crew *c)
{
	uint64_t sum = c->done;

	for (size_t i = 0; i < FETCH_AT_ONCE; i++)
		if (c->slots[i].blob)
			sum += c->slots[i].sink.size;
	c->p->watch->tick(c->p->watch->user, "MB", sum / MB, c->total / MB);
}

static int take(void *user, const void *data, size_t len)
{
	struct slot *s = user;
	const int r = sink_take(&s->sink, data, len);

	show(s->crew);
	return r;
}

static const char *file_name(const struct oci_blob *b)
{
	return b->digest + strlen("sha256:");
}

static void add(struct crew *c, const struct oci_blob *b)
{
	for (size_t i = 0; i < c->n; i++)
		if (streq(c->blobs[i]->digest, b->digest))
			return; /* images have the same empty layer several times */
	c->blobs[c->n++] = b;
	c->total += b->size;
}

/* Before anything is fetched: limits, and room on the disk for what is missing. */
static int check_room(const struct crew *c, struct err *e)
{
	uint64_t missing = 0;
	struct stat st;
	struct statvfs v;

	const struct fetch_rules *rules = c->p->rules;

	if (rules && c->total > rules->max_bytes)
		return err_set(e, ERR_IMAGE_INVALID, EFBIG,
			       "its layers have %" PRIu64 " MB, and builds have room for %" PRIu64
			       " MB (SANDBOX_PULL_CACHE)",
			       c->total / MB, rules->max_bytes / MB);
	if (c->total > OCI_BLOB_MAX)
		return err_set(e, ERR_IMAGE_INVALID, EFBIG, "the image's layers are too large");
	for (size_t i = 0; i < c->n; i++) {
		const struct oci_blob *b = c->blobs[i];
		const bool there =
		    fstatat(c->p->blobs, file_name(b), &st, AT_SYMLINK_NOFOLLOW) == 0;

		missing += b->size - (there ? MIN((uint64_t)st.st_size, b->size) : 0);
	}
	if (fstatvfs(c->p->blobs, &v) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot look at the disk");
	const uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;

	/* Layers are compressed to about a third. */
	missing += rules ? 3 * c->total : 0;
	if (left >= missing)
		return 0;
	return err_set(e, ERR_SYSTEM, ENOSPC,
		       "the state directory has %" PRIu64 " MB free and %" PRIu64
		       " MB are %s; free some space or move it (--state-dir)",
		       left / MB, missing / MB, rules ? "needed" : "to be fetched");
}

/* Hashes what an earlier attempt left in the file. */
static int read_rest(struct slot *s)
{
	char piece[PIECE];
	struct stat st;
	int r = fstat(s->sink.fd, &st) < 0 ? -errno : 0;

	(void)crypto_hash_sha256_init(&s->sink.hash);
	if (r >= 0 && (!S_ISREG(st.st_mode) || st.st_nlink != 1))
		return -EBADMSG;
	if (r >= 0 && (uint64_t)st.st_size > s->blob->size)
		return restart(s);
	while (r >= 0) {
		const ssize_t n = read(s->sink.fd, piece, sizeof(piece));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		s->sink.size += (uint64_t)n;
		(void)crypto_hash_sha256_update(&s->sink.hash, (unsigned char *)piece, (size_t)n);
		s->old = true;
	}
	return r;
}

static void close_slot(struct crew *c, struct slot *s)
{
	http_set_drop(&c->set, &s->ask.get);
	s->sink.fd = fd_close(s->sink.fd);
	s->blob = NULL;
}

static int go_on(struct crew *c, struct slot *s, struct err *e)
{
	asking_prepare(c->p, &s->ask);
	s->ask.get.sink = take;
	s->ask.get.restart = restart;
	s->ask.get.sink_user = s;
	s->before = s->sink.size;
	return http_set_add(&c->set, &s->ask.get, e);
}

/* Asks for what the sink lacks. */
static int ask(struct crew *c, struct slot *s, struct err *e)
{
	char path[32 + OCI_DIGEST_LEN];

	(void)snprintf(path, sizeof(path), "blobs/%s", s->blob->digest);
	s->ask = (struct asking){.sink = &s->sink, .max = s->blob->size};
	asking_begin(c->p, &s->ask, path);
	return go_on(c, s, e);
}

/* The blob from its beginning, once more. */
static int again(struct crew *c, struct slot *s, struct err *e)
{
	const int r = restart(s);

	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot keep what was fetched") : ask(c, s, e);
}

/* Tells whoever unpacks. An image may have one layer several times. */
static int tell(const struct crew *c, const struct oci_blob *b, struct err *e)
{
	unsigned char parts[OCI_LAYERS_MAX + 1];
	size_t n = 0;

	if (streq(b->digest, c->m->config.digest)) {
		const int r = fetch_write_layout(c->p, e);

		if (r < 0)
			return r;
		parts[n++] = FETCH_DOCUMENTS;
	}
	for (size_t i = 0; i < c->m->n_layers; i++)
		if (streq(b->digest, c->m->layers[i].digest))
			parts[n++] = (unsigned char)i;
	const int r = fd_write_all(c->p->ready, parts, n);

	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot pass on what was fetched") : 0;
}

/* The slot has as many bytes as the blob, or cannot get more. */
static int finish(struct crew *c, struct slot *s, struct err *e)
{
	const int r = sink_check(&s->sink, s->blob->digest, s->blob->size, e);

	if (r < 0 && s->old) { /* the earlier attempt's bytes may be what is wrong */
		*e = ERR_INIT;
		return again(c, s, e);
	}
	if (r < 0)
		return r;
	const struct oci_blob *b = s->blob;

	c->done += s->sink.size;
	close_slot(c, s);
	return tell(c, b, e);
}

static int begin(struct crew *c, struct slot *s, const struct oci_blob *b, struct err *e)
{
	const int fd = openat(c->p->blobs, file_name(b),
			      O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot keep what was fetched");
	*s = (struct slot){.crew = c, .blob = b, .sink = {.fd = fd}};
	const int r = read_rest(s);

	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "cannot read what was fetched before");
	return s->sink.size == b->size ? finish(c, s, e) : ask(c, s, e);
}

/* The connection broke, or the body ended too early. A redirect's address may have expired, so the
 * registry is asked again. */
static bool may_retry(const struct slot *s)
{
	return s->sink.size > s->before && s->sink.size < s->blob->size && s->retries < RETRIES;
}

static int retry(struct crew *c, struct slot *s, struct err *e)
{
	s->retries++;
	*e = ERR_INIT;
	return ask(c, s, e);
}

static int ended(struct crew *c, struct slot *s, int r, struct err *e)
{
	if (r < 0 && e->code == ERR_SOURCE_UNREACHABLE && may_retry(s))
		return retry(c, s, e);
	if (r < 0)
		return err_wrap(e, "%s", c->p->ref->host);
	/* Nothing is after the part that was kept: so it is no part of this blob. */
	if (s->ask.get.status == 416 && s->ask.get.offset > 0)
		return s->old ? again(c, s, e) : finish(c, s, e);
	r = asking_judge(c->p, &s->ask, e);
	if (r <= 0)
		return r < 0 ? r : go_on(c, s, e);
	return may_retry(s) ? retry(c, s, e) : finish(c, s, e);
}

static int work(struct crew *c, struct err *e)
{
	size_t busy = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < FETCH_AT_ONCE; i++) {
		while (r >= 0 && !c->slots[i].blob && c->next < c->n)
			r = begin(c, &c->slots[i], c->blobs[c->next++], e);
		busy += c->slots[i].blob != NULL;
	}
	if (r < 0 || busy == 0)
		return r;
	struct http_get *g;

	r = http_set_wait(&c->set, &g, e);
	for (size_t i = 0; i < FETCH_AT_ONCE; i++)
		if (g == &c->slots[i].ask.get)
			r = ended(c, &c->slots[i], r, e);
	return r < 0 ? r : 1;
}

int fetch_blobs(struct pull *p, const struct oci_manifest *m, struct err *e)
{
	static struct crew c; /* large */
	char step[64];

	c = (struct crew){.p = p, .m = m};
	add(&c, &m->config);
	for (size_t i = 0; i < m->n_layers; i++)
		add(&c, &m->layers[i]);
	(void)snprintf(step, sizeof(step), "fetching %zu layer%s", m->n_layers,
		       text_s(m->n_layers));
	p->watch->step(p->watch->user, step);
	int r = check_room(&c, e);

	if (r >= 0)
		r = http_set_init(&c.set, e);
	if (r < 0)
		return r;
	do {
		r = work(&c, e);
	} while (r > 0);
	for (size_t i = 0; i < FETCH_AT_ONCE; i++)
		if (c.slots[i].blob)
			close_slot(&c, &c.slots[i]);
	http_set_done(&c.set);
	return r;
}
