/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that MCP clients see: MCP arguments on one side, the sandbox manager on the other.
 *
 * tools_add() adds the tools of a profile to an MCP server. One struct tools can serve several MCP
 * servers. The owner of a sandbox is the principal of the MCP call. */
#pragma once

#include "base/err.h"
#include "mcp/mcp.h"
#include "packages/packages.h"
#include "sandbox/sandbox.h"

#include <stdbool.h>
#include <stdint.h>

struct tools;

/* A set of tools that a client sees; each tool is in one or several. */
enum tools_profile {
	TOOLS_IN_CODE = 1 << 0,    /* the first family, exactly */
	TOOLS_IN_CLASSIC = 1 << 1, /* the second family, exactly */
	TOOLS_IN_BOTH = 1 << 2,    /* the two together */
	TOOLS_IN_FULL = 1 << 3,    /* the lean family: what works best for a model */
	TOOLS_IN_ALL = 1 << 4,     /* every tool, each name once */
};

#define TOOLS_TIMEOUT_MAX_S   604800 /* the longest time that a call may ask for: a week */
#define TOOLS_LINK_QUERY_SIZE 80
#define TOOLS_INSTALL_WAIT_NS                                                                      \
	UINT64_C(5000000000) /* an installation of the second family is
						    * answered after this time at the latest */

/* FD is a regular file for reading, owned by the callee. On failure E says why (NOT_FOUND,
 * FORBIDDEN, ...). */
typedef void (*tools_local_fn)(int fd, const struct err *e, void *user);

struct tools_config {
	sd_event *loop;            /* borrowed */
	struct manager *manager;   /* borrowed */
	struct packages *packages; /* borrowed; NULL = no packages can be installed */
	struct budgets *budgets;   /* borrowed; NULL: nothing is bound */
	uint64_t max_upload_bytes;
	uint64_t max_read_bytes;
	uint64_t max_line_bytes; /* Limit of an answer with a file over stdio; a longer one has a
				  * link instead. 0 = no limit. The TypeScript SDKs end a
				  * connection when more than 10 MiB wait to be read: the line,
				  * and the piece of 64 KiB in which it ends. */
	uint64_t answer_bytes;   /* Limit of an answer of the lean family, and of a resource. 0 = no
				  * limit. Claude Desktop refuses more than 1 MB. */
	bool network_ask;        /* a model may ask its person for hosts */
	bool has_extras;         /* refusals may mention tools of the profile `full` */
	uint64_t max_code_bytes;
	uint64_t exec_timeout_s;  /* the time that the text of a timeout names */
	bool has_landlock;        /* the server runs under Landlock; for sandbox_info */
	size_t result_chars;      /* bytes of text in one answer of the extras */
	bool save_figures;        /* save open figures after every tool's runs */
	bool save_figures_extras; /* save open figures after the extras' runs */
	uint64_t task_after_s; /* a run of the extras becomes a task after this time, if the client
			   * knows tasks; 0 = never */
	/* The base of artifact links ("http://localhost:8080"), valid until the next call. It
	 * may start the listener. If it is NULL or returns NULL, links are null. */
	const char *(*link_base)(void *user);
	/* When links to files of a sandbox end. False: they have no query. NULL: none has. */
	bool (*link_expire)(void *user, const char *owner, const char *session, uint64_t *ret);
	/* Writes the query of a link, with its signature, to RET, which has TOOLS_LINK_QUERY_SIZE
	 * bytes. Any thread calls it. */
	void (*link_query)(const void *user, uint64_t expires, const char *owner,
			   const char *session, const char *path, char *ret);
	/* Writes a link by which a person puts one file into S to RET (SIZE bytes). CALLER is the
	 * call's principal_data, BASE is its mcp_call_base(); PATH "" = the file keeps its name. NULL: there are no such links. */
	int (*upload_link)(void *user, const void *caller, const char *base,
			   const struct sandbox *s, const char *path, bool overwrite, char *ret,
			   size_t size, struct err *e);
	uint64_t upload_link_s; /* life of such a link */
	/* Appends the address of the server on PORT of the sandbox ID for people. BASE: mcp_call_base(), or NULL. -ENOTSUP: there
	 * is none. NULL: the same. */
	int (*port_url)(void *user, const char *base, const char *owner, const char *id,
			uint16_t port, struct buf *ret);
	void *port_user;
	/* The base of the second family's links. */
	const char *(*classic_base)(void *user);
	void *link_user;
	/* The HTML page that shows results of the profile `full` to a person, inside clients that can
	 * show it (MCP Apps): LEN bytes that stay, or NULL without memory. NULL: this program was built without it. */
	const char *(*view)(size_t *len);
	/* The second family. */
	uint64_t max_classic_code;
	const char *local_user; /* the name that it shows for the owner ""; borrowed */
	/* Opens a file of the server's machine beneath the folders that the operator allows, with the
	 * rights of whoever started the server. NULL: no tool may open one. */
	int (*open_local)(void *user, const char *path, tools_local_fn cb, void *cb_user,
			  struct err *e);
	/* Where open_local() failed with errno EISDIR: gives a memory file with the names of all
	 * regular files in that folder and below it, each with a NUL. There is one if there is
	 * open_local(). */
	int (*list_local)(void *user, const char *path, tools_local_fn cb, void *cb_user,
			  struct err *e);
	/* Also for clients of another uid: only if the operator has named the folders. */
	bool local_for_others;
	void *local_user_data;
	/* Called with a person's answer when S wanted to reach DOMAIN; may be NULL. */
	void (*domain_answered)(const struct sandbox *s, const char *domain, bool allowed,
				void *user);
	void *domain_user;
	/* Adds a row to the audit log: PRINCIPAL did ACTION to OBJECT, with RESULT "ok" or the code of
	 * an error. May be NULL. */
	void (*audit)(const char *principal, const char *action, const char *object,
		      const char *result, void *user);
	void *audit_user;
	unsigned domain_again; /* how often a host may be asked for again within an hour */
};

struct tools *tools_new(const struct tools_config *config, struct err *e);
/* Free the MCP servers that use these tools first. Accepts NULL. */
struct tools *tools_free(struct tools *t);

/* Adds the tools of PROFILE, except those that need something this server does not have. */
int tools_add(struct tools *t, struct mcp_server *server, enum tools_profile profile,
	      struct err *e) MUST_CHECK;
/* Adds files of workspaces as resources, with notifications of changes. Call it once per
 * manager. */
int tools_add_resources(struct tools *t, struct mcp_server *server, struct err *e) MUST_CHECK;
/* The instructions for models in the profile `classic`: the order in which to use its tools. */
extern const char tools_classic_instructions[];
/* Adds prompts, and completion of names. */
int tools_add_prompts(struct tools *t, struct mcp_server *server, struct err *e) MUST_CHECK;

/* The limits and walls in CAPS (enum engine_cap) under the names that clients read: an owned
 * array, or NULL: no memory. */
json_t *tools_cap_names(uint32_t caps);
