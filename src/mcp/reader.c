/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the bytes of one message and turns them into a document. */
#include "mcp/internal.h"

struct mcp_reader {
	struct buf text;
	size_t max_message;
	int fault;
};

struct mcp_reader *mcp_reader_new(const struct mcp_reader_config *config)
{
	struct mcp_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->max_message = config && config->max_message ? config->max_message : MCP_MESSAGE_MAX;
	buf_init(&r->text, r->max_message);
	return r;
}

struct mcp_reader *mcp_reader_free(struct mcp_reader *r)
{
	if (r) {
		buf_done(&r->text);
		free(r);
	}
	return NULL;
}

int mcp_reader_feed(struct mcp_reader *r, const char *bytes, size_t len)
{
	int e;

	if (r->fault < 0)
		return r->fault;
	e = buf_add(&r->text, bytes, len);
	if (e < 0)
		r->fault = e == -ENOBUFS ? -EMSGSIZE : e;
	return r->fault;
}

bool mcp_reader_is_blank(const struct mcp_reader *r)
{
	return r->fault == 0 && strspn(buf_str(&r->text), " \t\r\n") == r->text.len;
}

void mcp_reader_reset(struct mcp_reader *r)
{
	r->fault = 0;
	if (r->text.cap > MCP_LIFT_MIN)
		buf_done(&r->text);
	else
		buf_reset(&r->text);
}

struct lifted *lifted_ref(struct lifted *l)
{
	return l;
}

struct lifted *lifted_unref(struct lifted *l)
{
	(void)l;
	return NULL;
}

bool lifted_find(const struct lifted *l, const char *text, size_t len, struct mcp_text_ref *ret)
{
	(void)l;
	(void)text;
	(void)len;
	(void)ret;
	return false;
}

static bool too_deep(const char *s, size_t len)
{
	unsigned depth = 0;
	bool inside = false;

	for (size_t i = 0; i < len; i++) {
		if (inside) {
			if (s[i] == '\\')
				i++;
			else if (s[i] == '"')
				inside = false;
		} else if (s[i] == '"') {
			inside = true;
		} else if (s[i] == '{' || s[i] == '[') {
			if (++depth > MCP_DEPTH_MAX)
				return true;
		} else if ((s[i] == '}' || s[i] == ']') && depth > 0) {
			depth--;
		}
	}
	return false;
}

enum message_fault reader_take(struct mcp_reader *r, json_t **ret_root, struct lifted **ret_lifted,
			       const char **ret_why)
{
	enum message_fault fault = MESSAGE_OK;
	json_error_t e;

	*ret_lifted = NULL;
	*ret_root = NULL;
	if (r->fault < 0) {
		fault = r->fault == -EMSGSIZE ? MESSAGE_TOO_LARGE : MESSAGE_NO_MEMORY;
	} else if (too_deep(buf_str(&r->text), r->text.len)) {
		fault = MESSAGE_INVALID;
		*ret_why = "The message is nested too deeply";
	} else {
		*ret_root = json_loadb(buf_str(&r->text), r->text.len,
				       JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
		if (!*ret_root && json_error_code(&e) == json_error_duplicate_key) {
			fault = MESSAGE_INVALID;
			*ret_why = "The message has a duplicate key";
		} else if (!*ret_root) {
			fault = MESSAGE_NOT_JSON;
			*ret_why = "The message is not JSON";
		}
	}
	mcp_reader_reset(r);
	return fault;
}
