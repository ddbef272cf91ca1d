/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that clients see: MCP arguments on one side, the sandbox manager on the other.
 *
 * A tool family is added to an MCP registry; one `struct tools` serves any number of registries.
 * The owner of a sandbox is the principal of the MCP call. */
#pragma once

#include "base/err.h"
#include "mcp/mcp.h"
#include "sandbox/sandbox.h"

#include <stdbool.h>
#include <stdint.h>

struct tools;

#define TOOLS_LINK_QUERY_SIZE 80

struct tools_config {
	sd_event *loop;          /* borrowed */
	struct manager *manager; /* borrowed */
	uint64_t max_upload_bytes;
	uint64_t max_read_bytes;
	bool answers_fit; /* an answer that the client could not take becomes a link (profile full)
			   */
	uint64_t max_code_bytes;
	uint64_t exec_timeout_s;  /* what the text of a timeout says */
	size_t result_chars;      /* text of one answer of the extras */
	bool save_figures;        /* of every tool's runs */
	bool save_figures_extras; /* of the extras' */
	uint64_t
	    task_after_s; /* runs of the extras become tasks then, where clients can; 0 = never */
	/* Base of artifact links ("http://localhost:8080"), valid until the next call; may bind its
	 * listener now. NULL, or a NULL answer: links are null. */
	const char *(*link_base)(void *user);
	/* Writes what follows the path of a link ("" or a query with a signature) to RET, which has
	 * TOOLS_LINK_QUERY_SIZE bytes. NULL: nothing follows. */
	void (*link_query)(void *user, const char *owner, const char *session, const char *path,
			   char *ret);
	void *link_user;
};

struct tools *tools_new(const struct tools_config *config, struct err *e);
/* Registries that got tools of it must be gone. NULL is fine. */
struct tools *tools_free(struct tools *t);

/* The five tools of the first family, exactly. */
int tools_add_code(struct tools *t, struct mcp_server *server, struct err *e) MUST_CHECK;
/* The extras of the profile `full`. */
int tools_add_extras(struct tools *t, struct mcp_server *server, struct err *e) MUST_CHECK;
/* Artifacts as resources, told of when they change. Once per manager. */
int tools_add_resources(struct tools *t, struct mcp_server *server, struct err *e) MUST_CHECK;
/* What the profile `classic` says to a model at the start: the order in which its tools are used.
 */
extern const char tools_classic_instructions[];
/* Prompts, and completion of names. */
int tools_add_prompts(struct tools *t, struct mcp_server *server, struct err *e) MUST_CHECK;
