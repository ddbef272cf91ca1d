/* SPDX-License-Identifier: Apache-2.0 */
/* REST: terminals of a sandbox. A terminal is a background process with a PTY: it has an id, limits and an end as every other
 * one, and is among them in `processes`, too. terminal_socket.c attaches clients. */
#include "api/rest/rest.h"
#include "base/text.h"
#include "sandbox/process.h"

#define ROWS_DEFAULT    24
#define COLUMNS_DEFAULT 80

/* Images without bash have another shell. */
#define SHELL "command -v bash >/dev/null && exec bash -i; exec sh -i"

/* ---- start ---- */

static void start(struct rest_call *c)
{
	const char *command = rest_text(c, "command", NULL);
	const struct process_request q = {
	    .command = command ? command : "shell",
	    .rows = (uint32_t)rest_int(c, "rows", ROWS_DEFAULT),
	    .columns = (uint32_t)rest_int(c, "columns", COLUMNS_DEFAULT),
	};

	rest_begin_process(c, command ? command : SHELL, &q);
}

void rest_start_terminal(struct rest_call *c)
{
	rest_take_command(c, "terminal.start", start);
}

/* ---- look ---- */

static void add_row(struct process *p, void *user)
{
	struct process_facts f;

	process_look(p, &f);
	if (f.rows > 0)
		(void)json_array_append_new(user, rest_process_json(&f));
}

static void list(struct rest_call *c)
{
	json_t *all = json_array();

	sandbox_each_process(c->sandbox, add_row, all);
	rest_reply(c, 200, json_pack("{s:o}", "terminals", all));
}

void rest_list_terminals(struct rest_call *c)
{
	rest_sandbox(c, list);
}

/* The terminal c->text; NULL after it has answered, and C is gone. */
static struct process *need(struct rest_call *c, struct process_facts *ret)
{
	struct process *p = rest_need_process(c);

	if (!p)
		return NULL;
	process_look(p, ret);
	if (ret->rows > 0)
		return p;
	rest_refuse(c, ERR_NOT_FOUND, "The process %s has no terminal", c->text);
	return NULL;
}

/* May this client type? A browser adds its cookie by itself, to requests of other sites, too, and cannot add
 * X-Caisson-Page to a WebSocket: so with the cookie the page must be one of this very server. */
static bool may_attach(struct rest_call *c)
{
	if (c->who->read_only)
		rest_refuse(c, ERR_FORBIDDEN, "this key may only read");
	else if (!auth_may_change(c->who, "attachTerminal"))
		rest_refuse(c, ERR_FORBIDDEN, "this key is for the tools of one profile");
	else if (c->who->signin[0] && !http_request_is_same_origin(c->req))
		rest_refuse(c, ERR_FORBIDDEN,
			    "this request does not come from the page of this server");
	else
		return true;
	return false;
}

static void look(struct rest_call *c)
{
	struct process_facts f;
	struct process *p = need(c, &f);

	if (!p)
		return;
	if (!c->req || !http_request_wants_socket(c->req))
		rest_reply(c, 200, rest_process_json(&f));
	else if (may_attach(c))
		terminal_attach(c, p);
}

void rest_get_terminal(struct rest_call *c)
{
	rest_with_process(c, "terminal", NULL, look);
}

/* ---- end ---- */

static void remove_it(struct rest_call *c)
{
	struct process_facts f;

	if (need(c, &f))
		rest_forget_process(c);
}

void rest_remove_terminal(struct rest_call *c)
{
	rest_with_process(c, "terminal", "terminal.remove", remove_it);
}
