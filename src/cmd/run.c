/* SPDX-License-Identifier: Apache-2.0 */
/* `caisson run`: runs a script, code or a command in a new sandbox. Standard input is passed on and output
 * is printed as it comes, Ctrl-C ends all processes of the run, and the exit status is the program's.
 * `--out DIR` saves the files that it made. run_stage.c copies files in, prompt.c implements `-i`. */
#include "app/app.h"
#include "cmd/cmd.h"
#include "cmd/first_image.h"
#include "cmd/outdir.h"
#include "cmd/run_verb.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/text.h"
#include "base/workers.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define EXIT_TIMEOUT   124 /* same as timeout(1) */
#define EXIT_CANCELLED 130 /* same as a shell after Ctrl-C */
#define TTL_FOREVER_M  (10 * 365 * 24 * 60)

void run_verb_fail(struct run_verb *v, const struct err *e)
{
	if (v->err.code == ERR_NONE)
		v->err = *e;
	(void)sd_event_exit(v->app.loop, 0);
}

/* ---- artifacts ---- */

static void save_next(struct run_verb *v);

/* A file that goes to the folder of --out. A thread does it: the file is a tenant's, and the folder may be on any disk. */
struct saving {
	struct run_verb *v;
	const char *name; /* one of v->artifacts */
	int from;
	uint64_t size;
	int result;
	struct err err;
};

static int copy_file(int from, uint64_t size, int to, struct err *e)
{
	off_t at = 0;

	/* The file may shrink meanwhile. Then less is saved. */
	while ((uint64_t)at < size) {
		ssize_t n =
		    sendfile(to, from, &at, (size_t)MIN(size - (uint64_t)at, UINT64_C(1) << 30));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, ERR_SYSTEM, errno, "--out: cannot write a file");
		if (n == 0)
			break;
	}
	return 0;
}

static void save(void *user)
{
	struct saving *s = user;
	_cleanup_fd_ int from = s->from;
	_cleanup_fd_ int to = -1;
	int r = outdir_create(s->v->outdir, &to, &s->err);

	r = r < 0 ? r : copy_file(from, s->size, to, &s->err);
	s->result = r < 0 ? r : outdir_place(s->v->outdir, s->name, &s->err);
}

static void on_saved(void *user)
{
	struct saving *s = user;

	if (s->result < 0)
		run_verb_fail(s->v, &s->err);
	else
		save_next(s->v);
	free(s);
}

static void on_artifact(int fd, const struct engine_file *info, const struct err *e, void *user)
{
	struct run_verb *v = user;
	const char *name = v->artifacts[v->next_artifact++];
	struct err error = ERR_INIT;

	if (e && e->code == ERR_NOT_FOUND) {
		save_next(v);
		return;
	}
	if (e) {
		run_verb_fail(v, e);
		return;
	}
	struct saving *s = calloc(1, sizeof(*s));
	if (s)
		*s = (struct saving){v, name, fd, info->size, 0, ERR_INIT};
	const int r = s ? workers_run("", save, on_saved, s) : -ENOMEM;
	if (r == 0)
		return;
	free(s);
	workers_close("", fd);
	(void)workers_refused(r, &error);
	run_verb_fail(v, &error);
}

static void save_next(struct run_verb *v)
{
	struct err e = ERR_INIT;

	/* No sandbox: the loop has ended, and this was the last file. */
	if (!v->outdir || !v->sandbox || v->next_artifact == v->n_artifacts)
		v->saved(v);
	else if (sandbox_open_file(v->sandbox, v->artifacts[v->next_artifact], on_artifact, v, &e) <
		 0)
		run_verb_fail(v, &e);
}

static void forget_artifacts(struct run_verb *v)
{
	for (size_t i = 0; i < v->n_artifacts; i++)
		free(v->artifacts[i]);
	free(TAKE_PTR(v->artifacts));
	v->n_artifacts = v->next_artifact = 0;
}

static int keep_artifacts(struct run_verb *v, const struct run_result *result)
{
	forget_artifacts(v);
	if (!v->outdir || result->n_artifacts == 0)
		return 0;
	v->artifacts = calloc(result->n_artifacts, sizeof(*v->artifacts));
	for (size_t i = 0; v->artifacts && i < result->n_artifacts; i++) {
		v->artifacts[i] = strdup(result->artifacts[i].name);
		if (!v->artifacts[i])
			return -ENOMEM;
		v->n_artifacts++;
	}
	return v->artifacts ? 0 : -ENOMEM;
}

