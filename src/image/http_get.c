/* SPDX-License-Identifier: Apache-2.0 */
#include "image/http_get.h"

#include "base/libcurl.h"
#include "base/text.h"
#include "image/def.h"
#include "image/ref.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONNECT_S  15L /* time for the connection and TLS */
#define SLOW_BYTES 512L
/* Seconds after which an answer slower than SLOW_BYTES a second is given up. A daemon packs before it
 * answers. */
#define SLOW_S     60L
#define PACK_S     900L
#define HEADER_MAX (64u << 10)
#define POLL_MS    1000
#define ORIGIN_MAX 4096

struct http_transfer {
	struct http_get *g;
	CURL *curl;
	struct curl_slist *headers;
	char range[64]; /* Content-Range */
	uint64_t received;
	uint64_t header_bytes;
	bool too_large;
	bool stopped;
	bool wrong_part;
	bool begun; /* the body of a 200 or 206 */
	int sink_error;
};

static void take_header(const char *line, size_t len, const char *name, char *ret, size_t size)
{
	const size_t n = strlen(name);

	if (len <= n || strncasecmp(line, name, n) != 0)
		return;
	line += n;
	len -= n;
	while (len > 0 && (*line == ' ' || *line == '\t')) {
		line++;
		len--;
	}
	while (len > 0 && (line[len - 1] == '\r' || line[len - 1] == '\n' || line[len - 1] == ' '))
		len--;
	if (len < size && image_is_text(line, len))
		(void)snprintf(ret, size, "%.*s", (int)len, line);
}

static size_t on_header(char *line, size_t size, size_t n, void *user)
{
	struct http_transfer *t = user;

	t->header_bytes += size * n;
	if (t->header_bytes > HEADER_MAX) {
		t->too_large = true;
		return 0;
	}
	take_header(line, size * n, "www-authenticate:", t->g->challenge, sizeof(t->g->challenge));
	take_header(line, size * n, "content-range:", t->range, sizeof(t->range));
	return size * n;
}

/* Before the first byte of a body: is it what is missing, or everything? */
static bool begin_body(struct http_transfer *t)
{
	char wanted[32];

	if (t->begun)
		return true;
	t->begun = true;
	(void)snprintf(wanted, sizeof(wanted), "bytes %" PRIu64 "-", t->g->offset);
	if (t->g->status == 206) {
		t->wrong_part = t->g->offset == 0 || !text_starts_with(t->range, wanted);
		t->received += t->g->offset;
		return !t->wrong_part;
	}
	if (t->g->offset > 0)
		t->sink_error = t->g->restart(t->g->sink_user);
	return t->sink_error >= 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
	struct http_transfer *t = user;
	const size_t len = size * n;

	(void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &t->g->status);
	const bool wanted = t->g->status == 200 || t->g->status == 206;

	if (wanted && !begin_body(t))
		return 0;
	const uint64_t before = t->received;

	t->received += len;
	if (t->received > t->g->max) {
		t->too_large = true;
		return 0;
	}
	if (wanted) {
		t->sink_error = t->g->sink(t->g->sink_user, data, len);
		return t->sink_error < 0 ? 0 : len;
	}
	if (before < sizeof(t->g->problem) - 1) {
		const size_t room = sizeof(t->g->problem) - 1 - (size_t)before;

		memcpy(t->g->problem + before, data, MIN(room, len));
	}
	/* Nobody needs the rest of an error. */
	return t->received > sizeof(t->g->problem) ? 0 : len;
}

static int on_progress(void *user, curl_off_t total UNUSED, curl_off_t now UNUSED,
		       curl_off_t up_total UNUSED, curl_off_t up UNUSED)
{
	struct http_transfer *t = user;

	t->stopped = image_cancelled(t->g->watch);
	return t->stopped ? 1 : 0;
}

