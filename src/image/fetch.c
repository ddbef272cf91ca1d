/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an image from a registry, as an account without rights, into an OCI layout. */
#include "image/fetch_pull.h"

#include "base/fdio.h"
#include "base/libcurl.h"
#include "base/parse.h"
#include "base/text.h"
#include "image/oci.h"
#include "image/pulls.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CA_MAX    (4u << 20)
#define LOGIN_MAX (1u << 20) /* bytes of a file with logins */
#define ACCEPT                                                                                     \
	OCI_TYPE_INDEX ", " OCI_TYPE_MANIFEST ", " DOCKER_TYPE_INDEX ", " DOCKER_TYPE_MANIFEST

struct pull_report {
	char digest[OCI_DIGEST_LEN + 1];
	char signature[SIGNATURE_MAX]; /* if there are keys */
	uint32_t signature_len;
};

int sink_take(void *sink, const void *data, size_t len)
{
	struct sink *s = sink;
	int r = s->text ? buf_add(s->text, data, len) : fd_write_all(s->fd, data, len);

	if (r < 0)
		return r;
	s->size += len;
	(void)crypto_hash_sha256_update(&s->hash, data, len);
	return 0;
}

int sink_restart(void *sink)
{
	struct sink *s = sink;

	s->size = 0;
	(void)crypto_hash_sha256_init(&s->hash);
	if (s->text)
		buf_reset(s->text);
	else if (ftruncate(s->fd, 0) < 0 || lseek(s->fd, 0, SEEK_SET) < 0)
		return -errno;
	return 0;
}

static void sink_digest(const struct sink *s, char ret[OCI_DIGEST_LEN + 1])
{
	crypto_hash_sha256_state hash = s->hash;
	unsigned char sum[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(sum) + 1];

	(void)crypto_hash_sha256_final(&hash, sum);
	text_hex(sum, sizeof(sum), hex);
	(void)snprintf(ret, OCI_DIGEST_LEN + 1, "sha256:%s", hex);
}

int sink_check(const struct sink *s, const char *digest, uint64_t size, struct err *e)
{
	char found[OCI_DIGEST_LEN + 1];

	sink_digest(s, found);
	if (streq(found, digest) && s->size == size)
		return 0;
	return err_set(e, ERR_IMAGE_INVALID, EBADMSG,
		       "the registry sent something else: %.19s… was announced, %.19s… came",
		       digest, found);
}

/* Plain http is for registries that are asked by http, and never leads to another machine than
 * loopback unless the operator permits it. */
static int check_url(const struct pull *p, const char *url, struct err *e)
{
	char origin[FETCH_URL_MAX];

	http_origin(url, origin, sizeof(origin));
	if (text_starts_with(origin, "https://"))
		return 0;
	if (text_starts_with(origin, "http://") && text_starts_with(p->base, "http://") &&
	    (p->plain || ref_is_loopback(origin + strlen("http://"))))
		return 0;
	return err_set(e, ERR_IMAGE_INVALID, EPERM,
		       "the registry names an address without https (%.100s)",
		       origin[0] ? origin : "no URL");
}

/* What a registry does not have, or does not give to strangers, it will not have a second later either. */
static void say_later(const struct pull *p, const struct http_get *g)
{
	uint64_t seconds = IMAGE_PULL_LATER_S;
	char text[80];

	if (!p->rules)
		return;
	if (g && parse_u64(g->retry_after, 1, UINT64_MAX, &seconds) < 0)
		seconds = IMAGE_PULL_LATER_S;
	(void)snprintf(text, sizeof(text), IMAGE_PULL_LATER "%u s",
		       (unsigned)MIN(seconds, (uint64_t)IMAGE_PULL_LATER_MAX_S));
	p->watch->step(p->watch->user, text);
}

static int refused_login(const struct pull *p, struct err *e)
{
	say_later(p, NULL);
	if (p->rules)
		return err_set(e, ERR_UNAUTHORIZED, 0,
			       "%s wants a login for this image, or does not have it; builds "
			       "download without one, the operator can (caisson image pull)",
			       p->ref->host);
	return err_set(e, ERR_UNAUTHORIZED, 0,
		       "%s wants another login for this image, or does not have it; 'docker login "
		       "%s' stores one",
		       p->ref->host, p->ref->host);
}

