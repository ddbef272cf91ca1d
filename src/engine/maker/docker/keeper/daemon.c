/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/maker/docker/keeper/daemon.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define DAEMON_REPLY_MAX (4u << 20)
#define CONNECT_MS       5000L
#define URL_MAX          1024
#define CALLS_KEPT_OPEN  8L /* connections that wait for the next call */

struct daemon_call {
	struct daemon *daemon;
	CURL *easy;
	struct curl_slist *headers;
	struct buf reply;
	char *json;
	char error[CURL_ERROR_SIZE];
	daemon_fn cb;
	void *user;
};

struct daemon {
	CURLM *multi;
	unsigned running;
	char host[DOCKER_HOST_MAX];
	char socket[DOCKER_HOST_MAX]; /* "" = TCP */
	char base[DOCKER_HOST_MAX + 16];
	char certs[PATH_MAX];
	char version[16];
	char why[256];
};

/* ---- where the daemon is ---- */

static bool is_socket(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* The first socket that is there: Docker's of this machine, then those of the user. */
static void find_host(char ret[DOCKER_HOST_MAX])
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	char path[DOCKER_HOST_MAX - sizeof("unix://")];
	static const char *const places[] = {"/run/docker.sock", "/var/run/docker.sock",
					     "%s/docker.sock", "/run/podman/podman.sock",
					     "%s/podman/podman.sock"};

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const char *rest = text_starts_with(places[i], "%s") ? places[i] + 2 : NULL;
		if (rest && (!runtime || *runtime != '/'))
			continue;
		int n = rest ? snprintf(path, sizeof(path), "%s%s", runtime, rest)
			     : snprintf(path, sizeof(path), "%s", places[i]);
		if ((size_t)n < sizeof(path) && is_socket(path)) {
			(void)snprintf(ret, DOCKER_HOST_MAX, "unix://%s", path);
			return;
		}
	}
	(void)snprintf(ret, DOCKER_HOST_MAX, "unix:///run/docker.sock");
}

static int set_host(struct daemon *a, const char *host, const char *certs, struct err *e)
{
	const bool tls = certs[0] != '\0';

	if (!host[0])
		find_host(a->host);
	else if (text_copy(a->host, sizeof(a->host), host) < 0)
		return err_set(e, ERR_SETTING_INVALID, 0, "the daemon's address is too long");
	if (text_copy(a->certs, sizeof(a->certs), certs) < 0)
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "the path of the certificates is too long");
	if (text_starts_with(a->host, "unix:///")) {
		(void)!text_copy(a->socket, sizeof(a->socket), a->host + strlen("unix://"));
		(void)snprintf(a->base, sizeof(a->base), "http://localhost");
		a->certs[0] = '\0';
		return 0;
	}
	const char *at = text_starts_with(a->host, "tcp://") ? a->host + strlen("tcp://") : "";
	if (!*at || strpbrk(at, "/@?#\\ \t\r\n"))
		return err_set(
		    e, ERR_SETTING_INVALID, 0,
		    "the daemon's address '%s' is neither unix:///PATH nor tcp://HOST:PORT",
		    a->host);
	(void)snprintf(a->base, sizeof(a->base), "%s://%s", tls ? "https" : "http", at);
	return 0;
}

int daemon_new(const struct keeper_config *config, struct daemon **ret, struct err *e)
{
	struct daemon *a = calloc(1, sizeof(*a));

	if (!a)
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the daemon's client");
	int r = set_host(a, config->host, config->certs, e);
	r = r < 0 ? r : libcurl_load(e);
	if (r == 0 && !(a->multi = curl_multi_init()))
		r = err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the daemon's client");
	if (r < 0) {
		free(a);
		return r;
	}
	(void)curl_multi_setopt(a->multi, CURLMOPT_MAXCONNECTS, CALLS_KEPT_OPEN);
	*ret = a;
	return 0;
}

const char *daemon_host(const struct daemon *a)
{
	return a->host;
}

void daemon_set_version(struct daemon *a, const char *version)
{
	(void)snprintf(a->version, sizeof(a->version), "/%s", version);
}

const char *daemon_why(const struct daemon *a)
{
	return a->why;
}

/* ---- one call ---- */

static void free_call(struct daemon_call *c)
{
	curl_easy_cleanup(c->easy);
	curl_slist_free_all(c->headers);
	buf_done(&c->reply);
	free(c->json);
	free(c);
}

static size_t on_bytes(char *data, size_t size, size_t n, void *user)
{
	struct daemon_call *c = user;

	return buf_add(&c->reply, data, size * n) < 0 ? 0 : size * n;
}

static bool set_tls(const struct daemon *a, CURL *easy)
{
	static const struct {
		CURLoption option;
		const char *file;
	} files[] = {
	    {CURLOPT_CAINFO, "ca.pem"}, {CURLOPT_SSLCERT, "cert.pem"}, {CURLOPT_SSLKEY, "key.pem"}};
	char path[PATH_MAX + 16];
	bool ok = true;

	for (size_t i = 0; i < ARRAY_SIZE(files) && a->certs[0]; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", a->certs, files[i].file);
		ok = ok && curl_easy_setopt(easy, files[i].option, path) == CURLE_OK;
	}
	return ok;
}