static CURLcode set_login(CURL *c, const struct http_get *g)
{
	CURLcode r = CURLE_OK;

	if (g->bearer) {
		r = curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
		if (r == CURLE_OK)
			r = curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, g->bearer);
	} else if (g->user) {
		r = curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		if (r == CURLE_OK)
			r = curl_easy_setopt(c, CURLOPT_USERNAME, g->user);
		if (r == CURLE_OK)
			r = curl_easy_setopt(c, CURLOPT_PASSWORD, g->password);
	}
	return r;
}

static CURLcode set_limits(struct http_transfer *t)
{
	const struct {
		CURLoption option;
		long value;
	} numbers[] = {
	    {CURLOPT_NOSIGNAL, 1},
	    {CURLOPT_FOLLOWLOCATION, 0},
	    {CURLOPT_CONNECTTIMEOUT, CONNECT_S},
	    {CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES},
	    {CURLOPT_LOW_SPEED_TIME, t->g->socket ? PACK_S : SLOW_S},
	    {CURLOPT_NOPROGRESS, 0},
	    {CURLOPT_SSL_VERIFYPEER, 1},
	    {CURLOPT_SSL_VERIFYHOST, 2},
	};
	CURLcode r = CURLE_OK;

	for (size_t i = 0; r == CURLE_OK && i < ARRAY_SIZE(numbers); i++)
		r = curl_easy_setopt(t->curl, numbers[i].option, numbers[i].value);
	if (r == CURLE_OK)
		r = libcurl_only_http(t->curl);
	if (r == CURLE_OK && t->g->ca_file)
		r = curl_easy_setopt(t->curl, CURLOPT_CAINFO, t->g->ca_file);
	if (r == CURLE_OK && t->g->socket)
		r = curl_easy_setopt(t->curl, CURLOPT_UNIX_SOCKET_PATH, t->g->socket);
	return r == CURLE_OK ? set_login(t->curl, t->g) : r;
}

static CURLcode set_calls(struct http_transfer *t)
{
	CURL *c = t->curl;
	CURLcode r = curl_easy_setopt(c, CURLOPT_URL, t->g->url);
	char range[32];

	(void)snprintf(range, sizeof(range), "%" PRIu64 "-", t->g->offset);

	if (r == CURLE_OK)
		r = curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	if (r == CURLE_OK)
		r = curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
	if (r == CURLE_OK)
		r = curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	if (r == CURLE_OK)
		r = curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	if (r == CURLE_OK)
		r = curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	if (r == CURLE_OK)
		r = curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
	if (r == CURLE_OK)
		r = curl_easy_setopt(c, CURLOPT_PRIVATE, t);
	/* Not CURLOPT_RESUME_FROM: it fails if the server sends everything. */
	if (r == CURLE_OK && t->g->offset > 0)
		r = curl_easy_setopt(c, CURLOPT_RANGE, range);
	if (r == CURLE_OK && t->g->direct)
		r = curl_easy_setopt(c, CURLOPT_PROXY, "");
	if (r == CURLE_OK)
		r = curl_easy_setopt(c, CURLOPT_USERAGENT, "caisson/" CAISSON_VERSION);
	return r;
}

static int judge(struct http_transfer *t, CURLcode r, struct err *e)
{
	char *location = NULL;

	if (t->stopped)
		return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
	if (t->too_large)
		return err_set(e, ERR_IMAGE_INVALID, EFBIG, "the answer is larger than announced");
	if (t->wrong_part)
		return err_set(e, ERR_IMAGE_INVALID, EBADMSG,
			       "the answer is another part than was asked for");
	if (t->sink_error < 0)
		return err_set(e, ERR_SYSTEM, -t->sink_error, "cannot keep what was fetched");
	/* The rest of an error's body was refused. */
	if (r != CURLE_OK && !(r == CURLE_WRITE_ERROR && t->g->status != 200))
		return err_set(e, ERR_SOURCE_UNREACHABLE, 0, "%s (%s)",
			       t->begun ? "the answer broke off" : "no answer",
			       curl_easy_strerror(r));
	(void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &t->g->status);
	if (curl_easy_getinfo(t->curl, CURLINFO_REDIRECT_URL, &location) == CURLE_OK && location &&
	    text_copy(t->g->location, sizeof(t->g->location), location) < 0)
		return err_set(e, ERR_IMAGE_INVALID, ENAMETOOLONG, "the address of a redirect");
	for (char *s = t->g->problem; *s; s++)
		if (*s < ' ' || *s > '~')
			*s = ' ';
	return 0;
}

