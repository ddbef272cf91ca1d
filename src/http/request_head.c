/* SPDX-License-Identifier: Apache-2.0 */
#include "http/request_head.h"

#include "base/walls.h"
#include "http/host_header.h"

#include <string.h>
#include <strings.h>

/* ---- finding the end ---- */

enum {
	SCAN_TEXT,       /* inside a line */
	SCAN_CR,         /* after the CR of a line with text */
	SCAN_LINE_START, /* after CRLF */
	SCAN_EMPTY_CR,   /* CR of an empty line */
};

int http_head_scan(struct http_scan *scan, const char *buf, size_t len)
{
	if (scan->off == 0)
		scan->state = SCAN_LINE_START;
	for (size_t i = scan->off; i < len; i++) {
		const char c = buf[i];

		switch (scan->state) {
		case SCAN_CR:
		case SCAN_EMPTY_CR:
			if (c != '\n')
				return -400;
			if (scan->state == SCAN_EMPTY_CR) {
				scan->off = i + 1;
				return (int)(i + 1);
			}
			scan->state = SCAN_LINE_START;
			break;
		default:
			if (c == '\n' || c == '\0')
				return -400;
			if (c == '\r')
				scan->state = scan->state == SCAN_TEXT ? SCAN_CR : SCAN_EMPTY_CR;
			else
				scan->state = SCAN_TEXT;
			break;
		}
	}
	scan->off = len;
	return 0;
}

/* ---- characters ---- */

static bool is_tchar(unsigned char c)
{
	if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
		return true;
	return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

bool http_is_token(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!is_tchar((unsigned char)s[i]))
			return false;
	return len > 0;
}

bool http_is_value(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)s[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

/* Path and query are visible ASCII. A fragment is never sent to a server. */
static bool is_target(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)s[i];

		if (c <= 0x20 || c >= 0x7f || c == '#')
			return false;
	}
	return len > 0;
}

/* ---- request line ---- */

static const struct {
	const char *name;
	enum http_method method;
} methods[] = {
    {"GET", HTTP_GET},       {"HEAD", HTTP_HEAD},   {"POST", HTTP_POST},       {"PUT", HTTP_PUT},
    {"DELETE", HTTP_DELETE}, {"PATCH", HTTP_PATCH}, {"OPTIONS", HTTP_OPTIONS},
};

static int parse_version(const char *s, size_t len, struct http_head *head)
{
	if (len != 8 || memcmp(s, "HTTP/", 5) != 0 || s[6] != '.')
		return 400;
	if ((s[5] != '1' || (s[7] != '0' && s[7] != '1')) && wall_stands(WALL_VERSION))
		return s[5] >= '0' && s[5] <= '9' && s[7] >= '0' && s[7] <= '9' ? 505 : 400;
	head->minor = (unsigned)(s[7] - '0');
	head->keep_alive = head->minor == 1;
	return 0;
}

/* "http://host:port/path?query" (RFC 9112 §3.2.2). It is cut into two strings where it stands: the two
 * slashes make room for the end of the first one, and for the slash of a path that was left out. */
static int parse_absolute(char *buf, char *target, struct http_head *head)
{
	char *authority = strstr(target, "://");
	struct http_host host;

	if (!authority)
		return 400;
	const size_t scheme = (size_t)(authority - target);
	head->https = scheme == 5 && strncasecmp(target, "https", scheme) == 0;
	if (!head->https && (scheme != 4 || strncasecmp(target, "http", scheme) != 0))
		return 400;
	authority += strlen("://");
	const size_t len = strcspn(authority, "/?");
	if (http_host_parse(authority, len, &host) < 0)
		return 400;
	char *path = authority + len;
	authority = memmove(authority - 2, authority, len);
	authority[len] = '\0';
	/* An empty path is that of the root; with OPTIONS it means the whole server (RFC 9112 §3.2.4). */
	if (*path == '\0' && head->method == HTTP_OPTIONS)
		*--path = '*';
	else if (*path != '/')
		*--path = '/';
	head->host = (uint16_t)(authority - buf);
	head->target = (uint16_t)(path - buf);
	return 0;
}

static int parse_request_line(char *buf, size_t len, struct http_head *head)
{
	char *sp = memchr(buf, ' ', len);
	char *target, *sp2;
	int r;

	if (!sp || !http_is_token(buf, (size_t)(sp - buf)))
		return 400;
	target = sp + 1;
	sp2 = memchr(target, ' ', len - (size_t)(target - buf));
	if (!sp2 || !is_target(target, (size_t)(sp2 - target)))
		return 400;
	r = parse_version(sp2 + 1, len - (size_t)(sp2 + 1 - buf), head);
	if (r)
		return r;
	*sp = '\0';
	*sp2 = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (strcmp(buf, methods[i].name) == 0)
			head->method = methods[i].method;
	if (head->method == 0)
		return 501;
	if (*target != '/' && !(head->method == HTTP_OPTIONS && strcmp(target, "*") == 0))
		return parse_absolute(buf, target, head);
	head->target = (uint16_t)(target - buf);
	return 0;
}

/* ---- headers that the server acts upon ---- */

static int on_host(const char *value, struct http_head *head)
{
	struct http_host host;

	(void)head;
	return http_host_parse(value, strlen(value), &host) < 0 ? 400 : 0;
}

/* 1*DIGIT and nothing else. Lists ("5, 5") and signs are refused. */
static int on_content_length(const char *value, struct http_head *head)
{
	uint64_t n = 0;

	if (*value == '\0')
		return 400;
	for (const char *p = value; *p; p++) {
		if (*p < '0' || *p > '9')
			return 400;
		if (__builtin_mul_overflow(n, 10u, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n) || n > INT64_MAX)
			return 400;
	}
	if (head->framing == HTTP_BODY_CHUNKED)
		return 400;
	head->framing = HTTP_BODY_LENGTH;
	head->content_length = n;
	return 0;
}