static int get_token(struct pull *p, const struct fetch_challenge *c, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(4 * FETCH_SECRET_MAX);
	_cleanup_(buf_done) struct buf url = BUF_INIT(FETCH_URL_MAX);
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
	r = sink_restart(&s);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the registry's login");
	struct http_get g = {.url = buf_str(&url),
			     .wall = p->rules ? &p->wall : NULL,
			     .direct = http_is_direct(buf_str(&url)),
			     .user = p->has_login ? p->user : NULL,
			     .password = p->password,
			     .ca_file = p->ca_file[0] ? p->ca_file : NULL,
			     .max = text.max,
			     .sink = sink_take,
			     .sink_user = &s,
			     .watch = p->watch};

	r = http_get(&g, e);
	if (r < 0)
		return err_wrap(e, "the registry's login");
	if (g.status != 200 && p->rules)
		return refused_login(p, e);
	if (g.status != 200)
		return err_set(e, ERR_UNAUTHORIZED, 0,
			       "the registry's login answered %ld; 'docker login %s' stores one",
			       g.status, p->ref->host);
	if (oci_parse_token(buf_str(&text), text.len, p->token, sizeof(p->token)) < 0)
		return err_set(e, ERR_IMAGE_INVALID, EBADMSG, "the registry's login sent no token");
	p->tokens++;
	return 0;
}

/* Once for each request, because tokens expire while other layers come. */
static int log_in(struct pull *p, struct asking *ask, struct err *e)
{
	struct fetch_challenge c;

	fetch_parse_challenge(ask->get.challenge, &c);
	if (ask->logged_in)
		return refused_login(p, e);
	ask->logged_in = true;
	if (p->scheme != FETCH_BASIC && c.scheme == FETCH_BEARER) {
		p->scheme = FETCH_BEARER;
		return ask->token < p->tokens ? 0 : get_token(p, &c, e);
	}
	if (p->scheme == FETCH_NO_SCHEME && c.scheme == FETCH_BASIC && p->has_login) {
		p->scheme = FETCH_BASIC;
		return 0;
	}
	return refused_login(p, e);
}

static int refused(const struct pull *p, const struct http_get *g, struct err *e)
{
	if (g->status == 404 || g->status == 429)
		say_later(p, g);
	if (g->status == 404)
		return err_set(e, ERR_NOT_FOUND, 0, "%s has no image %s:%s", p->ref->host,
			       p->ref->name, p->ref->digest[0] ? p->ref->digest : p->ref->tag);
	if (g->status == 401 || g->status == 403)
		return refused_login(p, e);
	if (g->status == 429 && p->rules)
		return err_set(e, ERR_SOURCE_UNREACHABLE, 0,
			       "%s has had too many requests from here", p->ref->host);
	if (g->status == 429)
		return err_set(
		    e, ERR_SOURCE_UNREACHABLE, 0,
		    "%s has had too many requests from here; try again later, or 'docker "
		    "login %s'",
		    p->ref->host, p->ref->host);
	return err_set(e, ERR_SOURCE_UNREACHABLE, 0, "%s answered %ld (%.150s)", p->ref->host,
		       g->status, g->problem);
}

void asking_begin(const struct pull *p, struct asking *ask, const char *path)
{
	(void)snprintf(ask->url, sizeof(ask->url), "%s/v2/%s/%s", p->base, p->ref->name, path);
}

void asking_prepare(struct pull *p, struct asking *ask)
{
	char origin[FETCH_URL_MAX];
	char home[FETCH_URL_MAX];

	http_origin(p->base, home, sizeof(home));
	http_origin(ask->url, origin, sizeof(origin));
	ask->ours = streq(origin, home);
	ask->token = p->tokens;
	ask->get = (struct http_get){
	    .url = ask->url,
	    .wall = p->rules ? &p->wall : NULL,
	    .accept = ask->accept,
	    .direct = http_is_direct(ask->url),
	    .bearer = ask->ours && p->scheme == FETCH_BEARER ? p->token : NULL,
	    .user = ask->ours && p->scheme == FETCH_BASIC ? p->user : NULL,
	    .password = p->password,
	    .ca_file = p->ca_file[0] ? p->ca_file : NULL,
	    .max = ask->max,
	    .offset = ask->sink->size,
	    .sink = sink_take,
	    .restart = sink_restart,
	    .sink_user = ask->sink,
	    .watch = p->watch,
	};
}

