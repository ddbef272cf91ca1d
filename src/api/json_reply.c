/* SPDX-License-Identifier: Apache-2.0 */
#include "api/json_reply.h"

#include "base/jsonio.h"
#include "base/text.h"

#include <string.h>
#include <time.h>

#define FORM_PIECE_MAX 4096 /* bytes of one encoded name=value */

static void respond(struct http_request *req, int status, const char *type, json_t *body)
{
	size_t len;
	char *text = jsonio_text(body, JSON_COMPACT, &len);

	json_decref(body);
	if (text)
		http_respond_take(req, status, type, text, len);
	else
		http_respond_text(req, 503, "application/json", "{\"detail\":\"no memory\"}");
}

void api_json(struct http_request *req, int status, json_t *body)
{
	respond(req, status, "application/json", body);
}

static json_t *lossy(const char *text)
{
	_cleanup_(buf_done) struct buf b = BUF_INIT(8192);

	return text_add_utf8_lossy(&b, text, strlen(text)) < 0 ? json_string("")
							       : json_string(buf_str(&b));
}

void api_problem(struct http_request *req, const struct err *e, const json_t *more)
{
	size_t len = 0;
	json_t *object = more ? json_copy((json_t *)(uintptr_t)more) : json_object();
	char *text = NULL;

	if (object && e->member[0])
		(void)json_object_set_new(object, "member", lossy(e->member));
	if (object && json_object_size(object) > 0)
		text = jsonio_text(object, JSON_COMPACT, &len);
	json_decref(object);
	if (text)
		text[len - 1] = '\0'; /* the text is "{" MEMBERS "}"; pass only MEMBERS */
	http_respond_problem(req, e->code, e->text, text ? text + 1 : NULL);
	free(text);
}

void api_detail(struct http_request *req, int status, const char *text)
{
	if (status == 401)
		(void)http_add_header(req, "WWW-Authenticate", "Bearer");
	api_json(req, status, json_pack("{s:o}", "detail", lossy(text)));
}

/* Also decodes '+' as a blank, which percent-decoding does not. */
static int decode(const char *text, size_t len, char *ret, size_t size)
{
	char copy[FORM_PIECE_MAX], out[FORM_PIECE_MAX + 1];
	size_t n;

	if (len > sizeof(copy))
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		copy[i] = (char)(text[i] == '+' ? ' ' : text[i]);
	if (text_percent_decode(copy, len, out, &n) < 0 || n >= size || !text_is_utf8(out, n))
		return -EINVAL;
	memcpy(ret, out, n + 1);
	return 0;
}

int api_form_value(struct http_request *req, const char *name, char *ret, size_t size)
{
	size_t len, name_len = strlen(name);
	const char *p = http_request_body(req, &len), *end = p + len;

	while (p < end) {
		const char *amp = memchr(p, '&', (size_t)(end - p));
		const char *stop = amp ? amp : end;

		if ((size_t)(stop - p) > name_len && memcmp(p, name, name_len) == 0 &&
		    p[name_len] == '=')
			return decode(p + name_len + 1, (size_t)(stop - p) - name_len - 1, ret,
				      size);
		p = stop + 1;
	}
	return -ENOENT;
}

const char *api_time(uint64_t ms, char *ret)
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	size_t n = 0;

	if (gmtime_r(&s, &tm))
		n = strftime(ret, API_TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(ret + n, API_TIME_SIZE - n, ".%03uZ", (unsigned)(ms % 1000));
	return ret;
}
