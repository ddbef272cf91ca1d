/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an image from a registry, as an account without rights, into an OCI layout. */
#include "image/fetch.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/libcurl.h"
#include "base/text.h"
#include "image/http_get.h"
#include "image/oci.h"
#include "image/worker.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#define URL_MAX     4096
#define CA_MAX      (4u << 20)
#define LOGIN_MAX   (1u << 20) /* bytes of a file with logins */
#define INDEX_DEPTH 3
#define ACCEPT                                                                                     \
	OCI_TYPE_INDEX ", " OCI_TYPE_MANIFEST ", " DOCKER_TYPE_INDEX ", " DOCKER_TYPE_MANIFEST

struct pull {
	const struct image_ref *ref;
	const struct image_watch *watch;
	int folder;                   /* borrowed */
	int blobs;                    /* owned: FOLDER/blobs/sha256 */
	bool plain;                   /* http is permitted */
	char base[16 + REF_HOST_MAX]; /* "https://HOST" */
	char ca_file[64];             /* "" = the system's */
	bool has_login;
	char user[FETCH_SECRET_MAX];
	char password[FETCH_SECRET_MAX];
	enum fetch_scheme scheme; /* what the registry asked for */
	char token[4 * FETCH_SECRET_MAX];
	uint64_t total; /* bytes of layers so far */
};

struct pull_report {
	char digest[OCI_DIGEST_LEN + 1];
};

/* Where a body goes: a document into memory, a layer into a file; hashed either way. */
struct sink {
	struct buf *text;
	int fd;
	uint64_t size;
	crypto_hash_sha256_state hash;
};

static int take(void *user, const void *data, size_t len)
{
	struct sink *s = user;

	s->size += len;
	(void)crypto_hash_sha256_update(&s->hash, data, len);
	return s->text ? buf_add(s->text, data, len) : fd_write_all(s->fd, data, len);
}

static void restart(struct sink *s)
{
	s->size = 0;
	if (s->text)
		buf_reset(s->text);
	(void)crypto_hash_sha256_init(&s->hash);
}

static void sink_digest(struct sink *s, char ret[OCI_DIGEST_LEN + 1])
{
	unsigned char sum[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(sum) + 1];

	(void)crypto_hash_sha256_final(&s->hash, sum);
	text_hex(sum, sizeof(sum), hex);
	(void)snprintf(ret, OCI_DIGEST_LEN + 1, "sha256:%s", hex);
}

/* The scheme, host and port of a URL as one text, for comparing; "" = no URL for us. */
static void url_origin(const char *url, char *ret, size_t size)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *host = NULL, *port = NULL;

	ret[0] = '\0';
	if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK)
		(void)snprintf(ret, size, "%s://%s:%s", scheme, host, port);
	curl_free(scheme);
	curl_free(host);
	curl_free(port);
	curl_url_cleanup(u);
}

/* Plain http is for registries that are asked by http, and never leads to another machine than
 * loopback unless the operator permits it. */
static int check_url(const struct pull *p, const char *url, struct err *e)
{
	char origin[URL_MAX];

	url_origin(url, origin, sizeof(origin));
	if (text_starts_with(origin, "https://"))
		return 0;
	if (text_starts_with(origin, "http://") && text_starts_with(p->base, "http://") &&
	    (p->plain || ref_is_loopback(origin + strlen("http://"))))
		return 0;
	return err_set(e, ERR_IMAGE_INVALID, EPERM,
		       "the registry names an address without https (%.100s)",
		       origin[0] ? origin : "no URL");
}

