/* SPDX-License-Identifier: Apache-2.0 */
#include "extension.h"
#include "old_libc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

struct zygote zygote = {.control = -1};

/* Programs that list processes would print the text of the zygote, 60 KiB, in each line of a run. The kernel takes a
 * command line whose last byte is not 0 for a title that ends at the first 0 (get_mm_cmdline() of Linux), as setproctitle(3)
 * makes it. Python has copies of all arguments. */
static void shorten_command_line(void)
{
	char *start = program_invocation_name;
	char *flag = start + strlen(start) + 1;

	if (strcmp(start, "python3") != 0 || strcmp(flag, "-c") != 0)
		return; /* not the arguments that the zygote was given */
	char *text = flag + sizeof("-c");
	text[strlen(text)] = ' ';
}

PyDoc_STRVAR(setup_doc, "setup(control, filter, refresh, take_over, ahead, enter, load, flush, "
			"leave, show, cell, result, rest, finish, wait, needs_carrying, "
			"carry, revive, hush) - before serve()");

static PyObject *setup(PyObject *self, PyObject *args)
{
	const char *filter;
	Py_ssize_t len;

	(void)self;
	if (!PyArg_ParseTuple(args, "iy#OOOOOOOOOOOOOOOOO", &zygote.control, &filter, &len,
			      &zygote.refresh, &zygote.take_over, &zygote.ahead, &zygote.enter,
			      &zygote.load, &zygote.flush, &zygote.leave, &zygote.show,
			      &zygote.cell, &zygote.result, &zygote.rest, &zygote.finish,
			      &zygote.wait, &zygote.needs_carrying, &zygote.carry, &zygote.revive,
			      &zygote.hush))
		return NULL;
	if (len < 0 || (size_t)len % sizeof(struct sock_filter) ||
	    (size_t)len / sizeof(struct sock_filter) > UINT16_MAX) {
		PyErr_SetString(PyExc_ValueError, "not a filter program");
		return NULL;
	}
	zygote.n_filter = (uint16_t)((size_t)len / sizeof(struct sock_filter));
	zygote.filter = malloc((size_t)len + 1);
	if (!zygote.filter)
		return PyErr_NoMemory();
	memcpy(zygote.filter, filter, (size_t)len);
	shorten_command_line();
	Py_INCREF(zygote.refresh);
	Py_INCREF(zygote.take_over);
	Py_INCREF(zygote.ahead);
	Py_INCREF(zygote.enter);
	Py_INCREF(zygote.load);
	Py_INCREF(zygote.flush);
	Py_INCREF(zygote.leave);
	Py_INCREF(zygote.show);
	Py_INCREF(zygote.cell);
	Py_INCREF(zygote.result);
	Py_INCREF(zygote.rest);
	Py_INCREF(zygote.finish);
	Py_INCREF(zygote.wait);
	Py_INCREF(zygote.needs_carrying);
	Py_INCREF(zygote.carry);
	Py_INCREF(zygote.revive);
	Py_INCREF(zygote.hush);
	Py_RETURN_NONE;
}

PyDoc_STRVAR(gather_doc, "gather() - small objects in one range of addresses from now on");

static PyObject *gather(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	arena_gather();
	immortal_learn();
	Py_RETURN_NONE;
}

PyDoc_STRVAR(fill_doc, "fill() -> bytes - new objects go where nothing has been yet");

static PyObject *fill(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	return PyLong_FromSize_t(arena_fill());
}

PyDoc_STRVAR(immortal_doc, "immortal(objects, code_type) -> number - none of these, nor what they "
			   "refer to, is ever freed");

static PyObject *immortal(PyObject *self, PyObject *args)
{
	PyObject *known;
	PyObject *code;

	(void)self;
	if (!PyArg_ParseTuple(args, "OO", &known, &code))
		return NULL;
	return PyLong_FromLong(immortal_make(known, code));
}

PyDoc_STRVAR(collapse_doc, "collapse(start, length) -> errno - asks for huge pages (madvise(2))");

static PyObject *collapse(PyObject *self, PyObject *args)
{
	unsigned long long start;
	unsigned long long length;

	(void)self;
	if (!PyArg_ParseTuple(args, "KK", &start, &length))
		return NULL;
	int r = madvise((void *)(uintptr_t)start, (size_t)length, MADV_COLLAPSE);
	return PyLong_FromLong(r < 0 ? errno : 0);
}

PyDoc_STRVAR(learn_doc, "learn(session, ranges) - what a run's spare makes its own ahead of need");

