/* SPDX-License-Identifier: Apache-2.0 */
#include "store/libpq.h"

#include <dlfcn.h>

struct libpq pq;

int libpq_load(struct err *e)
{
	static bool loaded;
	bool all = true;

	if (loaded)
		return 0;
	void *library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL); /* it stays open for good */
	if (!library)
		return err_set(e, ERR_STORE_FAILED, ENOENT,
			       "the database is a PostgreSQL server, and libpq is not installed "
			       "(Debian: libpq5)");
#define FIND(name) all = (*(void **)&pq.name = dlsym(library, "PQ" #name)) && all;
	LIBPQ_FUNCTIONS(FIND)
#undef FIND
	if (!all)
		return err_set(e, ERR_STORE_FAILED, ENOSYS, "this libpq is too old");
	loaded = true;
	return 0;
}