int asking_judge(struct pull *p, struct asking *ask, struct err *e)
{
	const struct http_get *g = &ask->get;
	int r;

	if (g->status == 200 || g->status == 206)
		return 1;
	if (g->status == 401 && ask->ours)
		return log_in(p, ask, e);
	if (g->status < 301 || g->status > 308 || !g->location[0])
		return refused(p, g, e);
	r = ++ask->redirects > FETCH_REDIRECTS_MAX
		? err_set(e, ERR_IMAGE_INVALID, ELOOP, "%s redirects too often", p->ref->host)
		: check_url(p, g->location, e);
	(void)snprintf(ask->url, sizeof(ask->url), "%s", g->location);
	return r;
}

/* A document, which is small and is fetched in one piece. */
static int get_document(struct pull *p, const char *path, uint64_t max, struct sink *s,
			struct err *e)
{
	static struct asking ask; /* large */
	int r;

	ask = (struct asking){.sink = s, .accept = ACCEPT, .max = max};
	asking_begin(p, &ask, path);
	do {
		r = sink_restart(s);
		asking_prepare(p, &ask);
		if (r >= 0)
			r = http_get(&ask.get, e);
		if (r < 0)
			return err_wrap(e, "%s", p->ref->host);
		r = asking_judge(p, &ask, e);
	} while (r == 0);
	return r < 0 ? r : 0;
}

static int write_text(int folder, const char *name, const char *text, size_t len, struct err *e)
{
	/* An earlier attempt may have left one. */
	if (unlinkat(folder, name, 0) < 0 && errno != ENOENT)
		return err_set(e, ERR_SYSTEM, errno, "cannot keep what was fetched");
	_cleanup_fd_ int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, len);

	return r < 0 ? err_set(e, ERR_SYSTEM, -r, "cannot keep what was fetched") : 0;
}

/* The manifest for this machine: of the name, else through indexes, which are kept: the layout begins with what the
 * name stands for, so that its reader need not believe which manifest that is. TEXT is the manifest, the last one of the
 * chain. */
static int get_manifest(struct pull *p, struct buf *text, struct err *e)
{
	char path[32 + REF_TAG_MAX + OCI_DIGEST_LEN];
	struct oci_blob next = {0};

	(void)snprintf(path, sizeof(path), "manifests/%s",
		       p->ref->digest[0] ? p->ref->digest : p->ref->tag);
	(void)snprintf(next.digest, sizeof(next.digest), "%s", p->ref->digest);
	for (int depth = 0;; depth++) {
		struct sink s = {.text = text, .fd = -1};
		int r = get_document(p, path, depth ? next.size : OCI_JSON_MAX, &s, e);

		if (r < 0)
			return r;
		if (!next.digest[0])
			sink_digest(&s, next.digest);
		else
			r = sink_check(&s, next.digest, depth ? next.size : s.size, e);
		next.size = s.size;
		if (r < 0)
			return r;
		p->chain[p->n_chain++] = next;
		if (!oci_is_index(buf_str(text), text->len))
			return 0;
		if (depth >= INDEX_DEPTH)
			return err_set(e, ERR_IMAGE_INVALID, ELOOP,
				       "the image's indexes are nested");
		r = write_text(p->blobs, next.digest + strlen("sha256:"), buf_str(text), text->len,
			       e);
		if (r >= 0)
			r = oci_parse_index(buf_str(text), text->len, NULL, &next, e);
		if (r < 0)
			return r;
		(void)snprintf(path, sizeof(path), "manifests/%s", next.digest);
	}
}

/* The last part of the image's name: a mirror keeps that, and its signatures. */
static const char *signed_name(const struct image_ref *ref)
{
	const char *slash = strrchr(ref->name, '/');

	return slash ? slash + 1 : ref->name;
}

static int check_signature(const struct pull *p, const struct pull_report *report, struct err *e)
{
	return p->keys.n == 0
		   ? 0
		   : signature_check(&p->keys, report->signature,
				     MIN((size_t)report->signature_len, (size_t)SIGNATURE_MAX),
				     signed_name(p->ref), report->digest, e);
}

/* The signature of what the name stands for: the one layer of a manifest whose tag names the digest. M and TEXT are
 * overwritten. */
static int get_signature(struct pull *p, struct buf *text, struct oci_manifest *m,
			 struct pull_report *ret, struct err *e)
{
	struct sink s = {.text = text, .fd = -1};
	char path[64 + OCI_DIGEST_LEN];

