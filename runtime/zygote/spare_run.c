/* SPDX-License-Identifier: Apache-2.0 */
/* A spare becomes a run. This file does what the interpreter's own main() does around `-c`:
 * SystemExit, uncaught exceptions, KeyboardInterrupt, and the order of steps at the end. Only the
 * heap is not torn down: that would touch every page of the heap that is shared with the zygote,
 * and the kernel frees it anyway.
 *
 * A stateful run does not end: the process stays the session process and executes the next cell, too. SIGINT
 * interrupts a cell and nothing else, so it is ignored between cells. */
#include "extension.h"

#include "base/kill_points.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define RUN_CODE_FD       3    /* BARE_FD of places.py */
#define STATUS_FLUSH      120  /* Python's exit status if its output could not be written */
#define CODE_IS_COROUTINE 0x80 /* CO_COROUTINE of co_flags: code with an await at the top level */

struct outcome {
	int status;
	int interrupted; /* ended by KeyboardInterrupt: must die of SIGINT, as the interpreter does */
};

/* With Py_LIMITED_API a standard stream can only be found in sys. A borrowed reference; NULL if
 * there is none. */
static PyObject *stream(const char *name)
{
	PyObject *s = PySys_GetObject(name);

	return s == Py_None ? NULL : s;
}

/* sys.exit() takes None, a number, or any object, which is printed. Steals CODE. */
static int exit_status(PyObject *code)
{
	int status = 1;

	if (!code || code == Py_None) {
		PyErr_Clear();
		status = 0;
	} else if (PyLong_Check(code)) {
		status = (int)PyLong_AsLong(code);
		PyErr_Clear();
	} else {
		PyObject *err = stream("stderr");
		(void)fflush(stdout);
		if (!err || PyFile_WriteObject(code, err, Py_PRINT_RAW) < 0)
			PyErr_Clear();
		PySys_WriteStderr("\n");
	}
	Py_XDECREF(code);
	return status;
}

static void system_exit(struct outcome *o)
{
	PyObject *type, *value, *tb;

	PyErr_Fetch(&type, &value, &tb);
	PyErr_NormalizeException(&type, &value, &tb);
	o->status = exit_status(PyObject_GetAttrString(value, "code"));
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(tb);
}

/* Prints the exception, unless show_error() in notebook.py has done it. Before 3.13 the interpreter
 * shows no source lines for code that is in no file, and a run with RT_NOTEBOOK folds tracebacks. */
static void show(void)
{
	PyObject *type, *value, *tb;

	PyErr_Fetch(&type, &value, &tb);
	PyErr_NormalizeException(&type, &value, &tb);
	if (tb)
		(void)PyException_SetTraceback(value, tb);
	PyObject *shown =
	    PyObject_CallFunctionObjArgs(zygote.show, type, value, tb ? tb : Py_None, NULL);
	if (shown && PyObject_IsTrue(shown)) {
		Py_XDECREF(type);
		Py_XDECREF(value);
		Py_XDECREF(tb);
	} else {
		PyErr_Restore(type, value, tb); /* replaces what show() raised */
		PyErr_Print();
	}
	Py_XDECREF(shown);
}

static void settle(struct outcome *o)
{
	if (PyErr_ExceptionMatches(PyExc_SystemExit)) {
		system_exit(o);
		return;
	}
	o->status = 1;
	o->interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0;
	show();
}

/* Calls a method and reports its failure as the interpreter does: "Exception ignored in". */
static void call_ignoring(PyObject *module, const char *name)
{
	PyObject *r = PyObject_CallMethod(module, name, NULL);

	if (!r)
		PyErr_WriteUnraisable(module);
	Py_XDECREF(r);
}

static int flush_streams(void)
{
	PyObject *r = PyObject_CallFunctionObjArgs(zygote.flush, Py_True, NULL);
	int failed = r ? PyObject_IsTrue(r) : 1;

	PyErr_Clear();
	Py_XDECREF(r);
	return failed;
}

