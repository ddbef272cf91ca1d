/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with a file: conditional requests, one range (RFC 9110 §13.2.2 gives the order), and its way to the
 * client. sendfile(2) waits for the disk, and for the lock of a file that is being truncated; no flag keeps it from
 * that. So a thread calls it, on a socket that does not block. */
#include "http/connection.h"

#include "base/fdio.h"
#include "base/loop.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/workers.h"
#include "http/range.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

/* Does the client have the current version already? */
static bool is_unmodified(const struct http_request *req, const struct http_file *file)
{
	const char *tags = http_request_header(req, "if-none-match");
	const char *since = http_request_header(req, "if-modified-since");
	int64_t t;

	if (tags)
		return file->etag && http_etag_in_list(tags, file->etag, true);
	return since && file->mtime_s && http_date_parse(since, &t) == 0 && file->mtime_s <= t;
}

/* Does the Range header apply? If-Range must name the current validator, and a strong one. */
static bool range_applies(const struct http_request *req, const struct http_file *file)
{
	const char *cond = http_request_header(req, "if-range");
	int64_t t;

	if (!cond)
		return true;
	if (*cond == '"' || *cond == 'W')
		return file->etag && *cond == '"' && streq(cond, file->etag);
	return file->mtime_s && http_date_parse(cond, &t) == 0 && t == file->mtime_s;
}

static bool is_plain_name(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < 0x20 || (unsigned char)*name >= 0x7f ||
		    strchr("\"\\;,", *name))
			return false;
	return true;
}

/* RFC 6266: the plain form if the name allows it, else an ASCII stand-in and the encoded form. */
static int add_disposition(struct http_request *req, const struct http_file *file)
{
	const char *kind = file->attachment ? "attachment" : "inline";
	_cleanup_(buf_done) struct buf value = BUF_INIT(HTTP_EXTRA_MAX);
	int r;

	if (is_plain_name(file->name)) {
		const char *quote = file->raw_name && !strchr(file->name, ' ') ? "" : "\"";

		r = buf_printf(&value, "%s; filename=%s%s%s", kind, quote, file->name, quote);
	} else {
		r = buf_printf(&value, "%s; filename=\"", kind);
		for (const char *p = file->name; r == 0 && *p; p++)
			r = buf_add_char(&value, is_plain_name((char[]){*p, '\0'}) ? *p : '_');
		if (r == 0)
			r = buf_add_str(&value, "\"; filename*=UTF-8''");
		if (r == 0)
			r = text_add_percent(&value, file->name, strlen(file->name), false);
	}
	return r == 0 ? http_add_header(req, "Content-Disposition", buf_str(&value)) : r;
}

static int add_file_headers(struct http_request *req, const struct http_file *file)
{
	char date[HTTP_DATE_SIZE];
	int r = http_add_header(req, "Accept-Ranges", "bytes");

	if (r == 0 && file->etag)
		r = http_add_header(req, "ETag", file->etag);
	if (r == 0 && file->mtime_s) {
		http_date_format(file->mtime_s, date);
		r = http_add_header(req, "Last-Modified", date);
	}
	if (r == 0 && file->name)
		r = add_disposition(req, file);
	return r;
}

static int add_content_range(struct http_request *req, enum http_range kind, uint64_t first,
			     uint64_t last, uint64_t size)
{
	char value[96];

	if (kind == HTTP_RANGE_PART)
		(void)snprintf(value, sizeof(value), "bytes %llu-%llu/%llu",
			       (unsigned long long)first, (unsigned long long)last,
			       (unsigned long long)size);
	else
		(void)snprintf(value, sizeof(value), "bytes */%llu", (unsigned long long)size);
	return http_add_header(req, "Content-Range", value);
}

/* ---- the bytes ---- */

static struct http_sending *sending_new(struct http_conn *c, int fd, const char *who)
{
	struct http_sending *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->conn = c;
	f->fd = fd;
	f->io = c->io;
	(void)snprintf(f->who, sizeof(f->who), "%s", who);
	return f;
}

struct http_sending *sending_free(struct http_sending *f)
{
	if (!f)
		return NULL;
	ASSERT(!f->busy);
	workers_close(f->who, f->fd);
	free(f);
	return NULL;
}

void sending_leave(struct http_sending *f, struct http_io *io, struct budget_share *place)
{
	f->conn = NULL;
	f->io = *io;
	io->fd = -1;
	io->tls = NULL;
	f->place = *place;
	*place = (struct budget_share){0};
	f->io.ops->cut(&f->io); /* the thread sends no more */
}

