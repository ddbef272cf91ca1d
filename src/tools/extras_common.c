/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/extras.h"

#include "base/base64.h"
#include "base/parse.h"
#include "base/rand.h"
#include "base/text.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define FAIL_TEXT_MAX    16384 /* bytes */
#define FAIL_MESSAGE_MAX 1024

/* LINES: the message may have several. */
static void fail_text(struct mcp_call *call, const char *code, bool lines, const char *message,
		      const char *hint)
{
	json_t *said = tools_json_bytes(message, strlen(message));
	const char *text = said ? json_string_value(said) : "";
	_cleanup_(buf_done) struct buf b = BUF_INIT(FAIL_TEXT_MAX);
	int r = buf_printf(&b, "%s: ", code);

	r = r < 0 ? r : lines ? buf_add_str(&b, text) : text_add_line(&b, text, strlen(text));
	r = r < 0 ? r : buf_add_char(&b, '\n');
	if (r == 0 && *hint)
		r = buf_printf(&b, "What to do: %s\n", hint);
	json_t *object = json_pack("{s:s, s:o, s:s}", "error", code, "message", said, "hint", hint);
	mcp_call_finish(call, r < 0 ? (json_decref(object), NULL)
				    : mcp_tool_result(mcp_blocks(1, mcp_text(buf_str(&b), b.len)),
						      object, true));
}

