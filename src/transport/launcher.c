/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/launcher.h"

#include "base/rand.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOK_NS     (1 * NS_PER_S)
#define ACCURACY_US (250 * 1000)

struct launcher {
	pid_t pid;
	void (*gone)(void *user);
	void *user;
};

/* prctl(2) PR_SET_PDEATHSIG does not serve: it tells of the end of the thread that started us. */
static int on_look(sd_event_source *source, uint64_t usec UNUSED, void *user)
{
	const struct launcher *l = user;

	if (getppid() != l->pid) {
		l->gone(l->user);
		return 0;
	}
	(void)sd_event_source_set_time_relative(source, LOOK_NS / NS_PER_US);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int launcher_watch(sd_event *loop, void (*gone)(void *user), void *user)
{
	const pid_t pid = getppid();
	sd_event_source *source = NULL;

	if (pid <= 1) /* 0: a process outside of our PID namespace */
		return 0;
	struct launcher *l = malloc(sizeof(*l));
	if (!l)
		return -ENOMEM;
	*l = (struct launcher){pid, gone, user};
	int r = sd_event_add_time_relative(loop, &source, CLOCK_MONOTONIC, LOOK_NS / NS_PER_US,
					   ACCURACY_US, on_look, l);
	if (r < 0) {
		free(l);
		return r;
	}
	(void)sd_event_source_set_destroy_callback(source, free);
	r = sd_event_source_set_floating(source, true);
	(void)sd_event_source_unref(source);
	return r < 0 ? r : 0;
}
