/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/spill.h"

#include "base/base64.h"
#include "base/buf.h"
#include "base/fdio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"

#include <sys/mman.h>

#define NONCE_BYTES 16U
#define PENDING_MAX (64U << 10) /* bytes collected before a write */
#define COUNT_STEP  (64U << 10) /* bytes are counted in steps */
#define STRINGS_MAX 65536U      /* spilled strings of one message */
#define DECODE_STEP (16U << 10) /* characters of base64 at a time */

#define CLOSED_APART (1U << 20) /* bytes from which on a thread gives the memory back */

static const char prefix[] = "spilled:";

struct spilled_string {
	uint64_t off;
	uint64_t len;      /* in the file */
	uint64_t text_len; /* as it was sent */
	uint64_t wrong_at; /* NOT_BASE64: which character, from 1 */
	bool irregular;    /* DECODED: see base64.h */
	enum mcp_text_form form;
};

struct spill {
	unsigned refs;
	int fd;
	char nonce[2 * NONCE_BYTES + 1];
	uint64_t size;                  /* bytes in the file and in PENDING */
	struct buf pending;             /* not written yet */
	struct spilled_string *strings; /* owned */
	size_t n;
	struct budgets *budgets;
	struct budget_share share; /* SIZE in steps */
	char payer[BUDGET_PRINCIPAL_SIZE];
	struct base64_decoder decoder; /* of the string that is being added to */
};

struct spill *spill_new(struct budgets *budgets, const char *payer)
{
	struct spill *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->fd = memfd_create("mcp-message", MFD_CLOEXEC);
	if (l->fd < 0) {
		free(l);
		return NULL;
	}
	l->refs = 1;
	l->budgets = budgets;
	(void)snprintf(l->payer, sizeof(l->payer), "%s", payer);
	rand_hex(l->nonce, NONCE_BYTES);
	buf_init(&l->pending, 2 * (size_t)PENDING_MAX);
	return l;
}

struct spill *spill_ref(struct spill *l)
{
	l->refs++;
	return l;
}

struct spill *spill_unref(struct spill *l)
{
	if (!l || --l->refs > 0)
		return NULL;
	budget_give(&l->share);
	if (l->size >= CLOSED_APART)
		workers_close(l->payer, l->fd); /* giving back 80 MiB takes tens of milliseconds */
	else
		(void)fd_close(l->fd);
	buf_done(&l->pending);
	free(l->strings);
	free(l);
	return NULL;
}

int spill_begin(struct spill *l, bool base64)
{
	struct spilled_string *v;

	if (l->n == STRINGS_MAX)
		return -E2BIG;
	v = reallocarray(l->strings, l->n + 1, sizeof(*l->strings));
	if (!v)
		return -ENOMEM;
	l->strings = v;
	l->strings[l->n] = (struct spilled_string){
	    .off = l->size, .form = base64 ? MCP_TEXT_DECODED : MCP_TEXT_AS_SENT};
	l->decoder = (struct base64_decoder){.lax = true};
	return 0;
}

static int flush(struct spill *l)
{
	int r = fd_write_all(l->fd, l->pending.data, l->pending.len);

	buf_reset(&l->pending);
	return r;
}

/* A file in memory takes memory of the host, and each connection may have one. */
static bool count(struct spill *l, uint64_t bytes)
{
	uint64_t counted = (bytes + COUNT_STEP - 1) / COUNT_STEP * COUNT_STEP;
	struct err e = ERR_INIT;

	return counted == l->share.n ||
	       budget_take(l->budgets, l->payer, BUDGET_MESSAGE_FILES, counted, &l->share, &e) == 0;
}

static int store(struct spill *l, const void *data, size_t len)
{
	/* Long pieces are written to the file directly. */
	bool direct = len > PENDING_MAX / 4;

	if (!count(l, l->size + len))
		return -EDQUOT;
	l->size += len;
	if (direct || l->pending.len + len > PENDING_MAX) {
		int r = flush(l);

		if (r < 0)
			return r;
	}
	return direct ? fd_write_all(l->fd, data, len) : buf_add(&l->pending, data, len);
}