/* ---- the run ---- */

static void on_output(struct run *r, enum engine_stream stream, const void *data, size_t len,
		      void *user)
{
	struct run_verb *v = user;
	/* A person sees the value of a last expression. The output of a file, or one that a program
	 * reads, is what the code wrote. */
	if (stream == ENGINE_RESULT && !v->prompt && (v->script || isatty(STDOUT_FILENO) == 0))
		return;
	const bool closed = stream != ENGINE_STDERR && fd_stdout_was_closed();
	int w = fd_write_all(stream == ENGINE_STDERR ? STDERR_FILENO : STDOUT_FILENO, data, len);

	if (w == 0 && stream == ENGINE_RESULT)
		w = fd_write_all(STDOUT_FILENO, "\n", 1);
	/* Nobody has ever read what is written to a closed descriptor, so the run goes on. */
	if (v->unwritten == 0 && stream != ENGINE_STDERR)
		v->unwritten = closed ? -EBADF : w;
	/* The reader of our output has gone. As with any program in a pipe, the run ends. */
	if (w < 0 && !v->interrupted) {
		v->interrupted = true;
		if (stream != ENGINE_RESULT) /* the result comes when the run has ended */
			run_cancel(r);
	}
}

static int status_of(const struct run_verb *v, const struct run_result *result)
{
	switch (result->reason) {
	case RUN_TIMEOUT:
		(void)fprintf(stderr, "caisson run: timed out after %jds\n",
			      (intmax_t)v->app.settings.exec_timeout_s);
		return EXIT_TIMEOUT;
	case RUN_OOM:
		(void)fprintf(stderr, "caisson run: out of memory (see --memory)\n");
		break;
	case RUN_CANCELLED:
		return EXIT_CANCELLED;
	case RUN_EXITED:
	case RUN_SIGNALED:
	case RUN_OUTPUT_LIMIT:
	case RUN_DISK_LIMIT:
	case RUN_LOST:
		break;
	}
	return result->exit_code;
}

static void on_done(struct run *r UNUSED, const struct run_result *result, const struct err *e,
		    void *user)
{
	struct run_verb *v = user;
	struct err oom = ERR_INIT;

	v->run = NULL;
	if (e) {
		run_verb_fail(v, e);
		return;
	}
	v->status = status_of(v, result);
	if (v->prompt)
		prompt_tell(v->prompt, result);
	if (keep_artifacts(v, result) < 0) {
		(void)err_set(&oom, ERR_OUT_OF_MEMORY, ENOMEM, "--out");
		run_verb_fail(v, &oom);
		return;
	}
	save_next(v);
}

int run_verb_start(struct run_verb *v, const struct buf *code, struct err *e)
{
	bool limited = settings_is_explicit(&v->app.settings, SETTING_ID_exec_timeout_s);
	const char *figures = v->app.settings.save_figures;
	const bool command = v->argv && !v->args.file && !v->args.code;
	struct run_request request = {
	    .kind = v->prompt ? ENGINE_RUN_STATEFUL
		    : command ? ENGINE_RUN_ARGV
			      : ENGINE_RUN_PYTHON,
	    .code = command ? NULL : buf_str(code),
	    .code_len = code->len,
	    .language = v->args.language,
	    .argv = v->argv,
	    .stdin_fd = v->input_fd >= 0 ? &v->input_fd : NULL,
	    .timeout_ns = limited ? 0 : SANDBOX_RUN_NO_TIMEOUT,
	    .unbounded = true,
	    .no_artifacts = !v->outdir,
	    .display = !command && (v->args.out ? !streq(figures, "off") : streq(figures, "on")),
	    .notebook = !command,
	    .on_output = on_output,
	    .on_done = on_done,
	    .user = v,
	};

	v->interrupted = false;
	return sandbox_run(v->sandbox, &request, &v->run, e);
}

