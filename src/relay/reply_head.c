/* SPDX-License-Identifier: Apache-2.0 */
#include "relay/reply_head.h"

#include "base/parse.h"
#include "http/request_head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

size_t relay_reply_end(const char *buf, size_t len, size_t *scanned)
{
	for (size_t i = *scanned; i < len; i++) {
		const size_t cr = i + 1 < len && buf[i + 1] == '\r' ? 1 : 0;

		if (buf[i] != '\n')
			continue;
		if (i + 1 + cr >= len) { /* whether an empty line follows is not known yet */
			*scanned = i;
			return 0;
		}
		if (buf[i + 1 + cr] == '\n')
			return i + 2 + cr;
	}
	*scanned = len;
	return 0;
}

bool relay_is_of_connection(const char *name)
{
	static const char *const names[] = {
	    "connection", "keep-alive",        "proxy-connection", "te",
	    "trailer",    "transfer-encoding", "upgrade",          "content-length",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

/* The next line of what is left, cut off in place. False: there is none. */
static bool next_line(char **at, char *end, char **ret)
{
	char *lf = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;

	if (!lf)
		return false;
	*ret = *at;
	*at = lf + 1;
	*lf = '\0';
	if (lf > *ret && lf[-1] == '\r')
		lf[-1] = '\0';
	return true;
}

/* "HTTP/1.1 200 OK"; many servers leave the text out. */
static int parse_status(const char *line, struct relay_reply *ret)
{
	uint64_t status;

	if (strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') ||
	    line[8] != ' ' || strnlen(line + 9, 3) < 3 || (line[12] != ' ' && line[12] != '\0') ||
	    parse_u64_n(line + 9, 3, 100, 999, &status) < 0)
		return -EBADMSG;
	ret->status = (int)status;
	ret->closes = line[7] == '0';
	return 0;
}

static char *trim(char *value)
{
	value += strspn(value, " \t");
	for (size_t n = strlen(value); n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t'); n--)
		value[n - 1] = '\0';
	return value;
}

/* What the fields say about the end of the body. */
struct framing {
	bool chunked;
	bool has_length;
	bool closes;
	uint64_t length;
};

static int note_framing(struct framing *f, const char *name, const char *value)
{
	uint64_t length;

	if (strcasecmp(name, "transfer-encoding") == 0) {
		if (f->chunked || strcasecmp(value, "chunked") != 0)
			return -EBADMSG;
		f->chunked = true;
	} else if (strcasecmp(name, "content-length") == 0) {
		if (parse_u64(value, 0, INT64_MAX, &length) < 0 ||
		    (f->has_length && f->length != length))
			return -EBADMSG;
		f->has_length = true;
		f->length = length;
	} else if (strcasecmp(name, "connection") == 0) {
		f->closes = f->closes || strcasecmp(value, "keep-alive") != 0;
	}
	return 0;
}

static int add_line(struct relay_reply *ret, struct framing *f, char *line)
{
	char *colon = strchr(line, ':');

	if (!colon || !http_is_token(line, (size_t)(colon - line)))
		return 0;
	*colon = '\0';
	const char *value = trim(colon + 1);
	if (!http_is_value(value, strlen(value)))
		return 0;
	if (relay_is_of_connection(line))
		return note_framing(f, line, value);
	if (ret->n_fields == RELAY_FIELDS_MAX)
		return -EBADMSG;
	ret->fields[ret->n_fields].name = line;
	ret->fields[ret->n_fields++].value = value;
	return 0;
}

int relay_reply_parse(char *buf, size_t len, bool head, struct relay_reply *ret)
{
	struct framing f = {0};
	char *at = buf, *line;

	ret->n_fields = 0;
	if (memchr(buf, '\0', len) || !next_line(&at, buf + len, &line) ||
	    parse_status(line, ret) < 0)
		return -EBADMSG;
	while (next_line(&at, buf + len, &line))
		if (add_line(ret, &f, line) < 0)
			return -EBADMSG;
	ret->closes = ret->closes || f.closes;
	ret->has_length = f.has_length && !f.chunked;
	ret->length = ret->has_length ? f.length : 0;
	/* RFC 9112 §6.3; with both, the chunks count */
	if (head || ret->status < 200 || ret->status == 204 || ret->status == 304)
		ret->framing = RELAY_NO_BODY;
	else if (f.chunked)
		ret->framing = RELAY_CHUNKED;
	else
		ret->framing = f.has_length ? RELAY_LENGTH : RELAY_UNTIL_CLOSE;
	return 0;
}
