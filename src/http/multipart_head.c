/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the parameters of Content-Type and the heads of parts. */
#include "base/text.h"
#include "http/multipart.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#define CONTENT_TYPE_MAX 512
#define TYPE             "multipart/form-data"
#define TOKEN            "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
/* RFC 2046: the last character may not be a blank. */
#define BOUNDARY_CHARS "'()+_,-./:=? 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

/* One `; name=value`. NAME and VALUE are slices; they are terminated only after the whole text was
 * read. */
struct param {
	char *name, *value;
	size_t name_len, value_len;
};

static int bad(struct err *e, const char *what)
{
	(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "the form is broken: %s", what);
	return -EINVAL;
}

static char *skip_blanks(char *p)
{
	return p + strspn(p, " \t");
}

/* Reads a quoted string, whose opening quote is at *P, and removes its escapes in place. */
static int read_quoted(char **p, struct param *param)
{
	char *from = *p + 1, *to = from;

	param->value = to;
	for (; *from != '"'; from++) {
		/* Browsers send backslashes as they are: only \" and \\ are escapes. */
		if (*from == '\\' && (from[1] == '"' || from[1] == '\\'))
			from++;
		if (*from == '\0')
			return -EINVAL;
		*to++ = *from;
	}
	param->value_len = (size_t)(to - param->value);
	*p = from + 1;
	return 0;
}

/* Returns 1 with the next parameter in *PARAM, 0 at the end of the text, or -EINVAL. */
static int next_param(char **at, struct param *param)
{
	char *p = skip_blanks(*at);

	if (*p == '\0')
		return 0;
	if (*p != ';')
		return -EINVAL;
	p = skip_blanks(p + 1);
	param->name = p;
	param->name_len = strspn(p, TOKEN);
	p += param->name_len;
	if (param->name_len == 0 || *p != '=')
		return -EINVAL;
	p++;
	if (*p == '"') {
		if (read_quoted(&p, param) < 0)
			return -EINVAL;
	} else {
		param->value = p;
		param->value_len = strspn(p, TOKEN);
		p += param->value_len;
		if (param->value_len == 0)
			return -EINVAL;
	}
	*at = p;
	return 1;
}

static bool is_named(const struct param *param, const char *name)
{
	return param->name_len == strlen(name) &&
	       strncasecmp(param->name, name, param->name_len) == 0;
}

static bool is_among(const char *name, size_t len, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(names[i]) == len && strncasecmp(name, names[i], len) == 0)
			return true;
	return false;
}

/* Reads all parameters at P and keeps the values of those in NAMES, NUL-terminated. Refuses a
 * second parameter of one name, and the extended form `name*` of one of NAMES if that is not there, too. */
