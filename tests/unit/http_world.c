/* SPDX-License-Identifier: Apache-2.0 */
#include "http_world.h"

#include "base/text.h"
#include "base/workers.h"
#include "http/static_keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

struct world w;

/* ---- handlers ---- */

static void on_hello(struct http_request *req, void *userdata)
{
	(void)userdata;
	http_respond_text(req, 200, "text/plain", "hello");
}

static void on_echo(struct http_request *req, void *userdata)
{
	size_t len;
	const char *body = http_request_body(req, &len);

	(void)userdata;
	http_respond(req, 200, "application/octet-stream", body, len);
}

static void on_params(struct http_request *req, void *userdata)
{
	const char *q = http_request_query(req, "q");
	char text[256];

	(void)userdata;
	(void)snprintf(text, sizeof(text), "a=%s b=%s rest=%s q=%s",
		       http_request_param(req, "a") ?: "-", http_request_param(req, "b") ?: "-",
		       http_request_param(req, "rest") ?: "-", q ? q : "-");
	http_respond_text(req, 200, "text/plain", text);
}

static void on_held_gone(void *userdata)
{
	struct world *world = userdata;

	world->gone++;
	world->held = NULL;
}

static void on_hold(struct http_request *req, void *userdata)
{
	struct world *world = userdata;

	world->held = req;
	http_request_on_gone(req, on_held_gone, world);
}

static int on_piece(struct http_request *req, const void *data, size_t len, void *userdata)
{
	struct world *world = userdata;

	world->body_calls++;
	if (world->pause_next && data) {
		const size_t untaken = MIN(len, world->untaken);

		world->pause_next = false;
		len -= untaken;
		http_request_pause_body(req, untaken);
	}
	for (size_t i = 0; i < len; i++)
		world->body_sum = world->body_sum * 31 + (unsigned char)((const char *)data)[i];
	world->body_bytes += len;
	if (!data) {
		world->body_end = true;
		http_respond_text(req, 200, "text/plain", "got it");
	}
	return 0;
}

static void on_upload(struct http_request *req, void *userdata)
{
	struct world *world = userdata;

	world->held = req;
	http_request_on_gone(req, on_held_gone, world);
	http_request_read_body(req, on_piece, world);
}

static void on_stream_close(void *userdata)
{
	struct world *world = userdata;

	world->closed++;
	world->stream = NULL;
}

static void on_stream_drain(void *userdata)
{
	((struct world *)userdata)->drained++;
}

static void on_stream(struct http_request *req, void *userdata)
{
	static const struct http_stream_ops ops = {.on_close = on_stream_close,
						   .on_drain = on_stream_drain};
	struct world *world = userdata;

	world->stream = http_stream_begin_sse(req, &ops, world);
}

static const char file_text[] = "0123456789abcdefghijklmnopqrstuvwxyz";

static void on_file(struct http_request *req, void *userdata)
{
	const struct http_file file = {.size = sizeof(file_text) - 1,
				       .type = "text/plain",
				       .etag = "\"v1\"",
				       .mtime_s = 784111777,
				       .payer = "tenant",
				       .name = "a \xc3\xa9\".txt"};
	const int fd = memfd_create("file", MFD_CLOEXEC);

	(void)userdata;
	assert_int_equal(write(fd, file_text, sizeof(file_text) - 1), sizeof(file_text) - 1);
	http_respond_file(req, fd, &file);
}

static void on_big(struct http_request *req, void *userdata)
{
	struct http_file file = {
	    .size = WORLD_BIG, .type = "application/octet-stream", .payer = "tenant"};
	const int fd = memfd_create("file", MFD_CLOEXEC);

	((struct world *)userdata)->big_fd = fd;
	assert_int_equal(ftruncate(fd, (off_t)file.size), 0);
	http_respond_file(req, fd, &file);
}