/* The part of Py_FinalizeEx() that a program can observe: threads are joined, exit handlers run,
 * output is flushed, and the program's own objects are destroyed. */
static _Noreturn void leave(struct outcome o)
{
	PyObject *modules = PyImport_GetModuleDict();
	PyObject *threading = PyDict_GetItemString(modules, "threading");
	PyObject *handlers = PyImport_ImportModule("atexit");

	if (threading) {
		Py_INCREF(threading);
		call_ignoring(threading, "_shutdown");
	}
	if (handlers) /* it reports its errors itself; before 3.10 it also raises them */
		Py_XDECREF(PyObject_CallMethod(handlers, "_run_exitfuncs", NULL));
	PyErr_Clear();
	if (flush_streams())
		o.status = STATUS_FLUSH;
	PyObject *r = PyObject_CallNoArgs(zygote.leave);
	if (!r)
		PyErr_Clear();
	(void)fflush(NULL);
	if (o.interrupted) {
		(void)signal(SIGINT, SIG_DFL);
		(void)kill(getpid(), SIGINT);
	}
	end_name(o.status & 0xff);
	_exit(o.status & 0xff);
}

static int take_streams(struct frame *f)
{
	for (int i = 0; i < 3; i++)
		if (dup2(f->fds[i], i) < 0)
			return -errno;
	for (int i = 0; i < 3; i++)
		(void)close(f->fds[i]);
	return 0;
}

/* Removes our frames from an exception that loading the code has raised. It is the program's own
 * error, mostly a SyntaxError. */
static void disown_exception(void)
{
	PyObject *type, *value, *tb;

	PyErr_Fetch(&type, &value, &tb);
	PyErr_NormalizeException(&type, &value, &tb);
	Py_XDECREF(tb);
	if (PyObject_SetAttrString(value, "__traceback__", Py_None) < 0)
		PyErr_Clear();
	PyErr_Restore(type, value, NULL);
}

static PyObject *enter(const struct frame *f, int channel, int result)
{
	const struct rt_run *run = &f->u.run;
	const char *env = (const char *)f->u.bytes + sizeof(*run);

	return PyObject_CallFunction(
	    zygote.enter, "iOy#y#iiOOO", f->fds[3], zygote.session ? Py_True : Py_False, env,
	    (Py_ssize_t)run->env_len, env + run->env_len, (Py_ssize_t)run->cwd_len, channel, result,
	    run->flags & RT_DISPLAY ? Py_True : Py_False,
	    run->flags & RT_NOTEBOOK ? Py_True : Py_False,
	    run->flags & RT_ERRORS ? Py_True : Py_False);
}

static bool has_result(const struct rt_run *run)
{
	return run->flags & (RT_STATEFUL | RT_NOTEBOOK);
}

static int frame_fits(const struct frame *f)
{
	const struct rt_run *run = &f->u.run;

	return f->u.h.kind == RT_RUN && f->len >= sizeof(*run) && run->env_len <= RT_ENV_MAX &&
	       run->cwd_len <= RT_CWD_MAX && f->len == sizeof(*run) + run->env_len + run->cwd_len &&
	       f->n_fds == 4U + (has_result(run) ? 1U : 0U) + (run->flags & RT_TAIL ? 1U : 0U);
}

/* Must happen before exit handlers run: the one of pyplot closes all figures. */
static void show_figures(void)
{
	PyObject *r = PyObject_CallNoArgs(zygote.finish);

	if (!r)
		PyErr_Clear();
	Py_XDECREF(r);
}

/* Runs CODE. If it awaits something at the top level, running it makes a coroutine, which wait() in
 * notebook.py runs. Returns a new reference, or NULL with an exception. */