static PyObject *learn(PyObject *self, PyObject *args)
{
	const char *ranges;
	Py_ssize_t len;
	int session;

	(void)self;
	if (!PyArg_ParseTuple(args, "py#", &session, &ranges, &len))
		return NULL;
	if (learned_set(session, ranges, (size_t)len) < 0)
		return PyErr_NoMemory();
	Py_INCREF(Py_None);
	return Py_None;
}

PyDoc_STRVAR(move_doc,
	     "move(ranges) -> bytes - forks do not copy the page tables of these any more");

static PyObject *move(PyObject *self, PyObject *args)
{
	const char *ranges;
	Py_ssize_t len;

	(void)self;
	if (!PyArg_ParseTuple(args, "y#", &ranges, &len))
		return NULL;
	return PyLong_FromSize_t(library_move(ranges, (size_t)len));
}

PyDoc_STRVAR(
    recognise_doc,
    "recognise(path) -> bool - a library that is loaded already is known by this path from now on");

/* dlopen(3) finds a loaded library by a path that it was opened by before, and else by its device and
 * inode. Nothing is loaded here, and the library is never closed. */
static PyObject *recognise(PyObject *self, PyObject *args)
{
	const char *path;

	(void)self;
	if (!PyArg_ParseTuple(args, "s", &path))
		return NULL;
	const void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	return PyBool_FromLong(library != NULL);
}

PyDoc_STRVAR(serve_doc,
	     "serve(type, value, traceback) - as sys.excepthook: takes the process over for good");

static PyObject *serve(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	serve_monitor();
}

PyDoc_STRVAR(serve_inside_doc,
	     "serve_inside(type, value, traceback) - as sys.excepthook: this process is a clean "
	     "interpreter inside its sandbox, on descriptor 3");

static PyObject *serve_inside(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	serve_as_clean();
}

static struct {
	PyObject *text;
	int channel;
	int result;
} held;

PyDoc_STRVAR(prepare_doc, "prepare(source, channel, result) - before hold()");

static PyObject *prepare(PyObject *self, PyObject *args)
{
	(void)self;
	if (!PyArg_ParseTuple(args, "Sii", &held.text, &held.channel, &held.result))
		return NULL;
	Py_INCREF(held.text);
	Py_RETURN_NONE;
}

PyDoc_STRVAR(hold_doc,
	     "hold(type, value, traceback) - as sys.excepthook: the first run of a session, "
	     "in this process");

static PyObject *hold(PyObject *self, PyObject *args)
{
	(void)self;
	(void)args;
	run_hold(held.text, held.channel, held.result);
}

PyDoc_STRVAR(stream_type_doc, "stream_type(TextIOWrapper) -> type - of streams that write at once; "
			      "replaces print(), too");

static PyObject *stream_type(PyObject *self, PyObject *base)
{
	(void)self;
	return through_type(base);
}

PyDoc_STRVAR(register_doc, "register(stream, fd, is_stderr) - STREAM writes to FD from now on");

static PyObject *register_stream(PyObject *self, PyObject *args)
{
	PyObject *stream;
	int fd;
	int is_stderr;

	(void)self;
	if (!PyArg_ParseTuple(args, "Oip", &stream, &fd, &is_stderr))
		return NULL;
	through_register(stream, fd, is_stderr != 0);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"setup", setup, METH_VARARGS, setup_doc},
    {"gather", gather, METH_NOARGS, gather_doc},
    {"fill", fill, METH_NOARGS, fill_doc},
    {"immortal", immortal, METH_VARARGS, immortal_doc},
    {"collapse", collapse, METH_VARARGS, collapse_doc},
    {"learn", learn, METH_VARARGS, learn_doc},
    {"move", move, METH_VARARGS, move_doc},
    {"recognise", recognise, METH_VARARGS, recognise_doc},
    {"serve", serve, METH_VARARGS, serve_doc},
    {"serve_inside", serve_inside, METH_VARARGS, serve_inside_doc},
    {"prepare", prepare, METH_VARARGS, prepare_doc},
    {"hold", hold, METH_VARARGS, hold_doc},
    {"stream_type", stream_type, METH_O, stream_type_doc},
    {"register", register_stream, METH_VARARGS, register_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_caisson", .m_doc = "zygote",
    .m_size = -1,          .m_methods = methods,
};

__attribute__((visibility("default"))) PyObject *PyInit__caisson(void);

PyObject *PyInit__caisson(void)
{
	return PyModule_Create(&definition);
}