static const struct http_route routes[] = {
    {HTTP_GET, "/hello", on_hello, 0, 0},
    {HTTP_POST, "/echo", on_echo, 0, 1000},
    {HTTP_GET, "/p/{a}/{b}", on_params, 0, 0},
    {HTTP_GET, "/p/{a}/lit", on_hello, 0, 0},
    {HTTP_GET, "/t/{a}/{rest...}", on_params, 0, 0},
    {HTTP_GET, "/c/{a}/{rest...}", on_params, HTTP_ROUTE_CODED_SLASHES, 0},
    {HTTP_GET, "/hold", on_hold, 0, 0},
    {HTTP_POST, "/upload", on_upload, HTTP_ROUTE_STREAM_BODY, 100u << 20},
    {HTTP_GET, "/stream", on_stream, 0, 0},
    {HTTP_GET, "/file", on_file, 0, 0},
    {HTTP_GET, "/big", on_big, 0, 0},
    {HTTP_GET, "/secret", on_hello, HTTP_ROUTE_AUTH, 0},
    {HTTP_GET, "/qsecret", on_hello, HTTP_ROUTE_AUTH | HTTP_ROUTE_QUERY_KEY, 0},
};

static const struct http_route link_routes[] = {
    {HTTP_GET, "/link", on_hello, 0, 0},
};

static int on_jobs(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	(void)source;
	(void)fd;
	(void)events;
	(void)userdata;
	workers_deliver();
	return 0;
}

int world_setup_with(const struct http_config *limits)
{
	static const char *const keys[] = {"sesame"};
	static const char *const hosts[] = {"box.example", NULL};
	static const char *const origins[] = {"http://localhost:6274", "vscode-webview://x", NULL};
	struct http_config cfg = *limits;
	struct http_listener *l;
	struct err e = ERR_INIT;

	w = (struct world){0};
	assert_int_equal(http_keys_new(keys, NULL, 1, &w.keys), 0);
	cfg.hosts = hosts;
	cfg.origins = origins;
	cfg.auth = client_check_key;
	cfg.auth_userdata = w.keys;
	assert_int_equal(sd_event_new(&w.loop), 0);
	const int jobs = workers_begin();
	assert_true(jobs >= 0);
	assert_true(sd_event_add_io(w.loop, &w.jobs, jobs, EPOLLIN, on_jobs, NULL) >= 0);
	assert_int_equal(http_server_new(w.loop, &cfg, &w.server), 0);
	assert_int_equal(
	    http_server_add_routes(w.server, routes, ARRAY_SIZE(routes), HTTP_SCOPE_MAIN, &w), 0);
	assert_int_equal(http_server_add_routes(w.server, link_routes, 1, HTTP_SCOPE_LINKS, &w), 0);
	assert_int_equal(
	    http_server_listen(w.server, "127.0.0.1", 0, HTTP_SCOPE_MAIN, &w.port, &l, &e), 0);
	return 0;
}

int world_setup(void **state)
{
	const struct http_config limits = {.stream_queue_max = 1u << 20, .head_max = 16384};

	(void)state;
	return world_setup_with(&limits);
}

int world_setup_tight(void **state)
{
	const struct http_config limits = {.max_connections = 3,
					   .head_timeout_ns = 200 * NS_PER_MS,
					   .idle_timeout_ns = 300 * NS_PER_MS,
					   .stall_timeout_ns = 300 * NS_PER_MS};

	(void)state;
	return world_setup_with(&limits);
}

int world_teardown(void **state)
{
	(void)state;
	w.server = http_server_free(w.server);
	w.keys = http_keys_free(w.keys);
	workers_end();
	w.jobs = sd_event_source_disable_unref(w.jobs);
	w.loop = sd_event_unref(w.loop);
	return 0;
}

int ask_n(struct http_client *c, const char *bytes, size_t len)
{
	client_open(c, w.loop, w.port);
	client_send(c, bytes, len);
	(void)client_wait_for(c, "\r\n\r\n");
	return client_status(c);
}

int ask(struct http_client *c, const char *bytes)
{
	return ask_n(c, bytes, strlen(bytes));
}

int status_of(const char *bytes, size_t len)
{
	struct http_client c;
	const int status = ask_n(&c, bytes, len);

	client_close(&c);
	return status;
}