/* On a thread. */
static void send_some(void *user)
{
	struct http_sending *f = user;
	off_t off = (off_t)f->off;
	uint64_t left = MIN(f->left, (uint64_t)HTTP_THREAD_BUDGET);
	struct pollfd room = {.fd = f->io.fd, .events = POLLOUT};
	const uint64_t until = now_ns() + HTTP_THREAD_NS;

	while (left > 0) {
		const ssize_t n = f->io.ops->send_file(
		    &f->io, f->fd, &off, (size_t)MIN(left, (uint64_t)HTTP_SENDFILE_SLICE));

		/* A client that reads as fast as we send is served without a way over the loop each time. */
		if (n == -EAGAIN && f->sent > 0 && now_ns() < until &&
		    poll(&room, 1, HTTP_ROOM_MS) > 0)
			continue;
		if (n <= 0) { /* 0: the file has become shorter */
			f->error = n < 0 ? (int)n : -ENODATA;
			return;
		}
		left -= (uint64_t)n;
		f->sent += (size_t)n;
	}
}

static void on_sent(void *user)
{
	struct http_sending *f = user;
	struct http_conn *c = f->conn;

	loop_work("http", "file sent");
	f->busy = false;
	if (!c) {
		f->io.ops->close(&f->io, false);
		budget_give(&f->place);
		(void)sending_free(f);
	} else if (f->error == -EAGAIN && !c->in_run) {
		c->moved = c->moved || f->sent > 0;
		conn_update(c); /* goes on when the socket has room */
	} else {
		conn_schedule(c);
	}
}

static ssize_t take_result(struct http_sending *f)
{
	const size_t n = f->sent;
	const int error = f->error;

	f->off += n;
	f->left -= n;
	f->sent = 0;
	f->error = 0;
	return n > 0 ? (ssize_t)n : error;
}

/* What is left of a small file, if it is in memory. -EAGAIN: a thread has to read it. */
static ssize_t send_quickly(struct http_sending *f)
{
	char space[HTTP_QUICK_FILE];
	struct iovec iov = {space, (size_t)MIN(f->left, (uint64_t)sizeof(space))};
	/* RWF_NOWAIT takes no lock that a truncation holds, and never reads from a disk. */
	const ssize_t got = preadv2(f->fd, &iov, 1, (off_t)f->off, RWF_NOWAIT);

	if (got <= 0) {
		f->cold = true;
		return -EINTR;
	}
	iov.iov_len = (size_t)got;
	const ssize_t n = f->io.ops->send(&f->io, &iov, 1, false);
	if (n < 0)
		return n;
	f->off += (uint64_t)n;
	f->left -= (uint64_t)n;
	return n;
}

ssize_t sending_go_on(struct http_conn *c)
{
	struct http_sending *f = c->out.file;

	if (f->busy)
		return -EAGAIN;
	if (f->sent > 0 || f->error != 0) {
		ssize_t n = take_result(f);

		if (n != -EAGAIN)
			return n;
	}
	if (f->left <= HTTP_QUICK_FILE && !f->cold)
		return send_quickly(f);
	f->busy = true;
	/* An answer that has begun cannot be refused, and a connection has one job at a time. */
	const int r = workers_run_counted(f->who, send_some, on_sent, f);
	if (r < 0)
		f->busy = false;
	if (r < 0 || f->busy)
		return r < 0 ? r : -EAGAIN;
	return take_result(f); /* there is no pool, so it is done */
}

/* ---- the answer ---- */

void http_respond_file(struct http_request *req, int fd, const struct http_file *file)
{
	struct http_conn *c = req->conn;
	const char *who = file->payer ? file->payer : c->who;
	enum http_range kind = HTTP_RANGE_WHOLE;
	uint64_t first = 0, last = file->size - 1; /* not used for an empty file */
	uint64_t length;
	int r = 0;

	c->out.file = sending_new(c, fd, who);
	if (!c->out.file) {
		workers_close(who, fd);
		reply_failed(req);
		return;
	}
	if (is_unmodified(req, file)) {
		c->out.file = sending_free(c->out.file);
		if (add_file_headers(req, file) < 0)
			reply_failed(req);
		else
			http_respond(req, 304, NULL, NULL, 0);
		return;
	}
	if (req->head.method == HTTP_GET && range_applies(req, file))
		kind =
		    http_range_parse(http_request_header(req, "range"), file->size, &first, &last);
	if (kind != HTTP_RANGE_WHOLE)
		r = add_content_range(req, kind, first, last, file->size);
	if (r == 0 && kind == HTTP_RANGE_UNSATISFIABLE) {
		c->out.file = sending_free(c->out.file);
		request_refuse(req, 416); /* the answer is no part of the file, so it has none of
					   * the file's headers */
		return;
	}
	r = r < 0 ? r : add_file_headers(req, file);
	length = file->size > 0 ? last - first + 1 : 0;
	if (r == 0)
		r = reply_head(req, kind == HTTP_RANGE_PART ? 206 : 200, file->type, true, length);
	if (r < 0) {
		reply_failed(req);
		return;
	}
	if (req->head.method != HTTP_HEAD && length > 0) {
		c->out.file->off = first;
		c->out.file->left = length;
	} else {
		c->out.file = sending_free(c->out.file);
	}
	reply_go(req);
}
