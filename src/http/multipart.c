/* SPDX-License-Identifier: Apache-2.0 */
/* The parser's state machine. A boundary is searched by its first byte, CR. CR occurs nowhere else
 * in a boundary, so after a failed match none of the bytes behind the first one can begin another
 * match. */
#include "http/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LINE_END 2 /* CR LF, the first bytes of the delimiter */

/* Uses bytes from the front of P. Returns how many, or a negative errno. */
typedef int64_t (*step_fn)(struct multipart *m, const char *p, size_t n, struct err *e);

static int bad(struct err *e, const char *what)
{
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "the form is broken: %s", what);
	return -EINVAL;
}

int multipart_init(struct multipart *m, const char *content_type, const struct multipart_ops *ops,
		   void *user, struct err *e)
{
	char boundary[MULTIPART_BOUNDARY_MAX + 1];
	const int r = multipart_boundary(content_type, boundary, e);

	if (r < 0)
		return r;
	m->ops = ops;
	m->user = user;
	m->state = MULTIPART_DATA;
	m->in_part = false;
	m->stop = false;
	m->delimiter_len =
	    (size_t)snprintf(m->delimiter, sizeof(m->delimiter), "\r\n--%s", boundary);
	/* The first boundary has no line end before it; we pretend that one was there. */
	m->matched = m->virtual = LINE_END;
	m->padding = 0;
	m->n_parts = 0;
	m->head_len = 0;
	return 0;
}

static int emit(struct multipart *m, const char *p, size_t n, struct err *e)
{
	return m->in_part && n > 0 ? m->ops->on_data(p, n, m->user, e) : 0;
}

/* The delimiter is complete. The first DATA bytes of this piece were before it. */
static int end_data(struct multipart *m, const char *p, size_t data, struct err *e)
{
	int r = emit(m, p, data, e);

	if (r < 0)
		return r;
	m->state = MULTIPART_BOUNDARY;
	m->matched = m->virtual = m->padding = 0;
	if (!m->in_part)
		return 0;
	m->in_part = false;
	return m->ops->on_part_end(m->user, e);
}

static int64_t step_data(struct multipart *m, const char *p, size_t n, struct err *e)
{
	size_t earlier = m->matched; /* bytes that matched in earlier pieces */
	size_t i = 0;
	int r;

	while (i < n) {
		if (m->matched == 0) {
			const char *cr = memchr(p + i, '\r', n - i);

			i = cr ? (size_t)(cr - p) + 1 : n;
			m->matched = cr != NULL;
			continue;
		}
		if (p[i] == m->delimiter[m->matched]) {
			i++;
			if (++m->matched < m->delimiter_len)
				continue;
			r = end_data(m, p, i - (m->matched - earlier), e);
			return r < 0 ? r : (int64_t)i;
		}
		/* This was not the boundary, so the bytes that were held back from earlier pieces
		 * are data. */
		if (earlier > 0) {
			r = emit(m, m->delimiter + m->virtual, earlier - m->virtual, e);
			if (r < 0)
				return r;
			earlier = 0;
		}
		m->matched = m->virtual = 0;
	}
	r = emit(m, p, n - (m->matched - earlier), e);
	return r < 0 ? r : (int64_t)n;
}

static int64_t step_boundary(struct multipart *m, const char *p, size_t n UNUSED, struct err *e)
{
	switch (*p) {
	case '-':
		if (m->padding > 0)
			return bad(e, "a line goes on behind the boundary");
		m->state = MULTIPART_DASH;
		return 1;
	case '\r':
		m->state = MULTIPART_LINE_END;
		return 1;
	case ' ':
	case '\t':
		m->state = MULTIPART_PADDING;
		if (m->padding++ == MULTIPART_PADDING_MAX)
			return bad(e, "too many blanks behind a boundary");
		return 1;
	default:
		return bad(e, "a line goes on behind the boundary");
	}
}

static int64_t step_dash(struct multipart *m, const char *p, size_t n UNUSED, struct err *e)
{
	if (*p != '-')
		return bad(e, "a line goes on behind the boundary");
	m->state = MULTIPART_EPILOGUE;
	return 1;
}

static int64_t step_line_end(struct multipart *m, const char *p, size_t n UNUSED, struct err *e)
{
	if (*p != '\n')
		return bad(e, "the line of a boundary does not end with CR LF");
	if (m->n_parts++ == MULTIPART_PARTS_MAX) {
		(void)err_set(e, ERR_UPLOAD_TOO_LARGE, 0, "the form has more than %d parts",
			      MULTIPART_PARTS_MAX);
		return -E2BIG;
	}
	m->state = MULTIPART_HEAD;
	m->head_len = 0;
	return 1;
}

static int end_head(struct multipart *m, struct err *e)
{
	struct multipart_part part = {0};
	int r;

	m->head_len -= LINE_END; /* the blank line */
	m->head[m->head_len] = '\0';
	r = multipart_head_parse(m->head, m->head_len, &part, e);
	if (r < 0)
		return r;
	m->state = MULTIPART_DATA;
	m->in_part = true;
	/* The blank line of the head may itself be the line end before the boundary of an empty
	 * part. */
	m->matched = m->virtual = LINE_END;
	r = m->ops->on_part(&part, m->user, e);
	if (r < 0)
		return r;
	m->stop = r == MULTIPART_STOP;
	return 0;
}

static int64_t step_head(struct multipart *m, const char *p, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (m->head_len == MULTIPART_HEAD_MAX)
			return bad(e, "the head of a part is too long");
		m->head[m->head_len++] = p[i];
		const char *end = m->head + m->head_len;
		if (p[i] != '\n' ||
		    !(m->head_len == 2 ? memcmp(end - 2, "\r\n", 2) == 0
				       : m->head_len > 4 && memcmp(end - 4, "\r\n\r\n", 4) == 0))
			continue;
		const int r = end_head(m, e);
		return r < 0 ? r : (int64_t)i + 1;
	}
	return (int64_t)n;
}

static int64_t step_epilogue(struct multipart *m UNUSED, const char *p UNUSED, size_t n,
			     struct err *e UNUSED)
{
	return (int64_t)n;
}

int multipart_feed(struct multipart *m, const void *data, size_t len, size_t *ret_taken,
		   struct err *e)
{
	static const step_fn steps[] = {
	    [MULTIPART_DATA] = step_data,         [MULTIPART_BOUNDARY] = step_boundary,
	    [MULTIPART_DASH] = step_dash,         [MULTIPART_PADDING] = step_boundary,
	    [MULTIPART_LINE_END] = step_line_end, [MULTIPART_HEAD] = step_head,
	    [MULTIPART_EPILOGUE] = step_epilogue,
	};
	const char *p = data;

	m->stop = false;
	while (len > 0 && !m->stop) {
		const int64_t used = steps[m->state](m, p, len, e);

		if (used < 0)
			return (int)used;
		p += used;
		len -= (size_t)used;
	}
	*ret_taken = (size_t)(p - (const char *)data);
	return 0;
}

int multipart_end(const struct multipart *m, struct err *e)
{
	return m->state == MULTIPART_EPILOGUE ? 0 : bad(e, "it ends before its last boundary");
}
