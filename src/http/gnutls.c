/* SPDX-License-Identifier: Apache-2.0 */
#include "http/gnutls.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

struct gnutls tls;

int gnutls_load(struct err *e)
{
	static bool loaded;
	bool all = true;

	if (loaded)
		return 0;
	void *library =
	    dlopen("libgnutls.so.30", RTLD_NOW | RTLD_LOCAL); /* it stays open for good */
	if (!library)
		return err_set(e, ERR_SETTING_INVALID, ENOENT,
			       "TLS needs GnuTLS (Debian: libgnutls30)");
#define FIND(type, name, parameters)                                                               \
	all = (*(void **)&tls.name = dlsym(library, "gnutls_" #name)) && all;
	GNUTLS_FUNCTIONS(FIND)
#undef FIND
	if (!all)
		return err_set(e, ERR_SETTING_INVALID, ENOSYS, "this GnuTLS is too old for TLS");
	loaded = true;
	return 0;
}
