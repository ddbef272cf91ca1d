/* SPDX-License-Identifier: Apache-2.0 */
#include "base/jsonio.h"

#include <string.h>

#define RESERVE_BYTES (512u << 10)
#define TEXT_MAX      (1u << 30)

/* ---- reading ----
 *
 * While a text is read, an allocation that fails takes its block from a reserve, so that jansson
 * never sees a failure; and the text ends at once, so that the reserve is enough: at most one piece
 * of input (1 KiB) is still turned into values, and one string (its scanner's limit) copied. */

static struct {
	_Alignas(16) char space[RESERVE_BYTES];
	size_t used;
	bool starved;
	json_malloc_t malloc; /* what jansson uses while nothing is being read */
	json_free_t free;
} reserve;

static bool is_reserved(const void *p)
{
	return (const char *)p >= reserve.space && (const char *)p < reserve.space + RESERVE_BYTES;
}

static void *take(size_t size)
{
	void *p = reserve.malloc(size);

	if (p)
		return p;
	reserve.starved = true;
	if (size > RESERVE_BYTES - reserve.used)
		return NULL;
	p = reserve.space + reserve.used;
	reserve.used += (size + 15) & ~(size_t)15;
	return p;
}

static void give(void *p)
{
	if (!is_reserved(p))
		reserve.free(p);
}

struct source {
	const char *text;
	size_t left;
};

static size_t feed(void *ret, size_t size, void *user)
{
	struct source *s = user;
	const size_t n = MIN(size, s->left);

	if (reserve.starved)
		return (size_t)-1;
	memcpy(ret, s->text, n);
	s->text += n;
	s->left -= n;
	return n;
}

int jsonio_read(const char *text, size_t len, size_t flags, json_t **ret, json_error_t *e)
{
	struct source source = {text, len};

	json_get_alloc_funcs(&reserve.malloc, &reserve.free);
	json_set_alloc_funcs(take, give);
	reserve.starved = false;
	reserve.used = 0;
	*ret = json_load_callback(feed, &source, flags, e);
	if (reserve.starved) { /* parts of it lie in the reserve */
		json_decref(*ret);
		*ret = NULL;
	}
	json_set_alloc_funcs(reserve.malloc, reserve.free);
	if (reserve.starved)
		return -ENOMEM;
	return *ret ? 0 : -EBADMSG;
}

/* ---- writing ---- */

struct sink {
	struct buf *b;
	int r; /* the first failure: jansson ignores some */
};

static int put(const char *data, size_t len, void *user)
{
	struct sink *s = user;

	if (s->r == 0)
		s->r = buf_add(s->b, data, len);
	return s->r;
}

int jsonio_add(struct buf *b, const json_t *value, size_t flags)
{
	struct sink s = {.b = b};

	if (!value)
		return -ENOMEM;
	if (json_dump_callback(value, put, &s, flags) < 0 && s.r == 0)
		return -ENOMEM;
	return s.r;
}

char *jsonio_text(const json_t *value, size_t flags, size_t *ret_len)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(TEXT_MAX);

	if (jsonio_add(&b, value, flags) < 0)
		return NULL;
	*ret_len = b.len;
	return buf_take(&b);
}
