/* SPDX-License-Identifier: Apache-2.0 */
/* Headers that repeat values of the body: their encoding, and the x-mcp-header annotations of
 * tools. */
#include "mcp/objects.h"

#include "base/jsonio.h"

#include <sodium.h>
#include <strings.h>

#define HEADER_VALUE_MAX (16U << 10) /* bytes of one header value */
#define HEADER_NAME_MAX  64U         /* bytes of an x-mcp-header name */
#define HEADER_PATH_DEPTH                                                                          \
	8U /* nesting of properties that may be repeated in
						     * a header */
#define HEADER_PARAMS_MAX                                                                          \
	32U /* arguments of one tool that are repeated in
						     * headers */
#define INTEGER_EXACT_MAX                                                                          \
	INT64_C(9007199254740991) /* 2^53 - 1: every JSON reader keeps integers up
						     * to here exact */

static const char sentinel_prefix[] = "=?base64?";
static const char sentinel_suffix[] = "?=";

int header_decode(const char *value, char **ret, size_t *ret_len)
{
	const size_t n_prefix = sizeof(sentinel_prefix) - 1;
	const size_t n_suffix = sizeof(sentinel_suffix) - 1;
	size_t len;
	char *out;

	value += strspn(value, " \t");
	len = strlen(value);
	while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
		len--;
	if (len > HEADER_VALUE_MAX)
		return -EINVAL;
	out = malloc(len + 1);
	if (!out)
		return -ENOMEM;
	if (len < n_prefix + n_suffix || memcmp(value, sentinel_prefix, n_prefix) != 0 ||
	    memcmp(value + len - n_suffix, sentinel_suffix, n_suffix) != 0) {
		memcpy(out, value, len);
		*ret_len = len;
	} else if (sodium_base642bin((unsigned char *)out, len, value + n_prefix,
				     len - n_prefix - n_suffix, NULL, ret_len, NULL,
				     sodium_base64_VARIANT_ORIGINAL) != 0 ||
		   !text_is_utf8(out, *ret_len)) {
		free(out);
		return -EINVAL;
	}
	out[*ret_len] = '\0';
	*ret = out;
	return 0;
}

bool header_equals(const char *value, const char *want)
{
	_cleanup_free_ char *decoded = NULL;
	size_t len;

	if (!value || header_decode(value, &decoded, &len) < 0)
		return false;
	return len == strlen(want) && memcmp(decoded, want, len) == 0;
}

/* ---- x-mcp-header ---- */

static bool is_token(const char *s)
{
	size_t len = strlen(s);

	if (len == 0 || len > HEADER_NAME_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		if ((s[i] < '0' || s[i] > '9') && (s[i] < 'A' || s[i] > 'Z') &&
		    (s[i] < 'a' || s[i] > 'z') && !strchr("!#$%&'*+-.^_`|~", s[i]))
			return false;
	}
	return true;
}

static int collect_one(struct item *tool, const json_t *property, const struct buf *path,
		       const char **ret_why)
{
	const json_t *given = json_object_get(property, "x-mcp-header");
	const char *name = json_string_value(given);
	const char *type = json_string_value(json_object_get(property, "type"));
	struct header_param *hp;

	if (!given)
		return 0;
	*ret_why = "not a header name";
	if (!name || !is_token(name))
		return -EINVAL;
	*ret_why = "only string, integer and boolean properties";
	if (!type || (!streq(type, "string") && !streq(type, "integer") && !streq(type, "boolean")))
		return -EINVAL;
	*ret_why = "the name is taken, or there are too many";
	for (size_t i = 0; i < tool->n_headers; i++) {
		if (strcasecmp(tool->headers[i].header, name) == 0)
			return -EINVAL;
	}
	if (tool->n_headers == HEADER_PARAMS_MAX)
		return -EINVAL;
	*ret_why = "out of memory";
	hp = reallocarray(tool->headers, tool->n_headers + 1, sizeof(*hp));
	if (!hp)
		return -ENOMEM;
	tool->headers = hp;
	hp += tool->n_headers++;
	hp->path = strdup(buf_str(path));
	hp->header = strdup(name);
	return hp->path && hp->header ? 0 : -ENOMEM;
}

static int collect(struct item *tool, const json_t *schema, struct buf *path, unsigned depth,
		   const char **ret_why)
{
	const json_t *properties = json_object_get(schema, "properties");
	const size_t len = path->len;
	const char *key;
	json_t *property;

	if (depth == 0)
		return 0;
	json_object_foreach((json_t *)(uintptr_t)properties, key, property) {
		int r = 0;

		if (len > 0)
			r = buf_add_char(path, '\n');
		if (r == 0)
			r = buf_add_str(path, key);
		if (r == 0)
			r = collect_one(tool, property, path, ret_why);
		if (r == 0)
			r = collect(tool, property, path, depth - 1, ret_why);
		if (r < 0)
			return r;
		path->len = len;
		if (path->data)
			path->data[len] = '\0';
	}
	return 0;
}

int header_params_collect(struct item *tool, const char **ret_why)
{
	struct buf path = BUF_INIT(4096);
	int r;

	*ret_why = "a property's name is too long";
	r = collect(tool, json_object_get(tool->doc, "inputSchema"), &path, HEADER_PATH_DEPTH,
		    ret_why);
	buf_done(&path);
	return r;
}

static const json_t *follow(const json_t *at, const char *path)
{
	while (*path && at) {
		size_t len = strcspn(path, "\n");

		at = json_object_getn(at, path, len);
		path += len + (path[len] == '\n');
	}
	return json_is_null(at) ? NULL : at;
}

/* True if TEXT is a JSON number and has the value WANT. */
static bool number_equals(double want, const char *text)
{
	json_auto_t *given = NULL;
	const int r = jsonio_read(text, strlen(text), JSON_DECODE_ANY, &given, NULL);
	double d = json_number_value(given);

	return r == 0 && json_is_number(given) && !(d < want) && !(d > want);
}

static bool value_equals(const struct mcp_call *c, const json_t *value, const char *text,
			 size_t len)
{
	struct mcp_text_ref ref;

	if (json_is_string(value))
		return mcp_call_text(c, value, &ref) == 0 && ref.text && ref.len == len &&
		       memcmp(ref.text, text, len) == 0;
	if (strlen(text) != len)
		return false;
	if (json_is_boolean(value))
		return streq(text, json_is_true(value) ? "true" : "false");
	if (json_is_integer(value)) {
		json_int_t i = json_integer_value(value);

		return i >= -INTEGER_EXACT_MAX && i <= INTEGER_EXACT_MAX &&
		       number_equals((double)i, text);
	}
	if (json_is_real(value))
		return number_equals(json_real_value(value), text);
	return false;
}

int header_params_check(const struct mcp_call *c, const struct item *tool, json_t *arguments,
			const struct mcp_http_facts *facts, const char **ret_header)
{
	for (size_t i = 0; i < tool->n_headers; i++) {
		const struct header_param *hp = &tool->headers[i];
		const json_t *value = follow(arguments, hp->path);
		const char *given = facts->param ? facts->param(facts->user, hp->header) : NULL;
		_cleanup_free_ char *decoded = NULL;
		size_t len;

		*ret_header = hp->header;
		if (!given && !value)
			continue;
		if (!given || !value || header_decode(given, &decoded, &len) < 0 ||
		    !value_equals(c, value, decoded, len))
			return -EINVAL;
	}
	return 0;
}