/* Adds the bytes that TEXT decodes to. Text that is not base64 is not kept. */
static int decode(struct spill *l, const char *text, size_t len)
{
	uint8_t bytes[BASE64_DECODED_MAX(DECODE_STEP)];
	int r = 0;

	while (r == 0 && len > 0) {
		const size_t n = MIN(len, (size_t)DECODE_STEP);
		size_t n_bytes = 0;

		if (base64_decode(&l->decoder, text, n, bytes, &n_bytes) < 0) {
			l->strings[l->n].form = MCP_TEXT_NOT_BASE64;
			l->strings[l->n].wrong_at = l->decoder.n_seen;
			return 0;
		}
		r = store(l, bytes, n_bytes);
		text += n;
		len -= n;
	}
	return r;
}

int spill_add(struct spill *l, const char *data, size_t len)
{
	struct spilled_string *string = &l->strings[l->n];

	string->text_len += len;
	switch (string->form) {
	case MCP_TEXT_AS_SENT:
		return store(l, data, len);
	case MCP_TEXT_DECODED:
		return decode(l, data, len);
	case MCP_TEXT_NOT_BASE64:
		break;
	}
	return 0;
}

int spill_end(struct spill *l, char *ret)
{
	struct spilled_string *string = &l->strings[l->n];
	uint8_t last[BASE64_END_MAX];
	size_t n_last = 0;

	if (string->form == MCP_TEXT_DECODED && base64_decode_end(&l->decoder, last, &n_last) < 0) {
		string->form = MCP_TEXT_NOT_BASE64;
		string->wrong_at = l->decoder.n_seen;
		n_last = 0;
	}
	string->irregular = l->decoder.irregular;
	int r = n_last > 0 ? store(l, last, n_last) : 0;
	r = r < 0 ? r : flush(l);
	if (r < 0)
		return r;
	string->len = l->size - string->off;
	(void)snprintf(ret, SPILL_NAME_MAX, "%s%s:%zu", prefix, l->nonce, l->n);
	l->n++;
	return 0;
}

bool spill_find(const struct spill *l, const char *text, size_t len, struct mcp_text_ref *ret)
{
	const size_t n_prefix = sizeof(prefix) - 1;
	const size_t n_nonce = sizeof(l->nonce) - 1;
	uint64_t i;

	if (!l || len <= n_prefix + n_nonce + 1 || len >= SPILL_NAME_MAX ||
	    memcmp(text, prefix, n_prefix) != 0 ||
	    memcmp(text + n_prefix, l->nonce, n_nonce) != 0 || text[n_prefix + n_nonce] != ':')
		return false;
	text += n_prefix + n_nonce + 1;
	len -= n_prefix + n_nonce + 1;
	if (l->n == 0 || parse_u64_n(text, len, 0, l->n - 1, &i) < 0)
		return false;
	*ret = (struct mcp_text_ref){
	    .len = (size_t)l->strings[i].text_len,
	    .fd = l->fd,
	    .off = l->strings[i].off,
	    .fd_len = (size_t)l->strings[i].len,
	    .form = l->strings[i].form,
	    .irregular = l->strings[i].irregular,
	    .wrong_at = l->strings[i].wrong_at,
	};
	return true;
}

bool spill_is_in(const struct spill *l, const json_t *value)
{
	struct mcp_text_ref ref;
	const char *key;
	json_t *child;
	size_t i;

	if (!l)
		return false;
	if (json_is_string(value))
		return spill_find(l, json_string_value(value), json_string_length(value), &ref);
	json_object_foreach((json_t *)(uintptr_t)value, key, child) {
		if (spill_is_in(l, child))
			return true;
	}
	json_array_foreach(value, i, child) {
		if (spill_is_in(l, child))
			return true;
	}
	return false;
}
