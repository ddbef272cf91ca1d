/* SPDX-License-Identifier: Apache-2.0 */
/* print() and the standard output streams of a warm run. When a call returns, its output survives
 * the end of the process, and a reader sees it within 50 ms.
 *
 * Python keeps output in its own memory until there are 8 KiB. So output is late, and a run that is
 * killed loses it. `python3 -u` writes at once, but then a million prints take five times as long.
 * It also writes a line and its end with two calls, so lines of several processes mix. Here a
 * subclass of TextIOWrapper encodes its text itself, print() collects its arguments on the stack,
 * and both hand whole pieces to output_tail.c. Measurements: docs/decisions/0006-output-at-once.md.
 *
 * Below the subclass is the same as with `python3 -u`: a TextIOWrapper with write_through on an
 * unbuffered file. Rare cases go there: text that is not UTF-8, and a stream that was closed,
 * detached or reconfigured. Those layers hold nothing back either, so the order of output is right.
 */
#include "extension.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STREAMS    2
#define LINE_BYTES ((size_t)4096)
#define TEXT_MAX   ((Py_ssize_t)64 << 10) /* longer texts are written in pieces */

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080 /* in the stable ABI since 3.10; the same value before */
#endif

/* In the stable ABI since 3.10, but every version has it. The bytes belong to the string. */
extern const char *PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *ret_len);

static struct {
	PyObject *type;        /* the subclass */
	PyObject *base_write;  /* TextIOWrapper.write, unbound */
	PyObject *base_buffer; /* TextIOWrapper.buffer, unbound */
	PyObject *print;       /* the interpreter's own print() */
	PyObject *sep, *end, *file, *flush;
	struct stream {
		PyObject *object; /* owned */
		int fd;
	} stream[STREAMS];
} out;

