/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps Python's small objects in one place.
 *
 * CPython allocates small objects in arenas of 256 KiB (1 MiB since 3.10). Each arena is a mapping
 * of its own, which the kernel puts into any gap between libraries. A huge page needs 2 MiB in a
 * row. So the zygote hands out arenas from one reserved range and turns that range into huge pages
 * after the imports. A fork then copies and frees one page table entry instead of 512.
 *
 * PyObject_SetArenaAllocator() is public but not part of the limited API, so it is looked up by
 * name. Without it nothing changes. The range is PROT_NONE until it is handed out, so it does not
 * count as memory. */
#include "extension.h"
#include "old_libc.h"

#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANGE_BYTES ((size_t)256 << 20)
#define HUGE_BYTES  ((size_t)2 << 20)
#define CLASS_BYTES ((size_t)16)  /* step between the size classes of small objects */
#define SMALL_MAX   ((size_t)512) /* the largest size class */
#define BLOCK_MAX   ((size_t)64 << 10)
#define BLOCK_FINE  ((size_t)4096) /* up to here every size class of malloc(3), above it in steps */
#define BLOCK_STEP  ((size_t)1024)
#define LARGE_MAX   ((size_t)1 << 20)
#define LARGE_STEP  ((size_t)32 << 10)
/* malloc(3) maps blocks of this size and more, and no smaller ones, because one was freed: a picture in
 * the making then uses the same pages again */
#define MMAP_FROM ((size_t)4 << 20)
#define FILL_MAX  ((size_t)48 << 20) /* bytes in all; far more than is ever free */

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

/* A freed arena goes back to the kernel. Its addresses are not used again; the range is large
 * enough. */
static void give(void *ctx, void *p, size_t size)
{
	(void)ctx;
	if ((char *)p < range.end && (char *)p >= range.end - RANGE_BYTES)
		(void)munmap(p, size);
	else
		range.before.free(range.before.ctx, p, size);
}

/* Looks up a function of the interpreter. POSIX permits the conversion from void pointer to
 * function pointer (dlsym(3)). */
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

/* Allocates blocks of SIZE, at most *LEFT bytes, until one comes from the untouched range FROM..TO.
 * Returns that one, or NULL. */
static void *fill_class(size_t size, void *(*get)(size_t size), const char *from, const char *to,
			size_t *left)
{
	while (*left >= size) {
		char *p = get(size);
		if (!p || (p >= from && p < to))
			return p;
		*left -= size;
	}
	return NULL;
}

static void fill_heap(size_t *left)
{
	union {
		void *object;
		struct mallinfo2 (*function)(void); /* glibc 2.33 */
	} u = {.object = dlsym(RTLD_DEFAULT, "mallinfo2")};

	if (!u.object)
		return;
	free(malloc(MMAP_FROM));
	const char *end = sbrk(0);
	const char *top = end - u.function().keepcost;
	for (size_t size = LARGE_MAX; size > BLOCK_MAX; size -= LARGE_STEP)
		free(fill_class(size, malloc, top, end + FILL_MAX, left));
	for (size_t size = BLOCK_MAX; size > SMALL_MAX;
	     size -= size > BLOCK_FINE ? BLOCK_STEP : CLASS_BYTES)
		(void)fill_class(size, malloc, top, end + FILL_MAX, left);
}

size_t arena_fill(void)
{
	size_t left = FILL_MAX;

	if (!range.next || range.next == range.end - RANGE_BYTES)
		return 0; /* no arena allocator, or no arena came from the range */
	const char *fresh = range.next;
	for (size_t size = CLASS_BYTES; size <= SMALL_MAX; size += CLASS_BYTES)
		(void)fill_class(size, PyObject_Malloc, fresh, range.end, &left);
	fill_heap(&left);
	return FILL_MAX - left;
}
