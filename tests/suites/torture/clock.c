/* SPDX-License-Identifier: Apache-2.0 */
/* A wall clock that jumps when it is told to: CLOCK_OFFSET_FILE names a file of one int64_t,
 * nanoseconds, which the test writes while the server runs. The other clocks stay as they are. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT    __attribute__((visibility("default")))
#define SECOND_NS INT64_C(1000000000)

static int64_t none, *offset = &none;
static int (*real_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("CLOCK_OFFSET_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
	(void)close(fd);
	if (p != MAP_FAILED)
		offset = p;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *ret)
{
	if (!real_clock)
		real_clock =
		    (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int r = real_clock ? real_clock(id, ret) : -1;
	if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t ns = ret->tv_sec * SECOND_NS + ret->tv_nsec +
			     __atomic_load_n(offset, __ATOMIC_RELAXED);

		ret->tv_sec = ns / SECOND_NS;
		ret->tv_nsec = ns % SECOND_NS;
	}
	return r;
}

EXPORT int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	struct timespec t;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &t) < 0)
		return -1;
	*ret = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
	return 0;
}

EXPORT time_t time(time_t *ret)
{
	struct timespec t;

	if (clock_gettime(CLOCK_REALTIME, &t) < 0)
		return -1;
	if (ret)
		*ret = t.tv_sec;
	return t.tv_sec;
}
