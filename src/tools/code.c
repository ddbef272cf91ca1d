/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the first tool family share, and its tools that list files and close
 * sessions. Names, schemas, texts and the order of checks are a published contract: they stay as
 * they are. */
#include "tools/code.h"

#include "base/parse.h"
#include "base/text.h"

#include <string.h>
#include <sys/stat.h>

#define ID_SHOWN_MAX 1000 /* bytes of a refused id that the message shows */

bool code_session_id(struct mcp_call *call, const json_t *arguments, char *ret_id)
{
	struct mcp_text_ref id = tools_text_arg(call, arguments, "session_id");

	ret_id[0] = '\0';
	if (!id.text && id.fd < 0)
		return true;
	if (id.text && parse_is_session_id(id.text, id.len)) {
		memcpy(ret_id, id.text, id.len + 1);
		return true;
	}
	struct tool_error error = TOOL_ERROR_INIT("invalid_session_id");
	size_t shown = id.text ? text_utf8_cut(id.text, id.len, ID_SHOWN_MAX) : 0;
	int r = buf_add_str(&error.message, "Invalid session_id '");
	r = r < 0 ? r : buf_add(&error.message, id.text ? id.text : "", shown);
	r = r < 0 ? r
		  : buf_printf(&error.message,
			       "%s'. Must be 1-64 characters: letters, numbers, hyphens, "
			       "underscores.",
			       shown < id.len ? "..." : "");
	if (r < 0)
		buf_reset(&error.message);
	tools_finish_error(call, &error);
	return false;
}

struct sandbox *code_session(struct tools *t, struct mcp_call *call, const char *id)
{
	struct sandbox *s = manager_find(t->config.manager, mcp_call_principal(call), id);

	if (!s && !tools_activate(t, call, id, code_finish_err))
		tools_finish_errorf(call, "session_not_found", "No active session with id %s", id);
	return s;
}

void code_finish_err(struct mcp_call *call, const char *id, const struct err *e)
{
	static const enum err_code own[] = {
	    ERR_INVALID_SESSION_ID, ERR_INVALID_FILENAME,  ERR_INVALID_PATH,   ERR_UPLOAD_TOO_LARGE,
	    ERR_INVALID_CONTENT,    ERR_FILE_EXISTS,       ERR_CODE_TOO_LARGE, ERR_MAX_SESSIONS,
	    ERR_SESSION_BUSY,       ERR_SESSION_NOT_FOUND, ERR_NOT_FOUND,
	};
	if (e->code == ERR_SANDBOX_LOST) {
		tools_finish_errorf(call, "session_not_found", "Container for session %s not found",
				    id);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (own[i] == e->code) {
			tools_finish_errorf(call, err_code_name(e->code), "%s", e->text);
			return;
		}
	const char *hint = err_code_hint(e->code);
	tools_finish_errorf(call, "execution_failed", "%s%s%s", e->text, *hint ? ". " : "", hint);
}

/* A call of a tool that takes a session and nothing else. NULL: the call is finished. */
static struct tool_call *call_of_session(struct tools *t, struct mcp_call *call,
					 const json_t *arguments, char *ret_id)
{
	if (!code_session_id(call, arguments, ret_id))
		return NULL;
	struct sandbox *s = code_session(t, call, ret_id);

	return s ? tool_call_new(t, call, s, sizeof(struct tool_call)) : NULL;
}

/* ---- sandbox_list_artifacts ---- */

struct listed {
	struct tools_links links;
	size_t n;
	struct engine_file files[];
};

/* Maybe on a thread. */
static json_t *make_list(void *user)
{
	const struct listed *l = user;
	json_t *items = json_array();

	for (size_t i = 0; i < l->n; i++)
		if (S_ISREG(l->files[i].mode) &&
		    json_array_append_new(items, tools_json_artifact(&l->links, l->files[i].name,
								     l->files[i].size)) < 0) {
			json_decref(items);
			return NULL;
		}
	return tools_result_of(json_pack("{s:o}", "artifacts", items));
}

static void listed_free(void *user)
{
	struct listed *l = user;

	tools_links_done(&l->links);
	free(l);
}

static void on_listed(const struct engine_file *files, size_t n, bool more UNUSED,
		      const struct err *e, void *user)
{
	struct tool_call *c = user;
	struct listed *l = e ? NULL : malloc(sizeof(*l) + n * sizeof(*files));

	if (e) {
		code_finish_err(c->call, sandbox_id(c->sandbox), e);
	} else if (!l) {
		mcp_call_finish_error(c->call, MCP_ERR_INTERNAL, "no memory", NULL);
	} else {
		*l = (struct listed){.n = n};
		if (n > 0) {
			memcpy(l->files, files, n * sizeof(*files));
			tools_links_begin(c->tools, c->call, c->sandbox, TOOLS_LINKS_FILES,
					  &l->links);
		}
		mcp_call_make(c->call, n > TOOLS_MANY_NAMES, make_list, listed_free, l);
	}
	tool_call_free(c);
}

void code_list_artifacts(struct mcp_call *call, json_t *arguments, void *user)
{
	char id[SANDBOX_ID_MAX + 1];
	struct err e = ERR_INIT;
	struct tool_call *c = call_of_session(user, call, arguments, id);

	if (!c || sandbox_list(c->sandbox, "", on_listed, c, &e) == 0)
		return;
	tool_call_free(c);
	code_finish_err(call, id, &e);
}

/* ---- sandbox_close_session ---- */

static void on_closed(const struct err *e, void *user)
{
	struct tool_call *c = user;

	if (e)
		code_finish_err(c->call, sandbox_id(c->sandbox), e);
	else
		tools_finish(c->call, json_pack("{s:s}", "status", "closed"));
	tool_call_free(c);
}

void code_close_session(struct mcp_call *call, json_t *arguments, void *user)
{
	char id[SANDBOX_ID_MAX + 1];
	struct err e = ERR_INIT;
	struct tool_call *c = call_of_session(user, call, arguments, id);

	if (!c || sandbox_close(c->sandbox, false, on_closed, c, &e) == 0)
		return;
	tool_call_free(c);
	if (e.code == ERR_SESSION_BUSY)
		tools_finish_errorf(call, "session_busy",
				    "Session %s is currently executing code. Wait for completion "
				    "before closing.",
				    id);
	else
		code_finish_err(call, id, &e);
}
