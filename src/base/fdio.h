/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: whole reads and writes, passing descriptors, opening beneath a root. */
#pragma once

#include "base/attr.h"
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FDIO_PASS_MAX 16 /* descriptors per message */

/* Writes all of it. Restarts on EINTR and waits on EAGAIN, so it is for files and descriptors that
 * may block. */
int fd_write_all(int fd, const void *data, size_t len) MUST_CHECK;
/* Exactly LEN bytes; -ENODATA at an early end of file. */
int fd_read_exact(int fd, void *ret, size_t len) MUST_CHECK;
/* The last bytes of a regular file as a text of at most SIZE bytes with its NUL, without the newlines at its end. FD may be
 * -1. False: nothing is there. */
bool fd_read_last_words(int fd, char *ret, size_t size);
/* The whole file into B (bounded by its maximum: -ENOBUFS beyond). */
int fd_read_file(int fd, struct buf *b) MUST_CHECK;
int fd_set_nonblock(int fd, bool on) MUST_CHECK;
int fd_set_cloexec(int fd, bool on) MUST_CHECK;
/* Opens those of the descriptors 0 to 2 that are closed, so that no file or socket of ours gets such a number: log lines
 * would be written into it. A program calls this before it opens anything. */
void fd_open_standard(void);
/* Was standard output closed before that? What is written to it then is lost without an error. */
bool fd_stdout_was_closed(void);
/* A fresh copy with CLOEXEC, never below 3. */
int fd_dup(int fd) MUST_CHECK;

/* One message with N descriptors over a unix socket. Borrowed descriptors. MSG_NOSIGNAL; FLAGS as
 * sendmsg(2). Returns bytes sent or -errno. */
ssize_t fd_send(int sock, const void *data, size_t len, const int *fds, size_t n,
		int flags) MUST_CHECK;
/* One message; received descriptors have CLOEXEC and are owned by the caller; *RET_N gets their
 * count. More than FDIO_PASS_MAX or truncated control data: all are closed and -EPROTO comes back.
 * Returns the length (0 = the peer has closed). */
ssize_t fd_recv(int sock, void *ret, size_t len, int fds[FDIO_PASS_MAX], size_t *ret_n,
		int flags) MUST_CHECK;
/* The same, and also what came with a message that is refused is the caller's: closing it may have to wait. *RET_N is
 * always set. */
ssize_t fd_recv_all(int sock, void *ret, size_t len, int fds[FDIO_PASS_MAX], size_t *ret_n,
		    int flags);
void fd_close_many(int *fds, size_t n);
/* Closes every descriptor from FIRST on; for use between fork and exec. Linux >= 5.9. */
int fd_close_from(unsigned first) MUST_CHECK;

struct open_how; /* <linux/openat2.h> */
/* openat2(2), tried again when it says so: with RESOLVE_BENEATH or RESOLVE_IN_ROOT a `..`, also that of a link, fails with EAGAIN
 * whenever anything on the machine is renamed or mounted meanwhile. -ENOSYS: before Linux 5.6, and gVisor. */
int fd_openat2(int dir, const char *path, const struct open_how *how) MUST_CHECK;
/* The same with RESOLVE_BENEATH|NO_SYMLINKS|NO_MAGICLINKS|NO_XDEV and
 * O_CLOEXEC|O_NOCTTY|O_NONBLOCK|O_NOFOLLOW added to FLAGS: no name can lead out of DIR, block, or
 * follow a link. Linux >= 5.6; a kernel without it (gVisor's) gets one openat(2) for each part of PATH, and
 * `..` is refused there. */
int fd_open_beneath(int dir, const char *path, int flags, mode_t mode) MUST_CHECK;
/* Makes PATH and its missing parents, each with MODE. No error if it exists. */
int fd_make_dirs(const char *path, mode_t mode) MUST_CHECK;
/* A memfd with the bytes, sealed against every change. */
int fd_sealed_memfd(const char *name, const void *data, size_t len) MUST_CHECK;
/* Lets this process have as many descriptors as its hard limit permits. The usual soft limit of 1,024 exists
 * for select(2), which nothing here uses. */
void fd_raise_limit(void);
/* Whether the file system of the folder PATH can allocate blocks of a file before they are written, and make holes. True
 * if that cannot be tried. */
bool fd_folder_allocates(const char *path);
