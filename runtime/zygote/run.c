/* SPDX-License-Identifier: Apache-2.0 */
/* A spare becomes a run. What the interpreter's own main() does around `-c` is done here the same way:
 * SystemExit, uncaught exceptions, KeyboardInterrupt, the order of what happens at the end. Only the tear-down
 * of the heap is left to the kernel: it would touch every page of the shared one. */
#include "zygote.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STATUS_FLUSH 120 /* what Python exits with when its output could not be written */

struct outcome {
	int status;
	int interrupted; /* ended by KeyboardInterrupt: die of SIGINT, as the interpreter does */
};

/* Py_LIMITED_API has no way to a standard stream but sys. Borrowed, NULL when it is not there. */
static PyObject *stream(const char *name)
{
	PyObject *s = PySys_GetObject(name);

	return s == Py_None ? NULL : s;
}

/* sys.exit() takes anything: None, a number, or something to print. Steals CODE. */
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

/* Before 3.13 the interpreter shows no source lines for code that is in no file; boot.py does. */
static void show(void)
{
	PyObject *type, *value, *tb;

	PyErr_Fetch(&type, &value, &tb);
	PyErr_NormalizeException(&type, &value, &tb);
	if (tb)
		(void)PyException_SetTraceback(value, tb);
	PyObject *shown = PyObject_CallFunctionObjArgs(zygote.show, type, value, tb ? tb : Py_None, NULL);
	if (shown && PyObject_IsTrue(shown)) {
		Py_XDECREF(type);
		Py_XDECREF(value);
		Py_XDECREF(tb);
	} else {
		PyErr_Restore(type, value, tb); /* takes the place of what show() may have raised */
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
	if (zygote.show != Py_None && !o->interrupted)
		show();
	else
		PyErr_Print();
}

/* A call whose failure the interpreter would report as "Exception ignored in". */
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

/* Py_FinalizeEx(), as far as a program can see it: threads are joined, exit handlers run, output is
 * flushed, what the program made is destroyed. */
static _Noreturn void leave(struct outcome o)
{
	PyObject *modules = PyImport_GetModuleDict();
	PyObject *threading = PyDict_GetItemString(modules, "threading");
	PyObject *handlers = PyImport_ImportModule("atexit");

	if (threading) {
		Py_INCREF(threading);
		call_ignoring(threading, "_shutdown");
	}
	if (handlers) /* says itself what went wrong; before 3.10 it raises that too */
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

/* (code, globals) or NULL with the exception that the program ends with, freed of our frames. */
static PyObject *begin(const struct frame *f)
{
	const struct rt_run *run = &f->u.run;
	const char *env = (const char *)f->u.bytes + sizeof(*run);
	PyObject *type, *value, *tb;

	PyObject *pair = PyObject_CallFunction(zygote.enter, "iIy#y#", f->fds[3], (unsigned int)run->flags, env,
	                                       (Py_ssize_t)run->env_len, env + run->env_len,
	                                       (Py_ssize_t)run->cwd_len);
	if (pair)
		return pair;
	PyErr_Fetch(&type, &value, &tb);
	PyErr_NormalizeException(&type, &value, &tb);
	Py_XDECREF(tb);
	if (PyObject_SetAttrString(value, "__traceback__", Py_None) < 0)
		PyErr_Clear();
	PyErr_Restore(type, value, NULL);
	return NULL;
}

static int frame_fits(const struct frame *f)
{
	const struct rt_run *run = &f->u.run;

	return f->u.h.kind == RT_RUN && f->len >= sizeof(*run) && run->env_len <= RT_ENV_MAX &&
	       run->cwd_len <= RT_CWD_MAX && f->len == sizeof(*run) + run->env_len + run->cwd_len &&
	       f->n_fds == (run->flags & RT_STATEFUL ? 5U : 4U);
}

_Noreturn void run_start(struct frame *f, int channel)
{
	struct outcome o = {0};

	if (!frame_fits(f) || take_streams(f) < 0)
		_exit(1);
	(void)close(channel);
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as after execve; /proc/self depends on it */
	PyObject *pair = begin(f);
	PyObject *done = NULL;
	if (pair) {
		PyObject *space = PyTuple_GetItem(pair, 1);
		done = PyEval_EvalCode(PyTuple_GetItem(pair, 0), space, space);
	}
	if (!done)
		settle(&o);
	Py_XDECREF(done);
	Py_XDECREF(pair);
	leave(o);
}