static PyObject *run_code(PyObject *code, PyObject *space)
{
	PyObject *value = PyEval_EvalCode(code, space, space);
	PyObject *flags = value ? PyObject_GetAttrString(code, "co_flags") : NULL;
	long bits = flags ? PyLong_AsLong(flags) : 0;

	Py_XDECREF(flags);
	if (!value || !(bits & CODE_IS_COROUTINE))
		return value;
	PyObject *done = PyObject_CallFunctionObjArgs(zygote.wait, value, NULL);
	Py_DECREF(value);
	return done;
}

/* Runs what LOAD makes of TEXT: one code object, or a tuple of the statements and of the last
 * expression, whose value is the result. A child that the code forked may come to the end, too: its
 * value is nobody's result. Returns 0, or -1 with an exception. */
static int run_text(PyObject *load, PyObject *text, PyObject *space, int result)
{
	const pid_t self = getpid();
	PyObject *codes = PyObject_CallFunctionObjArgs(load, text, NULL);
	bool many = codes && PyTuple_Check(codes);
	Py_ssize_t n = many ? PyTuple_Size(codes) : 1;
	int r = 0;

	if (!codes) {
		disown_exception();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n && r == 0; i++) {
		PyObject *value = run_code(many ? PyTuple_GetItem(codes, i) : codes, space);
		PyObject *shown = NULL;
		const bool wanted = i == 1 && getpid() == self;
		if (value && wanted)
			shown = PyObject_CallFunction(zygote.result, "Oi", value, result);
		r = value && (shown || !wanted) ? 0 : -1;
		Py_XDECREF(shown);
		Py_XDECREF(value);
	}
	Py_DECREF(codes);
	return r;
}

static _Noreturn void run_program(PyObject *text, PyObject *space, int result, bool display)
{
	struct outcome o = {0};

	if (run_text(zygote.load, text, space, result) < 0)
		settle(&o);
	Py_DECREF(text);
	if (display && o.status == 0)
		show_figures();
	Py_DECREF(space);
	leave(o);
}

static uint64_t nanoseconds(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_usec * 1000U;
}

/* CPU time of this process and of its children that have ended. */
static uint64_t cpu_now(void)
{
	struct rusage own, children;

	if (getrusage(RUSAGE_SELF, &own) < 0 || getrusage(RUSAGE_CHILDREN, &children) < 0)
		return 0;
	return nanoseconds(own.ru_utime) + nanoseconds(own.ru_stime) +
	       nanoseconds(children.ru_utime) + nanoseconds(children.ru_stime);
}

static int report(const struct rt_run_done *done)
{
	struct rt_run_done d = *done;
	struct rusage own;

	d.h.kind = RT_RUN_DONE;
	d.cpu_ns = cpu_now() - d.cpu_ns;
	if (getrusage(RUSAGE_SELF, &own) == 0)
		d.max_rss = (uint64_t)own.ru_maxrss * 1024;
	return channel_send(zygote.channel, &d, sizeof(d));
}

/* The program has lowered its limit, and the next cell comes with descriptors. Without rights nobody can raise the hard one. */
static int more_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == limit.rlim_max)
		return -1;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

/* The backup takes over, and the client sees that the variables are as before the cell. It should see why. */
static _Noreturn void give_up(const char *why, int status)
{
	(void)dprintf(STDERR_FILENO, "This run has ended the session's process: %s.\n", why);
	_exit(status);
}

/* Between cells there is no input. What threads print goes into the pipes, which are the session's. */
static void drop_input(void)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null < 0 && errno == EMFILE && more_descriptors() == 0)
		null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0)
		give_up("it may open no more files: setrlimit(RLIMIT_NOFILE)", 1);
	if (null > 0)
		(void)close(null);
}

/* Runs the handlers of signals that have come, and drops what they raise: no code of the program is on the stack that
 * could catch it. Keeps the exception that is set. */
static void run_handlers(void)
{
	PyObject *type, *value, *tb;

	PyErr_Fetch(&type, &value, &tb);
	while (PyErr_CheckSignals() < 0)
		PyErr_Clear();
	PyErr_Restore(type, value, tb);
}

static void ignore_interrupts(struct sigaction *before)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};

	(void)sigaction(SIGINT, &ignore, before);
	run_handlers();
}

