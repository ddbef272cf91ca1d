/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/decode.h"

#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "tools/common.h"
#include "tools/program.h"
#include "tools_scripts.h"

#include <string.h>

#define OUT_MAX   (3 * DECODE_MAX + CHARSET_MAX) /* the text as UTF-8 */
#define DECODE_NS (20 * NS_PER_S)

struct job {
	decode_fn cb;
	void *user;
};

bool decode_is_utf8(const struct buf *text, size_t max)
{
	/* What was cut may end in the middle of a character. */
	const size_t len =
	    text->len < max ? text->len : text_utf8_cut(buf_str(text), text->len, max - 1);

	return text_is_utf8(buf_str(text), len);
}

/* OUT has "NAME SURE", a line end and the text, and is taken whole: a copy of 12 MiB takes 9 ms. False: it is not that. */
static bool take(struct buf *out, struct decoded *ret)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
	const char *start = buf_str(out);
	const char *end = out->len > 0 ? memchr(start, '\n', MIN(out->len, CHARSET_MAX)) : NULL;
	const char *blank = end ? memchr(start, ' ', (size_t)(end - start)) : NULL;
	char number[CHARSET_MAX];
	uint64_t sure;

	if (!blank || blank == start)
		return false;
	(void)snprintf(ret->charset, sizeof(ret->charset), "%.*s", (int)(blank - start), start);
	(void)snprintf(number, sizeof(number), "%.*s", (int)(end - blank - 1), blank + 1);
	if (strspn(ret->charset, letters) != (size_t)(blank - start) ||
	    parse_u64(number, 0, 100, &sure) < 0)
		return false;
	ret->sure = (unsigned)sure;
	ret->head = (size_t)(end + 1 - start);
	ret->text = *out;
	*out = (struct buf){0};
	return true;
}

static void on_end(const struct program_result *p, const struct err *e, void *user)
{
	struct job *j = user;
	struct decoded found = {0};
	const bool good = !e && p->good && take(p->out, &found);

	j->cb(good ? &found : NULL, j->user);
	free(j);
}

static int make_code(struct buf *code, const char *path)
{
	char full[ENGINE_PATH_MAX + sizeof(TOOLS_WORKSPACE)];

	(void)snprintf(full, sizeof(full), TOOLS_WORKSPACE "%s", path);
	int r = program_add_bytes(code, "PATH", full, strlen(full));
	r = r < 0 ? r : buf_printf(code, "LIMIT = %u\n", DECODE_MAX);
	r = r < 0 ? r : buf_add_str(code, tools_charset_text);
	return r < 0 ? r : buf_add_str(code, tools_decode_text);
}

void decode_text(struct sandbox *s, const char *path, decode_fn cb, void *user)
{
	_cleanup_(buf_done) struct buf code = BUF_INIT(PROGRAM_MAX);
	struct job *j = calloc(1, sizeof(*j));
	struct err ignored = ERR_INIT;

	if (j)
		*j = (struct job){.cb = cb, .user = user};
	if (j && make_code(&code, path) == 0 &&
	    program_run(s, &code, OUT_MAX, DECODE_NS, on_end, j, &ignored) == 0)
		return;
	free(j);
	cb(NULL, user);
}
