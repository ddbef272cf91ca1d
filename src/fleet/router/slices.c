/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/router/slices.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/jsonio.h"
#include "base/libcurl.h"
#include "base/parse.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/ */
#define ACCOUNT   FLEET_SLICES_ACCOUNT
#define TOKEN_MAX (64u << 10)
#define URL_SIZE  1024u
#define CONNECT_S 5L
#define LIST_S    15L
#define DEPTH_MAX 32u

/* ---- the list ---- */

bool fleet_slices_put(struct fleet_slices *s, const struct fleet_address *a, size_t most)
{
	size_t i = s->n;

	while (i > 0 && strcmp(s->at[i - 1].text, a->text) > 0)
		i--;
	if (i > 0 && streq(s->at[i - 1].text, a->text))
		return true;
	if (s->n >= MIN(most, ARRAY_SIZE(s->at)))
		return false;
	memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof(s->at[0]));
	s->at[i] = *a;
	s->n++;
	return true;
}

static const char *add(struct fleet_slices *s, const char *text, uint16_t port)
{
	struct fleet_address a = {0};

	if (!text || http_address_parse(text, port, &a.address, &a.len) < 0 ||
	    !fleet_address_is_of_one(&a.address))
		return "an address is not one of a pod";
	fleet_address_write(&a, port);
	return fleet_slices_put(s, &a, ARRAY_SIZE(s->at)) ? NULL : "it has too many addresses";
}

/* A pod that waits for a node has no address yet. It must not make the list a wrong one, which would hide all others. */
static bool has_none(const json_t *addresses)
{
	return !addresses || json_is_null(addresses) ||
	       (json_is_array(addresses) && json_array_size(addresses) == 0);
}

/* Of an endpoint the first address counts: the others are the same pod's. */
static const char *add_slice(struct fleet_slices *s, const json_t *slice, uint16_t port)
{
	const json_t *endpoints = json_object_get(slice, "endpoints");
	const char *why = NULL;

	for (size_t i = 0; !why && i < json_array_size(endpoints); i++) {
		const json_t *addresses =
		    json_object_get(json_array_get(endpoints, i), "addresses");

		if (!has_none(addresses))
			why = add(s, json_string_value(json_array_get(addresses, 0)), port);
	}
	return why;
}

static bool is_of(const json_t *slice, const char *family)
{
	const char *type = json_string_value(json_object_get(slice, "addressType"));

	return type && streq(type, family);
}

static const char *add_family(struct fleet_slices *s, const json_t *items, const char *family,
			      uint16_t port)
{
	const char *why = NULL;

	for (size_t i = 0; !why && i < json_array_size(items); i++)
		if (is_of(json_array_get(items, i), family))
			why = add_slice(s, json_array_get(items, i), port);
	return why;
}

static const char *take_list(struct fleet_slices *s, const json_t *list, uint16_t port)
{
	const json_t *meta = json_object_get(list, "metadata");
	const json_t *items = json_object_get(list, "items");
	const char *version = json_string_value(json_object_get(meta, "resourceVersion"));
	const char *kind = json_string_value(json_object_get(list, "kind"));

	if (!kind || !streq(kind, "EndpointSliceList") || !json_is_array(items))
		return "the answer is no list of EndpointSlices";
	/* It goes into a URL. */
	if (!version || strlen(version) >= sizeof(s->version) ||
	    strspn(version, "0123456789") != strlen(version) || !version[0])
		return "the list has no resourceVersion";
	memcpy(s->version, version, strlen(version) + 1);
	const char *why = add_family(s, items, "IPv4", port);
	return why || s->n > 0 ? why : add_family(s, items, "IPv6", port);
}

const char *fleet_slices_read(const char *text, size_t len, uint16_t port, struct fleet_slices *ret)
{
	json_t *list = NULL;

	ret->n = 0;
	ret->version[0] = '\0';
	const size_t values = jsonio_count(text, len, FLEET_SLICES_VALUES, DEPTH_MAX);
	if (values == 0 || values > FLEET_SLICES_VALUES)
		return "the list is too large or nested too deeply";
	const int r = jsonio_read_on_thread(text, len, 0, &list);
	if (r < 0)
		return r == -ENOMEM ? "no memory" : "the answer is no JSON";
	const char *why = take_list(ret, list, port);
	json_decref(list);
	return why;
}

/* ---- questions ---- */

struct talk {
	CURL *curl;
	struct curl_slist *headers;
	const atomic_bool *stop;
	struct buf *body; /* NULL: a watch */
	bool rang;        /* a watch has said something */
};

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
	struct talk *t = user;

	if (!t->body) {
		t->rang = true;
		return 0; /* ends it */
	}
	return buf_add(t->body, data, size * n) < 0 ? 0 : size * n;
}

static int on_progress(void *user, curl_off_t total UNUSED, curl_off_t now UNUSED,
		       curl_off_t up_total UNUSED, curl_off_t up UNUSED)
{
	const struct talk *t = user;

	return t->stop && atomic_load_explicit(t->stop, memory_order_relaxed) ? 1 : 0;
}

static bool set_long(CURL *c, CURLoption option, long value)
{
	return curl_easy_setopt(c, option, value) == CURLE_OK;
}

static bool set_text(CURL *c, CURLoption option, const char *text)
{
	return curl_easy_setopt(c, option, text) == CURLE_OK;
}

