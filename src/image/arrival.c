/* SPDX-License-Identifier: Apache-2.0 */
#include "image/arrival.h"

#include <poll.h>
#include <unistd.h>

/* Takes note of what the pipe has; if that is nothing, waits TIMEOUT (-1: for ever). */
static void look(struct arrival *a, int timeout)
{
	unsigned char parts[OCI_LAYERS_MAX + 1];
	struct pollfd p = {.fd = a->pipe, .events = POLLIN};

	if (a->ended || poll(&p, 1, timeout) <= 0)
		return;
	const ssize_t n = read(a->pipe, parts, sizeof(parts));

	a->ended = n == 0 || (n < 0 && errno != EINTR);
	for (ssize_t i = 0; i < n; i++)
		a->there[parts[i]] = true;
}

int arrival_wait(void *user, size_t part, struct err *e)
{
	struct arrival *a = user;

	if (part == BUNDLE_DOCUMENTS)
		part = FETCH_DOCUMENTS;
	ASSERT(part < ARRAY_SIZE(a->there));
	while (!a->there[part] && !a->ended)
		look(a, -1);
	/* The error of whoever fetched says more, and is the one that is told. */
	return a->there[part]
		   ? 0
		   : err_set(e, ERR_IMAGE_INVALID, 0, "a part of the image did not come");
}

static bool is_alone(struct arrival *a)
{
	const bool before = a->ended;

	look(a, 0);
	if (!before && a->ended && a->step[0])
		a->shown->step(a->shown->user, a->step);
	return a->ended;
}

static void step(void *user, const char *text)
{
	struct arrival *a = user;
	const bool before = a->ended;

	(void)snprintf(a->step, sizeof(a->step), "%s", text);
	/* is_alone() shows it if this is the moment. */
	if (is_alone(a) && before)
		a->shown->step(a->shown->user, text);
}

static void tick(void *user, const char *text, uint64_t done, uint64_t total)
{
	struct arrival *a = user;

	if (is_alone(a))
		a->shown->tick(a->shown->user, text, done, total);
}

static void warn(void *user, const char *text)
{
	const struct arrival *a = user;

	a->shown->warn(a->shown->user, text);
}

struct image_watch arrival_watch(struct arrival *a)
{
	return (struct image_watch){
	    .step = step, .tick = tick, .warn = warn, .user = a, .cancel_fd = a->shown->cancel_fd};
}
