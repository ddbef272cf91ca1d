/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <string.h>

static void read_text(struct mcp_call *call, const char *uri, void *user)
{
	static const char text[] = "This is the content of the static text resource.";

	(void)user;
	mcp_call_finish(call, mcp_resource_result(mcp_blocks(
				  1, mcp_resource_text(uri, "text/plain", text, strlen(text)))));
}

static void read_binary(struct mcp_call *call, const char *uri, void *user)
{
	(void)user;
	mcp_call_finish(
	    call, mcp_resource_result(mcp_blocks(
		      1, mcp_resource_blob(uri, "image/png", fixture_png, strlen(fixture_png)))));
}

/* test://template/{id}/data */
static void read_template(struct mcp_call *call, const char *uri, void *user)
{
	const char *id = uri + strlen("test://template/");
	size_t len = strcspn(id, "/");
	char text[256];
	int n = snprintf(text, sizeof(text), "{\"id\":\"%.*s\",\"templateTest\":true}",
			 (int)MIN(len, sizeof(text) / 2), id);

	(void)user;
	mcp_call_finish(call, mcp_resource_result(mcp_blocks(
				  1, mcp_resource_text(uri, "application/json", text, (size_t)n))));
}

static const struct mcp_resource rows[] = {
    {.uri = "test://static-text",
     .name = "Static text",
     .description = "A text that never changes",
     .mime_type = "text/plain",
     .read = read_text},
    {.uri = "test://static-binary",
     .name = "Static binary",
     .description = "An image that never changes",
     .mime_type = "image/png",
     .read = read_binary},
    {.uri = "test://watched-resource",
     .name = "Watched resource",
     .description = "One to subscribe to",
     .mime_type = "text/plain",
     .read = read_text},
};

int fixture_add_resources(struct fixture *f, struct err *e)
{
	const struct mcp_resource tmpl = {
	    .uri = "test://template/{id}/data",
	    .name = "Template",
	    .description = "One for each id",
	    .mime_type = "application/json",
	    .read = read_template,
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int r = mcp_server_add_resource(f->server, &rows[i], e);

		if (r < 0)
			return r;
	}
	return mcp_server_add_template(f->server, &tmpl, e);
}
