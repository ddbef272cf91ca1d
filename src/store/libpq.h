/* SPDX-License-Identifier: Apache-2.0 */
/* libpq, loaded by the first store that is in PostgreSQL: it brings a dozen libraries, which no other start has to load.
 *
 * Include this instead of <libpq-fe.h>. Once libpq_load() has returned 0, its functions are members of `pq`, without "PQ". */
#pragma once

#include "base/err.h"

#include <libpq-fe.h>

#define LIBPQ_FUNCTIONS(F)                                                                         \
	F(clear)                                                                                   \
	F(cmdStatus)                                                                               \
	F(cmdTuples)                                                                               \
	F(connectPoll)                                                                             \
	F(connectStartParams)                                                                      \
	F(conninfoFree)                                                                            \
	F(conninfoParse)                                                                           \
	F(consumeInput)                                                                            \
	F(errorMessage)                                                                            \
	F(finish)                                                                                  \
	F(flush)                                                                                   \
	F(freemem)                                                                                 \
	F(ftype)                                                                                   \
	F(getResult)                                                                               \
	F(getisnull)                                                                               \
	F(getvalue)                                                                                \
	F(isBusy)                                                                                  \
	F(nfields)                                                                                 \
	F(notifies)                                                                                \
	F(ntuples)                                                                                 \
	F(parameterStatus)                                                                         \
	F(resultErrorField)                                                                        \
	F(resultStatus)                                                                            \
	F(sendPrepare)                                                                             \
	F(sendQuery)                                                                               \
	F(sendQueryParams)                                                                         \
	F(sendQueryPrepared)                                                                       \
	F(serverVersion)                                                                           \
	F(setNoticeProcessor)                                                                      \
	F(setnonblocking)                                                                          \
	F(socket)                                                                                  \
	F(status)                                                                                  \
	F(unescapeBytea)

#define LIBPQ_MEMBER(name) __typeof__(PQ##name) *name;
struct libpq {
	LIBPQ_FUNCTIONS(LIBPQ_MEMBER)
};
#undef LIBPQ_MEMBER

extern struct libpq pq;

/* Further calls do nothing. Not while other threads use it, and before the process gives up the right to open files. */
int libpq_load(struct err *e) MUST_CHECK;
