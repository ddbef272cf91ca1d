/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/front/inside/records.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES 65536u
#define MARKS_MAX                                                                                  \
	(2 * RECORDS_MAX) /* of one run; others are text, so that a flood costs no more than text */

static const char head[] = "\033_caisson:";
static const char tail[] = "\033\\";
#define HEAD_LEN (sizeof(head) - 1)
#define KIND_AT  HEAD_LEN

/* ---- records ---- */

/* False: there is none. */
static bool take_record(struct records *r)
{
	char begin[RECORD_HEAD];
	uint32_t len;

	if (r->fd < 0 || r->n >= RECORDS_MAX || r->bytes >= RECORDS_BYTES ||
	    pread(r->fd, begin, sizeof(begin), (off_t)(RECORDS_AT + r->at)) != sizeof(begin) ||
	    memcmp(begin, RECORD_MAGIC, strlen(RECORD_MAGIC)) != 0)
		return false;
	memcpy(&len, begin + 8, sizeof(len));
	r->n++;
	if (len > RECORD_MAX) {
		r->fd = -1; /* nothing of ours writes such a one */
		return false;
	}
	_cleanup_free_ char *data = malloc(RECORD_HEAD + len);
	if (!data)
		return false;
	memcpy(data, begin, RECORD_HEAD);
	r->bytes += RECORD_HEAD + len; /* also of one that is cut: each mark would read it again */
	if (len > 0 && pread(r->fd, data + RECORD_HEAD, len,
			     (off_t)(RECORDS_AT + r->at + RECORD_HEAD)) != (ssize_t)len)
		return false;
	r->at += RECORD_HEAD + len;
	r->on_record(r->user, data, RECORD_HEAD + len);
	return true;
}

void records_take_rest(struct records *r)
{
	while (take_record(r))
		;
	r->fd = -1;
}

bool records_follow(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_size > (off_t)RECORDS_AT;
}

size_t records_text_in(const char *data, size_t len)
{
	while (len > 0 && data[len - 1] == '\0')
		len--;
	return len;
}

/* ---- marks ---- */

/* Whether the first N bytes of a mark may be P. */
static bool begins_mark(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (i < HEAD_LEN   ? p[i] != head[i]
		    : i == KIND_AT ? p[i] != 'B' && p[i] != 'E'
				   : p[i] != tail[i - KIND_AT - 1])
			return false;
	return true;
}

static void take_mark(struct records *r, char kind)
{
	r->marks++;
	if (kind == 'B')
		(void)take_record(r);
	else
		r->on_record(r->user, NULL, 0);
}

static void text(struct records *r, const char *data, size_t len)
{
	if (len > 0)
		r->on_text(r->user, data, len);
}

static void take_piece(struct records *r, const char *p, size_t len)
{
	const char *end = p + len, *from = p, *m;

	while (r->marks < MARKS_MAX &&
	       (m = memmem(from, (size_t)(end - from), head, HEAD_LEN)) != NULL) {
		from = m + 1;
		if ((size_t)(end - m) < RECORD_MARK)
			break;
		if (!begins_mark(m, RECORD_MARK))
			continue;
		text(r, p, (size_t)(m - p));
		take_mark(r, m[KIND_AT]);
		p = from = m + RECORD_MARK;
	}
	size_t held = r->marks < MARKS_MAX ? MIN((size_t)(end - p), (size_t)RECORD_MARK - 1) : 0;
	while (held > 0 && !begins_mark(end - held, held))
		held--;
	text(r, p, (size_t)(end - p) - held);
	memcpy(r->held, end - held, held);
	r->n_held = held;
}

void records_take_output(struct records *r, const char *data, size_t len)
{
	static char joined[RECORD_MARK + PIECE_BYTES]; /* one loop, one thread */

	while (len > 0) {
		const size_t n = MIN(len, (size_t)PIECE_BYTES), before = r->n_held;

		if (before == 0) {
			take_piece(r, data, n);
		} else {
			memcpy(joined, r->held, before);
			memcpy(joined + before, data, n);
			r->n_held = 0;
			take_piece(r, joined, before + n);
		}
		data += n;
		len -= n;
	}
}

void records_end_output(struct records *r)
{
	const size_t n = r->n_held;

	r->n_held = 0;
	text(r, r->held, n);
}
