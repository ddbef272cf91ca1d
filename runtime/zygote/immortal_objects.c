/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the zygote's objects immortal, so that nobody counts references to them.
 *
 * Counting writes into the object. In a fork the first write into a page copies the page, and
 * splits a huge page. A run of one line wrote into some 300 pages in 40 huge pages only to count
 * references. Since 3.12 CPython has immortal objects (PEP 683): if the low half of a count is
 * negative, the count is left alone. The zygote's objects are never freed anyway. So before it
 * serves, all objects that the collector knows become immortal, and all that can be reached from
 * them.
 *
 * A program can see this only by sys.getrefcount() of objects that the image preloads.
 *
 * The mark is the count of None, read when the interpreter has just started. Without immortal
 * objects that count is a small number; in a free-threaded build the field has another meaning and
 * is 0. In both cases nothing is done. */
#include "extension.h"
#include "old_libc.h"

#include <string.h>
#include <sys/mman.h>

#define TABLE_START ((size_t)1 << 20) /* slots; a power of two */

/* Parts of static types and of code objects, which the collector does not traverse. */
static const char *const part_names[] = {"__dict__", "__mro__",     "__bases__",  "co_consts",
					 "co_names", "co_qualname", "co_filename"};
#define TYPE_PARTS 3 /* how many of them, from the first, belong to types */
#define N_PARTS    (sizeof(part_names) / sizeof(part_names[0]))

typedef int (*is_gc_fn)(PyObject *o);

/* The objects found: `list` in the order in which they were found, `table` to find an object only
 * once. */
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

static uint32_t forever; /* low half of an immortal object's count; 0 = the interpreter has none */

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

/* Of table and list together. They are in pages of their own: malloc(3) would leave a hole in the
 * heap, which forks would then fill. */
static size_t bytes_of(const struct walk *w)
{
	return (w->size + w->size / 2) * sizeof(void *);
}

static void drop(struct walk *w)
{
	if (w->table)
		(void)munmap(w->table, bytes_of(w));
}

static int grow(struct walk *w)
{
	struct walk bigger = *w;

	bigger.size = w->size ? w->size * 2 : TABLE_START;
	void *p = mmap(NULL, bytes_of(&bigger), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	if (p == MAP_FAILED)
		return -1;
	bigger.table = p;
	bigger.list = bigger.table + bigger.size;
	for (size_t i = 0; i < w->n; i++) {
		bigger.list[i] = w->list[i];
		bigger.table[slot_of(&bigger, w->list[i])] = w->list[i];
	}
	drop(w);
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

/* An attribute may be an object that was made for this call. The list keeps it alive. */
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

/* The names are made once and kept. Nothing may be freed during the walk: the table of interned
 * strings, which is walked too, refers to its strings without counting. */
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
	drop(w);
	return made;
}
