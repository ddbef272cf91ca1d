/* SPDX-License-Identifier: Apache-2.0 */
#include "image/release.h"

#include "base/jsonio.h"
#include "base/libcurl.h"
#include "base/parse.h"
#include "base/text.h"
#include "image/fetch_pull.h"
#include "image/worker.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEPTH_MAX  8
#define VALUES_MAX 1024
#define FORMAT     1 /* of the file */
#define WHAT       "the release file"

/* ---- the document ---- */

static int damaged(struct err *e, const char *member)
{
	return err_set(e, ERR_IMAGE_INVALID, EBADMSG, WHAT ": %s", member);
}

/* Only characters that mean nothing to a terminal, a shell or a URL. */
static int take_word(const json_t *from, const char *key, char *ret, size_t size)
{
	const json_t *v = json_object_get(from, key);
	const char *s = json_string_value(v);

	if (!s || !parse_is_filename(s, strlen(s)) || strlen(s) != json_string_length(v) ||
	    s[0] == '.')
		return -EBADMSG;
	return text_copy(ret, size, s);
}

static bool is_hex(const char *s)
{
	return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

static int take_file(const json_t *from, struct release_file *ret)
{
	const json_t *size = json_object_get(from, "size");

	if (take_word(from, "kind", ret->kind, sizeof(ret->kind)) < 0 ||
	    take_word(from, "architecture", ret->architecture, sizeof(ret->architecture)) < 0 ||
	    take_word(from, "name", ret->name, sizeof(ret->name)) < 0 ||
	    take_word(from, "sha256", ret->sha256, sizeof(ret->sha256)) < 0 ||
	    !is_hex(ret->sha256) || !json_is_integer(size) || json_integer_value(size) < 0)
		return -EBADMSG;
	ret->size = (uint64_t)json_integer_value(size);
	return 0;
}

static int take_all(const json_t *from, struct release *ret, struct err *e)
{
	const json_t *files = json_object_get(from, "files"), *file;
	size_t i;

	if (json_integer_value(json_object_get(from, "caisson_release")) != FORMAT)
		return err_set(e, ERR_IMAGE_INVALID, 0,
			       WHAT " is of a kind that this version does not know");
	if (take_word(from, "version", ret->version, sizeof(ret->version)) < 0 ||
	    !isdigit((unsigned char)ret->version[0]))
		return damaged(e, "version");
	if (!json_is_array(files) || json_array_size(files) > RELEASE_FILES_MAX)
		return damaged(e, "files");
	json_array_foreach(files, i, file)
		if (take_file(file, &ret->files[ret->n++]) < 0)
			return damaged(e, "files");
	return 0;
}

int release_parse(const char *text, size_t len, struct release *ret, struct err *e)
{
	const size_t values = jsonio_count(text, len, VALUES_MAX, DEPTH_MAX);
	json_t *json = NULL;

	*ret = (struct release){0};
	int r = values == 0 || values > VALUES_MAX
		    ? -EBADMSG
		    : jsonio_read(text, len, JSON_REJECT_DUPLICATES, &json, NULL);

	if (r < 0)
		return r == -ENOMEM ? err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, WHAT)
				    : damaged(e, "no JSON");
	r = take_all(json, ret, e);
	json_decref(json);
	return r;
}

/* ---- versions ---- */

static int compare_numbers(const char **a, const char **b)
{
	size_t n, m;

	for (; **a == '0' && isdigit((unsigned char)(*a)[1]); (*a)++)
		;
	for (; **b == '0' && isdigit((unsigned char)(*b)[1]); (*b)++)
		;
	for (n = 0; isdigit((unsigned char)(*a)[n]); n++)
		;
	for (m = 0; isdigit((unsigned char)(*b)[m]); m++)
		;
	const int r = n != m ? (n < m ? -1 : 1) : memcmp(*a, *b, n);

	*a += n;
	*b += m;
	return r;
}

int release_compare(const char *a, const char *b)
{
	for (;; a++, b++) {
		const int r = compare_numbers(&a, &b);

		if (r != 0)
			return r;
		if (*a != '.' || *b != '.')
			break;
	}
	if (*a == '.' || *b == '.')
		return *a == '.' ? 1 : -1;
	if (!*a || !*b)
		return !*a && !*b ? 0 : *a ? -1 : 1;
	/* Digits within count as numbers: rc9 is before rc10. */
	return strverscmp(a, b);
}

/* ---- fetching ---- */

/* What the worker gives, in memory that both have. */
struct fetched {
	size_t len, signature_len;
	char text[RELEASE_FILE_MAX];
	char signature[SIGNATURE_MAX];
};

struct job {
	const char *url;
	const struct image_watch *watch;
	char ca_file[FETCH_CA_SIZE]; /* "" = the system's */
	struct fetched *fetched;
};

struct target {
	char *text;
	size_t len, size;
};

static int take(void *user, const void *data, size_t len)
{
	struct target *t = user;

	if (len > t->size - t->len)
		return -EFBIG;
	memcpy(t->text + t->len, data, len);
	t->len += len;
	return 0;
}

/* https, or http on this machine; the same as that of FROM, if there is one. */
static bool is_permitted(const char *url, const char *from)
{
	char origin[FETCH_URL_MAX], before[FETCH_URL_MAX];

	http_origin(url, origin, sizeof(origin));
	const bool tls = text_starts_with(origin, "https://");

	if (from) {
		http_origin(from, before, sizeof(before));
		if (tls != text_starts_with(before, "https://"))
			return false;
	}
	return tls ||
	       (text_starts_with(origin, "http://") && ref_is_loopback(origin + strlen("http://")));
}

