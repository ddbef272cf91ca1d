/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, loaded by those who need it. It brings some thirty libraries with it, which every start of
 * every program would load and keep in memory; most never speak to another host by it. The portable
 * binary has one of its own inside, for machines that have none: the system's gets security updates,
 * so it comes first.
 *
 * Include this instead of <curl/curl.h>. Once libcurl_load() has returned 0, the functions listed here
 * are called by their own names, in this process and in what it forks. */
#pragma once

#include "base/err.h"

#define CURL_DISABLE_TYPECHECK /* its checks are functions of their own in every file */
#include <curl/curl.h>

#undef curl_easy_getinfo
#undef curl_easy_setopt
#undef curl_multi_setopt

#define LIBCURL_FUNCTIONS(F)                                                                       \
	F(curl_easy_cleanup)                                                                       \
	F(curl_easy_getinfo)                                                                       \
	F(curl_easy_init)                                                                          \
	F(curl_easy_perform)                                                                       \
	F(curl_easy_setopt)                                                                        \
	F(curl_easy_strerror)                                                                      \
	F(curl_free)                                                                               \
	F(curl_global_init)                                                                        \
	F(curl_multi_add_handle)                                                                   \
	F(curl_multi_cleanup)                                                                      \
	F(curl_multi_info_read)                                                                    \
	F(curl_multi_init)                                                                         \
	F(curl_multi_perform)                                                                      \
	F(curl_multi_poll)                                                                         \
	F(curl_multi_remove_handle)                                                                \
	F(curl_multi_setopt)                                                                       \
	F(curl_slist_append)                                                                       \
	F(curl_slist_free_all)                                                                     \
	F(curl_url)                                                                                \
	F(curl_url_cleanup)                                                                        \
	F(curl_url_get)                                                                            \
	F(curl_url_set)

#define LIBCURL_MEMBER(name) __typeof__(name) *name;
struct libcurl {
	LIBCURL_FUNCTIONS(LIBCURL_MEMBER)
};
#undef LIBCURL_MEMBER

extern struct libcurl libcurl;
extern const struct libcurl libcurl_inside; /* of the portable binary alone */

/* Loads and initializes the library; further calls do nothing. Not while other threads use it. Call it
 * before the process gives up the right to open files. Negative errno and E if it is not installed; the functions are NULL then. */
int libcurl_load(struct err *e);

/* The certificates that the one inside must be told of, as a path. NULL: libcurl knows them itself. "":
 * this machine has none. After libcurl_load(). */
const char *libcurl_certificates(void);

/* HANDLE speaks HTTP and HTTPS and nothing else, with old libraries, too. CURLE_OK, or what libcurl refused with. */
CURLcode libcurl_only_http(CURL *handle);

#ifndef LIBCURL_OWN_NAMES /* libcurl_inside.c takes the functions themselves */
#define curl_easy_cleanup        libcurl.curl_easy_cleanup
#define curl_easy_getinfo        libcurl.curl_easy_getinfo
#define curl_easy_init           libcurl.curl_easy_init
#define curl_easy_perform        libcurl.curl_easy_perform
#define curl_easy_setopt         libcurl.curl_easy_setopt
#define curl_easy_strerror       libcurl.curl_easy_strerror
#define curl_free                libcurl.curl_free
#define curl_global_init         libcurl.curl_global_init
#define curl_multi_add_handle    libcurl.curl_multi_add_handle
#define curl_multi_cleanup       libcurl.curl_multi_cleanup
#define curl_multi_info_read     libcurl.curl_multi_info_read
#define curl_multi_init          libcurl.curl_multi_init
#define curl_multi_perform       libcurl.curl_multi_perform
#define curl_multi_poll          libcurl.curl_multi_poll
#define curl_multi_remove_handle libcurl.curl_multi_remove_handle
#define curl_multi_setopt        libcurl.curl_multi_setopt
#define curl_slist_append        libcurl.curl_slist_append
#define curl_slist_free_all      libcurl.curl_slist_free_all
#define curl_url                 libcurl.curl_url
#define curl_url_cleanup         libcurl.curl_url_cleanup
#define curl_url_get             libcurl.curl_url_get
#define curl_url_set             libcurl.curl_url_set
#endif
