/* SPDX-License-Identifier: Apache-2.0 */
/* Python's small objects in one place.
 *
 * CPython takes memory for small objects in arenas (256 KiB, since 3.10 1 MiB), each a mapping of
 * its own that the kernel puts into any gap between libraries. Huge pages need 2 MiB in a row. So
 * the zygote hands out arenas from one reserved range; after the imports it is collapsed into huge
 * pages, and a fork of it copies and frees one page table entry where there were 512.
 *
 * PyObject_SetArenaAllocator() is public but not of the limited API: it is looked up, and without
 * it all stays as it was. The range is not counted as memory until it is handed out (PROT_NONE). */
#include "extension.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANGE_BYTES ((size_t)256 << 20)
#define HUGE_BYTES  ((size_t)2 << 20)
#define CLASS_BYTES ((size_t)16)  /* between the size classes of small objects */
#define SMALL_MAX   ((size_t)512) /* the largest of them */
#define BLOCK_MAX   ((size_t)64 << 10)
#define BLOCK_FINE  ((size_t)4096) /* up to here every size of the C library's, then in steps */
#define BLOCK_STEP  ((size_t)1024)
#define FILL_MAX    ((size_t)48 << 20) /* bytes in all; far above what is ever free */

struct arena_allocator { /* PyObjectArenaAllocator of cpython/pymem.h */
	void *ctx;
	void *(*alloc)(void *ctx, size_t size);
	void (*free)(void *ctx, void *p, size_t size);
};
typedef void (*arena_fn)(struct arena_allocator *a);

static struct {
	char *next, *end;
	struct arena_allocator before;
} range;

static void *take(void *ctx, size_t size)
{
	(void)ctx;
	if (size <= (size_t)(range.end - range.next) &&
	    mprotect(range.next, size, PROT_READ | PROT_WRITE) == 0) {
		char *p = range.next;
		range.next += size;
		return p;
	}
	return range.before.alloc(range.before.ctx, size);
}

/* What is given back is given back to the kernel; the addresses are not used again, there are
 * enough. */
static void give(void *ctx, void *p, size_t size)
{
	(void)ctx;
	if ((char *)p < range.end && (char *)p >= range.end - RANGE_BYTES)
		(void)munmap(p, size);
	else
		range.before.free(range.before.ctx, p, size);
}

/* The function of that name in the interpreter; a void pointer is one to a function by POSIX
 * (dlsym(3)). */
static arena_fn find(const char *name)
{
	union {
		void *object;
		arena_fn function;
	} u = {.object = dlsym(RTLD_DEFAULT, name)};

	return u.function;
}

void arena_gather(void)
{
	arena_fn get = find("PyObject_GetArenaAllocator");
	arena_fn set = find("PyObject_SetArenaAllocator");
	struct arena_allocator own = {.alloc = take, .free = give};

	if (!get || !set)
		return;
	char *p = mmap(NULL, RANGE_BYTES + HUGE_BYTES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return;
	range.next = (char *)(((uintptr_t)p + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1));
	range.end = range.next + RANGE_BYTES;
	get(&range.before);
	set(&own);
}

/* Takes blocks of SIZE, *LEFT bytes at most, until one comes from where nothing has been. */
static void fill_class(size_t size, void *(*get)(size_t size), const char *from, const char *to,
		       size_t *left)
{
	while (*left >= size) {
		const char *p = get(size);
		if (!p || (p >= from && p < to))
			break;
		*left -= size;
	}
}

static void fill_heap(size_t *left)
{
	union {
		void *object;
		struct mallinfo2 (*function)(void); /* glibc 2.33 */
	} u = {.object = dlsym(RTLD_DEFAULT, "mallinfo2")};

	if (!u.object)
		return;
	const char *end = sbrk(0);
	const char *top = end - u.function().keepcost;
	for (size_t size = BLOCK_MAX; size > SMALL_MAX;
	     size -= size > BLOCK_FINE ? BLOCK_STEP : CLASS_BYTES)
		fill_class(size, malloc, top, end + FILL_MAX, left);
}

size_t arena_fill(void)
{
	size_t left = FILL_MAX;

	if (!range.next || range.next == range.end - RANGE_BYTES)
		return 0; /* this interpreter has no arenas, or none here */
	const char *fresh = range.next;
	for (size_t size = CLASS_BYTES; size <= SMALL_MAX; size += CLASS_BYTES)
		fill_class(size, PyObject_Malloc, fresh, range.end, &left);
	fill_heap(&left);
	return FILL_MAX - left;
}
