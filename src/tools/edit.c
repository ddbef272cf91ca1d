/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/edit.h"

#include "base/fdio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)256 << 10)
#define LOOK_BYTES  8192u /* a NUL byte among this many first bytes means that it is not text */

struct sink {
	struct edit *edit;
	int fd;
	size_t n;
	char *bytes; /* PIECE_BYTES */
};

static int sink_flush(struct sink *s)
{
	const int r = fd_write_all(s->fd, s->bytes, s->n);

	s->n = 0;
	return r;
}

static int sink_add(struct sink *s, const char *p, size_t len)
{
	if (s->edit->matches > 1 && !s->edit->all) /* from here on they are only counted */
		return 0;
	if (len > s->edit->most - s->edit->len)
		return -EFBIG;
	s->edit->len += len;
	if (len > PIECE_BYTES - s->n) {
		const int r = sink_flush(s);

		if (r < 0)
			return r;
	}
	if (len > PIECE_BYTES)
		return fd_write_all(s->fd, p, len);
	memcpy(s->bytes + s->n, p, len);
	s->n += len;
	return 0;
}

/* Replaces in the N bytes of TEXT. Returns how many of them are done with: a match could begin in the rest. Or -errno. */
static ssize_t replace(struct sink *s, const char *text, size_t n, bool last)
{
	struct edit *e = s->edit;
	const char *p = text, *end = text + n, *at;
	int r = 0;

	while (r == 0 && (at = memmem(p, (size_t)(end - p), e->old_text, e->old_len))) {
		e->matches++;
		r = sink_add(s, p, (size_t)(at - p));
		r = r < 0 ? r : sink_add(s, e->new_text, e->new_len);
		p = at + e->old_len;
	}
	const size_t left = (size_t)(end - p);
	const size_t kept = last ? 0 : MIN(left, e->old_len - 1);
	r = r < 0 ? r : sink_add(s, p, left - kept);
	return r < 0 ? r : (ssize_t)(n - kept);
}

static ssize_t read_some(int fd, char *to, size_t len, uint64_t at)
{
	ssize_t n;

	do
		n = pread(fd, to, len, (off_t)at);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static int apply(struct sink *s, int from, char *window)
{
	const size_t room = s->edit->old_len - 1 + PIECE_BYTES;
	uint64_t at = 0;
	size_t have = 0;

	for (;;) {
		const ssize_t n = read_some(from, window + have, room - have, at);

		if (n < 0)
			return (int)n;
		if (at < LOOK_BYTES &&
		    memchr(window + have, '\0', MIN((size_t)n, (size_t)(LOOK_BYTES - at))))
			return -EILSEQ;
		at += (uint64_t)n;
		have += (size_t)n;
		const ssize_t done = replace(s, window, have, n == 0);
		if (done < 0)
			return (int)done;
		if (n == 0)
			return sink_flush(s);
		have -= (size_t)done;
		memmove(window, window + done, have);
	}
}

uint64_t edit_bound(const struct edit *e, uint64_t size)
{
	const uint64_t matches = e->all ? size / e->old_len : 1;
	uint64_t more;

	if (e->new_len <= e->old_len)
		return MIN(size, e->most);
	if (__builtin_mul_overflow(matches, e->new_len - e->old_len, &more) ||
	    __builtin_add_overflow(more, size, &more))
		return e->most;
	return MIN(more, e->most);
}

static char *with_crlf(const char *text, size_t len, size_t *ret_len)
{
	char *out = malloc(2 * len + 1), *to = out;

	for (size_t i = 0; out && i < len; i++) {
		if (text[i] == '\n' && (i == 0 || text[i - 1] != '\r'))
			*to++ = '\r';
		*to++ = text[i];
	}
	*ret_len = out ? (size_t)(to - out) : 0;
	return out;
}

int edit_apply_lines(struct edit *e, int from, int to)
{
	_cleanup_free_ char *old = NULL, *new = NULL;
	struct edit other = *e;
	int r = edit_apply(e, from, to);

	if (r < 0 || e->matches > 0 || !memchr(e->old_text, '\n', e->old_len))
		return r;
	old = with_crlf(e->old_text, e->old_len, &other.old_len);
	new = with_crlf(e->new_text, e->new_len, &other.new_len);
	if (!old || !new || ftruncate(to, 0) < 0 || lseek(to, 0, SEEK_SET) < 0)
		return !old || !new ? -ENOMEM : -errno;
	other.old_text = old;
	other.new_text = new;
	r = edit_apply(&other, from, to);
	e->matches = other.matches;
	e->len = other.len;
	e->crlf = other.matches > 0;
	return r;
}

int edit_apply(struct edit *e, int from, int to)
{
	_cleanup_free_ char *window = malloc(e->old_len - 1 + PIECE_BYTES);
	_cleanup_free_ char *bytes = malloc(PIECE_BYTES);
	struct sink s = {.edit = e, .fd = to, .bytes = bytes};

	e->matches = e->len = 0;
	return window && bytes ? apply(&s, from, window) : -ENOMEM;
}
