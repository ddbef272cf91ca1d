/* SPDX-License-Identifier: Apache-2.0 */
/* The environment inside a sandbox; nothing of the host's.
 * BOTH(text): of runs, unless the caller sets the variable, and of the zygote, so that what libraries
 *             compute while they are imported is right for runs
 * RUN(text), ZYGOTE(text): of one of them only */
BOTH("PATH=/usr/local/bin:/usr/bin:/bin")
BOTH("HOME=/home/sandbox")
BOTH("USER=sandbox")
BOTH("LOGNAME=sandbox")
BOTH("LANG=C.UTF-8")
BOTH("MPLBACKEND=Agg")
BOTH("MPLCONFIGDIR=/tmp/.config/matplotlib")
RUN("PYTHONUNBUFFERED=1")        /* programs started by name print at once, too */
RUN("TERM=dumb")                 /* without it, clear(1) and tput(1) complain on stderr */
RUN("PIP_RETRIES=0")             /* where there is no network, pip would try for eight seconds; where there is one, sandbox/network.c sets another number */
RUN("ASAN_OPTIONS=verify_asan_link_order=0") /* the library of runtime/machine comes before that of the sanitizer, and does it no harm */
ZYGOTE("OPENBLAS_NUM_THREADS=1") /* other threads do not survive fork(2) */
ZYGOTE("OMP_NUM_THREADS=1")