static void end(struct http_transfer *t)
{
	t->g->transfer = NULL;
	curl_slist_free_all(t->headers);
	curl_easy_cleanup(t->curl);
	free(t);
}

static int begin(struct http_get *g, struct err *e)
{
	struct http_transfer *t = calloc(1, sizeof(*t));
	char accept[512];

	g->status = 0;
	g->location[0] = g->challenge[0] = '\0';
	memset(g->problem, 0, sizeof(g->problem));
	if (!t)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "asking a registry");
	*t = (struct http_transfer){.g = g, .curl = curl_easy_init()};
	CURLcode r = t->curl ? set_calls(t) : CURLE_OUT_OF_MEMORY;

	if (r == CURLE_OK)
		r = set_limits(t);
	if (r == CURLE_OK && g->accept) {
		(void)snprintf(accept, sizeof(accept), "Accept: %s", g->accept);
		t->headers = curl_slist_append(NULL, accept);
		r = t->headers ? curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, t->headers)
			       : CURLE_OUT_OF_MEMORY;
	}
	if (r == CURLE_OK) {
		g->transfer = t;
		return 0;
	}
	end(t);
	return err_set(e, ERR_SYSTEM, ENOMEM, "libcurl (%s)", curl_easy_strerror(r));
}

int http_get(struct http_get *g, struct err *e)
{
	int r = begin(g, e);

	if (r < 0)
		return r;
	r = judge(g->transfer, curl_easy_perform(g->transfer->curl), e);
	end(g->transfer);
	return r;
}

int http_set_init(struct http_set *s, struct err *e)
{
	s->multi = curl_multi_init();
	return s->multi ? 0 : err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "asking a registry");
}

void http_set_done(struct http_set *s)
{
	if (s->multi)
		(void)curl_multi_cleanup(s->multi);
	s->multi = NULL;
}

int http_set_add(struct http_set *s, struct http_get *g, struct err *e)
{
	int r = begin(g, e);

	if (r < 0 || curl_multi_add_handle(s->multi, g->transfer->curl) == CURLM_OK)
		return r;
	end(g->transfer);
	return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "asking a registry");
}

void http_set_drop(struct http_set *s, struct http_get *g)
{
	if (!g->transfer)
		return;
	(void)curl_multi_remove_handle(s->multi, g->transfer->curl);
	end(g->transfer);
}

int http_set_wait(struct http_set *s, struct http_get **ret, struct err *e)
{
	*ret = NULL;
	for (;;) {
		int running = 0;
		int left = 0;
		void *found = NULL;

		if (curl_multi_perform(s->multi, &running) != CURLM_OK)
			break;
		const CURLMsg *m = curl_multi_info_read(s->multi, &left);

		if (m && m->msg == CURLMSG_DONE) {
			const CURLcode code = m->data.result;

			if (curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &found) != CURLE_OK)
				break;
			struct http_transfer *t = found;

			*ret = t->g;
			const int r = judge(t, code, e);

			http_set_drop(s, t->g);
			return r;
		}
		if (running == 0 || curl_multi_poll(s->multi, NULL, 0, POLL_MS, NULL) != CURLM_OK)
			break;
	}
	return err_set(e, ERR_SYSTEM, EIO, "libcurl");
}

void http_origin(const char *url, char *ret, size_t size)
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

bool http_is_direct(const char *url)
{
	char origin[ORIGIN_MAX];

	http_origin(url, origin, sizeof(origin));
	const char *host = strstr(origin, "://");

	return host && ref_is_loopback(host + strlen("://"));
}