void extras_fail(struct mcp_call *call, const char *code, const char *hint, const char *fmt, ...)
{
	char message[FAIL_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	fail_text(call, code, false, message, hint);
}

void extras_fail_lines(struct mcp_call *call, const char *code, const char *hint, const char *text)
{
	char message[FAIL_MESSAGE_MAX];

	(void)snprintf(message, sizeof(message), "%s", text);
	fail_text(call, code, true, message, hint);
}

void extras_fail_err(struct mcp_call *call, const struct err *e)
{
	/* Hints for errors whose row in the table of errors has none. */
	static const struct {
		enum err_code code;
		const char *hint;
	} hints[] = {
	    {ERR_SESSION_NOT_FOUND,
	     "Use the session_id of an earlier answer, or leave it out to get "
	     "a new session."},
	    {ERR_SESSION_BUSY, "Wait for the run to end, or use another session."},
	    {ERR_MAX_SESSIONS, "Close a session that is not needed any more with sandbox_delete."},
	    {ERR_NOT_FOUND, "List the files with sandbox_list_files."},
	    {ERR_INVALID_PATH, "Give a path below /mnt/data, such as /mnt/data/report.md."},
	    {ERR_FILE_EXISTS, "Set overwrite to true to replace it."},
	};
	const char *hint = err_code_hint(e->code);

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
		if (hints[i].code == e->code)
			hint = hints[i].hint;
	if (e->code == ERR_FILE_EXISTS && e->errnum == EISDIR)
		hint = "It is a folder, which a file cannot replace: give another path.";
	fail_text(call, err_code_name(e->code), false, e->text, hint);
}

bool extras_can_ask(const struct mcp_call *call)
{
	return mcp_call_client_has(call, "elicitation");
}

enum extras_word extras_ask(struct mcp_call *call, const char *key, const char *message,
			    const char *title)
{
	const json_t *answer = mcp_call_input(call, key);

	if (answer) {
		const char *action = json_string_value(json_object_get(answer, "action"));
		const json_t *content = json_object_get(answer, "content");
		bool yes = action && streq(action, "accept") &&
			   json_is_true(json_object_get(content, key));
		return yes ? EXTRAS_AGREED : EXTRAS_DECLINED;
	}
	struct mcp_input question = {
	    key, "elicitation/create",
	    json_pack("{s:s, s:s, s:{s:s, s:{s:{s:s, s:s}}, s:[s]}}", "mode", "form", "message",
		      message, "requestedSchema", "type", "object", "properties", key, "type",
		      "boolean", "title", title, "required", key)};
	mcp_call_need_input(call, &question, 1, NULL);
	return EXTRAS_ASKED;
}

/* "last": where this client worked last. OPTIONAL: if it worked nowhere yet, a new session serves it
 * as well. */
static bool last_id(struct mcp_call *call, bool optional, char *ret_id)
{
	const char *note = mcp_call_note(call), *other = mcp_call_other_note(call);

	if (other) {
		extras_fail(call, "session_not_found", "Give the session_id that you mean.",
			    "\"last\" may be %s or %s: your client has no MCP session, and "
			    "clients of its name used both in the last 15 minutes",
			    note, other);
		return false;
	}
	if (note && strlen(note) <= SANDBOX_ID_MAX) {
		memcpy(ret_id, note, strlen(note) + 1);
		return true;
	}
	if (optional)
		return true;
	extras_fail(call, "session_not_found",
		    "Give the session_id of an earlier answer; sandbox_list shows what there is.",
		    "You have worked in no session yet");
	return false;
}

bool extras_is_last(const json_t *arguments)
{
	const char *id = json_string_value(json_object_get(arguments, "session_id"));

	return id && streq(id, EXTRAS_LAST);
}

/* The id in the argument NAME. */
static bool get_id(struct mcp_call *call, const json_t *arguments, const char *name, bool optional,
		   char *ret_id)
{
	struct mcp_text_ref id = tools_text_arg(call, arguments, name);

	ret_id[0] = '\0';
	/* Models that must send every argument send an empty one for what they leave out. */
	if (optional && (id.text ? id.len == 0 : id.fd < 0))
		return true;
	if (id.text && streq(id.text, EXTRAS_LAST))
		return last_id(call, optional, ret_id);
	if (id.text && parse_is_session_id(id.text, id.len)) {
		memcpy(ret_id, id.text, id.len + 1);
		return true;
	}
	extras_fail(call, "invalid_session_id", "Use the session_id of an earlier answer.",
		    "A session_id has 1-64 letters, numbers, hyphens and underscores.");
	return false;
}

bool extras_session_id(struct mcp_call *call, const json_t *arguments, bool optional, char *ret_id)
{
	return get_id(call, arguments, "session_id", optional, ret_id);
}

bool extras_timeout(const struct tools *t, struct mcp_call *call, const json_t *arguments,
		    uint64_t *ret_ns)
{
	const uint64_t longest = manager_run_timeout_max_ns(t->config.manager) / NS_PER_S;
	int64_t seconds;

	*ret_ns = 0;
	if (!args_int(arguments, "timeout_s", &seconds))
		return true;
	if (longest > 0 && (uint64_t)seconds > longest) {
		extras_fail(call, "invalid_argument",
			    "Ask for that at most, and split longer work into several runs; its "
			    "files and, with stateful, its variables stay.",
			    "timeout_s is %jd, this server allows at most %ju", (intmax_t)seconds,
			    (uintmax_t)longest);
		return false;
	}
	*ret_ns = (uint64_t)seconds * NS_PER_S;
	return true;
}

static void fail_session(struct mcp_call *call, const char *id UNUSED, const struct err *e)
{
	extras_fail_err(call, e);
}

struct sandbox *extras_session(struct tools *t, struct mcp_call *call, const json_t *arguments)
{
	return extras_named_session(t, call, arguments, "session_id");
}

struct sandbox *extras_named_session(struct tools *t, struct mcp_call *call,
				     const json_t *arguments, const char *name)
{
	char id[SANDBOX_ID_MAX + 1];
	struct err e = ERR_INIT;

	if (!get_id(call, arguments, name, false, id))
		return NULL;
	struct sandbox *s = manager_find(t->config.manager, mcp_call_principal(call), id);
	if (!s && !tools_activate(t, call, id, fail_session)) {
		(void)manager_no_session(t->config.manager, mcp_call_principal(call), id, &e);
		extras_fail_err(call, &e);
	}
	return s;
}

bool extras_path(struct mcp_call *call, const json_t *arguments, char *ret_path)
{
	struct mcp_text_ref path = tools_text_arg(call, arguments, "path");
	struct err e = ERR_INIT;

	/* For the first family such a path is a file that is not there. */
	if (path.text && memchr(path.text, '\0', path.len))
		(void)err_set(&e, ERR_INVALID_PATH, 0, "a path cannot hold a NUL byte");
	else if (path.text && workspace_path(path.text, path.len, true, ret_path, &e) == 0)
		return true;
	if (e.code == ERR_NONE)
		(void)err_set(&e, ERR_INVALID_PATH, 0, "The path is too long");
	extras_fail_err(call, &e);
	return false;
}

int extras_add_cut(struct buf *b, const char *text, size_t len, size_t max, const char *where)
{
	if (len <= max)
		return buf_add(b, text, len);
	size_t head = text_utf8_cut(text, len, max / 2), tail = len - max / 2;

	while (tail < len && ((unsigned char)text[tail] & 0xC0) == 0x80)
		tail++;
	int r = buf_add(b, text, head);
	r = r < 0 ? r
		  : buf_printf(b, "\n[... %zu byte%s left out; %s ...]\n", tail - head,
			       text_s(tail - head), where);
	return r < 0 ? r : buf_add(b, text + tail, len - tail);
}

const char *extras_image_type(const uint8_t *data, size_t len)
{
	static const struct {
		const char *magic;
		size_t len;
		const char *type;
	} types[] = {
	    {"\x89PNG\r\n\x1a\n", 8, "image/png"},
	    {"\xFF\xD8\xFF", 3, "image/jpeg"},
	    {"GIF87a", 6, "image/gif"},
	    {"GIF89a", 6, "image/gif"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (len >= types[i].len && memcmp(data, types[i].magic, types[i].len) == 0)
			return types[i].type;
	if (len >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0)
		return "image/webp";
	return NULL;
}

json_t *extras_image_block(const void *data, size_t len)
{
	const char *type =
	    data && len <= EXTRAS_IMAGE_BYTES_MAX ? extras_image_type(data, len) : NULL;
	_cleanup_free_ char *text = type ? malloc(BASE64_ENCODED_LEN(len) + 1) : NULL;

	if (!text)
		return NULL;
	base64_encode(data, len, text);
	return mcp_image(text, BASE64_ENCODED_LEN(len), type);
}
