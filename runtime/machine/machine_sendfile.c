/* SPDX-License-Identifier: Apache-2.0 */
/* sendfile(2) for programs that have no other way, such as nginx. The filter of system calls refuses it, since it puts pages of
 * files into sockets and pipes, and that code had bugs that gave root. Here the bytes are copied. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

#define PIECE_BYTES (32u << 10) /* on the stack of any thread */

__attribute__((visibility("default"))) ssize_t sendfile(int to, int from, off_t *at, size_t n);
__attribute__((visibility("default"))) ssize_t sendfile64(int to, int from, off_t *at, size_t n);

static ssize_t copy(int to, int from, off_t at, size_t n)
{
	char piece[PIECE_BYTES];
	size_t done = 0;

	while (done < n) {
		const size_t want = n - done < sizeof(piece) ? n - done : sizeof(piece);
		const ssize_t got = pread(from, piece, want, at + (off_t)done);
		const ssize_t put = got > 0 ? write(to, piece, (size_t)got) : got;

		if (put < 0 && done == 0) {
			errno = got < 0 && errno == ESPIPE ? EINVAL : errno;
			return -1;
		}
		done += put > 0 ? (size_t)put : 0;
		if (put < (ssize_t)want)
			break;
	}
	return (ssize_t)done;
}

/* off_t has 64 bits here. Other programs call the second name for that. */
ssize_t sendfile64(int to, int from, off_t *at, size_t n)
{
	const off_t begin = at ? *at : lseek(from, 0, SEEK_CUR);

	if (begin < 0) {
		errno = EINVAL;
		return -1;
	}
	const ssize_t done = copy(to, from, begin, n);
	if (done > 0 && at)
		*at = begin + done;
	else if (done > 0)
		(void)lseek(from, begin + done, SEEK_SET);
	return done;
}

ssize_t sendfile(int to, int from, off_t *at, size_t n)
{
	return sendfile64(to, from, at, n);
}