/* Everything that the run needs is in the sandbox. */
static void on_staged(struct run_verb *v)
{
	struct err e = ERR_INIT;

	if (v->prompt && !v->args.file)
		v->saved(v);
	else if (run_verb_start(v, &v->code, &e) < 0)
		run_verb_fail(v, &e);
}

static void on_open(struct sandbox *s, const struct err *e, void *user)
{
	struct run_verb *v = user;

	if (e) {
		run_verb_fail(v, e);
		return;
	}
	v->sandbox = sandbox_ref(s);
	run_stage(v);
}

static int on_signal(sd_event_source *source UNUSED, const struct signalfd_siginfo *si, void *user)
{
	struct run_verb *v = user;

	if (v->prompt && si->ssi_signo == SIGINT && prompt_interrupt(v->prompt))
		return 0;
	v->status = EXIT_CANCELLED;
	if (!v->run || v->interrupted)
		return sd_event_exit(v->app.loop, 0);
	v->interrupted = true;
	run_cancel(v->run);
	return 0;
}

/* ---- the verb ---- */

/* Called before privileges are given up, because the user must be able to read the file. */
static int read_script(struct run_verb *v, struct err *e)
{
	const char *file = v->args.file;
	_cleanup_fd_ int fd = -1;

	buf_init(&v->code, RUN_SCRIPT_MAX);
	if (v->args.code && buf_add_str(&v->code, v->args.code) < 0)
		return err_set(e, ERR_CODE_TOO_LARGE, 0, "-c: the code is too long");
	if (!file)
		return 0;
	if (!streq(file, "-")) {
		fd = open(file, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return err_set(e, ERR_NOT_FOUND, errno, "%s", file);
	}
	int r = fd_read_file(fd >= 0 ? fd : STDIN_FILENO, &v->code);
	if (r == -ENOBUFS)
		return err_set(e, ERR_CODE_TOO_LARGE, 0, "%s is too large to be a script", file);
	if (r < 0)
		return err_set(e, ERR_NOT_FOUND, -r, "cannot read %s", file);
	if (streq(file, "-") || v->args.interactive)
		return 0;
	return run_inputs_add_script(&v->inputs, file, &v->code, &v->script, e);
}

/* The sys.argv of Python, or the command. */
static int make_argv(struct run_verb *v, struct err *e)
{
	const struct run_args *a = &v->args;
	const char *first = a->code ? "-c" : a->file;
	size_t n = 0;

	if (a->interactive)
		return 0;
	v->argv = calloc((size_t)a->n_rest + 2, sizeof(*v->argv));
	if (v->script && asprintf(&v->script_place, "/mnt/data/%s", v->script) < 0)
		v->script_place = NULL;
	if (!v->argv || (v->script && !v->script_place))
		return err_set(e, ERR_OUT_OF_MEMORY, ENOMEM, "the arguments");
	if (first)
		/* Any other path would be taken for that of a file in the sandbox. */
		v->argv[n++] = v->script ? v->script_place : *first == '/' ? "-" : first;
	for (int i = 0; i < a->n_rest; i++)
		v->argv[n++] = a->rest[i];
	return 0;
}

static void end_loop(struct run_verb *v)
{
	(void)sd_event_exit(v->app.loop, 0);
}

/* Changes settings that are meant for servers and make no sense for one sandbox. */
static void adapt_settings(struct run_verb *v)
{
	struct settings *s = &v->app.settings;

	s->pool = 0;
	/* The person who starts this program is the operator here. */
	if (s->source[SETTING_ID_network] == SETTING_FROM_FLAG && streq(s->network, "open"))
		s->network_open = true;
	if (v->args.interactive)
		s->session_ttl_m = TTL_FOREVER_M; /* a person may take any time */
	else
		s->warm = false; /* for one run a zygote would only compete for the CPU */
}

/* The code of `-` was read from standard input, and a prompt reads it itself. */
static int open_input(struct run_verb *v, struct err *e)
{
	const struct run_args *a = &v->args;

	if (a->interactive || (a->file && streq(a->file, "-")))
		return 0;
	return input_pipe_new(v->app.loop, &v->input, &v->input_fd, e);
}

static int run(struct run_verb *v, struct sandbox_options *options, struct err *e)
{
	/* The engine would say so at the first line, with an advice for clients of a server. */
	if (v->args.interactive && !v->app.settings.warm)
		return err_set(e, ERR_SETTING_INVALID, 0,
			       "-i keeps the variables in a warm interpreter, and SANDBOX_WARM is "
			       "off: leave that setting out, or give the code as a file");
	adapt_settings(v);
	v->saved = end_loop;
	v->staged = on_staged;
	int r = app_open(&v->app, e);

	if (r >= 0 && v->args.interactive)
		r = prompt_new(v, e);
	r = r < 0 ? r : open_input(v, e);
	r = r < 0 ? r : app_on_stop(&v->app, on_signal, v, e);
	r = r < 0 ? r : manager_start(v->app.manager, e);
	if (r < 0)
		return r;
	manager_open_new(v->app.manager, "", NULL, NULL, options, on_open, v);
	r = loop_run(v->app.loop);
	if (r < 0)
		return err_set(e, ERR_SYSTEM, -r, "the event loop");
	if (v->err.code != ERR_NONE) {
		*e = v->err;
		return -EIO;
	}
	return 0;
}

/* A program whose output is lost has not succeeded. */
static void tell_unwritten(struct run_verb *v)
{
	if (v->unwritten == 0)
		return;
	if (v->unwritten != -EPIPE) /* head(1) has seen enough */
		(void)fprintf(stderr, "caisson run: standard output: %s\n",
			      strerror(-v->unwritten));
	v->status = v->status ? v->status : EXIT_FAILURE;
}

/* ARGV are our words, and v->args.rest those of the program. */
static int prepare(struct run_verb *v, int argc, char **argv, struct err *e)
{
	int n_rest = v->args.n_rest;
	char **rest = v->args.rest;
	int r = app_settings(&v->app, "run", APP_RUN, false, &argc, argv, e);

	r = r < 0 ? r : run_args_read(argc, argv, n_rest, rest, &v->args, e);
	if (r >= 0 && v->args.interactive)
		v->editor = line_editor_start(!v->args.no_history);
	r = r < 0 ? r : run_stage_prepare(v, &v->args, e);
	r = r < 0 ? r : read_script(v, e);
	r = r < 0 ? r : make_argv(v, e);
	if (r >= 0 && v->args.out)
		r = outdir_open(v->args.out, &v->outdir, e);
	return r;
}

static void run_verb_done(struct run_verb *v)
{
	/* Freeing the manager ends a run that is still there, and its callbacks need V. */
	v->sandbox = sandbox_unref(v->sandbox);
	v->saved = v->staged = end_loop;
	v->prompt = prompt_free(v->prompt);
	line_editor_end(&v->editor);
	v->input = input_pipe_free(v->input);
	v->input_fd = fd_close(v->input_fd);
	app_done(&v->app);
	v->outdir = outdir_close(v->outdir);
	run_inputs_done(&v->inputs);
	forget_artifacts(v);
	free(v->argv);
	free(v->script_place);
	buf_done(&v->code);
	buf_done(&v->packages);
}

int cmd_run(int argc, char **argv)
{
	struct run_verb v = {.input_fd = -1, .editor = LINE_EDITOR_NONE};
	struct sandbox_options options = {0};
	struct err e = ERR_INIT;

	(void)signal(SIGPIPE, SIG_IGN);
	int ours = run_args_ours(argc, argv);
	/* Reading the settings shortens the list and ends it with NULL. */
	_cleanup_free_ char **words = calloc((size_t)ours + 1, sizeof(*words));
	int r = words ? 0 : err_set(&e, ERR_OUT_OF_MEMORY, ENOMEM, "the arguments");
	for (int i = 0; words && i < ours; i++)
		words[i] = argv[i];
	v.args = (struct run_args){.rest = argv + ours, .n_rest = argc - ours};
	r = r < 0 ? r : prepare(&v, ours, words, &e);
	r = r < 0 ? r : run_stage_options(&v.args, &options, &e);
	r = r < 0 ? r : first_image(&v.app, &e);
	r = r < 0 ? r : app_begin(&v.app, &e);
	r = r < 0 ? r : run(&v, &options, &e);
	if (r < 0)
		v.status = cmd_fail("run", &e);
	else
		tell_unwritten(&v);
	run_verb_done(&v);
	sandbox_options_done(&options);
	return v.status;
}