static int get_token(struct pull *p, const struct fetch_challenge *c, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(4 * FETCH_SECRET_MAX);
	_cleanup_(buf_done) struct buf url = BUF_INIT(URL_MAX);
	struct sink s = {.text = &text, .fd = -1};
	int r = buf_printf(&url, "%s%cservice=", c->realm, strchr(c->realm, '?') ? '&' : '?');

	if (r >= 0)
		r = text_add_percent(&url, c->service, strlen(c->service), false);
	if (r >= 0)
		r = buf_printf(&url, "&scope=repository:%s:pull", p->ref->name);
	if (r < 0)
		return err_set(e, ERR_IMAGE_INVALID, -r, "the registry's login address");
	r = check_url(p, buf_str(&url), e);
	if (r < 0)
		return r;
	restart(&s);
	struct http_get g = {.url = buf_str(&url),
			     .user = p->has_login ? p->user : NULL,
			     .password = p->password,
			     .ca_file = p->ca_file[0] ? p->ca_file : NULL,
			     .max = text.max,
			     .sink = take,
			     .sink_user = &s,
			     .watch = p->watch};

	r = http_get(&g, e);
	if (r < 0)
		return err_wrap(e, "the registry's login");
	if (g.status != 200)
		return err_set(e, ERR_UNAUTHORIZED, 0,
			       "the registry's login answered %ld; 'docker login %s' stores one",
			       g.status, p->ref->host);
	if (oci_parse_token(buf_str(&text), text.len, p->token, sizeof(p->token)) < 0)
		return err_set(e, ERR_IMAGE_INVALID, EBADMSG, "the registry's login sent no token");
	return 0;
}

static int log_in(struct pull *p, const char *challenge, struct err *e)
{
	struct fetch_challenge c;

	fetch_parse_challenge(challenge, &c);
	if (p->scheme == FETCH_NO_SCHEME && c.scheme == FETCH_BEARER) {
		p->scheme = FETCH_BEARER;
		return get_token(p, &c, e);
	}
	if (p->scheme == FETCH_NO_SCHEME && c.scheme == FETCH_BASIC && p->has_login) {
		p->scheme = FETCH_BASIC;
		return 0;
	}
	return err_set(e, ERR_UNAUTHORIZED, 0,
		       "%s wants another login for this image; 'docker login %s' stores one",
		       p->ref->host, p->ref->host);
}

static int refused(const struct pull *p, const struct http_get *g, struct err *e)
{
	if (g->status == 404)
		return err_set(e, ERR_NOT_FOUND, 0, "%s has no image %s:%s", p->ref->host,
			       p->ref->name, p->ref->tag);
	return err_set(e, ERR_SOURCE_UNREACHABLE, 0, "%s answered %ld (%.150s)", p->ref->host,
		       g->status, g->problem);
}

/* GET of the registry's API, with at most one login and FETCH_REDIRECTS_MAX redirects. Credentials go
 * to the registry itself and to nobody that it redirects to. */
static int get(struct pull *p, const char *path, const char *accept, uint64_t max, struct sink *s,
	       struct err *e)
{
	char url[URL_MAX];
	char origin[URL_MAX];
	char home[URL_MAX];
	int redirects = 0;

	url_origin(p->base, home, sizeof(home));
	(void)snprintf(url, sizeof(url), "%s/v2/%s/%s", p->base, p->ref->name, path);
	for (;;) {
		url_origin(url, origin, sizeof(origin));
		const bool ours = streq(origin, home);
		struct http_get g = {.url = url,
				     .accept = accept,
				     .bearer = ours && p->scheme == FETCH_BEARER ? p->token : NULL,
				     .user = ours && p->scheme == FETCH_BASIC ? p->user : NULL,
				     .password = p->password,
				     .ca_file = p->ca_file[0] ? p->ca_file : NULL,
				     .max = max,
				     .sink = take,
				     .sink_user = s,
				     .watch = p->watch};

		restart(s);
		int r = http_get(&g, e);

		if (r < 0)
			return err_wrap(e, "%s", p->ref->host);
		if (g.status == 200)
			return 0;
		if (g.status == 401 && ours) {
			r = log_in(p, g.challenge, e);
		} else if (g.status >= 301 && g.status <= 308 && g.location[0]) {
			r = ++redirects > FETCH_REDIRECTS_MAX
				? err_set(e, ERR_IMAGE_INVALID, ELOOP, "%s redirects too often",
					  p->ref->host)
				: check_url(p, g.location, e);
			(void)snprintf(url, sizeof(url), "%s", g.location);
		} else {
			r = refused(p, &g, e);
		}
		if (r < 0)
			return r;
	}
}

static int keep(const struct pull *p, const char *digest, const struct buf *text, struct err *e)
{
	_cleanup_fd_ int fd = openat(p->blobs, digest + strlen("sha256:"),
				     O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, buf_str(text), text->len);

	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot keep what was fetched") : 0;
}

