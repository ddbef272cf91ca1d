/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with a file: conditional requests, one range, sendfile(2). RFC 9110 §13.2.2 gives the
 * order. */
#include "http/connection.h"

#include "base/text.h"
#include "http/range.h"

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

void http_respond_file(struct http_request *req, int fd, const struct http_file *file)
{
	_cleanup_fd_ int owned = fd;
	struct http_out *o = &req->conn->out;
	enum http_range kind = HTTP_RANGE_WHOLE;
	uint64_t first = 0, last = file->size - 1; /* not used for an empty file */
	uint64_t length;
	int r = 0;

	if (is_unmodified(req, file)) {
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
		o->fd = TAKE_FD(owned);
		o->file_off = first;
		o->file_left = length;
	}
	reply_go(req);
}
