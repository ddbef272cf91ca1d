/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include "base/log.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/slice.h"
#include "base/tenant_fd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#define WORK_MAX      160u
#define WATCH_MS_MAX  60000u
#define THREADS_LATER 5 /* more nice than the loop, if the loop could not have less */

const uint32_t loop_bounds_ms[LOOP_BUCKETS] = {1, 2, 5, 10, 20, 50, 100, 500, 1000, 5000};

static struct {
	struct loop_stats stats;
	uint64_t begin_ns; /* of the present turn */
	uint64_t slow_ns;  /* a turn this long is logged */
	bool watched;      /* and what the thread used is known */
	struct rusage used;
	int sched_fd; /* schedstat of the thread; -1: the kernel has none */
	uint64_t
	    sched; /* ns that it had until the turn began, or could have had if a CPU had been free */
	char work[WORK_MAX]; /* "" = not said */
	size_t work_len;
	int threads_nice;
} turn = {.slow_ns = LOOP_SLOW_MS * NS_PER_MS, .sched_fd = -1};

const struct loop_stats *loop_stats(void)
{
	return &turn.stats;
}

static uint64_t cpu_us(const struct rusage *u)
{
	return (uint64_t)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

/* Nanoseconds that the thread ran or waited for a CPU. 0: not known. */
static uint64_t scheduled_ns(void)
{
	uint64_t ran, delayed;
	char text[96];
	const ssize_t n = turn.sched_fd < 0 ? -1 : pread(turn.sched_fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	const size_t first = strcspn(text, " ");
	const char *second = text + first + (text[first] == ' ');
	return parse_u64_n(text, first, 0, UINT64_MAX, &ran) < 0 ||
		       parse_u64_n(second, strcspn(second, " "), 0, UINT64_MAX, &delayed) < 0
		   ? 0
		   : ran + delayed;
}

/* What is left of a turn without the time that its thread ran or waited for a CPU: it waited for a disk, a lock, or
 * another process. */
static uint64_t waited_ms(uint64_t ns)
{
	const uint64_t own = scheduled_ns() - turn.sched;

	return own < ns ? (ns - own) / NS_PER_MS : 0;
}

static void report(uint64_t ns)
{
	const char *work = turn.work_len > 0 ? turn.work : "not said";
	struct rusage now;

	if (!turn.watched || getrusage(RUSAGE_THREAD, &now) < 0) {
		LOG_WARNING("slow_turn", LOG_U("ms", ns / NS_PER_MS), LOG_S("work", work));
		return;
	}
	LOG_WARNING("slow_turn", LOG_U("ms", ns / NS_PER_MS), LOG_S("work", work),
		    LOG_U("cpu_ms", (cpu_us(&now) - cpu_us(&turn.used)) / 1000),
		    LOG_U("slept", (uint64_t)(now.ru_nvcsw - turn.used.ru_nvcsw)),
		    LOG_U("waited_ms", waited_ms(ns)),
		    LOG_U("major_faults", (uint64_t)(now.ru_majflt - turn.used.ru_majflt)));
}

static void begin(uint64_t now)
{
	turn.begin_ns = now;
	turn.work_len = 0;
	if (!turn.watched)
		return;
	(void)getrusage(RUSAGE_THREAD, &turn.used);
	turn.sched = scheduled_ns();
}

static void end(uint64_t now)
{
	const uint64_t ns = now - turn.begin_ns;
	size_t i = 0;

	while (i < LOOP_BUCKETS && ns > loop_bounds_ms[i] * NS_PER_MS)
		i++;
	turn.stats.turns[i]++;
	turn.stats.sum_ns += ns;
	if (ns >= turn.slow_ns)
		report(ns);
}

uint64_t loop_next_turn(void)
{
	const uint64_t now = now_ns();

	if (turn.begin_ns == 0)
		return now; /* no loop runs */
	end(now);
	begin(now);
	return now;
}

static void add(const char *s)
{
	while (*s && turn.work_len < WORK_MAX - 1)
		turn.work[turn.work_len++] = *s++;
	turn.work[turn.work_len] = '\0';
}

void loop_work(const char *what, const char *which)
{
	if (turn.work_len > 0)
		add(", ");
	add(what);
	add(" ");
	add(which);
}

static void configure(void)
{
	const char *text = getenv("CAISSON_WATCH_TURNS");
	uint64_t ms = LOOP_WATCH_MS;

#ifdef CAISSON_REMOVABLE_WALLS
	turn.watched = true;
#endif
	if (text) {
		turn.watched = true;
		(void)!parse_u64(text, 0, WATCH_MS_MAX, &ms); /* nonsense: as without it */
	}
	if (!turn.watched)
		return;
	turn.slow_ns = ms * NS_PER_MS;
	turn.sched_fd =
	    open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC); /* the loop's is the first thread */
}

/* sd_event_run(3) in its three parts. sd_event_dispatch(3) calls one source. */
static int run_once(sd_event *loop)
{
	int r = sd_event_prepare(loop);

	if (r == 0)
		r = sd_event_wait(loop, UINT64_MAX);
	if (r <= 0)
		return r;
	begin(now_ns());
	r = sd_event_dispatch(loop);
	end(now_ns());
	return r;
}

void loop_goes_first(void)
{
	const int nice = getpriority(PRIO_PROCESS, 0), first = MAX(nice - LOOP_FIRST, -20);

	if (slice_short(first) == 0) {
		turn.threads_nice = nice;
		return;
	}
	turn.threads_nice = nice + THREADS_LATER;
	(void)!slice_short(nice);
}

int loop_threads_nice(void)
{
	return turn.threads_nice;
}

int loop_run(sd_event *loop)
{
	int code = 0, r = 0;

	configure();
	tenant_fd_on_loop(true);
	(void)sd_event_ref(loop);
	while (r >= 0 && sd_event_get_state(loop) != SD_EVENT_FINISHED)
		r = run_once(loop);
	tenant_fd_on_loop(false);
	r = r < 0 ? r : sd_event_get_exit_code(loop, &code);
	(void)sd_event_unref(loop);
	return r < 0 ? r : code;
}
