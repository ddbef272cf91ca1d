/* SPDX-License-Identifier: Apache-2.0 */
/* The image of `caisson run` where it is missing: `caisson image pull` fetches it before anything else begins, and its
 * progress is what the person sees. */
#include "cmd/first_image.h"

#include "base/fdio.h"
#include "base/text.h"
#include "config/paths.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATUS_STOPPED 130

/* In the child, between fork and exec. Standard output is that of the script. */
NORETURN static void become_pull(const struct app *a, pid_t parent)
{
	const char *const argv[] = {"caisson", "image",  "pull", "--if-missing",
				    "--name",  a->image, NULL};
	const char *env[APP_IMAGE_ENV][2];
	char *args[ARRAY_SIZE(argv)];
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	app_image_env(a, env);
	for (size_t i = 0; i < APP_IMAGE_ENV; i++)
		if (setenv(env[i][0], env[i][1], 1) < 0)
			_exit(127);
	(void)signal(SIGINT, SIG_DFL);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(127);
	/* execv(3) does not change the strings, although its type says so. */
	memcpy(args, argv, sizeof(args));
	(void)execv("/proc/self/exe", args);
	_exit(127);
}

/* Ctrl-C is for the child, which removes what it made; then this process ends, too. */
static int run_pull(const struct app *a)
{
	const pid_t self = getpid();
	void (*before)(int) = signal(SIGINT, SIG_IGN);
	const pid_t pid = fork();
	int status = 0;

	if (pid == 0)
		become_pull(a, self);
	pid_t ended = pid;

	while (pid > 0 && (ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
		;
	(void)signal(SIGINT, before);
	if (ended < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int first_image(const struct app *a, struct err *e)
{
	char reference[PATH_MAX];

	if (!a->settings.image_source[0] || !app_lacks_image(a))
		return 0;
	int r = config_image_reference(&a->settings, a->image, reference, sizeof(reference), e);

	if (r < 0)
		return r;
	(void)fprintf(stderr, "Downloading the image '%s' from %s; this is needed once.\n",
		      a->image, reference);
	const int status = run_pull(a);

	if (status == 0)
		return 0;
	if (status == STATUS_STOPPED)
		return err_set(e, ERR_CANCELLED, ECANCELED, "stopped");
	return err_set(
	    e, ERR_IMAGE_MISSING, 0,
	    "the image '%s' is not there, and its download from %s failed (see above); try "
	    "again when that is mended, or bring the image as a file with: caisson image "
	    "import %s FILE",
	    a->image, reference, a->image);
}
