/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer with a fixed maximum. An append past the maximum fails with -ENOBUFS, one
 * without memory with -ENOMEM; both leave the buffer as it was. One byte beyond `len` is always
 * allocated and NUL, so `data` may be read as a string once `len` > 0 (buf_str() always). */
#pragma once

#include "base/attr.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data; /* owned */
	size_t len;
	size_t cap;
	size_t max; /* bytes; never exceeded */
};

#define BUF_INIT(max_bytes) ((struct buf){.max = (max_bytes)})

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);  /* frees, keeps the maximum; cleanup: _cleanup_(buf_done) */
void buf_reset(struct buf *b); /* len = 0, keeps the memory */
int buf_reserve(struct buf *b, size_t more) MUST_CHECK; /* room for MORE bytes after len */
void buf_trim(struct buf *b); /* gives back what it has not used of its memory */
int buf_add(struct buf *b, const void *data, size_t len) MUST_CHECK;
int buf_add_str(struct buf *b, const char *s) MUST_CHECK;
int buf_add_char(struct buf *b, char c) MUST_CHECK;
int buf_add_shell_word(struct buf *b, const char *word)
    MUST_CHECK; /* as a shell reads exactly it; after a blank unless first */
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF(2, 3) MUST_CHECK;
int buf_vprintf(struct buf *b, const char *fmt, va_list ap) MUST_CHECK PRINTF(2, 0);
void buf_consume(struct buf *b, size_t n); /* drops the first N bytes (N <= len) */
const char *buf_str(const struct buf *b);  /* borrowed; "" when empty */
char *buf_take(struct buf *b); /* owned string; the buffer is empty afterwards; NULL = no memory */