/* An alarm that a cell leaves behind would come when the next one begins, and end the session if nothing handles it. */
static void clear_alarms(void)
{
	static const struct {
		int which, signo;
	} timers[] = {{ITIMER_REAL, SIGALRM}, {ITIMER_VIRTUAL, SIGVTALRM}, {ITIMER_PROF, SIGPROF}};
	const struct itimerval never = {0};
	struct sigaction now;

	for (size_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++)
		if (sigaction(timers[i].signo, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			(void)setitimer((__itimer_which_t)timers[i].which, &never, NULL);
}

/* What the cell leaves to the next one. Returns what rest() in cells.py says of it. */
static void rest(struct rt_run_done *done)
{
	PyObject *rest =
	    PyObject_CallFunctionObjArgs(zygote.rest, done->status == 0 ? Py_True : Py_False, NULL);

	if (rest && !PyArg_ParseTuple(rest, "IIIii", &done->cell, &done->left, &zygote.begin_again,
				      &zygote.trackers[0], &zygote.trackers[1]))
		done->cell = done->left = zygote.begin_again = 0;
	PyErr_Clear();
	Py_XDECREF(rest);
	clear_alarms();
}

static struct sigaction interrupt; /* what the session's program does at SIGINT */
static struct sigaction pythons;   /* the interpreter's own: before the first cell */

/* Whether Python has a function for SIGINT, whatever native code has set meanwhile. */
static int handles_interrupts(void)
{
	PyObject *module = PyImport_ImportModule("_signal");
	PyObject *handler = module ? PyObject_CallMethod(module, "getsignal", "i", SIGINT) : NULL;
	const int is = handler && PyCallable_Check(handler);

	PyErr_Clear();
	Py_XDECREF(handler);
	Py_XDECREF(module);
	return is;
}

static void heed_interrupts(void)
{
	/* Solvers with a handler of their own (ortools) leave the default action, which would end the session. */
	if (interrupt.sa_handler == SIG_DFL && handles_interrupts())
		interrupt = pythons;
	(void)sigaction(SIGINT, &interrupt, NULL);
}

/* Runs a cell and reports its end. Steals TEXT and SPACE. */
static int run_and_rest(PyObject *text, PyObject *space, int result)
{
	const pid_t self = getpid();
	struct rt_run_done done = {.cpu_ns = cpu_now()};
	struct outcome o = {0};

	if (zygote.session)
		heed_interrupts();
	else
		(void)sigaction(SIGINT, NULL, &pythons);
	zygote.session = 1;
	kept_begin(result);
	const int r = run_text(zygote.cell, text, space, result);
	if (getpid() == self)
		ignore_interrupts(&interrupt);
	if (r < 0)
		settle(&o);
	if (getpid() != self) /* a child of os.fork(): it ends as it does in a program */
		leave(o);
	kept_free();
	(void)flush_streams();
	done.status = o.status & 0xff;
	rest(&done);
	Py_DECREF(text);
	Py_DECREF(space);
	kept_rest();
	(void)fflush(NULL);
	done.threads = (uint32_t)threads_count();
	tail_end();
	drop_input();
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (report(&done) < 0)
		give_up("it has closed descriptors that are not its own, as os.closerange() does",
			(int)done.status);
	return 0;
}

/* Takes the descriptors of the run F; RET gets the one for the result, -1 = there is none. 0 or -errno. */
static int take_fds(struct frame *f, int *ret_result)
{
	int r = frame_fits(f) ? take_streams(f) : -EPROTO;

	if (r < 0)
		return r;
	if (f->u.run.flags & RT_TAIL) {
		tail_begin(f->fds[f->n_fds - 1]);
		(void)close(f->fds[f->n_fds - 1]);
	}
	*ret_result = -1;
	if (!has_result(&f->u.run))
		return 0;
	/* away from the low numbers, for programs that count their descriptors */
	*ret_result = fd_copy_high(f->fds[4]);
	(void)close(f->fds[4]);
	return *ret_result < 0 ? -errno : 0;
}

/* Calls enter() in zygote.py. RET_TEXT and RET_SPACE are new references. */
static int enter_run_of(const struct frame *f, int channel, int result, PyObject **ret_text,
			PyObject **ret_space)
{
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as after execve, for /proc/self */
	PyObject *pair = enter(f, channel, result);
	if (!pair)
		return -1;
	*ret_text = PyTuple_GetItem(pair, 0);
	*ret_space = PyTuple_GetItem(pair, 1);
	Py_INCREF(*ret_text);
	Py_INCREF(*ret_space);
	Py_DECREF(pair);
	return 0;
}

int run_cell(struct frame *f)
{
	PyObject *text, *space;
	int result;

	if (!(f->u.run.flags & RT_STATEFUL) || take_fds(f, &result) < 0)
		return -EPROTO;
	f->n_fds = 0;
	KILL_POINT(RUN_ENTERED);
	run_handlers(); /* of signals that came while the session was stopped */
	if (enter_run_of(f, zygote.channel, result, &text, &space) < 0) {
		PyErr_Print(); /* earlier cells have broken what a cell needs */
		_exit(1);
	}
	return run_and_rest(text, space, result);
}

/* Reads the session that FILE describes. BARE is the channel if that may take a bare interpreter, see hold(), or -1. */
static _Noreturn void revive(int file, int bare)
{
	ignore_interrupts(&interrupt);
	pythons = interrupt;
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	PyObject *said = PyObject_CallFunction(zygote.revive, "ii", file, bare);
	KILL_POINT(VARIABLES_READ);
	if (!said || session_tell(RT_REVIVED, said) < 0)
		_exit(1);
	Py_DECREF(said);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	zygote.frame.n_fds = 0; /* the file has been closed */
	serve_init(zygote.channel);
}

_Noreturn void run_hold(PyObject *text, int channel, int result)
{
	zygote.tied = 1; /* this interpreter was started inside the confinement */
	PyObject *r = PyObject_CallFunctionObjArgs(zygote.refresh, Py_False, NULL);
	PyObject *module = r ? PyImport_AddModule("__main__") : NULL;
	PyObject *space = module ? PyModule_GetDict(module) : NULL;

	if (!space)
		_exit(1);
	Py_DECREF(r);
	Py_INCREF(space);
	zygote.channel = channel;
	if (result < 0) {
		zygote.session = 1;
		revive(RUN_CODE_FD, -1);
	}
	if (run_and_rest(text, space, result) < 0)
		_exit(1);
	serve_init(channel);
}

_Noreturn void run_revive(struct frame *f, int channel)
{
	const int high = fd_copy_high(channel);

	if (high < 0 || f->len != sizeof(struct rt_head) || f->n_fds != 1)
		_exit(1);
	(void)close(channel);
	zygote.channel = high;
	zygote.session = 1;
	for (int i = 0; i < 3; i++)
		(void)open("/dev/null", O_RDWR); /* the lowest number that is free: 0, 1 and 2 */
	revive(f->fds[0], high);
}

_Noreturn void run_start(struct frame *f, int channel)
{
	PyObject *text, *space;
	int result;

	if (take_fds(f, &result) < 0)
		_exit(1);
	const bool stateful = f->u.run.flags & RT_STATEFUL;
	const bool display = f->u.run.flags & RT_DISPLAY;
	KILL_POINT(RUN_ENTERED);
	int high = stateful ? fd_copy_high(channel) : -1;
	if (stateful && high < 0)
		_exit(1);
	(void)close(channel);
	zygote.channel = high;
	end_begin(!stateful && (f->u.run.flags & RT_NAMED_END));
	if (enter_run_of(f, high, result, &text, &space) < 0)
		_exit(127);
	if (!stateful)
		run_program(text, space, result, display);
	if (run_and_rest(text, space, result) < 0)
		_exit(1);
	serve_init(high);
}