static int check(const char *wanted, uint64_t size, struct sink *s, struct err *e)
{
	char found[OCI_DIGEST_LEN + 1];

	sink_digest(s, found);
	if (streq(found, wanted) && s->size == size)
		return 0;
	return err_set(e, ERR_IMAGE_INVALID, EBADMSG,
		       "the registry sent something else: %.19s… was announced, %.19s… came",
		       wanted, found);
}

static int get_layer(struct pull *p, const struct oci_blob *b, struct err *e)
{
	char path[32 + OCI_DIGEST_LEN];
	struct stat st;

	if (fstatat(p->blobs, b->digest + 7, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0; /* images have the same empty layer several times */
	p->total += b->size;
	if (p->total > OCI_BLOB_MAX)
		return err_set(e, ERR_IMAGE_INVALID, EFBIG, "the image's layers are too large");
	_cleanup_fd_ int fd = openat(p->blobs, b->digest + 7,
				     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct sink s = {.fd = fd};

	if (fd < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot keep what was fetched");
	(void)snprintf(path, sizeof(path), "blobs/%s", b->digest);
	int r = get(p, path, NULL, b->size, &s, e);

	return r < 0 ? r : check(b->digest, b->size, &s, e);
}

/* The manifest for this machine: of the name, else through indexes. RET_BLOB is the outermost
 * document, TEXT the manifest, which is kept as DIGEST. */
static int get_manifest(struct pull *p, struct buf *text, struct oci_blob *ret_top,
			struct oci_blob *ret, struct err *e)
{
	char path[32 + REF_TAG_MAX + OCI_DIGEST_LEN];
	struct oci_blob next = {0};

	(void)snprintf(path, sizeof(path), "manifests/%s",
		       p->ref->digest[0] ? p->ref->digest : p->ref->tag);
	(void)snprintf(next.digest, sizeof(next.digest), "%s", p->ref->digest);
	for (int depth = 0;; depth++) {
		struct sink s = {.text = text, .fd = -1};
		int r = get(p, path, ACCEPT, depth ? next.size : OCI_JSON_MAX, &s, e);

		if (r < 0)
			return r;
		if (!next.digest[0])
			sink_digest(&s, next.digest);
		else
			r = check(next.digest, depth ? next.size : s.size, &s, e);
		next.size = s.size;
		if (r >= 0)
			r = keep(p, next.digest, text, e);
		if (r < 0)
			return r;
		if (depth == 0)
			*ret_top = next;
		if (!oci_is_index(buf_str(text), text->len)) {
			*ret = next;
			return 0;
		}
		if (depth >= INDEX_DEPTH)
			return err_set(e, ERR_IMAGE_INVALID, ELOOP,
				       "the image's indexes are nested");
		r = oci_parse_index(buf_str(text), text->len, NULL, &next, e);
		if (r < 0)
			return r;
		(void)snprintf(path, sizeof(path), "manifests/%s", next.digest);
	}
}

static int write_text(int folder, const char *name, const char *text, size_t len, struct err *e)
{
	_cleanup_fd_ int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, len);

	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot keep what was fetched") : 0;
}

/* The files that make a folder with blobs an OCI layout. */
static int finish_layout(const struct pull *p, const struct oci_blob *manifest, struct err *e)
{
	static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	char index[512];
	const int n = snprintf(index, sizeof(index),
			       "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"%s\","
			       "\"digest\":\"%s\",\"size\":%" PRIu64 "}]}",
			       OCI_TYPE_MANIFEST, manifest->digest, manifest->size);
	int r = write_text(p->folder, "index.json", index, (size_t)n, e);

	return r < 0 ? r : write_text(p->folder, "oci-layout", layout, strlen(layout), e);
}

static int make_blobs(struct pull *p, struct err *e)
{
	if (mkdirat(p->folder, "blobs", 0700) < 0 || mkdirat(p->folder, "blobs/sha256", 0700) < 0)
		return err_set(e, ERR_SYSTEM, errno, "cannot keep what is fetched");
	p->blobs = openat(p->folder, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return p->blobs < 0 ? err_set(e, ERR_SYSTEM, errno, "cannot keep what is fetched") : 0;
}

/* Runs in the worker. */
static int pull(void *ctx, void *report, struct err *e)
{
	struct pull *p = ctx;
	struct pull_report *ret = report;
	_cleanup_(buf_done) struct buf text = BUF_INIT(OCI_JSON_MAX);
	_cleanup_free_ struct oci_manifest *m = calloc(1, sizeof(*m));
	struct oci_blob top, manifest;

	if (!m)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "asking a registry");
	int r = make_blobs(p, e);

	if (r >= 0)
		r = get_manifest(p, &text, &top, &manifest, e);
	if (r >= 0)
		r = oci_parse_manifest(buf_str(&text), text.len, m, e);
	if (r >= 0)
		r = get_layer(p, &m->config, e);
	for (size_t i = 0; r >= 0 && i < m->n_layers; i++) {
		char step[64];

		(void)snprintf(step, sizeof(step), "fetching layer %zu of %zu", i + 1, m->n_layers);
		p->watch->step(p->watch->user, step);
		r = get_layer(p, &m->layers[i], e);
	}
	if (r >= 0)
		r = finish_layout(p, &manifest, e);
	if (r >= 0)
		(void)snprintf(ret->digest, sizeof(ret->digest), "%s", top.digest);
	p->blobs = fd_close(p->blobs);
	return r;
}

/* The logins that `docker login` and `podman login` keep. No file, no login. */
static void read_login(struct pull *p)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(LOGIN_MAX);
	const char *podman = getenv("REGISTRY_AUTH_FILE");
	const char *docker = getenv("DOCKER_CONFIG");
	const char *home = getenv("HOME");
	char path[PATH_MAX];

	if (podman && podman[0])
		(void)snprintf(path, sizeof(path), "%s", podman);
	else if (docker && docker[0])
		(void)snprintf(path, sizeof(path), "%s/config.json", docker);
	else
		(void)snprintf(path, sizeof(path), "%s/.docker/config.json", home ? home : "");
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	p->has_login =
	    fd >= 0 && fd_read_file(fd, &text) >= 0 &&
	    fetch_find_login(buf_str(&text), text.len, p->ref->host, p->user, p->password) >= 0;
	if (text.data)
		sodium_memzero(text.data, text.len);
}

/* The worker may not be able to read the file, so it gets a copy in memory. */
static int copy_certificates(const char *file, char ret[64], int *ret_fd, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(CA_MAX);
	_cleanup_fd_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int r = fd < 0 ? -errno : fd_read_file(fd, &text);

	if (r >= 0)
		r = *ret_fd = fd_sealed_memfd("certificates", buf_str(&text), text.len);
	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, -r, "cannot read the certificates in %s",
			       file);
	(void)snprintf(ret, 64, "/proc/self/fd/%d", *ret_fd);
	return 0;
}

int fetch_registry(const struct image_ref *ref, const struct fetch_options *o, int folder,
		   const struct image_watch *w, char ret_digest[OCI_DIGEST_LEN + 1], struct err *e)
{
	static struct pull p; /* secrets stay in one place, and off the stack */
	struct pull_report report = {0};
	_cleanup_fd_ int ca = -1;
	const bool plain = o->plain_http || ref_is_loopback(ref->host);

	p = (struct pull){
	    .ref = ref, .watch = w, .folder = folder, .blobs = -1, .plain = o->plain_http};
	(void)snprintf(p.base, sizeof(p.base), "http%s://%s", plain ? "" : "s", ref->host);
	int r = libcurl_load(e);

	if (r >= 0 && o->ca_file && o->ca_file[0])
		r = copy_certificates(o->ca_file, p.ca_file, &ca, e);

	if (r < 0)
		return r;
	read_login(&p);
	w->step(w->user, "asking the registry");
	const struct worker work = {
	    .kind = WORKER_NETWORK, .write = folder, .source = -1, .fn = pull, .ctx = &p};

	r = worker_run(&work, w, &report, sizeof(report), e);
	sodium_memzero(p.user, sizeof(p.user));
	sodium_memzero(p.password, sizeof(p.password));
	if (r < 0)
		return r;
	report.digest[OCI_DIGEST_LEN] = '\0';
	if (!oci_is_digest(report.digest))
		return err_set(e, ERR_IMAGE_INVALID, EBADMSG, "the image's digest");
	(void)snprintf(ret_digest, OCI_DIGEST_LEN + 1, "%s", report.digest);
	return 0;
}
