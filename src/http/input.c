/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from the socket. They stand in the server's scratch block while they are used at once. If
 * some must wait, they are copied into memory of the connection. */
#include "http/connection.h"

#include "base/text.h"
#include "http/tls_io.h"

#include <errno.h>
#include <string.h>

#define OWN_STEP 4096u

/* Makes room for MAX more bytes behind those that are there. Only an unfinished head ever grows. */
static int own_grow(struct http_in *in, size_t max)
{
	const size_t cap = in->len + max;
	char *data;

	if (in->borrowed || in->off > 0 || cap > in->cap) {
		data = malloc(cap);
		if (!data)
			return -ENOMEM;
		memcpy(data, in->data + in->off, in->len);
		if (!in->borrowed)
			free(in->data);
		*in = (struct http_in){.data = data, .len = in->len, .cap = cap};
	}
	return 0;
}

/* Its certificate was good: it is a router, which has many clients. */
static int admit_member(struct http_conn *c)
{
	struct err e = ERR_INIT;

	if (!(c->scopes & HTTP_SCOPE_MEMBERS) || !text_starts_with(c->who, BUDGET_STRANGER) ||
	    streq(c->who, BUDGET_LOCAL) || !http_tls_is_open(&c->io))
		return 0;
	return conn_belongs_to(c, BUDGET_LOCAL, &e) < 0 ? -EDQUOT : 0;
}

int input_recv(struct http_conn *c, size_t max)
{
	struct http_in *in = &c->in;
	ssize_t n;
	int r;

	if (in->len == 0) {
		input_drop(in);
		*in = (struct http_in){
		    .data = c->server->scratch, .cap = HTTP_SCRATCH_BYTES, .borrowed = true};
		max = MIN(max, (size_t)HTTP_SCRATCH_BYTES);
	} else if (in->borrowed || in->off + in->len == in->cap) {
		r = own_grow(in, MIN(max, (size_t)OWN_STEP));
		if (r < 0)
			return r;
		max = in->cap - in->len;
	} else {
		max = MIN(max, in->cap - in->off - in->len);
	}
	n = c->io.ops->recv(&c->io, in->data + in->off + in->len, max);
	r = admit_member(c);
	if (n < 0 || r < 0)
		return n < 0 ? (int)n : r;
	in->len += (size_t)n;
	return (int)n;
}

void input_consume(struct http_in *in, size_t n)
{
	ASSERT(n <= in->len);
	in->off += n;
	in->len -= n;
	if (in->len == 0)
		input_drop(in);
}

int input_keep(struct http_in *in)
{
	char *data;

	if (!in->borrowed)
		return 0;
	if (in->len == 0) {
		input_drop(in);
		return 0;
	}
	data = malloc(in->len);
	if (!data)
		return -ENOMEM;
	memcpy(data, in->data + in->off, in->len);
	*in = (struct http_in){.data = data, .len = in->len, .cap = in->len};
	return 0;
}

void input_drop(struct http_in *in)
{
	if (!in->borrowed)
		free(in->data);
	*in = (struct http_in){0};
}
