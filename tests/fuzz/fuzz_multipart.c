/* SPDX-License-Identifier: Apache-2.0 */
/* Forms. The first line of the input is the Content-Type, the rest the body. Properties: however
 * the body is split, the same is heard and the same is refused; names are UTF-8 without NUL; as
 * many parts end as began where the form is good; no part holds its own boundary at the begin of a
 * line. */
#include "fuzz.h"

#include "base/buf.h"
#include "base/text.h"
#include "http/multipart.h"

#include <stdlib.h>
#include <string.h>

#define INPUT_MAX (16u << 10)

struct heard {
	struct buf text; /* all of it */
	size_t data_at;  /* where the data of this part begins */
	const char *delimiter;
	unsigned parts, ends;
	bool stops; /* on_part stops the parser every time */
};

static int on_part(const struct multipart_part *part, void *user, struct err *e UNUSED)
{
	struct heard *h = user;
	const char *filename = part->filename ? part->filename : "-";

	ASSERT(h->parts++ == h->ends);
	ASSERT(h->parts <= MULTIPART_PARTS_MAX);
	ASSERT(text_is_utf8(part->name, strlen(part->name)));
	ASSERT(text_is_utf8(filename, strlen(filename)));
	ASSERT(buf_printf(&h->text, "[%s|%s]", part->name, filename) == 0);
	h->data_at = h->text.len;
	return h->stops ? MULTIPART_STOP : 0;
}

static int on_data(const void *data, size_t len, void *user, struct err *e UNUSED)
{
	struct heard *h = user;

	ASSERT(len > 0 && h->parts == h->ends + 1);
	ASSERT(buf_add(&h->text, data, len) == 0);
	return 0;
}

static int on_part_end(void *user, struct err *e UNUSED)
{
	struct heard *h = user;

	ASSERT(h->parts == ++h->ends);
	ASSERT(!memmem(buf_str(&h->text) + h->data_at, h->text.len - h->data_at, h->delimiter,
		       strlen(h->delimiter)));
	return 0;
}

static const struct multipart_ops ops = {on_part, on_data, on_part_end};

/* SEED 0: in one piece. 0 or what refused it. */
static int feed(const char *type, const char *body, size_t len, unsigned seed, struct heard *h)
{
	struct multipart m;
	struct err e = ERR_INIT;
	int r = multipart_init(&m, type, &ops, h, &e);

	h->delimiter = m.delimiter;
	h->stops = seed % 2 == 1;
	for (size_t at = 0; r == 0 && at < len;) {
		seed = seed > 0 ? seed * 1103515245u + 12345u : 0;
		const size_t n = seed ? MIN(len - at, (size_t)1 + (seed >> 16) % 40) : len - at;
		size_t taken = 0;

		r = multipart_feed(&m, body + at, n, &taken, &e);
		/* Less than all only where on_part has stopped it. */
		ASSERT(r < 0 || taken == n || (h->stops && taken <= n));
		at += r < 0 ? n : taken;
	}
	if (r == 0)
		r = multipart_end(&m, &e);
	ASSERT((r < 0) == (e.code != ERR_NONE));
	ASSERT(r < 0 || h->parts == h->ends);
	return r;
}

int FUZZ_TARGET(const uint8_t *data, size_t size)
{
	const char *body = size <= INPUT_MAX ? memchr(data, '\n', size) : NULL;

	if (!body)
		return 0;
	_cleanup_free_ char *type =
	    strndup((const char *)data, (size_t)(body - (const char *)data));
	const size_t len = size - (size_t)(++body - (const char *)data);
	struct heard whole = {.text = BUF_INIT(4 * INPUT_MAX)};

	ASSERT(type);
	const int want = feed(type, body, len, 0, &whole);
	for (unsigned seed = 1; seed < 4; seed++) {
		struct heard pieces = {.text = BUF_INIT(4 * INPUT_MAX)};

		ASSERT(feed(type, body, len, seed, &pieces) == want);
		/* A refusal may keep back less or more of the data before it. */
		if (want == 0)
			ASSERT(pieces.text.len == whole.text.len &&
			       memcmp(buf_str(&pieces.text), buf_str(&whole.text),
				      whole.text.len) == 0);
		ASSERT(pieces.parts == whole.parts && pieces.ends == whole.ends);
		buf_done(&pieces.text);
	}
	buf_done(&whole.text);
	return 0;
}
