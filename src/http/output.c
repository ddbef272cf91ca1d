/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of an answer that wait to be sent: a block, then a large body, then a file. */
#include "http/connection.h"

#include <string.h>
#include <sys/sendfile.h>

#define BLOCK_MIN 1024u

size_t out_queued(const struct http_out *o)
{
	return o->len - o->off + o->body_len - o->body_off;
}

int out_add(struct http_out *o, const void *data, size_t len)
{
	if (o->off > 0 && o->off >= o->len / 2) {
		memmove(o->buf, o->buf + o->off, o->len - o->off);
		o->len -= o->off;
		o->off = 0;
	}
	if (len > o->cap - o->len) {
		size_t want, cap;
		char *buf;

		if (__builtin_add_overflow(o->len, len, &want))
			return -ENOMEM;
		cap = MAX(want, MAX((size_t)BLOCK_MIN, o->cap + o->cap / 2));
		buf = realloc(o->buf, cap);
		if (!buf)
			return -ENOMEM;
		o->buf = buf;
		o->cap = cap;
	}
	memcpy(o->buf + o->len, data, len);
	o->len += len;
	return 0;
}

static void drop_block(struct http_out *o)
{
	free(o->buf);
	o->buf = NULL;
	o->off = o->len = o->cap = 0;
}

static void drop_body(struct http_out *o)
{
	free(o->body);
	o->body = NULL;
	o->body_off = o->body_len = 0;
}

void out_drop(struct http_out *o)
{
	drop_block(o);
	drop_body(o);
	o->fd = fd_close(o->fd);
	o->file_left = 0;
}

static void sent(struct http_out *o, size_t n)
{
	const size_t block = MIN(n, o->len - o->off);

	o->off += block;
	o->body_off += n - block;
	if (o->off == o->len)
		drop_block(o);
	if (o->body && o->body_off == o->body_len)
		drop_body(o);
}

static ssize_t send_memory(struct http_conn *c)
{
	struct http_out *o = &c->out;
	struct iovec iov[2];
	struct msghdr msg = {.msg_iov = iov};
	/* The end of an answer that ends its connection goes out with the FIN. A client that saw the one without the
	 * other would send its next request here. */
	const bool last = c->state == HTTP_CONN_REPLY && !c->keep_alive;
	const int more = o->file_left > 0 || last ? MSG_MORE : 0;
	ssize_t n;

	if (o->len > o->off)
		iov[msg.msg_iovlen++] = (struct iovec){o->buf + o->off, o->len - o->off};
	if (o->body_len > o->body_off)
		iov[msg.msg_iovlen++] =
		    (struct iovec){o->body + o->body_off, o->body_len - o->body_off};
	n = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT | more);
	if (n > 0)
		sent(o, (size_t)n);
	return n;
}

static ssize_t send_file(struct http_conn *c)
{
	struct http_out *o = &c->out;
	off_t off = (off_t)o->file_off;
	const ssize_t n =
	    sendfile(c->fd, o->fd, &off, (size_t)MIN(o->file_left, HTTP_SENDFILE_SLICE));

	if (n == 0) { /* the file has become shorter */
		errno = ENODATA;
		return -1;
	}
	if (n > 0) {
		o->file_off += (uint64_t)n;
		o->file_left -= (uint64_t)n;
	}
	return n;
}

int out_flush(struct http_conn *c)
{
	struct http_out *o = &c->out;
	size_t budget = HTTP_SEND_BUDGET;

	for (;;) {
		ssize_t n;

		if (out_queued(o) > 0)
			n = send_memory(c);
		else if (o->file_left > 0)
			n = send_file(c);
		else
			break;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EWOULDBLOCK ? -EAGAIN : -errno;
		if (c->req)
			c->req->sent_bytes += (uint64_t)n;
		c->moved = true;
		if ((size_t)n >= budget)
			return -EAGAIN;
		budget -= (size_t)n;
	}
	o->fd = fd_close(o->fd);
	return 0;
}