static int read_params(char *p, const char *const *names, char **ret, size_t n)
{
	size_t lens[4] = {0};
	struct param param;
	int r;

	while ((r = next_param(&p, &param)) > 0) {
		if (param.name[param.name_len - 1] == '*' &&
		    !is_among(param.name, param.name_len, names, n) &&
		    is_among(param.name, param.name_len - 1, names, n))
			return -EINVAL;
		for (size_t i = 0; i < n; i++) {
			if (!is_named(&param, names[i]))
				continue;
			if (ret[i])
				return -EINVAL;
			ret[i] = param.value;
			lens[i] = param.value_len;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (ret[i])
			ret[i][lens[i]] = '\0';
	return r;
}

int multipart_boundary(const char *content_type, char *ret, struct err *e)
{
	static const char *const names[] = {"boundary"};
	char copy[CONTENT_TYPE_MAX], *value = NULL;
	size_t len;

	if (!content_type || strncasecmp(content_type, TYPE, strlen(TYPE)) != 0 ||
	    !strchr("; \t", content_type[strlen(TYPE)])) {
		(void)err_set(e, ERR_INVALID_ARGUMENT, 0, "the body must be " TYPE);
		return -EINVAL;
	}
	if (text_copy(copy, sizeof(copy), content_type + strlen(TYPE)) < 0 ||
	    read_params(copy, names, &value, 1) < 0)
		return bad(e, "its Content-Type cannot be read");
	len = value ? strlen(value) : 0;
	if (len == 0 || len > MULTIPART_BOUNDARY_MAX || strspn(value, BOUNDARY_CHARS) != len ||
	    value[len - 1] == ' ')
		return bad(e, "its Content-Type names no boundary of 1 to 70 characters");
	memcpy(ret, value, len + 1);
	return 0;
}

/* Decodes %22, %0D and %0A, the only escapes that browsers use in names of forms: "100%25" stays as
 * it is. */
static void unescape(char *text)
{
	static const struct {
		const char *code;
		char c;
	} escapes[] = {{"%22", '"'}, {"%0d", '\r'}, {"%0a", '\n'}};
	char *to = text;

	while (*text) {
		char c = *text;
		size_t len = 1;

		for (size_t i = 0; c == '%' && i < ARRAY_SIZE(escapes); i++)
			if (strncasecmp(text, escapes[i].code, 3) == 0) {
				c = escapes[i].c;
				len = 3;
			}
		*to++ = c;
		text += len;
	}
	*to = '\0';
}

/* Decodes an extended value of RFC 8187 (once 5987) in place: CHARSET'LANGUAGE'TEXT with %XX. */
static int decode_extended(char *text)
{
	const size_t charset = strcspn(text, "'");
	const bool latin1 = charset == 10 && strncasecmp(text, "iso-8859-1", charset) == 0;
	char *from = strchr(text, '\'') ? strchr(text + charset + 1, '\'') : NULL;
	char *to = text;

	if (!from || (!latin1 && (charset != 5 || strncasecmp(text, "utf-8", charset) != 0)))
		return -EINVAL;
	for (from++; *from; from++) {
		unsigned c = (uint8_t)*from;

		if (c == '%') {
			const int high = text_hex_digit(from[1]);
			const int low = high < 0 ? -1 : text_hex_digit(from[2]);

			if (low < 0)
				return -EINVAL;
			c = (unsigned)(high << 4 | low);
			from += 2;
		}
		if (c < 0x20 || c == 0x7f)
			return -EINVAL;
		if (latin1 && c >= 0x80) { /* two bytes in place of the three of its escape */
			*to++ = (char)(0xc0 | c >> 6);
			c = 0x80 | (c & 0x3f);
		}
		*to++ = (char)c;
	}
	*to = '\0';
	return text_is_utf8(text, (size_t)(to - text)) ? 0 : -EINVAL;
}

static int read_disposition(char *value, struct multipart_part *ret, struct err *e)
{
	static const char *const names[] = {"name", "filename", "filename*"};
	static const char form_data[] = "form-data";
	char *found[3] = {NULL, NULL, NULL};
	const size_t len = strlen(form_data);

	if (ret->name)
		return bad(e, "a part has two Content-Dispositions");
	if (strncasecmp(value, form_data, len) != 0 || !strchr("; \t", value[len]))
		return bad(e, "a part's Content-Disposition is not form-data");
	if (read_params(value + len, names, found, ARRAY_SIZE(found)) < 0)
		return bad(e, "a part's Content-Disposition cannot be read (each parameter once, "
			      "and no name*)");
	if (!found[0])
		return bad(e, "a part has no name");
	unescape(found[0]);
	if (found[1])
		unescape(found[1]);
	ret->name = found[0];
	if (found[2] && decode_extended(found[2]) < 0)
		return bad(e, "filename* is no text such as UTF-8''na%C3%AFve.txt");
	ret->filename = found[2] ? found[2] : found[1];
	return 0;
}

/* The bytes of a part are never decoded. An encoding is refused, because its sender expects that
 * they are. */
static int read_encoding(char *value, struct multipart_part *ret UNUSED, struct err *e)
{
	static const char *const plain[] = {"binary", "8bit", "7bit"};

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++)
		if (strcasecmp(value, plain[i]) == 0)
			return 0;
	return bad(e, "a part has a Content-Transfer-Encoding other than binary");
}

/* LINE has no line end and is NUL-terminated. */
static int read_line(char *line, struct multipart_part *ret, struct err *e)
{
	static const struct {
		const char *name;
		int (*read)(char *value, struct multipart_part *ret, struct err *e);
	} headers[] = {
	    {"content-disposition", read_disposition},
	    {"content-transfer-encoding", read_encoding},
	};
	const size_t len = strspn(line, TOKEN);
	char *value;

	if (len == 0 || line[len] != ':')
		return bad(e, "a part has a line that is no header");
	value = skip_blanks(line + len + 1);
	for (char *end = value + strlen(value); end > value && (end[-1] == ' ' || end[-1] == '\t');)
		*--end = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		if (strlen(headers[i].name) == len && strncasecmp(line, headers[i].name, len) == 0)
			return headers[i].read(value, ret, e);
	return 0;
}

static bool is_clean(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)line[i] < ' ' && line[i] != '\t')
			return false;
	return !memchr(line, 0x7f, len) && text_is_utf8(line, len);
}

int multipart_head_parse(char *head, size_t len, struct multipart_part *ret, struct err *e)
{
	struct multipart_part part = {0};
	size_t at = 0;

	while (at < len) {
		char *line = head + at;
		const char *cr = memchr(line, '\r', len - at);
		const size_t line_len = cr ? (size_t)(cr - line) : 0;

		if (!cr || at + line_len + 2 > len || cr[1] != '\n' || !is_clean(line, line_len))
			return bad(e, "the head of a part has a character that it may not have");
		line[line_len] = '\0';
		const int r = read_line(line, &part, e);
		if (r < 0)
			return r;
		at += line_len + 2;
	}
	if (!part.name)
		return bad(e, "a part has no Content-Disposition");
	*ret = part;
	return 0;
}
