/* SPDX-License-Identifier: Apache-2.0 */
#include "base/libcurl.h"

#include <dlfcn.h>
#include <unistd.h>

struct libcurl libcurl;
static bool is_inside;

/* Debian's build with GnuTLS has a name of its own. */
static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4"};

static int look_up(void *library, struct err *e)
{
	bool all = true;

#define FIND(name) all = (*(void **)&name = dlsym(library, #name)) && all;
	LIBCURL_FUNCTIONS(FIND)
#undef FIND
	return all ? 0 : err_set(e, ERR_SYSTEM, ENOSYS, "this libcurl is too old: 7.66 is needed");
}

static int take_inside(struct err *e UNUSED)
{
#ifdef CAISSON_LIBCURL_INSIDE
	libcurl = libcurl_inside;
	is_inside = true;
	return 0;
#else
	return err_set(e, ERR_SYSTEM, ENOENT, "libcurl is not installed (Debian: libcurl3-gnutls)");
#endif
}

int libcurl_load(struct err *e)
{
	static bool loaded;
	void *library = NULL;

	if (loaded)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(names) && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	int r = library ? look_up(library, e) : take_inside(e); /* it stays open for good */

	if (r == 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		r = err_set(e, ERR_SYSTEM, ENOMEM, "libcurl");
	loaded = r == 0;
	if (!loaded)
		libcurl = (struct libcurl){0};
	return r;
}

const char *libcurl_certificates(void)
{
	/* Debian, Fedora, openSUSE, Alpine. */
	static const char *const files[] = {"/etc/ssl/certs/ca-certificates.crt",
					    "/etc/pki/tls/certs/ca-bundle.crt",
					    "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

	for (size_t i = 0; i < ARRAY_SIZE(files) && is_inside; i++)
		if (access(files[i], R_OK) == 0)
			return files[i];
	return is_inside ? "" : NULL;
}

CURLcode libcurl_only_http(CURL *handle)
{
	/* CURLOPT_PROTOCOLS, whose name is deprecated: all that libcurl has before 7.85. */
	const CURLoption numbered = (CURLoption)(CURLOPTTYPE_LONG + 181);
	const CURLoption named = (CURLoption)(CURLOPTTYPE_STRINGPOINT + 318);
	CURLcode r = curl_easy_setopt(handle, named, "http,https");

	return r == CURLE_UNKNOWN_OPTION
		   ? curl_easy_setopt(handle, numbered, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS))
		   : r;
}
