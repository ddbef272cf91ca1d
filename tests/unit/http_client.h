/* SPDX-License-Identifier: Apache-2.0 */
/* A raw client for tests: server and client share one thread, the loop runs until the answer is in.
 */
#pragma once

#include "http/http.h"

struct http_client {
	sd_event *loop;
	int fd;
	char *data; /* what came so far, NUL-terminated */
	size_t len;
	bool eof;
	bool reset;
};

void client_open(struct http_client *c, sd_event *loop, uint16_t port);
void client_close(struct http_client *c);
/* Sends as much as goes, running the loop, until all is sent or the server has closed. */
void client_send(struct http_client *c, const void *data, size_t len);
void client_send_str(struct http_client *c, const char *s);
/* Runs the loop until the text is in what came, the end is reached, or nothing moves for ms. */
bool client_wait_for(struct http_client *c, const char *text);
void client_wait_eof(struct http_client *c);
void client_pump(struct http_client *c, unsigned ms);
/* What is there already, without running the loop. True when something was. */
bool client_take(struct http_client *c);
void client_clear(struct http_client *c);
int client_status(const struct http_client *c);

/* http_config.auth of a test server: USERDATA is the struct http_keys that clients must know one of. */
bool client_check_key(struct http_request *req, void *userdata);