static bool prepare(struct talk *t, const char *url, long seconds)
{
	CURL *c = t->curl;

	return c && t->headers && set_text(c, CURLOPT_URL, url) &&
	       set_text(c, CURLOPT_CAINFO, ACCOUNT "/ca.crt") &&
	       set_text(c, CURLOPT_CAPATH, NULL) /* no public ones besides */ &&
	       set_text(c, CURLOPT_PROXY, "") &&
	       set_text(c, CURLOPT_USERAGENT, "caisson/" CAISSON_VERSION) &&
	       set_long(c, CURLOPT_NOSIGNAL, 1) && set_long(c, CURLOPT_FOLLOWLOCATION, 0) &&
	       set_long(c, CURLOPT_CONNECTTIMEOUT, CONNECT_S) &&
	       set_long(c, CURLOPT_TIMEOUT, seconds) && set_long(c, CURLOPT_NOPROGRESS, 0) &&
	       set_long(c, CURLOPT_SSL_VERIFYPEER, 1) && set_long(c, CURLOPT_SSL_VERIFYHOST, 2) &&
	       set_long(c, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1) &&
	       libcurl_only_http(c) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_WRITEDATA, t) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK &&
	       curl_easy_setopt(c, CURLOPT_XFERINFODATA, t) == CURLE_OK;
}

/* Read each time: Kubernetes writes another one before the old one ends. */
static const char *set_token(struct talk *t)
{
	static const char field[] = "Authorization: Bearer ";
	struct buf token = BUF_INIT(TOKEN_MAX);
	const char *why = NULL;
	_cleanup_fd_ int fd = open(ACCOUNT "/token", O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || buf_add(&token, field, sizeof(field) - 1) < 0 || fd_read_file(fd, &token) < 0)
		why = "the token of the pod's account cannot be read (" ACCOUNT "/token)";
	while (!why && strchr("\r\n \t", token.data[token.len - 1]))
		token.data[--token.len] = '\0'; /* it ends at FIELD */
	if (!why && strcspn(buf_str(&token), "\r\n") != token.len)
		why = "the token of the pod's account has several lines";
	if (!why) {
		struct curl_slist *more = curl_slist_append(t->headers, buf_str(&token));

		why = more ? NULL : "no memory";
		t->headers = more ? more : t->headers;
	}
	if (token.data)
		sodium_memzero(token.data, token.len);
	buf_done(&token);
	return why;
}

static const char *of_status(long status)
{
	switch (status) {
	case 401:
		return "the API server does not accept the pod's account (401)";
	case 403:
		return "the pod's account may not list and watch endpointslices (403): it needs a "
		       "Role";
	case 404:
		return "the API server has no discovery.k8s.io/v1 (404)";
	case 429:
		return "the API server is busy (429)";
	default:
		return status >= 500 ? "the API server failed (5xx)"
				     : "the API server refused the question";
	}
}

/* One GET. *RET_STATUS 0: no answer. */
static const char *get(struct talk *t, const char *url, long seconds, long *ret_status)
{
	*ret_status = 0;
	t->curl = curl_easy_init();
	t->headers = curl_slist_append(NULL, "Accept: application/json");
	const char *why = t->headers ? set_token(t) : "no memory";

	if (!why && !prepare(t, url, seconds))
		why = "libcurl refused a question";
	if (!why) {
		const CURLcode r = curl_easy_perform(t->curl);

		(void)curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, ret_status);
		if (r == CURLE_WRITE_ERROR && t->body)
			why = "the list is too large";
		else if (r != CURLE_OK && !t->rang)
			why = curl_easy_strerror(r);
	}
	curl_slist_free_all(t->headers);
	if (t->curl)
		curl_easy_cleanup(t->curl);
	return why;
}

bool fleet_slices_can(void)
{
	return getenv("KUBERNETES_SERVICE_HOST") && getenv("KUBERNETES_SERVICE_PORT");
}

/* "https://10.0.0.1:443/apis/…/endpointslices?labelSelector=…" for SERVICE. */
static bool write_url(const char *service, char ret[URL_SIZE])
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT"), *slash = strchr(service, '/');

	if (!host || !port || !slash)
		return false;
	const char *open = strchr(host, ':') ? "[" : "", *close = *open ? "]" : "";
	const int n = snprintf(ret, URL_SIZE,
			       "https://%s%s%s:%s/apis/discovery.k8s.io/v1/namespaces/%.*s/"
			       "endpointslices?labelSelector=kubernetes.io%%2Fservice-name%%3D%s",
			       open, host, close, port, (int)(slash - service), service, slash + 1);

	return n > 0 && n < (int)URL_SIZE;
}

/* True: the API server let it wait. */
static bool wait_for_change(const char *url, const char *version, const atomic_bool *stop)
{
	struct talk t = {.stop = stop};
	char watch[URL_SIZE + 128];
	long status;

	(void)snprintf(watch, sizeof(watch), "%s&watch=1&resourceVersion=%s&timeoutSeconds=%u", url,
		       version, FLEET_SLICES_S);
	const char *why = get(&t, watch, (long)FLEET_SLICES_S + LIST_S, &status);
	return !why && status == 200;
}

const char *fleet_slices_ask(const char *service, uint16_t port, const char *version,
			     const atomic_bool *stop, struct fleet_slices *ret, bool *ret_quick)
{
	struct buf body = BUF_INIT(FLEET_SLICES_BYTES);
	struct talk t = {.stop = stop, .body = &body};
	char url[URL_SIZE];
	long status;

	ret->n = 0;
	*ret_quick = false;
	if (!fleet_slices_can() || !write_url(service, url))
		return "this is no pod of Kubernetes (KUBERNETES_SERVICE_HOST is missing)";
	if (!curl_easy_init)
		return "libcurl is not installed";
	if (version && version[0])
		*ret_quick = !wait_for_change(url, version, stop);
	const char *why = get(&t, url, LIST_S, &status);
	if (!why && status != 200)
		why = of_status(status);
	why = why ? why : fleet_slices_read(buf_str(&body), body.len, port, ret);
	buf_done(&body);
	return why;
}
