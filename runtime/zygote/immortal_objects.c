/* SPDX-License-Identifier: Apache-2.0 */
/* Objects whose references nobody counts any more.
 *
 * Counting writes into the object, and in a fork every first write into a page copies it, and into
 * a huge page splits that: a run of one line wrote into some 300 pages in 40 huge ones only to say
 * that it looked at them. Since 3.12 CPython has immortal objects (PEP 683): a count with its low
 * half negative is left alone. The zygote's objects are never freed anyway, so before it serves
 * all of them become immortal: what the collector knows, and what can be reached from that.
 *
 * What a program can see of it is sys.getrefcount() of what the image preloads.
 *
 * The value is that of None, read when the interpreter has just started. Without immortal objects
 * it is a small number, in a free-threaded build this field is something else (0): then nothing is
 * done. */
#include "extension.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_START ((size_t)1 << 20) /* slots; a power of two */

/* What the collector cannot ask for, of static types and of code. */
static const char *const part_names[] = {"__dict__", "__mro__",     "__bases__",  "co_consts",
					 "co_names", "co_qualname", "co_filename"};
#define TYPE_PARTS 3 /* the first of them */
#define N_PARTS    (sizeof(part_names) / sizeof(part_names[0]))

typedef int (*is_gc_fn)(PyObject *o);

/* The objects found: `list` in the order of finding, `table` to find an object once. */
static struct walk {
	PyObject **list;
	size_t n, done;
	PyObject **table;
	size_t size;
	int failed; /* out of memory */
	is_gc_fn is_gc;
	PyTypeObject *code;
	PyObject *names[N_PARTS];
} walk;

static uint32_t forever; /* low half of an immortal object's count; 0 = there are none */

static uint32_t count_of(PyObject *o)
{
	uint32_t low;

	memcpy(&low, o, sizeof(low)); /* ob_refcnt is the first member; little endian */
	return low;
}

void immortal_learn(void)
{
	uint32_t low = count_of(Py_None);

	forever = low > INT32_MAX && sizeof(void *) == sizeof(uint64_t) ? low : 0;
}

static size_t slot_of(const struct walk *w, const PyObject *o)
{
	size_t at = ((uintptr_t)o >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20 & (w->size - 1);

	while (w->table[at] && w->table[at] != o)
		at = (at + 1) & (w->size - 1);
	return at;
}

static int grow(struct walk *w)
{
	struct walk bigger = *w;

	bigger.size = w->size ? w->size * 2 : TABLE_START;
	bigger.table = calloc(bigger.size, sizeof(void *));
	bigger.list = realloc(w->list, bigger.size / 2 * sizeof(void *));
	if (bigger.list)
		w->list = bigger.list;
	if (!bigger.table || !bigger.list) {
		free(bigger.table);
		return -1;
	}
	for (size_t i = 0; i < w->n; i++)
		bigger.table[slot_of(&bigger, w->list[i])] = w->list[i];
	free(w->table);
	*w = bigger;
	return 0;
}

static int add(PyObject *o, void *arg)
{
	struct walk *w = arg;

	if (w->n >= w->size / 2 && grow(w) < 0) {
		w->failed = 1;
		return -1;
	}
	size_t at = slot_of(w, o);
	if (!w->table[at]) {
		w->table[at] = o;
		w->list[w->n++] = o;
	}
	return 0;
}

/* The object that an attribute is made of on the way lives on: it is in the list. */
static void add_parts(struct walk *w, PyObject *o, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		PyObject *part = PyObject_GetAttr(o, w->names[i]);
		if (part)
			(void)add(part, w);
		else
			PyErr_Clear();
	}
}

/* Made once and kept: nothing may be freed during the walk, for the table of interned strings,
 * which is walked too, refers to them without being counted. */
static int make_names(struct walk *w)
{
	for (size_t i = 0; i < N_PARTS; i++)
		if (!(w->names[i] = PyUnicode_InternFromString(part_names[i])))
			return -1;
	return 0;
}

static void look_into(struct walk *w, PyObject *o)
{
	if (w->is_gc(o)) {
		union {
			void *object;
			traverseproc function;
		} u = {.object = PyType_GetSlot(Py_TYPE(o), Py_tp_traverse)};
		if (u.object)
			(void)u.function(o, add, w);
	} else if (PyType_Check(o)) {
		add_parts(w, o, 0, TYPE_PARTS);
	} else if (Py_TYPE(o) == w->code) {
		add_parts(w, o, TYPE_PARTS, N_PARTS);
	}
}

long immortal_make(PyObject *known, PyObject *code)
{
	union {
		void *object;
		is_gc_fn function;
	} u = {.object = dlsym(RTLD_DEFAULT, "PyObject_IS_GC")};
	struct walk *w = &walk;
	long made = 0;

	*w = (struct walk){.is_gc = u.function, .code = (PyTypeObject *)code};
	if (!forever || !u.object)
		return 0;
	if (make_names(w) < 0) {
		PyErr_Clear();
		return 0;
	}
	for (Py_ssize_t i = 0; i < PyList_Size(known) && !w->failed; i++)
		(void)add(PyList_GetItem(known, i), w);
	while (w->done < w->n && !w->failed)
		look_into(w, w->list[w->done++]);
	for (size_t i = 0; i < w->n; i++)
		if (w->list[i] != known && count_of(w->list[i]) < INT32_MAX) {
			memcpy(w->list[i], &forever, sizeof(forever));
			made++;
		}
	free(w->list);
	free(w->table);
	return made;
}