static bool set_request(struct daemon_call *c, const char *method, const char *url)
{
	CURL *h = c->easy;
	const struct daemon *a = c->daemon;
	bool ok = curl_easy_setopt(h, CURLOPT_URL, url) == CURLE_OK &&
		  libcurl_only_http(h) == CURLE_OK &&
		  curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK &&
		  curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
		  curl_easy_setopt(h, CURLOPT_PROXY, "") == CURLE_OK &&
		  curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS) == CURLE_OK &&
		  curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_bytes) == CURLE_OK &&
		  curl_easy_setopt(h, CURLOPT_WRITEDATA, c) == CURLE_OK &&
		  curl_easy_setopt(h, CURLOPT_PRIVATE, c) == CURLE_OK &&
		  curl_easy_setopt(h, CURLOPT_ERRORBUFFER, c->error) == CURLE_OK && set_tls(a, h);

	if (a->socket[0])
		ok = ok && curl_easy_setopt(h, CURLOPT_UNIX_SOCKET_PATH, a->socket) == CURLE_OK;
	if (c->json) {
		c->headers = curl_slist_append(NULL, "Content-Type: application/json");
		ok = ok && c->headers &&
		     curl_easy_setopt(h, CURLOPT_HTTPHEADER, c->headers) == CURLE_OK &&
		     curl_easy_setopt(h, CURLOPT_POSTFIELDS, c->json) == CURLE_OK;
	}
	return ok;
}

static struct daemon_call *new_call(struct daemon *a, const char *method, const char *path,
				    const char *json, unsigned timeout_s)
{
	char url[URL_MAX];
	struct daemon_call *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->daemon = a;
	c->reply = BUF_INIT(DAEMON_REPLY_MAX);
	/* A POST without a body must say that it is empty. */
	if (!json && streq(method, "POST"))
		json = "";
	c->json = json ? strdup(json) : NULL;
	c->easy = curl_easy_init();
	if ((size_t)snprintf(url, sizeof(url), "%s%s%s", a->base, a->version, path) >=
		sizeof(url) ||
	    !c->easy || (json && !c->json) || !set_request(c, method, url) ||
	    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT, (long)timeout_s) != CURLE_OK) {
		free_call(c);
		return NULL;
	}
	return c;
}

int daemon_start(struct daemon *a, const char *method, const char *path, const char *json,
		 unsigned timeout_s, daemon_fn cb, void *user)
{
	struct daemon_call *c = new_call(a, method, path, json, timeout_s);

	if (!c)
		return -ENOMEM;
	c->cb = cb;
	c->user = user;
	if (curl_multi_add_handle(a->multi, c->easy) != CURLM_OK) {
		free_call(c);
		return -ENOMEM;
	}
	a->running++;
	return 0;
}

static int status_of(struct daemon *a, const struct daemon_call *c, CURLcode result)
{
	long status = 0;

	if (result != CURLE_OK) {
		(void)snprintf(a->why, sizeof(a->why), "%s",
			       c->error[0] ? c->error : curl_easy_strerror(result));
		return 0;
	}
	return curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK ? (int)status
										       : 0;
}

int daemon_ask(struct daemon *a, const char *method, const char *path, const char *json,
	       unsigned timeout_s, struct buf *reply)
{
	struct daemon_call *c = new_call(a, method, path, json, timeout_s);

	if (!c)
		return 0;
	const int status = status_of(a, c, curl_easy_perform(c->easy));
	buf_reset(reply);
	if (status != 0 && buf_add(reply, c->reply.data, c->reply.len) < 0)
		buf_reset(reply);
	free_call(c);
	return status;
}

/* ---- all calls ---- */

static void finish(struct daemon *a)
{
	const CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(a->multi, &left))) {
		struct daemon_call *c = NULL;
		if (m->msg != CURLMSG_DONE ||
		    curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&c) != CURLE_OK ||
		    !c)
			continue;
		const int status = status_of(a, c, m->data.result);
		(void)curl_multi_remove_handle(a->multi, c->easy);
		a->running--;
		c->cb(status, status ? buf_str(&c->reply) : "", status ? c->reply.len : 0, c->user);
		free_call(c);
	}
}

bool daemon_is_asked(const struct daemon *a)
{
	return a->running > 0;
}

void daemon_wait(struct daemon *a, struct curl_waitfd *fds, unsigned n, int timeout_ms)
{
	int running;

	(void)curl_multi_perform(a->multi, &running);
	finish(a);
	(void)curl_multi_poll(a->multi, fds, n, timeout_ms, NULL);
	(void)curl_multi_perform(a->multi, &running);
	finish(a);
}

struct daemon *daemon_free(struct daemon *a)
{
	if (!a)
		return NULL;
	(void)curl_multi_cleanup(a->multi); /* calls that are left end with the process */
	free(a);
	return NULL;
}