	if (p->keys.n == 0)
		return 0;
	p->watch->step(p->watch->user, "checking the signature");
	(void)snprintf(path, sizeof(path), "manifests/sha256-%s.minisig",
		       ret->digest + strlen("sha256:"));
	int r = get_document(p, path, OCI_JSON_MAX, &s, e);

	if (r < 0 && e->code == ERR_NOT_FOUND)
		return err_set(e, ERR_IMAGE_INVALID, 0,
			       "%s has no signature for %s@%.19s…, and SANDBOX_IMAGE_KEY wants one",
			       p->ref->host, signed_name(p->ref), ret->digest);
	if (r >= 0)
		r = oci_parse_manifest(buf_str(text), text->len, m, e);
	if (r >= 0 && (m->n_layers != 1 || m->layers[0].size > SIGNATURE_MAX))
		r = err_set(e, ERR_IMAGE_INVALID, 0, "the signature of the image is damaged");
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "blobs/%s", m->layers[0].digest);
	r = get_document(p, path, m->layers[0].size, &s, e);
	if (r >= 0)
		r = sink_check(&s, m->layers[0].digest, m->layers[0].size, e);
	if (r < 0)
		return r;
	memcpy(ret->signature, buf_str(text), text->len);
	ret->signature_len = (uint32_t)text->len;
	return check_signature(p, ret, e); /* before the layers come */
}

int fetch_write_layout(const struct pull *p, struct err *e)
{
	static const char layout[] = "{\"imageLayoutVersion\":\"1.0.0\"}";
	const struct oci_blob *manifest = &p->chain[p->n_chain - 1], *top = &p->chain[0];
	char index[512];
	const int n =
	    snprintf(index, sizeof(index),
		     "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"%s\","
		     "\"digest\":\"%s\",\"size\":%" PRIu64 "}]}",
		     p->n_chain > 1 ? OCI_TYPE_INDEX : OCI_TYPE_MANIFEST, top->digest, top->size);
	int r = write_text(p->blobs, manifest->digest + strlen("sha256:"), buf_str(p->manifest),
			   p->manifest->len, e);

	if (r >= 0)
		r = write_text(p->folder, "index.json", index, (size_t)n, e);
	return r < 0 ? r : write_text(p->folder, "oci-layout", layout, strlen(layout), e);
}

static int make_blobs(struct pull *p, struct err *e)
{
	static const char *const folders[] = {"blobs", "blobs/sha256"};

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (mkdirat(p->folder, folders[i], 0700) < 0 && errno != EEXIST)
			return err_set(e, ERR_SYSTEM, errno, "cannot keep what is fetched");
	p->blobs =
	    fd_open_beneath(p->folder, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	return p->blobs < 0 ? err_set(e, ERR_SYSTEM, errno, "cannot keep what is fetched") : 0;
}

static bool is_of(const struct pull *p, const struct oci_manifest *m, const char *name)
{
	bool found = streq(name, m->config.digest + strlen("sha256:"));

	for (size_t i = 0; !found && i < p->n_chain; i++)
		found = streq(name, p->chain[i].digest + strlen("sha256:"));
	for (size_t i = 0; !found && i < m->n_layers; i++)
		found = streq(name, m->layers[i].digest + strlen("sha256:"));
	return found;
}

/* What an earlier attempt at another image left. */
static int remove_others(const struct pull *p, const struct oci_manifest *m, struct err *e)
{
	int fd = openat(p->blobs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_dir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		const int saved = errno;

		(void)fd_close(fd);
		return err_set(e, ERR_SYSTEM, saved, "cannot keep what is fetched");
	}
	for (struct dirent *de; (de = readdir(dir)) != NULL;)
		if (de->d_name[0] != '.' && !is_of(p, m, de->d_name) &&
		    unlinkat(p->blobs, de->d_name, 0) < 0)
			return err_set(e, ERR_SYSTEM, errno, "cannot remove what was fetched");
	return 0;
}

/* Runs in the worker. */
static int pull(void *ctx, void *report, struct err *e)
{
	struct pull *p = ctx;
	struct pull_report *ret = report;
	_cleanup_(buf_done) struct buf text = BUF_INIT(OCI_JSON_MAX);
	_cleanup_(buf_done) struct buf other = BUF_INIT(OCI_JSON_MAX);
	_cleanup_free_ struct oci_manifest *m = calloc(1, sizeof(*m));

	if (!m)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "asking a registry");
	int r = make_blobs(p, e);

	if (r >= 0)
		r = get_manifest(p, &text, e);
	if (r >= 0)
		(void)snprintf(ret->digest, sizeof(ret->digest), "%s", p->chain[0].digest);
	if (r >= 0)
		r = get_signature(p, &other, m, ret, e);
	if (r >= 0)
		r = oci_parse_manifest(buf_str(&text), text.len, m, e);
	if (r >= 0)
		r = remove_others(p, m, e);
	p->manifest = &text;
	if (r >= 0 && worker_tell(ret) < 0)
		r = err_set(e, ERR_SYSTEM, EIO, "asking a registry");
	const char *known = p->rules ? p->rules->known : NULL;

	if (r >= 0 && !(known && streq(known, ret->digest)))
		r = fetch_blobs(p, m, e);
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
static int copy_certificates(const char *file, char ret[FETCH_CA_SIZE], int *ret_fd, struct err *e)
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(CA_MAX);
	_cleanup_fd_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int r = fd < 0 ? -errno : fd_read_file(fd, &text);

	if (r >= 0)
		r = *ret_fd = fd_sealed_memfd("certificates", buf_str(&text), text.len);
	if (r < 0)
		return err_set(e, ERR_SETTING_INVALID, -r, "cannot read the certificates in %s",
			       file);
	(void)snprintf(ret, FETCH_CA_SIZE, "/proc/self/fd/%d", *ret_fd);
	return 0;
}

