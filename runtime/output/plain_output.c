/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces print() and the standard output streams of an interpreter that was started with
 * PYTHONUNBUFFERED, as every run and every program that it starts by name is.
 *
 * Such an interpreter writes a line and its end with two system calls and passes both through three
 * layers of Python's streams. Here it is one call, so a million prints take half of the time, and
 * lines of several processes do not mix. Nothing is held back: what print() was given is in the
 * pipe when it returns. Measurements: docs/decisions/0006-output-at-once.md. */
#include "extension.h"

#include <unistd.h>

/* ---- without an output tail (output_tail.c has the same functions for warm runs) ---- */

int tail_write(int fd, const char *bytes, size_t len)
{
	return write_all(fd, bytes, len);
}

int tail_flush(void)
{
	return 0;
}

int tail_watch(void)
{
	return 0;
}

void tail_end(void)
{
}

/* ---- the streams ---- */

static int is_unbuffered(PyObject *stream)
{
	PyObject *value = PyObject_GetAttrString(stream, "write_through");
	int yes = value && PyObject_IsTrue(value) == 1;

	Py_XDECREF(value);
	return yes;
}

/* What is written here is UTF-8. PYTHONIOENCODING may have chosen something else. */
static int is_utf8(PyObject *stream)
{
	PyObject *name = PyObject_GetAttrString(stream, "encoding");
	int yes =
	    name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "utf-8") == 0;

	Py_XDECREF(name);
	return yes;
}

/* TYPE(open(FD, 'wb', 0, closefd=False), OLD.encoding, OLD.errors, '\n', False, True), a new
 * reference. */
static PyObject *make_stream(PyObject *type, PyObject *io, int fd, PyObject *old, const char *name)
{
	PyObject *binary = PyObject_CallMethod(io, "open", "isiOOOO", fd, "wb", 0, Py_None, Py_None,
					       Py_None, Py_False);
	PyObject *label = binary ? PyUnicode_FromString(name) : NULL;
	PyObject *encoding = label && PyObject_SetAttrString(binary, "name", label) == 0
				 ? PyObject_GetAttrString(old, "encoding")
				 : NULL;
	PyObject *errors = encoding ? PyObject_GetAttrString(old, "errors") : NULL;
	PyObject *mode = errors ? PyUnicode_FromString("w") : NULL;
	PyObject *text = mode ? PyObject_CallFunction(type, "OOOsOO", binary, encoding, errors,
						      "\n", Py_False, Py_True)
			      : NULL;

	if (text && PyObject_SetAttrString(text, "mode", mode) < 0) {
		Py_DECREF(text);
		text = NULL;
	}
	Py_XDECREF(mode);
	Py_XDECREF(errors);
	Py_XDECREF(encoding);
	Py_XDECREF(label);
	Py_XDECREF(binary);
	return text;
}

static int replace_stream(PyObject *type, PyObject *io, int fd)
{
	static const struct {
		const char *name, *original, *shown;
	} names[] = {[STDOUT_FILENO] = {"stdout", "__stdout__", "<stdout>"},
		     [STDERR_FILENO] = {"stderr", "__stderr__", "<stderr>"}};
	PyObject *old = PySys_GetObject(names[fd].name); /* borrowed */
	PyObject *text = old && old != Py_None && is_unbuffered(old) && is_utf8(old) && !isatty(fd)
			     ? make_stream(type, io, fd, old, names[fd].shown)
			     : NULL;
	int r = 0;

	if (text) {
		through_register(text, fd, fd == STDERR_FILENO);
		r = PySys_SetObject(names[fd].name, text) < 0 ||
			    PySys_SetObject(names[fd].original, text) < 0
			? -1
			: 0;
		Py_DECREF(text);
	}
	return r;
}

/* Whatever fails, the interpreter keeps what it has: this is only for speed. So does each sub-interpreter, as what
 * written_through.c knows of the streams is there once in a process. */
static int on_exec(PyObject *module)
{
	if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0)
		return 0;
	PyObject *io = PyImport_ImportModule("io");
	PyObject *base = io ? PyObject_GetAttrString(io, "TextIOWrapper") : NULL;
	PyObject *type = base ? through_type(base) : NULL;

	(void)module;
	if (type) {
		(void)replace_stream(type, io, STDOUT_FILENO);
		(void)replace_stream(type, io, STDERR_FILENO);
	}
	PyErr_Clear();
	Py_XDECREF(type);
	Py_XDECREF(base);
	Py_XDECREF(io);
	return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, on_exec}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_caisson_output", .m_doc = "output at once", .m_size = 0,
    .m_slots = slots,
};

__attribute__((visibility("default"))) PyObject *PyInit__caisson_output(void);

PyObject *PyInit__caisson_output(void)
{
	return PyModuleDef_Init(&definition);
}