static int on_transfer_encoding(const char *value, struct http_head *head)
{
	if (head->minor == 0 || head->framing == HTTP_BODY_LENGTH)
		return 400;
	if (strcasecmp(value, "chunked") != 0)
		return 400;
	head->framing = HTTP_BODY_CHUNKED;
	return 0;
}

static int on_expect(const char *value, struct http_head *head)
{
	if (strcasecmp(value, "100-continue") != 0)
		return 417;
	head->expect_continue = head->minor == 1;
	return 0;
}

/* Of bodies: RFC 9110 8.4. Read as it is, one that is compressed would be no JSON, or a file that nobody sent: the row says
 * whether its handler unpacks it. Handlers look at one header, so there may be no other. */
static int on_content_encoding(const char *value, struct http_head *head)
{
	const bool again = head->names_coding;

	head->names_coding = true;
	head->coded = strcasecmp(value, "identity") != 0;
	return again ? 415 : 0;
}

static int on_connection(const char *value, struct http_head *head)
{
	static const char seps[] = ", \t";

	for (const char *p = value + strspn(value, seps); *p; p += strspn(p, seps)) {
		const size_t n = strcspn(p, seps);

		if (n == 5 && strncasecmp(p, "close", n) == 0)
			head->keep_alive = false;
		else if (n == 10 && strncasecmp(p, "keep-alive", n) == 0 && head->minor == 0)
			head->keep_alive = true;
		p += n;
	}
	return 0;
}

/* Headers that may be there once only (a second one is an attack), and headers that the server acts
 * upon. */
static const struct steering {
	const char *name;
	bool single;
	int (*apply)(const char *value, struct http_head *head);
} steering[] = {
    {"authorization", true, NULL},
    {"connection", false, on_connection},
    {"content-encoding", false, on_content_encoding},
    {"content-length", true, on_content_length},
    {"content-type", true, NULL},
    {"expect", true, on_expect},
    {"host", true, on_host},
    {"if-range", true, NULL},
    {"last-event-id", true, NULL},
    {"origin", true, NULL},
    {"range", true, NULL},
    {"sec-websocket-key", true, NULL},
    {"sec-websocket-version", true, NULL},
    {"transfer-encoding", true, on_transfer_encoding},
    {"x-api-key", true, NULL},
};

static bool seen_before(const char *buf, const struct http_head *head, const char *name)
{
	for (unsigned i = 0; i < head->n_fields; i++)
		if (strcasecmp(buf + head->fields[i].name, name) == 0)
			return true;
	return false;
}

static int apply_field(const char *buf, const char *name, const char *value, struct http_head *head)
{
	if (strncasecmp(name, "mcp-", 4) == 0)
		return seen_before(buf, head, name) ? 400 : 0;
	for (size_t i = 0; i < ARRAY_SIZE(steering); i++) {
		if (strcasecmp(name, steering[i].name) != 0)
			continue;
		if (steering[i].single && seen_before(buf, head, name) && wall_stands(WALL_SINGLE))
			return 400;
		return steering[i].apply ? steering[i].apply(value, head) : 0;
	}
	return 0;
}

/* Parses one line without its CRLF. A folded line begins with a blank, so its name is no token and
 * it is refused. */
static int parse_field(char *buf, char *line, size_t len, struct http_head *head)
{
	char *colon = memchr(line, ':', len);
	char *value, *end = line + len;
	int r;

	if (!colon || !http_is_token(line, (size_t)(colon - line)))
		return 400;
	value = colon + 1;
	if (!http_is_value(value, (size_t)(end - value)))
		return 400;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*colon = '\0';
	*end = '\0'; /* overwrites at most the CR of this line */
	if (head->n_fields == HTTP_HEADERS_MAX)
		return 431;
	r = apply_field(buf, line, value, head);
	if (r)
		return r;
	head->fields[head->n_fields].name = (uint16_t)(line - buf);
	head->fields[head->n_fields].value = (uint16_t)(value - buf);
	head->n_fields++;
	return 0;
}

static const char *get_field(const char *buf, const struct http_head *head, const char *name)
{
	for (unsigned i = 0; i < head->n_fields; i++)
		if (strcasecmp(buf + head->fields[i].name, name) == 0)
			return buf + head->fields[i].value;
	return NULL;
}

int http_head_parse(char *buf, size_t len, struct http_head *ret)
{
	struct http_head head = {0};
	char *line = buf, *end = buf + len, *cr;
	const char *host;
	int r;

	if (len > HTTP_HEAD_LIMIT)
		return 431;
	cr = memchr(line, '\r', len);
	if (!cr || cr + 2 > end)
		return 400;
	r = parse_request_line(line, (size_t)(cr - line), &head);
	for (line = cr + 2; r == 0; line = cr + 2) {
		cr = memchr(line, '\r', (size_t)(end - line));
		if (!cr || cr + 2 > end)
			return 400;
		if (cr == line)
			break;
		r = parse_field(buf, line, (size_t)(cr - line), &head);
	}
	if (r)
		return r;
	host = get_field(buf, &head, "host");
	if (!host && head.minor == 1)
		return 400;
	if (host && head.host == 0)
		head.host = (uint16_t)(host - buf);
	*ret = head;
	return 0;
}

const char *http_head_get(const char *buf, const struct http_head *head, const char *name)
{
	if (strcasecmp(name, "host") == 0)
		return head->host ? buf + head->host : NULL;
	return get_field(buf, head, name);
}
