/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <string.h>

#define BUF_MIN_CAP 64

void buf_init(struct buf *b, size_t max)
{
	*b = BUF_INIT(max);
}

void buf_done(struct buf *b)
{
	free(b->data);
	*b = BUF_INIT(b->max);
}

void buf_reset(struct buf *b)
{
	b->len = 0;
	if (b->data)
		b->data[0] = '\0';
}

int buf_reserve(struct buf *b, size_t more)
{
	size_t need;

	if (__builtin_add_overflow(b->len, more, &need) || need > b->max)
		return -ENOBUFS;
	if (b->data && need < b->cap)
		return 0;
	size_t cap = MAX(b->cap + b->cap / 2, MAX(need + 1, (size_t)BUF_MIN_CAP));
	if (cap > b->max + 1)
		cap = b->max + 1;
	char *data = realloc(b->data, cap);
	if (!data)
		return -ENOMEM;
	if (!b->data)
		data[0] = '\0';
	b->data = data;
	b->cap = cap;
	return 0;
}

void buf_trim(struct buf *b)
{
	char *data = b->data ? realloc(b->data, b->len + 1) : NULL;

	if (!data)
		return;
	b->data = data;
	b->cap = b->len + 1;
}

int buf_add(struct buf *b, const void *data, size_t len)
{
	int r = buf_reserve(b, len);
	if (r < 0)
		return r;
	if (len > 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
	return 0;
}

int buf_add_str(struct buf *b, const char *s)
{
	return buf_add(b, s, strlen(s));
}

int buf_add_char(struct buf *b, char c)
{
	return buf_add(b, &c, 1);
}

int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;

	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0)
		return -EINVAL;
	int r = buf_reserve(b, (size_t)n);
	if (r < 0)
		return r;
	(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	b->len += (size_t)n;
	return 0;
}

int buf_add_shell_word(struct buf *b, const char *word)
{
	int r = buf_add_str(b, b->len > 0 ? " '" : "'");

	for (const char *c = word; r == 0 && *c; c++)
		r = *c == '\'' ? buf_add_str(b, "'\\''") : buf_add_char(b, *c);
	return r < 0 ? r : buf_add_char(b, '\'');
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int r = buf_vprintf(b, fmt, ap);
	va_end(ap);
	return r;
}

void buf_consume(struct buf *b, size_t n)
{
	ASSERT(n <= b->len);
	if (n == 0)
		return;
	memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
	b->data[b->len] = '\0';
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
	if (!b->data && buf_reserve(b, 0) < 0)
		return NULL;
	char *s = b->data;
	*b = BUF_INIT(b->max);
	return s;
}
