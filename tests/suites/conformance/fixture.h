/* SPDX-License-Identifier: Apache-2.0 */
/* The tools, resources and prompts that the official MCP conformance suite wants to find on a
 * server. Their names and texts are the suite's; nothing here is part of the product. */
#pragma once

#include "base/err.h"
#include "mcp/content.h"
#include "mcp/mcp.h"

#include <systemd/sd-event.h>

/* What the whole fixture shares; the `user` of every handler. */
struct fixture {
	sd_event *loop;
	struct mcp_server *server;
};

/* A row of one of the fixture's tables of tools. */
struct fixture_tool {
	const char *name;
	const char *description;
	const char *input_schema; /* NULL: no arguments */
	mcp_tool_fn call;
	unsigned flags;
	const char *needs;
};

int fixture_add_all(struct fixture *f, struct err *e) MUST_CHECK;
int fixture_add_rows(struct fixture *f, const struct fixture_tool *rows, size_t n,
		     struct err *e) MUST_CHECK;
int fixture_add_content(struct fixture *f, struct err *e) MUST_CHECK;   /* content.c */
int fixture_add_inputs(struct fixture *f, struct err *e) MUST_CHECK;    /* inputs.c */
int fixture_add_tasks(struct fixture *f, struct err *e) MUST_CHECK;     /* tasks.c */
int fixture_add_resources(struct fixture *f, struct err *e) MUST_CHECK; /* resources.c */
int fixture_add_prompts(struct fixture *f, struct err *e) MUST_CHECK;   /* prompts.c */

/* Runs STEP(call, n) for n = 1, 2, … every MS milliseconds, until the call is finished. A cancel
 * finishes it. */
void fixture_every(struct fixture *f, struct mcp_call *call, unsigned ms,
		   void (*step)(struct mcp_call *call, unsigned n));

/* The string argument KEY, or DEF. */
const char *fixture_arg(const struct mcp_call *call, const json_t *args, const char *key,
			const char *def);
/* Finishes with one text block. */
void fixture_finish_text(struct mcp_call *call, const char *text);

/* A 1x1 red PNG and a silent WAV, base64. */
extern const char fixture_png[];
extern const char fixture_wav[];
