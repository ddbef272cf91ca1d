/* SPDX-License-Identifier: Apache-2.0 */
#include "image/http_get.h"

#include "base/libcurl.h"
#include "base/text.h"
#include "egress/address.h"
#include "image/def.h"
#include "image/inside.h"
#include "image/ref.h"

#include <inttypes.h>
#include <netdb.h>
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
	char inside
	    [EGRESS_ADDRESS_TEXT]; /* the address that the wall refused; "" = none, or another one was tried */
	bool tried;
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
	take_header(line, size * n, "retry-after:", t->g->retry_after, sizeof(t->g->retry_after));
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

/* ---- the wall ---- */

static bool is_inside(const struct sockaddr *sa, char ret[EGRESS_ADDRESS_TEXT])
{
	struct egress_address a;

	(void)snprintf(ret, EGRESS_ADDRESS_TEXT, "?");
	if (!egress_address_from(sa, &a))
		return true;
	egress_address_text(&a, ret);
	return egress_address_class(&a, NULL) != EGRESS_PUBLIC || egress_address_is_own(&a);
}

/* Not the check of a name before: what it stands for may change until it is connected to. */
static curl_socket_t on_socket(void *user, curlsocktype purpose UNUSED, struct curl_sockaddr *a)
{
	struct http_transfer *t = user;

	char address[EGRESS_ADDRESS_TEXT];

	if (is_inside(&a->addr, address)) {
		if (!t->tried)
			memcpy(t->inside, address, sizeof(address));
		return CURL_SOCKET_BAD;
	}
	t->tried = true;
	t->inside[0] = '\0';
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/* For a proxy, which resolves names itself, maybe to other addresses. */
static bool is_inside_name(const char *url, char ret[EGRESS_ADDRESS_TEXT])
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *list = NULL;
	char host[INSIDE_HOST_MAX];
	bool inside = inside_host(url, host) < 0 || inside_is_host(host);

	(void)snprintf(ret, EGRESS_ADDRESS_TEXT, "by its name");
	if (inside || getaddrinfo(host, NULL, &hints, &list) != 0)
		return inside;
	for (const struct addrinfo *a = list; a && !inside; a = a->ai_next)
		inside = is_inside(a->ai_addr, ret);
	freeaddrinfo(list);
	return inside;
}

int http_wall_init(struct http_wall *w, const char *origin, struct err *e)
{
	static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
	const char *proxy = NULL;

	*w = (struct http_wall){0};
	if (origin)
		http_origin(origin, w->origin, sizeof(w->origin));
	for (size_t i = 0; i < ARRAY_SIZE(names) && !(proxy && proxy[0]); i++)
		proxy = getenv(names[i]);
	return proxy && text_copy(w->proxy, sizeof(w->proxy), proxy) < 0
		   ? err_set(e, ERR_SETTING_INVALID, ENAMETOOLONG, "the proxy of the environment")
		   : 0;
}

static CURLcode set_wall(struct http_transfer *t)
{
	const struct http_wall *w = t->g->wall;
	char origin[ORIGIN_MAX];
	CURLcode r;

	http_origin(t->g->url, origin, sizeof(origin));
	if (w->origin[0] && streq(w->origin, origin))
		return curl_easy_setopt(t->curl, CURLOPT_PROXY, "");
	r = curl_easy_setopt(t->curl, CURLOPT_PROXY, w->proxy);
	if (w->proxy[0]) {
		if (is_inside_name(t->g->url, t->inside))
			return CURLE_COULDNT_CONNECT;
		t->inside[0] = '\0';
		return r == CURLE_OK ? curl_easy_setopt(t->curl, CURLOPT_NOPROXY, "") : r;
	}
	if (r == CURLE_OK)
		r = curl_easy_setopt(t->curl, CURLOPT_OPENSOCKETFUNCTION, on_socket);
	return r == CURLE_OK ? curl_easy_setopt(t->curl, CURLOPT_OPENSOCKETDATA, t) : r;
}

static int refuse_inside(const struct http_transfer *t, struct err *e)
{
	char origin[ORIGIN_MAX];

	http_origin(t->g->url, origin, sizeof(origin));
	return err_set(e, ERR_FORBIDDEN, 0,
		       "%.200s is inside the network of this server, where builds download "
		       "nothing; for a registry that is meant to be there, the operator writes "
		       "inside: before it in SANDBOX_PULLS",
		       origin);
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
	if (r == CURLE_OK && t->g->wall)
		r = set_wall(t);
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
	if (r != CURLE_OK && t->inside[0])
		return refuse_inside(t, e);
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
	g->location[0] = g->challenge[0] = g->retry_after[0] = '\0';
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
	const int result =
	    t->inside[0] ? refuse_inside(t, e)
			 : err_set(e, ERR_SYSTEM, ENOMEM, "libcurl (%s)", curl_easy_strerror(r));

	end(t);
	return result;
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
