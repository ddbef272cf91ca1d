/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/spill.h"

#include "base/buf.h"
#include "base/fdio.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <fcntl.h>
#include <sys/mman.h>

#define NONCE_BYTES 16U
#define PENDING_MAX (64U << 10) /* bytes gathered before a write */
#define STRINGS_MAX 65536U      /* lifted strings of one message */

static const char prefix[] = "lifted:";

struct lifted {
	unsigned refs;
	int fd;
	char nonce[2 * NONCE_BYTES + 1];
	uint64_t size;      /* bytes in the file and in PENDING */
	struct buf pending; /* not written yet */
	struct {
		uint64_t off;
		uint64_t len;
	} * strings; /* owned */
	size_t n;
};

struct lifted *lifted_new(const char *dir)
{
	struct lifted *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->fd = dir ? open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
		    : memfd_create("mcp-message", MFD_CLOEXEC);
	if (l->fd < 0) {
		free(l);
		return NULL;
	}
	l->refs = 1;
	rand_hex(l->nonce, NONCE_BYTES);
	buf_init(&l->pending, 2 * (size_t)PENDING_MAX);
	return l;
}

struct lifted *lifted_ref(struct lifted *l)
{
	l->refs++;
	return l;
}

struct lifted *lifted_unref(struct lifted *l)
{
	if (!l || --l->refs > 0)
		return NULL;
	l->fd = fd_close(l->fd);
	buf_done(&l->pending);
	free(l->strings);
	free(l);
	return NULL;
}

int lifted_begin(struct lifted *l)
{
	void *v;

	if (l->n == STRINGS_MAX)
		return -E2BIG;
	v = reallocarray(l->strings, l->n + 1, sizeof(*l->strings));
	if (!v)
		return -ENOMEM;
	l->strings = v;
	l->strings[l->n].off = l->size;
	return 0;
}

static int flush(struct lifted *l)
{
	int r = fd_write_all(l->fd, l->pending.data, l->pending.len);

	buf_reset(&l->pending);
	return r;
}

int lifted_add(struct lifted *l, const char *data, size_t len)
{
	/* Long pieces go straight to the file. */
	bool direct = len > PENDING_MAX / 4;

	l->size += len;
	if (direct || l->pending.len + len > PENDING_MAX) {
		int r = flush(l);

		if (r < 0)
			return r;
	}
	return direct ? fd_write_all(l->fd, data, len) : buf_add(&l->pending, data, len);
}

int lifted_end(struct lifted *l, char *ret)
{
	int r = flush(l);

	if (r < 0)
		return r;
	l->strings[l->n].len = l->size - l->strings[l->n].off;
	(void)snprintf(ret, LIFTED_NAME_MAX, "%s%s:%zu", prefix, l->nonce, l->n);
	l->n++;
	return 0;
}

bool lifted_find(const struct lifted *l, const char *text, size_t len, struct mcp_text_ref *ret)
{
	const size_t n_prefix = sizeof(prefix) - 1;
	const size_t n_nonce = sizeof(l->nonce) - 1;
	uint64_t i;

	if (!l || len <= n_prefix + n_nonce + 1 || len >= LIFTED_NAME_MAX ||
	    memcmp(text, prefix, n_prefix) != 0 ||
	    memcmp(text + n_prefix, l->nonce, n_nonce) != 0 || text[n_prefix + n_nonce] != ':')
		return false;
	text += n_prefix + n_nonce + 1;
	len -= n_prefix + n_nonce + 1;
	if (l->n == 0 || parse_u64_n(text, len, 0, l->n - 1, &i) < 0)
		return false;
	*ret = (struct mcp_text_ref){
	    .len = (size_t)l->strings[i].len,
	    .fd = l->fd,
	    .off = l->strings[i].off,
	};
	return true;
}

bool lifted_is_in(const struct lifted *l, const json_t *value)
{
	struct mcp_text_ref ref;
	const char *key;
	json_t *child;
	size_t i;

	if (!l)
		return false;
	if (json_is_string(value))
		return lifted_find(l, json_string_value(value), json_string_length(value), &ref);
	json_object_foreach((json_t *)(uintptr_t)value, key, child) {
		if (lifted_is_in(l, child))
			return true;
	}
	json_array_foreach(value, i, child) {
		if (lifted_is_in(l, child))
			return true;
	}
	return false;
}
