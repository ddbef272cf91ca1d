/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator that fails when it is told to. ENOMEM_CONTROL names a file of struct control, which
 * the test writes and reads while the server runs. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct control {
	int64_t fail_at; /* allocations until one fails: 1 = the next; 0 = none will */
	int64_t fired;   /* failures so far */
	int64_t live;    /* blocks that were allocated and not freed */
};

static struct control idle, *control = &idle;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void (*real_free)(void *);

/* dlsym(3) itself may allocate before we know the real functions. */
static char early[8192] __attribute__((aligned(16)));
static size_t early_used;

static void *early_alloc(size_t size)
{
	void *p = early + early_used;

	early_used += (size + 15) & ~(size_t)15;
	if (early_used > sizeof(early))
		abort();
	return p;
}

static int is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof(early);
}

static void *find(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (!p)
		abort();
	return p;
}

/* SQLite caches pages of the database up to a limit that one test does not reach. A database that
 * grows by a row for each request would look like a leak, so blocks of a page or more that SQLite
 * holds are not counted as live. They fail like all others. */
#define PAGE_BYTES 4096

static sqlite3_mem_methods sqlite;

static void count_page(void *p, int64_t n)
{
	if (p && sqlite.xSize(p) >= PAGE_BYTES)
		(void)__atomic_add_fetch(&control->live, n, __ATOMIC_RELAXED);
}

static void *sqlite_malloc(int size)
{
	void *p = sqlite.xMalloc(size);

	count_page(p, -1);
	return p;
}

static void sqlite_free(void *p)
{
	count_page(p, 1);
	sqlite.xFree(p);
}

static void *sqlite_realloc(void *p, int size)
{
	count_page(p, 1);
	void *q = sqlite.xRealloc(p, size);
	count_page(q ? q : p, -1); /* P lives on when there is no other */
	return q;
}

static void hook_sqlite(void)
{
	int (*config)(int, ...) = (int (*)(int, ...))dlsym(RTLD_DEFAULT, "sqlite3_config");

	if (!config) /* the program that starts the server as another user has no SQLite */
		return;
	if (config(SQLITE_CONFIG_GETMALLOC, &sqlite) != SQLITE_OK)
		abort();
	sqlite3_mem_methods ours = sqlite;
	ours.xMalloc = sqlite_malloc;
	ours.xFree = sqlite_free;
	ours.xRealloc = sqlite_realloc;
	if (config(SQLITE_CONFIG_MALLOC, &ours) != SQLITE_OK)
		abort();
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("ENOMEM_CONTROL");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (!real_malloc)
		real_malloc = (void *(*)(size_t))find("malloc");
	if (fd < 0)
		return;
	p = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);
	if (p != MAP_FAILED)
		control = p;
	hook_sqlite();
}

static int fails(void)
{
	if (__atomic_load_n(&control->fail_at, __ATOMIC_RELAXED) <= 0 ||
	    __atomic_sub_fetch(&control->fail_at, 1, __ATOMIC_RELAXED) != 0)
		return 0;
	(void)__atomic_add_fetch(&control->fired, 1, __ATOMIC_RELAXED);
	errno = ENOMEM;
	return 1;
}

static void *count(void *p)
{
	if (p)
		(void)__atomic_add_fetch(&control->live, 1, __ATOMIC_RELAXED);
	return p;
}

EXPORT void *malloc(size_t size)
{
	if (!real_malloc)
		real_malloc = (void *(*)(size_t))find("malloc");
	return fails() ? NULL : count(real_malloc(size));
}

EXPORT void *calloc(size_t n, size_t size)
{
	static int finding;

	if (!real_calloc) {
		if (finding)
			return early_alloc(n * size);
		finding = 1;
		real_calloc = (void *(*)(size_t, size_t))find("calloc");
		finding = 0;
	}
	return fails() ? NULL : count(real_calloc(n, size));
}

EXPORT void *realloc(void *p, size_t size)
{
	if (!real_realloc)
		real_realloc = (void *(*)(void *, size_t))find("realloc");
	if (fails())
		return NULL;
	if (is_early(p)) {
		void *q = malloc(size);

		return q ? memcpy(q, p, size) : NULL;
	}
	return p ? real_realloc(p, size) : count(real_realloc(p, size));
}

EXPORT void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, bytes);
}

EXPORT void free(void *p)
{
	if (!p || is_early(p))
		return;
	if (!real_free)
		real_free = (void (*)(void *))find("free");
	(void)__atomic_sub_fetch(&control->live, 1, __ATOMIC_RELAXED);
	real_free(p);
}
