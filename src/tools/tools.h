/* SPDX-License-Identifier: Apache-2.0 */
/* The tools that clients see: MCP arguments on one side, the sandbox manager on the other.
 *
 * A tool family is added to an MCP registry; one `struct tools` serves any number of registries.
 * The owner of a sandbox is the principal of the MCP call. */
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
	TOOLS_IN_FULL = 1 << 3,    /* what works best for a model */
};

#define TOOLS_TIMEOUT_MAX_S   604800 /* the longest time that a call may ask for: a week */
#define TOOLS_LINK_QUERY_SIZE 80
#define TOOLS_INSTALL_WAIT_NS UINT64_C(5000000000) /* an installation is answered then at last */

/* FD is the callee's, a regular file to read; else E: NOT_FOUND, FORBIDDEN, ... */
typedef void (*tools_local_fn)(int fd, const struct err *e, void *user);

struct tools_config {
	sd_event *loop;            /* borrowed */
	struct manager *manager;   /* borrowed */
	struct packages *packages; /* borrowed; NULL = no packages can be installed */
	uint64_t max_upload_bytes;
	uint64_t max_read_bytes;
	uint64_t max_line_bytes; /* of an answer with a file over stdio: a longer one has the link
				  * instead; 0 = any. The TypeScript SDKs end a connection when more
				  * than 10 MiB wait for them: a line, and the piece (64 KiB) in
				  * which it ends */
	bool network_ask;        /* a model may have its person asked for hosts */
	bool has_extras;         /* what refusals may point to */
	uint64_t max_code_bytes;
	uint64_t exec_timeout_s;  /* what the text of a timeout says */
	bool has_landlock;        /* of the server, for sandbox_info */
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
	/* The same base for the links of the second family. */
	const char *(*classic_base)(void *user);
	void *link_user;
	/* The second family. */
	uint64_t max_classic_code;
	const char *local_user; /* what it calls the owner ""; borrowed */
	/* Opens a file of this machine beneath the folders that are allowed, with the rights of
	 * whoever started the server. NULL: no tool may. For clients of the same uid, and for others
	 * only where the operator named the folders. */
	bool local_for_others;
	int (*open_local)(void *user, const char *path, tools_local_fn cb, void *cb_user,
			  struct err *e);
	void *local_user_data;
	/* Told what a person answered when S wanted to reach DOMAIN; may be NULL. */
	void (*domain_answered)(const struct sandbox *s, const char *domain, bool allowed,
				void *user);
	void *domain_user;
	unsigned domain_again; /* for how many times a host may be asked for again within an hour */
};

struct tools *tools_new(const struct tools_config *config, struct err *e);
/* Registries that got tools of it must be gone. NULL is fine. */
struct tools *tools_free(struct tools *t);

/* Adds the tools of PROFILE, as far as this server has what they need. */
int tools_add(struct tools *t, struct mcp_server *server, enum tools_profile profile,
	      struct err *e) MUST_CHECK;
/* Artifacts as resources, told of when they change. Once per manager. */
int tools_add_resources(struct tools *t, struct mcp_server *server, struct err *e) MUST_CHECK;
/* What the profile `classic` says to a model at the start: the order in which its tools are used.
 */
extern const char tools_classic_instructions[];
/* Prompts, and completion of names. */
int tools_add_prompts(struct tools *t, struct mcp_server *server, struct err *e) MUST_CHECK;

/* The limits and walls in CAPS (enum engine_cap) by the names that clients read: an array (owned),
 * or NULL for want of memory. */
json_t *tools_cap_names(uint32_t caps);