int write_all(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n;
		int errnum;
		Py_BEGIN_ALLOW_THREADS n = write(fd, bytes, len);
		errnum = errno;
		Py_END_ALLOW_THREADS if (n < 0 && errnum == EINTR)
		{
			if (PyErr_CheckSignals() < 0)
				return -1;
			continue;
		}
		if (n < 0) {
			errno = errnum;
			(void)PyErr_SetFromErrno(PyExc_OSError);
			return -1;
		}
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

static struct stream *find(PyObject *object)
{
	for (int i = 0; i < STREAMS; i++)
		if (object && out.stream[i].object == object)
			return &out.stream[i];
	return NULL;
}

/* Writes everything. Returns 0, or -1 with an exception. */
static int emit(const struct stream *s, const char *bytes, size_t len)
{
	return s == &out.stream[0] ? tail_write(s->fd, bytes, len) : write_all(s->fd, bytes, len);
}

/* ---- print() ---- */

struct line {
	const struct stream *where;
	PyObject *object;
	size_t len;
	char bytes[LINE_BYTES];
};

static int line_write(struct line *l)
{
	size_t len = l->len;

	l->len = 0;
	return emit(l->where, l->bytes, len);
}

/* Leaves the text to the interpreter: for text that is not UTF-8, and for its own error messages.
 */
static int write_base(PyObject *stream, PyObject *text)
{
	if (tail_flush() < 0)
		return -1;
	PyObject *done = PyObject_CallFunctionObjArgs(out.base_write, stream, text, NULL);

	Py_XDECREF(done);
	return done ? 0 : -1;
}

static int line_add(struct line *l, PyObject *text);

/* The interpreter would write a long text with one call, and what a signal or another kernel's pipe (gVisor)
 * cuts off would be lost. */
static int line_add_long(struct line *l, PyObject *text, Py_ssize_t len)
{
	int r = 0;

	for (Py_ssize_t at = 0; r == 0 && at < len; at += TEXT_MAX) {
		PyObject *piece = PyUnicode_Substring(text, at, at + TEXT_MAX);
		r = piece ? line_add(l, piece) : -1;
		Py_XDECREF(piece);
	}
	return r;
}

static int line_add(struct line *l, PyObject *text)
{
	Py_ssize_t len = PyUnicode_GetLength(text);
	if (len > TEXT_MAX)
		return line_add_long(l, text, len);
	const char *bytes = PyUnicode_AsUTF8AndSize(text, &len);

	if (!bytes) {
		PyErr_Clear();
		return line_write(l) < 0 || write_base(l->object, text) < 0 ? -1 : 0;
	}
	if ((size_t)len > sizeof(l->bytes) - l->len && line_write(l) < 0)
		return -1;
	if ((size_t)len > sizeof(l->bytes))
		return emit(l->where, bytes, (size_t)len);
	memcpy(l->bytes + l->len, bytes, (size_t)len);
	l->len += (size_t)len;
	return 0;
}

/* True if str(VALUE) cannot run code that prints something itself. */
static bool is_plain(PyObject *value)
{
	return value == Py_None || PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
	       PyBool_Check(value);
}

static int line_add_value(struct line *l, PyObject *value)
{
	if (PyUnicode_CheckExact(value))
		return line_add(l, value);
	if (!is_plain(value) && l->len > 0 && line_write(l) < 0)
		return -1;
	PyObject *text = PyObject_Str(value);
	int r = text ? line_add(l, text) : -1;
	Py_XDECREF(text);
	return r;
}

/* Writes the line. After a failure (R < 0) the exception is kept, and what was printed before it is
 * written first. */
static int line_end(struct line *l, int r)
{
	PyObject *type, *value, *tb;

	if (r == 0)
		return line_write(l);
	PyErr_Fetch(&type, &value, &tb);
	if (line_write(l) < 0)
		PyErr_Clear();
	PyErr_Restore(type, value, tb);
	return -1;
}

struct words {
	PyObject *sep, *end, *file; /* borrowed; NULL = the default */
	bool usual;                 /* false = the interpreter has to judge the arguments */
};

static bool is_word(PyObject *name, PyObject *word)
{
	return name == word || PyUnicode_Compare(name, word) == 0;
}

static struct words read_words(PyObject *const *values, PyObject *names)
{
	struct words w = {.usual = true};
	Py_ssize_t n = names ? PyTuple_Size(names) : 0;

	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *name = PyTuple_GetItem(names, i);
		PyObject *value = values[i] == Py_None ? NULL : values[i];
		if (is_word(name, out.end))
			w.end = value;
		else if (is_word(name, out.sep))
			w.sep = value;
		else if (is_word(name, out.file))
			w.file = value;
		else if (!is_word(name,
				  out.flush)) /* `flush` needs no action: nothing is held back */
			w.usual = false;
	}
	if ((w.sep && !PyUnicode_CheckExact(w.sep)) || (w.end && !PyUnicode_CheckExact(w.end)))
		w.usual = false;
	return w;
}

static PyObject *print_base(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	PyObject *tuple = PyTuple_New(n);
	PyObject *words = names ? PyDict_New() : NULL;
	PyObject *done = NULL;
	bool good = tuple && (words || !names);

	for (Py_ssize_t i = 0; good && i < n; i++) {
		Py_INCREF(args[i]);
		good = PyTuple_SetItem(tuple, i, args[i]) == 0;
	}
	for (Py_ssize_t i = 0; good && names && i < PyTuple_Size(names); i++)
		good = PyDict_SetItem(words, PyTuple_GetItem(names, i), args[n + i]) == 0;
	if (good)
		done = PyObject_Call(out.print, tuple, words);
	Py_XDECREF(tuple);
	Py_XDECREF(words);
	return done;
}