static int refused(const struct http_get *g, const char *asked, bool signature, struct err *e)
{
	if (g->status == 404 && signature)
		return err_set(e, ERR_IMAGE_INVALID, 0, WHAT " has no signature (%s)", asked);
	return err_set(e, ERR_SOURCE_UNREACHABLE, 0, "%s: the server answered %ld", asked,
		       g->status);
}

/* One document of at most SIZE bytes. Nothing is kept of an answer that is not 200. */
static int get(const struct job *j, const char *suffix, char *text, size_t size, size_t *ret,
	       struct err *e)
{
	static char asked[FETCH_URL_MAX], url[FETCH_URL_MAX];
	struct target t = {.text = text, .size = size};

	(void)snprintf(asked, sizeof(asked), "%s%s", j->url, suffix);
	(void)snprintf(url, sizeof(url), "%s", asked);
	for (int redirects = 0;; redirects++) {
		struct http_get g = {.url = url,
				     .direct = http_is_direct(url),
				     .ca_file = j->ca_file[0] ? j->ca_file : NULL,
				     .max = size,
				     .sink = take,
				     .sink_user = &t,
				     .watch = j->watch};
		const int r = http_get(&g, e);

		if (r < 0 && e->errnum == EFBIG)
			return err_set(e, ERR_IMAGE_INVALID, 0, "%s has more than %zu bytes", asked,
				       size);
		if (r < 0)
			return err_wrap(e, "%s", asked);
		if (g.status == 200)
			break;
		if (g.status < 301 || g.status > 308 || !g.location[0])
			return refused(&g, asked, *suffix != '\0', e);
		if (redirects == FETCH_REDIRECTS_MAX)
			return err_set(e, ERR_IMAGE_INVALID, ELOOP, "%s redirects too often",
				       asked);
		if (!is_permitted(g.location, asked))
			return err_set(e, ERR_IMAGE_INVALID, EPERM,
				       "%s redirects to an address of another kind (%.100s)", asked,
				       g.location);
		(void)snprintf(url, sizeof(url), "%s", g.location);
	}
	*ret = t.len;
	return 0;
}

/* Runs in the worker. */
static int fetch(void *ctx, void *report UNUSED, struct err *e)
{
	const struct job *j = ctx;
	struct fetched *f = j->fetched;
	int r = get(j, "", f->text, sizeof(f->text), &f->len, e);

	return r < 0 ? r
		     : get(j, RELEASE_SIGNATURE_SUFFIX, f->signature, sizeof(f->signature),
			   &f->signature_len, e);
}

static int check_url(const char *url, struct err *e)
{
	bool good = strlen(url) < RELEASE_URL_MAX;

	/* A query or a fragment would end in the suffix, and not the name of the file. */
	for (const char *s = url; good && *s; s++)
		good = isgraph((unsigned char)*s) && !strchr("?#\"\\", *s);
	if (good && is_permitted(url, NULL))
		return 0;
	return err_set(e, ERR_SETTING_INVALID, 0,
		       "SANDBOX_RELEASE_URL is no https address of a file (http is for this "
		       "machine alone)");
}

/* COPY: of what the worker left. Whoever took the worker over may have left a process that goes on writing. */
static int judge(const struct fetched *copy, const struct signature_keys *keys, struct release *ret,
		 struct err *e)
{
	const size_t len = MIN(copy->len, sizeof(copy->text));
	int r = signature_check_file(keys, copy->signature,
				     MIN(copy->signature_len, sizeof(copy->signature)), copy->text,
				     len, WHAT, e);

	return r < 0 ? r : release_parse(copy->text, len, ret, e);
}

int release_fetch(const char *url, const char *ca_file, const struct signature_keys *keys,
		  const struct image_watch *w, struct release *ret, struct err *e)
{
	struct job j = {.url = url, .watch = w};
	_cleanup_free_ struct fetched *copy = malloc(sizeof(*copy));
	_cleanup_fd_ int ca = -1;
	char nothing = '\0';
	int r = libcurl_load(e); /* check_url() needs it */

	if (r >= 0)
		r = check_url(url, e);
	if (r >= 0)
		r = fetch_prepare(text_starts_with(url, "http://"), ca_file, j.ca_file, &ca, e);
	if (r < 0)
		return r;
	void *shared =
	    mmap(NULL, sizeof(*copy), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (!copy || shared == MAP_FAILED) {
		if (shared != MAP_FAILED)
			(void)munmap(shared, sizeof(*copy));
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, WHAT);
	}
	j.fetched = shared;
	const struct worker work = {
	    .kind = WORKER_NETWORK, .write = -1, .source = -1, .fn = fetch, .ctx = &j};

	r = worker_run(&work, w, &nothing, sizeof(nothing), e);
	memcpy(copy, shared, sizeof(*copy));
	(void)munmap(shared, sizeof(*copy));
	return r < 0 ? r : judge(copy, keys, ret, e);
}

void release_file_url(const char *url, const struct release_file *f,
		      char ret[RELEASE_URL_MAX + RELEASE_NAME_MAX])
{
	const char *slash = strrchr(url, '/');

	(void)snprintf(ret, RELEASE_URL_MAX + RELEASE_NAME_MAX, "%.*s%s", (int)(slash - url + 1),
		       url, f->name);
}
