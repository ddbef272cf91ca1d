/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter of a container: init starts it beside the first run, and every warm run is forked
 * from it. In a sandbox of our own the zygote of the image, outside, makes such an interpreter; from
 * here on both are the same (warm_spares.c). It keeps nothing of a run, so it serves all runs of the
 * sandbox.
 *
 * The image may have a Python that cannot be a zygote: one of another C library, or an older one. Then
 * the interpreter ends, and after TRIES_MAX of these every run starts its own interpreter. A run may
 * kill it; that counts, too, unless it had served READY_NS. The front is told what the last one said. */
#include "init.h"

#include "base/fdio.h"
#include "frames.h"
#include "texts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXTENSION "/caisson/zygote.so"
#define PRELOAD                                                                                    \
	"CAISSON_PRELOAD" /* the image's own variable: modules to import, separated by blanks */
#define FDS_FROM  3       /* channel, extension, filter: runtime/python/zygote.py */
#define FDS_N     3
#define FDS_HIGH  64 /* above every descriptor that is given away */
#define TRIES_MAX 3
#define READY_NS  UINT64_C(10000000000)

static char *const environment[] = {
#define BOTH(text) (char[]){text},
#define RUN(text)
#define ZYGOTE(text) (char[]){text},
#include "engine/protocol/environment.tbl.h"
#undef BOTH
#undef RUN
#undef ZYGOTE
    (char[]){"CAISSON_INSIDE=1"},
};
#define ENVIRONMENT_N (sizeof(environment) / sizeof(environment[0]))

_Noreturn static void become(const struct init *in, const int fds[FDS_N])
{
	/* until it serves: then it makes this /dev/null, and so have its forks */
	if (in->zygote.said > 0 && dup2(in->zygote.said, STDERR_FILENO) < 0)
		_exit(127);
	static char name[] = "python3";
	static char flag[] = "-c";
	static char preload[RT_PRELOAD_MAX + sizeof(PRELOAD "=")];
	const char *modules = getenv(PRELOAD);
	char *argv[] = {name, flag, (char *)(uintptr_t)runtime_zygote_text, NULL};
	char *env[ENVIRONMENT_N + 2];
	int high[FDS_N];
	sigset_t none;

	memcpy(env, environment, sizeof(environment));
	(void)snprintf(preload, sizeof(preload), PRELOAD "=%s", modules ? modules : "");
	env[ENVIRONMENT_N] = preload;
	env[ENVIRONMENT_N + 1] = NULL;
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (int i = 0; i < FDS_N; i++)
		if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FDS_HIGH)) < 0)
			_exit(127);
	for (int i = 0; i < FDS_N; i++)
		if (dup2(high[i], FDS_FROM + i) < 0)
			_exit(127);
	if (setsid() < 0 || chdir("/") < 0 ||
	    syscall(SYS_close_range, FDS_FROM + FDS_N, FDS_LAST, 0) < 0)
		_exit(127);
	(void)execve(in->python, argv, env);
	_exit(127);
}

static int filter_file(const struct init *in)
{
	_cleanup_fd_ int fd = memfd_create("filter", MFD_CLOEXEC);
	const size_t size = in->n_filter * sizeof(in->filter[0]);

	if (fd < 0)
		return -errno;
	const int r = fd_write_all(fd, in->filter, size);
	return r < 0 ? r : TAKE_FD(fd);
}

static int start_one(struct init *in)
{
	int pair[2];
	_cleanup_fd_ int extension = open(EXTENSION, O_RDONLY | O_CLOEXEC);
	_cleanup_fd_ int filter = filter_file(in);

	if (extension < 0 || filter < 0 || warm_pair(pair) < 0)
		return -ENOENT;
	struct init_zygote *z = &in->zygote;
	z->said = z->said > 0 ? fd_close(z->said) : -1;
	z->said = memfd_create("said", MFD_CLOEXEC);
	const pid_t pid = fork();
	if (pid == 0)
		become(in, (const int[FDS_N]){pair[1], extension, filter});
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return -EAGAIN;
	}
	warm_start(in, pair[0], false);
	in->warm.clean = pid;
	in->warm.forks = true; /* it never becomes a run itself: its import took time */
	return 0;
}

void zygote_begin(struct init *in)
{
	in->zygote.wanted = in->config.fds & PROTO_CONFIG_ZYGOTE;
	zygote_again(in);
}

void zygote_again(struct init *in)
{
	struct init_zygote *z = &in->zygote;
	const uint64_t now = init_now();

	if (!z->wanted)
		return;
	z->tries = now - z->began < READY_NS ? z->tries + 1 : 1;
	z->began = now;
	z->wanted = z->tries <= TRIES_MAX && start_one(in) == 0;
	if (z->wanted)
		return;
	in->warm.told_cold = true;
	struct proto_init_zygote f = {.head = PROTO_HEAD(INIT_ZYGOTE, proto_init_zygote)};
	if (!fd_read_last_words(z->said > 0 ? z->said : -1, f.said, sizeof(f.said)))
		memcpy(f.said, "nothing", sizeof("nothing"));
	z->said = z->said > 0 ? fd_close(z->said) : -1;
	init_send(in, &f.head, NULL, 0);
}