int fetch_prepare(bool plain, const char *ca_file, char ret[FETCH_CA_SIZE], int *ret_fd,
		  struct err *e)
{
	int r = libcurl_load(e);

	if (r < 0)
		return r;
	const char *trusted = ca_file && ca_file[0] ? ca_file : libcurl_certificates();

	if (trusted && !trusted[0] && !plain)
		return err_set(
		    e, ERR_SYSTEM, 0,
		    "this machine has no certificates to trust: install ca-certificates, or "
		    "name a file of certificates in SSL_CERT_FILE");
	return trusted && trusted[0] ? copy_certificates(trusted, ret, ret_fd, e) : 0;
}

/* What the worker said of the name, before it fetches the layers. The signature is looked at once more, because the worker may
 * have been taken over by what it read. */
static int judge(const struct pull *p, struct worker_process *worker, const struct image_watch *w,
		 char ret_digest[OCI_DIGEST_LEN + 1], struct err *e)
{
	struct pull_report report = {0};
	int r = worker_next(worker, w, &report, sizeof(report), e);

	if (r < 0)
		return r;
	report.digest[OCI_DIGEST_LEN] = '\0';
	if (r == 0 || !oci_is_digest(report.digest))
		return err_set(e, ERR_IMAGE_INVALID, EBADMSG, "the image's digest");
	r = check_signature(p, &report, e);
	if (r >= 0)
		(void)snprintf(ret_digest, OCI_DIGEST_LEN + 1, "%s", report.digest);
	return r;
}

int fetch_registry(const struct image_ref *ref, const struct fetch_options *o, int folder,
		   int ready, const struct image_watch *w, struct worker_process *ret,
		   char ret_digest[OCI_DIGEST_LEN + 1], struct err *e)
{
	static struct pull p; /* secrets stay in one place, and off the stack */
	_cleanup_fd_ int ca = -1;
	const bool plain = o->plain_http || ref_is_loopback(ref->host);

	p = (struct pull){.ref = ref,
			  .watch = w,
			  .folder = folder,
			  .blobs = -1,
			  .ready = ready,
			  .plain = o->plain_http,
			  .rules = o->rules,
			  .keys = o->keys};
	(void)snprintf(p.base, sizeof(p.base), "http%s://%s", plain ? "" : "s", ref->host);
	int r = fetch_prepare(plain, o->ca_file, p.ca_file, &ca, e);

	if (r >= 0 && o->rules)
		r = http_wall_init(&p.wall, o->rules->inside ? p.base : NULL, e);
	if (r < 0)
		return r;
	if (!o->rules)
		read_login(&p);
	w->step(w->user, "asking the registry");
	const struct worker work = {
	    .kind = WORKER_NETWORK, .write = folder, .source = -1, .fn = pull, .ctx = &p};

	r = worker_begin(&work, ret, e);
	sodium_memzero(p.user, sizeof(p.user));
	sodium_memzero(p.password, sizeof(p.password));
	return r < 0 ? r : judge(&p, ret, w, ret_digest, e);
}
