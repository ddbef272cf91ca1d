/* SPDX-License-Identifier: Apache-2.0 */
/* The Docker Engine API over libcurl: requests that the keeper makes, bounded answers. Nothing here
 * passes text of anybody else on: paths and bodies are made by the keeper from checked names. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/libcurl.h"
#include "engine/maker/docker/docker.h"

struct daemon;

/* STATUS is the HTTP status, 0 = the daemon did not answer. BODY is at most DAEMON_REPLY_MAX bytes long,
 * NUL-terminated and valid during the call; a longer answer counts as none. */
typedef void (*daemon_fn)(int status, const char *body, size_t len, void *user);

/* Sets up for the daemon of CONFIG; asks nothing yet. */
int daemon_new(const struct keeper_config *config, struct daemon **ret, struct err *e) MUST_CHECK;
struct daemon *daemon_free(struct daemon *a); /* takes NULL; returns NULL. Calls nothing back */
const char *daemon_host(const struct daemon *a);
/* The version of the API that is put before each path, such as "v1.41"; "" = none. */
void daemon_set_version(struct daemon *a, const char *version);

/* Asks, and calls CB from daemon_wait(). PATH begins with '/'. JSON may be NULL. */
int daemon_start(struct daemon *a, const char *method, const char *path, const char *json,
		 unsigned timeout_s, daemon_fn cb, void *user) MUST_CHECK;
/* Asks and waits. Returns the status, 0 = the daemon did not answer. */
int daemon_ask(struct daemon *a, const char *method, const char *path, const char *json,
	       unsigned timeout_s, struct buf *reply);
/* Waits until something happens to the calls or to the N descriptors at FDS, at most TIMEOUT_MS. */
void daemon_wait(struct daemon *a, struct curl_waitfd *fds, unsigned n, int timeout_ms);
/* Some calls have had no answer yet. */
bool daemon_is_asked(const struct daemon *a) MUST_CHECK;
/* Whether the STATUS of a removal says that the part is not there (any more). 0 = no answer. */
static inline bool daemon_says_gone(int status)
{
	return (status >= 200 && status < 400) || status == 404;
}
/* What the last call that was not answered failed with, for people. */
const char *daemon_why(const struct daemon *a);
