/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of an answer that wait to be sent: parts of memory, then a file. */
#include "http/connection.h"

#include "base/workers.h"

#include <string.h>

#define BLOCK_MIN  1024u
#define BLOCK_MAX  (64u << 10) /* a larger block does not grow any more, since that would copy it */
#define SEND_PARTS 32u

struct http_part {
	struct list node;
	char *data; /* off..len waits */
	size_t off, len;
	size_t cap;                  /* of a block, which grows; 0: what is here does not change */
	struct shared_bytes *shared; /* DATA is in it */
	bool borrowed;               /* DATA belongs to whoever answered */
};

size_t out_queued(const struct http_out *o)
{
	return o->queued;
}

bool out_wants_room(const struct http_out *o)
{
	return o->queued > 0 || (o->file && !o->file->busy);
}

static void drop_part(struct http_out *o, struct http_part *p)
{
	o->queued -= p->len - p->off;
	list_remove(&p->node);
	if (p->shared)
		p->shared = shared_bytes_unref(p->shared);
	else if (!p->borrowed)
		workers_free_memory("", p->data, p->len);
	free(p);
}

static struct http_part *add_part(struct http_out *o, char *data, size_t len)
{
	struct http_part *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->data = data;
	p->len = len;
	list_append(&o->parts, &p->node);
	o->queued += len;
	return p;
}

/* The last part, if it is a block that may grow by LEN bytes. */
static struct http_part *open_block(const struct http_out *o, size_t len)
{
	struct http_part *p =
	    list_is_empty(&o->parts) ? NULL : list_entry(o->parts.prev, struct http_part, node);

	if (!p || p->cap == 0 || (len > p->cap - p->len && p->len - p->off + len > BLOCK_MAX))
		return NULL;
	return p;
}

static int grow(struct http_part *p, size_t len)
{
	if (p->off > 0 && p->off >= p->len / 2) {
		memmove(p->data, p->data + p->off, p->len - p->off);
		p->len -= p->off;
		p->off = 0;
	}
	if (len <= p->cap - p->len)
		return 0;
	const size_t cap = MAX(p->len + len, MAX((size_t)BLOCK_MIN, p->cap + p->cap / 2));
	char *data = realloc(p->data, cap);
	if (!data)
		return -ENOMEM;
	p->data = data;
	p->cap = cap;
	return 0;
}

int out_add(struct http_out *o, const void *data, size_t len)
{
	if (len == 0)
		return 0;
	struct http_part *p = open_block(o, len);
	if (!p)
		p = add_part(o, NULL, 0);
	if (!p)
		return -ENOMEM;
	if (grow(p, len) < 0) {
		if (p->len == p->off)
			drop_part(o, p);
		return -ENOMEM;
	}
	memcpy(p->data + p->len, data, len);
	p->len += len;
	o->queued += len;
	return 0;
}

int out_add_head(struct http_conn *c, const void *head, size_t len)
{
	const size_t begun = c->begun;

	c->begun = 0;
	ASSERT(begun < len);
	return out_add(&c->out, (const char *)head + begun, len - begun);
}

int out_add_taken(struct http_out *o, char *data, size_t len)
{
	if (add_part(o, data, len))
		return 0;
	free(data);
	return -ENOMEM;
}

int out_add_shared(struct http_out *o, struct shared_bytes *bytes)
{
	struct http_part *p = add_part(o, bytes->data, bytes->len);

	if (!p)
		return -ENOMEM;
	p->shared = shared_bytes_ref(bytes);
	return 0;
}

int out_add_borrowed(struct http_out *o, const char *data, size_t len)
{
	struct http_part *p = add_part(o, (char *)(uintptr_t)data, len);

	if (!p)
		return -ENOMEM;
	p->borrowed = true;
	return 0;
}

void out_drop(struct http_out *o)
{
	while (!list_is_empty(&o->parts))
		drop_part(o, list_entry(o->parts.next, struct http_part, node));
	o->file = sending_free(o->file);
}

static void sent(struct http_out *o, size_t n)
{
	while (n > 0) {
		struct http_part *p = list_entry(o->parts.next, struct http_part, node);
		const size_t part = MIN(n, p->len - p->off);

		p->off += part;
		o->queued -= part;
		n -= part;
		if (p->off == p->len)
			drop_part(o, p);
	}
}

/* Sends at most MAX bytes: one call would copy megabytes to a client on this machine. */
static ssize_t send_memory(struct http_conn *c, size_t max)
{
	struct http_out *o = &c->out;
	struct iovec iov[SEND_PARTS];
	size_t n_iov = 0;
	/* The end of an answer that ends its connection goes out with the FIN. A client that saw the one without the
	 * other would send its next request here. */
	const bool last = c->state == HTTP_CONN_REPLY && !c->keep_alive;

	list_for_each(node, &o->parts) {
		const struct http_part *p = list_entry(node, struct http_part, node);
		const size_t len = MIN(p->len - p->off, max);

		if (len == 0 || n_iov == SEND_PARTS)
			break;
		iov[n_iov++] = (struct iovec){p->data + p->off, len};
		max -= len;
	}
	const ssize_t n = c->io.ops->send(&c->io, iov, n_iov, o->file || last);
	if (n > 0)
		sent(o, (size_t)n);
	return n;
}

int out_flush(struct http_conn *c)
{
	struct http_out *o = &c->out;
	size_t budget = HTTP_SEND_BUDGET;

	for (;;) {
		ssize_t n;

		if (out_queued(o) > 0)
			n = send_memory(c, budget);
		else if (o->file && o->file->left > 0)
			n = sending_go_on(c);
		else
			break;
		if (n == -EINTR)
			continue;
		if (n < 0)
			return (int)n;
		if (c->req)
			c->req->sent_bytes += (uint64_t)n;
		c->moved = true;
		if ((size_t)n >= budget)
			return -EAGAIN;
		budget -= (size_t)n;
	}
	o->file = sending_free(o->file);
	return 0;
}
