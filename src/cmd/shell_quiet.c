/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/shell_quiet.h"

#include "base/fdio.h"
#include "base/rand.h"
#include "base/walls.h"

#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* A terminal answers in order. So when it has answered our own question, no other answer is on its way. */
#define WAIT_NS (UINT64_C(300) * 1000 * 1000) /* one that is far away, or answers nothing */

/* xterm's mouse (9, 1000 to 1016), focus (1004), pasted text (2004) and size (2048), then: are you there? */
static const char last_words[] =
    "\x1b[?9;1000;1001;1002;1003;1004;1005;1006;1015;1016l\x1b[?2004;2048l"
    "\x1b[5n";
static const char answer[] = "\x1b[0n";

bool shell_may_report(const void *data, size_t len)
{
	static const char asks[] = {0x05,
				    0x1b}; /* ENQ and ESC; the others are in C1 or behind it */

	for (size_t i = 0; i < sizeof(asks); i++)
		if (memchr(data, asks[i], len))
			return true;
	for (const unsigned char *p = data; len > 0; p++, len--)
		if (*p >= 0x80 && *p < 0xa0) /* C1, of terminals without UTF-8 */
			return true;
	return false;
}

/* How much of the answer is there after one byte more. */
static size_t match(size_t n, char byte)
{
	return byte == answer[n] ? n + 1 : byte == answer[0] ? 1 : 0;
}

static bool read_away(size_t *n)
{
	char bytes[256];
	const ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));

	for (ssize_t i = 0; i < got && *n < sizeof(answer) - 1; i++)
		*n = match(*n, bytes[i]);
	return got > 0;
}

void shell_quiet(void)
{
	const uint64_t until = now_ns() + WAIT_NS;
	size_t n = 0;

	if (!wall_stands(WALL_REPORTS) ||
	    fd_write_all(STDOUT_FILENO, last_words, sizeof(last_words) - 1) < 0)
		return;
	while (n < sizeof(answer) - 1) {
		struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
		const uint64_t t = now_ns();

		if (t >= until || poll(&p, 1, (int)((until - t) / 1000000) + 1) <= 0 ||
		    !read_away(&n))
			break;
	}
	if (n < sizeof(answer) - 1)
		(void)tcflush(STDIN_FILENO, TCIFLUSH);
}
