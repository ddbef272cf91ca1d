/* SPDX-License-Identifier: Apache-2.0 */
/* What is left when processes of the native engine are killed.
 *
 *   engine_deaths ENGINE_NATIVE [ARGUMENTS OF IT]
 *
 * Starts `ENGINE_NATIVE --hold 3`, kills the front, the monitor, or both with SIGKILL, and expects
 * every process of it to be gone within a second, and its groups and lock files to be gone then
 * (front) or after the next start (monitor, both). */
#include "outside.h"
#include "state_dir.h"

#include "base/attr.h"
#include "base/rand.h"
#include "base/text.h"

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ALL_MAX   64
#define GONE_MS   1000
#define SANDBOXES "3"
#define PROCESSES (1 + 1 + 3 + 3 * 4) /* front, monitor, inits, four of each run */

enum victim { FRONT = 1, MONITOR = 2, BOTH = 3 };

static int number;
static pid_t current; /* the front at hand: a failure must not leave it behind */

static void expect(bool ok, const char *what)
{
	if (ok)
		return;
	(void)printf("not ok %d - %s\n", number + 1, what);
	(void)fflush(stdout);
	if (current > 0)
		(void)kill(current, SIGKILL);
	_exit(1);
}

/* *RET: what it prints from then on. */
static pid_t start(char **argv, char name[64], FILE **ret)
{
	int p[2];
	char line[128] = "";

	expect(pipe(p) == 0, "pipe");
	pid_t pid = fork();
	if (pid == 0) {
		(void)dup2(p[1], 1);
		(void)close(p[0]);
		(void)close(p[1]);
		(void)execv(argv[0], argv);
		_exit(127);
	}
	current = pid;
	(void)close(p[1]);
	FILE *f = fdopen(p[0], "r");
	expect(f && fgets(line, sizeof(line), f) && text_starts_with(line, "holding"),
	       "it holds its sandboxes");
	*ret = f;
	(void)snprintf(name, 64, "%.*s", (int)strcspn(line + strlen("holding "), "\n"),
		       line + strlen("holding "));
	return pid;
}

static bool anything_left(const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "/run/caisson/%s.lock", name);
	return outside_group_exists(name) || (name[0] && access(path, F_OK) == 0);
}

static void wait_all(const int *fds, size_t n)
{
	uint64_t end = now_ns() + GONE_MS * NS_PER_MS;

	for (size_t i = 0; i < n; i++) {
		struct pollfd p = {.fd = fds[i], .events = POLLIN};
		uint64_t now = now_ns();
		int left = now < end ? (int)((end - now) / NS_PER_MS) : 0;
		expect(poll(&p, 1, left) == 1, "every process is gone after a second");
		(void)close(fds[i]);
	}
}

static void one(char **hold, char **next, enum victim victim, const char *what)
{
	pid_t all[ALL_MAX];
	int fds[ALL_MAX];
	char name[64];
	int status;
	_cleanup_file_ FILE *said = NULL;
	pid_t front = start(hold, name, &said);
	size_t n = outside_tree(front, all, ALL_MAX);

	expect(n == PROCESSES, "all processes are there");
	for (size_t i = 0; i < n; i++) {
		fds[i] = (int)syscall(SYS_pidfd_open, all[i], 0);
		expect(fds[i] >= 0, "pidfd");
	}
	uint64_t t = now_ns();
	if (victim & MONITOR)
		(void)kill(all[1], SIGKILL);
	if (victim & FRONT)
		(void)kill(front, SIGKILL);
	/* a front whose monitor is gone lives on, without sandboxes */
	wait_all(fds + 1, n - 1);
	(void)printf("# gone after %llu ms\n", (unsigned long long)((now_ns() - t) / NS_PER_MS));
	(void)fflush(stdout);
	if (victim == MONITOR) {
		expect(waitpid(front, &status, WNOHANG) == 0, "the front lives on");
		(void)kill(front, SIGKILL);
	}
	(void)close(fds[0]);
	(void)waitpid(front, &status, 0);
	if (victim == FRONT)
		expect(!anything_left(name), "no group and no lock is left");
	pid_t pid = fork();
	if (pid == 0) {
		(void)!freopen("/dev/null", "w", stdout);
		(void)execv(next[0], next);
		_exit(127);
	}
	expect(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0,
	       "the next start works");
	expect(!anything_left(name), "the next start has removed what was left");
	(void)printf("ok %d - %s killed\n", ++number, what);
	(void)fflush(stdout);
}

/* One init is killed from outside: its run and its sandbox are lost, the others are not. */
static void one_init(char **hold)
{
	pid_t all[ALL_MAX];
	char name[64];
	char line[256] = "";
	int status;
	_cleanup_file_ FILE *said = NULL;
	pid_t front = start(hold, name, &said);
	size_t n = outside_tree(front, all, ALL_MAX);

	expect(n == PROCESSES, "all processes are there");
	(void)kill(all[2], SIGKILL);
	expect(fgets(line, sizeof(line), said) && text_starts_with(line, "lost: run lost"),
	       "the run is lost, then the sandbox");
	uint64_t end =
	    now_ns() + GONE_MS * NS_PER_MS; /* the kernel is just killing the rest of it */
	while ((n = outside_tree(front, all, ALL_MAX)) > PROCESSES - 5 && now_ns() < end)
		(void)poll(NULL, 0, 5);
	expect(n == PROCESSES - 5, "the others live, all of the lost one is gone");
	(void)kill(front, SIGTERM);
	(void)waitpid(front, &status, 0);
	(void)printf("ok %d - one init killed\n", ++number);
	(void)fflush(stdout);
}

int main(int argc, char **argv)
{
	static char option_hold[] = "--hold";
	static char count[] = SANDBOXES;
	static char option_only[] = "--only";
	static char only[] = "hello";
	char root[PATH_MAX];
	char *hold[32] = {argc > 1 ? argv[1] : NULL, option_hold, count};
	char *next[32] = {argc > 1 ? argv[1] : NULL, option_only, only};

	if (argc < 2 || argc > 24)
		return 64;
	for (int i = 2; i < argc; i++)
		hold[i + 1] = next[i + 1] = argv[i];
	(void)snprintf(root, sizeof(root), "%s/images/science/root", test_state_dir());
	if (access(root, F_OK) < 0) {
		(void)printf("1..0 # SKIP the image 'science' is not built\n");
		return 0;
	}
	one(hold, next, FRONT, "front");
	one(hold, next, MONITOR, "monitor");
	one(hold, next, BOTH, "front and monitor");
	one_init(hold);
	(void)printf("1..%d\n", number);
	return 0;
}
