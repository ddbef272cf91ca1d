/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a session at a fork, which has only the thread that called fork(3). The runtime of OpenMP in it
 * believes that its workers are there, and the next parallel region waits for them for ever (scikit-learn, LightGBM,
 * XGBoost, numba). omp_pause_resource_all(omp_pause_hard), OpenMP 5.0 section 3.2.44, ends them; the next parallel
 * region makes new ones, here and in the fork. libgomp pauses the workers of the calling thread alone: regions that
 * other threads have under way go on. */
#include "extension.h"

#include "old_libc.h"

#include <link.h>
#include <string.h>

#define PAUSE_HARD   2 /* omp_pause_hard */
#define RUNTIMES_MAX 8 /* a wheel brings a runtime of its own */

static const char *const names[] = {"libgomp", "libomp", "libiomp5"};

struct found {
	const char *path[RUNTIMES_MAX]; /* the loader's */
	size_t n;
};

/* dl_iterate_phdr(3). It holds a lock of the loader, so nothing is called here. */
static int find_one(struct dl_phdr_info *info, size_t size, void *data)
{
	struct found *f = data;

	(void)size;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && f->n < RUNTIMES_MAX; i++)
		if (strstr(info->dlpi_name, names[i])) { /* wheels add a hash to the name */
			f->path[f->n++] = info->dlpi_name;
			break;
		}
	return 0;
}

static void pause_one(const char *path)
{
	void *library = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
	int (*pause_all)(int) = NULL;

	if (!library)
		return;
	*(void **)&pause_all = dlsym(library, "omp_pause_resource_all");
	if (pause_all)
		(void)pause_all(PAUSE_HARD);
	(void)dlclose(library);
}

size_t threads_count(void)
{
	struct stat st;

	/* the links of a folder are "." and "..", and one from each folder in it */
	return old_stat("/proc/self/task", &st) == 0 && st.st_nlink > 2 ? st.st_nlink - 2 : 2;
}

void pools_pause(void)
{
	struct found f = {0};

	if (threads_count() == 1)
		return;
	(void)dl_iterate_phdr(find_one, &f);
	for (size_t i = 0; i < f.n; i++)
		pause_one(f.path[i]);
}