static int print_values(struct line *l, const struct words *w, PyObject *const *args, Py_ssize_t n)
{
	int r = 0;

	for (Py_ssize_t i = 0; i < n && r == 0; i++) {
		if (i > 0 && w->sep)
			r = line_add(l, w->sep);
		else if (i > 0)
			l->bytes[l->len++] = ' ';
		if (r == 0)
			r = line_add_value(l, args[i]);
		if (r == 0 &&
		    l->len + 2 > sizeof(l->bytes)) /* room for a blank and the end of the line */
			r = line_write(l);
	}
	if (r == 0 && w->end)
		r = line_add(l, w->end);
	else if (r == 0)
		l->bytes[l->len++] = '\n';
	return line_end(l, r);
}

static PyObject *print(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct words w = read_words(args + n, names);
	PyObject *file = w.file ? w.file : PySys_GetObject("stdout");
	const struct stream *s = w.usual ? find(file) : NULL;
	struct line l;

	(void)self;
	if (!s)
		return print_base(args, n, names);
	l.where = s;
	l.object = file;
	l.len = 0;
	Py_INCREF(file);
	int r = print_values(&l, &w, args, n);
	Py_DECREF(file);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* ---- the stream ---- */

static PyObject *stream_write(PyObject *self, PyObject *text);

static PyObject *stream_write_long(PyObject *self, PyObject *text, Py_ssize_t chars)
{
	for (Py_ssize_t at = 0; at < chars; at += TEXT_MAX) {
		PyObject *piece = PyUnicode_Substring(text, at, at + TEXT_MAX);
		PyObject *done = piece ? stream_write(self, piece) : NULL;

		Py_XDECREF(piece);
		if (!done)
			return NULL;
		Py_DECREF(done);
	}
	return PyLong_FromSsize_t(chars);
}

static PyObject *stream_write(PyObject *self, PyObject *text)
{
	const struct stream *s = find(self);
	Py_ssize_t chars = s && PyUnicode_CheckExact(text) ? PyUnicode_GetLength(text) : -1;
	Py_ssize_t len;
	if (chars > TEXT_MAX)
		return stream_write_long(self, text, chars);
	const char *bytes = chars >= 0 ? PyUnicode_AsUTF8AndSize(text, &len) : NULL;

	if (!bytes) {
		PyErr_Clear();
		return tail_flush() < 0
			   ? NULL
			   : PyObject_CallFunctionObjArgs(out.base_write, self, text, NULL);
	}
	if (emit(s, bytes, (size_t)len) < 0)
		return NULL;
	return PyLong_FromSsize_t(chars);
}

/* From now on the interpreter's own methods handle SELF. */
static void let_go(PyObject *self)
{
	struct stream *s = find(self);

	if (s) {
		if (tail_flush() < 0)
			PyErr_Clear(); /* closing the stream reports the error again */
		s->object = NULL;
		Py_DECREF(self);
	}
}

static PyObject *call_base(const char *name, PyObject *self, PyObject *args, PyObject *words)
{
	PyObject *base = PyObject_GetAttrString(out.type, "__base__");
	PyObject *method = base ? PyObject_GetAttrString(base, name) : NULL;
	PyObject *first = method ? PyTuple_New(1) : NULL;
	PyObject *all = NULL;
	PyObject *done = NULL;

	if (first) {
		Py_INCREF(self);
		(void)PyTuple_SetItem(first, 0, self);
		all = PySequence_Concat(first, args);
	}
	if (all)
		done = PyObject_Call(method, all, words);
	Py_XDECREF(all);
	Py_XDECREF(first);
	Py_XDECREF(method);
	Py_XDECREF(base);
	return done;
}

#define LETS_GO(NAME)                                                                              \
	static PyObject *stream_##NAME(PyObject *self, PyObject *args, PyObject *words)            \
	{                                                                                          \
		PyObject *done;                                                                    \
		Py_INCREF(self);                                                                   \
		let_go(self);                                                                      \
		done = call_base(#NAME, self, args, words);                                        \
		Py_DECREF(self);                                                                   \
		return done;                                                                       \
	}
LETS_GO(close)
LETS_GO(detach)
LETS_GO(reconfigure)

static PyObject *stream_flush(PyObject *self, PyObject *args)
{
	(void)args;
	if (!find(self)) {
		PyObject *none = PyTuple_New(0);
		PyObject *done = none ? call_base("flush", self, none, NULL) : NULL;
		Py_XDECREF(none);
		return done;
	}
	if (tail_flush() < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* The caller will write to the layer below, so the tail must be empty and stay unused. */
static PyObject *get_buffer(PyObject *self, void *unused)
{
	(void)unused;
	if (find(self) && tail_flush() < 0)
		return NULL;
	tail_end();
	return PyObject_CallMethod(out.base_buffer, "__get__", "O", self);
}

static PyMethodDef stream_methods[] = {
    {"write", stream_write, METH_O, NULL},
    {"flush", stream_flush, METH_NOARGS, NULL},
    {"close", (PyCFunction)(void (*)(void))stream_close, METH_VARARGS | METH_KEYWORDS, NULL},
    {"detach", (PyCFunction)(void (*)(void))stream_detach, METH_VARARGS | METH_KEYWORDS, NULL},
    {"reconfigure", (PyCFunction)(void (*)(void))stream_reconfigure, METH_VARARGS | METH_KEYWORDS,
     NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef stream_members[] = {
    {"buffer", get_buffer, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_methods, stream_methods}, {Py_tp_getset, stream_members}, {0, NULL}};

static PyType_Spec spec = {
    .name = "_io.TextIOWrapper", /* the name that programs expect */
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

PyDoc_STRVAR(print_doc,
	     "print($module, /, *args, sep=' ', end='\\n', file=None, flush=False)\n--\n\n"
	     "Prints the values to a stream, or to sys.stdout by default.\n\n"
	     "  sep\n    string inserted between values, default a space.\n"
	     "  end\n    string appended after the last value, default a newline.\n"
	     "  file\n    a file-like object (stream); defaults to the current sys.stdout.\n"
	     "  flush\n    whether to forcibly flush the stream.");

static PyMethodDef print_method = {"print", (PyCFunction)(void (*)(void))print,
				   METH_FASTCALL | METH_KEYWORDS, print_doc};

/* Puts our print() into builtins. */
static int replace_print(void)
{
	PyObject *builtins = PyImport_ImportModule("builtins");
	PyObject *name = builtins ? PyObject_GetAttrString(builtins, "__name__") : NULL;
	PyObject *ours = name ? PyCFunction_NewEx(&print_method, builtins, name) : NULL;
	int r = -1;

	out.print = ours ? PyObject_GetAttrString(builtins, "print") : NULL;
	if (out.print)
		r = PyObject_SetAttrString(builtins, "print", ours);
	Py_XDECREF(ours);
	Py_XDECREF(name);
	Py_XDECREF(builtins);
	return r;
}

PyObject *through_type(PyObject *base)
{
	PyObject *bases = PyTuple_New(1);

	if (!bases)
		return NULL;
	Py_INCREF(base);
	(void)PyTuple_SetItem(bases, 0, base);
	out.base_write = PyObject_GetAttrString(base, "write");
	out.base_buffer = PyObject_GetAttrString(base, "buffer");
	out.sep = PyUnicode_InternFromString("sep");
	out.end = PyUnicode_InternFromString("end");
	out.file = PyUnicode_InternFromString("file");
	out.flush = PyUnicode_InternFromString("flush");
	if (out.base_write && out.base_buffer && out.sep && out.end && out.file && out.flush)
		out.type = PyType_FromSpecWithBases(&spec, bases);
	Py_DECREF(bases);
	if (!out.type || tail_watch() < 0 || replace_print() < 0)
		return NULL;
	Py_INCREF(out.type);
	return out.type;
}

void through_register(PyObject *stream, int fd, bool is_stderr)
{
	int at = is_stderr ? 1 : 0;
	PyObject *before = out.stream[at].object;

	Py_INCREF(stream);
	out.stream[at] = (struct stream){.object = stream, .fd = fd};
	Py_XDECREF(before);
}
