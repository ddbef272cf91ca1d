/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/serve_hello.h"

#include <stdio.h>

static void of_server(const struct app *a, const char *base, bool needs_key)
{
	const char *files = links_base(a->links);

	(void)printf("Caisson %s, profile %s\n"
		     "  page   %s/\n"
		     "  MCP    %s/mcp   (older clients: %s/sse)\n"
		     "  files  %s\n\n"
		     "Claude Code:\n"
		     "  claude mcp add --transport http caisson %s/mcp%s\n"
		     "Other clients (mcp.json):\n"
		     "  {\"mcpServers\":{\"caisson\":{\"type\":\"http\",\"url\":\"%s/mcp\"%s}}}\n\n"
		     "Stop with Ctrl-C.\n",
		     CAISSON_VERSION, a->settings.profile, base, base, base, files ? files : "off",
		     base, needs_key ? " --header \"Authorization: Bearer $KEY\"" : "", base,
		     needs_key ? ",\"headers\":{\"Authorization\":\"Bearer KEY\"}" : "");
}

void serve_hello(const struct app *a, const char *base, uint16_t tls_port, bool needs_key)
{
	if (app_is_router(a))
		(void)printf("Caisson %s, router of a fleet\n"
			     "  MCP    %s/mcp   (older clients: %s/sse)\n\n"
			     "Stop with Ctrl-C.\n",
			     CAISSON_VERSION, base, base);
	else if (app_is_worker(a))
		(void)printf("Caisson %s, worker %s of a fleet\n"
			     "  for routers    https, port %u\n"
			     "  health checks  %s/healthz\n",
			     CAISSON_VERSION, a->member.name, tls_port, base);
	else
		of_server(a, base, needs_key);
	(void)fflush(stdout);
}
